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


def asked(**prompts):
    """Prompts with the experiment's own rendering: id = token ids."""
    return [(name, rendered(*ids)) for name, ids in prompts.items()]


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
    own = asked(p0=(0, 30), p1=(0, 31), p2=(0, 32))
    imported = read(tiny, path, budget=200, samples=2, prompts=own)
    found = imported.rows
    assert not imported.retokenized
    assert (imported.prompts_differ, imported.cut, imported.skipped) == (0, 0, 0)
    hashed = [row | {"rendered_sha256": None} for row in found]
    assert hashed == [row | {"rendered_sha256": None} for row in rows]
    records.write(tmp_path / "out.parquet", found, "trajectories", {})
    assert len(found[0]["rendered_sha256"]) == 64


def test_text_is_tokenized_with_the_targets_tokenizer(tiny, tmp_path):
    path = jsonl(
        tmp_path / "x.jsonl", {"prompt_id": "a", "prompt": "<s>the 🙂", "text": " the rest</s>"}
    )
    imported = read(tiny, path, budget=50)
    (row,) = imported.rows
    assert imported.retokenized and imported.prompts_differ is None
    assert row["prompt_token_ids"][0] == 0 and row["prompt_token_ids"].count(0) == 1
    assert tiny.tokenizer.decode(row["prompt_token_ids"]) == "<s>the 🙂"
    assert (row["text"], row["stop_reason"], row["stop_token_id"]) == (" the rest</s>", "eos", 1)


def test_only_the_prompts_of_the_shard_are_taken_in_its_order(tiny, tmp_path, caplog):
    path = jsonl(tmp_path / "x.jsonl", *[ROW | {"prompt_id": name} for name in "abcd"])
    with caplog.at_level("INFO"):
        imported = read(tiny, path, prompts=asked(c=(0, 40), a=(0, 40)))
    assert [row["prompt_id"] for row in imported.rows] == ["c", "a"]
    assert imported.ignored == 2
    assert "x.jsonl: 2 prompts were not asked for and are ignored" in caplog.text
    assert len(read(tiny, path).rows) == 4


def test_prompts_unlike_the_experiments_own_are_counted_and_named(tiny, tmp_path, caplog):
    path = jsonl(
        tmp_path / "x.jsonl",
        *[ROW | {"prompt_id": name, "sample": n} for name in "abc" for n in (0, 1)],
    )
    own = asked(a=(0, 40), b=(0, 41), c=(0, 40, 41))
    imported = read(tiny, path, samples=2, prompts=own)
    assert imported.prompts_differ == 2
    assert "2 prompts are not what the experiment's template renders, first b" in caplog.text
    assert {row["rendered_sha256"] == "0" * 64 for row in imported.rows[:2]} == {True}
    assert {row["rendered_sha256"] == "0" * 64 for row in imported.rows[2:]} == {False}
    assert [row["prompt_token_ids"] for row in imported.rows] == [[0, 40]] * 6
    caplog.clear()
    assert read(tiny, path, samples=2, prompts=own[:1]).prompts_differ == 0
    assert "template" not in caplog.text


def test_text_longer_than_the_budget_when_tokenized_again_is_cut(tiny, tmp_path, caplog):
    texts = {"a": "zqzqzqzqzq", "b": "the"}
    path = jsonl(
        tmp_path / "x.jsonl",
        *[{"prompt_id": name, "prompt": "<s>x", "text": text} for name, text in texts.items()],
    )
    imported = read(tiny, path, budget=4)
    first, second = imported.rows
    whole = tiny.tokenizer(texts["a"], add_special_tokens=False)["input_ids"]
    assert len(whole) > 4 and first["token_ids"] == whole[:4]
    assert (first["stop_reason"], first["budget"], first["text"]) == ("budget", 4, "zqzq")
    assert second["text"] == "the" and imported.cut == 1
    assert "1 texts have more than 4 tokens when tokenized again" in caplog.text


def test_trajectories_longer_than_the_context_are_skipped(tiny, tmp_path):
    room = tiny.max_positions
    path = jsonl(
        tmp_path / "x.jsonl",
        ROW | {"prompt_token_ids": [0] + [40] * (room - 3)},
        ROW | {"prompt_id": "b", "prompt_token_ids": [0] + [40] * (room - 4)},
        ROW | {"prompt_id": "c", "prompt_token_ids": [0] + [40] * (room - 1)},
    )
    long, fits, full = (imported := read(tiny, path)).rows
    assert (long["status"], long["token_ids"], imported.skipped) == ("skipped", [], 2)
    assert long["reason"] == (
        f"its {room - 2} tokens and the 3 generated ones are more than the model's context of "
        f"{room}"
    )
    assert full["reason"] == f"its {room} tokens fill the model's context"
    assert fits["status"] == "ok"


def test_prompts_that_nobody_can_continue_need_no_row(tiny, tmp_path, caplog):
    path = jsonl(tmp_path / "x.jsonl", ROW)
    own = asked(a=(0, 40), empty=(), full=(0, *[40] * tiny.max_positions))
    rows = read(tiny, path, prompts=own).rows
    assert [(row["prompt_id"], row["status"]) for row in rows] == [
        ("a", "ok"),
        ("empty", "skipped"),
        ("full", "skipped"),
    ]
    assert "prompt empty skipped: empty prompt" in caplog.text
    records.write(tmp_path / "out.parquet", rows, "trajectories", {})


def test_a_text_cut_short_of_the_budget_ends_where_it_ends(tiny, tmp_path, caplog):
    path = jsonl(tmp_path / "x.jsonl", ROW | {"token_ids": [50, 51]})
    (row,) = read(tiny, path).rows
    assert (row["budget"], row["stop_reason"], row["stop_token_id"]) == (2, "budget", None)
    assert "1 of 1 texts end before the budget without an end-of-text token" in caplog.text


def test_empty_prompts_and_texts_are_skipped_with_a_reason(tiny, tmp_path):
    path = jsonl(
        tmp_path / "x.jsonl",
        ROW | {"prompt_token_ids": []},
        ROW | {"prompt_id": "b", "token_ids": []},
        ROW | {"prompt_id": "c", "prompt_token_ids": [0]},
    )
    imported = read(tiny, path)
    assert [(row["status"], row["reason"]) for row in imported.rows] == [
        ("skipped", "empty prompt"),
        ("skipped", "no generated tokens"),
        ("skipped", "empty prompt"),
    ]
    assert imported.skipped == 3


@pytest.mark.parametrize("torn", [b'{"prompt_id": "b", "prompt_tok', b'{"prompt_id": "\xf0\x9f'])
def test_case_63_a_torn_last_line_is_dropped_and_said(tiny, tmp_path, caplog, torn):
    path = jsonl(tmp_path / "x.jsonl", ROW)
    path.write_bytes(path.read_bytes() + torn)
    assert [row["prompt_id"] for row in read(tiny, path).rows] == ["a"]
    assert "x.jsonl:2: dropped a torn last line" in caplog.text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (['{"prompt_id": "b", "prompt_tok', ROW], r"x.jsonl:1: not valid JSON"),
        ([ROW, "[1, 2]"], "x.jsonl:2: expected a JSON object, found list"),
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
        (
            [ROW | {"prompt_token_ids": [40]}],
            r"x.jsonl:1: prompt a does not begin with a beginning-of-text token \(id 0 of tiny\)",
        ),
        (
            [{"prompt_id": "a", "prompt": "the", "text": "y"}],
            "x.jsonl:1: prompt a does not begin with a beginning-of-text token",
        ),
        (
            ['{"prompt_id": "a", "prompt": "<s>x", "text": "\\ud83d"}'],
            "x.jsonl:1: 'text' holds half",
        ),
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
    with pytest.raises(UserError, match="prompt a begins with two beginning-of-text tokens"):
        read(tiny, path)


def test_missing_prompts_and_files_are_named(tiny, tmp_path):
    path = jsonl(tmp_path / "x.jsonl", ROW)
    with pytest.raises(UserError, match="x.jsonl lacks prompt z, sample 0"):
        read(tiny, path, prompts=asked(a=(0, 40), z=(0, 40)))
    with pytest.raises(UserError, match="x.jsonl lacks prompt a, sample 1"):
        read(tiny, path, samples=2)
    with pytest.raises(UserError, match="nowhere.jsonl does not exist"):
        read(tiny, tmp_path / "nowhere.jsonl")
    damaged = tmp_path / "x.parquet"
    damaged.write_bytes(b"PAR1 torn")
    with pytest.raises(UserError, match="x.parquet is damaged or not Parquet"):
        read(tiny, damaged)
    (tmp_path / "y.jsonl").write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(UserError, match="y.jsonl:1: byte 1 of the line .0xff. is not UTF-8"):
        read(tiny, tmp_path / "y.jsonl")


def test_ids_of_a_list_of_end_tokens_end_a_text(tiny, tmp_path):
    both = SimpleNamespace(**(vars(tiny) | {"eos_ids": frozenset({1, 60})}))
    path = jsonl(tmp_path / "x.jsonl", ROW | {"token_ids": [50, 60]})
    (row,) = read(both, path).rows
    assert (row["stop_reason"], row["stop_token_id"], row["budget"]) == ("eos", 60, 8)


def test_a_target_without_a_beginning_of_text_token_takes_any_first_id(tiny, tmp_path):
    without = SimpleNamespace(**(vars(tiny) | {"bos_id": None}))
    path = jsonl(tmp_path / "x.jsonl", ROW | {"prompt_token_ids": [40]})
    assert read(without, path).rows[0]["status"] == "ok"
