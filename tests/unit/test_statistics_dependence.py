"""What a unit adds to a rank correlation, against scipy with the unit left out."""

import numpy as np
import pytest
from draftscope.statistics.dependence import spearman_influences
from scipy import stats


@pytest.mark.parametrize("ties", [False, True])
def test_an_influence_is_what_leaving_the_unit_out_changes(ties):
    rng = np.random.default_rng(5)
    units, size = 60, 30
    unit = np.repeat(np.arange(units), size)
    shift = rng.normal(size=units)[unit]
    x = rng.normal(size=units * size) + shift
    y = rng.normal(size=units * size) - 0.5 * x + shift
    if ties:
        x, y = x.round(), np.maximum(y, 0.0)
    whole = stats.spearmanr(x, y).statistic
    left_out = [stats.spearmanr(x[unit != u], y[unit != u]).statistic for u in range(units)]
    jackknife = (whole - np.array(left_out)) * (units - 1) / units
    found = spearman_influences(x, y, unit, units)
    assert found.sum() == pytest.approx(0, abs=1e-12)
    assert np.corrcoef(found, jackknife)[0, 1] > 0.999
    assert found.std() == pytest.approx(jackknife.std(), rel=0.05)
    # A unit's pairs taken for independent would say less.
    alone = spearman_influences(x, y, np.arange(len(x)), len(x))
    assert np.sqrt((found**2).sum()) > 1.2 * np.sqrt((alone**2).sum())
