"""Files that changed after a model was resolved, and what else its record promises."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from draftscope import checkpoints, models
from draftscope.errors import UserError
from draftscope.models import folder as checkpoint
from safetensors.torch import load_file, save_file
from tiny import tiny_model_folder

SCRIPTS = Path(__file__).parents[2] / "scripts"
CHANGED = r"model tiny: file .*{} has changed since it was resolved; delete its model\.json"


def resolve_local(folder, record_folder):
    return models.resolve("tiny", {"kind": "local", "path": str(folder)}, record_folder)


def negate_head(folder):
    """Other weights in a file of the same size."""
    path = folder / "model.safetensors"
    size = path.stat().st_size
    tensors = load_file(path)
    tensors["lm_head.weight"] = -tensors["lm_head.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    assert path.stat().st_size == size


def converted(folder):
    """A model as the conversion of a GGUF file leaves it: weights beside their record."""
    weights = tiny_model_folder(folder / checkpoints.CONVERTED)
    record = {
        "name": "tiny",
        "kind": "gguf",
        "revision": "sha256:0",
        "quantization": "Q4_1, dequantized",
        "files": checkpoint.inventory(weights),
    }
    (folder / "model.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def hashed(monkeypatch):
    """Names of the files that are hashed from here on."""
    names = []
    original = checkpoint.file_sha256
    monkeypatch.setattr(
        checkpoint, "file_sha256", lambda path: names.append(Path(path).name) or original(path)
    )
    return names


def test_other_weights_of_the_same_size_are_refused(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    models.load(record, "cpu")
    negate_head(folder)
    with pytest.raises(UserError, match=CHANGED.format("model.safetensors")):
        models.load(record, "cpu")
    again = resolve_local(folder, tmp_path)
    assert again["revision"] != record["revision"]
    models.load(again, "cpu")


def test_older_weights_put_in_their_place_are_refused(tmp_path):
    older = tiny_model_folder(tmp_path / "older", seed=1)
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    shutil.copy2(older / "model.safetensors", folder)
    with pytest.raises(UserError, match=CHANGED.format("model.safetensors")):
        models.load(record, "cpu")


def test_a_derived_model_refuses_changed_weights_of_its_base(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    base = resolve_local(folder, tmp_path / "base")
    settings = {"kind": "round_to_nearest", "base": "tiny", "bits": 4, "group_size": 32}
    record = models.resolve("rounded", settings, tmp_path / "rounded", base)
    models.load(record, "cpu")
    negate_head(folder)
    with pytest.raises(UserError, match=CHANGED.format("model.safetensors")):
        models.load(record, "cpu")


@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "tokenizer.json"])
def test_a_small_file_is_compared_by_content_whatever_its_time(tmp_path, file):
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    path = folder / file
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    content = path.read_bytes()
    path.write_bytes(content.replace(b"1", b"2", 1))
    os.utime(path, ns=times)
    with pytest.raises(UserError, match=CHANGED.format(file)):
        models.load(record, "cpu")
    path.write_bytes(content)
    models.load(record, "cpu")


def test_a_new_file_that_loading_would_read_is_refused(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    (folder / "notes.md").write_text("nothing that loading reads")
    models.load(record, "cpu")
    (folder / "preprocessor_config.json").write_text("{}")
    with pytest.raises(UserError, match=r"preprocessor_config\.json was added since"):
        models.load(record, "cpu")


def test_unchanged_weights_are_not_read_twice(tmp_path, hashed):
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    hashed.clear()
    models.load(record, "cpu")
    assert "config.json" in hashed and "model.safetensors" not in hashed
    os.utime(folder / "model.safetensors", ns=(1, 1))
    models.load(record, "cpu")
    assert "model.safetensors" in hashed


def test_a_record_without_its_file_is_checked_by_content(tmp_path, hashed):
    folder = tiny_model_folder(tmp_path / "m")
    record = resolve_local(folder, tmp_path)
    (Path(record["location"]) / "model.json").unlink()
    hashed.clear()
    models.load(record, "cpu")
    assert "model.safetensors" in hashed


def test_the_record_of_the_same_files_is_the_same(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    first = Path(resolve_local(folder, tmp_path / "a")["location"], "model.json").read_bytes()
    os.utime(folder / "model.safetensors", ns=(1, 1))
    again = Path(resolve_local(folder, tmp_path / "b")["location"], "model.json").read_bytes()
    assert first == again


@pytest.mark.parametrize("copy", [shutil.copy, shutil.copy2])
def test_a_copied_conversion_loads_and_a_changed_one_does_not(tmp_path, copy):
    original = converted(tmp_path / "original")
    # The times of the original are past, so a copy that does not keep them has others.
    for path in (original / checkpoints.CONVERTED).iterdir():
        os.utime(path, ns=(1, 10**18))
    record = json.loads((original / "model.json").read_text())
    record["files"] = checkpoint.inventory(original / checkpoints.CONVERTED)
    (original / "model.json").write_text(json.dumps(record))
    moved = shutil.copytree(original, tmp_path / "copy", copy_function=copy)
    assert models.load(moved / "model.json", "cpu").quantization == "Q4_1, dequantized"
    negate_head(moved / checkpoints.CONVERTED)
    with pytest.raises(UserError, match=CHANGED.format("model.safetensors")):
        models.load(moved / "model.json", "cpu")


def test_local_files_are_those_of_the_inventory(tmp_path):
    folder = tiny_model_folder(tmp_path / "m")
    for name in ("README.md", "model.json", "pytorch_model.bin"):
        (folder / name).write_text("")
    (folder / "more.json").mkdir()
    found = checkpoints.local_files(folder)
    assert [path.name for path in found] == sorted(path.name for path in found)
    assert {path.name for path in found} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert not {path.name for path in found} & {"README.md", "model.json", "more.json"}
    assert [path.name for path in found] == list(checkpoint.inventory(folder))
    assert checkpoints.local_files(tmp_path / "missing") == []
    assert checkpoints.local_files(str(folder)) == found


def test_records_are_read_without_torch(tmp_path):
    record = resolve_local(tiny_model_folder(tmp_path / "m", max_positions=96), tmp_path / "r")
    code = (
        "import sys; from draftscope import checkpoints as c; "
        f"r = c.read_record({str(tmp_path / 'r' / 'model.json')!r}); "
        "assert c.max_positions(r) == 96; assert len(c.local_files(r['path'])) > 2; "
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=SCRIPTS)
    assert record["max_positions"] == 96


def test_every_record_carries_the_context_of_its_model(tmp_path):
    folder = tiny_model_folder(tmp_path / "m", max_positions=96)
    base = resolve_local(folder, tmp_path / "base")
    settings = {"kind": "round_to_nearest", "base": "tiny", "bits": 4, "group_size": 32}
    derived = models.resolve("rounded", settings, tmp_path / "rounded", base)
    lookup = {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1}
    nothing = models.resolve("lookup", lookup, tmp_path / "lookup")
    assert [r["max_positions"] for r in (base, derived, nothing)] == [96, 96, None]
    for record in (base, derived):
        assert models.load(record, "cpu").max_positions == 96
    # Records written before the value was kept are answered from the configuration.
    for record in (base, derived, nothing):
        del record["max_positions"]
    derived["base"] = {k: v for k, v in derived["base"].items() if k != "max_positions"}
    assert [checkpoints.max_positions(r) for r in (base, derived, nothing)] == [96, 96, None]
    shutil.rmtree(folder)
    with pytest.raises(UserError, match=r"model tiny: .* lacks config\.json"):
        checkpoints.max_positions(base)


def test_the_context_is_found_under_the_other_names_of_configurations(tmp_path):
    record = {"name": "m", "kind": "local", "path": str(tmp_path), "location": str(tmp_path)}
    gpt2 = {"model_type": "gpt2", "n_positions": 77}
    gemma = {"model_type": "gemma3", "text_config": {"max_position_embeddings": 55}}
    for config, expected in ((gpt2, 77), (gemma, 55), ({"model_type": "bloom"}, None)):
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert checkpoints.max_positions(record) == expected
