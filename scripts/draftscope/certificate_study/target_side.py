"""What the target alone says: mass, certificates and certified runs (Tables 1 to 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from draftscope.certificate_study.log import Log
from draftscope.certificate_study.resampling import (
    Row,
    Settings,
    quantiles,
    ratios,
    said,
    sums,
)
from draftscope.certificate_study.schemas import QUANTILES
from draftscope.certificates import bounds
from draftscope.criteria import Criterion

MASS = (1, 3, 5, 10, 25)
ALL_CERTIFIED = "every position is certified"


def mass(log: Log, settings: Settings) -> list[Row]:
    """Rows of `certificates_mass`: cumulative probability of the k most probable tokens."""
    rows = []
    for k in MASS:
        values, names = log.mass(k), (log.target, log.domain, "mass", str(k))
        rows.append(_of(log) | {"k": k} | _summary(log, values, settings, names, 1.0))
    return rows


def values(log: Log, criteria: Sequence[Criterion], settings: Settings) -> list[Row]:
    """Rows of `certificates_values`: the exact certificates of each criterion."""
    rows = []
    for criterion in criteria:
        found = log.values(criterion)
        lower = log.lower_bounds(criterion)
        finite = np.isfinite(found)
        names = (log.target, log.domain, criterion.label)
        rows.append(
            _of(log)
            | {
                "criterion": criterion.label,
                "kind": criterion.kind,
                "lossless": criterion.lossless,
                "infinite": float((~finite).mean()),
                "bound": float(lower[finite].mean()) if finite.any() else None,
            }
            | _summary(log, found, settings, names, _ceiling(criterion))
        )
    return rows


def _ceiling(criterion: Criterion) -> float:
    """No certificate of the criterion is larger (Theorems 4.6 and 5.3)."""
    single = criterion.kind != "tree"
    return float(bounds.ceiling()) if single else bounds.tree_ceiling(criterion.m)


def _of(log: Log) -> Row:
    return {"target": log.target, "domain": log.domain, "positions": len(log)}


def _summary(
    log: Log, found: np.ndarray, settings: Settings, names: tuple[str, ...], most: float
) -> Row:
    finite = np.isfinite(found)
    above = sums(np.where(finite, found, 0.0), log.prompt, log.prompts)
    below = sums(finite, log.prompt, log.prompts)
    row, missing = ratios({"mean": (above, below)}, settings, *names, limits={"mean": (0.0, most)})
    if not finite.any():
        missing = {"mean": "no finite certificate"}
    ordered, more = quantiles(found, log.prompt, QUANTILES, settings, *names)
    return row | ordered | {"prompts": log.prompts, "reason": said(missing | more)}


def runs(
    log: Log, criteria: Sequence[Criterion], kls: Sequence[float], cap: int, settings: Settings
) -> list[Row]:
    """Rows of `certificates_runs`: how far from a random start certificates reach.

    Args:
        kls: a position is certified where its certificate is larger.
        cap: longest run that is counted.
    """
    rows = []
    for criterion in criteria:
        found = log.values(criterion)
        for kl in kls:
            certified = found > kl
            count = np.ones(len(log))
            columns = {
                "run": (run_lengths(certified, log.text, cap), count),
                "uncut": ((~certified).astype(float), count),
            }
            by_prompt = {
                name: tuple(sums(side, log.prompt, log.prompts) for side in sides)
                for name, sides in columns.items()
            }
            names = (log.target, log.domain, criterion.label, f"{kl:g}")
            limits = {"run": (1.0, float(cap))}
            row, missing = ratios(by_prompt, settings, "runs", *names, limits=limits)
            row |= _inverse(row, "uncut")
            if certified.all():
                missing["uncut"] = ALL_CERTIFIED
            rows.append(
                _of(log)
                | {"criterion": criterion.label, "kl": float(kl), "prompts": log.prompts}
                | {"certified": float(certified.mean())}
                | row
                | {"reason": said(missing)}
            )
    return rows


def _inverse(row: Row, name: str) -> Row:
    """1 / a share, with the ends of its interval, which change places; none of a share of 0."""
    share, low, high = (row[f"{name}{end}"] for end in ("", "_lower", "_upper"))
    if not share or low is None:
        return {name: 1 / share if share else None, f"{name}_lower": None, f"{name}_upper": None}
    longest = 1 / low if low > 0 else np.inf
    return {name: 1 / share, f"{name}_lower": 1 / high, f"{name}_upper": longest}


def run_lengths(certified: np.ndarray, text: np.ndarray, cap: int) -> np.ndarray:
    """For each start: positions up to and including the first that is not certified, [positions].

    Args:
        certified: [positions] booleans.
        text: [positions] index of the text; a run ends where its text does, and at the cap.
    """
    n = len(certified)
    places = np.arange(n)
    last = np.r_[text[1:] != text[:-1], True]
    stop = np.where(~certified | last, places, n)
    following = np.minimum.accumulate(stop[::-1])[::-1]
    return np.minimum(following - places + 1, cap).astype(float)


def every(log: Log, study: dict[str, Any], settings: Settings) -> dict[str, list[Row]]:
    """The rows of one target on one domain, by file.

    Args:
        study: criteria (main ones), all (those and the sweeps'), kl, cap.
    """
    return {
        "mass": mass(log, settings),
        "values": values(log, study["all"], settings),
        "runs": runs(log, study["criteria"], study["kl"], study["cap"], settings),
    }
