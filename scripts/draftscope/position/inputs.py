"""What the study reads of one configuration: only the columns and rows it needs, block by block.

A block is at most about `VALUES` rounds or positions of whole trajectories, observed under every
metric that the file tells of. Blocks can be read again and again, so that no statistic needs all
of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from draftscope import columns, records
from draftscope.errors import UserError
from draftscope.statistics.observations import (
    Observations,
    full_rounds,
    observe_positions,
    observe_rounds,
)
from draftscope.statistics.sums import Texts

SHARED = ("target", "target_revision", "tokenizer_sha256", "law", "domain", "mode", "template")
ROUND_COLUMNS = ("prompt_id", "sample", "draft_length", "start", "offered", "accepted", "end")
SCORE_COLUMNS = ("log_p", "log_q", "log_q_target_argmax", "target_disagreement")
VALUES = 500_000  # of a block: some tens of MB while it is observed
SCORE_ROWS = 64  # trajectories read at a time, each as long as a context
_QUANTITIES = {"alpha": "accept_prob_emitted", "def2": "def2"}

# Metric -> what counts, and everything as published; of positions they are the same.
Block = Mapping[str, tuple[Observations, Observations]]
Blocks = Callable[[], Iterator[Block]]


def round_blocks(path: str, texts: Texts, draft_length: int) -> Blocks:
    """def1 of each round, accepted / gamma, at its start: full rounds, and all as published.

    The rounds of one draft length stay in memory, in some twenty bytes each.

    Args:
        texts: of the loops file, which holds the length of each text.

    Raises:
        UserError: the file has no rounds of this draft length; from the blocks, rounds of texts
            that the loops file does not list, or outside them.
    """
    parts, present = [], set()
    for table in columns.batches(path, "rounds", ROUND_COLUMNS, coded=("prompt_id", "end")):
        present.update(pc.unique(table["draft_length"]).to_pylist())
        chosen = table.filter(pc.equal(table["draft_length"], draft_length))
        parts.append(chosen.drop_columns("draft_length"))
    if present and draft_length not in present:
        raise UserError(
            f"{path} has no rounds of draft length {draft_length}, only of {sorted(present)}"
        )
    tables = _whole_trajectories(parts, VALUES)
    lengths = {
        "prompt_id": texts.prompt_ids[texts.prompt],
        "sample": texts.sample,
        "tokens": texts.tokens,
    }

    def blocks() -> Iterator[Block]:
        for table in tables:
            try:
                everything = observe_rounds(table, lengths, gamma=draft_length, keep="all")
                full = full_rounds(everything, table)
            except ValueError as error:
                raise UserError(f"{path} does not fit its loops file: {error}") from error
            yield {"def1": (full, everything)}

    return blocks


def _whole_trajectories(parts: Sequence[pa.Table], rows: int) -> list[pa.Table]:
    """Slices of about so many rows, none of which cuts a trajectory in two."""
    if not parts:
        return []
    table = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    codes = table["prompt_id"].combine_chunks().indices.to_numpy().astype(np.int64)
    sample = table["sample"].to_numpy()
    key = codes * (int(sample.max(initial=0)) + 1) + sample
    begins = np.flatnonzero(np.diff(key, prepend=-1))  # where another trajectory begins
    if len(begins) > len(np.unique(key[begins])):  # a file in another order than replay writes
        order = np.lexsort((table["start"].to_numpy(), key))
        table, key = table.take(pa.array(order)), key[order]
        begins = np.flatnonzero(np.diff(key, prepend=-1))
    slices, start = [], 0
    while start < table.num_rows:
        later = begins[begins >= start + rows]
        stop = int(later[0]) if len(later) else table.num_rows
        slices.append(table.slice(start, stop - start))
        start = stop
    return slices


def position_blocks(paths: Sequence[str], texts: Texts, draft: str) -> Blocks:
    """alpha and def2 at every generated position under the decoding law.

    alpha is min(1, q(y)/p(y)) at the emitted y; def2 is q(argmax p), the expectation of "the
    drafted token is the target's argmax" when the draft is sampled. Positions where the scored
    law excludes the emitted token have neither.

    Raises:
        UserError: from the blocks: no shard holds scores of this draft, or the scores are of
            other texts than the loops file lists.
    """
    named = ", ".join(map(str, paths))

    def blocks() -> Iterator[Block]:
        drafts: set[str] = set()
        for table in _decoding_scores(paths, draft, drafts):
            try:
                found = {
                    name: observe_positions(table, quantity)
                    for name, quantity in _QUANTITIES.items()
                }
                texts.require_same_lengths(next(iter(found.values())))
            except ValueError as error:
                raise UserError(f"{named}: {error}") from error
            yield {name: (values, values) for name, values in found.items()}
        if drafts and draft not in drafts:
            raise UserError(
                f"no scores of draft {draft!r} in {named}, only of {', '.join(sorted(drafts))}"
            )

    return blocks


def _decoding_scores(paths: Sequence[str], draft: str, drafts: set[str]) -> Iterator[pa.Table]:
    """One draft's scores under the decoding law; every draft that is met is added to `drafts`."""
    wanted = ["prompt_id", "sample", "draft", "law", *SCORE_COLUMNS]
    waiting: list[pa.Table] = []
    values = 0
    for path in paths:
        for table in columns.batches(path, "scores", wanted, SCORE_ROWS):
            drafts.update(pc.unique(table["draft"]).to_pylist())
            chosen = pc.and_(pc.equal(table["draft"], draft), pc.equal(table["law"], "decoding"))
            table = table.filter(chosen)
            if table.num_rows:
                waiting.append(table)
                values += pc.sum(pc.list_value_length(table["log_p"])).as_py()
            if values >= VALUES:
                yield pa.concat_tables(waiting)
                waiting, values = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


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
