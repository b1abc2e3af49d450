"""Acceptance by the type of the token (Figures 3 and 7): sums by prompt, one text at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from draftscope.position.texts import METRICS, Source, Text
from draftscope.statistics.intervals import Interval, bootstrap_columns
from draftscope.tokens.names import NAMES, NO_TRIGGER

SUBSETS = ("all", "loops_removed")
PLACES = ("any", "first")
NO_VALUES = "not defined: the draft has no distribution at each position"
NO_TOKENS = "no such token in these texts"
Row = dict[str, Any]


def groups(triggers: Sequence[str], published: int) -> list[tuple[str, str]]:
    """Kind and name of each group of tokens, in the order of the columns of the sums."""
    listed = [("trigger", trigger) for trigger in triggers]
    named = ", ".join(triggers[:published])
    return [("all", "all"), *(("type", name) for name in NAMES), *listed, ("published", named)]


class Sums:
    """Numbers of tokens and sums of each metric, by prompt, subset, place and group."""

    def __init__(self, triggers: Sequence[str], published: int) -> None:
        self.groups = groups(triggers, published)
        self._published = published
        self._prompts: dict[str, np.ndarray] = {}

    def add(self, text: Text) -> None:
        # [subset, place, group, (positions, number and sum of each metric)]
        shape = (len(SUBSETS), len(PLACES), len(self.groups), 1 + 2 * len(METRICS))
        held = self._prompts.setdefault(text.prompt_id, np.zeros(shape))
        columns = [np.ones(len(text.type))]
        for metric in METRICS:
            value = text.values[metric]
            columns += [~np.isnan(value), np.nan_to_num(value)]
        values = np.stack(columns, axis=1)
        subsets = (0,) if text.problem else (0, 1)
        for place, chosen in enumerate((slice(None), text.initial.astype(bool))):
            part = self._by_group(text.type[chosen], text.trigger[chosen], values[chosen])
            for subset in subsets:
                held[subset, place] += part

    def _by_group(self, kind: np.ndarray, trigger: np.ndarray, values: np.ndarray) -> np.ndarray:
        found = np.zeros((len(self.groups), values.shape[1]))
        found[0] = values.sum(0)
        np.add.at(found, 1 + kind.astype(np.int64), values)
        turning = trigger != NO_TRIGGER  # parts of its characters too, whose type is another
        number = trigger[turning].astype(np.int64)
        np.add.at(found, 1 + len(NAMES) + number, values[turning])
        found[-1] = values[turning][number < self._published].sum(0)
        return found

    def totals(self, subset: str) -> np.ndarray:
        """[prompts, place, group, column], the prompts with a text in the subset."""
        place = SUBSETS.index(subset)
        kept = [held[place] for _, held in sorted(self._prompts.items()) if held[place].any()]
        empty = (0, len(PLACES), len(self.groups), 1 + 2 * len(METRICS))
        return np.stack(kept) if kept else np.zeros(empty)


def rows(source: Source, sums: Sums, options: Mapping[str, Any]) -> list[Row]:
    """Rows of `position_types` of one configuration.

    Args:
        options: of the bootstrap (method, confidence, resamples) and the key of its generator.
    """
    found = []
    for subset in SUBSETS:
        totals = sums.totals(subset)
        everything = totals[:, 0, 0, 0].sum()
        for number, metric in enumerate(METRICS):
            count, total = totals[..., 1 + 2 * number], totals[..., 2 + 2 * number]
            columns = (len(totals), -1)
            intervals: list[Interval | None] = bootstrap_columns(
                total.reshape(columns), count.reshape(columns), **dict(options)
            ) if len(totals) else [None] * (len(PLACES) * len(sums.groups))  # fmt: skip
            defined = bool(count.sum()) or not everything
            for index, interval in enumerate(intervals):
                place, group = divmod(index, len(sums.groups))
                kind, name = sums.groups[group]
                positions = int(totals[:, place, group, 0].sum())
                row = source.key | {
                    "metric": metric,
                    "subset": subset,
                    "kind": kind,
                    "name": name,
                    "place": PLACES[place],
                    "positions": positions,
                    "share": positions / everything if everything else None,
                }
                found.append(row | _value(interval, positions, defined))
    return found


def _value(interval: Interval | None, positions: int, defined: bool) -> Row:
    if interval is None or interval.estimate is None:
        reason = NO_TOKENS if not positions else NO_VALUES if not defined else "no values"
        empty = dict.fromkeys(("value", "lower", "upper"))
        return empty | {"prompts": 0, "method": "none", "reason": reason}
    interval = interval.within(most=1.0)
    return {
        "prompts": interval.n,
        "value": interval.estimate,
        "lower": interval.low,
        "upper": interval.high,
        "method": "none" if interval.low is None else interval.method,
        "reason": interval.reason,
    }
