"""Data sets of the Hugging Face hub: one named file at one revision, read without other code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftscope.downloads import check_address, fetching
from draftscope.errors import UserError
from draftscope.prompts.collecting import Item

REQUIRED = {"repository", "revision", "file", "text_field"}
OPTIONAL = {"answer_field", "answer_pattern"}


def read(settings: Mapping[str, Any], first: int, last: int) -> list[Item]:
    """Rows first to last of the file (Parquet, or JSON lines).

    Raises:
        UserError: repository or revision of the wrong form, hub unreachable, no such file, or
            no such field in it.
    """
    from huggingface_hub import hf_hub_download

    repository, revision, file = (settings[key] for key in ("repository", "revision", "file"))
    check_address(f"domain {settings['domain']}", repository, revision)
    with fetching(f"domain {settings['domain']} ({file} of {repository} at {revision})"):
        path = hf_hub_download(repository, file, revision=revision, repo_type="dataset")
    # The cache names the folder of a snapshot after its commit, whatever the revision was.
    commit = re.search(r"/snapshots/([0-9a-f]{40})/", Path(path).as_posix())
    return read_file(settings, Path(path), first, last, commit[1] if commit else revision)


def read_file(
    settings: Mapping[str, Any], path: Path, first: int, last: int, revision: str
) -> list[Item]:
    """Rows first to last of a fetched file."""
    domain, text_field = settings["domain"], settings["text_field"]
    fields = [text_field] + [settings["answer_field"]] * bool(settings.get("answer_field"))
    rows = _rows(domain, path, fields, first, last)
    items = []
    for number, row in enumerate(rows, first):
        text = row[text_field]
        if isinstance(text, list) and text:  # turns of a conversation: the first is the prompt
            text = text[0]
        if not isinstance(text, str):
            raise UserError(f"domain {domain}: field {text_field} of row {number} is not text")
        answer = row[settings["answer_field"]] if settings.get("answer_field") else None
        items.append(
            Item(
                prompt_id=f"{domain}-{number:06d}",
                source_row=f"{settings['repository']}@{revision}:{settings['file']}:{number}",
                text=text,
                answer=_answer(answer, settings.get("answer_pattern")),
            )
        )
    return items


def _answer(answer: Any, pattern: str | None) -> str | None:
    if answer is None or pattern is None:
        return None if answer is None else str(answer)
    found = re.search(pattern, str(answer))
    return found[1].strip() if found else None


def _rows(
    domain: str, path: Path, fields: list[str], first: int, last: int
) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        available = pq.read_schema(path).names
        _check_fields(domain, path, fields, available)
        table = pq.read_table(path, columns=fields)
        return table.slice(first, last - first).to_pylist()
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number >= last:
                break
            if number >= first:
                row = json.loads(line)
                _check_fields(domain, path, fields, list(row))
                rows.append(row)
    return rows


def _check_fields(domain: str, path: Path, fields: list[str], available: list[str]) -> None:
    for field in fields:
        if field not in available:
            raise UserError(
                f"domain {domain}: {path.name} has no field {field!r}; "
                f"it has {', '.join(available)}"
            )
