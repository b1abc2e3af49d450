"""What the draft said instead (Figures 4 and 7), and how much probability it would have to move.

Counted at the first token of each word, number or phrase, in texts that do not loop: at triggers
one by one, and for every type of token which type the draft said instead (of a sample of a long
text's mismatches). What the draft would
have said is typed in the place of that token, after the same text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from draftscope.position.texts import NO_TOKEN, Source, Text
from draftscope.statistics.intervals import Interval, bootstrap_columns
from draftscope.tokens.names import NAMES, NO_TRIGGER, WITHOUT_TRIGGERS
from draftscope.tokens.typist import Typist

NOTHING = "none"
ALL = "all"
NO_MISMATCH = "the draft said every trigger"
MOST_TYPED = 64  # mismatches of a text, evenly spread over it, whose types are looked at
MOST_TOKENS = 40  # rows of what was said, the most frequent first
Row = dict[str, Any]


@dataclass
class _Place:
    """One trigger in a text: what the draft said of it."""

    prompt_id: str
    trigger: str
    agreed: bool
    type: str
    said: str
    moved: float
    p: float
    q: float


@dataclass
class Mismatches:
    """Collects the mismatches of one configuration."""

    triggers: Sequence[str]
    typist: Typist
    places: list[_Place] = field(default_factory=list)
    # By prompt: [type emitted, type said or nothing, (positions, probability moved)], and how many
    # first tokens of each type there are.
    matrices: dict[str, np.ndarray] = field(default_factory=dict)
    emitted: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def prompts(self) -> list[str]:
        return sorted(self.matrices)

    def add(self, text: Text) -> None:
        if text.problem:
            return
        size = len(NAMES)
        matrix = self.matrices.setdefault(text.prompt_id, np.zeros((size, size + 1, 2)))
        emitted = self.emitted.setdefault(text.prompt_id, np.zeros(size))
        first = np.flatnonzero(text.initial.astype(bool))
        emitted += np.bincount(text.type[first], minlength=size)
        wrong = first[text.proposal[first] != text.token[first]]
        turning = first[text.trigger[first] != NO_TRIGGER]
        spread = wrong[:: max(1, -(-len(wrong) // MOST_TYPED))]
        said = {
            place: self._said(text, place)
            for place in np.union1d(spread, np.intersect1d(turning, wrong)).tolist()
        }
        for place in spread.tolist():
            kind = said[place][0]
            column = size if kind == NOTHING else NAMES.index(kind)
            matrix[text.type[place], column] += (1.0, text.moved[place])
        for place in turning.tolist():
            numbers = (float(each[place]) for each in (text.moved, text.p, text.q))
            trigger = self.triggers[int(text.trigger[place])]
            kind, token = said.get(place, ("reflection", ""))
            agreed = place not in said
            self.places.append(_Place(text.prompt_id, trigger, agreed, kind, token, *numbers))

    def _said(self, text: Text, place: int) -> tuple[str, str]:
        """Type and characters of the draft's token at a position."""
        if text.proposal[place] == NO_TOKEN:
            return NOTHING, NOTHING
        other = self.typist.alternative(
            text.token, place, int(text.proposal[place]), int(text.region[place])
        )
        return NAMES[other.type], _shown(other.text)


def rows(source: Source, found: Mismatches, options: Mapping[str, Any]) -> list[Row]:
    """Rows of `position_mismatches` of one configuration.

    Args:
        options: of the bootstrap (method, confidence, resamples, rng).
    """
    by_trigger: dict[str, list[_Place]] = defaultdict(list)
    for place in found.places:
        by_trigger[place.trigger].append(place)
    listed = [(ALL, found.places)]
    listed += [(name, by_trigger[name]) for name in found.triggers if by_trigger[name]]
    shares: list[_Share] = []
    for trigger, places in listed:
        wrong = [place for place in places if not place.agreed]
        key = {"trigger": trigger, "triggers": len(places), "level": "summary"}
        shares.append(_Share(key | {"type": "", "said": ""}, wrong, places))
        if trigger == ALL:
            shares += _instead(key, wrong)
    return _rows(source, shares, found.prompts, options) + _matrix(source, found, options)


def _instead(key: Row, wrong: Sequence[_Place]) -> list[_Share]:
    """By type and by token, what the draft said."""
    kinds: dict[str, list[_Place]] = defaultdict(list)
    tokens: dict[tuple[str, str], list[_Place]] = defaultdict(list)
    for place in wrong:
        kinds[place.type].append(place)
        tokens[place.type, place.said].append(place)
    shares = [
        _Share(key | {"level": "type", "type": kind, "said": ""}, kinds[kind], wrong)
        for kind in (*NAMES, NOTHING)
        if kinds[kind]
    ]
    frequent = sorted(tokens.items(), key=lambda item: (-len(item[1]), item[0]))
    return shares + [
        _Share(key | {"level": "token", "type": kind, "said": said}, held, wrong)
        for (kind, said), held in frequent[:MOST_TOKENS]
    ]


@dataclass
class _Share:
    """A row to be: some places, and those that they are a share of."""

    key: Row
    part: Sequence[_Place]
    whole: Sequence[_Place]


def _rows(
    source: Source, shares: Sequence[_Share], prompts: Sequence[str], options: Mapping[str, Any]
) -> list[Row]:
    """Rows with shares from one set of resampled prompts."""
    number = {prompt: place for place, prompt in enumerate(prompts)}
    counts = np.zeros((2, len(prompts), len(shares)))
    for column, share in enumerate(shares):
        for line, places in enumerate((share.part, share.whole)):
            np.add.at(counts[line, :, column], [number[place.prompt_id] for place in places], 1)
    intervals = bootstrap_columns(*counts, **dict(options))
    made = []
    for share, interval in zip(shares, intervals, strict=True):
        reason = interval.reason
        if not share.whole:
            reason = WITHOUT_TRIGGERS if share.key["level"] == "summary" else NO_MISMATCH
        elif not share.part:
            reason = reason or NO_MISMATCH
        made.append(
            source.key
            | share.key
            | {"positions": len(share.part), "reason": reason}
            | {name: _mean(share.part, name) for name in ("moved", "p", "q")}
            | _shared(interval)
        )
    return made


def _shared(interval: Interval) -> Row:
    interval = interval.within(most=1.0)
    return {
        "prompts": interval.n,
        "share": interval.estimate,
        "share_lower": interval.low,
        "share_upper": interval.high,
        "method": "none" if interval.low is None else interval.method,
    }


def _matrix(source: Source, found: Mismatches, options: Mapping[str, Any]) -> list[Row]:
    """For each type that was emitted, the types that the draft said instead."""
    if not found.matrices:
        return []
    counts = np.stack([found.matrices[prompt] for prompt in found.prompts])
    emitted = np.sum([found.emitted[prompt] for prompt in found.prompts], axis=0)
    made: list[Row] = []
    for place, name in enumerate(NAMES):
        own = counts[:, place, :, 0]
        if not own.any():
            continue
        below = own.sum(1, keepdims=True).repeat(own.shape[1], axis=1)
        intervals = bootstrap_columns(own, below, **dict(options))
        for column, interval in enumerate(intervals):
            positions = own[:, column].sum()
            if not positions:
                continue
            moved = float(counts[:, place, column, 1].sum() / positions)
            level = {"level": "matrix", "trigger": name, "said": "", "p": None, "q": None}
            made.append(
                source.key
                | level
                | {"type": (*NAMES, NOTHING)[column], "triggers": int(emitted[place])}
                | {"positions": int(positions), "reason": interval.reason}
                | {"moved": moved if np.isfinite(moved) else None}
                | _shared(interval)
            )
    return made


def _mean(places: Sequence[_Place], name: str) -> float | None:
    values = [getattr(place, name) for place in places]
    return float(np.mean(values)) if values and np.isfinite(values).all() else None


def _shown(text: str) -> str:
    """A token as it can stand in a table: what cannot be seen is written out."""
    seen = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    shown = "".join("\\\\" if c == "\\" else c for c in seen)
    return shown.replace(" ", "\u2423") if shown.strip() != shown or not shown else shown
