"""Imported trajectories: what is read, what is refused, and where."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from draftscope import records
from draftscope.errors import UserError
from draftscope.imports import import_trajectories
from draftscope.trajectories import generate
from loading import load_tiny, rendered

ROW = {"prompt_id": "a", "prompt_token_ids": [0, 40], "token_ids": [50, 51, 1]}


@pytest.fixture(scope="module")
def tiny(tiny_folder):
    return load_tiny(tiny_folder)


def jsonl(path, *rows, end="\n"):
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def read(tiny, path, **changes):
    return import_trajectories(tiny, path, **({"budget": 8, "samples": 1} | changes))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_generated_rows_come_back_from_a_dump_of_their_ids(tiny, tmp_path, kind):
    rows = generate(
        tiny,
        [(f"p{n}", rendered(0, 30 + n)) for n in range(3)],
        law={"temperature": 3.0, "top_k": 0, "top_p": 1.0},
        budget=200,
        batch_size=3,
        samples=2,
        run_seed=1,
        domain="d",
    )
    assert {row["stop_reason"] for row in rows} == {"eos", "budget"}
    keys = ("prompt_id", "sample", "prompt_token_ids", "token_ids")
    dump = [{key: row[key] for key in keys} for row in reversed(rows)]
    path = tmp_path / f"dump.{kind}"
    if kind == "jsonl":
        jsonl(path, *dump)
    else:
        pq.write_table(pa.Table.from_pylist(dump), path)
    found, retokenized = read(tiny, path, budget=200, samples=2, prompt_ids=["p0", "p1", "p2"])
    assert not retokenized
    hashed = [row | {"rendered_sha256": None} for row in found]
    assert hashed == [row | {"rendered_sha256": None} for row in rows]
    records.write(tmp_path / "out.parquet", found, "trajectories", {})
    assert len(found[0]["rendered_sha256"]) == 64


def test_text_is_tokenized_with_the_targets_tokenizer(tiny, tmp_path):
    path = jsonl(
        tmp_path / "x.jsonl", {"prompt_id": "a", "prompt": "<s>the 🙂", "text": " the rest</s>"}
    )
    (row,), retokenized = read(tiny, path, budget=50)
    assert retokenized
    assert row["prompt_token_ids"][0] == 0 and row["prompt_token_ids"].count(0) == 1
    assert tiny.tokenizer.decode(row["prompt_token_ids"]) == "<s>the 🙂"
    assert (row["text"], row["stop_reason"], row["stop_token_id"]) == (" the rest</s>", "eos", 1)


def test_only_the_prompts_of_the_shard_are_taken_in_its_order(tiny, tmp_path):
    path = jsonl(tmp_path / "x.jsonl", *[ROW | {"prompt_id": name} for name in "abcd"])
    rows, _ = read(tiny, path, prompt_ids=["c", "a"])
    assert [row["prompt_id"] for row in rows] == ["c", "a"]
    assert len(read(tiny, path)[0]) == 4


def test_a_text_cut_short_of_the_budget_ends_where_it_ends(tiny, tmp_path, caplog):
    path = jsonl(tmp_path / "x.jsonl", ROW | {"token_ids": [50, 51]})
    (row,), _ = read(tiny, path)
    assert (row["budget"], row["stop_reason"], row["stop_token_id"]) == (2, "budget", None)
    assert "1 of 1 texts end before the budget without an end-of-text token" in caplog.text


def test_empty_prompts_and_texts_are_skipped_with_a_reason(tiny, tmp_path):
    path = jsonl(
        tmp_path / "x.jsonl",
        ROW | {"prompt_token_ids": []},
        ROW | {"prompt_id": "b", "token_ids": []},
    )
    rows, _ = read(tiny, path)
    assert [(row["status"], row["reason"]) for row in rows] == [
        ("skipped", "empty prompt"),
        ("skipped", "no generated tokens"),
    ]


@pytest.mark.parametrize("torn", [b'{"prompt_id": "b", "prompt_tok', b'{"prompt_id": "\xf0\x9f'])
def test_case_63_a_torn_last_line_is_dropped_and_said(tiny, tmp_path, caplog, torn):
    path = jsonl(tmp_path / "x.jsonl", ROW)
    path.write_bytes(path.read_bytes() + torn)
    assert [row["prompt_id"] for row in read(tiny, path)[0]] == ["a"]
    assert "x.jsonl:2: dropped a torn last line" in caplog.text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (['{"prompt_id": "b", "prompt_tok', ROW], r"x.jsonl:1: not valid JSON"),
        ([ROW, "[1, 2]"], "x.jsonl:2: expected an object, found list"),
        ([ROW, ROW], "x.jsonl:2: prompt a, sample 0 also stands in .*x.jsonl:1"),
        ([ROW | {"tokens": [1]}], "x.jsonl:1: unknown key 'tokens'; known: prompt, prompt_id"),
        ([ROW | {"prompt_id": 7}], "x.jsonl:1: prompt_id must be a non-empty string, not 7"),
        ([ROW | {"sample": -1}], "x.jsonl:1: sample must be an integer from 0, not -1"),
        ([ROW | {"sample": True}], "x.jsonl:1: sample must be an integer from 0, not True"),
        ([ROW | {"text": "x"}], "x.jsonl:1: a row holds either prompt_token_ids and token_ids"),
        ([{"prompt_id": "a", "text": "x"}], "x.jsonl:1: a row holds either"),
        ([ROW | {"token_ids": "12"}], "x.jsonl:1: token_ids must be a list of integers"),
        ([ROW | {"token_ids": [1.0]}], "x.jsonl:1: token_ids must be a list of integers"),
        ([ROW | {"token_ids": [4, 320]}], r"token_ids\[1\] is 320, outside .* tiny, 320 ids"),
        ([ROW | {"prompt_token_ids": [-1]}], r"prompt_token_ids\[0\] is -1"),
        ([ROW | {"token_ids": [5, 1, 6]}], "go on after an end-of-text token of tiny"),
        ([ROW | {"token_ids": [5] * 9}], "9 generated tokens, but the budget is 8"),
        ([ROW | {"sample": 1}], "x.jsonl lacks prompt a, sample 0"),
        (
            [ROW, {"prompt_id": "b", "prompt": "x", "text": "y"}],
            "token ids in some rows and text in others",
        ),
        ([{"prompt_id": "b", "prompt": "x", "text": 3}], "x.jsonl:1: text must be a string"),
    ],
)
def test_malformed_rows_are_refused_with_their_line(tiny, tmp_path, rows, message):
    with pytest.raises(UserError, match=message):
        read(tiny, jsonl(tmp_path / "x.jsonl", *rows))


def test_a_torn_line_is_not_excused_when_it_is_complete(tiny, tmp_path):
    """A last line that ends in a newline was written whole: it is malformed, not torn."""
    path = jsonl(tmp_path / "x.jsonl", ROW, '{"prompt_id": "b", "prompt_tok')
    with pytest.raises(UserError, match="x.jsonl:2: not valid JSON"):
        read(tiny, path)


def test_case_9_two_beginnings_of_text_are_refused(tiny, tmp_path):
    path = jsonl(tmp_path / "x.jsonl", ROW | {"prompt_token_ids": [0, 0, 40]})
    with pytest.raises(UserError, match="begins with two beginning-of-text tokens"):
        read(tiny, path)


def test_missing_prompts_and_files_are_named(tiny, tmp_path):
    path = jsonl(tmp_path / "x.jsonl", ROW)
    with pytest.raises(UserError, match="x.jsonl lacks prompt z, sample 0"):
        read(tiny, path, prompt_ids=["a", "z"])
    with pytest.raises(UserError, match="x.jsonl lacks prompt a, sample 1"):
        read(tiny, path, samples=2)
    with pytest.raises(UserError, match="nowhere.jsonl does not exist"):
        read(tiny, tmp_path / "nowhere.jsonl")
    damaged = tmp_path / "x.parquet"
    damaged.write_bytes(b"PAR1 torn")
    with pytest.raises(UserError, match="x.parquet is damaged or not Parquet"):
        read(tiny, damaged)
    (tmp_path / "y.jsonl").write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(UserError, match="y.jsonl:1: not valid JSON in UTF-8"):
        read(tiny, tmp_path / "y.jsonl")


def test_ids_of_a_list_of_end_tokens_end_a_text(tiny, tmp_path):
    both = SimpleNamespace(**(vars(tiny) | {"eos_ids": frozenset({1, 60})}))
    path = jsonl(tmp_path / "x.jsonl", ROW | {"token_ids": [50, 60]})
    (row,), _ = read(both, path)
    assert (row["stop_reason"], row["stop_token_id"], row["budget"]) == ("eos", 60, 8)
