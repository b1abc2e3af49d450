"""Settings that every job with a model has, and what several blocks share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from draftscope.strict import Integer, Name, Number, Strict

Positive = Annotated[Integer, Field(ge=1)]
Fraction = Annotated[Number, Field(gt=0, lt=1)]


class DomainUse(Strict):
    name: Name = Field(description="a domain of the registry")
    prompts: Positive = Field(description="how many of its prompts, from the first")
    max_new_tokens: Annotated[Positive, Field(le=1_000_000)] = Field(
        description="budget of one trajectory, in tokens"
    )


class Request(Strict):
    """What a job with one model asks for, where that is not what its stage says."""

    gpus: Annotated[Integer, Field(ge=0)] | None = Field(None, description="GPUs")
    memory_mb: Positive | None = Field(None, description="memory in MB")
    runtime_minutes: Positive | None = Field(None, description="time in minutes")


class Stage(Strict):
    device: Literal["auto", "cuda", "mps", "cpu", "balanced"] = Field(
        description="auto takes the best present; balanced spreads a large model over all GPUs"
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(description="of the loaded weights")
    attention: Literal["sdpa", "eager", "flash_attention_2"] = Field(
        description="attention implementation of transformers"
    )
    threads: Annotated[Positive, Field(le=1024)] = Field(
        description="CPU threads of one job; part of the numbers"
    )
    gpus: Annotated[Integer, Field(ge=0)] = Field(description="GPUs that one job asks for")
    memory_mb: Positive = Field(description="memory that one job asks for, in MB")
    runtime_minutes: Positive = Field(
        description="time that one job asks for, in minutes for each batch of prompts of its shard and each sample"
    )
    for_models: dict[Name, Request] = Field(
        default_factory=dict,
        description="model -> what its jobs ask for instead; of several models the largest counts",
    )

    def asks(self, what: str, models: Iterable[str]) -> int:
        """What a job with these models asks for: `gpus`, `memory_mb` or `runtime_minutes`."""
        own = [getattr(self.for_models[name], what) for name in models if name in self.for_models]
        return max((value for value in own if value is not None), default=getattr(self, what))


def no_duplicates(names: list, where: str) -> None:
    """Raises ValueError, which a settings model turns into its own message."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} stands twice in {where}")
