"""GGUF inside a pip package: what is refused, and the real package once."""

import zipfile
from pathlib import Path

import pytest
import torch
import yaml
from draftscope import models
from draftscope.errors import UserError
from draftscope.models import gguf
from tiny import tiny_tokenizer

REGISTRY = Path(__file__).parents[2] / "config" / "models.yaml"
ROW = {
    "kind": "package_gguf",
    "package": "tinyweights",
    "version": "1.0",
    "file": "tinyweights/model.gguf",
    "sha256": "a" * 64,
    "tokenizer_probes": {"a": [1]},
}


def wheel(folder: Path, content: dict[str, bytes]) -> Path:
    """A wheel that pip can find, holding these files."""
    folder.mkdir(exist_ok=True)
    path = folder / "tinyweights-1.0-py3-none-any.whl"
    information = "tinyweights-1.0.dist-info"
    content = content | {
        f"{information}/METADATA": b"Metadata-Version: 2.1\nName: tinyweights\nVersion: 1.0\n",
        f"{information}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{information}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in content.items():
            archive.writestr(name, value)
    return path


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels that is all pip can see."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    return tmp_path / "index"


def test_a_package_that_pip_cannot_find_says_what_to_set(index, tmp_path):
    with pytest.raises(UserError, match=r"tinyweights==1\.0.*PIP_INDEX_URL.*PIP_FIND_LINKS"):
        models.resolve("m", ROW, tmp_path / "m")


def test_a_missing_gguf_names_those_that_are_there(index, tmp_path):
    wheel(index, {"tinyweights/other.gguf": b"GGUF"})
    with pytest.raises(UserError, match=r"lacks tinyweights/model\.gguf.*tinyweights/other\.gguf"):
        models.resolve("m", ROW, tmp_path / "m")


def test_a_truncated_gguf_is_named_with_size_and_both_checksums(index, tmp_path):
    wheel(index, {"tinyweights/model.gguf": b"GGUF" * 10})
    with pytest.raises(UserError) as caught:
        models.resolve("m", ROW, tmp_path / "m")
    message = str(caught.value)
    for part in ("model.gguf", "40 bytes", "expected " + "a" * 64):
        assert part in message
    assert [path.name for path in (tmp_path / "m").iterdir()] == []  # nothing half made


def test_a_truncated_wheel_is_named(tmp_path):
    from draftscope.models.package_gguf import extract

    path = wheel(tmp_path / "w", {"tinyweights/model.gguf": bytes(5000)})
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(UserError, match=r"tinyweights-1\.0.*\(3000 bytes\) is damaged"):
        extract("m", path, ROW["file"], tmp_path)


def test_case_8_probes_must_agree():
    tokenizer = tiny_tokenizer()
    text = "Café déjà vu — 123"
    right = tokenizer.encode(text, add_special_tokens=False)
    gguf.check_probes("m", tokenizer, {text: right})
    with pytest.raises(UserError, match="Café déjà vu"):
        gguf.check_probes("m", tokenizer, {text: right[:-1] + [9]})
    with pytest.raises(UserError, match="tokenizer_probes"):
        gguf.check_probes("m", tokenizer, {})


def test_case_8_digits_are_split_as_the_file_says():
    text = "x  10"
    plain, digits = tiny_tokenizer(), tiny_tokenizer()
    gguf._restore_pre_tokenizer(plain, "gpt-2")
    gguf._restore_pre_tokenizer(digits, "smollm")
    pieces = [t.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text) for t in (plain, digits)]
    assert [piece for piece, _ in pieces[0]] == ["x", "Ġ", "Ġ10"]
    assert [piece for piece, _ in pieces[1]] == ["x", "ĠĠ", "1", "0"]


@pytest.mark.slow
def test_the_laptop_model_resolves_and_runs(tmp_path):
    """Downloads the package, converts it, loads it and its 3-bit copy (a minute or two)."""
    from draftscope.prompts import render

    registry = yaml.safe_load(REGISTRY.read_text(encoding="utf-8"))
    row = registry["smollm2-135m"]
    record = models.resolve("smollm2-135m", row, tmp_path / "smollm2-135m")
    assert not list((tmp_path / "smollm2-135m").glob(".*making-*"))
    target = models.load(tmp_path / "smollm2-135m" / "model.json", "cpu")
    assert (target.vocabulary_size, target.head_size, target.eos_ids) == (49152, 49152, {2})
    assert target.quantization == "Q4_1, dequantized" and target.dtype == "float32"
    assert row["sha256"] in record["revision"]
    prompt = {
        "prompt_id": "p",
        "text": "What is the capital of France?",
        "messages_json": '[{"role": "user", "content": "What is the capital of France?"}]',
    }
    rendered = render(target, prompt, {"chat_template": True})
    ids = torch.tensor([rendered.token_ids])
    with torch.inference_mode():
        output = target.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12)
    assert "Paris" in target.tokenizer.decode(output[0, ids.shape[1] :])

    settings = registry["smollm2-135m-3bit"]
    models.resolve("smollm2-135m-3bit", settings, tmp_path / "smollm2-135m-3bit", record)
    draft = models.load(tmp_path / "smollm2-135m-3bit" / "model.json", "cpu")
    with torch.inference_mode():
        matches = target.model(output).logits.argmax(-1) == draft.model(output).logits.argmax(-1)
    share = matches.float().mean()
    assert 0.2 < share < 1.0, share
