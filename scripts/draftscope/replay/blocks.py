"""What a block drafter proposed along texts, as replay takes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from draftscope import records
from draftscope.drafters import proposal_schemas  # noqa: F401  (registers them)
from draftscope.errors import UserError
from draftscope.replay.rounds import Proposals, agreement

Key = tuple[Any, ...]


def read_proposals(
    paths: Sequence[str], draft: str, schema: str = "proposals"
) -> tuple[dict[Key, np.ndarray], dict[str, Any]]:
    """The blocks of every text, [tokens, block_size - 1], by prompt and sample; their condition.

    Raises:
        UserError: shards of different conditions or of another draft, a text that stands there
            twice, or blocks that do not fit their text.
    """
    found: dict[Key, np.ndarray] = {}
    conditions = {}
    for path in paths:
        table = records.read(path, schema)
        conditions[path] = records.condition(table)
        if conditions[path].get("draft") != draft:
            raise UserError(
                f"{path} holds proposals of draft {conditions[path].get('draft')}, not of {draft}"
            )
        keys = [
            name for name in ("prompt_id", "sample", "draft_length") if name in table.column_names
        ]
        for row in table.to_pylist():
            key = tuple(row[name] for name in keys)
            if key in found:
                raise UserError(f"{' '.join(map(str, key))} is proposed for twice, also in {path}")
            found[key] = _blocks(row, path)
    return found, records.require_same_condition(conditions)


def _blocks(row: Mapping[str, Any], path: str) -> np.ndarray:
    tokens, drafted = len(row["token_ids"]), np.asarray(row["draft_ids"], np.int32)
    if not tokens or not len(drafted) or len(drafted) % tokens:
        raise UserError(
            f"{path}: prompt {row['prompt_id']}, sample {row['sample']} has {len(drafted)} drafted "
            f"ids for {tokens} tokens; delete the file and run again"
        )
    return np.concatenate(
        (np.asarray(row["token_ids"], np.int32)[:, None], drafted.reshape(tokens, -1)), axis=1
    )


def proposed(found: Mapping[Key, np.ndarray], key: Key, token_ids: Iterable[int]) -> Proposals:
    """What the blocks of a text agree with; errors as `drafted`."""
    tokens = np.asarray(token_ids)
    return agreement(drafted(found, key, tokens), tokens)


def drafted(found: Mapping[Key, np.ndarray], key: Key, token_ids: Iterable[int]) -> np.ndarray:
    """The blocks of a text, [tokens, block_size - 1].

    Raises:
        UserError: nothing was proposed for the text, or it was for other tokens.
    """
    where = f"prompt {key[0]}, sample {key[1]}"
    if key not in found:
        raise UserError(f"{where} has no proposals; delete those of its shard and run again")
    tokens, blocks = np.asarray(token_ids), found[key]
    if not np.array_equal(blocks[:, 0], tokens):
        raise UserError(
            f"{where}: the proposals belong to other tokens than the trajectory holds; delete the "
            "proposals and run again"
        )
    return blocks[:, 1:]
