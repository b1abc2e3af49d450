"""Table 4: acceptance length of each arm, and paired differences, with the prompt as the unit.

A prompt has one length: all its emitted tokens over all its rounds. `rounds` takes them from one
replay, as a live loop would have run once; `expected` from the expectation over replays, which has
the same mean up to the ratio of expectations and no noise of the replay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

from draftscope import records, seeds
from draftscope.errors import UserError
from draftscope.interventions.schemas import ESTIMATORS, SUBSETS
from draftscope.statistics.intervals import bootstrap
from draftscope.statistics.multiple import holm
from draftscope.statistics.paired import paired_difference

Values = Mapping[str, float]


@dataclass(frozen=True)
class Source:
    """One arm in one mode, with its files."""

    arm: str
    pair: str
    domain: str
    mode: str
    temperature: float
    rounds: str
    expected: str
    loops: str

    @property
    def decoding(self) -> str:
        return "sample" if self.temperature > 0 else "greedy"


@dataclass(frozen=True)
class Protocol:
    """How intervals are made; as the block `statistics` of an experiment."""

    confidence: float
    resamples: int
    method: str
    seed: int

    def options(self, *key: str) -> dict[str, Any]:
        """For `statistics.bootstrap`; the key is what the interval is about."""
        return {
            "method": self.method,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "rng": seeds.generator("interventions", self.seed, *key),
        }


def prompt_lengths(source: Source, draft_length: int) -> dict[str, Values]:
    """By estimator: acceptance length of each prompt with text.

    Raises:
        UserError: the files hold no rounds of this draft length, or are of different texts.
    """
    tables = {
        "rounds": records.read(source.rounds, "rounds"),
        "expected": records.read(source.expected, "expected"),
    }
    sums = {"rounds": ("emitted", None), "expected": ("tokens", "expected_rounds")}
    found = {}
    for name, table in tables.items():
        rows = table.filter(pc.equal(table["draft_length"], draft_length))
        if table.num_rows and not rows.num_rows:
            raise UserError(f"{getattr(source, name)} has nothing of draft length {draft_length}")
        above, below = sums[name]
        found[name] = _ratios(rows, above, below)
    if set(found["rounds"]) != set(found["expected"]):
        raise UserError(f"{source.rounds} and {source.expected} hold different prompts")
    return found


def _ratios(rows: pa.Table, above: str, below: str | None) -> dict[str, float]:
    """Per prompt the sum of a column over that of another, or over the number of rows."""
    totals: dict[str, list[float]] = {}
    counts = rows[below].to_pylist() if below else [1.0] * rows.num_rows
    for prompt, one, other in zip(
        rows["prompt_id"].to_pylist(), rows[above].to_pylist(), counts, strict=True
    ):
        total = totals.setdefault(prompt, [0.0, 0.0])
        total[0] += one
        total[1] += other
    return {prompt: a / b for prompt, (a, b) in sorted(totals.items()) if b > 0}


def loop_problems(path: str) -> set[str]:
    """Prompts with a text that repeats itself up to its budget."""
    table = records.read(path, "loops")
    return set(table.filter(table["loop_problem"])["prompt_id"].to_pylist())


def study(
    sources: Sequence[Source], draft_length: int, control: str, protocol: Protocol
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of intervention_lengths and of intervention_differences.

    Every arm but the control is compared with it, and every one with the base.

    Raises:
        UserError: as `prompt_lengths`, or arms of one mode on different prompts.
    """
    lengths: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    for mode in dict.fromkeys(source.mode for source in sources):
        own = [source for source in sources if source.mode == mode]
        values = {source.arm: prompt_lengths(source, draft_length) for source in own}
        lost = loop_problems(own[0].loops)
        first = own[0].arm
        for source in own[1:]:
            if set(values[source.arm]["rounds"]) != set(values[first]["rounds"]):
                raise UserError(
                    f"{source.rounds} and {own[0].rounds} hold different prompts: arms are compared "
                    "on the same texts"
                )
        for subset in SUBSETS:
            for estimator in ESTIMATORS:
                kept = {
                    arm: _without(each[estimator], lost if subset != "all" else set())
                    for arm, each in values.items()
                }
                for source in own:
                    key = _key(source, draft_length, subset, estimator)
                    left = len(values[source.arm][estimator]) - len(kept[source.arm])
                    lengths.append(_length(key, kept[source.arm], left, protocol))
                    for against in (control, "base"):
                        if source.arm in (against, "base"):
                            continue
                        differences.append(_difference(key | {"against": against}, kept, protocol))
    _adjust(differences)
    return lengths, differences


def _without(values: Values, lost: set[str]) -> dict[str, float]:
    return {prompt: value for prompt, value in values.items() if prompt not in lost}


def _key(source: Source, draft_length: int, subset: str, estimator: str) -> dict[str, Any]:
    return {
        "arm": source.arm,
        "pair": source.pair,
        "domain": source.domain,
        "mode": source.mode,
        "decoding": source.decoding,
        "draft_length": draft_length,
        "subset": subset,
        "estimator": estimator,
    }


def _length(
    key: dict[str, Any], values: Values, left_out: int, protocol: Protocol
) -> dict[str, Any]:
    array = np.array(list(values.values()))
    names = [key[name] for name in ("pair", "domain", "mode", "subset", "estimator")]
    found = bootstrap(array, **protocol.options("length", *names))
    return key | {
        "prompts": found.n,
        "left_out_loops": left_out,
        "mean": found.estimate,
        "mean_lower": found.low,
        "mean_upper": found.high,
        "standard_error": standard_error(array),
        "method": found.method,
        "reason": found.reason,
    }


def _difference(
    key: dict[str, Any], kept: Mapping[str, Values], protocol: Protocol
) -> dict[str, Any]:
    own, other = kept[key["arm"]], kept[key["against"]]
    first, second = (np.array([each[name] for name in own]) for each in (own, other))
    names = [key[n] for n in ("arm", "against", "domain", "mode", "subset", "estimator")]
    found = paired_difference(first, second, **protocol.options("difference", *names))
    values = first - second
    t = bootstrap(values, method="student", confidence=protocol.confidence)
    error = standard_error(values)
    test = None
    if error:
        test = float(stats.ttest_1samp(values, 0.0).pvalue)
    elif error == 0:
        # All prompts differ alike: no spread to test against.
        test = 1.0 if found.difference == 0 else None
    return key | {
        "prompts": found.n,
        "difference": found.interval.estimate,
        "difference_lower": found.interval.low,
        "difference_upper": found.interval.high,
        "standard_error": error,
        "t_lower": t.low,
        "t_upper": t.high,
        "t_p": test,
        "holm_p": None,
        "up": found.sign.up,
        "down": found.sign.down,
        "ties": found.sign.ties,
        "sign_p": found.sign.p,
        "method": found.interval.method,
        "reason": found.interval.reason,
    }


def standard_error(values: np.ndarray) -> float | None:
    """Of the mean of one value a prompt; None for fewer than two."""
    if len(values) < 2:
        return None
    spread = float(values.std(ddof=1))
    return 0.0 if spread < 1e-12 else spread / math.sqrt(len(values))


def _adjust(rows: list[dict[str, Any]]) -> None:
    """Holm's adjustment over the arms and modes of one comparison, subset and estimator."""
    families: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["against"], row["subset"], row["estimator"])
        families.setdefault(key, []).append(row)
    for family in families.values():
        adjusted = holm([row["t_p"] for row in family])
        for row, p in zip(family, adjusted.p, strict=True):
            row["holm_p"] = p
