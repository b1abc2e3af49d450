"""The histories of the trainings of a study, by arm and training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from draftscope import records
from draftscope.errors import UserError

Histories = dict[tuple[str, int], pd.DataFrame]


def read_histories(trained: Sequence[Mapping[str, Any]], paths: Sequence[str]) -> Histories:
    """Histories of schema block_training_history.

    Args:
        trained: arm, training and draft of each path.

    Raises:
        UserError: not as many paths, or a history of another draft.
    """
    if len(trained) != len(paths):
        raise UserError(
            f"--histories: {len(trained)} trainings need as many files, not {len(paths)}"
        )
    found = {}
    for row, path in zip(trained, paths, strict=True):
        table = records.read(path, "block_training_history")
        draft = records.condition(table).get("draft")
        if draft != row["draft"]:
            raise UserError(f"{path} is the history of draft {draft}, not of {row['draft']}")
        found[row["arm"], row["training"]] = table.to_pandas()
    return found
