"""What the study reads of one configuration: only the columns and rows it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from draftscope import records
from draftscope.errors import UserError
from draftscope.statistics.observations import Observations, observe_positions, observe_rounds

SHARED = ("target", "target_revision", "tokenizer_sha256", "law", "domain", "mode", "template")
ROUND_COLUMNS = ("prompt_id", "sample", "draft_length", "start", "offered", "accepted", "end")
SCORE_COLUMNS = ("log_p", "log_q", "log_q_target_argmax", "target_disagreement")
_QUANTITIES = {"alpha": "accept_prob_emitted", "def2": "def2"}


def columns(path: str, schema: str, names: Sequence[str]) -> pa.Table:
    """Some columns of a file written by `records.write`; the rest is never read from disk.

    Raises:
        UserError: no such file, damaged, or of another schema.
    """
    try:
        metadata = pq.read_schema(path).metadata or {}
        written = metadata.get(b"schema_name", b"").decode()
        if written != schema:
            raise UserError(f"{path} holds {written or 'no named schema'}, expected {schema}")
        return pq.read_table(path, columns=list(names))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{path} is damaged or not Parquet ({reason}); delete it and run again"
        ) from error


def round_observations(
    path: str, loops: pa.Table, draft_length: int
) -> tuple[Observations, Observations]:
    """def1 of each round, accepted / gamma, at its start: full rounds, and all as published.

    Args:
        loops: schema loops; it holds the length of each text.

    Raises:
        UserError: the file has no rounds of this draft length, or rounds of texts that the loops
            file does not list.
    """
    table = columns(path, "rounds", ROUND_COLUMNS)
    present = sorted(pc.unique(table["draft_length"]).to_pylist())
    if present and draft_length not in present:
        raise UserError(f"{path} has no rounds of draft length {draft_length}, only of {present}")
    table = table.filter(pc.equal(table["draft_length"], draft_length))
    try:
        full, everything = (
            observe_rounds(table, loops, gamma=draft_length, keep=keep) for keep in ("full", "all")
        )
    except ValueError as error:
        raise UserError(f"{path} does not fit its loops file: {error}") from error
    return full, everything


def position_observations(paths: Sequence[str], draft: str) -> dict[str, Observations]:
    """alpha and def2 at every generated position under the decoding law.

    alpha is min(1, q(y)/p(y)) at the emitted y; def2 is q(argmax p), the expectation of "the
    drafted token is the target's argmax" when the draft is sampled. Positions where the scored
    law excludes the emitted token have neither.

    Raises:
        UserError: no shard holds scores of this draft under the decoding law.
    """
    keys, parts, drafts = ["prompt_id", "sample", "draft", "law"], [], set()
    for path in paths:
        table = columns(path, "scores", [*keys, *SCORE_COLUMNS])
        drafts.update(pc.unique(table["draft"]).to_pylist())
        chosen = pc.and_(pc.equal(table["draft"], draft), pc.equal(table["law"], "decoding"))
        parts.append(table.filter(chosen))
    if draft not in drafts and drafts:
        raise UserError(
            f"no scores of draft {draft!r} in {', '.join(map(str, paths))}, only of "
            f"{', '.join(sorted(drafts))}"
        )
    table = pa.concat_tables(parts)
    found = {}
    for name, quantity in _QUANTITIES.items():
        try:
            found[name] = observe_positions(table, quantity)
        except ValueError as error:
            raise UserError(f"{', '.join(map(str, paths))}: {error}") from error
    return found


def require_one_run(paths: Sequence[str], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse to join files of different runs; returns the condition of the first.

    Args:
        paths: rounds, loops and scores of one configuration.
        expected: what the configuration says (domain, mode), checked where a file says it too.

    Raises:
        UserError: names the key, the files and both values.
    """
    conditions = {str(path): _condition(path) for path in paths}
    for path, condition in conditions.items():
        for key, value in expected.items():
            if key in condition and condition[key] != value:
                raise UserError(
                    f"{path} was measured with {key} {condition[key]!r}, not {value!r}: the paths "
                    "on the command line are not in the order of the configurations"
                )
    shared = [key for key in SHARED if all(key in c for c in conditions.values())]
    records.require_same_condition(
        {path: {key: c[key] for key in shared} for path, c in conditions.items()}
    )
    return conditions[str(paths[0])]


def _condition(path: str) -> dict[str, Any]:
    try:
        return records.condition(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} is damaged or not Parquet; delete it and run again") from error
