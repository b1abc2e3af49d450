"""The probes of rejected tokens, against a naive look at every round, and what must stand out."""

import numpy as np
import pytest
import torch
from block_models import saved, tiny_network, tiny_target
from draftscope.drafters.proposals import TextBlocks
from draftscope.drafters.rejections import probe_text, probe_texts
from draftscope.errors import UserError

VOCABULARY = [0, 1, 3, 4]


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    target = tiny_target(6)
    folder = tmp_path_factory.mktemp("draft")
    return TextBlocks(saved(folder, target, tiny_network(target), VOCABULARY), target)


def text(name: str, seed: int, tokens: int = 24) -> dict:
    numbers = np.random.default_rng(seed)
    row = {"prompt_id": name, "sample": 0, "prompt_token_ids": numbers.integers(0, 6, 4).tolist()}
    return row | {"token_ids": numbers.integers(0, 6, tokens).tolist()}


def rounds_of(blocks, row) -> list[tuple[int, int, int]]:
    """Rounds of a greedy loop on the text, those that reject."""
    proposed = blocks.propose(row["prompt_token_ids"], row["token_ids"])
    start, number, found, tokens = 0, 0, [], row["token_ids"]
    while start < len(tokens):
        offered = min(blocks.most, len(tokens) - start)
        accepted = 0
        while accepted < offered and proposed[start, accepted] == tokens[start + accepted]:
            accepted += 1
        if accepted < offered:
            found.append((number, start, accepted))
        start, number = start + accepted + 1, number + 1
    return found


def test_rows_are_those_of_a_naive_look(blocks):
    row = text("a", 1)
    rounds = rounds_of(blocks, row)
    other = torch.randn(5, 16, generator=torch.Generator().manual_seed(0))
    found, final = probe_text(blocks, row, rounds, other, np.random.default_rng(3))
    naive, rng = [], np.random.default_rng(3)
    prompt, tokens = row["prompt_token_ids"], row["token_ids"]
    for number, start, accepted in rounds:
        # The block drafted with nothing known behind its anchor.
        read = [*prompt, *tokens[:start]]
        (_, states, _), *_ = blocks.states(read, len(read) - 1)
        for slot in range(accepted + 2, blocks.most + 1):
            if start - 1 + slot >= len(tokens):
                continue
            token = tokens[start - 1 + slot]
            state = states[0, slot]
            logits = blocks.logits(state)
            rank = 6
            if token in VOCABULARY:
                rank = int((logits >= logits[VOCABULARY.index(token)]).sum())
            naive.append((number, slot, accepted + 1, rank, state))
    assert [(r["round"], r["slot"], r["first_rejected"], r["rank"]) for r in found] == [
        each[:4] for each in naive
    ]
    assert len({r["rank"] for r in found}) > 3
    ids = torch.tensor([*prompt, *tokens])[None]
    with torch.inference_mode():
        model = blocks._target.model
        whole = model.base_model(ids).last_hidden_state[0]
    assert torch.allclose(final, whole[len(prompt) - 1 : -1], atol=1e-5)
    starts = {number: start for number, start, _ in rounds}
    drawn = {}
    for number in dict.fromkeys(each[0] for each in naive):
        count = sum(each[0] == number for each in naive)
        drawn[number] = iter(rng.integers(len(other), size=count))
    for own, (number, slot, _, _, state) in zip(found, naive, strict=True):
        # The state that the target wrote the token at this place from.
        true = whole[len(prompt) + starts[number] + slot - 2]
        pairs = (("cosine_true", true), ("cosine_random", other[next(drawn[number])]))
        for name, against in pairs:
            wanted = torch.cosine_similarity(state, against, dim=0)
            assert own[name] == pytest.approx(float(wanted), abs=1e-5)


def test_all_texts_are_probed_with_states_of_another_prompt(blocks):
    texts = [text(name, seed) for seed, name in enumerate("abc")]
    rounds = {(row["prompt_id"], 0): rounds_of(blocks, row) for row in texts}
    found = probe_texts(blocks, texts, rounds, run_seed=5, domain="d")
    again = probe_texts(blocks, texts, rounds, run_seed=5, domain="d")
    assert found == again and {row["prompt_id"] for row in found} == {"a", "b", "c"}
    assert all(row["slot"] > row["first_rejected"] for row in found)
    with pytest.raises(UserError, match="fewer than two prompts"):
        probe_texts(blocks, texts[:1], rounds, run_seed=5, domain="d")


def test_a_draft_that_holds_the_targets_own_states_is_told_apart(blocks):
    """Planted: blocks whose states are the target's have rank and cosine 1, and random ones not."""

    class Knowing(TextBlocks):
        def states(self, token_ids, first):
            for rows, states, features in super().states(token_ids, first):
                known = torch.zeros_like(states)
                for at in range(len(states)):
                    for slot in range(1, states.shape[1]):
                        place = first + rows.start + at + slot - 1
                        if place < len(features.final):
                            known[at, slot] = features.final[place]
                yield rows, known, features

    knowing = object.__new__(Knowing)
    knowing.__dict__ = blocks.__dict__
    row = text("a", 9)
    other = probe_text(blocks, text("b", 4), [], torch.zeros(1, 16), np.random.default_rng(0))[1]
    rounds = [(number, start, 0) for number, start in enumerate(range(20))]
    found, _ = probe_text(knowing, row, rounds, other, np.random.default_rng(0))
    assert min(each["cosine_true"] for each in found) == pytest.approx(1.0, abs=1e-5)
    assert np.mean([each["cosine_random"] for each in found]) < 0.9
