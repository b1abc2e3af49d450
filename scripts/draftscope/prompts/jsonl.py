"""Prompts of your own: a file with one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftscope.errors import UserError
from draftscope.prompts.collecting import Item

REQUIRED = {"file"}
OPTIONAL: set[str] = set()
KEYS = {"id", "text", "language", "answer"}


def read(settings: Mapping[str, Any], first: int, last: int) -> list[Item]:
    """Lines first to last: `id` and `text`, optionally `language` and `answer`.

    The whole file is checked, so that a duplicate id is found whichever lines are asked for.

    Raises:
        UserError: no such file; a line that is not such an object; an id that stands twice.
    """
    path = Path(settings["file"])
    if not path.is_file():
        raise UserError(f"domain {settings['domain']}: prompt file {path} does not exist")
    items, lines = [], {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        item = _item(line, f"{path} line {number}")
        if item.prompt_id in lines:
            raise UserError(
                f"{path}: prompt id {item.prompt_id} stands in line {lines[item.prompt_id]} and in "
                f"line {number}"
            )
        lines[item.prompt_id] = number
        items.append(item)
    return items[first:last]


def _item(line: str, where: str) -> Item:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise UserError(f"{where} is not a JSON object with id and text")
    for key in ("id", "text"):
        if not isinstance(row.get(key), str):
            raise UserError(f"{where}: {key} is missing or not a string")
    unknown = sorted(set(row) - KEYS)
    if unknown:
        raise UserError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
    if not row["id"]:
        raise UserError(f"{where}: id is empty")
    return Item(
        prompt_id=row["id"],
        source_row=row["id"],
        text=row["text"],
        answer=row.get("answer"),
        language=row.get("language"),
    )
