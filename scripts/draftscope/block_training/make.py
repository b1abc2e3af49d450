"""The trainer that a row of the registry of models asks for, and what it leaves on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from draftscope import models
from draftscope.block_training.loop import BlockTrainer
from draftscope.block_training.start import begin, shape_for
from draftscope.block_training.target import TargetSide
from draftscope.block_training.unrolled import UnrolledTrainer
from draftscope.block_training.vocabulary import draft_vocabulary
from draftscope.checkpoints import read_record
from draftscope.drafters.dflash import DFlash
from draftscope.drafters.retrace import ReTrace
from draftscope.errors import UserError
from draftscope.losses import LOSSES
from draftscope.models import dflash, retrace
from draftscope.training.examples import Example
from draftscope.training.run import Plan

if TYPE_CHECKING:
    from draftscope.models import LoadedModel


def make_trainer(
    name: str,
    row: Mapping[str, Any],
    target: LoadedModel,
    base: str | None,
    texts: Sequence[Example],
    held_out: Sequence[Example],
    plan: Plan,
    narrow: torch.dtype | None = None,
    cache_mb: int = 2000,
) -> BlockTrainer:
    """A trainer of a model of kind dflash or retrace.

    Args:
        row: of the registry of models.
        base: model.json of the DFlash drafter that ReTrace starts from.
        narrow: as in `training.run.Run`.
        cache_mb: memory for the target's states.

    Raises:
        UserError: a base that is missing, is not the one of the row or not of this target.
    """
    if row["kind"] == "retrace":
        return _retrace(name, row, target, base, texts, held_out, plan, narrow, cache_mb)
    shape = shape_for(target, row)
    vocabulary = draft_vocabulary(
        (text.emitted for text in texts),
        row["vocabulary"] or target.head_size,
        target.eos_ids,
        target.head_size,
    )
    net = DFlash(shape)
    begin(net, target, row)
    loss = row["loss"]
    side = TargetSide(
        target, shape.feature_layers, vocabulary, cache_mb, LOSSES[loss["name"]].needs_p
    )
    return BlockTrainer(
        name,
        net.to(target.device),
        side,
        texts,
        held_out,
        loss,
        row["train"]["anchors"],
        plan,
        narrow,
        row["train"]["weight_decay"],
    )


def _retrace(
    name: str,
    row: Mapping[str, Any],
    target: LoadedModel,
    base: str | None,
    texts: Sequence[Example],
    held_out: Sequence[Example],
    plan: Plan,
    narrow: torch.dtype | None,
    cache_mb: int,
) -> BlockTrainer:
    record = read_record(base) if base else {}
    if record.get("name") != row["base"]:
        raise UserError(f"model {name} starts from {row['base']}, not from {record.get('name')}")
    if record["kind"] != "dflash":
        raise UserError(
            f"model {name}: its base {row['base']} is of kind {record['kind']}, not dflash"
        )
    draft = models.load(record, str(target.device), "float32", target.attention)
    dflash.check_target(draft, target)
    net, vocabulary = draft.model.network, draft.model.vocabulary.cpu().numpy()
    torch.manual_seed(plan.seed)
    memory = ReTrace(net.shape.width, row["variant"])
    for part in (net, memory):
        part.requires_grad_(True)
    loss = row["loss"] or record["loss"]
    side = TargetSide(
        target, net.shape.feature_layers, vocabulary, cache_mb, LOSSES[loss["name"]].needs_p
    )
    return UnrolledTrainer(
        name,
        net,
        memory.to(target.device),
        side,
        texts,
        held_out,
        loss,
        row["train"]["anchors"],
        plan,
        row["train"]["beta_warm_up"],
        narrow,
        row["train"]["weight_decay"],
        base=record,
    )


def save(name: str, trainer: BlockTrainer, folder: Path, how: str) -> dict[str, Any]:
    """Write the weights beside the record; returns the record's part. `how`: for the revision."""
    target = trainer.target.target
    vocabulary = trainer.target.head.ids.cpu().numpy()
    if isinstance(trainer, UnrolledTrainer):
        memory = trainer.memory
        return retrace.save(
            name, trainer.net, memory, vocabulary, folder, target, trainer.base, how
        )
    return dflash.save(name, trainer.net, vocabulary, folder, target, how)
