"""The histories of the trainings of a study, by arm and training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from draftscope import records
from draftscope.block_study.beside import START, in_words
from draftscope.block_training.rows import Dflash
from draftscope.errors import UserError

# Settings in which a drafter of this project may differ from DFlash, which has their defaults.
OWN = ("vocabulary", "context", "shifted", "slots", "normalised_features")
Histories = dict[tuple[str, int], pd.DataFrame]


def network_words(network: Mapping[str, Any]) -> str:
    """Sentences that say what the drafters are, and what of it DFlash has otherwise.

    Args:
        network: settings of their row in the registry of models.
    """
    found = f"Drafters: {network['layers']} layers, blocks of {network['block_size']}"
    published = {key: Dflash.model_fields[key].default for key in OWN}
    own = [
        f"{key.replace('_', ' ')} {in_words(network[key])} (DFlash: {in_words(theirs)})"
        for key, theirs in published.items()
        if network[key] != theirs
    ]
    compared = ", ".join(OWN).replace("_", " ")
    beside = f"not as published: {', '.join(own)}" if own else f"as published: {compared}"
    return (
        f"{found}; {beside}. They start from {START[network['init']]}; what DFlash starts from is not "
        "known here and not compared."
    )


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
