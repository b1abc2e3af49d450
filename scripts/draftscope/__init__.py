"""draftscope: how a draft model's tokens are accepted by a target model."""

__version__ = "0.1.0"
