"""What real drafts do under certificates: which positions are certified, which are accepted."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from draftscope.certificate_study.log import Log
from draftscope.certificate_study.resampling import Row, Settings, ratios, said, sums
from draftscope.certificate_study.schemas import ALL
from draftscope.criteria import Criterion
from draftscope.errors import UserError

report = logging.getLogger(__name__)
EDGES: Mapping[str, tuple[float, ...]] = {
    "margin": (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, np.inf),
    "entropy": (0.0, 0.1, 0.5, 1.0, 2.0, 3.0, np.inf),
    "ratio": (0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, np.inf),
}
Sums = dict[str, np.ndarray]


def certified(kl: np.ndarray, certificate: np.ndarray, tolerance: float) -> np.ndarray:
    """Whether KL plus a tolerance lies below the certificate, [positions].

    A tie at the top of p has the certificate 0 and is never certified. An infinite certificate
    certifies whatever the KL, an infinite KL nothing but that.
    """
    return (kl + tolerance < certificate) | np.isposinf(certificate)


def drafts(
    logs: Sequence[Log],
    pairs: Mapping[str, Mapping[str, str]],
    criteria: Sequence[Criterion],
    tolerance: float,
    settings: Settings,
) -> tuple[list[Row], list[Row]]:
    """Rows of `certificates_drafts` and `certificates_bins`, of every pair.

    Args:
        logs: of all targets and domains.
        pairs: name -> target and draft.
        tolerance: nats that the KL must lie below the certificate by.

    Raises:
        UserError: a certified proposal was rejected, which the theorems rule out.
    """
    rows, bins = [], []
    for pair, models in pairs.items():
        own = [log for log in logs if log.target == models["target"]]
        if not own:
            report.warning("%s: every prompt of %s was skipped", pair, models["target"])
            continue
        for criterion in criteria:
            parts = [Side(log, models["draft"], criterion, tolerance) for log in own]
            named = [(part.log.domain, [part]) for part in parts]
            if len(parts) > 1:
                named.append((ALL, parts))
            key = {"pair": pair, "criterion": criterion.label}
            for domain, several in named:
                about = {"target": models["target"], "draft": models["draft"], "domain": domain}
                rows.append(
                    key | about | _drafts(several, settings, (pair, domain, criterion.label))
                )
            for by in EDGES:
                bins += [key | row for row in _bins(parts, by, settings, (pair, criterion.label))]
    return rows, bins


class Side:
    """One draft under one criterion on one domain: who is certified, who is accepted.

    Raises:
        UserError: a certified proposal was rejected.
    """

    def __init__(self, log: Log, draft: str, criterion: Criterion, tolerance: float) -> None:
        self.log, own = log, log.drafts[draft]
        self.kl, self.certificate = own.kl, log.values(criterion)
        self.certified = certified(own.kl, self.certificate, tolerance)
        self.accepted = log.accepts(criterion, own)
        broken = np.flatnonzero(self.certified & ~self.accepted)
        if len(broken):
            first = broken[0]
            raise UserError(
                f"certificate violated: {log.target} on {log.domain}, {criterion.label}, "
                f"{log.place(first)}: draft {draft} has a KL of {own.kl[first]:.9g} below the "
                f"certificate {self.certificate[first]:.9g} and was rejected "
                f"({len(broken)} such positions)"
            )

    def binned(self, by: str) -> np.ndarray:
        """What the bins are of, [positions]."""
        if by == "margin":
            return self.log.margin
        if by == "entropy":
            return self.log.entropy
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.kl / self.certificate
        # 0 / 0: the draft is the target, which a tie at the top still leaves uncertified.
        return np.where(
            np.isposinf(self.certificate), 0.0, np.where(np.isnan(ratio), np.inf, ratio)
        )

    def counts(self, rows: np.ndarray) -> Sums:
        """Sums over the flagged positions by prompt, [prompts]."""
        values = {
            "positions": rows,
            "certified": rows & self.certified,
            "accepted": rows & self.accepted,
            "both": rows & self.accepted & self.certified,
        }
        return {
            name: sums(flags, self.log.prompt, self.log.prompts) for name, flags in values.items()
        }


def _joined(parts: Iterable[Sums]) -> Sums:
    parts = list(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _drafts(parts: Sequence[Side], settings: Settings, names: tuple[str, ...]) -> Row:
    counts = _joined(part.counts(np.ones(len(part.log), dtype=bool)) for part in parts)
    everywhere, sure = counts["positions"], counts["certified"]
    row, missing = ratios(
        {
            "certified": (sure, everywhere),
            "accepted": (counts["accepted"], everywhere),
            "accepted_certified": (counts["both"], sure),
            "accepted_uncertified": (counts["accepted"] - counts["both"], everywhere - sure),
            "explained": (counts["both"], counts["accepted"]),
        },
        settings,
        "drafts",
        *names,
    )
    return row | {
        "prompts": len(everywhere),
        "positions": int(everywhere.sum()),
        "kl_median": float(np.median(np.concatenate([part.kl for part in parts]))),
        "certified_positions": int(sure.sum()),
        "violations": int((sure - counts["both"]).sum()),
        "reason": said(missing),
    }


def _bins(parts: Sequence[Side], by: str, settings: Settings, names: tuple[str, ...]) -> list[Row]:
    edges = EDGES[by]
    values = [part.binned(by) for part in parts]
    rows = []
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        chosen = [(value >= low) & ((value < high) | np.isinf(high)) for value in values]
        counts = _joined(part.counts(rows) for part, rows in zip(parts, chosen, strict=True))
        inside = np.concatenate([v[rows] for v, rows in zip(values, chosen, strict=True)])
        row, missing = ratios(
            {name: (counts[name], counts["positions"]) for name in ("certified", "accepted")},
            settings,
            "bins",
            by,
            str(number),
            *names,
        )
        rows.append(
            {"by": by, "bin": number, "lower_edge": low, "upper_edge": high}
            | row
            | {
                "prompts": int((counts["positions"] > 0).sum()),
                "positions": len(inside),
                "median_value": float(np.median(inside)) if len(inside) else None,
                "reason": said(missing),
            }
        )
    return rows
