"""Sums that are filled block by block give the statistics of observations held at once."""

import numpy as np
import pandas as pd
import pytest
from draftscope import seeds
from draftscope.statistics import (
    bootstrap,
    exclude_loops,
    observe_rounds,
    paired_halves,
    pooled_difference,
    position_curve,
)
from draftscope.statistics.resampling import Draws
from draftscope.statistics.running import RunningMean
from draftscope.statistics.sums import PositionSums, Texts, window_sums

WIDTH = 16


def parts(values, rng):
    edges = np.sort(rng.integers(0, len(values) + 1, 5))
    return np.split(values, edges)


@pytest.mark.parametrize("count", [0, 1, 8191, 8192, 8193, 100_001])
def test_numbers_in_parts_have_the_same_mean_to_the_last_bit(count):
    rng = np.random.default_rng(count)
    values = rng.normal(size=count) * 10.0 ** rng.integers(-8, 8, count)
    whole = RunningMean()
    whole.add(values)
    for _ in range(3):
        mean = RunningMean()
        for part in parts(values, rng):
            mean.add(part)
        assert mean.mean == whole.mean and mean.count == count
    assert whole.mean == (pytest.approx(values.mean(), rel=1e-12) if count else None)
    if count > 8192:  # the control: another order of summation has other bits
        assert float(np.cumsum(values)[-1]) / count != whole.mean


def run(seed, prompts=9, samples=2):
    """Rounds of draft length 3 (some cut), their lengths, and some loops."""
    rng = np.random.default_rng(seed)
    rounds, loops = [], []
    for prompt in range(prompts):
        for sample in range(samples):
            key = {"prompt_id": f"p{prompt}", "sample": sample}
            tokens = int(rng.integers(1, 90))
            starts = np.flatnonzero(rng.random(tokens) < 0.4)
            for start in starts:
                offered = int(min(3, rng.integers(1, 9)))
                accepted = int(rng.integers(0, offered + 1))
                rounds.append(
                    key | {"start": start, "offered": offered, "accepted": accepted,
                           "end": rng.choice(["continue", "eos"])}
                )  # fmt: skip
            looped = bool(rng.random() < 0.3)
            loops.append(
                key | {"tokens": tokens, "looped": looped, "onset": tokens // 2 if looped else None,
                       "loop_problem": looped and rng.random() < 0.5}
            )  # fmt: skip
    return pd.DataFrame(rounds), pd.DataFrame(loops)


def blocks(rounds, loops, how, order=None):
    names = rounds["prompt_id"].unique() if order is None else order
    for some in np.array_split(names, 4):
        part = rounds[rounds["prompt_id"].isin(some)]
        if len(part):
            seen = observe_rounds(part, loops, gamma=3)
            yield seen if how is None else exclude_loops(seen, loops, how)


def filled(rounds, loops, how, order=None):
    sums = PositionSums(Texts(loops), WIDTH)
    for fill in (sums.add, sums.add_sides):
        for block in blocks(rounds, loops, how, order):
            fill(block)
    return sums


@pytest.mark.parametrize("how", [None, "problems", "spans"])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_give_what_observations_give(how, seed):
    rounds, loops = run(seed)
    whole = observe_rounds(rounds, loops, gamma=3)
    whole = whole if how is None else exclude_loops(whole, loops, how)
    sums = filled(rounds, loops, how)
    assert sums.count == whole.count and sums.dropped == whole.dropped
    for name in ("prompt_ids", "prompt", "tokens"):
        assert list(getattr(sums, name)) == list(getattr(whole, name))
    first, second = (paired_halves(data, resamples=99) for data in (whole, sums))
    assert first.record() == second.record()
    assert np.array_equal(first.differences, second.differences, equal_nan=True)
    assert pooled_difference(whole, resamples=99) == pooled_difference(sums, resamples=99)
    curves = (position_curve(data, WIDTH, resamples=99) for data in (whole, sums))
    pd.testing.assert_frame_equal(*curves, check_exact=True)
    for ours, theirs in zip(window_sums(whole, 5), window_sums(sums, 5), strict=True):
        assert np.array_equal(ours, theirs)


def test_a_block_that_is_missing_is_noticed():
    """What the comparison above must not be blind to."""
    rounds, loops = run(0)
    whole = filled(rounds, loops, None)
    without = filled(rounds[rounds["prompt_id"] != "p3"], loops, None)
    assert without.count < whole.count
    assert pooled_difference(without, resamples=99) != pooled_difference(whole, resamples=99)


def test_blocks_in_another_order_keep_every_count():
    rounds, loops = run(1)
    there = filled(rounds, loops, None)
    back = filled(rounds, loops, None, order=sorted(rounds["prompt_id"].unique())[::-1])
    assert paired_halves(there, resamples=99).record() == paired_halves(back, resamples=99).record()


def test_a_trajectory_comes_once_and_every_block_twice():
    rounds, loops = run(2)
    sums = PositionSums(Texts(loops), WIDTH)
    block = next(blocks(rounds, loops, None))
    sums.add(block)
    with pytest.raises(ValueError, match="stands in two rows"):
        sums.add(block)
    with pytest.raises(ValueError, match="a second time"):
        pooled_difference(sums)
    with pytest.raises(ValueError, match="bins asked for"):
        position_curve(sums, WIDTH + 1)
    with pytest.raises(ValueError, match="no row for prompt p0"):
        PositionSums(Texts(loops[loops["prompt_id"] != "p0"]), WIDTH).add(block)
    with pytest.raises(ValueError, match="two rows for"):
        Texts(pd.concat([loops, loops.iloc[:1]]))


def test_nothing_at_all_has_stated_answers():
    _, loops = run(3)
    sums = PositionSums(Texts(loops.iloc[:0]), WIDTH)
    assert paired_halves(sums).reason == "no values"
    assert pooled_difference(sums).split is None
    assert not len(position_curve(sums, WIDTH))


def test_shared_draws_are_those_of_a_fresh_generator():
    values = np.random.default_rng(0).random((3, 40))

    def fresh():
        return seeds.generator("some", "key")

    shared = Draws(fresh)
    for row in (values[0], values[1], values[2][:30], values[0]):
        for method in ("studentized", "percentile", "bca"):
            options = {"method": method, "resamples": 199}
            assert bootstrap(row, rng=shared, **options) == bootstrap(row, rng=fresh(), **options)
    # The control: one generator that goes on gives other resamples.
    going_on = fresh()
    first, second = (bootstrap(values[0], resamples=199, rng=going_on) for _ in range(2))
    assert first != second
