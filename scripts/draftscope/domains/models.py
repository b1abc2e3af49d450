"""Does the kind of text predict acceptance better than depth does? Models, not two columns.

A logistic model of the outcome in five factors (`schemas.FACTORS`): what each explains alone,
and what the model loses without it. Coefficients and their errors clustered by prompt come from
statsmodels (`statistics.regression`); shares of the deviance have jackknife intervals over
prompts. Domains are dealt to whole prompts, so chance alone makes them look useful: the jackknife
takes that away, and a permutation test deals the domains to the prompts anew.

The factors describe nodes as they are met. Among reached nodes depth also stands for the prompts
that get there, since prompts are not a factor; what depth does within a text is in `changes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from draftscope.domains.cells import Cells, collect
from draftscope.domains.measures import Settings, explained, named
from draftscope.domains.observations import Log
from draftscope.domains.schemas import FACTORS, MODELLED_OUTCOMES
from draftscope.statistics import deviance
from draftscope.statistics.functions import Jackknifed, jackknife
from draftscope.statistics.intervals import Interval
from draftscope.statistics.multiple import holm
from draftscope.statistics.permutation import between_groups
from draftscope.statistics.regression import LogisticFit, logistic

Row = dict[str, Any]
ONE_LEVEL = "one level: nothing to compare"
CONFOUNDED = "cannot be told from the other factors"
CONSTANT = "the outcome is constant"
NO_NODES = "no nodes"
# More units than that in a domain are put together before they are left out one by one.
_UNITS = 100


def models(
    log: Log, settings: Settings, outcomes: Iterable[str] = tuple(MODELLED_OUTCOMES)
) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows of `domains_models`, `domains_comparisons` and `domains_coefficients`."""
    found: tuple[list[Row], list[Row], list[Row]] = ([], [], [])
    for name in outcomes:
        cells = collect(log, settings, name)
        for rows, added in zip(found, _Model(cells, settings, name).rows(), strict=True):
            rows += [{"outcome": name} | row for row in added]
    return found


class _Model:
    """The full model of one outcome and its parts."""

    def __init__(self, cells: Cells, settings: Settings, name: str) -> None:
        self.cells, self.settings, self.name = cells, settings, name
        self.terms: dict[str, list[int]] = {}
        self.design = self._design()
        total = cells.successes.sum()
        self.reason = None
        if not len(cells.prompts):
            self.reason = NO_NODES
        elif total <= 1e-9 or cells.trials.sum() - total <= 1e-9:
            self.reason = CONSTANT
        #: domains with a single prompt: nothing can be said of how their prompts differ
        numbers = np.bincount(cells.domain, minlength=len(cells.levels["domain"]))
        self.alone = [
            name for name, n in zip(cells.levels["domain"], numbers, strict=True) if n == 1
        ]

    def _design(self) -> np.ndarray:
        """Intercept and indicators; those that others add up to are left out, [cells, terms]."""
        columns = [np.ones(len(self.cells.codes))]
        self.names = ["intercept"]
        for factor in FACTORS:
            self.terms[factor] = []
            for level, column in enumerate(self.cells.columns(factor).T, start=1):
                trial = np.stack([*columns, column], axis=1)
                if len(trial) and np.linalg.matrix_rank(trial) == trial.shape[1]:
                    self.terms[factor].append(len(columns))
                    self.names.append(f"{factor}={self.cells.levels[factor][level]}")
                    columns.append(column)
        return np.stack(columns, axis=1)

    def rows(self) -> tuple[list[Row], list[Row], list[Row]]:
        if self.reason:
            return self._nothing()
        shares, effects, means = self._jackknife()
        fit = self._fit()
        by_chance = self._permutations()
        null = self._deviance([0])
        base = {"prompts": len(self.cells.prompts), "nodes": round(self.cells.trials.sum())}
        rows = []
        for factor in FACTORS:
            terms = self.terms[factor]
            row = dict.fromkeys(("by_chance", "permutation_p", "permutation_p_adjusted"))
            row |= base | {"factor": factor, "parameters": len(terms)}
            row |= named("dropped", shares[factor].interval) | explained(shares[factor].interval)
            names = [self.names[term] for term in terms]
            test = fit.wald(names)
            if factor == "domain":
                row |= by_chance
                test = None if self.alone else test
            row["alone"] = 1 - self._alone(factor) / null
            row["wald"], row["p"] = (None, None) if test is None else (test[0], test[2])
            row["largest_effect"] = float(np.ptp(means[factor]))
            row["separated"] = sum(fit[name].direction is not None for name in names)
            row["reason"] = self._why(factor, row)
            rows.append(row)
        rows.append(self._full_row(base, shares["full"]))
        comparisons = [
            {"first": "domain", "second": other, "p": shares[f"domain-{other}"].p}
            | named("difference", shares[f"domain-{other}"].interval)
            | explained(shares[f"domain-{other}"].interval)
            for other in list(FACTORS)[1:]
        ]
        return rows, comparisons, self._coefficients(fit, effects)

    def _why(self, factor: str, row: Row) -> str | None:
        if len(self.cells.levels[factor]) < 2:
            return ONE_LEVEL
        reasons = [row["reason"]] if row["reason"] else []
        if not self.terms[factor]:
            reasons = [CONFOUNDED]
        elif len(self.terms[factor]) < len(self.cells.levels[factor]) - 1:
            reasons.append("some levels cannot be told from the other factors")
        if row["separated"]:
            reasons.append("perfect separation")
        if factor == "domain" and self.alone:
            reasons.append(f"one prompt: {', '.join(self.alone)}")
        return "; ".join(reasons) or None

    def _full_row(self, base: Row, share: Jackknifed) -> Row:
        full, null = self._deviance(range(len(self.names))), self._deviance([0])
        row = dict.fromkeys(
            ("by_chance", "wald", "p", "permutation_p", "permutation_p_adjusted", "largest_effect")
        )
        row |= base | {"factor": "full", "parameters": len(self.names) - 1, "separated": 0}
        return (
            row
            | {"alone": 1 - full / null}
            | named("dropped", share.interval)
            | explained(share.interval)
        )

    def _deviance(self, terms) -> float:
        totals = self.cells.successes.sum(0)[None], self.cells.trials.sum(0)[None]
        return float(deviance.deviance(self.design[:, list(terms)], *totals)[0])

    def _alone(self, factor: str) -> float:
        ones = np.ones((len(self.design), 1))
        design = np.hstack([ones, self.cells.columns(factor)])
        totals = self.cells.successes.sum(0)[None], self.cells.trials.sum(0)[None]
        return float(deviance.deviance(design, *totals)[0])

    def _without(self, factor: str) -> list[int]:
        return [term for term in range(len(self.names)) if term not in self.terms[factor]]

    def _jackknife(self) -> tuple[dict[str, Jackknifed], list[Jackknifed], dict[str, np.ndarray]]:
        """Shares of the deviance, effects of levels, and mean chance of each level."""
        units, strata = self.cells.units(_UNITS)
        whole = units.sum(0)
        start = deviance.fit(self.design, whole[None, :, 0], whole[None, :, 1])[0]
        reduced = {}
        for factor in FACTORS:
            terms = self._without(factor)
            own = deviance.fit(self.design[:, terms], whole[None, :, 0], whole[None, :, 1])[0]
            reduced[factor] = (terms, own)
        counterfactual = {
            factor: [self._set_to(factor, level) for level in range(len(levels))]
            for factor, levels in self.cells.levels.items()
        }

        def share(sums: np.ndarray) -> np.ndarray:
            successes, trials = sums[..., 0], sums[..., 1]
            full = deviance.deviance(self.design, successes, trials, start)
            null = deviance.deviance(self.design[:, :1], successes, trials)
            lost = {
                factor: (
                    deviance.deviance(self.design[:, terms], successes, trials, own) - full
                ) / null
                for factor, (terms, own) in reduced.items()
            }  # fmt: skip
            differences = [lost["domain"] - lost[other] for other in list(FACTORS)[1:]]
            return np.stack([*lost.values(), 1 - full / null, *differences], axis=-1)

        def levels(sums: np.ndarray) -> np.ndarray:
            successes, trials = sums[..., 0], sums[..., 1]
            beta = deviance.fit(self.design, successes, trials, start)
            means = [
                (trials * deviance.predict(design, beta)).sum(-1) / trials.sum(-1)
                for designs in counterfactual.values()
                for design in designs
            ]
            return np.stack(means, axis=-1)

        confidence = self.settings.confidence
        names = [*FACTORS, "full", *(f"domain-{other}" for other in list(FACTORS)[1:])]
        found = jackknife(units, share, strata, confidence=confidence, less_bias=True)
        shares = dict(zip(names, found, strict=True))
        at, reference = 0, []
        means = {}
        every = levels(whole[None])[0]
        for factor, designs in counterfactual.items():
            reference += [at] * len(designs)
            means[factor] = every[at : at + len(designs)]
            at += len(designs)

        def change(sums: np.ndarray) -> np.ndarray:
            means = levels(sums)
            return means - means[..., reference]

        effects = jackknife(units, change, strata, confidence=confidence)
        return shares, effects, means

    def _set_to(self, factor: str, level: int) -> np.ndarray:
        """The design with every cell at one level of a factor."""
        design = self.design.copy()
        columns = self.cells.columns(factor, level)
        names = self.cells.levels[factor]
        for term in self.terms[factor]:
            own = names.index(self.names[term].removeprefix(f"{factor}="))
            design[:, term] = columns[:, own - 1]
        return design

    def _fit(self) -> LogisticFit:
        cells = self.cells
        prompt, cell = np.nonzero(cells.trials)
        yes = cells.successes[prompt, cell]
        no = cells.trials[prompt, cell] - yes
        # Rounding of sums of shares must not pass for an outcome: it would hide a separation.
        yes, no = (np.where(each > 1e-6, each, 0.0) for each in (yes, no))
        n = len(prompt)
        return logistic(
            np.repeat([1, 0], n),
            {name: np.tile(self.design[cell, term], 2) for term, name in enumerate(self.names)
             if term},
            np.tile(prompt, 2),
            self.settings.confidence,
            np.concatenate([yes, no]),
        )  # fmt: skip

    def _permutations(self) -> Row:
        """Domains dealt to prompts at random: alone, and after the other factors."""
        cells = self.cells
        terms = self._without("domain")
        totals = cells.successes.sum(0)[None], cells.trials.sum(0)[None]
        beta = deviance.fit(self.design[:, terms], *totals)
        chance = deviance.predict(self.design[:, terms], beta)[0]
        mean = totals[0].sum() / totals[1].sum()
        null = self._deviance([0])
        results = {}
        for suffix, expected in (("", np.full(len(chance), mean)), ("_adjusted", chance)):
            rest = (cells.successes - cells.trials * expected).sum(1)
            weight = (cells.trials * expected * (1 - expected)).sum(1)
            options = self.settings.options("models", self.name, suffix)
            test = between_groups(rest, weight, cells.domain, options["resamples"], options["rng"])
            results[f"permutation_p{suffix}"] = test.p
            if suffix and test.expected is not None:
                results["by_chance"] = test.expected / null
        return results

    def _coefficients(self, fit: LogisticFit, effects: list[Jackknifed]) -> list[Row]:
        rows, at = [], 0
        for factor, levels in self.cells.levels.items():
            own = []
            for level, label in enumerate(levels):
                effect = effects[at].interval
                at += 1
                if not level:
                    continue
                name = f"{factor}={label}"
                row = {"factor": factor, "level": label, "reference": levels[0]}
                if name not in self.names:
                    blank = Interval(None, None, None, 0, 0, 0, "none", 0.95, reason=CONFOUNDED)
                    row |= named("log_odds", blank) | named("effect", blank)
                    row |= {"p": None, "direction": None, "reason": CONFOUNDED}
                    own.append(row)
                    continue
                found = fit[name]
                single = factor == "domain" and {label, levels[0]} & set(self.alone)
                row |= {
                    "log_odds": found.estimate,
                    "log_odds_lower": None if single else found.low,
                    "log_odds_upper": None if single else found.high,
                    "p": None if single else found.p,
                    "direction": found.direction,
                    "reason": "one prompt: no interval" if single else found.reason,
                }
                row |= named("effect", effect)
                row["reason"] = row["reason"] or effect.reason
                own.append(row)
            adjusted = holm([row["p"] for row in own])
            for row, p in zip(own, adjusted.p, strict=True):
                row["holm_p"] = p
            rows += own
        return rows

    def _nothing(self) -> tuple[list[Row], list[Row], list[Row]]:
        blank = Interval(None, None, None, 0, 0, 0, "none", 0.95, reason=self.reason)
        empty = dict.fromkeys(
            ("alone", "by_chance", "wald", "p", "permutation_p", "permutation_p_adjusted",
             "largest_effect")
        )  # fmt: skip
        base = {"prompts": len(self.cells.prompts), "nodes": round(self.cells.trials.sum())}
        rows = [
            empty | base | {"factor": factor, "parameters": 0, "separated": 0}
            | named("dropped", blank) | explained(blank)
            for factor in (*FACTORS, "full")
        ]  # fmt: skip
        comparisons = [
            {"first": "domain", "second": other, "p": None}
            | named("difference", blank)
            | explained(blank)
            for other in list(FACTORS)[1:]
        ]
        return rows, comparisons, []
