"""Logs of rounds as files: what loops they hold, and under which conditions."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from draftscope import records
from draftscope.acceptance.sums import Sums, of_imported, of_rounds
from draftscope.engines.requests import INCLUDED, OMITTED
from draftscope.errors import UserError
from draftscope.inputs import regular

# Columns that tell the loops of a file apart; rounds of two loops are never pooled.
LOOP = {
    "rounds": ("draft_length", "rule", "lossless", "source"),
    "imported_rounds": ("draft_length",),
}


@dataclass(frozen=True)
class Log:
    """One loop of a file.

    Attributes:
        condition: the file's, with what tells its loops apart.
        prompts: prompt id -> digest of its text, of prompts with rounds, where the file says.
    """

    path: str
    condition: dict[str, Any]
    sums: Sums
    prompts: dict[str, str]


def loops(path: str | Path, choose: Mapping[str, str] | None = None) -> Iterator[Log]:
    """The loops of a file, by draft length.

    Args:
        choose: values of the columns in `LOOP` that are asked for, as text.

    Raises:
        UserError: no file of rounds, a column or value that is not there, or no round at all.
    """
    file = regular(path)
    schema = _schema(file, path)
    table = records.read(file, schema)
    if not (pc.sum(table["rounds"]).as_py() if "rounds" in table.column_names else table.num_rows):
        raise UserError(f"{path} holds no rounds")
    for name, text in (choose or {}).items():
        table = _chosen(path, table, LOOP[schema], name, text)
    names = list(LOOP[schema])
    condition = records.condition(table)
    if schema == "imported_rounds":
        condition = {"source": "imported"} | condition
    digests = records.prompt_digests(table)
    groups = table.group_by(names).aggregate([]).to_pylist()
    for group in sorted(groups, key=lambda group: [str(v).rjust(9) for v in group.values()]):
        part = table
        for name, value in group.items():
            part = part.filter(_equal(part[name], value))
        sums = of_rounds(part) if schema == "rounds" else of_imported(part)
        said = condition | group | {"rounds_without_drafts": _without(part)}
        # A prompt that was skipped has a text and no round; it is paired with nothing.
        texts = {name: digests[name] for name in sums.prompt_ids.tolist() if name in digests}
        yield Log(str(path), said, sums, texts)


def one_loop(path: str | Path, choose: Mapping[str, str], side: str) -> Log:
    """The only loop of a file that is left after choosing.

    Raises:
        UserError: several; says what to choose from.
    """
    found = list(loops(path, choose))
    if len(found) > 1:
        for name in found[0].condition:
            values = list(dict.fromkeys(str(log.condition.get(name)) for log in found))
            if len(values) > 1:
                raise UserError(
                    f"{path} holds several loops: {name} is {', '.join(values)}; choose one with "
                    f"--{side} {name}={values[0]}"
                )
    return found[0]


def _schema(file: Path, path: str | Path) -> str:
    """The schema of a file, which the user calls `path`."""
    try:
        written = (pq.read_schema(file).metadata or {}).get(b"schema_name", b"").decode()
    except (pa.ArrowInvalid, OSError):
        raise UserError(
            f"{path} is no Parquet file of rounds; bring other logs in with import_rounds.py"
        ) from None
    if written not in LOOP:
        raise UserError(
            f"{path} holds {written or 'no named schema'}; expected {' or '.join(LOOP)}"
        )
    return written


def _without(table: pa.Table) -> str:
    """Are rounds without a draft in the log? One that an engine counted is."""
    if "without_drafts" not in table.column_names:
        return INCLUDED
    return OMITTED if pc.any(pc.equal(table["without_drafts"], OMITTED)).as_py() else INCLUDED


def _chosen(
    path: str | Path, table: pa.Table, names: tuple[str, ...], name: str, text: str
) -> pa.Table:
    if name not in names:
        close = difflib.get_close_matches(name, names, 1)
        raise UserError(
            f"{path} has no {name} to choose; nearest: {close[0] if close else ', '.join(names)}"
        )
    values = pc.unique(table[name]).to_pylist()
    shown = {str(value).lower(): value for value in values}
    if text.lower() not in shown:
        raise UserError(
            f"{path} has no {name} {text}; it has {', '.join(sorted(map(str, values)))}"
        )
    return table.filter(_equal(table[name], shown[text.lower()]))


def _equal(column: pa.ChunkedArray, value: Any) -> pa.ChunkedArray:
    return pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
