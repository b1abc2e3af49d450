"""Resolving and loading: local folders, the hub's cache, what is refused and how."""

import json
import socket
import struct

import pytest
import torch
from draftscope import models
from draftscope.errors import UserError
from draftscope.models import loaded as identity
from tiny import tiny_model_folder, tiny_tokenizer


def resolve_local(folder, record_folder, name="tiny"):
    return models.resolve(name, {"kind": "local", "path": str(folder)}, record_folder)


@pytest.fixture
def tiny(tiny_folder, tmp_path):
    return models.load(resolve_local(tiny_folder, tmp_path), "cpu")


def test_a_local_model_carries_its_identity(tiny, tmp_path):
    assert (tiny.vocabulary_size, tiny.head_size, tiny.max_positions) == (320, 320, 512)
    assert (tiny.eos_ids, tiny.bos_id, tiny.pad_id) == ({1}, 0, 2)
    assert tiny.device == torch.device("cpu") and not tiny.model.training
    assert not any(p.requires_grad for p in tiny.model.parameters())
    again = models.load(tmp_path / "model.json", "auto" if not torch.cuda.is_available() else "cpu")
    assert again.condition("target") == tiny.condition("target")
    assert set(tiny.condition("target")) == {
        *("target", "target_revision", "dtype", "quantization", "tokenizer_sha256"),
        *("attention", "device_type"),
    }
    assert set(tiny.condition("draft")) == {
        *("draft", "draft_revision", "draft_dtype", "draft_quantization"),
    }


def test_the_revision_of_a_folder_is_its_content(tiny_folder, tmp_path):
    copy = tiny_model_folder(tmp_path / "copy")
    other = tiny_model_folder(tmp_path / "other", seed=1)
    original = resolve_local(tiny_folder, tmp_path / "a")["revision"]
    assert resolve_local(copy, tmp_path / "b")["revision"] == original
    assert resolve_local(other, tmp_path / "c")["revision"] != original


@pytest.mark.parametrize(
    ("eos", "expected"), [([6, 1], {1, 6}), (6, {1, 6}), (None, {1}), ([6, 7], {1, 6, 7})]
)
def test_case_12_end_of_text_is_the_union_of_both_sources(tmp_path, eos, expected):
    folder = tiny_model_folder(tmp_path / "m", eos=eos)
    loaded = models.load(resolve_local(folder, tmp_path), "cpu")
    assert loaded.eos_ids == expected
    assert set(loaded.model.generation_config.eos_token_id) == expected


def test_case_72_no_generation_config_and_no_network(tmp_path, monkeypatch):
    folder = tiny_model_folder(tmp_path / "m", eos=[6, 1])
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": [8, 1]}))
    record = resolve_local(folder, tmp_path)

    def refuse(*arguments, **options):
        raise AssertionError("loading opened a network connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert models.load(record, "cpu").eos_ids == {1, 8}


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_case_72_a_missing_file_is_named(tmp_path, file):
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    (folder / file).unlink()
    with pytest.raises(UserError, match=file):
        resolve_local(folder, tmp_path)
    with pytest.raises(UserError, match=file):
        models.load(record, "cpu")


def test_a_changed_file_is_named(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    with open(folder / "model.safetensors", "ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=r"model\.safetensors has changed .*\d+ bytes, recorded"):
        models.load(record, "cpu")


def test_a_missing_shard_is_named(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="model-00001-of-00002.safetensors"):
        resolve_local(folder, tmp_path)


def test_pickled_weights_are_refused(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="pickle files"):
        resolve_local(folder, tmp_path)


def test_a_model_with_code_of_its_own_is_refused(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "homemade", "auto_map": {"AutoModelForCausalLM": "code.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text("raise SystemExit('ran')")
    with pytest.raises(UserError, match="'homemade'"):
        resolve_local(folder, tmp_path)


def test_case_57_a_missing_quantization_backend_is_named_with_its_version(tmp_path, monkeypatch):
    folder = tiny_model_folder(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"gptqmodel.*pip install gptqmodel==7\.5\.0"):
        resolve_local(folder, tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_case_58_each_model_has_its_own_dtype(tiny_folder, tmp_path, dtype):
    record = resolve_local(tiny_folder, tmp_path)
    wide, narrow = models.load(record, "cpu", "float32"), models.load(record, "cpu", dtype)
    assert {p.dtype for p in narrow.model.parameters()} == {getattr(torch, dtype)}
    assert {p.dtype for p in wide.model.parameters()} == {torch.float32}
    assert narrow.condition("draft")["draft_dtype"] == dtype
    assert narrow.condition("draft")["draft_quantization"] is None


def test_case_58_a_draft_does_not_take_the_quantization_of_its_target(tiny_folder, tmp_path):
    base = resolve_local(tiny_folder, tmp_path / "a")
    settings = {"kind": "round_to_nearest", "base": "tiny", "bits": 4, "group_size": 32}
    quantized = models.load(models.resolve("q", settings, tmp_path / "b", base), "cpu")
    plain = models.load(base, "cpu")
    assert quantized.quantization.startswith("round to nearest, 4-bit")
    assert plain.quantization is None


def test_auto_is_float32_on_the_cpu(tiny_folder, tmp_path):
    assert models.load(resolve_local(tiny_folder, tmp_path), "cpu", "auto").dtype == "float32"


def test_sampling_defaults_of_a_checkpoint_are_dropped(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    path = folder / "generation_config.json"
    defaults = {"repetition_penalty": 1.3, "top_k": 2, "temperature": 0.7, "do_sample": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | defaults))
    loaded = models.load(resolve_local(folder, tmp_path), "cpu")
    kept = loaded.model.generation_config.to_diff_dict()
    assert set(kept) <= {"eos_token_id", "bos_token_id", "pad_token_id", "transformers_version"}
    ids = torch.tensor([[0, 20, 21]])
    options = {"max_new_tokens": 24, "min_new_tokens": 24, "do_sample": False}
    greedy = loaded.model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    penalized = loaded.model.generate(
        ids, attention_mask=torch.ones_like(ids), repetition_penalty=1.3, **options
    )
    assert greedy.tolist() != penalized.tolist()  # so the default would have shown
    tokens = ids[0].tolist()
    while len(tokens) < 27:
        logits = loaded.model(torch.tensor([tokens])).logits[0, -1]
        logits[1] = -torch.inf
        tokens.append(int(logits.argmax()))
    assert greedy[0].tolist() == tokens


@pytest.mark.parametrize(
    ("device", "dtype", "attention", "named"),
    [
        ("toaster", "float32", "sdpa", "toaster"),
        ("cpu", "float64x", "sdpa", "float64x"),
        ("cpu", "float32", "flash_attention_9", "flash_attention_9"),
    ],
)
def test_unknown_choices_are_named(tiny_folder, tmp_path, device, dtype, attention, named):
    record = resolve_local(tiny_folder, tmp_path)
    with pytest.raises(UserError, match=named):
        models.load(record, device, dtype, attention)


def test_attention_implementation_is_set_and_recorded(tiny_folder, tmp_path):
    record = resolve_local(tiny_folder, tmp_path)
    for attention in ("eager", "sdpa"):
        loaded = models.load(record, "cpu", attention=attention)
        assert loaded.model.config._attn_implementation == loaded.attention == attention


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"kind": "magic"}, "package_gguf"),
        ({}, "kind"),
        ({"kind": "local"}, "lacks path"),
        ({"kind": "local", "path": "x", "pth": "y"}, "unknown pth"),
        ({"kind": "local", "path": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"kind": "round_to_nearest", "base": "b", "bits": 3, "group_size": 8}, "--base"),
        ({"kind": "prompt_lookup", "max_ngram": 1, "min_ngram": 2}, "min_ngram 2"),
    ],
)
def test_bad_settings_are_named(tmp_path, settings, named):
    with pytest.raises(UserError, match=named):
        models.resolve("m", settings, tmp_path)


def test_a_missing_or_damaged_record_is_named(tmp_path):
    with pytest.raises(UserError, match="resolve the model first"):
        models.load(tmp_path / "model.json")
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        models.load(tmp_path / "model.json")


def test_prompt_lookup_has_no_weights(tmp_path):
    settings = {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1}
    models.resolve("lookup", settings, tmp_path)
    loaded = models.load(tmp_path / "model.json")
    assert loaded.model is None and loaded.tokenizer is None and not loaded.eos_ids
    assert (loaded.settings["max_ngram"], loaded.settings["min_ngram"]) == (3, 1)
    assert loaded.condition("draft")["draft_revision"] == "prompt-lookup 1-3"


def test_the_tokenizer_hash_is_one_of_content():
    same = identity.tokenizer_sha256(tiny_tokenizer())
    assert identity.tokenizer_sha256(tiny_tokenizer()) == same
    padded = tiny_tokenizer()
    padded(["a", "abc"], padding=True, truncation=True, max_length=2)  # leaves settings behind
    assert identity.tokenizer_sha256(padded) == same
    others = [
        tiny_tokenizer(321),
        tiny_tokenizer(swap=(40, 41)),
        tiny_tokenizer(bos="template"),
        tiny_tokenizer(specials=("<s>", "<end>", "<pad>")),
    ]
    hashes = {identity.tokenizer_sha256(other) for other in others}
    assert len(hashes) == 4 and same not in hashes


def test_another_tokenizer_than_the_recorded_one_stops_the_run(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    with pytest.raises(UserError, match="tokenizer of model tiny has hash"):
        models.load(record | {"tokenizer_sha256": "0" * 64}, "cpu")


HUB = {"kind": "hub", "id": "someone/model", "revision": "main"}


def fill_cache(tmp_path, monkeypatch, commit="c" * 40):
    """A hub cache that holds the model, as a machine with network leaves it."""
    from huggingface_hub import constants

    repository = tmp_path / "hub" / "models--someone--model"
    tiny_model_folder(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return repository


def test_case_72_a_filled_cache_serves_resolve_and_load_offline(tmp_path, monkeypatch):
    repository = fill_cache(tmp_path, monkeypatch)
    record = models.resolve("m", HUB, tmp_path / "record")
    assert (record["revision"], record["asked_revision"]) == ("c" * 40, "main")
    (repository / "refs" / "main").write_text("d" * 40)  # the branch moves on; the record does not
    loaded = models.load(tmp_path / "record" / "model.json", "cpu")
    assert loaded.condition("target")["target_revision"] == "c" * 40


@pytest.mark.parametrize(("said", "found"), [("gptq", None), (None, "gptq")])
def test_case_57_the_registry_must_say_how_a_hub_model_is_quantized(
    tmp_path, monkeypatch, said, found
):
    repository = fill_cache(tmp_path, monkeypatch)
    path = repository / "snapshots" / ("c" * 40) / "config.json"
    config = json.loads(path.read_text())
    if found:
        config["quantization_config"] = {"quant_method": found, "bits": 4}
    path.write_text(json.dumps(config))
    row = HUB | {"quantization": said}
    with pytest.raises(UserError, match=f"has quantization {found or 'null'} .* {said or 'null'}"):
        models.resolve("m", row, tmp_path / "record")


def test_an_unreachable_hub_says_what_to_set(tmp_path, monkeypatch):
    fill_cache(tmp_path, monkeypatch)
    with pytest.raises(UserError, match=r"(?s)someone/other.*HF_ENDPOINT.*HF_HOME.*local folder"):
        models.resolve("m", HUB | {"id": "someone/other"}, tmp_path / "record")


def test_a_machine_without_the_cache_says_what_to_set(tmp_path, monkeypatch):
    from huggingface_hub import constants

    fill_cache(tmp_path, monkeypatch)
    record = models.resolve("m", HUB, tmp_path / "record")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    with pytest.raises(UserError, match="HF_HOME"):
        models.load(record, "cpu")


def test_a_damaged_safetensors_file_is_named(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    path = folder / "model.safetensors"
    content = path.read_bytes()
    (header,) = struct.unpack("<Q", content[:8])
    path.write_bytes(content[: 8 + header + 100])
    with pytest.raises(UserError, match=r"model\.safetensors \(\d+ bytes\) is truncated"):
        resolve_local(folder, tmp_path)
