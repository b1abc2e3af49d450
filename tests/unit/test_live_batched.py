"""Batched decoding: each text has the tokens and rounds that it has alone, whatever the others do."""

import pytest
import torch
from draftscope import models
from draftscope.drafters.model import ModelDraft, TextDraft
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.errors import UserError
from draftscope.live import RULES, CachedModel, decode
from draftscope.live.batched import decode_batch
from draftscope.live.batched_cache import Layout
from draftscope.live.batched_draft import BatchedModelDraft, SeparateDrafts
from draftscope.live.batched_model import BatchedModel, ragged_probe
from draftscope.seeds import generator
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_model_folder
from transformers import AutoModelForCausalLM, BloomConfig, GPT2Config, MambaConfig, MistralConfig

WARM = {"temperature": 0.8, "top_k": 0, "top_p": 0.95}
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
PROMPTS = [
    [0, 17, 45, 200, 9, 33],
    [0, 5],
    [0, *range(60, 100)],
    [0, 31, 32, 33, 34, 31, 32, 33],
    [7] * 13,
]


def load(folder, name, attention="sdpa"):
    record = models.resolve(name, {"kind": "local", "path": str(folder)}, folder / "resolved")
    return models.load(record, "cpu", "float32", attention)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return load(tiny_model_folder(tmp_path_factory.mktemp("target"), seed=1), "target")


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    """The target with disturbed weights: it agrees often, not always."""
    other = load(tiny_model_folder(tmp_path_factory.mktemp("draft"), seed=1), "draft")
    noise = torch.Generator().manual_seed(3)
    for weight in other.model.parameters():
        weight.data += 0.04 * weight.std().nan_to_num() * torch.randn(weight.shape, generator=noise)
    return other


@pytest.fixture(scope="module")
def alone(target, draft):
    """Decoder and drafters of the loop over one text."""
    models_ = {name: CachedModel(loaded) for name, loaded in (("t", target), ("d", draft))}
    return models_["t"], {
        "model": lambda law: ModelDraft(models_["d"], law),
        "greedy model": lambda law: ModelDraft(models_["d"], GREEDY),
        "lookup": lambda law: lookup(),
        "none": lambda law: None,
    }


@pytest.fixture(scope="module")
def together(target, draft):
    """Decoder and drafters of the loop over a batch."""
    models_ = {name: BatchedModel(loaded) for name, loaded in (("t", target), ("d", draft))}
    return models_["t"], {
        "model": lambda law: BatchedModelDraft(models_["d"], law),
        "greedy model": lambda law: BatchedModelDraft(models_["d"], GREEDY),
        "lookup": lambda law: SeparateDrafts(lookup),
        "none": lambda law: None,
    }


def lookup():
    return TextDraft(PromptLookup(), "lookup")


def both(alone, together, prompts, kind, key=0, **options):
    """What each text is alone and in the batch, without the times."""
    law, name = options["law"], options.pop("rule", None)
    options["rule"] = RULES[name] if name else None
    options.setdefault("eos_ids", frozenset())
    single, drafters = alone
    one = [
        decode(single, drafters[kind](law), prompt, rng=generator("batch", key, row), **options)
        for row, prompt in enumerate(prompts)
    ]
    rngs = [generator("batch", key, row) for row in range(len(prompts))]
    batched, drafters = together
    many = decode_batch(batched, drafters[kind](law), prompts, rngs=rngs, **options)
    return [[_log(decoded) for decoded in part] for part in (one, many)]


def _log(decoded):
    stop = (decoded.stop_reason, decoded.stop_token_id, decoded.budget)
    return (decoded.token_ids, *stop, [r[:6] for r in decoded.rounds], decoded.counts)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_text_has_the_tokens_and_rounds_that_it_has_alone(alone, together, data):
    kind = data.draw(st.sampled_from(["model", "greedy model", "lookup", "none"]), "draft")
    law = data.draw(st.sampled_from([GREEDY, WARM]), "law")
    rules = ["greedy"] if law is GREEDY else ["speculative_sampling", "sampler_match", "typical"]
    prompts = data.draw(st.lists(st.sampled_from(PROMPTS), min_size=1, max_size=5), "prompts")
    one, many = both(
        alone,
        together,
        prompts,
        kind,
        data.draw(st.integers(0, 1000), "key"),
        gamma=0 if kind == "none" else data.draw(st.integers(1, 6), "gamma"),
        law=law,
        budget=data.draw(st.integers(1, 24), "budget"),
        rule=data.draw(st.sampled_from(rules), "rule"),
        eos_ids=data.draw(st.frozensets(st.integers(0, 319), max_size=40), "eos"),
    )
    assert one == many


@pytest.mark.parametrize("law", [GREEDY, WARM], ids=["greedy", "sampling"])
def test_acceptance_is_ragged_and_so_are_the_ends(alone, together, law):
    """The grid above is worth something: rows of one round really differ in all they can."""
    one, many = both(alone, together, PROMPTS, "model", gamma=4, law=law, budget=40)
    assert one == many
    rounds = [log[4] for log in many]
    for same_round in list(zip(*rounds, strict=False))[:5]:
        assert len({r[2] for r in same_round}) > 1
    assert len({len(log) for log in rounds}) > 1
    # The last token of a block that the first text accepts ends it there; others meet it elsewhere.
    start, _, accepted = next(r for r in rounds[0] if r[2] > 1)[:3]
    end = frozenset({one[0][0][start + accepted - 1]})
    one, many = both(alone, together, PROMPTS, "model", gamma=4, law=law, budget=40, eos_ids=end)
    assert one == many
    assert many[0][1] == "eos" and many[0][4][-1][2] == many[0][4][-1][3]
    assert "budget" in {log[1] for log in many}


@pytest.mark.parametrize("budget", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["model", "lookup", "none"])
def test_case_18_budgets_are_exact_in_a_batch(alone, together, kind, budget):
    gamma = 0 if kind == "none" else 3
    one, many = both(alone, together, PROMPTS, kind, gamma=gamma, law=GREEDY, budget=budget)
    assert one == many
    assert all(len(log[0]) == budget and log[1] == "budget" for log in many)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_contexts_end_where_they_end_alone(tmp_path, attention):
    """Padding may reach past the end of a context; learned positions would not forgive it."""
    config = GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=320, n_positions=48, initializer_range=0.3,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).eval()
    folder = tiny_model_folder(tmp_path / "gpt2")  # for its tokenizer
    model.save_pretrained(folder)
    loaded = load(folder, "gpt2", attention)
    assert loaded.max_positions == 48
    alone = CachedModel(loaded), {"model": lambda law: ModelDraft(CachedModel(loaded), law)}
    together = (
        BatchedModel(loaded),
        {"model": lambda law: BatchedModelDraft(BatchedModel(loaded), law)},
    )
    one, many = both(alone, together, PROMPTS, "model", gamma=4, law=GREEDY, budget=40)
    assert one == many
    assert {log[1] for log in many} == {"budget", "context"}


def _one_row_moved(layout, counts, original=Layout.positions):
    positions = original(layout, counts)
    positions[1 % len(positions)] += 1
    return positions


def _one_row_sees_what_was_rejected(layout, dtype, original=Layout.mask):
    mask = original(layout, dtype)
    if mask is not None and len(mask) > 1:
        mask[1, :, :, layout.lengths[1] + layout.width :] = 0
    return mask


FAULTS = {
    "positions": (Layout, "positions", _one_row_moved),
    "mask": (Layout, "mask", _one_row_sees_what_was_rejected),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_one_row_changes_its_text_and_is_refused(
    alone, together, target, monkeypatch, fault
):
    monkeypatch.setattr(*FAULTS[fault])
    one, many = both(alone, together, PROMPTS, "model", gamma=4, law=WARM, budget=40)
    assert [a == b for a, b in zip(one, many, strict=True)][1] is False
    with pytest.raises(UserError, match="model target cannot decode texts of different lengths"):
        BatchedModel(target)


def test_what_has_stopped_leaves_the_batch(target, together):
    rows = []
    hook = target.model.model.embed_tokens.register_forward_hook(
        lambda module, args, output: rows.append(len(args[0]))
    )
    try:
        batched, drafters = together
        out = decode_batch(
            batched, drafters["model"](GREEDY), PROMPTS, gamma=4, law=GREEDY, budget=40,
            eos_ids=frozenset(), rngs=[generator("leave", n) for n in range(5)],
        )  # fmt: skip
    finally:
        hook.remove()
    wanted = [sum(len(text.rounds) > n for text in out) for n in range(len(rows))]
    assert rows == wanted and rows[-1] < 5
    # The times of the text that lasted longest are those of the batch; the others share them.
    longest = max(out, key=lambda text: len(text.rounds))
    for text in out:
        assert [r[6:] for r in text.rounds] == [r[6:] for r in longest.rounds[: len(text.rounds)]]


@pytest.mark.parametrize("broken", ["target", "draft"])
def test_logits_that_are_no_numbers_name_prompt_and_model_and_leave_no_trace(
    target, draft, alone, together, broken
):
    """A masked NaN would still spoil what it is added to, so a later batch must not meet it."""
    loaded = target if broken == "target" else draft
    embedding = loaded.model.model.embed_tokens.weight.data
    kept = embedding[300].clone()
    embedding[300] = torch.nan
    try:
        with pytest.raises(UserError, match=f"^b, round 0, .* of {broken} .*draft position 0"):
            batched, drafters = together
            decode_batch(
                batched, drafters["model"](WARM), [PROMPTS[2], [5] * 52 + [300]], gamma=2, law=WARM,
                budget=9, eos_ids=frozenset(), rngs=[generator("nan", n) for n in "ab"],
                where=["a", "b"],
            )  # fmt: skip
    finally:
        embedding[300] = kept
    # Now the second row is short, and its mask ends where the NaN stood.
    one, many = both(alone, together, [PROMPTS[2], [0, 5]], "model", gamma=2, law=GREEDY, budget=20)
    assert one == many


def test_bad_arguments_are_named(together):
    batched, _ = together
    options = {"gamma": 0, "law": GREEDY, "eos_ids": frozenset()}
    with pytest.raises(UserError, match="prompt 1: the prompt is empty"):
        decode_batch(batched, None, [[0], []], budget=3, rngs=[None, None], **options)
    with pytest.raises(ValueError, match="at least"):
        decode_batch(batched, None, [[0]], budget=3, rngs=[None], **options | {"gamma": -1})
    with pytest.raises(ValueError, match="shorter|longer"):
        decode_batch(batched, None, [[0], [0]], budget=3, rngs=[None], **options)
    assert decode_batch(batched, None, [], budget=3, rngs=[], **options) == []
    batched.start(2)
    with pytest.raises(ValueError, match="cannot crop row 1 of 0 tokens to 1"):
        batched.crop(1, 1)


SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def described(model, attention="sdpa"):
    """A LoadedModel's fields, for models that are never saved."""
    from draftscope.models.loaded import LoadedModel

    return LoadedModel(
        name="odd", kind="local", model=model, tokenizer=None, eos_ids=frozenset(), bos_id=None,
        pad_id=0, vocabulary_size=60, head_size=60, max_positions=None, revision="",
        tokenizer_sha256=None, dtype="float32", device=torch.device("cpu"), quantization=None,
        attention=attention,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("config", "attention", "message"),
    [
        (MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=8), "sdpa", "SlidingWindow"),
        (MambaConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2), "sdpa", "cannot be crop"),
        (MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=None), "flash_attention_2",
         "attention flash_attention_2 takes no mask of a row's own"),
        (BloomConfig(vocab_size=60, hidden_size=32, n_layer=2, n_head=4), "eager",
         "BloomForCausalLM takes no position ids"),
    ],
    ids=["sliding", "recurrent", "flash", "alibi"],
)  # fmt: skip
def test_models_whose_rows_cannot_differ_are_refused_by_name(config, attention, message):
    model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(UserError, match=f"model odd cannot decode .*{message}"):
        BatchedModel(described(model, attention))


def test_a_model_of_another_engine_is_refused_by_name():
    with pytest.raises(UserError, match="model odd cannot .*a model that transformers runs"):
        BatchedModel(described(object()))


def test_a_row_that_looks_at_the_others_is_found_by_the_probe():
    config = MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=None)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    assert ragged_probe(BatchedModel(described(model)), model) < 1e-4
    model.model.norm.register_forward_hook(
        lambda module, args, output: output + 0.01 * output.mean(0, keepdim=True)
    )
    with pytest.raises(UserError, match="model odd cannot .*off by .* standard deviations"):
        BatchedModel(described(model))
