"""The settings of the lossless study, and the registry rows that its live loops use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field, model_validator

from draftscope import registry
from draftscope.errors import UserError
from draftscope.stage import Fraction, Positive, Stage, no_duplicates
from draftscope.strict import Integer, Name, Number, Strict


class LiveConfiguration(Strict):
    pair: Name
    mode: Name = Field(description="a decoding mode of the registry")
    draft_lengths: list[Annotated[Positive, Field(le=1024)]] = Field(min_length=1)
    published: Literal["primary", "all_gguf", "stretch_7b", "mixed", "mixed_3b"] | None = Field(
        default=None, description="the published configuration it stands beside"
    )
    draft_dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        default=None, description="of the draft's weights, where it is not the target's"
    )


class VerifyLatency(Strict):
    tokens: list[Positive] = Field(min_length=1, description="tokens of one pass, each timed")
    context: Positive = Field(description="tokens that the cache holds before the pass")
    repeats: Positive = Field(description="timed passes of each, interleaved")

    @model_validator(mode="after")
    def _each_once(self) -> VerifyLatency:
        no_duplicates(self.tokens, "lossless.verify_latency.tokens")
        return self


class Equivalence(Strict):
    level: Fraction = Field(description="p-values below it reject")
    trials: Positive = Field(description="level 1: draws of each family")
    generations: Positive = Field(description="level 2: texts of each decoder")
    tokens: Positive = Field(description="level 2: tokens of a text")
    pair: Name = Field(description="level 3: the real pair")
    mode: Name = Field(description="level 3: its decoding mode, which must sample")
    draft_length: Positive = Field(description="level 3: draft length")
    prompts: Positive = Field(description="level 3: prompts")
    samples: Positive = Field(description="level 3: texts a prompt and method")
    batch_size: Positive = Field(
        default=1, description="level 3: texts decoded together; 1 is the loop over one text"
    )
    max_new_tokens: Annotated[Positive, Field(ge=2)] = Field(
        description="level 3: budget of a text, in tokens; the second one is compared by itself"
    )


class Divergence(Strict):
    dtype: Literal["bfloat16", "float16"] = Field(description="of target and draft")
    pair: Name
    mode: Name = Field(description="a greedy decoding mode of the registry")
    draft_length: Positive
    prompts: Positive = Field(description="how many of the study's domain, from the first")
    max_new_tokens: Positive = Field(description="budget of a text, in tokens")


class BatchSpeed(Strict):
    pair: Name
    mode: Name = Field(description="a decoding mode of the registry")
    draft_length: Annotated[Positive, Field(le=1024)]
    sizes: list[Annotated[Positive, Field(le=1024)]] = Field(
        min_length=1, description="texts decoded together"
    )
    prompts: Positive = Field(description="how many of the study's domain, from the first")
    repeats: Positive = Field(description="timed passes over each batch; medians count")

    @model_validator(mode="after")
    def _batches_are_full(self) -> BatchSpeed:
        no_duplicates(self.sizes, "lossless.batch.sizes")
        for size in self.sizes:
            if self.prompts % size:
                raise ValueError(
                    f"lossless.batch.prompts {self.prompts} is no multiple of the batch size {size}, "
                    f"so its last batch would not be full; the next one is "
                    f"{-(-self.prompts // size) * size}"
                )
        return self


class Lossless(Stage):
    domain: Name = Field(description="domain of its prompts")
    prompts: Positive = Field(description="how many of them, from the first")
    max_new_tokens: Positive = Field(description="budget of a text, in tokens")
    warm_up: Annotated[Integer, Field(ge=0)] = Field(
        description="texts of each draft length that are decoded first and thrown away"
    )
    repeats: Positive = Field(description="timed passes over the same text; medians count")
    draft_length: Positive = Field(description="draft length of the table of configurations")
    configurations: list[LiveConfiguration] = Field(min_length=1)
    replays: Positive = Field(description="replays of each live text that stand for its law")
    margin: Annotated[Number, Field(gt=0)] = Field(
        description="replay and live count as equal within so many tokens a round"
    )
    verify_latency: VerifyLatency
    batch: BatchSpeed
    equivalence: Equivalence
    divergence: Divergence | None = Field(
        default=None,
        description="greedy texts in a narrow data type, where near-ties may fall otherwise",
    )

    @property
    def most_prompts(self) -> int:
        """How many prompts of the domain its jobs read at most."""
        users = (
            self,
            self.batch,
            self.equivalence,
            *([self.divergence] if self.divergence else []),
        )
        return max(user.prompts for user in users)

    @model_validator(mode="after")
    def _configurations_can_be_compared(self) -> Lossless:
        names = [f"{c.pair}/{c.mode}" for c in self.configurations]
        no_duplicates(names, "lossless.configurations")
        beside = [c.published for c in self.configurations if c.published]
        no_duplicates(beside, "the published names of lossless.configurations")
        for name, configuration in zip(names, self.configurations, strict=True):
            no_duplicates(configuration.draft_lengths, f"lossless.configurations {name}")
            if self.draft_length not in configuration.draft_lengths:
                raise ValueError(
                    f"lossless.configurations {name} lacks draft length {self.draft_length}, "
                    "which the table of configurations shows"
                )
        if self.warm_up > self.prompts:
            raise ValueError(f"warm_up {self.warm_up} is more than {self.prompts} prompts")
        return self


@dataclass(frozen=True)
class Live:
    """Registry rows of what is decoded live; they need not be among those that are replayed.

    `problem` says why nothing can be decoded live, in an experiment that does not ask for it.
    """

    pairs: Mapping[str, dict] = field(default_factory=dict)
    domains: Mapping[str, dict] = field(default_factory=dict)
    modes: Mapping[str, dict] = field(default_factory=dict)
    problem: str | None = None


def resolve_live(block: Lossless, rows: Mapping[str, dict]) -> Live:
    """Look up what the study decodes.

    Args:
        rows: registry -> name -> row, as `registry.load_all` gives them.

    Raises:
        UserError: an unknown name, or a mode that nothing can be decoded in.
    """
    users = [*block.configurations, block.batch, block.equivalence]
    users += [block.divergence] if block.divergence else []
    pairs, modes = ([getattr(user, key) for user in users] for key in ("pair", "mode"))
    live = Live(
        registry.select(rows["pairs"], list(dict.fromkeys(pairs)), "pairs", "pair"),
        registry.select(rows["domains"], [block.domain], "domains", "domain"),
        registry.select(rows["modes"], list(dict.fromkeys(modes)), "modes", "mode"),
    )
    for name, mode in live.modes.items():
        if mode["imported"] is not None:
            raise UserError(f"mode {name!r} imports its text, so nothing can be decoded live in it")
    if block.divergence and live.modes[block.divergence.mode]["temperature"]:
        raise UserError(
            f"lossless.divergence.mode {block.divergence.mode!r} samples; whether two texts part at "
            "a near-tie can be told only where decoding is greedy"
        )
    if not live.modes[block.equivalence.mode]["temperature"]:
        raise UserError(
            f"lossless.equivalence.mode {block.equivalence.mode!r} is greedy; two laws can be "
            "compared only where tokens are sampled"
        )
    return live
