"""Replay judged by live rounds: it passes loops that are right and catches ones that are not."""

import numpy as np
import pytest
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.lossless.replay_check import (
    COMPARED,
    compare,
    first_difference,
    greedy_rows,
    monte_carlo_p,
    replay_text,
)
from draftscope.replay import greedy_rounds, proposed_rounds, sampled_rounds

GAMMA, TOKENS = 3, 60


def text(name, ids, length=GAMMA):
    return {"prompt_id": name, "sample": 0, "draft_length": length, "token_ids": ids,
            "prompt_token_ids": [7, 8, 9], "budget": len(ids), "stop_reason": "budget"}  # fmt: skip


def scores(rng, tokens=TOKENS):
    """Scores of a draft that agrees by and large: acceptance between .3 and 1."""
    log_p = np.log(rng.uniform(0.2, 0.9, tokens))
    return {
        "log_p": log_p,
        "log_q": log_p + np.log(rng.uniform(0.3, 1.2, tokens)),
        "draft_argmax": rng.integers(0, 3, tokens),
        "target_disagreement": np.zeros(tokens, bool),
    }


def pairs(prompts, fault=None, replays=100, seed=0):
    """Live texts as a loop of the right law would make them, replayed; `fault` bends the loop."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(prompts):
        name, ids = f"p{number}", rng.integers(0, 3, TOKENS).tolist()
        own = scores(rng)
        log_q = own["log_q"] + (fault or 0.0)
        live = sampled_rounds(own["log_p"], log_q, GAMMA, rng.random(TOKENS))
        options = {"greedy": False, "replays": replays, "run_seed": 1, "domain": "d"}
        found.append(replay_text(text(name, ids), live, own, **options))
    return found


def test_a_right_loop_is_equivalent_within_the_margin():
    found = compare(pairs(150), GAMMA, margin=0.1)
    assert found["p"] < 0.05
    assert -0.1 < found["difference_lower"] < found["difference_upper"] < 0.1
    assert found["length_p"] > 0.01
    assert found["same_rounds"] is None and found["replays"] == 100
    assert sum(found["live_counts"]) == pytest.approx(sum(found["replayed_counts"]), rel=0.03)


def test_a_loop_that_accepts_a_tenth_too_little_is_caught():
    found = compare(pairs(150, fault=np.log(0.9)), GAMMA, margin=0.1)
    assert found["p"] > 0.5
    assert found["difference_upper"] < 0
    assert found["length_p"] < 0.02


def test_too_few_prompts_show_nothing_and_say_how_many_would():
    found = compare(pairs(6), GAMMA, margin=0.02)
    assert found["p"] > 0.05
    assert found["prompts_needed"] > 6


def test_the_test_of_round_lengths_has_its_size():
    """Under the null a p-value below .1 comes in a tenth of the cases."""
    rng = np.random.default_rng(5)
    ps = []
    for _ in range(300):
        counts = rng.multinomial(80, [0.4, 0.3, 0.2, 0.1], 100)
        ps.append(monte_carlo_p(counts[0], counts[1:]))
    assert 0.05 < np.mean(np.array(ps) <= 0.1) < 0.16


def test_greedy_rounds_agree_one_for_one_and_a_shifted_one_does_not():
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 3, TOKENS).tolist()
    own = scores(rng)
    live = greedy_rounds(own["draft_argmax"] == np.array(ids), GAMMA)
    options = {"greedy": True, "replays": 9, "run_seed": 1, "domain": "d"}
    right = compare([replay_text(text("a", ids), live, own, **options)], GAMMA, margin=0.05)
    assert (right["same_rounds"], right["replays"], right["length_p"]) == (1, 1, None)
    assert right["live_counts"] == right["replayed_counts"]
    bent = live | {"accepted": np.maximum(live["accepted"] - 1, 0)}
    wrong = compare([replay_text(text("a", ids), bent, own, **options)], GAMMA, margin=0.05)
    assert wrong["same_rounds"] == 0


def test_text_drafts_are_certain_under_sampling_too():
    ids = [1, 2, 3, 1, 2, 3, 1, 2, 3, 5]
    live = proposed_rounds([7, 8, 9], ids, PromptLookup(), GAMMA)
    options = {"greedy": False, "replays": 9, "run_seed": 1, "domain": "d"}
    found = compare([replay_text(text("a", ids), live, PromptLookup(), **options)], GAMMA, margin=1)
    assert found["same_rounds"] == 1
    assert set(COMPARED) <= live.keys()


def test_texts_that_scoring_excludes_are_left_out_and_counted():
    own = scores(np.random.default_rng(3))
    own["target_disagreement"][4] = True
    options = {"greedy": False, "replays": 2, "run_seed": 1, "domain": "d"}
    assert replay_text(text("a", [0] * TOKENS), {}, own, **options) is None
    found = compare([], GAMMA, margin=0.05, left_out=1)
    assert (found["reason"], found["texts"]) == ("every text was left out", 0)


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [([1, 2], [1, 2], None), ([1, 3], [1, 2], 1), ([1, 2, 3], [1, 2], 2), ([], [1], 0)],
)
def test_case_53_texts_of_different_length_are_not_equal(one, other, place):
    assert first_difference(one, other) == place


def test_case_30_a_flip_is_reported_with_the_gap_there():
    def live(length, ids):
        return text("a", ids, length) | {"status": "ok"}

    gaps = {("a", 0): np.array([3.0, 0.002, 5.0])}
    rows = greedy_rows([live(0, [1, 2, 3]), live(2, [1, 2, 3]), live(4, [1, 9, 3])], gaps)
    assert [row["identical"] for row in rows] == [True, False]
    assert (rows[1]["flip"], rows[1]["gap"], rows[1]["reason"]) == (1, 0.002, None)
    assert rows[0]["gap"] is None and rows[0]["reason"]
