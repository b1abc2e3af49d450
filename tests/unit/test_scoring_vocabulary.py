"""Heads of different widths and special tokens that differ: both directions, nothing cropped."""

import numpy as np
import pytest
import torch
from draftscope import scoring
from draftscope.models.vocabulary import Alignment, align
from draftscope.scoring import score
from draftscope.trajectories import generate
from loading import load_tiny, rendered
from score_reference import check_against_reference, scored
from tiny import BOS, EOS, PAD, tiny_model_folder, tiny_tokenizer

LAWS = {
    "decoding": {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
    "truncated": {"temperature": 1.5, "top_k": 30, "top_p": 0.95},
    "greedy": {"temperature": 0.0, "top_k": 0, "top_p": 1.0},
}


def model(tmp_path, name, seed, head=None, tokenizer=None):
    folder = tiny_model_folder(
        tmp_path / name, seed=seed, padded_head=head, tokenizer=tokenizer, width=32, layers=1
    )
    return load_tiny(folder, name)


def texts(target):
    prompts = [(f"p{n}", rendered(0, 20 + n, 30)) for n in range(3)]
    return generate(
        target,
        prompts,
        law=LAWS["decoding"],
        budget=12,
        batch_size=3,
        samples=1,
        run_seed=0,
        domain="d",
    )


def favor(loaded, token):
    """Make a token likely, so that a test can see where its mass goes."""
    with torch.no_grad():
        loaded.model.lm_head.weight[token] *= 3


@pytest.mark.parametrize(("target_head", "draft_head"), [(336, 328), (328, 336), (320, 336)])
def test_case_1_padded_heads_of_different_width(tmp_path, target_head, draft_head):
    target = model(tmp_path, "target", 0, target_head)
    draft = model(tmp_path, "draft", 1, draft_head)
    favor(target, target_head - 2)
    favor(draft, draft_head - 1)
    rows = texts(target)
    rows = [row | {"token_ids": [min(t, 319) for t in row["token_ids"]]} for row in rows]
    found = scored(target, [draft], rows, LAWS)
    check_against_reference(target, draft, rows, found, LAWS)
    mass = np.concatenate([row["uncommon_mass"] for row in found.values()])
    assert (mass > 0.05).any() == (target_head > draft_head)


def test_case_4_a_draft_id_beyond_the_target_is_counted_as_drafted(tmp_path):
    target, draft = model(tmp_path, "target", 0), model(tmp_path, "draft", 1, 336)
    with torch.no_grad():  # the draft's favorite everywhere is an id that the target lacks
        draft.model.lm_head.weight[:330] *= 0.01
        draft.model.lm_head.weight[330] = 1.0
        draft.model.lm_head.weight[331] = -1.0
    rows = texts(target)
    found = scored(target, [draft], rows, LAWS)
    check_against_reference(target, draft, rows, found, LAWS)
    for key, row in found.items():
        beyond = row["draft_argmax"] >= 320
        assert beyond.mean() > 0.8
        if key[2] == "greedy":
            assert not row["overlap"][beyond].any() and not row["uncommon_mass"].any()


def test_masked_special_tokens_have_no_draft_probability(tmp_path):
    other = tiny_tokenizer(specials=(BOS, EOS, PAD, "<|a|>"))
    ours = tiny_tokenizer(specials=(BOS, EOS, PAD, "<|b|>"))
    target = model(tmp_path, "target", 0, tokenizer=ours)
    draft = model(tmp_path, "draft", 1, tokenizer=other)
    for loaded in (target, draft):
        favor(loaded, 3)
    alignment = align(target, draft, allow_special=True)
    assert alignment.masked_ids == (3,)
    rows = texts(target)
    rows[0] = rows[0] | {"token_ids": [3, *rows[0]["token_ids"][1:]]}
    result = score(target, [(draft, alignment)], rows, LAWS)
    found = {(r["prompt_id"], r["draft"], r["law"]): r for r in result}
    check_against_reference(target, draft, rows, found, LAWS, masked=[3])
    assert found["p0", "draft", "decoding"]["log_q"][0] == -np.inf
    assert 3 not in np.concatenate([row["draft_argmax"] for row in result])
    mass = np.concatenate([row["uncommon_mass"] for row in result])
    assert (mass > 0.05).any()
    # Negative control: without the mask the same reference is missed.
    blind = score(target, [(draft, Alignment(320, 320, 320, 320))], rows, LAWS)
    with pytest.raises(AssertionError):
        check_against_reference(
            target,
            draft,
            rows,
            {(r["prompt_id"], r["draft"], r["law"]): r for r in blind},
            LAWS,
            masked=[3],
        )


def test_ranks_count_ties_against_the_draft():
    """Logits by hand: the target's best id is tied with two others under the draft."""
    ours = torch.tensor([[0.0, 1.0, 5.0, 2.0, 0.5]])
    emitted = torch.tensor([2])
    laws = {"decoding": LAWS["decoding"]}

    def compare(logits, masked=()):
        draft = torch.tensor([logits])
        target = scoring._Target(ours, emitted, laws, log_law)
        return scoring._compare(target, draft, masked, laws, log_law)["decoding"]

    def log_law(logits, law):
        return scoring.sampling.log_law(logits, **law)

    assert compare([0.0, 0.0, 3.0, 1.0, 1.0])["draft_rank"].item() == 0
    assert compare([3.0, 0.0, 3.0, 3.0, 1.0])["draft_rank"].item() == 2
    assert compare([4.0, 0.0, 3.0, 3.0, 1.0])["draft_rank"].item() == 2
    assert compare([4.0, 0.0])["draft_rank"].item() == 2  # below all that the draft has
    assert compare([0.0, 1.0, 9.0, 2.0, 3.0], [2])["draft_rank"].item() == 4


def test_logits_of_minus_infinity_are_masked_ids_and_no_fault():
    """Some models suppress ids themselves; 0 * inf must not become a number."""
    minus = float("-inf")
    laws = {"decoding": LAWS["decoding"], "greedy": LAWS["greedy"]}

    def log_law(logits, law):
        return scoring.sampling.log_law(logits, **law)

    ours = torch.tensor([[1.0, 2.0, minus], [1.0, 2.0, 3.0]])
    theirs = torch.tensor([[1.0, 2.0, minus], [1.0, minus, 3.0]])
    target = scoring._Target(ours, torch.tensor([1, 2]), laws, log_law)
    row = scoring._compare(target, theirs, (), laws, log_law)["decoding"]
    assert row["kl"].tolist() == [0.0, float("inf")]
    assert row["overlap"][0].item() == pytest.approx(1.0)
    for column in ("target_entropy", "draft_entropy", "overlap"):
        assert torch.isfinite(row[column]).all()
