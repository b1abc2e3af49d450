"""Rounds and the ends of a trajectory: hand-written answers and a token-by-token reference."""

import numpy as np
import pytest
from draftscope.errors import UserError
from draftscope.replay import (
    accept_prob_emitted,
    greedy_rounds,
    reached_positions,
    sampled_rounds,
)
from hypothesis import given
from hypothesis import strategies as st


def rows(table: dict[str, np.ndarray]) -> list[tuple]:
    """(start, offered, accepted, emitted, end) of each round."""
    names = ("start", "offered", "accepted", "emitted", "end")
    return list(zip(*(table[name].tolist() for name in names), strict=True))


@st.composite
def situations(draw, most: int = 24):
    """Matches of a trajectory with a budget and a stop reason that do not contradict it."""
    matches = draw(st.lists(st.booleans(), max_size=most))
    stop_reason = draw(st.sampled_from(["eos", "budget", "context"]))
    spare = draw(st.integers(0, 10)) if stop_reason == "eos" else 0
    tokens = len(matches)
    limit = draw(st.none() | st.lists(st.integers(0, 9), min_size=tokens, max_size=tokens))
    return {
        "matches": np.array(matches, bool),
        "gamma": draw(st.integers(1, 8)),
        "budget": tokens + spare,
        "stop_reason": stop_reason,
        "offered_limit": None if limit is None else np.array(limit, int),
    }


def loop_of_one_token_at_a_time(matches, gamma, budget, stop_reason, offered_limit):
    """The rounds as a loop would make them that knows the end only when it emits it."""
    found, position, last = [], 0, len(matches) - 1
    while position <= last:
        start, offered = position, min(gamma, budget - position)
        if offered_limit is not None:
            offered = min(offered, int(offered_limit[position]))
        accepted = emitted = 0
        stopped = False
        for _ in range(offered):
            if not matches[position]:
                break
            stopped = position == last and stop_reason == "eos"
            accepted, emitted, position = accepted + 1, emitted + 1, position + 1
            if stopped:
                offered = accepted
                break
        if not stopped and position < budget:
            stopped = position == last and stop_reason == "eos"
            emitted, position = emitted + 1, position + 1
        end = "eos" if stopped else "budget" if position == budget else "continue"
        found.append((start, offered, accepted, emitted, end))
    return found


@given(situations())
def test_greedy_rounds_equal_a_loop_of_one_token_at_a_time(situation):
    assert rows(greedy_rounds(**situation)) == loop_of_one_token_at_a_time(**situation)


@given(situations())
def test_rounds_tile_the_trajectory(situation):
    table = greedy_rounds(**situation)
    accepted, offered, emitted = (
        table[name].astype(int) for name in ("accepted", "offered", "emitted")
    )
    tokens, gamma = len(situation["matches"]), situation["gamma"]
    assert emitted.sum() == tokens
    assert (table["start"] == np.cumsum(emitted) - emitted).all()
    assert (table["round"] == np.arange(len(emitted))).all()
    assert np.isin(emitted - accepted, (0, 1)).all()
    assert ((emitted - accepted)[:-1] == 1).all()  # only the last round can lack its extra token
    assert (emitted > 0).all()
    assert ((accepted <= offered) & (offered <= gamma)).all()
    assert (offered <= situation["budget"] - table["start"]).all()
    assert (table["end"][:-1] == "continue").all()
    assert (table["end"][-1:] == ("eos" if situation["stop_reason"] == "eos" else "budget")).all()


@given(situations(), st.randoms(use_true_random=False))
def test_sampled_equals_greedy_when_probabilities_are_0_or_1(situation, random):
    matches = situation.pop("matches")
    log_p = np.array([-random.random() for _ in matches])
    log_q = np.where(matches, log_p + random.random(), -np.inf)
    uniforms = np.array([random.random() for _ in matches])
    drawn = sampled_rounds(log_p, log_q, uniforms=uniforms, **situation)
    assert rows(drawn) == rows(greedy_rounds(matches, **situation))


@given(situations())
def test_reached_positions_are_those_a_draft_was_tested_at(situation):
    table = greedy_rounds(**situation)
    expected = np.zeros(len(situation["matches"]), bool)
    for start, offered, accepted, _, _ in rows(table):
        expected[start : start + min(accepted + 1, offered)] = True
    assert (reached_positions(table, len(expected)) == expected).all()
    assert (situation["matches"] | ~expected).sum() >= table["accepted"].sum()


def test_correction_and_bonus_each_follow_the_accepted_drafts():
    table = greedy_rounds([1, 1, 0, 0, 1, 1, 1, 1], 3)
    assert rows(table) == [
        (0, 3, 2, 3, "continue"),
        (3, 3, 0, 1, "continue"),
        (4, 3, 3, 4, "budget"),
    ]


def test_eos_as_correction_keeps_the_offer():
    assert rows(greedy_rounds([1, 0], 5, budget=9, stop_reason="eos")) == [(0, 5, 1, 2, "eos")]


def test_eos_as_bonus_keeps_the_offer():
    assert rows(greedy_rounds([1, 1, 1], 2, budget=9, stop_reason="eos")) == [(0, 2, 2, 3, "eos")]


def test_accepted_eos_has_no_bonus_and_ends_the_offer():
    assert rows(greedy_rounds([1, 1], 5, budget=9, stop_reason="eos")) == [(0, 2, 2, 2, "eos")]


def test_eos_at_the_last_token_of_the_budget():
    assert rows(greedy_rounds([1, 0], 5, budget=2, stop_reason="eos")) == [(0, 2, 1, 2, "eos")]


def test_full_context_ends_like_a_budget_whatever_the_configured_one():
    full = greedy_rounds([1, 1], 5, budget=99, stop_reason="context")
    assert rows(full) == [(0, 2, 2, 2, "budget")] == rows(greedy_rounds([1, 1], 5, budget=2))


def test_rejection_at_the_last_token_of_the_budget_is_a_correction():
    assert rows(greedy_rounds([1, 0], 5)) == [(0, 2, 1, 2, "budget")]


def test_nothing_to_offer_leaves_the_target_alone():
    table = greedy_rounds([1, 1, 1], 4, offered_limit=np.zeros(3, int))
    assert rows(table)[:2] == [(0, 0, 0, 1, "continue"), (1, 0, 0, 1, "continue")]


def test_empty_trajectory_has_no_rounds():
    assert {name: len(column) for name, column in greedy_rounds([], 3).items()} == dict.fromkeys(
        ("draft_length", "round", "start", "offered", "accepted", "emitted", "end"), 0
    )


@pytest.mark.parametrize("stop", range(1, 12))
def test_case_14_eos_accepted_in_the_middle_of_a_block(stop):
    table = greedy_rounds(np.ones(stop, bool), 8, budget=50, stop_reason="eos")
    # Nine tokens fill a round; of the rest nothing after the end counts as offered or accepted.
    expected = [(0, 8, 8, 9)] * (stop >= 9) + [(9 * (stop >= 9), *[stop % 9] * 3)] * (stop != 9)
    assert [row[:4] for row in rows(table)] == expected


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (1, [(0, 1, 1, 1)]),
        (2, [(0, 2, 2, 2)]),
        (3, [(0, 3, 3, 3)]),
        (5, [(0, 5, 5, 5)]),
        (6, [(0, 5, 5, 6)]),
        (7, [(0, 5, 5, 6), (6, 1, 1, 1)]),
    ],
)
def test_case_18_budget_is_met_exactly_and_the_last_offer_recorded(budget, expected):
    assert [row[:4] for row in rows(greedy_rounds(np.ones(budget, bool), 5))] == expected


@pytest.mark.parametrize("gamma", range(1, 9))
@pytest.mark.parametrize("stop_reason", ["eos", "budget", "context"])
def test_case_27_self_draft_is_accepted_at_exactly_one(gamma, stop_reason):
    generator = np.random.default_rng(gamma)
    for tokens in range(1, 40):
        log_p = np.log(generator.uniform(0.01, 1, tokens)).astype(np.float32)
        budget = tokens + (3 if stop_reason == "eos" else 0)
        ends = {"budget": budget, "stop_reason": stop_reason}
        drawn = sampled_rounds(log_p, log_p, gamma, generator, **ends)
        for table in (drawn, greedy_rounds(np.ones(tokens, bool), gamma, **ends)):
            assert (table["accepted"] == table["offered"]).all()
            assert (table["offered"][:-1] == gamma).all()
            assert len(table["round"]) == -(-tokens // (gamma + 1))


def test_emitted_tokens_are_accepted_with_min_1_q_over_p():
    p, q = np.array([0.5, 0.3, 0.2, 1e-9]), np.array([0.2, 0.3, 0.0, 1 - 0.5])
    with np.errstate(divide="ignore"):
        accept_prob = accept_prob_emitted(np.log(p), np.log(q))
    np.testing.assert_allclose(accept_prob, [0.4, 1, 0, 1])
    assert accept_prob[1] == accept_prob[3] == 1


def test_acceptance_law_enumerated_over_drafts_and_residuals():
    generator = np.random.default_rng(3)
    p, q = generator.dirichlet(np.ones(9)), generator.dirichlet(np.ones(9))
    # A round emits y as an accepted draft, or as the residual after any draft was rejected.
    as_draft = q * np.minimum(1, p / q)
    residual = np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()
    emitted = as_draft + (1 - as_draft.sum()) * residual
    np.testing.assert_allclose(emitted, p)
    np.testing.assert_allclose(accept_prob_emitted(np.log(p), np.log(q)), as_draft / emitted)


def test_no_round_offers_a_draft_at_a_position_of_disagreement():
    log_p = np.array([-1, -1, -np.inf, -1, -1, -1, -np.inf, -1])
    log_q = np.full(8, -0.5)
    out = np.isinf(log_p)
    table = sampled_rounds(log_p, log_q, 5, np.zeros(8), disagreement=out)
    # Offers stop before positions 2 and 6, whose tokens are emitted as the target's own.
    assert rows(table) == [
        (0, 2, 2, 3, "continue"),
        (3, 3, 3, 4, "continue"),
        (7, 1, 1, 1, "budget"),
    ]
    assert not reached_positions(table, 8)[out].any()
    at_start = sampled_rounds(log_p[2:], log_q[2:], 5, np.zeros(6), disagreement=out[2:])
    assert rows(at_start)[0] == (0, 0, 0, 1, "continue")


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 6), st.integers(0, 99))
def test_disagreement_positions_are_never_tested_and_the_rounds_still_tile(out, gamma, seed):
    generator = np.random.default_rng(seed)
    log_p, log_q = np.log(generator.uniform(size=(2, len(out))))
    drawn = sampled_rounds(
        np.where(out, -np.inf, log_p), log_q, gamma, generator, disagreement=np.array(out)
    )
    assert drawn["emitted"].sum() == len(out)
    assert not reached_positions(drawn, len(out))[np.array(out)].any()


def test_draft_lengths_share_their_uniforms():
    generator = np.random.default_rng(1)
    log_p, log_q = np.log(generator.uniform(size=(2, 300)))
    uniforms = generator.random(300)
    accepted = uniforms < np.exp(np.minimum(log_q - log_p, 0))
    for gamma in (1, 3, 8):
        drawn = sampled_rounds(log_p, log_q, gamma, uniforms)
        assert rows(drawn) == rows(greedy_rounds(accepted, gamma))


@pytest.mark.parametrize("gamma", [0, -1, 2.5, True, 2**15])
def test_draft_length_below_one_is_refused(gamma):
    with pytest.raises(UserError, match="draft length"):
        greedy_rounds([1, 0], gamma)


@pytest.mark.parametrize(
    ("budget", "stop_reason"), [(1, "eos"), (3, "budget"), (1, "context"), (2, "length")]
)
def test_contradictory_ends_are_refused(budget, stop_reason):
    with pytest.raises(ValueError, match="contradict|stop reason"):
        greedy_rounds([1, 0], 3, budget=budget, stop_reason=stop_reason)


@pytest.mark.parametrize(("log_p", "log_q"), [(-np.inf, -1), (np.nan, -1), (-1, np.nan)])
def test_undefined_acceptance_is_refused_with_its_position(log_p, log_q):
    with pytest.raises(ValueError, match="position 1"):
        sampled_rounds([-1, log_p], [-1, log_q], 3, np.zeros(2))


def test_too_few_uniforms_are_refused():
    with pytest.raises(ValueError, match="1 uniforms for 2 positions"):
        sampled_rounds([-1, -1], [-1, -1], 3, np.zeros(1))
