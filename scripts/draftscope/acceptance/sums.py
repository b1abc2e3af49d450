"""Every measure of acceptance as sums by prompt, from whatever a log holds.

The definitions are those of `metrics`. A measure that a log cannot give is missing, with the
reason; nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from draftscope.engines.requests import INCLUDED, OMITTED
from draftscope.exhibits.measures import BY_POSITION
from draftscope.exhibits.measures import WHOLE as PUBLISHED
from draftscope.metrics import terms

# As engines print it: 1 + accepted / rounds, whatever the last round really emitted.
ENGINE_LENGTH = "engine_acceptance_length"
WHOLE = (*PUBLISHED, ENGINE_LENGTH)
MEASURES = (*WHOLE, *BY_POSITION)

# What a measure needs that a log may lack.
_EVERY_ROUND = "rounds that offered no draft are left out of this log"
_NEEDS = {
    "def1": ("draft_length", "offered"),
    "draft_acceptance_rate": ("accepted_total", "offered_total"),
    "accepted_per_emitted": ("every_round", "accepted_total", "emitted_total"),
    "verify_rate": ("every_round", "offered_total", "emitted_total"),
    "accepted_length": ("every_round", "accepted_total"),
    "acceptance_length": ("every_round", "emitted_total"),
    "acceptance_length_where_offered": ("offered", "emitted"),
    ENGINE_LENGTH: ("accepted_total",),
    "position_rate": ("every_round", "accepted"),
    "conditional_rate": ("offered",),
}
_REASONS = {
    "draft_length": "the draft length is not known",
    "accepted": "accepted drafts are not reported by round",
    "offered": "offered drafts are not reported by round",
    "emitted": "emitted tokens are not reported by round",
    "accepted_total": "accepted drafts are not reported",
    "offered_total": "offered drafts are not reported",
    "emitted_total": "emitted tokens are not reported",
    "every_round": _EVERY_ROUND,
}
Pair = tuple[np.ndarray, np.ndarray]  # numerators and denominators, each [prompts]


@dataclass(frozen=True)
class Sums:
    """A log of one loop as sums by prompt.

    Attributes:
        values: (measure, draft position or None) -> numerators and denominators [prompts].
        missing: measure -> why the log cannot give it.
        requests: trajectories; rounds: rounds of all of them, cut_rounds: those known to offer
            fewer drafts than the draft length (None where offers by round are not known).
    """

    prompt_ids: np.ndarray
    draft_length: int | None
    requests: int
    rounds: int
    cut_rounds: int | None
    values: dict[tuple[str, int | None], Pair]
    missing: dict[str, str]

    def of(self, prompt_ids: np.ndarray) -> Sums:
        """The sums of these prompts alone, in this order; each must be there."""
        place = {name: at for at, name in enumerate(self.prompt_ids.tolist())}
        take = np.array([place[name] for name in prompt_ids.tolist()], np.int64)
        values = {key: (above[take], below[take]) for key, (above, below) in self.values.items()}
        return replace(self, prompt_ids=prompt_ids, values=values)

    def keys(self, measures: tuple[str, ...] = MEASURES) -> Iterator[tuple[str, int | None]]:
        """Measures and positions that the log gives, in the order of the measures."""
        for name in measures:
            yield from sorted(
                (key for key in self.values if key[0] == name), key=lambda key: key[1] or 0
            )


def of_rounds(rounds: pa.Table) -> Sums:
    """Sums of a table of schema `rounds`, of one loop."""
    prompt_ids, prompt = _prompts(rounds)
    columns = {name: _integers(rounds, name) for name in ("accepted", "offered", "emitted")}
    gamma = int(pc.max(rounds["draft_length"]).as_py())
    values = _summed(columns, gamma, prompt, len(prompt_ids))
    some = columns["offered"] > 0
    above = (columns["accepted"] + 1) * some
    values[ENGINE_LENGTH, None] = _pair(above, 1 * some, prompt, len(prompt_ids))
    trajectories = rounds.group_by(["prompt_id", "sample"]).aggregate([]).num_rows
    cut = int((columns["offered"] < gamma).sum())
    return Sums(prompt_ids, gamma, trajectories, rounds.num_rows, cut, values, {})


def of_imported(requests: pa.Table) -> Sums:
    """Sums of a table of schema `imported_rounds`, of one draft length."""
    prompt_ids, prompt = _prompts(requests)
    size, rounds = len(prompt_ids), _integers(requests, "rounds")
    gamma = requests["draft_length"][0].as_py()
    known = _known(requests, rounds)
    values: dict[tuple[str, int | None], Pair] = {}
    cut = None
    if "accepted" in known:
        lists = {name: _flat(requests, name) for name in ("accepted", "offered", "emitted")}
        lengths = pc.fill_null(pc.list_value_length(_column(requests, "accepted")), 0).to_numpy()
        count, inside = _flat(requests, "count"), np.repeat(prompt, lengths)
        columns = {name: lists[name] for name in lists if name in known}
        values |= _summed(columns, gamma, inside, size, count)
        if "offered" in known and gamma is not None:
            cut = int(count[columns["offered"] < gamma].sum())
    totals = {
        name: _integers(requests, f"{name}_total")
        for name in ("accepted", "offered", "emitted")
        if f"{name}_total" in known
    } | {"rounds": rounds}
    for name, above, below in _of_totals(totals):
        values[name, None] = _pair(above, below, prompt, size)
    listed = pc.equal(_column(requests, "without_drafts"), INCLUDED).to_numpy(False)
    if "accepted" in known and "offered" in known and listed.any():
        # Rounds that engines would not have counted; what an engine counted itself stays.
        some = (columns["offered"] > 0) | ~np.repeat(listed, lengths)
        values[ENGINE_LENGTH, None] = _pair(
            (columns["accepted"] + 1) * some * count, some * count, inside, size
        )
    missing = {
        name: _REASONS[lack]
        for name in MEASURES
        if (lack := next((need for need in _NEEDS[name] if need not in known), None))
    }
    values = {key: value for key, value in values.items() if key[0] not in missing}
    return Sums(prompt_ids, gamma, requests.num_rows, int(rounds.sum()), cut, values, missing)


def _known(requests: pa.Table, rounds: np.ndarray) -> set[str]:
    """What every request reports; one that counted no round has nothing to report."""
    silent = pa.array(rounds == 0)
    known = {
        name
        for name in (*("accepted", "offered", "emitted"), *_REASONS)
        if name in requests.column_names
        and pc.all(pc.or_(pc.is_valid(_column(requests, name)), silent)).as_py()
    }
    if requests["draft_length"].null_count:
        known.discard("draft_length")
    else:
        known.add("draft_length")
    if not pc.any(pc.equal(requests["without_drafts"], OMITTED)).as_py():
        known.add("every_round")
    return known


def _of_totals(totals: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The measures that need no rounds one by one, by request."""
    rounds, accepted = totals["rounds"], totals.get("accepted")
    offered, emitted = totals.get("offered"), totals.get("emitted")
    if accepted is not None:
        yield "accepted_length", accepted, rounds
        yield ENGINE_LENGTH, accepted + rounds, rounds
        if offered is not None:
            yield "draft_acceptance_rate", accepted, offered
    if emitted is not None:
        yield "acceptance_length", emitted, rounds
        if accepted is not None:
            yield "accepted_per_emitted", accepted, emitted
        if offered is not None:
            yield "verify_rate", emitted, offered + rounds


def _summed(
    columns: dict[str, np.ndarray],
    gamma: int | None,
    prompt: np.ndarray,
    size: int,
    count: np.ndarray | int = 1,
) -> dict[tuple[str, int | None], Pair]:
    return {
        (name, position): _pair(above * count, below * count, prompt, size)
        for name, position, above, below in terms(
            columns["accepted"], gamma, columns.get("offered"), columns.get("emitted")
        )
    }


def _pair(above: np.ndarray, below: np.ndarray, prompt: np.ndarray, size: int) -> Pair:
    return np.bincount(prompt, above, size), np.bincount(prompt, below, size)


def _prompts(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The prompts in the order of their names, and the number of each row's."""
    encoded = table["prompt_id"].combine_chunks().dictionary_encode()
    names = np.asarray(encoded.dictionary.to_pylist(), object)
    order = np.argsort(names)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return names[order], place[encoded.indices.to_numpy()]


def _column(table: pa.Table, name: str) -> pa.Array:
    return table[name].combine_chunks()


def _integers(table: pa.Table, name: str) -> np.ndarray:
    return pc.fill_null(table[name], 0).to_numpy().astype(np.int64)


def _flat(table: pa.Table, name: str) -> np.ndarray:
    return pc.list_flatten(_column(table, name)).to_numpy().astype(np.int64)
