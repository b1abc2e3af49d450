"""Settings that every job with a model has, and what several blocks share."""

from __future__ import annotations

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
    runtime_minutes: Positive = Field(description="time that one job asks for, in minutes")


def no_duplicates(names: list, where: str) -> None:
    """Raises ValueError, which a settings model turns into its own message."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} stands twice in {where}")
