"""Scores against a plain full-softmax reference in float64, and what must hold of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from draftscope import logits, records, scoring
from draftscope.errors import UserError
from draftscope.models.vocabulary import align
from draftscope.scoring import check_disagreement, disagreement_share, score
from draftscope.trajectories import generate
from loading import load_tiny, rendered
from score_reference import check_against_reference, scored
from tiny import tiny_model_folder

COLD = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
ONE = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
LAWS = {
    "decoding": {"temperature": 0.7, "top_k": 0, "top_p": 1.0},
    "unwarped": ONE,
    "top_k": {"temperature": 1.2, "top_k": 7, "top_p": 1.0},
    "top_p": {"temperature": 0.9, "top_k": 0, "top_p": 0.8},
    "both": {"temperature": 1.5, "top_k": 20, "top_p": 0.9},
    "greedy": COLD,
}
PROMPTS = [(f"p{n}", rendered(0, *range(20, 21 + 2 * n))) for n in range(4)]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return load_tiny(tiny_model_folder(tmp_path_factory.mktemp("target")), "target")


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    folder = tmp_path_factory.mktemp("draft")
    return load_tiny(tiny_model_folder(folder, seed=1, width=32, layers=1), "draft")


def texts(target, law, budget=11, prompts=PROMPTS):
    return generate(
        target, prompts, law=law, budget=budget, batch_size=2, samples=1, run_seed=0, domain="d"
    )


@pytest.fixture(scope="module")
def sampled(target):
    return texts(target, LAWS["decoding"])


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_every_column_equals_the_reference_under_every_law(target, draft, sampled, chunk):
    found = scored(target, [draft], sampled, LAWS, position_chunk=chunk)
    assert len(found) == len(PROMPTS) * len(LAWS)
    check_against_reference(target, draft, sampled, found, LAWS)
    assert any(np.isinf(found["p1", "draft", "top_p"]["kl"]))
    assert any(found["p1", "draft", "unwarped"]["draft_rank"] > 3)


def test_the_arithmetic_can_run_in_float64(target, draft, sampled):
    found = scored(target, [draft], sampled, LAWS, precision=torch.float64)
    assert found["p0", "draft", "unwarped"]["kl"].dtype == np.float64
    check_against_reference(target, draft, sampled, found, LAWS)


def test_a_shifted_position_would_be_noticed(target, draft, sampled, monkeypatch):
    """Negative control: states that are one position late fail the reference."""
    original = scoring.hidden_states
    monkeypatch.setattr(scoring, "hidden_states", lambda m, ids: original(m, ids).roll(1, 0))
    with pytest.raises(AssertionError):
        check_against_reference(
            target, draft, sampled, scored(target, [draft], sampled, LAWS), LAWS
        )


@pytest.mark.parametrize("law", [LAWS["decoding"], COLD, LAWS["both"]])
def test_a_draft_identical_to_its_target_overlaps_wholly(target, law):
    rows = texts(target, law)
    twin = replace(target, name="twin")
    for row in scored(target, [twin], rows, {"decoding": law, "unwarped": ONE}).values():
        assert np.allclose(row["overlap"], 1, atol=1e-6) and row["overlap"].max() <= 1
        assert not row["kl"].any() and not row["draft_rank"].any()
        assert np.array_equal(row["log_p"], row["log_q"])
        assert np.array_equal(row["target_argmax"], row["draft_argmax"])


def test_one_pass_scores_all_drafts_as_passes_of_their_own_do(target, draft, sampled, monkeypatch):
    passes = []
    original = scoring.hidden_states
    monkeypatch.setattr(
        scoring, "hidden_states", lambda m, ids: passes.append(m.name) or original(m, ids)
    )
    twin = replace(target, name="twin")
    together = scored(target, [draft, twin], sampled, LAWS)
    assert sorted(passes) == sorted(["target", "draft", "twin"] * len(PROMPTS))
    apart = scored(target, [draft], sampled, LAWS) | scored(target, [twin], sampled, LAWS)
    assert_same(together, apart)


def assert_same(one, other):
    assert set(one) == set(other)
    for key, row in one.items():
        for name, values in row.items():
            assert np.array_equal(values, other[key][name]), (key, name)


def test_the_size_of_a_shard_changes_nothing(target, draft, sampled):
    parts = scored(target, [draft], sampled[:1], LAWS)
    parts |= scored(target, [draft], sampled[1:], LAWS)
    assert_same(scored(target, [draft], sampled, LAWS), parts)


def test_the_head_never_sees_more_positions_than_a_chunk(target, draft, sampled, monkeypatch):
    shapes = []
    for loaded in (target, draft):
        head = loaded.model.lm_head.forward

        def spy(hidden, head=head):
            shapes.append(hidden.shape[0] if hidden.dim() == 2 else None)
            return head(hidden)

        monkeypatch.setattr(loaded.model.lm_head, "forward", spy)
    scored(target, [draft], sampled, LAWS, position_chunk=3)
    seen = [rows for rows in shapes if rows is not None]
    probes = 2  # one short start-up check a model
    assert max(seen[probes:]) == 3
    # Positions of the prompt are never given to the head.
    generated = sum(len(row["token_ids"]) for row in sampled)
    assert sum(seen) == 2 * (generated + logits._PROBE)


def test_a_wide_head_makes_the_chunks_smaller(target, draft, sampled, monkeypatch):
    whole = scored(target, [draft], sampled, LAWS)
    seen = []
    original = scoring.logits_of
    monkeypatch.setattr(scoring, "LARGEST_BLOCK", 2 * target.head_size + 1)
    monkeypatch.setattr(
        scoring, "logits_of", lambda m, hidden: seen.append(len(hidden)) or original(m, hidden)
    )
    parts = scored(target, [draft], sampled, LAWS, position_chunk=500)
    assert max(seen) == 2
    for key, row in whole.items():
        assert np.allclose(row["log_q"], parts[key]["log_q"], atol=1e-5)


def test_case_39_the_law_holds_for_both_sides(target, draft, sampled):
    found = scored(target, [draft], sampled, LAWS)
    for row in (row for key, row in found.items() if key[2] == "top_k"):
        assert row["draft_entropy"].max() <= np.log(7) + 1e-6
        assert row["target_entropy"].max() <= np.log(7) + 1e-6


def test_case_37_acceptance_at_temperature_zero_is_an_exact_match(target, draft):
    rows = texts(target, COLD)
    almost = COLD | {"temperature": 1e-8}
    found = scored(target, [draft], rows, {"decoding": COLD, "almost": almost})
    for name in PROMPTS:
        cold, tiny = found[name[0], "draft", "decoding"], found[name[0], "draft", "almost"]
        match = cold["draft_argmax"] == cold["token_ids"]
        assert np.array_equal(cold["log_q"], np.where(match, 0, -np.inf).astype(np.float32))
        assert np.array_equal(cold["overlap"], match.astype(np.float32))
        assert not cold["log_p"].any() and not cold["target_disagreement"].any()
        assert np.array_equal(np.exp(tiny["log_q"]), np.exp(cold["log_q"]))
        assert np.allclose(tiny["overlap"], cold["overlap"])


def test_rows_fit_their_schema_and_skipped_trajectories_have_none(target, draft, tmp_path):
    rows = texts(target, LAWS["decoding"], prompts=[("none", rendered()), *PROMPTS])
    result = score(target, [(draft, align(target, draft))], rows, LAWS)
    path = tmp_path / "scores.parquet"
    records.write(path, result, "scores", {})
    table = records.read(path, "scores", [name for name, _ in PROMPTS])
    assert table.num_rows == len(PROMPTS) * len(LAWS)
    assert len(table["kl"][0].as_py()) == len(rows[1]["token_ids"])
    assert score(target, [(draft, align(target, draft))], rows[:1], LAWS) == []


def test_texts_of_another_model_are_a_fault(target, draft, sampled):
    rows = [dict(row) for row in texts(target, COLD)]
    found = list(scored(target, [draft], rows, {"decoding": COLD, "unwarped": ONE}).values())
    assert check_disagreement(found, 0.01) == 0
    rows[2]["token_ids"] = [*rows[2]["token_ids"][:4], 99, *rows[2]["token_ids"][5:]]
    found = list(scored(target, [draft], rows, {"unwarped": ONE, "decoding": COLD}).values())
    share = disagreement_share(found)
    assert 1 / 44 <= share <= 7 / 44  # the changed token, and what follows may change too
    assert check_disagreement(found, share) == share
    with pytest.raises(UserError, match=r"prompt p2, sample 0, position 4, .* apart"):
        check_disagreement(found, 0.01)
    assert disagreement_share([]) == 0


def test_case_33_nan_logits_stop_with_model_prompt_and_position(
    target, draft, sampled, monkeypatch
):
    head, calls = draft.model.lm_head.forward, []

    def poisoned(hidden):
        out = head(hidden)
        calls.append(1)
        if len(calls) == 5:  # two start-up calls, then chunks of 4
            out[1, 17] = float("nan")
        return out

    monkeypatch.setattr(draft.model.lm_head, "forward", poisoned)
    with pytest.raises(UserError, match="NaN in the logits of draft: prompt p0.* position 9"):
        scored(target, [draft], sampled, LAWS, position_chunk=4)


def damaged(folder, name):
    """A draft or target of its own, for weights to be damaged."""
    return load_tiny(tiny_model_folder(folder, seed=1, width=32, layers=1), name)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("side", ["target", "draft"])
def test_case_33_damaged_weights_stop_with_model_prompt_and_position(
    target, draft, sampled, tmp_path, side, value
):
    bad = damaged(tmp_path, f"bad {side}")
    bad.model.lm_head.weight[40, 3] = value
    pair = (bad, draft) if side == "target" else (target, bad)
    where = f"in the logits of bad {side}: prompt p0, sample 0, generated position [01]$"
    with pytest.raises(UserError, match=where):
        scored(pair[0], [pair[1]], sampled, LAWS)


def test_damage_that_only_the_start_up_check_meets_stops_too(target, sampled, tmp_path):
    bad, probed = damaged(tmp_path, "bad"), 7
    rows = [row for row in sampled if probed not in row["prompt_token_ids"] + row["token_ids"]]
    assert rows and scored(target, [bad], rows, LAWS)
    bad.model.model.embed_tokens.weight[probed] = float("nan")  # a weight that no text reads
    with pytest.raises(UserError, match="NaN or .inf in the logits of bad .* weights are damaged"):
        scored(target, [bad], rows, LAWS)


def test_a_masked_id_does_not_stop_the_start_up_check(target, monkeypatch):
    head = target.model.lm_head.forward

    def masking(hidden):
        return head(hidden).index_fill(-1, torch.tensor([300]), -torch.inf)

    monkeypatch.setattr(target.model.lm_head, "forward", masking)
    assert logits.check_halves(target)


def test_sums_over_a_wide_vocabulary_lose_little():
    generator = torch.Generator().manual_seed(0)
    raw = 4 * torch.randn(2, 8, 49152, generator=generator)
    log_p, log_q = torch.log_softmax(raw, -1)
    exact_p, exact_q = torch.log_softmax(raw.double(), -1)
    entropy = -(exact_p.exp() * exact_p).sum(-1)
    kl = (exact_p.exp() * (exact_p - exact_q)).sum(-1)
    p = log_p.exp()
    pairs = ((-scoring._expected(p, log_p), entropy), (scoring._expected(p, log_p - log_q), kl))
    for found, exact in pairs:
        assert (found / exact - 1).abs().max() < 1e-5


def test_a_model_without_a_distribution_and_a_missing_law_are_refused(target, draft, sampled):
    lookup = SimpleNamespace(name="lookup", kind="prompt_lookup", model=None)
    with pytest.raises(UserError, match="lookup .prompt_lookup. has no distribution"):
        score(target, [(lookup, None)], sampled, LAWS)
    with pytest.raises(UserError, match="no law named 'decoding' among unwarped"):
        scored(target, [draft], sampled, {"unwarped": ONE})
    with pytest.raises(UserError, match="a draft is named twice: draft, draft"):
        scored(target, [draft, draft], sampled, LAWS)


def test_texts_that_a_model_cannot_read_are_refused(target, draft, sampled):
    short = replace(draft, max_positions=6)
    with pytest.raises(UserError, match="prompt p0, sample 0: 13 tokens .* context of draft, 6"):
        scored(target, [short], sampled, LAWS)
    rows = [sampled[0] | {"token_ids": [5, 320]}]
    with pytest.raises(UserError, match="token id 320 at position 3 .* of target, 320 ids"):
        scored(target, [draft], rows, LAWS)


def test_an_architecture_whose_head_does_more_is_refused(target, monkeypatch):
    head = target.model.lm_head
    assert logits.check_halves(target)
    monkeypatch.setattr(type(target.model), "get_output_embeddings", lambda self: twice)

    class Twice(torch.nn.Linear):
        def forward(self, hidden):
            return 2 * head(hidden)

    twice = Twice(*head.weight.shape[::-1], bias=False)
    with pytest.raises(UserError, match="target: .* LlamaForCausalLM cannot be scored"):
        logits.check_halves(target)


def test_case_30_bfloat16_reports_flips_with_their_gap(tmp_path):
    loaded = load_tiny(tiny_model_folder(tmp_path), "target", "bfloat16")
    prompts = [(f"p{n}", rendered(0, 20 + n)) for n in range(8)]
    rows = texts(loaded, COLD, budget=40, prompts=prompts)
    found = scored(loaded, [replace(loaded, name="twin")], rows, {"decoding": COLD})
    for row in found.values():
        flipped = row["target_disagreement"]
        # One unit in the last place of bfloat16 is 2**-7 of the logit: a flip is a near-tie.
        assert (row["top2_gap"][flipped] <= 0.25).all()
        assert np.array_equal(flipped, row["token_ids"] != row["target_argmax"])
    assert disagreement_share(found.values()) < 0.1
