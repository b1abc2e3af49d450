"""Training of ReTrace: what a row of kind retrace asks for, and what is left on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from draftscope import models
from draftscope.block_training.target import TargetSide
from draftscope.block_training.unrolled import UnrolledTrainer
from draftscope.checkpoints import read_record
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
) -> UnrolledTrainer:
    """A trainer of a model of kind retrace.

    Args:
        row: of the registry of models.
        base: model.json of the DFlash drafter that training starts from.
        narrow: as in `training.run.Run`.
        cache_mb: memory for the target's states.

    Raises:
        UserError: a base that is missing, is not the one of the row or not of this target.
    """
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


def save(name: str, trainer: UnrolledTrainer, folder: Path, how: str) -> dict[str, Any]:
    """As `make_dflash.save`, with the memory and the drafter that training started from."""
    vocabulary = trainer.target.head.ids.cpu().numpy()
    target, memory = trainer.target.target, trainer.memory
    return retrace.save(name, trainer.net, memory, vocabulary, folder, target, trainer.base, how)
