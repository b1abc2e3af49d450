"""Files are contracts: read and write Parquet with a condition, whole or not at all.

Every file carries two records in its metadata. The *condition* says under which settings its
rows were measured; files of different conditions are not compared unless the caller names the
keys that may differ. The *provenance* says how the file came about and never blocks anything.
A file may also say which texts its prompt ids stand for, so that prompts are paired with
themselves alone.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from draftscope.errors import UserError
from draftscope.schemas import SCHEMAS
from draftscope.writing import atomic, write_json

__all__ = [
    "SCHEMAS",
    "atomic",
    "common_condition",
    "condition",
    "none_if_nan",
    "prompt_digests",
    "provenance",
    "read",
    "read_many",
    "require_same_condition",
    "write",
    "write_json",
]
PACKAGES = ("torch", "transformers", "numpy", "pyarrow", "scipy", "statsmodels", "snakemake")
_CONDITION, _PROVENANCE, _SCHEMA = b"condition", b"provenance", b"schema_name"
_PROMPTS = b"prompts"


def write(
    path: str | os.PathLike,
    rows: pa.Table | Iterable[Mapping[str, Any]] | Mapping[str, Any],
    schema: str,
    condition: Mapping[str, Any],
    provenance_extra: Mapping[str, Any] | None = None,
    prompts: Mapping[str, str] | None = None,
) -> None:
    """Write rows as Parquet under the schema of that name.

    Args:
        rows: a pyarrow table, a mapping of column name to array, or dicts, one a row.
        schema: key of `SCHEMAS`.
        condition: the settings the rows were measured under (JSON values).
        provenance_extra: what the caller knows beyond the general provenance (seed, device).
        prompts: prompt id -> digest of its text, see `prompts.digests.digests`.

    Raises:
        ValueError: a column is missing or foreign, of another type, null where the schema
            forbids it, or NaN. That is a fault of ours, never of the user.
    """
    expected = SCHEMAS[schema]
    table = _as_table(rows, expected, schema)
    _check_values(table, expected, schema)
    about = {
        _SCHEMA: schema.encode(),
        _CONDITION: _dump(condition),
        _PROVENANCE: _dump(_general_provenance() | dict(provenance_extra or {})),
    }
    if prompts is not None:
        about[_PROMPTS] = _dump(prompts)
    table = table.replace_schema_metadata(about)
    with atomic(path, "wb") as file:
        pq.write_table(table, file, compression="zstd")


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False).encode()


def _as_table(rows: Any, expected: pa.Schema, schema: str) -> pa.Table:
    if isinstance(rows, Mapping):
        rows = pa.table({name: pa.array(values) for name, values in rows.items()})
    if not isinstance(rows, pa.Table):
        rows = list(rows)
        for row in rows:
            if set(row) != set(expected.names):
                raise ValueError(
                    f"a row of {schema} has other columns than its schema: "
                    f"{sorted(set(row) ^ set(expected.names))}"
                )
        columns = [
            pa.array([row[field.name] for row in rows], type=field.type, from_pandas=False)
            for field in expected
        ]
        return pa.Table.from_arrays(columns, schema=expected)
    if set(rows.column_names) != set(expected.names):
        raise ValueError(
            f"a table of {schema} has other columns than its schema: "
            f"{sorted(set(rows.column_names) ^ set(expected.names))}"
        )
    return rows.select(expected.names).cast(expected)


def _check_values(table: pa.Table, expected: pa.Schema, schema: str) -> None:
    for field in expected:
        column = table.column(field.name)
        if not field.nullable and column.null_count:
            raise ValueError(f"column {field.name} of {schema} holds nulls")
        if pa.types.is_list(field.type):
            column = pc.list_flatten(column)
            if column.null_count:
                raise ValueError(f"a list in column {field.name} of {schema} holds nulls")
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            raise ValueError(f"column {field.name} of {schema} holds NaN")


def read(path: str | os.PathLike, schema: str, prompt_ids: Sequence[str] | None = None) -> pa.Table:
    """Read a file written by `write` and check that it is what the caller expects.

    Args:
        prompt_ids: when given, the file must hold exactly these prompts.

    Raises:
        UserError: no such file, truncated, another schema, missing or foreign prompts.
    """
    table = _open(path, schema)
    if prompt_ids is not None:
        found = set(table.column("prompt_id").to_pylist())
        wanted = set(prompt_ids)
        missing, foreign = sorted(wanted - found), sorted(found - wanted)
        if missing or foreign:
            parts = [f"lacks {_some(missing)}"] * bool(missing)
            parts += [f"holds foreign {_some(foreign)}"] * bool(foreign)
            raise UserError(
                f"{path} is not complete: it {' and '.join(parts)}; delete it and run again"
            )
    return table


def _open(path: str | os.PathLike, schema: str) -> pa.Table:
    table = _whole(path, pq.read_table)
    written = (table.schema.metadata or {}).get(_SCHEMA, b"").decode()
    if written != schema:
        raise UserError(f"{path} holds {written or 'no named schema'}, expected {schema}")
    try:
        return table.select(SCHEMAS[schema].names).cast(
            SCHEMAS[schema].with_metadata(table.schema.metadata)
        )
    except (KeyError, pa.ArrowInvalid) as error:
        raise UserError(
            f"{path} was written by another version of schema {schema}; delete it and run again"
        ) from error


def _whole(path: str | os.PathLike, read: Callable[[Any], Any]) -> Any:
    """What `read` makes of a Parquet file; a file that is damaged, or none, is named."""
    if not Path(path).is_file():
        raise UserError(f"{path} does not exist")
    try:
        return read(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{path} is damaged or not Parquet ({reason}); delete it and run again"
        ) from error


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"prompt {shown}" if len(names) <= 3 else f"prompts {shown} and {len(names) - 3} more"


def condition(source: str | os.PathLike | pa.Table) -> dict[str, Any]:
    """The condition a file or a table was measured under."""
    return _metadata(source, _CONDITION)


def provenance(source: str | os.PathLike | pa.Table) -> dict[str, Any]:
    """How a file came about: seed, versions, commit, command, host, device."""
    return _metadata(source, _PROVENANCE)


def prompt_digests(source: str | os.PathLike | pa.Table) -> dict[str, str]:
    """Prompt id -> digest of its text; empty where the file does not say."""
    return _metadata(source, _PROMPTS)


def _metadata(source: str | os.PathLike | pa.Table, key: bytes) -> dict[str, Any]:
    if isinstance(source, pa.Table):
        schema = source.schema
    else:
        schema = _whole(source, pq.read_schema)
    return json.loads((schema.metadata or {}).get(key, b"{}"))


def require_same_condition(
    conditions: Mapping[str, Mapping[str, Any]], may_differ: Iterable[str] = ()
) -> dict[str, Any]:
    """Refuse to put rows of different conditions into one comparison.

    Args:
        conditions: name of the source (a path) -> its condition.
        may_differ: keys that the comparison is about.

    Returns:
        The keys and values that all of them share.

    Raises:
        UserError: names the first key that differs, with both sources and both values.
    """
    allowed = set(may_differ)
    (first, reference), *rest = conditions.items()
    for name, other in rest:
        for key in sorted(set(reference) | set(other)):
            if key not in allowed and reference.get(key) != other.get(key):
                raise UserError(
                    f"different conditions: {key} is {reference.get(key)!r} in {first} but "
                    f"{other.get(key)!r} in {name}; they cannot be compared"
                )
    return {key: value for key, value in reference.items() if key not in allowed}


def common_condition(sources: Sequence[str | os.PathLike]) -> dict[str, Any]:
    """The keys and values that the conditions of all these files share; the others are left out."""
    first, *rest = map(condition, sources)
    return {k: v for k, v in first.items() if all(other.get(k, ...) == v for other in rest)}


def read_many(
    paths: Sequence[str | os.PathLike], schema: str, may_differ: Iterable[str] = ()
) -> pa.Table:
    """Concatenate files of one schema; the common condition becomes the table's.

    Raises:
        UserError: as `read` and `require_same_condition`, or a (prompt, sample) stands in two
            of the files.
    """
    if not paths:
        raise UserError(f"no file of schema {schema} to read")
    tables = [_open(path, schema) for path in paths]
    shared = require_same_condition(
        {str(path): condition(table) for path, table in zip(paths, tables, strict=True)}, may_differ
    )
    owner: dict[str, str] = {}
    for path, table in zip(paths, tables, strict=True):
        if not may_differ and "prompt_id" in table.column_names:
            for prompt in set(table.column("prompt_id").to_pylist()):
                if owner.setdefault(prompt, str(path)) != str(path):
                    raise UserError(f"prompt {prompt} stands in {owner[prompt]} and in {path}")
    joined = pa.concat_tables(tables, promote_options="none") if tables[1:] else tables[0]
    return joined.replace_schema_metadata({_SCHEMA: schema.encode(), _CONDITION: _dump(shared)})


def _general_provenance() -> dict[str, Any]:
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "python": platform.python_version(),
        "packages": versions,
        "host": platform.node(),
        "user": _user(),
        "commit": _commit(),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an unnamed user id, as in many containers
        return str(os.getuid())


def _commit() -> str | None:
    root = Path(__file__).resolve().parents[2]
    answer = (
        subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True,
            text=True,
            check=False,
        )
        if (root / ".git").exists()
        else None
    )
    return answer.stdout.strip() or None if answer else None


def none_if_nan(value: float | None) -> float | None:
    """Null for NaN, for nullable number columns."""
    return None if value is None or math.isnan(value) else float(value)
