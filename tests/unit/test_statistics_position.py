"""Statistics of position: halves, fifths, curve; what the ends of texts fake, and what loops do."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from draftscope.replay import greedy_rounds
from draftscope.statistics import (
    bootstrap,
    exclude_loops,
    observe_positions,
    observe_rounds,
    paired_halves,
    pooled_difference,
    position_curve,
    quintiles,
    sign_test,
    value_bins,
)
from hypothesis import given, settings
from hypothesis import strategies as st

GAMMA = 5


def replayed(matches, gamma=GAMMA, stop_reason="budget", prompt_ids=None, samples=None):
    """A round table from one row of matches a trajectory; texts that end had budget left."""
    tables = []
    for row in matches:
        budget = len(row) if stop_reason == "budget" else 10 * len(row)
        ends = {"budget": budget, "stop_reason": stop_reason}
        tables.append(greedy_rounds(np.array(row), gamma, **ends))
    if prompt_ids is None:
        prompt_ids = [f"p{index:05d}" for index in range(len(matches))]
    counts = [len(table["start"]) for table in tables]
    frame = pd.DataFrame({name: np.concatenate([t[name] for t in tables]) for name in tables[0]})
    frame["prompt_id"] = np.repeat(prompt_ids, counts)
    frame["sample"] = np.repeat(samples or [0] * len(tables), counts)
    return frame


def constant(trajectories, tokens, acceptance=0.9, seed=0):
    return np.random.default_rng(seed).random((trajectories, tokens)) < acceptance


@pytest.fixture(scope="module", params=["budget", "eos"])
def null_rounds(request):
    """Constant acceptance .9 at 64 tokens, 4,000 texts, cut by their budget or ended."""
    return request.param, replayed(constant(4000, 64), stop_reason=request.param)


def test_cut_rounds_fake_a_fall_and_full_rounds_do_not(null_rounds):
    _, rounds = null_rounds
    honest = paired_halves(rounds, resamples=999)
    naive = paired_halves(rounds, keep="all", resamples=999)
    assert honest.n == naive.n == 4000
    assert -0.045 < naive.difference < -0.033
    assert naive.p < 1e-10 and naive.interval.high < -0.03
    # What is left is the bias of a mean over a random number of rounds, .003 at this length.
    assert abs(honest.difference - 0.003) < 3 * 0.0032
    assert abs(honest.sign.up / honest.sign.n - 0.5) < 3 * 0.5 / np.sqrt(honest.sign.n) + 0.006
    assert honest.cut_rounds > 0


def test_full_rounds_alone_are_not_enough_where_texts_end_by_themselves(null_rounds):
    """Rounds that reach beyond an end-of-text token are full only if they failed on the way."""
    ending, rounds = null_rounds
    result = paired_halves(rounds, method="student")
    only_full = paired_halves(rounds.drop(columns="end"), method="student")
    left_out = result.dropped["full rounds at the end of text"]
    if ending == "budget":
        assert left_out == 0 and only_full.difference == result.difference
    else:
        assert left_out > 500
        assert only_full.difference < -0.007 and only_full.p < 0.05


@pytest.mark.parametrize("tokens", [96, 128, 256])
def test_no_difference_at_the_lengths_of_a_laptop(tokens):
    """200 studies of 40 texts: the sign test keeps its size, the interval its coverage."""
    studies, prompts = 200, 40
    rounds = replayed(constant(studies * prompts // 4, tokens, seed=tokens))
    differences = paired_halves(rounds, method="student").differences
    rng = np.random.default_rng(1)
    p, covered = [], []
    for _ in range(studies):
        chosen = rng.choice(differences, prompts)
        p.append(sign_test(chosen).p)
        interval = bootstrap(chosen - np.nanmean(differences), resamples=299)
        covered.append(interval.low <= 0 <= interval.high)
    assert np.mean(np.array(p) <= 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)
    assert np.mean(covered) > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / studies)
    spread = np.nanstd(differences) / np.sqrt(len(differences))
    assert abs(np.nanmean(differences)) < 3 * spread + 0.002


def test_planted_rise_is_recovered_with_cut_rounds_left_out():
    """Acceptance .80 then .86 at 96 tokens; the naive estimate misses the truth."""
    rng = np.random.default_rng(4)
    chance = np.where(np.arange(96) < 48, 0.80, 0.86)
    rounds = replayed(rng.random((3000, 96)) < chance)
    mean = {a: np.mean([a**k for k in range(1, 6)]) for a in (0.80, 0.86)}
    truth = mean[0.86] - mean[0.80]
    # Rounds that straddle the middle see both; they are 1 in 11 of the first half.
    honest = paired_halves(rounds, resamples=999)
    naive = paired_halves(rounds, keep="all", resamples=999)
    assert abs(honest.difference - truth) < 0.012
    assert naive.difference < truth - 0.02
    assert honest.interval.low < honest.difference < honest.interval.high


def hand_table(**changes):
    table = {
        "prompt_id": ["a"] * 4,
        "sample": [0] * 4,
        "draft_length": [3] * 4,
        "start": [0, 2, 5, 9],
        "offered": [3, 3, 3, 1],
        "accepted": [1, 2, 3, 0],
        "emitted": [2, 3, 4, 1],
    }
    return table | changes


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pa.table])
def test_hand_table(kind):
    """10 tokens: rounds at 0 and 2 are in the first half, 5 in the second, 9 is cut."""
    result = paired_halves(kind(hand_table()))
    assert result.difference == pytest.approx(1 - (1 / 3 + 2 / 3) / 2)
    assert (result.n, result.values, result.cut_rounds, result.without_half) == (1, 3, 1, 0)
    assert (result.sign.up, result.p) == (1, 1.0)
    assert result.reason == "one prompt: no interval"
    record = result.record()
    assert record["cut_rounds"] == 1 and record["low"] is None


def test_lengths_given_beside_the_rounds():
    tokens = {"prompt_id": ["a"], "sample": [0], "tokens": [20]}
    result = paired_halves(hand_table(), tokens)
    assert result.without_half == 1 and result.n == 0
    assert result.reason == "no values"
    with pytest.raises(ValueError, match="no row for prompt a"):
        paired_halves(hand_table(), {"prompt_id": ["b"], "sample": [0], "tokens": [20]})
    with pytest.raises(ValueError, match="outside its text"):
        paired_halves(hand_table(), {"prompt_id": ["a"], "sample": [0], "tokens": [9]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draft_length": [3, 3, 5, 5]}, "draft_length: 3 and 5"),
        ({"start": [0, 2, 2, 9]}, "same start"),
        ({"rule": ["greedy"] * 3 + ["typical"]}, "different rule"),
    ],
)
def test_mixed_rounds_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        paired_halves(hand_table(**changes))


def test_samples_of_a_prompt_are_averaged_before_prompts_are():
    matches = constant(6, 60, 0.7)
    prompts, samples = ["a", "a", "a", "b", "c", "d"], [0, 1, 2, 0, 0, 0]
    pooled = paired_halves(replayed(matches, prompt_ids=prompts, samples=samples))
    single = paired_halves(replayed(matches)).differences
    assert pooled.differences == pytest.approx([single[:3].mean(), *single[3:]])
    assert pooled.n == 4


def test_halves_that_tie_give_exact_zeros():
    """Means of .1 and .2 do not add up in floating point; counts do."""
    tie = {
        "prompt_id": ["a"] * 5,
        "sample": [0] * 5,
        "draft_length": [10] * 5,
        "start": [0, 2, 5, 6, 8],
        "offered": [10] * 5,
        "accepted": [1, 1, 1, 1, 1],
        "emitted": [2, 3, 1, 2, 2],
    }
    result = paired_halves(tie)
    assert result.sign.ties == 1 and result.differences[0] == 0.0


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.permutations(range(8)))
def test_rows_in_any_order_give_the_same_result(seed, order):
    rounds = replayed(constant(8, 40, 0.6, seed))
    shuffled = pd.concat([rounds[rounds.prompt_id == f"p{i:05d}"].iloc[::-1] for i in order])
    first, second = paired_halves(rounds, resamples=99), paired_halves(shuffled, resamples=99)
    assert list(first.differences) == list(second.differences)
    assert first.interval == second.interval


@settings(max_examples=30)
@given(st.integers(0, 2**31))
def test_reversed_halves_change_the_sign(seed):
    rng = np.random.default_rng(seed)
    values = rng.random((6, 20)).astype(np.float32)
    table = {"prompt_id": list("abcdef"), "sample": [0] * 6, "overlap": list(values)}
    flipped = table | {"overlap": list(values[:, ::-1])}
    there = paired_halves(observe_positions(table, "overlap"), resamples=99)
    back = paired_halves(observe_positions(flipped, "overlap"), resamples=99)
    assert there.differences == pytest.approx(-back.differences, abs=1e-9)


def scores_table():
    return pa.table(
        {
            "prompt_id": ["b", "a"],
            "sample": pa.array([0, 0], pa.int32()),
            "log_p": pa.array([[-1.0, -2.0, -1.0, -0.5], [-1.0, -np.inf]], pa.list_(pa.float32())),
            "log_q": pa.array([[-2.0, -1.0, -np.inf, -0.5], [-1.0, -3.0]], pa.list_(pa.float32())),
            "target_disagreement": [[False] * 4, [False, True]],
        }
    )


def test_acceptance_averaged_over_positions():
    data = observe_positions(scores_table())
    assert list(data.prompt_ids) == ["a", "b"]
    by_prompt = {name: data.value[data.trajectory == i] for i, name in enumerate(data.prompt_ids)}
    assert by_prompt["b"] == pytest.approx([np.exp(-1), 1, 0, 1])
    assert by_prompt["a"] == pytest.approx([1])
    assert data.dropped == {"missing positions": 1}
    result = paired_halves(data)
    assert result.differences[1] == pytest.approx(0.5 - (1 + np.exp(-1)) / 2)
    assert np.isnan(result.differences[0]) and result.without_half == 1


def test_case_85_fifths_of_short_texts_are_counted_apart():
    table = {
        "prompt_id": ["a", "b", "c"],
        "sample": [0, 0, 0],
        "overlap": [[0.1] * 3, np.arange(7) / 10, np.arange(5) / 10],
    }
    result = quintiles(observe_positions(table, "overlap"))
    assert (result.short, result.n) == (1, 2)
    # floor(5 i / 7) is 0 0 1 2 2 3 4, and 0 1 2 3 4 for five tokens.
    means = [interval.estimate for interval in result.intervals]
    assert means == pytest.approx([0.025, 0.15, 0.275, 0.4, 0.5])
    assert [interval.n for interval in result.intervals] == [2] * 5


def test_case_85_equal_values_share_a_bin():
    entropies = [0.0] * 6 + [0.5, 1.0, 1.5, 2.0]
    assert list(value_bins(entropies)) == [0] * 6 + [3, 3, 4, 4]
    assert list(value_bins([3.0, np.nan, 1.0, 2.0, 4.0, 5.0])) == [2, -1, 0, 1, 3, 4]
    assert list(value_bins([])) == []


@given(st.lists(st.integers(0, 4), max_size=40))
def test_value_bins_never_split_ties_and_never_fall(values):
    bins = value_bins(values)
    pairs = sorted(zip(values, bins, strict=True))
    assert all(b <= d and (a != c or b == d) for (a, b), (c, d) in pairwise(pairs))


def test_case_95_acceptance_with_and_without_looped_spans():
    """50 tokens of text accepted half the time, then 200 of a loop accepted always."""
    rng = np.random.default_rng(0)
    matches = np.concatenate([rng.random((30, 50)) < 0.5, np.ones((30, 200), bool)], axis=1)
    rounds = replayed(matches)
    loops = pd.DataFrame(
        {
            "prompt_id": [f"p{i:05d}" for i in range(30)],
            "sample": 0,
            "looped": True,
            "onset": 50,
            "loop_problem": [i < 10 for i in range(30)],
        }
    )
    data = observe_rounds(rounds)
    without = exclude_loops(data, loops, "spans")
    assert data.value.mean() / GAMMA > 0.6
    text_only = np.mean([0.5**k for k in range(1, 6)])
    assert abs(without.value.mean() / GAMMA - text_only) < 0.05
    assert set(without.tokens) == {50}
    assert (without.start + GAMMA <= 50).all()
    assert paired_halves(data).difference > 0.4
    assert abs(paired_halves(without).difference) < 0.06
    assert len(exclude_loops(data, loops, "problems").prompt_ids) == 20
    # What was cut from a trajectory leaves with it.
    assert data.dropped["cut rounds"] > exclude_loops(data, loops).dropped["cut rounds"] > 0
    nothing = exclude_loops(data, loops, "looped")
    assert nothing.dropped["cut rounds"] == 0
    assert len(nothing.prompt_ids) == len(nothing.value) == 0
    assert paired_halves(nothing).reason == "no values"
    with pytest.raises(ValueError, match="no row for prompt p00029"):
        exclude_loops(data, loops.iloc[:-1], "problems")


def test_texts_without_a_loop_keep_everything():
    rounds = replayed(constant(4, 50))
    loops = pd.DataFrame(
        {
            "prompt_id": [f"p{i:05d}" for i in range(4)],
            "sample": 0,
            "looped": False,
            "onset": pd.array([None] * 4, "Int32"),
            "loop_problem": False,
        }
    )
    data = observe_rounds(rounds)
    for how in ("spans", "problems", "looped"):
        assert len(exclude_loops(data, loops, how).value) == len(data.value)


def test_pooled_difference_is_clustered_by_prompt():
    rng = np.random.default_rng(0)
    level = rng.uniform(0.4, 0.95, 25)
    data = observe_rounds(replayed([rng.random(120) < a for a in level]))
    result = pooled_difference(data)
    late = data.start >= result.split
    expected = data.value[late].mean() / GAMMA - data.value[~late].mean() / GAMMA
    assert result.difference == pytest.approx(expected)
    assert result.early + result.late == len(data.value) and result.both == 25
    assert result.interval.low < result.difference < result.interval.high


def test_pooled_difference_mixes_prompts_where_the_paired_one_does_not():
    """Long texts that accept well everywhere: nothing changes along a text, yet pooled it rises."""
    rng = np.random.default_rng(1)
    matches = [rng.random(n) < a for n, a in [(60, 0.5)] * 30 + [(400, 0.95)] * 30]
    data = observe_rounds(replayed(matches))
    assert pooled_difference(data).interval.low > 0.05
    assert abs(paired_halves(data).difference) < 0.03


def test_curve_by_position():
    rng = np.random.default_rng(2)
    data = observe_rounds(replayed([rng.random(n) < 0.7 for n in [40] * 10 + [100] * 20]))
    curve = position_curve(data, 25)
    assert list(curve.left) == [0, 25, 50, 75]
    assert list(curve.alive) == [30, 30, 20, 20]
    assert curve["values"].sum() == len(data.value)
    inside = (data.start >= 25) & (data.start < 50)
    assert curve["mean"][1] == pytest.approx(data.value[inside].mean() / GAMMA)
    assert ((curve.low < curve["mean"]) & (curve["mean"] < curve.high)).all()
    assert (position_curve(data, [0, 50, 60])["right"] == [50, 60]).all()
    with pytest.raises(ValueError, match="rise"):
        position_curve(data, [0, 0, 5])


def test_case_83_curve_of_constant_prompts_has_the_width_of_prompts():
    values = [[float(i % 2)] * 40 for i in range(10)]
    table = {"prompt_id": list("abcdefghij"), "sample": [0] * 10, "overlap": values}
    row = position_curve(observe_positions(table, "overlap"), 40).iloc[0]
    assert row["mean"] == 0.5 and row.prompts == 10 and row["values"] == 400
    assert row.high - row.low > 0.5


def test_a_column_of_scores_must_be_one_draft():
    table = scores_table().append_column("draft", pa.array(["x", "y"]))
    with pytest.raises(ValueError, match="different draft"):
        observe_positions(table)
    doubled = pa.concat_tables([scores_table(), scores_table()])
    with pytest.raises(ValueError, match="two rows"):
        observe_positions(doubled)
