"""Training of a DFlash drafter: what a row of kind dflash asks for, and what is left on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from draftscope.block_training.loop import BlockTrainer
from draftscope.block_training.start import begin, shape_for
from draftscope.block_training.target import TargetSide
from draftscope.block_training.vocabulary import draft_vocabulary
from draftscope.drafters.dflash import DFlash
from draftscope.losses import LOSSES
from draftscope.models import dflash
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
    """A trainer of a model of kind dflash.

    Args:
        row: of the registry of models.
        base: None; a drafter of this kind starts from its target alone.
        narrow: as in `training.run.Run`.
        cache_mb: memory for the target's states.

    Raises:
        UserError: a target whose states cannot be read or whose layers cannot be copied.
    """
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


def save(name: str, trainer: BlockTrainer, folder: Path, how: str) -> dict[str, Any]:
    """Write the weights beside the record; returns the record's part. `how`: for the revision."""
    vocabulary = trainer.target.head.ids.cpu().numpy()
    return dflash.save(name, trainer.net, vocabulary, folder, trainer.target.target, how)
