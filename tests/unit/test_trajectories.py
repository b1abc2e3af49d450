"""Generation: batches against single texts, ends of texts, budgets, faults."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from draftscope import records, trajectories
from draftscope.errors import UserError
from draftscope.trajectories import cut_at_eos, generate
from loading import load_tiny, rendered
from tiny import tiny_model_folder
from transformers import AutoModelForCausalLM, GenerationConfig

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
WARM = {"temperature": 0.8, "top_k": 40, "top_p": 0.9}
PROMPTS = [(f"p{n}", rendered(0, *range(20 + n, 20 + 3 * n + 1))) for n in range(7)]


@pytest.fixture(scope="module")
def tiny(tiny_folder):
    return load_tiny(tiny_folder)


def run(loaded, prompts=PROMPTS, **changes):
    settings = {
        "law": GREEDY,
        "budget": 12,
        "batch_size": 4,
        "samples": 1,
        "run_seed": 3,
        "domain": "math",
    }
    return generate(loaded, prompts, **(settings | changes))


def ids(rows):
    return [row["token_ids"] for row in rows]


def alone(loaded, prompt, budget=12, eos=None):
    """What transformers generates for one unpadded prompt."""
    eos = sorted(loaded.eos_ids) if eos is None else eos
    model = loaded.model
    kept, model.generation_config = model.generation_config, GenerationConfig()
    try:
        sequence = model.generate(
            torch.tensor([prompt.token_ids]),
            max_new_tokens=budget,
            do_sample=False,
            eos_token_id=eos or None,
            pad_token_id=2,
        )
    finally:
        model.generation_config = kept
    return sequence[0, len(prompt.token_ids) :].tolist()


def with_eos(loaded, *eos, pad=2):
    return SimpleNamespace(**(vars(loaded) | {"eos_ids": frozenset(eos), "pad_id": pad}))


def test_greedy_batches_equal_single_unpadded_texts(tiny):
    rows = run(tiny)
    assert ids(rows) == [alone(tiny, prompt) for _, prompt in PROMPTS]
    assert len({len(prompt.token_ids) for _, prompt in PROMPTS}) > 3  # padding was at work
    assert [row["prompt_id"] for row in rows] == [name for name, _ in PROMPTS]


def test_a_wrong_attention_mask_would_be_noticed(tiny, monkeypatch):
    """Negative control of the test above: without the mask, padded rows differ."""
    right = [alone(tiny, prompt) for _, prompt in PROMPTS]
    original = tiny.model.generate

    def blind(input_ids, attention_mask, position_ids, **others):
        return original(input_ids=input_ids, attention_mask=torch.ones_like(input_ids), **others)

    monkeypatch.setattr(tiny.model, "generate", blind)
    assert ids(run(tiny)) != right


@pytest.mark.parametrize("law", [GREEDY, WARM])
def test_case_23_the_size_of_a_shard_changes_nothing(tiny, law):
    whole = run(tiny, law=law, batch_size=2, samples=2)
    parts = [run(tiny, PROMPTS[i : i + 4], law=law, batch_size=2, samples=2) for i in (0, 4)]
    assert whole == parts[0] + parts[1]


def test_samples_do_not_depend_on_order_or_on_other_rows(tiny):
    rows = {(r["prompt_id"], r["sample"]): r["token_ids"] for r in run(tiny, law=WARM, samples=2)}
    turned = run(tiny, PROMPTS[::-1], law=WARM, samples=3, batch_size=7)
    again = {(r["prompt_id"], r["sample"]): r["token_ids"] for r in turned}
    assert {key: again[key] for key in rows} == rows
    assert rows["p1", 0] != rows["p1", 1]
    assert ids(run(tiny, law=WARM, run_seed=4)) != ids(run(tiny, law=WARM))


def test_the_global_generators_are_not_touched(tiny):
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    run(tiny, law=WARM)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    torch.rand(1)  # the guard catches a leak
    assert not torch.equal(torch.random.get_rng_state(), before[0])


def test_the_checkpoints_decoding_defaults_are_no_part_of_the_law(tmp_path):
    folder = tiny_model_folder(tmp_path / "plain")
    plain = run(load_tiny(folder))
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.generation_config.update(
        repetition_penalty=9.0, suppress_tokens=plain[0]["token_ids"], no_repeat_ngram_size=1
    )
    model.save_pretrained(folder)
    assert AutoModelForCausalLM.from_pretrained(folder).generation_config.repetition_penalty == 9.0
    assert ids(run(load_tiny(folder))) == ids(plain)


@pytest.mark.parametrize("position", range(12))
def test_case_14_every_greedy_token_in_turn_as_end_of_text(tiny, position):
    plain = run(with_eos(tiny), PROMPTS[3:4])[0]["token_ids"]
    eos = plain[position]
    row = run(with_eos(tiny, eos, pad=eos), PROMPTS[:4])[3]  # padding is the same id
    assert row["token_ids"] == plain[: plain.index(eos) + 1]
    assert (row["stop_reason"], row["stop_token_id"]) == ("eos", eos)


def test_case_12_the_end_of_text_is_a_union_of_lists(tmp_path):
    plain = run(with_eos(load_tiny(tiny_model_folder(tmp_path / "a"))), PROMPTS[:1])[0]["token_ids"]
    third, fifth = plain[2], plain[4]
    folder = tiny_model_folder(tmp_path / "b", eos=[fifth, third])
    loaded = load_tiny(folder)
    assert loaded.eos_ids == {1, third, fifth}
    row = run(loaded, PROMPTS[:1])[0]
    assert row["token_ids"] == plain[: plain.index(third) + 1]
    assert (row["stop_reason"], row["stop_token_id"]) == ("eos", third)


def test_case_16_texts_stop_at_the_end_of_text_and_nothing_follows_it(tiny):
    plain = ids(run(with_eos(tiny), budget=50))
    eos = plain[0][5]
    for row, free in zip(run(with_eos(tiny, eos), budget=50), plain, strict=True):
        end = free.index(eos) + 1 if eos in free else 50
        assert row["token_ids"] == free[:end]
        assert row["token_ids"].count(eos) == (eos in free)


@pytest.mark.parametrize("budget", [1, 2, 3, 5])
def test_case_18_budgets_are_exact(tiny, budget):
    for row in run(with_eos(tiny), budget=budget):
        assert len(row["token_ids"]) == row["budget"] == budget
        assert (row["stop_reason"], row["stop_token_id"]) == ("budget", None)


def test_an_end_of_text_as_the_last_token_of_the_budget_is_an_end_of_text(tiny):
    plain = run(with_eos(tiny), PROMPTS[:1], budget=3)[0]["token_ids"]
    assert plain.index(plain[2]) == 2
    row = run(with_eos(tiny, plain[2]), PROMPTS[:1], budget=3)[0]
    assert (row["token_ids"], row["stop_reason"]) == (plain, "eos")


def test_case_20_empty_prompt_is_skipped_or_starts_from_the_beginning_of_text(tiny):
    rows = run(tiny, [("none", rendered()), ("bos", rendered(0)), PROMPTS[0]], samples=2)
    assert [(r["prompt_id"], r["sample"], r["status"], r["reason"]) for r in rows[:3]] == [
        ("none", 0, "skipped", "empty prompt"),
        ("none", 1, "skipped", "empty prompt"),
        ("bos", 0, "ok", None),
    ]
    assert rows[2]["token_ids"] == alone(tiny, rendered(0))


def test_prompts_as_long_as_the_context_are_skipped_and_long_ones_cut(tiny):
    room = tiny.max_positions
    prompts = [("full", rendered(*[5] * room)), ("long", rendered(*[5] * (room - 3))), PROMPTS[2]]
    full, long, short = run(with_eos(tiny), prompts)
    assert full["status"] == "skipped" and f"{room} tokens" in full["reason"]
    assert (len(long["token_ids"]), long["budget"], long["stop_reason"]) == (3, 3, "context")
    assert (len(short["token_ids"]), short["stop_reason"]) == (12, "budget")
    assert long["token_ids"] == alone(with_eos(tiny), prompts[1][1], 3, eos=[])


def test_rows_fit_their_schema_and_text_is_one_decode(tiny, tmp_path):
    rows = run(tiny, [*PROMPTS, ("none", rendered())], law=WARM)
    path = tmp_path / "shard.parquet"
    records.write(path, rows, "trajectories", {"domain": "math"})
    table = records.read(path, "trajectories", [row["prompt_id"] for row in rows])
    assert table.to_pylist() == rows
    assert rows[0]["text"] == tiny.tokenizer.decode(rows[0]["token_ids"])


def test_case_6_a_character_split_over_two_tokens_is_decoded_whole(tiny):
    pieces = tiny.tokenizer("🙂中", add_special_tokens=False)["input_ids"]
    assert len(pieces) > 2
    assert trajectories.decode(tiny, pieces) == "🙂中"
    assert trajectories.decode(tiny, [*pieces, tiny.vocabulary_size + 3]) == "🙂中"  # padded head


@pytest.mark.parametrize("law", [GREEDY, WARM])
def test_case_33_nan_logits_stop_with_prompt_and_position(tiny, monkeypatch, law):
    head = tiny.model.lm_head.forward
    calls = []

    def poisoned(hidden):
        logits = head(hidden)
        calls.append(1)
        if len(calls) == 6:
            logits[1, -1, 17] = float("nan")
        return logits

    monkeypatch.setattr(tiny.model.lm_head, "forward", poisoned)
    with pytest.raises(UserError, match="NaN in the logits of tiny: prompt p1.* position 5"):
        run(with_eos(tiny), law=law)


def test_a_nan_after_a_rows_own_end_stops_nobody(tiny, monkeypatch):
    plain = ids(run(with_eos(tiny), PROMPTS[:2]))
    eos = next(token for token in plain[1][:4] if token not in plain[0])
    head, calls = tiny.model.lm_head.forward, []

    def poisoned(hidden):
        logits = head(hidden)
        calls.append(1)
        if len(calls) > 5:
            logits[1] = float("nan")
        return logits

    monkeypatch.setattr(tiny.model.lm_head, "forward", poisoned)
    assert ids(run(with_eos(tiny, eos), PROMPTS[:2]))[0] == plain[0]


def test_case_37_temperature_zero_and_nearly_zero_are_greedy(tiny):
    cold = run(tiny, law=GREEDY | {"temperature": 1e-8})
    assert ids(cold) == ids(run(tiny))


def test_unknown_engine_and_duplicate_prompt_are_refused(tiny):
    with pytest.raises(UserError, match="unknown engine 'fast'; known: static, continuous"):
        run(tiny, engine="fast")
    with pytest.raises(UserError, match="prompt p0 of domain math is given twice"):
        run(tiny, [PROMPTS[0], PROMPTS[0]])


def test_cut_at_eos_keeps_the_first_end():
    assert cut_at_eos([4, 5, 9, 9, 4], {9}) == [4, 5, 9]
    assert cut_at_eos([4, 5], {9}) == [4, 5]
    assert cut_at_eos([], {9}) == []
