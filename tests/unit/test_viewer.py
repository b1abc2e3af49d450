"""The token viewer shows every token once, whole characters only, and the right role."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from draftscope import records
from draftscope.exhibits import viewer
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_tokenizer
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

ROOT = Path(__file__).parents[2]
TEXT = "naïve 🙂 中文 — x = 1\n\tend"


def sentencepiece_like() -> PreTrainedTokenizerFast:
    """Pieces with ▁ for a space and byte pieces for everything else."""
    pieces = ["<unk>", "<s>", "▁", "▁hello", "a", "b"] + [f"<0x{n:02X}>" for n in range(256)]
    backend = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [], byte_fallback=True))
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>")


@pytest.fixture(scope="module")
def byte_level():
    return tiny_tokenizer(bos="none")


def test_case_6_a_character_split_over_tokens_is_one_partial_span(byte_level):
    ids = byte_level("🙂 中", add_special_tokens=False)["input_ids"]
    spans = viewer.text_spans(viewer.token_bytes(byte_level, ids))
    assert [text for text, _ in spans] == ["🙂", " ", "中"]
    assert [len(places) for _, places in spans] == [4, 1, 3]


def test_byte_level_spans_join_to_the_decoded_text(byte_level):
    ids = byte_level(TEXT, add_special_tokens=False)["input_ids"]
    pieces = viewer.token_bytes(byte_level, ids)
    whole = byte_level.decode(ids, clean_up_tokenization_spaces=False)
    assert "".join(text for text, _ in viewer.text_spans(pieces)) == whole == TEXT


def test_sentencepiece_bytes_and_spaces():
    tokenizer = sentencepiece_like()
    ids = tokenizer.convert_tokens_to_ids(["▁hello", "<0xE4>", "<0xB8>", "<0xAD>", "▁", "a"])
    pieces = viewer.token_bytes(tokenizer, ids)
    spans = viewer.text_spans(pieces)
    assert spans == [(" hello", [0]), ("中", [1, 2, 3]), (" ", [4]), ("a", [5])]
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == " hello中 a"


def test_special_tokens_are_shown_literally(byte_level):
    tokenizer = tiny_tokenizer()
    ids = [tokenizer.bos_token_id, *tokenizer("hi", add_special_tokens=False)["input_ids"]]
    text = "".join(text for text, _ in viewer.text_spans(viewer.token_bytes(tokenizer, ids)))
    assert text == tokenizer.bos_token + "hi"
    with pytest.raises(ValueError, match="not in the vocabulary"):
        viewer.token_bytes(tokenizer, [10**6])


def test_case_6_invalid_bytes_are_hexadecimal_never_a_replacement_character():
    assert viewer.text_spans([b"a\xe2", b"b", b"\xff", b"\xe2\x82"]) == [
        ("a⟨E2⟩b", [0, 1]),
        ("⟨FF⟩", [2]),
        ("⟨E2⟩⟨82⟩", [3]),
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=0, max_size=5), max_size=12), st.text(max_size=10))
def test_every_token_is_in_one_span(pieces, text):
    data = text.encode("utf-8", "ignore")
    pieces = [*pieces, *(data[n : n + 1] for n in range(len(data)))]
    spans = viewer.text_spans(pieces)
    assert [place for _, places in spans for place in places] == list(range(len(pieces)))
    joined = "".join(text for text, _ in spans)
    assert joined.count("\ufffd") == text.count("\ufffd")


def a_round(number, start, offered, accepted, emitted, end="continue"):
    return {
        "prompt_id": "a", "sample": 0, "draft_length": 3, "source": "replay", "rule": "greedy",
        "lossless": True, "round": number, "start": start, "offered": offered,
        "accepted": accepted, "emitted": emitted, "end": end,
    }  # fmt: skip


ROUNDS = [
    a_round(0, 0, 3, 2, 3),  # two accepted, then a correction
    a_round(1, 3, 3, 3, 4),  # all accepted and a bonus
    a_round(2, 7, 0, 0, 1),  # nothing was drafted
    a_round(3, 8, 2, 2, 2, "eos"),  # an accepted end of text: no bonus
]
EXPECTED = ["accepted", "accepted", "correction", "accepted", "accepted", "accepted", "bonus",
            "not drafted", "accepted", "accepted"]  # fmt: skip


def test_roles_follow_from_the_rounds():
    found = viewer.roles(ROUNDS, 10)
    assert [role for role, _ in found] == EXPECTED
    assert [number for _, number in found] == [0, 0, 0, 1, 1, 1, 1, 2, 3, 3]
    assert viewer.roles([], 1) == [("not drafted", None)]
    with pytest.raises(ValueError, match="position 9"):
        viewer.roles(ROUNDS, 9)


def trajectory(tokenizer, text="hello wor"):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    ids = (ids * 10)[:10]
    return {
        "prompt_id": "a", "sample": 0, "status": "ok", "reason": None,
        "prompt_token_ids": tokenizer("<b>say 中", add_special_tokens=False)["input_ids"],
        "token_ids": ids, "budget": 10, "stop_reason": "budget", "stop_token_id": None,
        "rendered_sha256": "0", "text": tokenizer.decode(ids),
    }  # fmt: skip


def score_row(row):
    count = len(row["token_ids"])
    values = {name: [0.0] * count for name in (
        "overlap", "target_entropy", "draft_entropy", "kl", "log_q_target_argmax", "top2_gap",
        "uncommon_mass")}  # fmt: skip
    return values | {
        "prompt_id": "a", "sample": 0, "draft": "small", "law": "decoding",
        "token_ids": row["token_ids"], "log_p": [math.log(0.5)] * count,
        "log_q": [-math.inf] * count, "target_argmax": row["token_ids"],
        "draft_argmax": [row["token_ids"][0]] * count, "draft_rank": [0] * count,
        "target_disagreement": [False] * count,
    }  # fmt: skip


def test_a_view_has_probabilities_and_the_draft_at_corrections(byte_level):
    row = trajectory(byte_level)
    shown = viewer.view(byte_level, row, ROUNDS, score_row(row), most_tokens=100)
    tokens = [token for span in shown["spans"] for token in span["tokens"]]
    assert shown["prompt"] == "<b>say 中" and shown["shown"] == shown["tokens"] == 10
    assert [token["role"] for token in tokens] == EXPECTED
    assert {(token["p"], token["q"]) for token in tokens} == {(0.5, 0.0)}
    assert [token["draft"] is not None for token in tokens] == [n == 2 for n in range(10)]
    half = viewer.view(byte_level, row, ROUNDS, {"log_p": [0.0] * 10}, 100)["spans"][2]["tokens"][0]
    assert (half["p"], half["q"], half["draft"]) == (1.0, None, None)
    assert viewer.view(byte_level, row, ROUNDS, None, 100)["spans"][0]["tokens"][0]["p"] is None
    assert viewer.view(byte_level, row, ROUNDS, None, 4)["shown"] == 4


def test_the_command_joins_the_files(tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path / "model" / "weights")
    record = {"name": "big", "kind": "gguf", "revision": "1"}
    (tmp_path / "model" / "model.json").write_text(json.dumps(record))
    row = trajectory(tokenizer)
    skipped = row | {"prompt_id": "0", "status": "skipped", "reason": "empty", "token_ids": [],
                     "prompt_token_ids": [], "stop_reason": None}  # fmt: skip
    condition = {"target": "big", "target_revision": "1", "domain": "math", "mode": "greedy"}
    records.write(tmp_path / "t.parquet", [skipped, row], "trajectories", condition)
    drafted = condition | {"draft": "small", "rule": "greedy", "law": {"temperature": 0.0}}
    records.write(tmp_path / "r.parquet", ROUNDS, "rounds", drafted)
    other = drafted | {"draft": "lookup"}
    records.write(tmp_path / "l.parquet", ROUNDS, "rounds", other)
    records.write(tmp_path / "s.parquet", [score_row(row)], "scores", condition)
    command = [
        sys.executable, str(ROOT / "scripts" / "viewer.py"), "--settings", '{"draft_length": 3}',
        "--models", str(tmp_path / "model" / "model.json"),
        "--trajectories", str(tmp_path / "t.parquet"),
        "--rounds", str(tmp_path / "r.parquet"), str(tmp_path / "l.parquet"),
        "--scores", str(tmp_path / "s.parquet"), "--output", str(tmp_path / "v.json"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    group, lookup = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))["groups"]
    assert (group["draft"], group["domain"], group["draft_length"]) == ("small", "math", 3)
    assert group["views"][0]["prompt_id"] == "a"
    assert group["views"][0]["spans"][0]["tokens"][0]["p"] == 0.5
    token = lookup["views"][0]["spans"][0]["tokens"][0]
    assert (lookup["draft"], token["p"], token["q"]) == ("lookup", 0.5, None)
    command[3] = '{"draft_lengths": 3}'
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert refused.returncode == 2 and "draft_lengths" in refused.stderr
