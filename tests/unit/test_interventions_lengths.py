"""Interventions: lengths of prompts, paired differences and their adjusted p-values."""

import itertools

import numpy as np
import pytest
from draftscope.errors import UserError
from draftscope.interventions import lengths
from draftscope.interventions.lengths import standard_error
from intervention_arms import PROTOCOL, chosen, three_arms, write_source
from scipy import stats


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    sources = three_arms(tmp_path_factory.mktemp("rounds"))
    return sources, *lengths.study(sources, 5, "even", PROTOCOL)


def test_a_prompt_has_one_length_and_prompts_weigh_alike(tmp_path):
    source = write_source(tmp_path, "base", "cold", {"a": [6, 6, 3], "b": [1]})
    found = lengths.prompt_lengths(source, 5)
    assert found["rounds"] == {"a": 5.0, "b": 1.0}
    assert found["expected"] == {"a": 15 / 3.5, "b": 1 / 1.5}
    (row, *_), _ = lengths.study([source], 5, "base", PROTOCOL)
    assert row["mean"] == 3.0 and row["standard_error"] == 2.0
    with pytest.raises(UserError, match="has nothing of draft length 4"):
        lengths.prompt_lengths(source, 4)


def test_paired_differences_are_scipys_and_counts_add_up(measured):
    sources, rows, differences = measured
    for row in chosen(differences, estimator="rounds"):
        arms = {s.arm: s for s in sources if s.mode == row["mode"]}
        own, other = (
            lengths.prompt_lengths(arms[row[name]], 5)["rounds"] for name in ("arm", "against")
        )
        kept = [p for p in own if row["subset"] == "all" or p != "p3"]
        first, second = ([each[p] for p in kept] for each in (own, other))
        test = stats.ttest_rel(first, second)
        interval = test.confidence_interval(0.95)
        assert np.isclose(row["difference"], np.mean(first) - np.mean(second))
        assert np.isclose(row["t_p"], test.pvalue)
        assert np.allclose([row["t_lower"], row["t_upper"]], interval)
        assert row["up"] + row["down"] + row["ties"] == row["prompts"] == len(kept)
    compared = {(row["arm"], row["against"]) for row in differences}
    assert compared == {("even", "base"), ("odd", "base"), ("odd", "even")}
    assert {row["left_out_loops"] for row in chosen(rows, subset="loops_removed")} == {1}


def test_p_values_of_one_comparison_are_adjusted_together(measured):
    family = chosen(measured[2], against="base", subset="all", estimator="rounds")
    order = sorted(family, key=lambda row: row["t_p"])
    wanted = itertools.accumulate(
        (min(1.0, (len(order) - i) * row["t_p"]) for i, row in enumerate(order)), max
    )
    assert len(family) == 4  # two arms in two modes
    assert np.allclose([row["holm_p"] for row in order], list(wanted))


def test_case_81_arms_without_a_difference_and_single_prompts_have_a_stated_answer(tmp_path):
    sources = [write_source(tmp_path, arm, "cold", {"a": [3], "b": [2]}) for arm in ("base", "x")]
    row = lengths.study(sources, 5, "x", PROTOCOL)[1][0]
    assert (row["difference"], row["t_p"], row["sign_p"]) == (0.0, 1.0, 1.0)
    assert row["reason"] == "constant"
    sources = [write_source(tmp_path, arm, "cold", {"a": [3]}) for arm in ("base", "x")]
    row = lengths.study(sources, 5, "x", PROTOCOL)[1][0]
    assert row["t_p"] is None and row["standard_error"] is None
    assert row["reason"] == "one prompt: no interval"
    assert standard_error(np.array([1.0, 3.0])) == 1.0


def test_arms_on_other_prompts_are_not_compared(tmp_path):
    sources = [
        write_source(tmp_path, "base", "cold", {"a": [3], "b": [2]}),
        write_source(tmp_path, "x", "cold", {"a": [3]}),
    ]
    with pytest.raises(UserError, match="hold different prompts"):
        lengths.study(sources, 5, "x", PROTOCOL)
