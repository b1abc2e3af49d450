"""Cut raw prompts that are longer than a study allows, at their end, as a tokenizer would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftscope.errors import UserError
from draftscope.prompts.rendering import render

RAW = {"chat_template": False}


@dataclass(frozen=True)
class Reader:
    """As much of a model as rendering needs; no weights are loaded."""

    name: str
    tokenizer: Any
    bos_id: int | None


def cut(reader: Reader, row: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The row with the longest beginning of its text that renders to at most `most` tokens.

    The token that begins a text counts. The beginning is chosen so that it renders to exactly the
    first tokens of the whole prompt: where cutting at `most` tokens would split a character, or
    where the tokenizer would join its last tokens otherwise, it is shorter by those. Where no
    beginning does (so many tokens are white space), no text is left: an empty prompt is skipped.

    Args:
        row: of schema prompts, read as raw text (no chat template).

    Raises:
        UserError: the tokenizer cannot say where in the text its tokens stand.
    """
    whole = render(reader, row, RAW)
    if len(whole.token_ids) <= most:
        return dict(row)
    if not reader.tokenizer.is_fast:
        raise UserError(
            f"prompt {row['prompt_id']} has {len(whole.token_ids)} tokens and cannot be cut to "
            f"{most}: the tokenizer of model {reader.name} does not say where they stand"
        )
    begins = len(reader.tokenizer.bos_token) if reader.bos_id is not None else 0
    places = reader.tokenizer(whole.text, add_special_tokens=False, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    for kept in range(most, 0, -1):
        shorter = _with_text(row, whole.text[begins : places[kept - 1][1]])
        if render(reader, shorter, RAW).token_ids == whole.token_ids[:kept]:
            return shorter
    return _with_text(row, "")


def _with_text(row: Mapping[str, Any], text: str) -> dict[str, Any]:
    messages = json.loads(row["messages_json"])
    messages[-1]["content"] = text
    return dict(row) | {
        "text": text,
        "messages_json": json.dumps(messages, ensure_ascii=False),
    }
