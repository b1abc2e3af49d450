"""Prompts that are longer than a study allows are cut where the tokenizer's own truncation cuts."""

import json
import subprocess
import sys

import pytest
from draftscope import records
from draftscope.checkpoints import load_tokenizer
from draftscope.prompts import render
from draftscope.prompts.cutting import RAW, Reader, cut
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_model_folder
from tiny_project import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_model_folder(tmp_path_factory.mktemp("cut") / "tiny")


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


def row(text: str) -> dict:
    return {
        "prompt_id": "p", "domain": "d", "source_row": "0", "text": text, "answer": None,
        "messages_json": json.dumps([{"role": "user", "content": text}]), "checker": None,
        "language": "en", "split": "evaluation",
    }  # fmt: skip


@pytest.mark.parametrize("bos", [False, True])
@settings(max_examples=30, deadline=None)
@given(
    text=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=60),
    most=st.integers(5, 12),
)
def test_a_cut_prompt_has_the_first_tokens_of_the_whole(tokenizer, bos, text, most):
    reader = Reader("tiny", tokenizer, tokenizer.bos_token_id if bos else None)
    whole = render(reader, row(text), RAW).token_ids
    found = cut(reader, row(text), most)
    kept = render(reader, found, RAW).token_ids
    assert kept == whole[: len(kept)]
    assert text.startswith(found["text"]) or tokenizer.bos_token in text
    assert json.loads(found["messages_json"])[0]["content"] == found["text"]
    if len(whole) <= most:
        assert found["text"] == text
    elif found["text"]:  # a character of several tokens stays whole; none has more than four bytes
        assert most - 3 <= len(kept) <= most
    else:
        assert not text[:most].strip()


def test_short_prompts_stay_as_they_are(tokenizer):
    reader = Reader("tiny", tokenizer, None)
    assert cut(reader, row("ab"), 8) == row("ab")


def test_a_beginning_of_white_space_leaves_nothing_to_ask(tokenizer):
    reader = Reader("tiny", tokenizer, tokenizer.bos_token_id)
    assert cut(reader, row(" " * 30 + "word"), 8)["text"] == ""


def test_the_command_cuts_a_shard(folder, tokenizer, tmp_path):
    record = {"name": "tiny", "kind": "local", "revision": "r", "path": str(folder)}
    records.write_json(tmp_path / "model.json", record)
    rows = [row("a b " * 40), row("short") | {"prompt_id": "q"}]
    records.write(tmp_path / "in.parquet", rows, "prompts", {"domain": "d"})
    command = [
        sys.executable, str(ROOT / "scripts/cut_prompts.py"), "--tokens", "16",
        "--model", str(tmp_path / "model.json"), "--prompts", str(tmp_path / "in.parquet"),
        "--output", str(tmp_path / "out.parquet"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 of 2 prompts cut to 16 tokens" in done.stderr
    first, second = records.read(tmp_path / "out.parquet", "prompts", ["p", "q"]).to_pylist()
    reader = Reader("tiny", tokenizer, tokenizer.bos_token_id)
    assert len(render(reader, first, RAW).token_ids) == 16
    assert second["text"] == "short"
    assert records.condition(tmp_path / "out.parquet")["prompt_tokens"] == 16
