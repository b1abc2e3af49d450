"""Shards are checked against their prompts before anything is replayed or searched for loops."""

import json
import sys

import find_loops
import pytest
import replay_rounds
from draftscope import records
from draftscope.errors import UserError
from draftscope.prompts.digests import digests

CONDITION = {"target": "m", "domain": "d", "mode": "greedy"}
REPLAY = {
    "pair": "m-lookup", "domain": "d", "mode": "greedy", "draft": "lookup",
    "draft_settings": {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1},
    "draft_lengths": [3, 5], "law": {"temperature": 0.0, "top_k": 0, "top_p": 1.0}, "seed": 4,
}  # fmt: skip


def prompt(name):
    return {
        "prompt_id": name, "domain": "d", "source_row": name, "messages_json": "[]", "text": name,
        "answer": None, "checker": None, "language": "en", "split": "evaluation",
    }  # fmt: skip


def trajectory(name):
    return {
        "prompt_id": name, "sample": 0, "status": "ok", "reason": None, "prompt_token_ids": [5, 6],
        "token_ids": [5, 6, 7, 8], "budget": 4, "stop_reason": "budget", "stop_token_id": None,
        "rendered_sha256": "x", "text": "",
    }  # fmt: skip


@pytest.fixture
def files(tmp_path):
    """Two shards of two prompts; the second lacks its last trajectory."""
    paths = {"trajectories": [], "prompts": []}
    for place, names in enumerate(("ab", "cd")):
        for kind, make in (("trajectories", trajectory), ("prompts", prompt)):
            paths[kind].append(str(tmp_path / f"{kind}{place}.parquet"))
            rows = [make(name) for name in names if (kind, name) != ("trajectories", "d")]
            records.write(paths[kind][-1], rows, kind, CONDITION)
    return tmp_path, paths


def call(monkeypatch, script, folder, paths, *also):
    outputs = {
        find_loops: ["--model", "none", "--output", f"{folder}/out.parquet"],
        replay_rounds: ["--settings", json.dumps(REPLAY), "--rounds", f"{folder}/out.parquet",
                        "--expected", f"{folder}/expected.parquet"],
    }  # fmt: skip
    line = [script.__name__, *outputs[script], "--trajectories", *paths["trajectories"], *also]
    monkeypatch.setattr(sys, "argv", line)
    script.main()
    return records.read(folder / "out.parquet", "loops" if script is find_loops else "rounds")


@pytest.mark.parametrize("script", [find_loops, replay_rounds], ids=["loops", "rounds"])
def test_case_65_a_shard_that_lacks_a_prompt_is_refused(files, monkeypatch, script):
    folder, paths = files
    given = ["--prompts", *paths["prompts"]]
    with pytest.raises(UserError, match="trajectories1.parquet is not complete: it lacks prompt d"):
        call(monkeypatch, script, folder, paths, *given)
    assert not (folder / "out.parquet").exists()
    with pytest.raises(UserError, match="trajectories0.parquet is not complete.* holds foreign"):
        call(monkeypatch, script, folder, paths, "--prompts", *reversed(paths["prompts"]))
    with pytest.raises(UserError, match="--prompts: 1 files for 2 shards of trajectories"):
        call(monkeypatch, script, folder, paths, *given[:2])
    # Without its prompts nobody can tell that the shard is short.
    whole = set(call(monkeypatch, script, folder, paths)["prompt_id"].to_pylist())
    assert whole == {"a", "b", "c"}
    records.write(paths["trajectories"][1], [*map(trajectory, "cd")], "trajectories", CONDITION)
    found = call(monkeypatch, script, folder, paths, *given)
    assert set(found["prompt_id"].to_pylist()) == {"a", "b", "c", "d"}
    if script is replay_rounds:
        assert records.prompt_digests(found) == digests(map(prompt, "abcd"))
