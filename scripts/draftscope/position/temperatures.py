"""Acceptance at several temperatures: each on its own text, and all of them on the same positions.

A text is scored once under every law of the sweep. On its own law it gives Table 3; under the
others the positions stay the same, so that what moves is the measure and not the text: def2 is
the draft's probability of the target's most likely token, which a higher temperature lowers by
itself, while the overlap of the two laws, which is the acceptance, need not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftscope import seeds
from draftscope.errors import UserError
from draftscope.loops import loop_row
from draftscope.replay import replay_trajectory
from draftscope.statistics.intervals import Interval, bootstrap_columns
from draftscope.tokens.names import NO_TRIGGER, WITHOUT_TRIGGERS
from draftscope.tokens.typist import Typist

DECODING = "decoding"
GROUPS = ("all", "reflection", "published")
QUANTITIES = ("def2", "alpha")
SUBSETS = ("all", "loops_removed")
NO_TEXT = "no text"
TOO_FEW_LAWS = "fewer than two temperatures above 0"
Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What is swept and how it is resampled.

    Attributes:
        temperatures: mode -> temperature of its law, in the order of the tables.
        loops: thresholds of `loops.find_loop`.
        Others as in `statistics.intervals`.
    """

    pair: str
    draft: str
    domain: str
    draft_length: int
    temperatures: Mapping[str, float]
    loops: Mapping[str, int]
    confidence: float
    resamples: int
    method: str
    seed: int

    def options(self, *names: str) -> dict[str, Any]:
        return {
            "method": self.method,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "rng": seeds.generator("temperatures", self.seed, self.pair, self.domain, *names),
        }


class Sums:
    """Sums over the texts of one mode, by prompt and subset."""

    def __init__(self, mode: str, settings: Settings, typist: Typist) -> None:
        self.mode, self.settings, self.typist = mode, settings, typist
        # The text's own law is the one that it is scored under as the decoding law.
        self.laws = {name: DECODING if name == mode else name for name in settings.temperatures}
        published = len(typist.lists.published_triggers)
        self._published = published
        self._held: dict[str, np.ndarray] = {}
        self._rounds: dict[str, np.ndarray] = {}

    def add(self, trajectory: Row, scores: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Take one text, cut as it was scored, with its scores by law.

        Raises:
            UserError: a law is missing, or the scores belong to other tokens.
        """
        for law in self.laws.values():
            if law not in scores:
                raise UserError(
                    f"prompt {trajectory['prompt_id']} has no scores under law {law!r}, only under "
                    f"{', '.join(scores)}; score it again"
                )
        own = scores[DECODING]
        if not np.array_equal(own["token_ids"], trajectory["token_ids"]):
            raise UserError(
                f"prompt {trajectory['prompt_id']}: the scores belong to other tokens than the text "
                "holds; delete them and run again"
            )
        problem = loop_row(trajectory, None, **self.settings.loops)["loop_problem"]
        subsets = (0,) if problem else (0, 1)
        typed = self.typist.sequence(trajectory["token_ids"], trajectory["prompt_token_ids"])
        turning = typed.trigger != NO_TRIGGER
        groups = np.stack(
            [np.ones(len(turning)), turning, turning & (typed.trigger < self._published)]
        )
        # Where the scored law excludes the text's own token nothing was drawn from it.
        groups[:, np.asarray(own["target_disagreement"], dtype=bool)] = 0.0
        shape = (len(SUBSETS), len(self.laws), len(GROUPS), 1 + len(QUANTITIES))
        held = self._held.setdefault(trajectory["prompt_id"], np.zeros(shape))
        for number, law in enumerate(self.laws.values()):
            found = scores[law]
            columns = (
                np.ones(len(turning)),
                np.exp(np.asarray(found["log_q_target_argmax"], dtype=float)),
                np.asarray(found["overlap"], dtype=float),
            )
            held[list(subsets), number] += groups @ np.stack(columns, axis=1)
        self._replay(trajectory, own, subsets)

    def _replay(self, trajectory: Row, own: Mapping[str, Any], subsets: Sequence[int]) -> None:
        sampled = self.settings.temperatures[self.mode] > 0
        rule = "speculative_sampling" if sampled else "greedy"
        replay = replay_trajectory(
            trajectory, own, [self.settings.draft_length], rule,
            run_seed=self.settings.seed, domain=self.settings.domain,
        )  # fmt: skip
        held = self._rounds.setdefault(trajectory["prompt_id"], np.zeros((len(SUBSETS), 2)))
        for row in replay.expected:
            held[list(subsets)] += (row["tokens"], row["expected_rounds"])

    def rows(self) -> tuple[list[Row], list[Row]]:
        """Rows of `position_temperatures` and of `position_slopes`."""
        values, slopes = [], []
        for number, subset in enumerate(SUBSETS):
            kept = [p for p, each in sorted(self._held.items()) if each[number].any()]
            shape = (0, len(self.laws), len(GROUPS), 1 + len(QUANTITIES))
            sums = np.stack([self._held[p][number] for p in kept]) if kept else np.zeros(shape)
            rounds = np.stack([self._rounds[p][number] for p in kept]) if kept else np.zeros((0, 2))
            values.append(self._length(subset, rounds))
            values += self._means(subset, sums)
            slopes += self._slopes(subset, sums)
        return values, slopes

    def _key(self, subset: str, group: str) -> Row:
        settings = self.settings
        return {"pair": settings.pair, "domain": settings.domain, "mode": self.mode,
                "subset": subset, "group": group}  # fmt: skip

    def _length(self, subset: str, rounds: np.ndarray) -> Row:
        law = {"law": self.mode, "temperature": self.settings.temperatures[self.mode]}
        options = self.settings.options(self.mode, subset, "mal")
        (interval,) = _intervals(rounds[:, :1], rounds[:, 1:], options)
        return (
            self._key(subset, "all")
            | law
            | {"quantity": "mal", "draft_length": self.settings.draft_length}
            | {"positions": int(rounds[:, 0].sum())}
            | _value("value", interval, NO_TEXT)
        )

    def _means(self, subset: str, sums: np.ndarray) -> list[Row]:
        rows = []
        options = self.settings.options(self.mode, subset, "means")
        for place, (law, temperature) in enumerate(self.settings.temperatures.items()):
            for number, group in enumerate(GROUPS):
                count = sums[:, place, number, :1].repeat(len(QUANTITIES), axis=1)
                found = _intervals(sums[:, place, number, 1:], count, options)
                for quantity, interval in zip(QUANTITIES, found, strict=True):
                    if interval is not None:
                        interval = interval.within(most=1.0)
                    rows.append(
                        self._key(subset, group)
                        | {"law": law, "temperature": temperature}
                        | {"quantity": quantity, "draft_length": 0}
                        | {"positions": int(count[:, 0].sum())}
                        | _value("value", interval, NO_TEXT if group == "all" else WITHOUT_TRIGGERS)
                    )
        return rows

    def _slopes(self, subset: str, sums: np.ndarray) -> list[Row]:
        temperatures = np.array(list(self.settings.temperatures.values()))
        sampled = np.flatnonzero(temperatures > 0)
        distinct = len(set(temperatures[sampled]))
        rows = []
        options = self.settings.options(self.mode, subset, "slopes")
        for number, group in enumerate(GROUPS):
            count = sums[:, 0, number, 0] if len(sums) else np.zeros(0)
            names = (*QUANTITIES, "difference")
            found: list[Interval | None] = [None] * len(names)
            if distinct > 1:
                offset = temperatures[sampled] - temperatures[sampled].mean()
                # Linear in the sums of each law, so the slope is a ratio of sums over prompts.
                part = np.einsum(
                    "plq,l->pq", sums[:, sampled, number, 1:], offset / (offset @ offset)
                )
                part = np.column_stack([part, part[:, 1] - part[:, 0]])
                found = _intervals(part, count[:, None].repeat(len(names), axis=1), options)
            for name, interval in zip(names, found, strict=True):
                empty = NO_TEXT if group == "all" else WITHOUT_TRIGGERS
                rows.append(
                    self._key(subset, group)
                    | {"quantity": name, "laws": distinct, "positions": int(count.sum())}
                    | _value("slope", interval, empty if distinct > 1 else TOO_FEW_LAWS)
                )
        return rows


def _intervals(
    above: np.ndarray, below: np.ndarray, options: Mapping[str, Any]
) -> list[Interval | None]:
    """Intervals of ratios of sums [prompts, columns]; None without prompts."""
    if not len(above) or not below.any():
        return [None] * above.shape[1]
    return list(bootstrap_columns(above, below, **dict(options)))


def _value(name: str, interval: Interval | None, empty: str) -> Row:
    ends = {"value": ("value", "lower", "upper")}.get(
        name, (name, f"{name}_lower", f"{name}_upper")
    )
    if interval is None:
        return dict.fromkeys(ends) | {"prompts": 0, "method": "none", "reason": empty}
    values = (interval.estimate, interval.low, interval.high)
    return dict(zip(ends, values, strict=True)) | {
        "prompts": interval.n,
        "method": "none" if interval.low is None else interval.method,
        "reason": interval.reason,
    }


def by_text(scores: Sequence[Row], draft: str) -> Iterator[tuple[tuple[str, int], dict[str, Row]]]:
    """Scores of one draft: (prompt, sample) -> law -> row."""
    found: dict[tuple[str, int], dict[str, Row]] = {}
    for row in scores:
        if row["draft"] == draft:
            found.setdefault((row["prompt_id"], row["sample"]), {})[row["law"]] = row
    yield from found.items()
