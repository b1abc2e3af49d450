"""Some columns of a result file, a few rows at a time; the rest is never read from disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from draftscope.errors import UserError

ROWS = 65_536


def batches(
    path: str | os.PathLike,
    schema: str,
    names: Sequence[str],
    rows: int = ROWS,
    coded: Sequence[str] = (),
) -> Iterator[pa.Table]:
    """Tables of at most `rows` rows, in the order of the file; none for a file without rows.

    Args:
        path: a file written by `records.write`.
        schema: the schema that it must have been written under.
        names: columns to read.
        coded: those of them that come dictionary-encoded: a text that stands in a million rows
            is then held once.

    Raises:
        UserError: no such file, damaged, or of another schema.
    """
    try:
        whole = pq.read_schema(path)
        written = (whole.metadata or {}).get(b"schema_name", b"").decode()
        if written != schema:
            raise UserError(f"{path} holds {written or 'no named schema'}, expected {schema}")
        if missing := set(names) - set(whole.names):
            raise UserError(
                f"{path} was written by another version of schema {schema}: it lacks "
                f"{', '.join(sorted(missing))}; delete it and run again"
            )
        with pq.ParquetFile(path, read_dictionary=list(coded)) as file:
            for batch in file.iter_batches(rows, columns=list(names)):
                yield pa.Table.from_batches([batch])
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{path} is damaged or not Parquet ({reason}); delete it and run again"
        ) from error
