"""The settings of the interventions, of trained drafts, and the pairs that they are measured on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftscope import registry
from draftscope.errors import UserError
from draftscope.stage import DomainUse, Positive, Stage, no_duplicates
from draftscope.strict import Name, Number, Strict, nearest


class Arm(Strict):
    label: Name = Field(description="what tables and figures call it")
    pair: Name = Field(
        description="a pair whose draft is an adapter (kind lora) of the base's draft"
    )


class Accuracy(Strict):
    domains: list[Name] = Field(min_length=1, description="domains with a checker of answers")
    prompts: Positive = Field(description="how many of each, from the first")
    checkers: dict[Name, Literal["math", "reasoning_gym"]] = Field(
        default_factory=dict,
        description="domain -> what judges its answers, where that is not its own checker",
    )
    draft_length: Annotated[Positive, Field(le=1024)] = Field(description="of the live loop")
    batch_size: Positive = Field(description="texts decoded together")


class Interventions(Stage):
    domain: Name = Field(description="domain of its tables and figures")
    draft_length: Positive = Field(description="draft length of its tables and figures")
    untrained: Name | None = Field(
        default=None, description="pair with the draft before it was distilled; null: none"
    )
    margin: Annotated[Number, Field(ge=0, le=1)] = Field(
        description="greedy match that distillation is to gain in every domain"
    )
    base: Name = Field(description="pair whose draft the adapters start from")
    arms: list[Arm] = Field(min_length=2)
    control: Name = Field(description="label of the arm that the others are compared with")
    diagnostic_prompts: Positive = Field(description="prompts of Figure 8, from the first")
    entropy_bins: Annotated[Positive, Field(ge=2, le=50)] = Field(
        description="bins of the target's entropy in Figure 8, with equal numbers of positions"
    )
    accuracy: Accuracy

    @model_validator(mode="after")
    def _arms_are_told_apart(self) -> Interventions:
        labels = [arm.label for arm in self.arms]
        no_duplicates(labels, "the labels of interventions.arms")
        no_duplicates([arm.pair for arm in self.arms], "the pairs of interventions.arms")
        if self.control not in labels:
            raise ValueError(
                f"interventions.control {self.control!r} is no label of interventions.arms"
                f"{nearest(self.control, labels)}"
            )
        if "base" in labels or "target" in labels:
            raise ValueError("interventions.arms: base and target name what arms are compared with")
        no_duplicates(self.accuracy.domains, "interventions.accuracy.domains")
        return self

    @property
    def pairs(self) -> list[str]:
        """All pairs of the study: the untrained one, the base, the arms."""
        first = [self.untrained] if self.untrained else []
        return list(dict.fromkeys([*first, self.base, *(arm.pair for arm in self.arms)]))


@dataclass(frozen=True)
class InterventionStudy:
    """Registry rows of the study's pairs; they need not be among those of the experiment.

    `problem` says why there can be no such study, in an experiment that does not ask for it.
    """

    pairs: Mapping[str, dict] = field(default_factory=dict)
    problem: str | None = None


def resolve_interventions(
    block: Interventions,
    rows: Mapping[str, dict],
    pairs: Mapping[str, dict],
    modes: Mapping[str, dict],
    domains: Sequence[DomainUse],
    draft_lengths: Sequence[int],
) -> InterventionStudy:
    """Look up the study's pairs and check them against what the experiment generates.

    Args:
        rows: registry -> name -> row, as `registry.load_all` gives them.
        pairs, modes, domains, draft_lengths: of the experiment.

    Raises:
        UserError: an unknown name; pairs of different targets, or of one that the experiment
            generates no text by; arms that differ in more than their weighting; a domain without
            texts or without a checker; a draft group that the experiment scores too.
    """
    study = registry.select(rows["pairs"], block.pairs, "pairs", "pair")
    target = study[block.base]["target"]
    for name, pair in study.items():
        if pair["target"] != target:
            raise UserError(
                f"interventions: pair {name!r} has target {pair['target']!r}, the base has "
                f"{target!r}; all are measured on one target's text"
            )
        shared = {row["draft_group"] for other, row in pairs.items() if other not in study}
        if name not in pairs and pair["draft_group"] in shared:
            raise UserError(
                f"interventions: pair {name!r} is scored in draft group {pair['draft_group']!r}, "
                "which the experiment's own pairs use; give it a group of its own"
            )
    if target not in {pair["target"] for pair in pairs.values()}:
        raise UserError(
            f"interventions: the experiment has no text by {target!r}, the target of pair "
            f"{block.base!r}; put a pair of that target among its pairs"
        )
    if block.untrained and all(mode["temperature"] for mode in modes.values()):
        raise UserError(
            "interventions.untrained: what distillation gained is read off greedy text, and the "
            "experiment has no greedy mode; add one to modes, or set it to null"
        )
    models = registry.models_of(study, rows["models"])
    _check_arms(block, study, models)
    _check_domains(block, rows, domains)
    if block.draft_length not in draft_lengths:
        raise UserError(
            f"interventions.draft_length {block.draft_length} is not among draft_lengths "
            f"{list(draft_lengths)}"
        )
    return InterventionStudy(study)


def _check_arms(
    block: Interventions, study: Mapping[str, dict], models: Mapping[str, dict[str, Any]]
) -> None:
    base = study[block.base]["draft"]
    first: tuple[str, dict[str, Any]] | None = None
    weightings: dict[Any, str] = {}
    for arm in block.arms:
        name = study[arm.pair]["draft"]
        row = models[name]
        if row["kind"] != "lora" or row["base"] != base:
            raise UserError(
                f"interventions.arms {arm.label!r}: its draft {name!r} is no adapter (kind lora) of "
                f"{base!r}, the draft of the base"
            )
        weighting = (row["weighting"], row["emphasis"] if row["weighting"] == "reflection" else 0)
        same = {key: row[key] for key in row if key not in ("weighting", "emphasis")}
        if weighting in weightings:
            raise UserError(
                f"interventions.arms {weightings[weighting]!r} and {arm.label!r} have one weighting"
            )
        weightings[weighting] = arm.label
        if first is not None and same != first[1]:
            key = next(key for key in same if same[key] != first[1][key])
            raise UserError(
                f"interventions.arms {first[0]!r} and {arm.label!r} differ in {key}; arms differ in "
                "their weighting alone"
            )
        first = first or (arm.label, same)
    control = next(arm for arm in block.arms if arm.label == block.control)
    if models[study[control.pair]["draft"]]["weighting"] != "uniform":
        raise UserError(f"interventions.control {block.control!r} has not the weighting uniform")


def _check_domains(
    block: Interventions, rows: Mapping[str, dict], domains: Sequence[DomainUse]
) -> None:
    own = {use.name: use for use in domains}
    for name in (block.domain, *block.accuracy.domains):
        if name not in own:
            raise UserError(
                f"interventions: domain {name!r} is not among the experiment's domains"
                f"{nearest(name, list(own))}"
            )
    found = registry.select(rows["domains"], block.accuracy.domains, "domains", "domain")
    # Where mappings are merged a domain of the experiment below stays, so that a foreign name is no
    # mistake by itself; one that is almost a domain of these is.
    for name in block.accuracy.checkers:
        close = difflib.get_close_matches(name, block.accuracy.domains, 1, cutoff=0.8)
        if name not in rows["domains"] and close:
            raise UserError(
                f"interventions.accuracy.checkers names {name!r}, which is no domain; did you mean "
                f"{close[0]!r}?"
            )
    for name, row in found.items():
        checker = block.accuracy.checkers.get(name, row.get("checker"))
        if checker not in ("reasoning_gym", "math"):
            raise UserError(
                f"interventions.accuracy: domain {name!r} has checker {checker!r}; answers are "
                "checked by math or reasoning_gym"
            )
        if checker == "reasoning_gym" and row["source"] != "reasoning_gym":
            raise UserError(
                f"interventions.accuracy: checker reasoning_gym knows its own problems alone, and "
                f"those of domain {name!r} are of source {row['source']!r}; let math check them"
            )
        if block.accuracy.prompts > own[name].prompts:
            raise UserError(
                f"interventions.accuracy wants {block.accuracy.prompts} prompts of domain {name!r}, "
                f"which has {own[name].prompts} in this experiment"
            )
