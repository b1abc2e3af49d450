"""Files that llama.cpp runs: what is recorded of them, and what is refused."""

import importlib.util
import json
import shutil

import pytest
import tiny_gguf
import torch
from draftscope import models
from draftscope.errors import UserError
from draftscope.live import open_decoder
from llama_models import IDS, in_parts, load_all, needs_llama, resolve_all


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return resolve_all(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def loaded(folder):
    return load_all(folder)


@needs_llama
def test_the_record_says_what_runs(folder, loaded):
    record = json.loads((folder / "q8_0" / "model.json").read_text())
    path = folder / "q8_0" / "weights" / "model.gguf"
    assert record["file_type"] == "q8_0"
    assert record["files"]["model.gguf"]["bytes"] == path.stat().st_size
    assert record["revision"] == f"sha256:{record['sha256']}"
    assert record["llama_cpp_python"] and record["max_positions"] == 512
    original = json.loads((folder / "f32" / "model.json").read_text())
    assert original["sha256"] == json.loads((folder / "base" / "model.json").read_text())["sha256"]
    condition = loaded["q8_0"].condition("target")
    assert condition["quantization"] == "q8_0"
    assert record["llama_cpp_python"] in condition["kernel"]
    assert loaded["q8_0"].eos_ids == loaded["base"].eos_ids == {1}


@needs_llama
def test_a_file_that_changed_is_refused(folder, loaded, tmp_path):
    shutil.copytree(folder / "q8_0", tmp_path / "q8_0")
    shutil.copytree(folder / "base", tmp_path / "base")
    path = tmp_path / "q8_0" / "weights" / "model.gguf"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"model\.gguf has changed since it was resolved"):
        models.load(tmp_path / "q8_0" / "model.json", "cpu")


def other_tokenizer(folder, tmp_path, **changes):
    """The record of a base whose file is then exchanged for one that means other texts."""
    path = tiny_gguf.write_gguf(folder / "source", tmp_path / "other.gguf", **changes)
    record = dict(models.read_record(folder / "base" / "model.json"))
    row = tiny_gguf.row(path, [], None)
    return record | {"path": row["path"], "sha256": row["sha256"]}


@needs_llama
def test_case_8_a_file_that_splits_texts_otherwise_is_refused(folder, tmp_path):
    base = other_tokenizer(folder, tmp_path, merges=slice(None, None, -1))
    with pytest.raises(UserError, match=r"its tokenizer encodes .* llama\.cpp with model\.gguf as"):
        models.resolve("m", {"kind": "llama_cpp", "base": "base"}, tmp_path / "m", base)


@needs_llama
def test_case_5_a_file_with_other_ids_is_refused(folder, tmp_path):
    base = other_tokenizer(folder, tmp_path, swap=(290, 291))
    with pytest.raises(UserError, match=r"id 290 is '\S+' in its tokenizer and '\S+' in"):
        models.resolve("m", {"kind": "llama_cpp", "base": "base"}, tmp_path / "m", base)


@needs_llama
def test_a_file_that_llama_cpp_cannot_read_is_named(folder, tmp_path):
    (tmp_path / "no.gguf").write_bytes(b"GGUF" + bytes(100))
    base = dict(models.read_record(folder / "base" / "model.json"))
    row = tiny_gguf.row(tmp_path / "no.gguf", [], None)
    base |= {"path": row["path"], "sha256": row["sha256"]}
    with pytest.raises(UserError, match=r"model m: llama\.cpp .* cannot read .*damaged"):
        models.resolve("m", {"kind": "llama_cpp", "base": "base"}, tmp_path / "m", base)
    assert not list((tmp_path / "m").glob("model.json"))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of the hub that holds one repository, and no hub."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    repository, commit = tmp_path / "hub" / "models--some--tiny-GGUF", "c" * 40
    files = repository / "snapshots" / commit
    files.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return files


HUB_ROW = {"kind": "llama_cpp", "base": "base", "repository": "some/tiny-GGUF", "revision": "main"}


@needs_llama
@pytest.mark.parametrize("parts", [1, 2])
def test_a_file_of_the_hub_runs_where_it_lies(folder, loaded, hub, tmp_path, parts):
    tiny_gguf.write_gguf(folder / "source", hub / "tiny.gguf", tensors=0 if parts == 1 else 15)
    names = sorted(path.name for path in hub.iterdir())
    assert len(names) == parts
    row = HUB_ROW | {"file": names[0]}
    record = models.resolve("m", row, tmp_path / "m", folder / "base" / "model.json")
    assert record["commit"] == "c" * 40 and record["file_type"] == "f32"
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["model.json"]
    found = models.load(tmp_path / "m" / "model.json", "cpu")
    assert torch.equal(
        in_parts(open_decoder(found), IDS, 9), in_parts(open_decoder(loaded["f32"]), IDS, 9)
    )
    (hub / names[-1]).unlink()
    with pytest.raises(UserError, match=r"some/tiny-GGUF.* is not in this machine's cache"):
        models.load(tmp_path / "m" / "model.json", "cpu")


@needs_llama
def test_a_file_of_the_hub_can_be_quantized(folder, hub, tmp_path):
    tiny_gguf.write_gguf(folder / "source", hub / "tiny-f32.gguf")
    row = HUB_ROW | {"file": "tiny-f32.gguf", "file_type": "q8_0"}
    record = models.resolve("m", row, tmp_path / "m", folder / "base" / "model.json")
    assert record["file_type"] == "q8_0" and record["commit"] == "c" * 40
    assert models.load(tmp_path / "m" / "model.json", "cpu").dtype == "q8_0"
    assert (hub / "tiny-f32.gguf").is_file()  # the hub's own file stays


@needs_llama
def test_a_file_that_the_hub_lacks_is_named(folder, hub, tmp_path):
    row = HUB_ROW | {"file": "other.gguf"}
    with pytest.raises(UserError, match=r"model m \(some/tiny-GGUF at main\)"):
        models.resolve("m", row, tmp_path / "m", folder / "base" / "model.json")


@needs_llama
def test_a_base_without_a_gguf_file_says_what_to_name(folder, tmp_path):
    local = {"kind": "local", "path": str(folder / "source")}
    base = models.resolve("plain", local, tmp_path / "plain")
    with pytest.raises(UserError, match="plain has no GGUF file; name one of the hub"):
        models.resolve("m", {"kind": "llama_cpp", "base": "plain"}, tmp_path / "m", base)


def test_case_57_without_the_package_one_line_names_it(folder, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "llama_cpp" else find(name)
    )
    row = {"kind": "llama_cpp", "base": "base"}
    with pytest.raises(UserError, match=r"pip install llama-cpp-python==\d") as caught:
        models.resolve("m", row, tmp_path / "m", folder / "base" / "model.json")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "m").iterdir())
