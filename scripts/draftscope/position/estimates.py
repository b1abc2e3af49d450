"""The estimates of one configuration, metric and subset, as rows of the study's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from draftscope import records, seeds
from draftscope.statistics.bins import position_curve
from draftscope.statistics.halves import paired_halves, pooled_difference
from draftscope.statistics.intervals import Interval, bootstrap, bootstrap_columns
from draftscope.statistics.resampling import Draws
from draftscope.statistics.sums import PositionSums, window_sums

PAIRED_METRICS = ("def1", "alpha")
CURVES = ("all", "loops_removed")  # subsets whose curve over absolute positions is drawn
NO_SCORES = "not defined: the draft has no distribution at each position"
NO_HALVES = "no prompt has a value in both halves"
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Settings:
    """How the study counts and resamples.

    Attributes:
        support_prompts: a bin of the curve with fewer prompts is not interpreted.
        Others as in `statistics.intervals`.
    """

    draft_length: int
    bin_width: int
    confidence: float
    resamples: int
    method: str
    seed: int
    support_prompts: int = 10


class Estimates:
    """The estimates of one configuration, metric and subset.

    `full` holds what the corrected columns count, `everything` also the cut rounds.
    """

    def __init__(
        self,
        key: dict[str, Any],
        full: PositionSums,
        everything: PositionSums,
        settings: Settings,
    ) -> None:
        self.key, self.settings = key, settings
        # The key is the configuration's own, so its interval stays when another one is added.
        names = (key[name] for name in ("pair", "domain", "mode", "metric", "subset"))
        seed = ("position", settings.seed, *names)
        self._draws = Draws(lambda: seeds.generator(*seed))
        self.full, self.everything = full, everything
        self.rounds = key["metric"] == "def1"

    def rows(self, loops: pa.Table) -> Rows:
        found: Rows = {
            "position_pooled": [self.pooled()],
            "position_halves": self.halves(),
            "position_quintiles": self.quintiles(),
        }
        if self.key["metric"] in PAIRED_METRICS:
            found["position_paired"] = [self.paired(loops)]
        if self.key["subset"] in CURVES:
            found["position_curves"] = self.curves()
        return found

    def options(self, method: str | None = None) -> dict[str, Any]:
        return {
            "method": method or self.settings.method,
            "confidence": self.settings.confidence,
            "resamples": self.settings.resamples,
            "rng": self._draws,
        }

    def paired(self, loops: pa.Table) -> dict[str, Any]:
        own = paired_halves(self.full, **self.options())
        percentile = bootstrap(own.differences, **self.options("percentile"))
        printed = paired_halves(self.everything, **self.options("percentile"))
        total, lost = prompts_of(loops, self.key["subset"])
        values = self.full.count
        row = self.key | {
            "prompts": own.n,
            "prompts_total": total,
            "left_out_loops": lost,
            "left_out_short": total - lost - own.n,
            "full_rounds": values if self.rounds else 0,
            "cut_rounds": self.everything.count - values,
            "positions": 0 if self.rounds else values,
            "method": own.interval.method,
            "percentile_lower": percentile.low,
            "percentile_upper": percentile.high,
            "holm_p": None,
            "family": 0,
            "reason": own.reason if own.n else NO_HALVES,
        }
        row |= _named("difference", own.interval) | _named("published", printed.interval)
        for prefix, test in (("", own.sign), ("published_", printed.sign)):
            row |= {f"{prefix}{name}": getattr(test, name) for name in ("up", "down", "ties")}
            row[f"{prefix}p"] = test.p
        return row

    def pooled(self) -> dict[str, Any]:
        own = pooled_difference(self.full, **self.options())
        printed = pooled_difference(self.everything, **self.options("student"))
        return self.key | {
            "prompts": own.n,
            "observations": self.full.count,
            "split": own.split,
            "first": own.early_mean,
            "second": own.late_mean,
            **_named("difference", own.interval),
            "method": own.interval.method,
            "published": printed.difference,
            "cut_rounds": self.everything.count - self.full.count,
            "reason": own.reason,
        }

    def halves(self) -> list[dict[str, Any]]:
        found = self.means(_complete_means(self.full, 2))
        return [
            self.key
            | {"half": half, "prompts": mean.n, "method": mean.method}
            | _named("mean", mean)
            | {"reason": mean.reason}
            for half, mean in zip(("first", "second"), found, strict=True)
        ]

    def quintiles(self) -> list[dict[str, Any]]:
        values = _complete_means(self.full, 5)
        changes = values - values[:, :1]
        changes[np.abs(changes) < 1e-12] = 0.0  # rounding of equal rates
        left_out = len(self.full.prompt_ids) - len(values)
        found = zip(self.means(values), self.means(changes), strict=True)
        return [
            self.key
            | {"quintile": number, "prompts": mean.n, "left_out_short": left_out}
            | _named("mean", mean)
            | _named("change", change)
            | {"method": mean.method, "reason": mean.reason}
            for number, (mean, change) in enumerate(found)
        ]

    def means(self, values: np.ndarray) -> list[Interval]:
        """Intervals of the means over prompts of each column of [prompts, columns]."""
        return bootstrap_columns(values, np.ones_like(values), **self.options())

    def curves(self) -> list[dict[str, Any]]:
        width = self.settings.bin_width
        curve = position_curve(self.full, width, **self.options())
        return [
            self.key
            | {
                "start": int(row["left"]),
                "stop": int(row["right"]),
                "prompts": int(row["prompts"]),
                "alive": int(row["alive"]),
                "observations": int(row["values"]),
                "mean": records.none_if_nan(row["mean"]),
                "mean_lower": records.none_if_nan(row["low"]),
                "mean_upper": records.none_if_nan(row["high"]),
                "method": self.settings.method,
                "supported": row["prompts"] >= self.settings.support_prompts,
                "reason": row["reason"] if isinstance(row["reason"], str) else None,
            }
            for row in curve.to_dict("records")
        ]


def undefined(key: dict[str, Any], loops: pa.Table) -> dict[str, Any]:
    """A row that says that a draft without a distribution has no alpha."""
    total, lost = prompts_of(loops, key["subset"])
    row = key | {"prompts": 0, "prompts_total": total, "left_out_loops": lost, "left_out_short": 0}
    row |= dict.fromkeys(("full_rounds", "cut_rounds", "positions", "family"), 0)
    for name in ("difference", "published"):
        row |= dict.fromkeys((name, f"{name}_lower", f"{name}_upper"))
    for prefix in ("", "published_"):
        row |= dict.fromkeys((f"{prefix}up", f"{prefix}down", f"{prefix}ties"), 0)
        row[f"{prefix}p"] = None
    row |= dict.fromkeys(("percentile_lower", "percentile_upper", "holm_p"))
    return row | {"method": "none", "reason": NO_SCORES}


def prompts_of(loops: pa.Table, subset: str) -> tuple[int, int]:
    """Prompts measured, and those of them that the subset leaves out as loop problems."""
    prompts = set(loops["prompt_id"].to_pylist())
    if subset != "loops_removed":
        return len(prompts), 0
    kept = loops.filter(pc.invert(loops["loop_problem"]))
    return len(prompts), len(prompts) - len(set(kept["prompt_id"].to_pylist()))


def _complete_means(seen: PositionSums, windows: int) -> np.ndarray:
    """Mean of each equal part of the text, [prompts, windows].

    Only trajectories with a value in every part count, so that parts are compared within the
    same texts; samples of a prompt are averaged, and prompts without such a text are left out.
    """
    sums, counts = window_sums(seen, windows)
    whole = (counts > 0).all(axis=1)
    means = sums[whole] / (counts[whole] * seen.scale)
    total = np.zeros((len(seen.prompt_ids), windows))
    np.add.at(total, seen.prompt[whole], means)
    number = np.bincount(seen.prompt[whole], minlength=len(seen.prompt_ids))
    return total[number > 0] / number[number > 0, None]


def _named(name: str, found: Interval) -> dict[str, float | None]:
    return {name: found.estimate, f"{name}_lower": found.low, f"{name}_upper": found.high}
