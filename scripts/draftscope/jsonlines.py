"""JSON lines: one JSON object a line, in UTF-8, with every fault named by file and line."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
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
    for number, line in lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = parse(line)
        except (ValueError, RecursionError) as error:
            if may_be_torn and is_torn(line, error):
                log.warning("%s: dropped a torn last line", where)
                return
            raise UserError(f"{where}: {said(error)}") from error
        yield number, where, checked(where, row)


def lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line, as they stand in the file; gzip is unpacked.

    Raises:
        UserError: damaged or cut gzip.
    """
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, line.removeprefix(BOM_UTF8) if number == 1 else line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path} is gzip, but damaged or cut ({error}); unpack what can be read with "
            "`gzip -dc` and give that file"
        ) from error


def parse(line: bytes) -> Any:
    """The value of one line.

    Raises:
        ValueError, RecursionError: not UTF-8, or not JSON.
    """
    return json.loads(line.decode("utf-8"), object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; JSON would silently keep the last of two values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:60]!a} stands twice in one object")
    return found


def is_torn(line: bytes, error: Exception) -> bool:
    """Is the line, which `parse` refused, the beginning of one that was not written to its end?

    So it is where the newline is missing and nothing is wrong before the end of the line.
    """
    if line.endswith(b"\n"):
        return False
    if isinstance(error, UnicodeDecodeError):
        return error.reason == "unexpected end of data"
    if not isinstance(error, json.JSONDecodeError):
        return False
    rest = error.doc[error.pos :].strip()
    words = ("true", "false", "null", "-")
    return error.msg.startswith(("Unterminated", "Invalid \\")) or any(
        word.startswith(rest) for word in words
    )


def checked(where: str, row: Any) -> dict[str, Any]:
    """The object of a line.

    Raises:
        UserError: no object, or a string in it holds half of a surrogate pair.
    """
    if not isinstance(row, dict):
        raise UserError(f"{where}: expected a JSON object, found {type(row).__name__}")
    for key, value in row.items():
        if _has_surrogate(key) or _has_surrogate(value):
            raise UserError(
                f"{where}: {key!a} holds half of a surrogate pair (\\ud800 to \\udfff); write "
                "the character itself, or both halves"
            )
    return row


def said(error: Exception) -> str:
    """What was wrong with a line that `parse` refused."""
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
