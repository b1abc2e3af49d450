"""Prompt lookup against a naive search, against transformers, and its replay."""

import numpy as np
import pytest
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.errors import UserError
from draftscope.replay import greedy_rounds, proposals, proposed_rounds
from hypothesis import given, settings
from hypothesis import strategies as st

TOKENS = st.lists(st.integers(0, 3), max_size=40)


def naive(text: list[int], count: int, max_ngram: int, min_ngram: int) -> list[int]:
    for length in range(max_ngram, min_ngram - 1, -1):
        if length > len(text):
            continue
        for begin in range(len(text) - length - 1, -1, -1):
            if text[begin : begin + length] == text[len(text) - length :]:
                return text[begin + length : begin + length + count]
    return []


@given(TOKENS, TOKENS, st.integers(1, 4), st.integers(1, 4), st.integers(1, 8))
def test_proposals_equal_a_naive_search(prompt, generated, one, other, count):
    longest, shortest = max(one, other), min(one, other)
    lookup = PromptLookup(longest, shortest)
    lookup.start(prompt)
    for end in range(len(generated) + 1):
        text = prompt + generated[:end]
        assert lookup.propose(count) == naive(text, count, longest, shortest)
        lookup.extend(generated[end : end + 1])


@given(TOKENS, st.integers(1, 8))
def test_a_shorter_proposal_begins_a_longer_one(text, count):
    lookup = PromptLookup()
    lookup.start(text)
    assert lookup.propose(count) == lookup.propose(8)[:count]


def test_longest_match_wins_over_a_more_recent_shorter_one():
    lookup = PromptLookup(max_ngram=2)
    lookup.start([1, 2, 7, 9, 2, 8, 1, 2])
    assert lookup.propose(3) == [7, 9, 2]


def test_most_recent_occurrence_wins_and_may_overlap_the_end():
    lookup = PromptLookup(max_ngram=2)
    lookup.start([5, 6, 1, 5, 6, 2, 5, 6])
    assert lookup.propose(2) == [2, 5]
    lookup.start([4, 4, 4])
    assert lookup.propose(5) == [4]  # the text ends one token after the occurrence


def test_nothing_to_propose():
    lookup = PromptLookup()
    assert lookup.propose(3) == []
    lookup.start([1, 2, 3])
    assert lookup.propose(3) == []


def test_start_forgets_the_text_before():
    lookup = PromptLookup()
    lookup.start([1, 2, 1])
    lookup.start([1])
    assert lookup.propose(3) == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=30))
def test_equals_transformers_where_the_match_stood_once(text):
    import torch
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

    theirs = PromptLookupCandidateGenerator(
        num_output_tokens=4, max_matching_ngram_size=3, max_length=1000
    )
    lookup = PromptLookup(max_ngram=3)
    lookup.start(text)
    proposed = lookup.propose(4)
    found = theirs.get_candidates(torch.tensor([text]))[0][0, len(text) :].tolist()
    oldest = next(
        (
            [begin for begin in range(len(text) - n) if text[begin : begin + n] == text[-n:]]
            for n in (3, 2, 1)
            if n < len(text) and any(text[b : b + n] == text[-n:] for b in range(len(text) - n))
        ),
        [],
    )
    assert bool(found) == bool(proposed)
    if len(oldest) == 1:
        assert proposed == found


@pytest.mark.parametrize(("longest", "shortest"), [(2, 3), (3, 0), (0, 0)])
def test_impossible_ngrams_are_refused(longest, shortest):
    with pytest.raises(UserError, match="min_ngram"):
        PromptLookup(longest, shortest)


def loop_with_a_naive_search(prompt, tokens, gamma, budget, stop_reason):
    """(start, offered, accepted, emitted) of rounds that search anew at each round's start."""
    found, start = [], 0
    while start < len(tokens):
        block = naive(prompt + tokens[:start], min(gamma, budget - start), 3, 1)
        accepted = 0
        while (
            accepted < len(block)
            and block[accepted : accepted + 1] == (tokens[start + accepted : start + accepted + 1])
        ):
            accepted += 1
        ended = start + accepted == len(tokens)
        offered = accepted if ended and stop_reason == "eos" else len(block)
        found.append((start, offered, accepted, accepted + (not ended)))
        start += accepted + (not ended)
    return found


@given(TOKENS, TOKENS, st.integers(1, 8), st.sampled_from(["eos", "budget"]), st.integers(0, 9))
def test_rounds_equal_a_loop_with_a_naive_search(prompt, tokens, gamma, stop_reason, spare):
    budget = len(tokens) + spare * (stop_reason == "eos")
    ends = {"budget": budget, "stop_reason": stop_reason}
    table = proposed_rounds(prompt, tokens, PromptLookup(), gamma, **ends)
    names = ("start", "offered", "accepted", "emitted")
    assert list(zip(*(table[name].tolist() for name in names), strict=True)) == (
        loop_with_a_naive_search(prompt, tokens, gamma, budget, stop_reason)
    )
    # One pass over the text serves every draft length up to the one it was made for.
    shared = proposed_rounds(
        prompt, tokens, proposals(prompt, tokens, PromptLookup(), 8), gamma, **ends
    )
    assert all((shared[name] == column).all() for name, column in table.items())


def test_the_block_of_the_round_start_decides_not_the_match_at_each_position():
    prompt, tokens = [1, 2, 3, 1, 9, 1], [2, 3, 1, 9, 1]
    blocks = proposals(prompt, tokens, PromptLookup(max_ngram=1), 4)
    by_block = proposed_rounds(prompt, tokens, blocks, 4)
    by_position = greedy_rounds(blocks.first_agrees, 4, offered_limit=blocks.offered)
    assert by_block["accepted"].tolist() != by_position["accepted"].tolist()


def test_rejected_first_token_of_an_empty_continuation_counts_as_nothing_offered():
    table = proposed_rounds([7], [8, 9], PromptLookup(), 3)
    assert table["offered"].tolist() == [0, 0] and table["emitted"].tolist() == [1, 1]
    assert np.array_equal(proposals([7], [8, 9], PromptLookup(), 3).first_agrees, [False, False])
