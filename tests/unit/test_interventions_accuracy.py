"""Interventions: accuracy of the arms, McNemar's test, and why no lossless draft can move it."""

import numpy as np
import pytest
import torch
from draftscope import sampling
from draftscope.errors import UserError
from draftscope.interventions import accuracy
from draftscope.seeds import generator
from draftscope.statistics.contingency import mcnemar
from intervention_arms import answers
from scipy import stats
from statsmodels.stats import contingency_tables


def test_mcnemar_is_statsmodels_and_counts_are_those_of_the_answers():
    numbers = np.random.default_rng(3)
    right = {arm: numbers.integers(0, 2, 30).tolist() for arm in ("target", "even", "odd")}
    rows = accuracy.study(answers(right), "even", {"warm": 0.7}, 0.95)
    for row in rows:
        own, other = np.array(right[row["arm"]]), np.array(right["even"])
        assert row["correct"] == own.sum() and row["accuracy"] == own.mean()
        if row["arm"] == "even":
            assert row["p"] is None and row["reason"] == "the control"
            continue
        table = [[int(((own == a) & (other == b)).sum()) for b in (1, 0)] for a in (1, 0)]
        exact = contingency_tables.mcnemar(table, exact=True)
        plain = contingency_tables.mcnemar(table, exact=False, correction=False)
        assert np.isclose(row["p"], exact.pvalue) and np.isclose(row["chi2"], plain.statistic)
        assert [row["only_own"], row["only_other"]] == [table[0][1], table[1][0]]
        assert row["same_text"] == int(((own == 0) & (other == 0)).sum())
    assert mcnemar([[1, 0], [0, 2]]).p == 1.0


def test_case_79_equal_answers_have_no_discordant_prompts():
    rows = accuracy.study(answers({"even": [1, 0], "odd": [1, 0]}), "even", {"warm": 1.0}, 0.95)
    assert (rows[1]["p"], rows[1]["chi2"], rows[1]["reason"]) == (1.0, 0.0, "no discordant pairs")
    with pytest.raises(UserError, match="answered different prompts"):
        accuracy.study(answers({"even": [1, 0], "odd": [1]}), "even", {"warm": 1.0}, 0.95)


def test_domains_are_shown_apart_and_together():
    both = answers({"even": [1, 0], "odd": [1, 1]})
    both += [row | {"domain": "logic"} for row in both]
    rows = accuracy.study(both, "even", {"warm": 1.0}, 0.95)
    assert [(r["domain"], r["prompts"]) for r in rows if r["arm"] == "odd"] == [
        ("math", 2), ("logic", 2), ("all", 4)
    ]  # fmt: skip


P = np.array([0.05, 0.45, 0.2, 0.3])
DRAFTS = [np.array(q) for q in ([0.25] * 4, [0.7, 0.1, 0.1, 0.1], [0.01, 0.01, 0.49, 0.49])]
RIGHT = [1, 3]  # ids that answer right


def emitted_law(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Of the first token of a round: q min(1, p/q), and the residual where the draft is rejected."""
    accepted = np.minimum(p, q)
    residual = np.maximum(p - q, 0)
    rest = 1 - accepted.sum()
    return accepted + (rest * residual / residual.sum() if rest > 0 else 0)


def test_accuracy_cannot_differ_in_law_whatever_the_draft():
    """The answer is a function of the text, and a lossless loop leaves the law of the text alone."""
    for q in DRAFTS:
        assert np.allclose(emitted_law(P, q), P)
        assert np.isclose(emitted_law(P, q)[RIGHT].sum(), P[RIGHT].sum())
    # The same of the decoder's own test, simulated; a rule that takes every draft shows.
    n = 1200
    both = torch.tensor(np.stack([P, P]))
    counts = []
    for number, q in enumerate(DRAFTS):
        rng = generator("accuracy", number)
        drafts = rng.choice(4, n, p=q)
        right = 0
        for draft in drafts:
            accepted, following = sampling.verify([int(draft)], torch.tensor(q)[None], both, rng)
            right += (int(draft) if accepted else following) in RIGHT
        counts.append(right)
        lossy = int(np.isin(drafts, RIGHT).sum())
        assert stats.binomtest(right, n, P[RIGHT].sum()).pvalue > 0.001
        assert stats.binomtest(lossy, n, P[RIGHT].sum()).pvalue < 1e-6
    table = [counts, [n - count for count in counts]]
    assert stats.chi2_contingency(table).pvalue > 0.001
