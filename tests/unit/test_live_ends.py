"""How texts and rounds end: end-of-text tokens, budgets, contexts; live and replayed alike."""

import numpy as np
import pytest
import torch
from draftscope.drafters.model import ModelDraft, TextDraft
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.errors import UserError
from draftscope.live import decode
from draftscope.lossless.markov import MarkovModel, pair
from draftscope.replay import greedy_rounds, proposed_rounds
from draftscope.seeds import generator
from hypothesis import given, settings
from hypothesis import strategies as st

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
T1 = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
COLUMNS = ("start", "offered", "accepted", "emitted", "end")


def counting(size=40, max_positions=None):
    """The next token is the last one plus one."""
    logits = 20.0 * torch.eye(size, dtype=torch.float64).roll(1, 1)
    return MarkovModel(logits, name="counting", max_positions=max_positions)


def greedy(target, drafter, prompt, gamma, budget, eos=()):
    return decode(
        target, drafter, prompt, gamma=gamma, law=GREEDY, budget=budget, eos_ids=frozenset(eos),
        rng=generator("ends"),
    )  # fmt: skip


def same(target, **settings):
    return ModelDraft(MarkovModel(target._last, target._before, **settings), GREEDY)


def test_case_12_any_of_several_end_of_text_ids_stops_and_is_recorded():
    decoded = greedy(counting(), same(counting()), [3], 4, 50, eos=(6, 8))
    assert decoded.token_ids == [4, 5, 6]
    assert (decoded.stop_reason, decoded.stop_token_id) == ("eos", 6)
    first = decoded.rounds[0]
    assert (first.offered, first.accepted, first.emitted, first.end) == (3, 3, 3, "eos")


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_case_14_every_token_in_turn_as_end_of_text_equals_plain_greedy(gamma, noise):
    target, draft = pair(48, key=7, noise=noise)
    prompt = [5, 11]
    text = greedy(target, None, prompt, 0, 30).token_ids
    assert len(set(text)) > 8
    for eos in sorted(set(text)):
        plain = greedy(target, None, prompt, 0, 30, eos=(eos,))
        assert plain.token_ids == text[: text.index(eos) + 1]
        assert (plain.stop_reason, plain.stop_token_id) == ("eos", eos)
        live = greedy(target, ModelDraft(draft, GREEDY), prompt, gamma, 30, eos=(eos,))
        assert live.token_ids == plain.token_ids
        assert (live.stop_reason, live.stop_token_id) == ("eos", eos)
        last = live.rounds[-1]
        # Nothing beyond the end of the text counts, as offered or as accepted.
        assert last.start + last.emitted == len(live.token_ids)
        if last.emitted == last.accepted:
            assert last.offered == last.accepted
        else:
            assert last.offered == min(gamma, 30 - last.start)


@pytest.mark.parametrize("gamma", [1, 2, 5, 8])
@pytest.mark.parametrize("budget", [1, 2, 3, 5])
def test_case_18_the_budget_is_exact_and_the_shortened_draft_recorded(gamma, budget):
    decoded = greedy(counting(), same(counting()), [0], gamma, budget)
    assert decoded.token_ids == list(range(1, budget + 1))
    assert (decoded.stop_reason, decoded.stop_token_id) == ("budget", None)
    wanted, start = [], 0
    while start < budget:
        offered = min(gamma, budget - start)
        emitted = min(offered + 1, budget - start)
        wanted.append((start, offered, offered, emitted))
        start += emitted
    assert [r[:4] for r in decoded.rounds] == wanted
    assert [r.end for r in decoded.rounds] == ["continue"] * (len(wanted) - 1) + ["budget"]


@pytest.mark.parametrize("budget", [1, 2, 3, 5])
def test_case_18_rejections_at_the_edge_of_the_budget(budget):
    target, draft = pair(48, key=8, noise=3.0)
    text = greedy(target, None, [4], 0, 5).token_ids
    for gamma in (1, 4, 9):
        live = greedy(target, ModelDraft(draft, GREEDY), [4], gamma, budget)
        assert live.token_ids == text[:budget]


@pytest.mark.parametrize("gamma", [0, 1, 5])
@pytest.mark.parametrize("length", [1, 6, 9])
def test_the_context_of_the_target_is_filled_and_never_exceeded(gamma, length):
    class Strict(MarkovModel):
        def extend(self, token_ids, keep):
            assert self.length + len(token_ids) <= 10
            return super().extend(token_ids, keep)

    target = Strict(counting()._last, max_positions=10)
    decoded = greedy(target, same(target), list(range(length)), gamma, 30)
    assert len(decoded.token_ids) == 10 - length == decoded.budget
    assert decoded.stop_reason == "context"
    assert decoded.rounds[-1].end == "budget"
    exact = greedy(target, same(target), list(range(length)), gamma, 10 - length)
    assert exact.stop_reason == "budget"


def test_a_draft_with_a_shorter_context_offers_less_and_then_nothing():
    class Strict(MarkovModel):
        def extend(self, token_ids, keep):
            assert self.length + len(token_ids) <= 7
            return super().extend(token_ids, keep)

    target = counting()
    drafter = ModelDraft(Strict(target._last, max_positions=7), GREEDY)
    decoded = greedy(target, drafter, [0, 1], 4, 12)
    assert decoded.token_ids == list(range(2, 14))
    # 2 + 4 drafts fit; then the text has 7 tokens, of which one more can be drafted; then none.
    assert [r.offered for r in decoded.rounds] == [4, 1, 0, 0, 0, 0, 0]


def test_prompts_that_cannot_be_decoded_say_which():
    target = counting(max_positions=4)
    with pytest.raises(UserError, match="prompt a: the prompt is empty"):
        decode(
            target, None, [], gamma=0, law=GREEDY, budget=3, eos_ids=frozenset(),
            rng=generator("x"), where="prompt a",
        )  # fmt: skip
    with pytest.raises(UserError, match="prompt b: a prompt of 4 tokens fills the context of cou"):
        decode(
            target, None, [0, 1, 2, 3], gamma=0, law=GREEDY, budget=3, eos_ids=frozenset(),
            rng=generator("x"), where="prompt b",
        )  # fmt: skip
    for wrong in ({"gamma": -1, "budget": 3}, {"gamma": 0, "budget": 0}):
        with pytest.raises(ValueError, match="at least"):
            decode(target, None, [0], law=GREEDY, eos_ids=frozenset(), rng=generator("x"), **wrong)


def log_of(decoded):
    return {name: [getattr(r, name) for r in decoded.rounds] for name in COLUMNS}


def same_log(decoded, table):
    return log_of(decoded) == {name: np.asarray(table[name]).tolist() for name in COLUMNS}


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 9),
    st.integers(1, 40),
    st.sampled_from([0.3, 1.0, 3.0]),
    st.booleans(),
)
def test_live_and_replayed_greedy_rounds_agree_round_for_round(key, gamma, budget, noise, ends):
    target, draft = pair(30, key, noise=noise)
    prompt = [key % 30, 2]
    eos = frozenset(range(25, 30)) if ends else frozenset()
    live = greedy(target, ModelDraft(draft, GREEDY), prompt, gamma, budget, eos)
    text = prompt + live.token_ids
    matches = [
        int(draft.logits(text[:i]).argmax()) == text[i] for i in range(len(prompt), len(text))
    ]
    table = greedy_rounds(np.array(matches), gamma, budget=budget, stop_reason=live.stop_reason)
    assert same_log(live, table)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 60), st.booleans())
def test_live_and_replayed_prompt_lookup_agree_round_for_round(key, gamma, budget, ends):
    target, _ = pair(7, key, scale=3.0)
    target = MarkovModel(target._last)  # greedy text of a first-order chain repeats itself
    prompt = [key % 7, 2, 3, 2]
    eos = frozenset({6}) if ends else frozenset()
    for law in (GREEDY, T1):
        live = decode(
            target, TextDraft(PromptLookup(), "lookup"), prompt, gamma=gamma, law=law,
            budget=budget, eos_ids=eos, rng=generator("lookup", key),
        )  # fmt: skip
        table = proposed_rounds(
            prompt, live.token_ids, PromptLookup(), gamma, budget=budget,
            stop_reason=live.stop_reason,
        )  # fmt: skip
        assert same_log(live, table)
