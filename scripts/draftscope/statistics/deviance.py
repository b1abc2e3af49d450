"""Deviance of logistic models fitted to many tables of counts at once.

The jackknife fits a model as often as there are prompts, each time to the same few cells with
slightly other counts: one batch of Newton steps (iteratively reweighted least squares, McCullagh
and Nelder 1989, section 2.5) does that in the time of a few single fits. Estimates and errors
that are reported come from `regression`, which looks for separation; here a separated cell only
drives its share of the deviance to zero, as it does in the limit.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, xlog1py, xlogy

_STEPS, _TOLERANCE, _LIMIT = 60, 1e-10, 30.0
# Keeps the step defined along directions that have run away; too small to move an estimate.
_RIDGE = 1e-9


def fit(
    design: np.ndarray,
    successes: np.ndarray,
    trials: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Maximum likelihood coefficients of each table, [tables, terms].

    Args:
        design: shape [cells, terms], with a column of ones; the same for all tables.
        successes, trials: shape [tables, cells]; sums of shares count like sums of outcomes.
        start: coefficients to begin with, [terms]; those of a table much like these save steps.

    Coefficients that the data leave unbounded come out large, with no meaning but that.
    """
    tables, terms = len(trials), design.shape[1]
    outer = (design[:, :, None] * design[:, None, :]).reshape(len(design), terms * terms)
    beta = np.zeros((tables, terms)) if start is None else np.tile(start, (tables, 1))
    best = np.full(tables, np.inf)
    step = np.zeros_like(beta)
    for _ in range(_STEPS):
        # Halve the steps that made things worse; Newton's method overshoots near 0 and 1.
        for _ in range(20):
            chance = expit(np.clip((beta + step) @ design.T, -_LIMIT, _LIMIT))
            now = _deviance(successes, trials, chance)
            worse = now > best + 1e-9 * np.maximum(1.0, np.abs(best))
            if not worse.any():
                break
            step[worse] /= 2
        beta, change = beta + step, best - now
        done = np.abs(change) <= _TOLERANCE * np.maximum(1.0, np.abs(now))
        best = now
        if done.all():
            break
        weight = trials * chance * (1 - chance)
        hessian = (weight @ outer).reshape(tables, terms, terms)
        scale = np.maximum(np.trace(hessian, axis1=1, axis2=2) / terms, 1e-12)
        hessian += _RIDGE * scale[:, None, None] * np.eye(terms)
        gradient = (successes - trials * chance) @ design
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        step[done] = 0.0
    return beta


def deviance(
    design: np.ndarray,
    successes: np.ndarray,
    trials: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """-2 log likelihood at the maximum of each table, [tables]; arguments as in `fit`.

    The part that only depends on the data (zero for outcomes of 0 and 1) is left out.
    """
    beta = fit(design, successes, trials, start)
    return _deviance(successes, trials, predict(design, beta))


def predict(design: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Chance of each cell in each table, [tables, cells]."""
    return expit(np.clip(beta @ design.T, -_LIMIT, _LIMIT))


def _deviance(successes: np.ndarray, trials: np.ndarray, chance: np.ndarray) -> np.ndarray:
    return -2 * (xlogy(successes, chance) + xlog1py(trials - successes, -chance)).sum(-1)
