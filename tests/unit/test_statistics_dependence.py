"""Rank correlations with each unit left out, against scipy on what is left."""

import numpy as np
import pytest
from draftscope.statistics.dependence import spearman_without_each
from scipy import stats


def test_rho_without_each_unit_is_scipys_on_the_rest():
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(6), 9)
    x, y = rng.normal(size=54).round(1), rng.integers(0, 3, 54).astype(float)
    wanted = [stats.spearmanr(x[unit != u], y[unit != u]).statistic for u in range(6)]
    assert spearman_without_each(x, y, unit, 6) == pytest.approx(wanted, abs=1e-12)
    assert np.isnan(spearman_without_each(x, np.zeros(54), unit, 6)).all()
    assert np.isnan(spearman_without_each(x[:9], y[:9], unit[:9], 1)).all()
