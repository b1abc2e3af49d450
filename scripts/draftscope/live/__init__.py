"""The live speculative loop: what replay is judged by, and what speed is measured with."""

from draftscope.live.loop import Decoded, Round, decode
from draftscope.live.model import CachedModel, Decoder, open_decoder
from draftscope.live.rules import RULES, Rule, rule_of

__all__ = [
    "RULES",
    "CachedModel",
    "Decoded",
    "Decoder",
    "Round",
    "Rule",
    "decode",
    "open_decoder",
    "rule_of",
]
