"""Objects of a file that an engine or its client wrote: lines, server-sent events, or one value."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftscope import jsonlines
from draftscope.engines.fields import Object
from draftscope.errors import UserError
from draftscope.inputs import regular

log = logging.getLogger(__name__)

# First bytes of files that are often given by mistake.
_OTHER = {b"PAR1": "Parquet", b"PK\x03\x04": "a zip archive", b"\x28\xb5\x2f\xfd": "Zstandard"}
_COUNTERS = (b"# HELP", b"# TYPE", b"vllm:", b"sglang:")


def objects(path: str | Path) -> Iterator[Object]:
    """The objects of a file, each with its place.

    A file holds one object a line, or one JSON value (an object, or a list of objects); lines of
    server-sent events ("data: {...}") are read as what they carry. Gzip is unpacked, a byte order
    mark skipped, a torn last line dropped and logged.

    Raises:
        UserError: no such file, empty, of another kind, or a line that is no JSON object.
    """
    for found in values(path, drop_torn=True):
        if isinstance(found, UserError):
            raise found
        yield found


def values(path: str | Path, drop_torn: bool = False) -> Iterator[Object | UserError]:
    """As `objects`, but what is wrong with a line is handed over instead of raised.

    Args:
        drop_torn: a last line that a killed writer left behind is logged, and no fault.
    """
    first, file = True, regular(path)
    for number, line in jsonlines.lines(file):
        content = _content(line)
        if not content:
            continue
        where = f"{path}:{number}"
        if first:
            _refuse_other(path, content)
        try:
            value = jsonlines.parse(content)
        except (ValueError, RecursionError) as error:
            if first and content[:1] in (b"{", b"["):
                value = _whole(file)
                if value is not None:
                    yield from _objects(str(path), value)
                    return
            if drop_torn and jsonlines.is_torn(line, error):
                log.warning("%s: dropped a torn last line", where)
                continue
            yield UserError(f"{where}: {jsonlines.said(error)}; expected one JSON object a line")
            first = False
            continue
        yield from _objects(where, value)
        first = False
    if first:
        yield UserError(f"{path} is empty: it holds no JSON object")


def _content(line: bytes) -> bytes:
    """What is to be parsed of a line; nothing of blank lines and of the frame of events."""
    line = line.strip()
    if line.startswith(b"data:"):
        line = line[5:].strip()
        return b"" if line == b"[DONE]" else line
    return b"" if line.startswith((b"event:", b"id:", b"retry:", b":")) else line


def _refuse_other(path: str | Path, content: bytes) -> None:
    for start, kind in _OTHER.items():
        if content.startswith(start):
            raise UserError(f"{path} is {kind}; expected JSON, one object a line")
    if content.startswith(_COUNTERS):
        raise UserError(
            f"{path} holds the counters of a server, not its requests; for those of vLLM give "
            "--format vllm-counters"
        )


def _whole(path: Path) -> Any:
    """The file as one JSON value that stands over several lines, None where it is none."""
    text = b"".join(line for _, line in jsonlines.lines(path))
    try:
        return jsonlines.parse(text)
    except (ValueError, RecursionError):
        return None


def _objects(where: str, value: Any) -> Iterator[Object | UserError]:
    several = isinstance(value, list)
    for place, one in enumerate(value if several else [value]):
        here = f"{where}[{place}]" if several else where
        try:
            yield Object(here, jsonlines.checked(here, one))
        except UserError as error:
            yield error
