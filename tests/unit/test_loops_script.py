"""The script that finds loops: from shards of trajectories to a loops file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from draftscope import records

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model_json(tmp_path_factory):
    """A record of a local model that is nothing but its tokenizer."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    words = {"<end>": 0, "and": 1, " again": 2, "0": 3, " ": 4, "other": 5}
    tokenizer = Tokenizer(models.WordLevel(words | {f"word{i}": i for i in range(6, 200)}, "other"))
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    record = {"name": "m", "kind": "local", "revision": "r", "path": str(folder)}
    (folder / "model.json").write_text(json.dumps(record))
    return folder / "model.json"


def trajectory(prompt_id, token_ids, stop_reason, status="ok"):
    return {
        "prompt_id": prompt_id,
        "sample": 0,
        "status": status,
        "reason": None if status == "ok" else "empty prompt",
        "prompt_token_ids": [5],
        "token_ids": token_ids,
        "budget": 120,
        "stop_reason": stop_reason,
        "stop_token_id": 0 if stop_reason == "eos" else None,
        "rendered_sha256": "x",
        "text": "",
    }


def find_loops(folder, model, settings, rows):
    shards = []
    for index, part in enumerate((rows[:2], rows[2:])):
        shards.append(folder / f"{index:04d}.parquet")
        records.write(shards[-1], part, "trajectories", {"target": "m"})
    command = [sys.executable, str(ROOT / "scripts/find_loops.py")]
    command += ["--settings", json.dumps(settings), "--model", str(model)]
    command += ["--trajectories", *map(str, shards), "--output", str(folder / "loops.parquet")]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_script_reports_loops(tmp_path, model_json):
    words = list(range(10, 70))
    rows = [
        trajectory("text", words + [1, 2] * 30, "budget"),
        trajectory("digits", [*words[:30], *[3] * 40, 0], "eos"),
        trajectory("plain", words, "eos"),
        trajectory("none", [], None, "skipped"),
    ]
    done = find_loops(tmp_path, model_json, {}, rows)
    assert done.returncode == 0, done.stderr
    assert "3 texts, 2 end in a repetition, 1 of them at the length limit" in done.stderr
    table = records.read(tmp_path / "loops.parquet", "loops")
    found = {row["prompt_id"]: row for row in table.to_pylist()}
    assert set(found) == {"text", "digits", "plain"}
    text = found["text"]
    assert (text["onset"], text["period"], text["repeats"], text["kind"]) == (60, 2, 30.0, "text")
    assert text["loop_problem"] and text["tokens"] == 120
    assert (found["digits"]["kind"], found["digits"]["loop_problem"]) == ("digits", False)
    assert found["plain"]["onset"] is None and found["plain"]["kind"] is None
    condition = records.condition(tmp_path / "loops.parquet")
    assert condition["target"] == "m"
    assert condition["loop_settings"] == {"max_period": 1024, "min_repeats": 3, "min_span": 32}


def test_script_refuses_unknown_settings(tmp_path, model_json):
    rows = [trajectory(name, [1], "budget") for name in "abc"]
    done = find_loops(tmp_path, model_json, {"min_repeat": 4}, rows)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: unknown loop setting min_repeat")
    assert not (tmp_path / "loops.parquet").exists()
