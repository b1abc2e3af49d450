"""The settings of the studies of block drafters, and the registry rows that they use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftscope import block_pairs, registry
from draftscope.block_study import checks
from draftscope.errors import UserError
from draftscope.position.settings import Sweep
from draftscope.prompts import collecting
from draftscope.stage import DomainUse, Positive, Stage, no_duplicates
from draftscope.strict import Integer, Name, Number, Strict, nearest

DraftLength = Annotated[Positive, Field(le=1023)]


class BlockArm(Strict):
    label: Name = Field(description="what tables and figures call it")
    pairs: list[Name] = Field(min_length=1, description="one pair for each training of its draft")

    @model_validator(mode="after")
    def _each_once(self) -> BlockArm:
        no_duplicates(self.pairs, f"the pairs of arm {self.label!r}")
        return self


def _told_apart(arms: Sequence[BlockArm], where: str) -> None:
    no_duplicates([arm.label for arm in arms], f"the labels of {where}")
    no_duplicates([pair for arm in arms for pair in arm.pairs], f"the pairs of {where}")


class Speed(Strict):
    domains: list[Name] = Field(min_length=1, description="some of the study's domains")
    modes: list[Name] = Field(min_length=1, description="some of its modes")
    prompts: Annotated[Positive, Field(ge=2)] = Field(
        description="how many of each domain, from the first"
    )
    max_new_tokens: Positive = Field(description="budget of a text, in tokens")
    warm_up: Annotated[Integer, Field(ge=0)] = Field(
        description="texts that are decoded first and thrown away"
    )
    repeats: Positive = Field(description="timed passes over the same text; medians count")

    @model_validator(mode="after")
    def _enough_prompts(self) -> Speed:
        if self.warm_up > self.prompts:
            raise ValueError(f"warm_up {self.warm_up} is more than {self.prompts} prompts")
        return self


class Losses(Stage):
    domains: list[DomainUse] = Field(min_length=1, description="whose text is drafted for")
    modes: list[Name] = Field(min_length=1, description="decoding modes of that text")
    draft_length: DraftLength = Field(
        description="tokens that a block offers, its size - 1 at most"
    )
    reference: Name = Field(description="label of the arm that the others are compared with")
    arms: list[BlockArm] = Field(min_length=2, description="drafts that differ in their loss")
    grid: list[BlockArm] = Field(
        default_factory=list, description="the same for the target losses_grid"
    )
    baselines: dict[Name, Name] = Field(
        default_factory=dict, description="label -> pair whose draft has no model"
    )
    effect: Annotated[Number, Field(gt=0)] = Field(
        description="difference in tokens a round that is worth finding, for planning"
    )
    speed: Speed | None = Field(description="live decoding that is timed; null: none")

    @model_validator(mode="after")
    def _arms_are_told_apart(self) -> Losses:
        no_duplicates([use.name for use in self.domains], "losses.domains")
        no_duplicates(self.modes, "losses.modes")
        for where, arms in (("losses.arms", self.arms), ("losses.grid", self.grid)):
            _told_apart(arms, where)
            labels = [arm.label for arm in arms]
            if arms and self.reference not in labels:
                raise ValueError(
                    f"losses.reference {self.reference!r} is no label of {where}"
                    f"{nearest(self.reference, labels)}"
                )
            both = sorted(set(labels) & set(self.baselines))
            if both:
                raise ValueError(f"{both[0]!r} is a label of {where} and of losses.baselines")
        return self

    def pairs(self) -> list[str]:
        """Every pair, arms first."""
        trained = [pair for arm in (*self.arms, *self.grid) for pair in arm.pairs]
        return list(dict.fromkeys([*trained, *self.baselines.values()]))


class RetraceDomain(DomainUse):
    published: Literal[
        "GSM8K", "MATH-500", "AIME25", "HumanEval", "LCB", "MT-Bench", "Alpaca", "MBPP"
    ] | None = Field(default=None, description="the published benchmark that it stands beside")  # fmt: skip


class Retrace(Stage):
    domains: list[RetraceDomain] = Field(min_length=1)
    modes: list[Name] = Field(min_length=1, description="decoding modes")
    draft_length: DraftLength = Field(
        description="tokens that a block offers, its size - 1 at most"
    )
    backbone: Name = Field(description="label of the arm whose drafts the others start from")
    control: Name = Field(description="label of the arm that trains on without the memory")
    arms: list[BlockArm] = Field(min_length=2, description="the backbone and variants of ReTrace")
    warm_up: Annotated[Integer, Field(ge=0)] = Field(
        description="texts that are decoded first and thrown away"
    )
    repeats: Positive = Field(description="timed passes over the same text; medians count")
    effect: Annotated[Number, Field(gt=0)] = Field(
        description="difference in tokens a round that is worth finding, for planning"
    )

    @model_validator(mode="after")
    def _arms_are_told_apart(self) -> Retrace:
        no_duplicates(self.modes, "retrace.modes")
        _told_apart(self.arms, "retrace.arms")
        labels = [arm.label for arm in self.arms]
        for role in ("backbone", "control"):
            if getattr(self, role) not in labels:
                raise ValueError(
                    f"retrace.{role} {getattr(self, role)!r} is no label of retrace.arms"
                    f"{nearest(getattr(self, role), labels)}"
                )
        no_duplicates([domain.name for domain in self.domains], "retrace.domains")
        beside = [domain.published for domain in self.domains if domain.published]
        no_duplicates(beside, "the published names of retrace.domains")
        if len({len(arm.pairs) for arm in self.arms}) != 1:
            raise ValueError(
                "retrace.arms have different numbers of pairs; each training has its own"
            )
        return self

    def pairs(self) -> list[str]:
        """Every pair."""
        return [pair for arm in self.arms for pair in arm.pairs]


@dataclass(frozen=True)
class BlockStudy:
    """The pairs of a study of block drafters, and registry rows that it uses.

    `uses` are the sizes of its domains. `texts` says whether it takes texts of its target, rather
    than decode live only. `problem` says why it cannot be built, in an experiment that does not ask
    for it.
    """

    pairs: Mapping[str, dict] = field(default_factory=dict)
    domains: Mapping[str, dict] = field(default_factory=dict)
    modes: Mapping[str, dict] = field(default_factory=dict)
    uses: Sequence[DomainUse] = ()
    texts: bool = False
    problem: str | None = None

    @property
    def targets(self) -> list[str]:
        """The one target; none without a study."""
        return list(dict.fromkeys(pair["target"] for pair in self.pairs.values()))

    def use(self, domain: str) -> DomainUse | None:
        """How many prompts of a domain it takes."""
        return next((use for use in self.uses if use.name == domain), None)

    def text(self, target: str, domain: str, mode: str) -> DomainUse | None:
        """The size of a text that it takes; None for others."""
        own = self.texts and target in self.targets and mode in self.modes
        return self.use(domain) if own else None


@dataclass(frozen=True)
class Around:
    """What of the experiment a study is checked against: registries, prompts measured, and texts.

    The experiment generates the text of its `domains` by each of its `targets` in each of its
    `modes`, and that of `sweep`, whatever the study wants.
    """

    rows: Mapping[str, dict]
    domains: Sequence[DomainUse]
    evaluated: Mapping[str, Mapping[str, Any]]
    asked: bool
    targets: Sequence[str] = ()
    modes: Sequence[str] = ()
    sweep: Sweep = field(default_factory=Sweep)


def resolve_losses(block: Losses, around: Around) -> BlockStudy:
    """Look up the study's pairs and check them; see `checks`.

    Raises:
        UserError: what is wrong, where the experiment asks for the study.
    """

    def found() -> BlockStudy:
        study, models = _looked_up("losses", block.pairs(), block, around)
        block_pairs.refuse_live_only(study.pairs, models, "losses")
        for where, arms in (("losses.arms", block.arms), ("losses.grid", block.grid)):
            checks.arms_of_losses(where, arms, study.pairs, models, block.draft_length)
        checks.baselines(block.baselines, study.pairs, models)
        if block.speed is not None:
            checks.speed(block.speed, block.domains, study.modes)
        _fits_texts(block, study, around)
        return replace(study, texts=True)

    return _or_problem(found, around.asked)


def resolve_retrace(block: Retrace, around: Around) -> BlockStudy:
    """As `resolve_losses`."""

    def found() -> BlockStudy:
        study, models = _looked_up("retrace", block.pairs(), block, around)
        checks.arms_of_retrace(block, study.pairs, models)
        for mode in block.modes:
            checks.decodes("retrace.modes", mode, study.modes)
        return study

    return _or_problem(found, around.asked)


def _fits_texts(block: Losses, study: BlockStudy, around: Around) -> None:
    """Sizes that the study states are those of the text, also where others decide how long it is."""
    (target,) = study.targets
    own = {use.name: use for use in around.domains}
    shared = target in around.targets and any(mode in around.modes for mode in block.modes)
    for name, mode in study.modes.items():
        registry.require_imports("losses.modes: ", name, mode, study.domains)
    for use in block.domains:
        if shared and use.name in own:
            checks.budget_of_experiment(use, own[use.name])
        for mode in block.modes:
            if around.sweep.generates(target, use.name, mode):
                checks.sizes_of_sweep(use, mode, around.sweep.use)


def resolve(
    settings: Any,
    rows: Mapping[str, dict],
    evaluated: Mapping[str, Mapping[str, Any]],
    targets: Sequence[str],
    sweep: Sweep,
) -> dict[str, BlockStudy]:
    """Both studies of an experiment, by name; errors as `resolve_losses`."""
    found = {}
    for name, one in (("losses", resolve_losses), ("retrace", resolve_retrace)):
        asked = name in settings.studies
        around = Around(rows, settings.domains, evaluated, asked, targets, settings.modes, sweep)
        found[name] = one(getattr(settings, name), around)
    return found


def _looked_up(
    name: str, pairs: list[str], block: Losses | Retrace, around: Around
) -> tuple[BlockStudy, dict[str, dict]]:
    """The study with its rows, and its models."""
    rows = around.rows
    names = [use.name for use in block.domains]
    study = BlockStudy(
        registry.select(rows["pairs"], pairs, "pairs", "pair"),
        registry.select(rows["domains"], names, "domains", "domain"),
        registry.select(rows["modes"], block.modes, "modes", "mode"),
        block.domains,
    )
    for use in block.domains:
        collecting.check({"domain": use.name, **study.domains[use.name]}, use.prompts)
        checks.enough_prompts(f"{name}.domains", use.name, use.prompts, around.domains)
    checks.one_target(name, study.pairs)
    models = registry.models_of(study.pairs, rows["models"])
    registry.training_domains(models, rows["domains"], {**around.evaluated, **study.domains})
    return study, models


def _or_problem(found: Callable[[], BlockStudy], asked: bool) -> BlockStudy:
    try:
        return found()
    except UserError as error:
        if asked:
            raise
        return BlockStudy(problem=str(error))
