"""Prompts of your own: a file with one JSON object a line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftscope import jsonlines
from draftscope.errors import UserError
from draftscope.prompts.collecting import Item

REQUIRED = {"file"}
OPTIONAL: set[str] = set()
KEYS = {"id", "text", "language", "answer"}


def read(settings: Mapping[str, Any], first: int, last: int) -> list[Item]:
    """Lines first to last: `id` and `text`, optionally `language` and `answer`.

    All four are strings; an answer may be a number, and is then taken as text.

    The whole file is checked, so that a duplicate id is found whichever lines are asked for.

    Raises:
        UserError: no such file; a line that is not such an object; an id that stands twice.
    """
    path = Path(settings["file"])
    if not path.is_file():
        raise UserError(f"domain {settings['domain']}: prompt file {path} does not exist")
    items, lines = [], {}
    for number, where, row in jsonlines.read(path):
        item = _item(row, where)
        if item.prompt_id in lines:
            raise UserError(
                f"{where}: prompt id {item.prompt_id} also stands in line {lines[item.prompt_id]}"
            )
        lines[item.prompt_id] = number
        items.append(item)
    return items[first:last]


def _item(row: Mapping[str, Any], where: str) -> Item:
    unknown = sorted(set(row) - KEYS)
    if unknown:
        raise UserError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
    for key in ("id", "text"):
        if not isinstance(row.get(key), str):
            raise UserError(f"{where}: {key} is missing or not a string")
    if not row["id"]:
        raise UserError(f"{where}: id is empty")
    language = row.get("language")
    if language is not None and not isinstance(language, str):
        raise UserError(
            f'{where}: language is {language!r}; expected a string, a language tag such as "en"'
        )
    return Item(
        prompt_id=row["id"],
        source_row=row["id"],
        text=row["text"],
        answer=_answer(row.get("answer"), where),
        language=language,
    )


def _answer(answer: Any, where: str) -> str | None:
    if answer is None or isinstance(answer, str):
        return answer
    number = isinstance(answer, int | float) and not isinstance(answer, bool)
    if not number or not math.isfinite(answer):
        raise UserError(f"{where}: answer is {answer!r}; expected a string or a number")
    return str(answer)
