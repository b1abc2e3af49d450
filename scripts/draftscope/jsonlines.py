"""JSON lines: one JSON object a line, in UTF-8, with every fault named by file and line."""

from __future__ import annotations

import json
import logging
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftscope.errors import UserError

log = logging.getLogger(__name__)


def read(
    path: str | Path, *, may_be_torn: bool = False
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Number of the line (from 1), "file:line" and object of each line that is not blank.

    Only a newline ends a line: U+2028 and the like are legal inside JSON strings. A byte order
    mark at the beginning of the file is skipped.

    Args:
        may_be_torn: a last line without its newline that cannot be read is what a killed writer
            left behind: it is dropped and logged.

    Raises:
        UserError: a line that is not UTF-8, not JSON or not an object, or that holds a string
            with half of a surrogate pair, which is no character and has no UTF-8.
    """
    lines = Path(path).read_bytes().removeprefix(BOM_UTF8).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if may_be_torn and number == len(lines):
                log.warning("%s: dropped a torn last line", where)
                return
            raise UserError(f"{where}: {_said(error)}") from error
        if not isinstance(row, dict):
            raise UserError(f"{where}: expected a JSON object, found {type(row).__name__}")
        for key, value in row.items():
            if _has_surrogate(key) or _has_surrogate(value):
                raise UserError(
                    f"{where}: {key!a} holds half of a surrogate pair (\\ud800 to \\udfff); write "
                    "the character itself, or both halves"
                )
        yield number, where, row


def _said(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return f"byte {error.start + 1} of the line (0x{byte:02x}) is not UTF-8; save it as UTF-8"
    return f"not valid JSON ({error})"


def _has_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_has_surrogate(part) for pair in value.items() for part in pair)
    return isinstance(value, list) and any(map(_has_surrogate, value))
