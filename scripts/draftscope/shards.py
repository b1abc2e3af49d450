"""Shards of trajectories: is every prompt that belongs into a shard in it?"""

from __future__ import annotations

import os
from collections.abc import Sequence

from draftscope import records
from draftscope.errors import UserError


def require_complete(
    trajectories: Sequence[str | os.PathLike], prompts: Sequence[str | os.PathLike]
) -> None:
    """Check each shard against its file of prompts; one shard in memory at a time.

    Args:
        trajectories, prompts: files of these schemas, shard by shard in the same order.

    Raises:
        UserError: another number of files, or a shard that lacks a prompt or holds a foreign one.
    """
    if len(prompts) != len(trajectories):
        raise UserError(
            f"--prompts: {len(prompts)} files for {len(trajectories)} shards of trajectories; give "
            "one each, in the same order"
        )
    for shard, path in zip(trajectories, prompts, strict=True):
        wanted = records.read(path, "prompts").column("prompt_id").to_pylist()
        records.read(shard, "trajectories", wanted)
