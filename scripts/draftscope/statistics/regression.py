"""Logistic regression of acceptance with prompt-clustered errors, and without false precision."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats


@dataclass(frozen=True)
class Coefficient:
    """A log odds ratio; `estimate` is None when it is unbounded, and `direction` its sign.

    Attributes:
        direction: +1 or -1 for an unbounded coefficient, 0 when it is unbounded both ways
            (no information is left about it), None for an ordinary one.
    """

    name: str
    estimate: float | None
    low: float | None
    high: float | None
    p: float | None
    direction: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class LogisticFit:
    """Coefficients by name; `n` prompts, of which `values` outcomes.

    Attributes:
        bounded: names of the coefficients that have an estimate, in the order of `covariance`.
        covariance: of these, clustered by prompt; None with fewer than two prompts.
    """

    coefficients: Mapping[str, Coefficient]
    n: int
    values: int
    separated: int
    reason: str | None = None
    bounded: tuple[str, ...] = ()
    covariance: np.ndarray | None = None

    def wald(self, names: Sequence[str]) -> tuple[float, int, float] | None:
        """Chi-square, degrees of freedom and p of "all of these are zero"; None if undefined."""
        if self.covariance is None or not names or not set(names) <= set(self.bounded):
            return None
        at = [self.bounded.index(name) for name in names]
        estimates = np.array([self[name].estimate for name in names])
        matrix = self.covariance[np.ix_(at, at)]
        if not np.isfinite(matrix).all():  # on the verge of separation
            return None
        if np.linalg.matrix_rank(matrix) < len(at):  # fewer prompts than coefficients
            return None
        statistic = float(estimates @ np.linalg.solve(matrix, estimates))
        return statistic, len(at), float(stats.chi2.sf(statistic, len(at)))

    def __getitem__(self, name: str) -> Coefficient:
        return self.coefficients[name]


def logistic(
    outcome: Sequence[int] | np.ndarray,
    covariates: Mapping[str, Sequence[float] | np.ndarray],
    prompts: Sequence[Any] | np.ndarray,
    confidence: float = 0.95,
    weights: Sequence[float] | np.ndarray | None = None,
) -> LogisticFit:
    """Logistic regression with an intercept and errors clustered by prompt (sandwich).

    Under separation (Albert and Anderson 1984) the likelihood has no maximum and software
    returns coefficients and errors that are artefacts of when it stopped. A linear program
    finds the coefficients that run away; they are reported as unbounded, the outcomes they
    predict perfectly are taken out, and the others are estimated on the rest.

    Args:
        outcome: 0 or 1, shape [n].
        covariates: name -> values [n]; an intercept is added under the name "intercept".
        prompts: the prompt of each outcome, [n].
        weights: how many outcomes of its prompt a row stands for, [n]; rows of weight 0 are
            left out. The result is that of the rows written out one by one. An outcome that is
            a share a stands for an outcome 1 of weight a and an outcome 0 of weight 1 - a.

    Raises:
        ValueError: shapes differ, an outcome is not 0 or 1, covariates are collinear or NaN, a
            weight is negative.
    """
    y = np.asarray(outcome, dtype=float)
    w = np.ones_like(y) if weights is None else np.asarray(weights, dtype=float)
    names = ["intercept", *covariates]
    columns = [np.ones(len(y)), *(np.asarray(column, float) for column in covariates.values())]
    codes = np.unique(np.asarray(prompts), return_inverse=True)[1]
    if any(column.shape != y.shape for column in (*columns, codes, w)):
        raise ValueError("outcome, covariates, prompts and weights differ in length")
    if not (np.isfinite(w) & (w >= 0)).all():
        raise ValueError("weights must be finite and not negative")
    x = np.stack(columns, axis=1)
    if not w.all():
        x, y, codes, w = x[w > 0], y[w > 0], codes[w > 0], w[w > 0]
    if not np.isin(y, (0, 1)).all() or not np.isfinite(x).all():
        raise ValueError("outcomes must be 0 or 1 and covariates finite")
    if np.linalg.matrix_rank(x) < len(names):
        raise ValueError(f"covariates are collinear (or constant): {', '.join(names[1:])}")
    directions, separated = _separation(x, y)
    bounded = [index for index, direction in enumerate(directions) if direction is None]
    rest = ~separated
    fitted: dict[int, Coefficient] = {}
    covariance = None
    if bounded and rest.any():
        fitted, covariance = _fit(
            x[rest][:, bounded], y[rest], w[rest], codes[rest], bounded, names, confidence
        )
    reasons = {1: "unbounded (perfect separation)", -1: "unbounded (perfect separation)"}
    coefficients = {
        name: fitted.get(index)
        or Coefficient(
            name, None, None, None, None, directions[index],
            reasons.get(directions[index], "undefined (perfect separation)"),
        )
        for index, name in enumerate(names)
    }  # fmt: skip
    reason = None
    values, set_aside = round(float(w.sum())), round(float(w[separated].sum()))
    if separated.any():
        reason = f"perfect separation: {set_aside} of {values} outcomes set aside"
    return LogisticFit(
        coefficients,
        len(np.unique(codes)),
        values,
        set_aside,
        reason,
        tuple(names[index] for index in bounded if index in fitted),
        covariance,
    )


def _separation(x: np.ndarray, y: np.ndarray) -> tuple[list[int | None], np.ndarray]:
    """Unbounded coefficients (sign, or 0 for both ways) and the outcomes predicted perfectly.

    A direction b with (2y - 1) x b >= 0 everywhere never lowers the likelihood (Konis 2007).
    """
    sign_x = (2 * y - 1)[:, None] * x / np.maximum(np.abs(x).max(0), 1e-300)
    rows, owner = np.unique(sign_x, axis=0, return_inverse=True)

    def farthest(objective: np.ndarray, kept: np.ndarray) -> np.ndarray:
        result = optimize.linprog(
            -objective, A_ub=-kept, b_ub=np.zeros(len(kept)), bounds=(-1, 1), method="highs"
        )
        if result.status != 0:
            raise RuntimeError(f"the linear program of the separation check failed: {result}")
        return result.x

    tolerance = 1e-7
    left = np.ones(len(rows), dtype=bool)
    # One direction need not show every outcome that can be predicted: repeat on the others.
    while left.any():
        margins = rows @ farthest(rows[left].sum(0), rows[left])
        found = left & (margins > tolerance)
        if not found.any():
            break
        left &= ~found
    if left.all():
        return [None] * x.shape[1], np.zeros(len(y), dtype=bool)
    directions: list[int | None] = []
    for index in range(x.shape[1]):
        unit = np.eye(x.shape[1])[index]
        up = farthest(unit, rows)[index] > tolerance
        down = farthest(-unit, rows)[index] < -tolerance
        directions.append((1 if up else -1) if up != down else 0 if up else None)
    return directions, ~left[owner]


def _fit(x, y, w, codes, bounded, names, confidence):
    # statsmodels takes a second to import; a script that needs no test should not wait for it.
    import statsmodels.api as sm
    from statsmodels.tools.sm_exceptions import SpecificationWarning

    model = sm.GLM(y, x, family=sm.families.Binomial(), freq_weights=w)
    prompts, values = len(np.unique(codes)), float(w.sum())
    covariance = None
    if prompts < 2:
        result = model.fit()
    else:
        # With weights its small-sample factor counts rows instead of outcomes, of which it warns.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpecificationWarning)
            result = model.fit(
                cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False}
            )
        factor = prompts / (prompts - 1) * (values - 1) / max(values - x.shape[1], 1)
        covariance = np.asarray(result.cov_params()) * factor
    z = stats.norm.ppf(0.5 + confidence / 2)
    coefficients = {}
    for position, index in enumerate(bounded):
        estimate = float(result.params[position])
        square = -1.0 if covariance is None else float(covariance[position, position])
        if not (np.isfinite(square) and square >= 0):
            coefficients[index] = Coefficient(
                names[index], estimate, None, None, None, reason="one prompt: no interval"
            )
            continue
        error = float(np.sqrt(square))
        coefficients[index] = Coefficient(
            names[index],
            estimate,
            estimate - z * error,
            estimate + z * error,
            float(2 * stats.norm.sf(abs(estimate) / error)) if error > 0 else None,
        )
    return coefficients, covariance
