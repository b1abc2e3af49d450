"""Texts that a model is quantized on: training prompts, as the model reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftscope.errors import UserError
from draftscope.prompts.cutting import Reader
from draftscope.prompts.rendering import render


def texts(
    reader: Reader,
    rows: Sequence[Mapping[str, Any]],
    templates: Mapping[str, Mapping[str, Any]],
    tokens: int,
) -> list[list[int]]:
    """Render training prompts, each cut to its first `tokens` tokens.

    Args:
        rows: of schema prompts, all of the split "training".
        templates: by domain, how its prompts are put to a model.

    Returns:
        Token ids, one list a row, in the order of the rows.

    Raises:
        UserError: a row is no training prompt, or has no text.
    """
    found = []
    for row in rows:
        if row["split"] != "training":
            raise UserError(
                f"prompt {row['prompt_id']} of domain {row['domain']} is an {row['split']} prompt; "
                "a model is quantized on training prompts only"
            )
        ids = render(reader, row, templates[row["domain"]]).token_ids
        if not ids:
            raise UserError(f"prompt {row['prompt_id']} of domain {row['domain']} has no text")
        found.append(ids[:tokens])
    return found
