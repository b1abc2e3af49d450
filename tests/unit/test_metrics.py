"""Every measure from one hand-written log, and the arithmetic that published tables trip over."""

import copy
import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from draftscope.errors import UserError
from draftscope.metrics import (
    acceptance_metrics,
    def2,
    grouped_metrics,
    iid_tokens_per_round,
    predicted_speedup,
    throughput,
    tokens_per_round_from_positions,
)
from draftscope.replay import greedy_rounds
from hypothesis import given
from hypothesis import strategies as st


def log(accepted, gamma, offered=None, emitted=None, prompts=None, **more):
    """A round table; rounds are full and emit one more token unless said."""
    accepted = np.array(accepted)
    return {
        "prompt_id": np.array(prompts or ["a"] * len(accepted)),
        "draft_length": np.full(len(accepted), gamma, np.int16),
        "offered": np.full(len(accepted), gamma) if offered is None else np.array(offered),
        "accepted": accepted,
        "emitted": accepted + 1 if emitted is None else np.array(emitted),
        **more,
    }


def test_case_42_bonus_token_in_or_out():
    found = acceptance_metrics(log([2, 0, 3], 3))
    assert found.def1.micro == pytest.approx(5 / 9)
    assert found.draft_acceptance_rate.micro == pytest.approx(5 / 9)
    assert found.accepted_length.micro == pytest.approx(5 / 3)
    assert found.acceptance_length.micro == pytest.approx(8 / 3)
    assert found.accepted_per_emitted.micro == pytest.approx(5 / 8)
    assert found.verify_rate.micro == pytest.approx(8 / 12)
    assert [ratio.micro for ratio in found.position_rate] == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    assert [ratio.micro for ratio in found.conditional_rate] == pytest.approx([2 / 3, 1, 1 / 2])
    assert (found.rounds, found.offered, found.accepted, found.emitted) == (3, 9, 5, 8)


def test_case_43_all_definitions_from_one_log_with_a_cut_last_round():
    rounds = log([2, 0, 2], 3, offered=[3, 3, 2], emitted=[3, 1, 2])
    found = acceptance_metrics(rounds)
    assert (found.full_rounds, found.cut_rounds) == (2, 1)
    assert found.def1.micro == pytest.approx(1 / 3)
    assert found.draft_acceptance_rate.micro == pytest.approx(4 / 8)
    assert found.accepted_length.micro == pytest.approx(4 / 3)
    assert found.acceptance_length.micro == pytest.approx(6 / 3)
    assert found.accepted_per_emitted.micro == pytest.approx(4 / 6)
    assert found.verify_rate.micro == pytest.approx(6 / 11)
    # A tool whose first token comes from reading the prompt logs a round that offers nothing.
    prefill = log([0, 2, 0, 2], 3, offered=[0, 3, 3, 2], emitted=[1, 3, 1, 2])
    counted = acceptance_metrics(prefill)
    assert counted.acceptance_length.micro == pytest.approx(7 / 4)
    assert counted.acceptance_length_where_offered == found.acceptance_length
    assert counted.draft_acceptance_rate == found.draft_acceptance_rate
    assert counted.def1 == found.def1


@pytest.mark.parametrize(("gamma", "rate"), [(1, 0.5), (4, 0.234375)])
def test_case_44_rate_shrinks_with_the_draft_length_by_construction(gamma, rate):
    outcomes = itertools.product([0, 1], repeat=gamma)  # each position accepts with 1/2
    found = acceptance_metrics(log([int(np.cumprod(o).sum()) for o in outcomes], gamma))
    assert found.draft_acceptance_rate.micro == rate
    assert [ratio.micro for ratio in found.conditional_rate] == [0.5] * gamma
    assert found.label("draft_acceptance_rate") == f"draft_acceptance_rate (gamma {gamma})"
    with pytest.raises(AttributeError):
        found.label("acceptance_rate")


def test_case_46_length_from_a_mean_rate():
    found = acceptance_metrics(log([4] * 5 + [0] * 5, 4, prompts=list("aaaaabbbbb")))
    assert found.accepted_length.micro == 2.0
    assert found.accepted_length_under_independence == 0.9375


def test_case_47_macro_against_micro():
    found = acceptance_metrics(log([4] * 10 + [0], 4, prompts=["a"] * 10 + ["b"]))
    assert found.acceptance_length.micro == pytest.approx(51 / 11)
    assert found.acceptance_length.macro == 3.0
    assert found.acceptance_length.prompts == found.prompts == 2


@pytest.mark.parametrize("changed", [0, 1, 2, 3])
def test_case_48_every_prompt_counts(changed):
    accepted = [1, 2, 3, 1]
    before = acceptance_metrics(log(accepted, 4, prompts=list("aabb")))
    accepted[changed] += 1
    after = acceptance_metrics(log(accepted, 4, prompts=list("aabb")))
    for name in ("def1", "draft_acceptance_rate", "acceptance_length", "accepted_per_emitted"):
        assert getattr(after, name).micro > getattr(before, name).micro
        assert getattr(after, name).macro > getattr(before, name).macro


def test_case_50_positions_left_out_leave_numerator_and_denominator():
    # Drafts can be offered at every other position only, and every one of them is right.
    rounds = greedy_rounds(np.ones(40, bool), 3, offered_limit=np.array([1, 0] * 20))
    found = acceptance_metrics(rounds)
    assert found.conditional_rate[0].micro == found.draft_acceptance_rate.micro == 1.0
    assert found.conditional_rate[1].micro is None  # never offered: not 0, not NaN
    assert found.conditional_rate[1].denominator == 0
    assert found.def1.micro is None and found.full_rounds == 0


def test_case_52_nothing_is_counted_from_another_run():
    rounds = log([2, 0, 3], 3)
    untouched = copy.deepcopy(rounds)
    first = acceptance_metrics(rounds)
    acceptance_metrics(log([3, 3, 3], 3))
    assert acceptance_metrics(rounds) == first
    assert all((rounds[name] == untouched[name]).all() for name in rounds)


def test_case_54_tokens_are_counted_by_id():
    speed = throughput([100, 10], [10, 5])
    assert speed.total == pytest.approx(110 / 15)
    assert speed.mean_of_runs == pytest.approx((10 + 2) / 2)
    # Emitted counts are ids: an end-of-text token and spaces that text would lose are in them.
    ids = [5, 220, 220, 2]
    rounds = greedy_rounds(np.zeros(4, bool), 3, budget=9, stop_reason="eos")
    assert acceptance_metrics(rounds).emitted == len(ids)
    for tokens, seconds in (([], []), ([1], [0]), ([1, 2], [1])):
        with pytest.raises(ValueError, match="positive time"):
            throughput(tokens, seconds)


def test_case_56_predicted_speedup_says_what_it_is_given():
    predicted = predicted_speedup(2.667, 3, 0.37)
    assert predicted.speedup == pytest.approx(2.667 / 2.11)
    assert predicted.label == "given c = 0.37"
    assert predicted_speedup(2.667, 3, 0.0).speedup == 2.667
    with pytest.raises(UserError, match="cost ratio"):
        predicted_speedup(2, 3, -1)


def test_case_38_rounds_of_different_rules_are_not_pooled():
    rounds = log([1, 1], 2, rule=np.array(["greedy", "speculative_sampling"]))
    with pytest.raises(UserError, match="rule is greedy and speculative_sampling"):
        acceptance_metrics(rounds)
    assert acceptance_metrics(log([1], 2, rule=np.array(["greedy"]))).rule == "greedy"


@pytest.mark.parametrize(
    ("name", "values"),
    [("draft_length", [3, 5]), ("source", ["live", "replay"]), ("lossless", [False, True])],
)
def test_rounds_of_different_loops_are_refused_unless_grouped(name, values):
    rounds = log([1, 2, 0], 3) | {name: np.array([values[1], *values])}
    with pytest.raises(UserError, match=f"group by {name}"):
        acceptance_metrics(rounds)
    grouped = grouped_metrics(rounds, [name])
    assert list(grouped) == [(values[0],), (values[1],)]
    assert [found.accepted for found in grouped.values()] == [2, 1]
    assert grouped_metrics(pa.table(rounds), [name]) == grouped


def test_prompts_of_two_domains_that_share_an_id_are_two_prompts():
    rounds = log([4, 0, 0], 4, prompts=["a", "a", "a"])
    rounds["domain"] = np.array(["math", "code", "code"])
    assert acceptance_metrics(rounds).acceptance_length.macro == 3.0


def test_conditional_rate_does_not_count_what_was_not_offered():
    found = acceptance_metrics(log([3, 1, 2], 3, offered=[3, 1, 3], emitted=[4, 2, 3]))
    assert [r.denominator for r in found.conditional_rate] == [3, 2, 2]
    assert [r.numerator for r in found.conditional_rate] == [3, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), min_size=1, max_size=30))
def test_position_rates_add_up_to_the_lengths(rows):
    accepted, prompts = zip(*rows, strict=True)
    found = acceptance_metrics(log(accepted, 5, prompts=list(prompts)))
    rates = [ratio.micro for ratio in found.position_rate]
    assert sum(rates) == pytest.approx(found.accepted_length.micro)
    assert tokens_per_round_from_positions(rates) == pytest.approx(found.acceptance_length.micro)
    reached = np.cumprod([r.micro if r.micro is not None else 0 for r in found.conditional_rate])
    assert reached == pytest.approx(rates)
    own = [acceptance_metrics(log([a for a, p in rows if p == name], 5)) for name in set(prompts)]
    assert found.def1.macro == pytest.approx(np.mean([m.def1.micro for m in own]))
    assert found.acceptance_length.macro == pytest.approx(
        np.mean([m.acceptance_length.micro for m in own])
    )


def test_pooled_rate_is_not_the_rate_of_the_formula():
    # A published run: 2917 tokens in 1084 rounds of 4 drafts, rates by position as printed.
    assert tokens_per_round_from_positions([0.664, 0.480, 0.348, 0.242]) == pytest.approx(
        2917 / 1084, abs=0.05
    )
    pooled = np.mean([0.664, 0.480, 0.348, 0.242])
    assert iid_tokens_per_round(pooled, 4) == pytest.approx(1.74, abs=0.01)


@pytest.mark.parametrize(("alpha", "expected"), [(0.0, 1), (1.0, 6), (0.922, 4.945)])
def test_tokens_per_round_under_independence(alpha, expected):
    assert iid_tokens_per_round(alpha, 5) == pytest.approx(expected, abs=5e-4)
    assert alpha == 1 or iid_tokens_per_round(alpha, 5) == pytest.approx(
        (1 - alpha**6) / (1 - alpha)
    )
    with pytest.raises(ValueError, match="probability"):
        iid_tokens_per_round(alpha - 2, 5)


def test_def2_names_its_positions():
    log_q = np.log([0.5, 1.0, 0.25])
    assert def2(log_q, np.array([True, True, False])).reached == pytest.approx(0.75)
    assert def2(log_q).all == pytest.approx(1.75 / 3)
    assert def2(log_q).reached is None
    assert def2(log_q, np.zeros(3, bool)).reached is None
    with pytest.raises(ValueError, match="no position"):
        def2(np.array([]))


def test_records_serialize_without_nan():
    found = acceptance_metrics(log([0], 2, offered=[0], emitted=[1]))
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["def1"]["micro"] is None
    rows = list(found.as_rows())
    assert {row["pooling"] for row in rows} == {"micro", "macro"}
    assert len(rows) == 2 * (7 + 2 + 2)
    assert [r["position"] for r in rows if r["metric"] == "position_rate"] == [1, 1, 2, 2]
    json.dumps(rows, allow_nan=False)
    assert found.accepted_length_under_independence is None


@pytest.mark.parametrize(
    ("accepted", "offered", "emitted"), [(4, 3, 5), (2, 1, 3), (1, 3, 3), (1, 3, 0), (-1, 3, 0)]
)
def test_impossible_rounds_are_refused(accepted, offered, emitted):
    with pytest.raises(ValueError, match="round"):
        acceptance_metrics(log([accepted], 3, offered=[offered], emitted=[emitted]))


def test_no_rounds_are_refused():
    with pytest.raises(UserError, match="no rounds"):
        acceptance_metrics(log([], 3))
