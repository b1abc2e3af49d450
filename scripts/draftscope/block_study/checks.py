"""What must hold of the arms of a study of block drafters before any job is planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from draftscope.checkpoints import TEXT_DRAFTS
from draftscope.errors import UserError
from draftscope.stage import DomainUse
from draftscope.strict import nearest

if TYPE_CHECKING:
    from draftscope.block_study.settings import BlockArm, Retrace, Speed

Rows = Mapping[str, Mapping[str, Any]]


def one_target(study: str, pairs: Rows) -> None:
    """Raises UserError unless all pairs have one target, whose text they are measured on."""
    target = next(iter(pairs.values()))["target"]
    for name, pair in pairs.items():
        if pair["target"] != target:
            raise UserError(
                f"{study}: pair {name!r} has target {pair['target']!r}, others {target!r}; all are "
                "measured on one target's text"
            )


def arms_of_losses(
    where: str, arms: Sequence[BlockArm], pairs: Rows, models: Rows, draft_length: int
) -> None:
    """Raises UserError unless the drafts are DFlash ones that differ in loss and seed alone."""
    first: tuple[str, dict] | None = None
    losses: dict[str, str] = {}
    for arm in arms:
        rows = [models[pairs[name]["draft"]] for name in arm.pairs]
        for name, row in zip(arm.pairs, rows, strict=True):
            if row["kind"] != "dflash":
                raise UserError(
                    f"{where} {arm.label!r}: the draft of pair {name!r} is of kind {row['kind']}, not "
                    "dflash"
                )
            _fits(where, name, row, draft_length)
            same = _without_seed({key: value for key, value in row.items() if key != "loss"})
            if first is not None and same != first[1]:
                key = _differs(first[1], same)
                raise UserError(
                    f"{where}: pairs {first[0]!r} and {name!r} differ in {key}; arms differ in their "
                    "loss and trainings in their seed alone"
                )
            first = first or (name, same)
        _trainings(where, arm, rows, lambda row: row["loss"], "loss")
        loss = str(rows[0]["loss"])
        if loss in losses:
            raise UserError(f"{where} {losses[loss]!r} and {arm.label!r} have one loss")
        losses[loss] = arm.label


def arms_of_retrace(block: Retrace, pairs: Rows, models: Rows) -> None:
    """Raises UserError unless each variant stands on the backbone's trainings, in their order."""
    where, drafts = "retrace.arms", {}
    for arm in block.arms:
        drafts[arm.label] = [pairs[name]["draft"] for name in arm.pairs]
    first: tuple[str, dict] | None = None
    variants: dict[str, str] = {}
    for arm in block.arms:
        rows = [models[name] for name in drafts[arm.label]]
        wanted = "dflash" if arm.label == block.backbone else "retrace"
        for number, (name, row) in enumerate(zip(arm.pairs, rows, strict=True)):
            if row["kind"] != wanted:
                raise UserError(
                    f"{where} {arm.label!r}: the draft of pair {name!r} is of kind {row['kind']}, not "
                    f"{wanted}"
                )
            if wanted == "dflash":
                _fits(where, name, row, block.draft_length)
                continue
            base = drafts[block.backbone][number]
            if row["base"] != base:
                raise UserError(
                    f"{where} {arm.label!r}: the draft of pair {name!r} starts from {row['base']!r}, "
                    f"the {number + 1}. of the backbone is {base!r}"
                )
            free = ("base", "variant")
            same = _without_seed({key: value for key, value in row.items() if key not in free})
            if first is not None and same != first[1]:
                key = _differs(first[1], same)
                raise UserError(
                    f"{where}: pairs {first[0]!r} and {name!r} differ in {key}; arms differ in their "
                    "variant and trainings in their base and seed alone"
                )
            first = first or (name, same)
        if wanted == "dflash":
            _trainings(where, arm, rows, _without_seed, "setting")
            continue
        _trainings(where, arm, rows, lambda row: row["variant"], "variant")
        variant = rows[0]["variant"]
        if variant in variants:
            raise UserError(f"{where} {variants[variant]!r} and {arm.label!r} have one variant")
        variants[variant] = arm.label
    if variants.get("none") != block.control:
        raise UserError(f"retrace.control {block.control!r} has not the variant none")


def baselines(labels: Mapping[str, str], pairs: Rows, models: Rows) -> None:
    """Raises UserError unless they draft from the text alone."""
    for label, name in labels.items():
        kind = models[pairs[name]["draft"]]["kind"]
        if kind not in TEXT_DRAFTS:
            raise UserError(
                f"losses.baselines {label!r}: the draft of pair {name!r} is of kind {kind}; baselines "
                f"are drafts without a model ({', '.join(TEXT_DRAFTS)})"
            )


def speed(block: Speed, uses: Sequence[DomainUse], modes: Rows) -> None:
    """Raises UserError unless what is timed is part of the study and can be decoded live."""
    domains = [use.name for use in uses]
    for what, names, known in (("domains", block.domains, domains), ("modes", block.modes, modes)):
        for name in names:
            if name not in known:
                raise UserError(
                    f"losses.speed.{what}: {name!r} is not among losses.{what}"
                    f"{nearest(name, list(known))}"
                )
    for name in block.domains:
        enough_prompts("losses.speed.prompts", name, block.prompts, uses)
    for mode in block.modes:
        decodes("losses.speed.modes", mode, modes)


def enough_prompts(where: str, name: str, wanted: int, uses: Iterable[DomainUse]) -> None:
    """Raises UserError where a domain is collected already, but fewer prompts of it."""
    own = next((use.prompts for use in uses if use.name == name), wanted)
    if wanted > own:
        raise UserError(f"{where}: {wanted} prompts of {name!r} are wanted, it has {own} here")


def budget_of_experiment(use: DomainUse, own: DomainUse) -> None:
    """Raises UserError where the losses study says another budget than its text has."""
    if use.max_new_tokens != own.max_new_tokens:
        raise UserError(
            f"losses.domains: max_new_tokens of {use.name!r} is {use.max_new_tokens}, but its text is "
            f"the experiment's own, with {own.max_new_tokens}; say {own.max_new_tokens}"
        )


def sizes_of_sweep(use: DomainUse, mode: str, swept: DomainUse) -> None:
    """Raises UserError where the text is the sweep's, which is smaller or has another budget."""
    if use.prompts > swept.prompts or use.max_new_tokens != swept.max_new_tokens:
        raise UserError(
            f"losses.domains: {use.prompts} prompts of {use.name!r} with {use.max_new_tokens} tokens "
            f"are wanted, but in mode {mode!r} position.temperatures generates {swept.prompts} with "
            f"{swept.max_new_tokens}; add {mode!r} to modes, or set position.temperatures to null"
        )


def decodes(where: str, mode: str, modes: Rows) -> None:
    """Raises UserError for a mode whose text is imported."""
    if modes[mode]["imported"] is not None:
        raise UserError(
            f"{where}: mode {mode!r} imports its text, so nothing can be decoded live in it"
        )


def _fits(where: str, name: str, row: Mapping[str, Any], draft_length: int) -> None:
    if draft_length >= row["block_size"]:
        raise UserError(
            f"{where}: the draft of pair {name!r} has blocks of {row['block_size']}, which offer "
            f"{row['block_size'] - 1} tokens; draft_length is {draft_length}"
        )


def _trainings(where: str, arm: BlockArm, rows: Sequence[Mapping], of: Any, what: str) -> None:
    """Trainings of one arm have one loss (variant, setting) and seeds of their own."""
    if any(of(row) != of(rows[0]) for row in rows):
        raise UserError(f"{where} {arm.label!r}: its trainings differ in their {what}")
    seeds = [row["train"]["seed"] for row in rows]
    if len(set(seeds)) < len(seeds):
        raise UserError(f"{where} {arm.label!r}: two of its trainings have one seed: {seeds}")


def _without_seed(row: Mapping[str, Any]) -> dict[str, Any]:
    train = {key: value for key, value in row["train"].items() if key != "seed"}
    return {**row, "train": train}


def _differs(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first key that two rows differ in, with its place."""
    for key in one:
        if one[key] != other.get(key):
            if isinstance(one[key], Mapping) and isinstance(other.get(key), Mapping):
                return f"{key}.{_differs(one[key], other[key])}"
            return key
    return next(key for key in other if key not in one)
