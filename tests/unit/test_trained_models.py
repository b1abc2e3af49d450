"""Models that are cut out of others or trained here: saved, loaded, refused when they are wrong."""

import json

import pytest
import torch
from draftscope import models, registry
from draftscope.checkpoints import read_record
from draftscope.errors import UserError
from draftscope.models import distilled, lora
from draftscope.models.layer_subset import keep_layers, layers_of
from draftscope.prompts import collecting
from draftscope.strict import load_yaml
from draftscope.training.leaks import refuse_leaks, shared_prompts
from experiments import ROOT
from tiny import tiny_model_folder
from transformers import AutoModelForCausalLM, LlamaForCausalLM

IDS = torch.arange(3, 30)[None]
ADAPTER = {"rank": 4, "alpha": 8.0, "modules": None}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tiny_model_folder(tmp_path_factory.mktemp("base") / "m", layers=4, seed=6)
    return models.resolve(
        "tiny", {"kind": "local", "path": str(folder)}, tmp_path_factory.mktemp("record")
    )


def logits(model) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=IDS).logits[0]


# ---- Layer subsets -----------------------------------------------------------------------------


def test_a_layer_subset_is_the_model_with_these_layers_alone(base, tmp_path):
    row = {"kind": "layer_subset", "base": "tiny", "layers": [0, 2]}
    record = models.resolve("cut", row, tmp_path / "cut", base)
    loaded = models.load(tmp_path / "cut/model.json", "cpu")
    whole = AutoModelForCausalLM.from_pretrained(base["path"])
    config = whole.config.__class__.from_dict(whole.config.to_dict() | {"num_hidden_layers": 2})
    if config.to_dict().get("layer_types"):
        config.layer_types = config.layer_types[:2]
    own = LlamaForCausalLM(config).eval()
    state = whole.state_dict()
    moved = {k: v for k, v in state.items() if ".layers." not in k}
    for place, layer in enumerate((0, 2)):
        old, new = f"model.layers.{layer}.", f"model.layers.{place}."
        moved |= {k.replace(old, new): v for k, v in state.items() if k.startswith(old)}
    own.load_state_dict(moved)
    assert torch.allclose(logits(loaded.model), logits(own), atol=1e-6)
    assert not torch.allclose(logits(loaded.model), logits(whole), atol=1e-2)
    assert "layers 0,2" in record["revision"] and layers_of(record) == 2
    # Places in a cache follow the new order: cached decoding is decoding.
    text = loaded.model.generate(IDS, max_new_tokens=6, do_sample=False)
    plain = IDS
    for _ in range(6):
        with torch.inference_mode():
            following = loaded.model(input_ids=plain, use_cache=False).logits[0, -1].argmax()
        plain = torch.cat([plain, following[None, None]], 1)
    assert torch.equal(text[:, : plain.shape[1]], plain[:, : text.shape[1]])


@pytest.mark.parametrize(
    ("layers", "message"),
    [([0, 4], "layer 4 of a base with layers 0 to 3"), ([2, 1], "do not ascend")],
)
def test_layers_that_are_not_there_are_refused(base, tmp_path, layers, message):
    row = {"kind": "layer_subset", "base": "tiny", "layers": layers}
    with pytest.raises(UserError, match=message):
        models.resolve("cut", row, tmp_path, base)


# ---- Trained models ----------------------------------------------------------------------------


def test_a_distilled_model_is_what_was_saved_and_notices_a_changed_file(base, tmp_path):
    loaded = models.load(base, "cpu")
    keep_layers(loaded.model, [0, 3])
    with torch.no_grad():
        loaded.model.model.layers[1].mlp.up_proj.weight += 0.1
    before = logits(loaded.model)
    made = distilled.save("d", loaded.model, loaded.tokenizer, tmp_path, base, "layers 0,3")
    models.write_record("d", "distilled", tmp_path, made)
    again = models.load(tmp_path / "model.json", "cpu")
    assert torch.equal(logits(again.model), before)
    assert again.eos_ids == loaded.eos_ids and again.max_positions == 512
    assert again.tokenizer_sha256 == loaded.tokenizer_sha256
    assert layers_of(read_record(tmp_path / "model.json")) == 2
    config = tmp_path / "weights/config.json"
    config.write_text(config.read_text().replace("silu", "relu"))
    with pytest.raises(UserError, match=r"config\.json has changed"):
        models.load(tmp_path / "model.json", "cpu")


def test_an_adapter_changes_nothing_until_it_is_trained_and_merges_to_what_it_was(base, tmp_path):
    loaded = models.load(base, "cpu")
    before, chance = logits(loaded.model), torch.get_rng_state()
    adapted = lora.add(loaded.model, ADAPTER, seed=3, name="a")
    assert torch.equal(torch.get_rng_state(), chance)  # a stream of its own
    assert torch.allclose(logits(loaded.model), before, atol=1e-6)
    free = {n for n, p in loaded.model.named_parameters() if p.requires_grad}
    assert free and all("lora_" in name for name in free)
    assert not any("lm_head" in name or "embed" in name for name in free)
    with torch.no_grad():
        for name, value in loaded.model.named_parameters():
            if "lora_B" in name:
                value.normal_(generator=torch.Generator().manual_seed(len(name)))
    adapter = logits(loaded.model)
    made = lora.save("a", adapted, tmp_path, base, "uniform")
    models.write_record("a", "lora", tmp_path, made)
    merged = models.load(tmp_path / "model.json", "cpu")
    assert torch.allclose(logits(merged.model), adapter, atol=1e-4)
    assert not torch.allclose(adapter, before, atol=1e-1)  # the control: it is not the base
    assert not any("lora" in name for name, _ in merged.model.named_modules())
    narrow = models.load(tmp_path / "model.json", "cpu", "bfloat16")
    assert {p.dtype for p in narrow.model.parameters()} == {torch.bfloat16}
    settings = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "tiny"


def test_adapters_of_one_seed_start_alike(base):
    parts = []
    for seed in (3, 3, 4):
        model = models.load(base, "cpu").model
        lora.add(model, ADAPTER, seed, "a")
        parts.append(next(p for n, p in model.named_parameters() if "lora_A" in n).clone())
    assert torch.equal(parts[0], parts[1]) and not torch.equal(parts[0], parts[2])
    with pytest.raises(UserError, match="model a: .*nonsense"):
        lora.add(models.load(base, "cpu").model, ADAPTER | {"modules": ["nonsense"]}, 1, "a")


def test_trained_models_are_not_fetched(base, tmp_path):
    row = {"kind": "distilled", "base": "tiny", "train": {}}
    with pytest.raises(UserError, match=r"is trained, not fetched: scripts/train_draft\.py"):
        models.resolve("d", row, tmp_path)


# ---- Rows of the registry, and what must not leak ------------------------------------------------

TRAIN = {
    "domains": [{"name": "small", "prompts": 4, "max_new_tokens": 8}],
    "temperature": 1.0,
    "held_out": 0.25,
    "steps": 4,
    "batch": 1,
    "lr": 0.001,
    "warm_up": 1,
    "evaluate_every": 2,
    "patience": 1,
    "seed": 1,
}
ROWS = {
    "plain": {"kind": "local", "path": "p"},
    "d": {"kind": "distilled", "base": "plain", "layers": [0, 1], "train": TRAIN},
    "a": {"kind": "lora", "base": "d", "target": "plain", "weighting": "uniform", "rank": 2,
          "alpha": 4, "train": TRAIN},
}  # fmt: skip


def selected(**changed):
    pair = {"target": "plain", "draft": "a", "draft_group": "g"}
    return registry.models_of({"p": pair}, ROWS | changed)


def test_a_trained_draft_brings_its_base_and_its_teacher():
    assert list(selected()) == ["plain", "a", "d"]
    assert selected()["a"]["train"]["domains"][0]["samples"] == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"d": ROWS["d"] | {"layers": [1, 1]}}, "do not ascend"),
        ({"d": ROWS["d"] | {"target": "a"}}, "would learn from 'a', which is made from it"),
        (
            {"a": ROWS["a"] | {"target": "l"}, "l": {"kind": "prompt_lookup", "max_ngram": 2,
                                                     "min_ngram": 1}},
            "cannot learn from 'l' of kind prompt_lookup",
        ),
        ({"a": ROWS["a"] | {"weighting": "even"}}, "weighting"),
        ({"d": ROWS["d"] | {"train": TRAIN | {"warm_up": 4}}}, "warm_up 4 leaves none of 4 steps"),
        ({"d": ROWS["d"] | {"train": TRAIN | {"stepz": 4}}}, r"did you mean 'steps'"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_trained_is_refused_when_it_is_read(changed, message):
    with pytest.raises(UserError, match=message):
        selected(**changed)


def test_training_rows_that_are_measured_are_refused_by_row():
    source = {"source": "jsonl", "file": "p.jsonl"}
    rows = {"small": source | {"evaluation": [0, 4], "training": [4, 8]}}
    assert set(registry.training_domains(selected(), rows, {})) == {"small"}
    other = {"other": source | {"evaluation": [6, 9]}}
    with pytest.raises(UserError, match=r"'[ad]' would be trained on prompts it is measured on"):
        registry.training_domains(selected(), rows, other)
    with pytest.raises(UserError, match="domain small has 3 training prompts, asked for 4"):
        short = {"small": rows["small"] | {"training": [4, 7]}}
        registry.training_domains(selected(), short, {})


def prompt(prompt_id: str, text: str) -> dict:
    return {"prompt_id": prompt_id, "text": text}


ITEM = "How many pebbles does Ada have after she gives nine of them to Grace?"


@pytest.mark.parametrize(
    ("measured", "leaks"),
    [
        (ITEM.upper().replace(" ", "\n "), True),
        (f"Solve this.\n\n{ITEM}\n\nAnswer:", True),
        (ITEM.replace("nine", "eight"), False),
        ("Ada", False),  # inside, but that says nothing
        ("", False),
    ],
)
def test_a_measured_prompt_is_found_among_training_prompts_under_any_name(measured, leaks):
    training = [prompt("t0", "Something else altogether, and long enough."), prompt("t1", ITEM)]
    found = shared_prompts(training, [prompt("m0", "unlike the others"), prompt("m1", measured)])
    assert found == ([("t1", "m1")] if leaks else [])
    if leaks:
        with pytest.raises(UserError, match="trained on prompt t1, which is measured as prompt m1"):
            refuse_leaks("d", training, [prompt("m1", measured)])
    else:
        done = refuse_leaks("d", training, [prompt("m1", measured)])
        assert done == {"model": "d", "training_prompts": 2, "measured_prompts": 1, "shared": 0}


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        (f"Q: {ITEM}\nA:", True),
        (f"Q: {ITEM.replace('nine', 'two')}\nA:", False),
        ("Q: Ada?\nA:", False),
    ],
)
def test_an_item_is_found_whatever_instruction_each_domain_has_around_it(text, leaks):
    instructions = {"taught": "Solve {this}.\n\n{problem}\n\nAnswer:", "asked": "Q: {problem}\nA:"}
    training = [prompt("t0", "Solve {this}.\n\nAda?\n\nAnswer:") | {"domain": "taught"}]
    training += [prompt("t1", f"Solve {{this}}.\n\n{ITEM}\n\nAnswer:") | {"domain": "taught"}]
    measured = [prompt("m1", text) | {"domain": "asked"}]
    assert shared_prompts(training, measured, instructions) == ([("t1", "m1")] if leaks else [])
    assert shared_prompts(training, measured) == []  # nobody said what is instruction


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("math", "logic")]


@pytest.mark.parametrize("domain", ["code", "chat", *SLOW])
def test_no_measured_prompt_is_among_those_that_the_shipped_drafts_learn_from(domain, monkeypatch):
    monkeypatch.chdir(ROOT)
    shipped = load_yaml(ROOT / "config/models.yaml")
    asked = [
        use["prompts"]
        for row in shipped.values()
        for use in row.get("train", {}).get("domains", [])
        if use["name"] == domain
    ]
    row = load_yaml(ROOT / "config/domains.yaml")[domain] | {"domain": domain}
    training = collecting.collect(row | {"split": "training"}, 0, max(asked))
    measured = collecting.collect(row, 0, 40)
    assert refuse_leaks("shipped", training, measured)["training_prompts"] == max(asked)
    # The control: the same check finds a prompt that is put into both.
    with pytest.raises(UserError, match="was trained on prompt"):
        refuse_leaks("shipped", training, [*measured, training[-1]])
