"""The two scripts as the workflow calls them."""

import json
import subprocess
import sys
from pathlib import Path

from draftscope import records

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run(script, *arguments):
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_collect_prompts_writes_one_shard(tmp_path):
    (tmp_path / "own.jsonl").write_text(
        "".join(json.dumps({"id": f"p{i}", "text": f"say {i}"}) + "\n" for i in range(6))
    )
    settings = {
        "domain": "own",
        "source": "jsonl",
        "file": str(tmp_path / "own.jsonl"),
        "evaluation": [0, 6],
        "template": {"chat_template": True},
    }
    output = tmp_path / "0001.parquet"
    arguments = ("--settings", json.dumps(settings), "--start", 2, "--stop", 4, "--output", output)
    answer = run("collect_prompts.py", *arguments)
    assert answer.returncode == 0, answer.stderr
    assert records.read(output, "prompts", ["p2", "p3"]).num_rows == 2
    assert records.condition(output)["domain"] == "own"


def test_bad_input_is_one_line_and_leaves_no_file(tmp_path):
    settings = {"domain": "own", "source": "jsonl", "file": "nowhere.jsonl", "evaluation": [0, 6]}
    output = tmp_path / "0000.parquet"
    arguments = ("--settings", json.dumps(settings), "--start", 0, "--stop", 2, "--output", output)
    answer = run("collect_prompts.py", *arguments)
    assert answer.returncode == 2
    assert answer.stderr == "error: domain own: prompt file nowhere.jsonl does not exist\n"
    assert not output.exists()


def test_fetch_model_writes_a_record(tmp_path):
    settings = json.dumps({"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1})
    output = tmp_path / "lookup" / "model.json"
    answer = run("fetch_model.py", "--name", "lookup", "--settings", settings, "--output", output)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(output.read_text())["revision"] == "prompt-lookup 1-3"
    bad = run("fetch_model.py", "--name", "m", "--settings", "{}", "--output", output)
    assert bad.returncode == 2 and bad.stderr.count("\n") == 1
