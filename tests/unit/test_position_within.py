"""The trend within texts: a planted slope is found, and a pooled curve is fooled by survival."""

import dataclasses
import warnings

import numpy as np
import pytest
from draftscope.position import within
from draftscope.tokens.names import NAMES
from planted_texts import DEFICIT, ENTROPY, SLOPE, planted

OPTIONS = {"method": "studentized", "confidence": 0.95, "resamples": 400, "rng": 0}
PLANTED = {"log2_position": SLOPE, "reflection": DEFICIT, "entropy": ENTROPY}


def fitted(texts, model, outcome="alpha", reached=None, margin=0.01, **options):
    moments = within.Moments()
    for text in texts:
        if reached is None or len(text.token) >= reached:
            moments.add(text.prompt_id, *within.design(text, outcome, reached))
    rows = within.estimates(moments, model, margin=margin, options=OPTIONS | options)
    return {row["term"]: row for row in rows}


def covers(row, truth):
    return row["estimate_lower"] <= truth <= row["estimate_upper"]


@pytest.fixture(
    scope="module", params=[pytest.param(24, id="24"), pytest.param(200, marks=pytest.mark.slow)]
)
def recovered(request):
    """How often each interval covered its truth, and the pooled one its own."""
    hits = dict.fromkeys(("log2_position", "reflection", "entropy", "reaching", "pooled"), 0)
    wrong_way = 0
    for number in range(request.param):
        texts = planted(np.random.default_rng(number), binary=bool(number % 2))
        adjusted = fitted(texts, "adjusted")
        for term, truth in PLANTED.items():
            hits[term] += covers(adjusted[term], truth)
        hits["reaching"] += covers(fitted(texts, "adjusted", reached=60)["log2_position"], SLOPE)
        pooled = fitted(texts, "pooled")["log2_position"]
        hits["pooled"] += covers(pooled, SLOPE)
        wrong_way += pooled["estimate"] > 0
    shares = {name: count / request.param for name, count in hits.items()}
    return request.param, shares, wrong_way / request.param


def test_planted_slope_deficit_and_entropy_are_covered(recovered):
    number, shares, _ = recovered
    # Of 24 the counts scatter: what has a chance below 1 in 10,000 at 95% fails there.
    low, high = (0.90, 0.98) if number == 200 else (0.75, 1.0)
    for name in ("log2_position", "reflection", "entropy", "reaching"):
        assert low <= shares[name] <= high, (name, shares)


def test_the_pooled_curve_is_fooled_by_survival(recovered):
    _, shares, wrong_way = recovered
    assert shares["pooled"] < 0.2, shares
    assert wrong_way > 0.8, "acceptance falls in every text, and the pooled curve says it rises"


def test_without_a_confound_the_pooled_slope_is_right():
    """The negative control: what fools it is survival, not the estimator."""
    hits = sum(
        covers(
            fitted(planted(np.random.default_rng(n), survival=0.0, deficit=0.0), "pooled")[
                "log2_position"
            ],
            SLOPE,
        )
        for n in range(20)
    )
    assert hits >= 15


def test_the_estimate_and_its_error_are_those_of_a_regression_with_an_intercept_for_each_text():
    sm = pytest.importorskip("statsmodels.api")
    texts = planted(np.random.default_rng(4), 15)
    columns, outcome, prompt = [], [], []
    for number, text in enumerate(texts):
        x, y = within.design(text, "alpha")
        columns.append(x)
        outcome.append(y)
        prompt.append(np.full(len(y), number))
    x, y, prompt = np.concatenate(columns), np.concatenate(outcome), np.concatenate(prompt)
    used = [n for n in range(1, x.shape[1]) if np.ptp(x[:, n])]
    dummies = (prompt[:, None] == np.arange(len(texts))).astype(float)
    design = np.column_stack([x[:, used], dummies])
    model = sm.GEE(y, design, groups=prompt, cov_struct=sm.cov_struct.Independence())
    result = model.fit(cov_type="robust")
    found = fitted(texts, "adjusted", method="student")
    for place, column in enumerate(used):
        row = found[within.TERMS[column - 1]]
        assert row["estimate"] == pytest.approx(result.params[place], abs=1e-9)
        half = (row["estimate_upper"] - row["estimate_lower"]) / 2
        # The jackknife stands above the sandwich by its small-sample correction.
        assert 0.9 < half / (2.1448 * result.bse[place]) < 1.35, row["term"]


def test_a_mixed_model_with_a_random_intercept_agrees():
    sm = pytest.importorskip("statsmodels.api")
    texts = planted(np.random.default_rng(6), 25, survival=0.0)
    parts = [within.design(text, "alpha") for text in texts]
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    groups = np.concatenate([np.full(len(p[1]), n) for n, p in enumerate(parts)])
    used = [n for n in range(x.shape[1]) if n == 0 or np.ptp(x[:, n])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a variance that is small beside the noise
        result = sm.MixedLM(y, x[:, used], groups).fit()
    found = fitted(texts, "adjusted")
    for place, column in enumerate(used[1:], 1):
        row = found[within.TERMS[column - 1]]
        assert row["estimate"] == pytest.approx(result.fe_params[place], abs=3e-3)


def test_closed_form_of_one_regressor():
    texts = planted(np.random.default_rng(1), 6)
    above = below = 0.0
    for text in texts:
        place = np.log2(1.0 + np.arange(len(text.token)))
        place -= place.mean()
        above += place @ text.values["alpha"]
        below += place @ place
    assert fitted(texts, "position")["log2_position"]["estimate"] == pytest.approx(above / below)


def test_the_tests_agree_with_the_interval_and_say_so_in_words():
    falling = fitted(planted(np.random.default_rng(2), 60, slope=-0.03), "adjusted")
    row = falling["log2_position"]
    assert row["verdict"] == "falls" and row["decay_p"] > 0.9 and row["p"] < 1e-6
    flat = fitted(planted(np.random.default_rng(2), 60, slope=0.0), "adjusted")["log2_position"]
    assert "within the margin" in flat["verdict"] and flat["equivalence_p"] < 0.05
    assert flat["decay_p"] <= flat["equivalence_p"] + 1e-12
    narrow = fitted(planted(np.random.default_rng(2), 60, slope=0.0), "adjusted", margin=1e-6)
    assert narrow["log2_position"]["equivalence_p"] > 0.4
    assert flat["margin"] == 0.01 and falling["entropy"]["margin"] is None


def test_degenerate_texts_have_a_stated_answer():
    nothing = fitted([], "adjusted")
    assert all(row["estimate"] is None and row["reason"] for row in nothing.values())
    texts = planted(np.random.default_rng(3), 3)
    one = fitted(texts[:1], "adjusted")["log2_position"]
    assert one["estimate"] is not None and one["estimate_lower"] is None and one["reason"]
    assert one["verdict"] == "no test" and one["p"] is None
    several = fitted(texts, "adjusted")
    assert several["code"]["reason"] == within.NOT_IDENTIFIED
    alike = [dataclasses.replace(t, values={"alpha": np.full(len(t.token), 0.5)}) for t in texts]
    constant = fitted(alike, "position")["log2_position"]
    assert constant["estimate"] == pytest.approx(0.0, abs=1e-12) and constant["p"] is None
    missing = [
        dataclasses.replace(t, values={"alpha": np.full(len(t.token), np.nan)}) for t in texts
    ]
    assert fitted(missing, "position")["log2_position"]["estimate"] is None


def test_positions_without_a_value_keep_their_place():
    (text, *_) = planted(np.random.default_rng(0), 1)
    value = text.values["alpha"].copy()
    value[3] = np.nan
    x, y = within.design(dataclasses.replace(text, values={"alpha": value}), "alpha")
    assert len(y) == len(value) - 1
    assert x[3, 1] == pytest.approx(np.log2(5.0))  # of position 4
    assert x[:, 1 + within.TERMS.index("reflection")].sum() == (
        (text.type == NAMES.index("reflection")).sum() - (text.type[3] == NAMES.index("reflection"))
    )
