"""The experiment as the user wrote it: typed, strict, resolved once when the workflow is read.

Nothing below the Snakefile imports this module: rules hand plain values to their scripts.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftscope import block_pairs, registry
from draftscope.block_study import settings as block_study
from draftscope.certificate_study.settings import (
    Certificates,
    CertificateStudy,
    resolve_certificates,
)
from draftscope.domains.settings import Trees, TreeStudy, beside_losses, resolve_trees
from draftscope.errors import UserError
from draftscope.interventions.settings import (
    Interventions,
    InterventionStudy,
    resolve_interventions,
)
from draftscope.lossless.settings import Live, Lossless, resolve_live
from draftscope.position.settings import Position, Sweep, resolve_sweep
from draftscope.prompts import collecting
from draftscope.resolved import Resolved
from draftscope.stage import DomainUse, Fraction, Positive, Stage, no_duplicates
from draftscope.strict import Integer, Name, Number, Strict, nearest, validate
from draftscope.tokens.settings import Tokens
from draftscope.training.settings import BlockTraining, Training

# What else lies in results/.
RESERVED = ("README.md", "bench", "example")


class Registries(Strict):
    models: list[str] = Field(min_length=1, description="files that name models")
    pairs: list[str] = Field(min_length=1, description="files that name target-draft pairs")
    domains: list[str] = Field(min_length=1, description="files that name domains of prompts")
    modes: list[str] = Field(min_length=1, description="files that name decoding modes")


class Generation(Stage):
    batch_size: Positive = Field(description="prompts decoded together")
    engine: Literal["static", "continuous"] = Field(
        description="padded batches, or transformers' continuous batching"
    )


class Scoring(Stage):
    position_chunk: Positive = Field(description="positions whose logits exist at one time")
    max_disagreement: Annotated[Number, Field(ge=0, le=1)] = Field(
        description="share of emitted tokens that scoring may find excluded before a shard fails"
    )


class Loops(Strict):
    max_period: Positive = Field(description="longest period that counts, in tokens")
    min_repeats: Annotated[Integer, Field(ge=2)] = Field(
        description="whole repetitions that make a loop"
    )
    min_span: Positive = Field(description="tokens that the repetition must span")


class Statistics(Strict):
    confidence: Fraction = Field(description="of every interval")
    resamples: Annotated[Integer, Field(ge=100, le=1_000_000)] = Field(
        description="bootstrap resamples of prompts"
    )
    method: Literal["studentized", "bca", "percentile"] = Field(description="bootstrap interval")


class Choice(Strict):
    cost_ratios: dict[str, Annotated[Number, Field(ge=0)]] = Field(
        description="by draft: time of one draft step / time of one target step"
    )


Unit = Literal["ratio", "percent", "tokens", "x", "nats", "correlation", "rate", "ms", "tok/s", "s"]


class Scorecard(Strict):
    margins: dict[Unit, Annotated[Number, Field(gt=0)]] = Field(
        description="by unit: the widest interval that may say agrees or differs"
    )


class Report(Strict):
    title: str
    viewer_trajectories: Positive = Field(description="trajectories a pair and mode in the viewer")
    not_measured: list[str] = Field(description="sentences: what this experiment does not show")


Study = Literal[
    "position", "temperatures", "lossless", "domains", "interventions", "certificates", "losses",
    "retrace",
]  # fmt: skip


class Experiment(Strict):
    experiment: Name = Field(description="results go to results/<experiment>/")
    seed: Annotated[Integer, Field(ge=0)]
    studies: list[Study] = Field(min_length=1)
    registries: Registries
    pairs: list[Name] = Field(min_length=1)
    domains: list[DomainUse] = Field(min_length=1)
    modes: list[Name] = Field(min_length=1)
    draft_lengths: list[Annotated[Positive, Field(le=1024)]] = Field(min_length=1)
    shard_size: Positive = Field(description="prompts of one job")
    generation: Generation
    scoring: Scoring
    loops: Loops
    statistics: Statistics
    tokens: Tokens
    position: Position
    choice: Choice
    lossless: Lossless
    trees: Trees
    certificates: Certificates
    training: Training
    interventions: Interventions
    block_training: BlockTraining
    losses: block_study.Losses
    retrace: block_study.Retrace
    scorecard: Scorecard
    report: Report

    @model_validator(mode="after")
    def _lists_name_each_thing_once(self) -> Experiment:
        for key in ("pairs", "modes", "draft_lengths", "studies"):
            no_duplicates(getattr(self, key), key)
        no_duplicates([use.name for use in self.domains], "domains")
        no_duplicates([c.label for c in self.position.configurations], "position.configurations")
        if self.experiment in RESERVED:
            raise ValueError(
                f"experiment {self.experiment!r}: results/{self.experiment} is kept for something "
                "else; choose another name"
            )
        if self.shard_size % self.generation.batch_size:
            raise ValueError(
                f"shard_size {self.shard_size} is not a multiple of generation.batch_size "
                f"{self.generation.batch_size}; a shard is whole batches, so that another shard "
                "size leaves the numbers alone"
            )
        return self


def load(raw: Mapping[str, Any], root: Path) -> Resolved:
    """Check an experiment and look up everything it names.

    Args:
        raw: the merged configuration as Snakemake holds it.
        root: folder that the paths of registry files are relative to.

    Raises:
        UserError: the first thing that is wrong, in one line.
    """
    settings = validate(Experiment, dict(raw), "configuration")
    rows = registry.load_all(settings.registries, root)
    pairs = registry.select(rows["pairs"], settings.pairs, "pairs", "pair")
    modes = registry.select(rows["modes"], settings.modes, "modes", "mode")
    names = [use.name for use in settings.domains]
    domains = registry.select(rows["domains"], names, "domains", "domain")
    for use in settings.domains:
        collecting.check({"domain": use.name, **domains[use.name]}, use.prompts)
    live = _live(settings, rows)
    trees = _trees(settings, rows, pairs)
    certificates = _certificates(settings, rows, pairs)
    sweep = _sweep(settings, rows, pairs)
    evaluated = {**domains, **live.domains, **certificates.domains}
    measured = {**evaluated, **trees.domains}
    interventions = _interventions(settings, rows, (pairs, modes), measured)
    targets = [pair["target"] for pair in pairs.values()]
    blocks = block_study.resolve(settings, rows, measured, targets, sweep)
    trees, blocks["losses"] = beside_losses(settings, targets, trees, blocks["losses"])
    for study in (trees, *blocks.values()):
        evaluated |= study.domains
    used = {**pairs, **live.pairs, **trees.pairs, **certificates.pairs, **interventions.pairs}
    used |= {name: pair for study in blocks.values() for name, pair in study.pairs.items()}
    models = registry.models_of(used, rows["models"])
    block_pairs.refuse_live_only(pairs, models, "pairs")
    block_pairs.refuse_live_only(trees.pairs, models, "trees.pair")
    if any(mode["imported"] is None for mode in modes.values()):
        registry.refuse_llama_cpp(pairs, models, ("target",), "generate texts in batches")
    for use in (settings.lossless.batch, settings.lossless.equivalence):
        if use.pair in live.pairs and getattr(use, "batch_size", 2) > 1:
            together = {use.pair: live.pairs[use.pair]}
            registry.refuse_llama_cpp(together, models, ("target", "draft"), "decode in batches")
            block_pairs.refuse(together, models, "decode several texts together")
    registry.refuse_llama_cpp(trees.pairs, models, ("target", "draft"), "read trees")
    calibration = registry.calibration_domains(models, rows["domains"], evaluated)
    training = registry.training_domains(models, rows["domains"], evaluated)
    _check_references(settings, pairs, modes, names, rows["models"])
    return Resolved(
        settings, models, pairs, domains, modes, live, trees, calibration, interventions, training,
        sweep, certificates=certificates, **blocks,
    )  # fmt: skip


def _live(settings: Experiment, rows: Mapping[str, dict]) -> Live:
    """What the lossless study decodes; an experiment without that study need not fit it."""
    block = settings.lossless
    try:
        live = resolve_live(block, rows)
        collecting.check({"domain": block.domain, **live.domains[block.domain]}, block.most_prompts)
        prompts = {use.name: use.prompts for use in settings.domains}
        if prompts.get(block.domain, block.most_prompts) < block.most_prompts:
            raise UserError(
                f"the lossless study wants {block.most_prompts} prompts of domain "
                f"{block.domain!r}, which has {prompts[block.domain]} in this experiment"
            )
    except UserError as error:
        if "lossless" in settings.studies:
            raise
        return Live(problem=str(error))
    return live


def _sweep(settings: Experiment, rows: Mapping[str, dict], pairs: Mapping[str, dict]) -> Sweep:
    """What the sweep over temperatures decodes; an experiment without it need not fit it."""
    block = settings.position
    main = next((use for use in settings.domains if use.name == block.domain), None)
    if main is None:
        return Sweep()  # `_check_references` refuses it
    try:
        configured = [configuration.pair for configuration in block.configurations]
        sweep = resolve_sweep(block.temperatures, rows, pairs, configured, main, settings.modes)
        trees = settings.trees
        if sweep.use is not None and trees.mode in sweep.modes:
            tree_target = rows["pairs"].get(trees.pair, {}).get("target")
            if tree_target == sweep.target and block.domain in [use.name for use in trees.domains]:
                raise UserError(
                    f"position.temperatures and trees both have a text of mode {trees.mode!r} "
                    "that the experiment does not generate; add the mode to modes"
                )
    except UserError as error:
        if "temperatures" in settings.studies:
            raise
        return Sweep(problem=str(error))
    return sweep


def _trees(settings: Experiment, rows: Mapping[str, dict], pairs: Mapping[str, dict]) -> TreeStudy:
    """What trees are scored on; an experiment without the domains study need not fit it."""
    block = settings.trees
    targets = {pair["target"] for pair in pairs.values()}
    try:
        target = registry.select(rows["pairs"], [block.pair], "pairs", "pair")[block.pair]["target"]
        shared = target in targets and block.mode in settings.modes
        return resolve_trees(block, rows, settings.domains, shared)
    except UserError as error:
        if "domains" in settings.studies:
            raise
        return TreeStudy(problem=str(error))


def _interventions(
    settings: Experiment, rows: Mapping[str, dict], pairs_and_modes: tuple, evaluated: Mapping
) -> InterventionStudy:
    """The pairs of trained drafts; an experiment without that study need not fit it."""
    try:
        study = resolve_interventions(
            settings.interventions,
            rows,
            *pairs_and_modes,
            settings.domains,
            settings.draft_lengths,
        )
        models = registry.models_of(study.pairs, rows["models"])
        registry.training_domains(models, rows["domains"], evaluated)
        registry.refuse_llama_cpp(study.pairs, models, ("target", "draft"), "decode in batches")
        block_pairs.refuse(study.pairs, models, "be scored position by position")
    except UserError as error:
        if "interventions" in settings.studies:
            raise
        return InterventionStudy(problem=str(error))
    return study


def _certificates(
    settings: Experiment, rows: Mapping[str, dict], pairs: Mapping[str, dict]
) -> CertificateStudy:
    """What is certified; an experiment without the certificates study need not fit it."""
    block = settings.certificates
    main = {use.name: use for use in settings.domains}
    generated = {pair["target"] for pair in pairs.values()}
    try:
        return resolve_certificates(
            block, rows, main, generated if block.mode in settings.modes else set()
        )
    except UserError as error:
        if "certificates" in settings.studies:
            raise
        return CertificateStudy(problem=str(error))


def _check_references(
    settings: Experiment, pairs: dict, modes: dict, domains: list[str], known_models: Mapping
) -> None:
    position = settings.position
    if position.domain not in domains:
        raise UserError(
            f"position.domain {position.domain!r} is not among the experiment's domains"
            f"{nearest(position.domain, domains)}"
        )
    if position.draft_length not in settings.draft_lengths:
        raise UserError(
            f"position.draft_length {position.draft_length} is not among draft_lengths "
            f"{settings.draft_lengths}"
        )
    for configuration in position.configurations:
        if configuration.pair not in pairs:
            raise UserError(
                f"position.configurations names pair {configuration.pair!r}, which the experiment "
                f"does not use{nearest(configuration.pair, list(pairs))}"
            )
    drafts = [pair["draft"] for pair in pairs.values()]
    for draft in drafts:
        if draft not in settings.choice.cost_ratios:
            raise UserError(f"choice.cost_ratios has no entry for draft {draft!r}")
    for name in settings.choice.cost_ratios:
        # Entries of the experiment below stay when mappings are merged, so a foreign name is no
        # mistake by itself; one that is almost a draft of this experiment is.
        if name not in known_models and difflib.get_close_matches(name, drafts, 1, cutoff=0.8):
            raise UserError(
                f"choice.cost_ratios names {name!r}, which is no model{nearest(name, drafts)}"
            )
    for name, mode in modes.items():
        registry.require_imports("", name, mode, domains)
