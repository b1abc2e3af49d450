"""What the position study asks for beside halves and curves: the trend, and the temperatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, model_validator

from draftscope import registry
from draftscope.checkpoints import BLOCK_DRAFTS, TEXT_DRAFTS
from draftscope.errors import UserError
from draftscope.stage import DomainUse, Positive, no_duplicates
from draftscope.strict import Name, Number, Strict, nearest

LEAVE_OUT = "set position.temperatures to null to leave the sweep out"


class Trend(Strict):
    lengths: list[Positive] = Field(
        min_length=1, description="texts that reach each of them are compared up to it, in tokens"
    )
    margin: Annotated[Number, Field(gt=0, lt=1)] = Field(
        description="change of acceptance by a doubling of the position that counts as none"
    )

    @model_validator(mode="after")
    def _rises(self) -> Trend:
        if sorted(set(self.lengths)) != self.lengths:
            raise ValueError("position.trend.lengths must rise")
        return self


class Configuration(Strict):
    pair: Name
    label: Name = Field(description="the column of the published tables it stands beside")


class Temperatures(Strict):
    pair: Name | None = Field(
        default=None,
        description="one of the experiment's pairs; null: the first of position.configurations "
        "whose draft has probabilities",
    )
    modes: list[Name] = Field(
        min_length=2, description="decoding modes; each has texts of its own, scored under all"
    )
    prompts: Positive = Field(description="at most so many of the study's domain, from the first")
    max_new_tokens: Positive = Field(
        description="at most so many tokens of each text, from its beginning"
    )

    @model_validator(mode="after")
    def _modes_stand_once(self) -> Temperatures:
        no_duplicates(self.modes, "position.temperatures.modes")
        return self


class Position(Strict):
    domain: Name = Field(description="domain that the study's tables and figures are about")
    draft_length: Positive = Field(description="draft length of the tables")
    configurations: list[Configuration] = Field(min_length=1)
    bin_width: Positive = Field(description="width of a position bin of Figure 1, in tokens")
    support_prompts: Positive = Field(description="fewest prompts of a bin that is drawn")
    trend: Trend
    temperatures: Temperatures | None = Field(description="texts at several temperatures, or null")


@dataclass(frozen=True)
class Sweep:
    """The texts of the sweep over temperatures, and registry rows that only it uses.

    `modes` are those that the experiment does not generate anyway. `problem` says why there can
    be no sweep.
    """

    pair: str = ""
    target: str = ""
    draft: str = ""
    use: DomainUse | None = None
    laws: Mapping[str, dict[str, float]] = field(default_factory=dict)
    modes: Mapping[str, dict] = field(default_factory=dict)
    domains: Mapping[str, dict] = field(default_factory=dict)
    problem: str | None = None

    def generates(self, target: str, domain: str, mode: str) -> bool:
        """Whether the text is generated for the sweep alone."""
        return (
            self.use is not None
            and mode in self.modes
            and (target, domain) == (self.target, self.use.name)
        )


def resolve_sweep(
    block: Temperatures | None,
    rows: Mapping[str, dict],
    pairs: Mapping[str, dict],
    configured: Sequence[str],
    main: DomainUse,
    modes: Sequence[str],
) -> Sweep:
    """Look up what the sweep needs, and check it against what the experiment has anyway.

    Args:
        rows: registry -> name -> row, as `registry.load_all` gives them.
        pairs: the experiment's pairs.
        configured: those of `position.configurations`.
        main: the study's domain with the size that the experiment has of it.
        modes: the experiment's modes.

    Raises:
        UserError: no sweep is asked for, an unknown name, or a draft without probabilities.
    """
    if block is None:
        raise UserError("position.temperatures is null, so that there is no sweep")
    name = _pair(block, rows, pairs, configured)
    if name is None:
        raise UserError(
            "position.temperatures: no pair of position.configurations has a draft with probabilities"
        )
    pair = pairs[name]
    found = registry.select(rows["modes"], block.modes, "modes", "mode")
    own = {mode: row for mode, row in found.items() if mode not in modes}
    for mode, row in own.items():
        where = "position.temperatures: "
        registry.require_imports(where, mode, row, [main.name], f"; {LEAVE_OUT}")
    if any(row["imported"] is None for row in own.values()):
        models = registry.models_of({name: pair}, rows["models"])
        registry.refuse_llama_cpp({name: pair}, models, ("target",), "generate texts in batches")
    laws = {
        mode: {key: row[key] for key in ("temperature", "top_k", "top_p")}
        for mode, row in found.items()
    }
    use = DomainUse(
        name=main.name,
        prompts=min(block.prompts, main.prompts),
        max_new_tokens=min(block.max_new_tokens, main.max_new_tokens),
    )
    return Sweep(name, pair["target"], pair["draft"], use, laws, own)


def _pair(
    block: Temperatures,
    rows: Mapping[str, dict],
    pairs: Mapping[str, dict],
    configured: Sequence[str],
) -> str | None:
    def proposes_only(name: str) -> bool:
        return kind_of(name) in TEXT_DRAFTS | BLOCK_DRAFTS

    def kind_of(name: str) -> str | None:
        return rows["models"].get(pairs[name]["draft"], {}).get("kind")

    if block.pair is None:
        known = (name for name in configured if name in pairs)
        return next((name for name in known if not proposes_only(name)), None)
    if block.pair not in pairs:
        raise UserError(
            f"position.temperatures.pair {block.pair!r} is not among the experiment's pairs"
            f"{nearest(block.pair, list(pairs))}"
        )
    if proposes_only(block.pair):
        raise UserError(
            f"position.temperatures.pair {block.pair!r}: "
            f"{(TEXT_DRAFTS | BLOCK_DRAFTS)[kind_of(block.pair)]} has no probabilities at every "
            f"position that a temperature could move; {LEAVE_OUT}"
        )
    return block.pair
