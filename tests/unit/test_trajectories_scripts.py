"""The command lines of generation, import and scoring, on tiny models and real files."""

import json
import logging
import sys

import generate
import import_trajectories
import pytest
import score
import torch
from draftscope import models, records
from draftscope.errors import UserError
from tiny import tiny_model_folder

LAW = {"temperature": 0.7, "top_k": 0, "top_p": 1.0}
COMPUTE = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 1}
GENERATE = COMPUTE | {
    "domain": "math",
    "mode": "warm",
    "law": LAW,
    "samples": 2,
    "budget": 6,
    "template": {"chat_template": True},
    "batch_size": 2,
    "engine": "static",
    "seed": 3,
}
SCORE = COMPUTE | {
    "domain": "math",
    "mode": "warm",
    "laws": {"decoding": LAW, "unwarped": LAW | {"temperature": 1.0}},
    "drafts": [{"name": "draft", "allow_special_differences": False}],
    "position_chunk": 4,
    "max_disagreement": 0.01,
}
IDS = ["p0", "p1", "p2"]


@pytest.fixture(autouse=True)
def settings_of_torch():
    """The scripts prefer deterministic kernels; that is a setting of the whole process."""
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Prompts, a target and a draft, as the rules above leave them."""
    folder = tmp_path_factory.mktemp("experiment")
    for seed, name in enumerate(("target", "draft")):
        path = tiny_model_folder(folder / f"{name}-files", seed=seed)
        models.resolve(name, {"kind": "local", "path": str(path)}, folder / name)
    lookup = {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1}
    models.resolve("lookup", lookup, folder / "lookup")
    rows = [
        {
            "prompt_id": name,
            "domain": "math",
            "source_row": str(n),
            "messages_json": json.dumps([{"role": "user", "content": "one " * (n + 1)}]),
            "text": "one " * (n + 1),
            "answer": None,
            "checker": None,
            "language": "en",
            "split": "evaluation",
        }
        for n, name in enumerate(IDS)
    ]
    records.write(folder / "prompts.parquet", rows, "prompts", {"domain": "math"})
    return folder


def run(monkeypatch, script, settings, **paths):
    words = [f"--{name}" for name in paths]
    arguments = [
        word for pair in zip(words, map(str, paths.values()), strict=True) for word in pair
    ]
    line = [script.__name__, "--settings", json.dumps(settings), *arguments]
    monkeypatch.setattr(sys, "argv", line)
    script.main()


def run_generate(monkeypatch, folder, output, **changes):
    run(
        monkeypatch,
        generate,
        GENERATE | changes,
        model=folder / "target/model.json",
        prompts=folder / "prompts.parquet",
        output=output,
    )
    return records.read(output, "trajectories", IDS)


def run_score(monkeypatch, folder, trajectories, output, names=("draft",), **changes):
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "score.py",
            *("--settings", json.dumps(SCORE | changes)),
            *("--target", str(folder / "target/model.json"), "--drafts"),
            *(str(folder / name / "model.json") for name in names),
            *("--trajectories", str(trajectories), "--output", str(output)),
            *("--prompts", str(folder / "prompts.parquet")),
        ],
    )
    score.main()
    return records.read(output, "scores", IDS)


def test_a_shard_is_generated_and_scored_with_its_condition(monkeypatch, folder, tmp_path):
    path = tmp_path / "trajectories.parquet"
    table = run_generate(monkeypatch, folder, path)
    assert table.num_rows == 6
    condition = records.condition(path)
    expected = {"target": "target", "law": LAW, "batch_size": 2, "engine": "static"}
    expected |= {"domain": "math", "mode": "warm", "template": {"chat_template": True}}
    expected |= {"dtype": "float32", "device_type": "cpu", "attention": "sdpa"}
    assert {key: condition[key] for key in expected} == expected
    assert records.provenance(path)["seed"] == 3

    scores = tmp_path / "scores.parquet"
    table = run_score(monkeypatch, folder, path, scores)
    assert table.num_rows == 12
    condition = records.condition(scores)
    assert {key: condition[key] for key in expected} == expected
    assert condition["drafts"]["draft"]["draft_dtype"] == "float32"
    assert (condition["scoring_dtype"], condition["laws"]) == ("float32", SCORE["laws"])
    assert records.provenance(scores)["target_disagreement_share"] == 0


@pytest.mark.parametrize("template", [{"chat_template": True}, {"chat_template": False}])
def test_case_20_empty_prompts_are_skipped_under_any_template(
    monkeypatch, folder, tmp_path, caplog, template
):
    rows = records.read(folder / "prompts.parquet", "prompts").to_pylist()
    for row, text in zip(rows, ("", " \n", "one"), strict=True):
        row["text"] = text
        row["messages_json"] = json.dumps([{"role": "user", "content": text}])
    records.write(tmp_path / "prompts.parquet", rows, "prompts", {"domain": "math"})
    run(
        monkeypatch,
        generate,
        GENERATE | {"template": template, "samples": 1},
        model=folder / "target/model.json",
        prompts=tmp_path / "prompts.parquet",
        output=tmp_path / "t.parquet",
    )
    found = records.read(tmp_path / "t.parquet", "trajectories", IDS).to_pylist()
    empty = ("skipped", "empty prompt", [])
    assert [(row["status"], row["reason"], row["token_ids"]) for row in found[:2]] == [empty] * 2
    assert found[2]["status"] == "ok" and found[2]["token_ids"]
    assert "prompt p1 skipped: empty prompt" in caplog.text


def test_case_63_a_second_run_gives_the_same_data(monkeypatch, folder, tmp_path):
    first = run_generate(monkeypatch, folder, tmp_path / "a.parquet")
    second = run_generate(monkeypatch, folder, tmp_path / "b.parquet")
    assert first.to_pylist() == second.to_pylist()
    assert records.condition(first) == records.condition(second)


def test_imported_ids_take_the_place_of_generated_ones(monkeypatch, folder, tmp_path):
    generated = run_generate(monkeypatch, folder, tmp_path / "a.parquet").to_pylist()
    dump = tmp_path / "dump.jsonl"
    keys = ("prompt_id", "sample", "prompt_token_ids", "token_ids")
    lines = [json.dumps({key: row[key] for key in keys}) for row in generated]
    dump.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = tmp_path / "imported.parquet"
    run(
        monkeypatch,
        import_trajectories,
        {key: GENERATE[key] for key in ("domain", "mode", "law", "samples", "budget", "template")},
        model=folder / "target/model.json",
        trajectories=dump,
        prompts=folder / "prompts.parquet",
        output=path,
    )
    assert records.read(path, "trajectories", IDS).to_pylist() == generated
    condition = records.condition(path)
    assert (condition["engine"], condition["retokenized"]) == ("imported", False)
    assert "dtype" not in condition
    provenance = records.provenance(path)
    assert (provenance["prompts_differ"], provenance["trajectories_skipped"]) == (0, 0)
    own = run_score(monkeypatch, folder, tmp_path / "a.parquet", tmp_path / "own.parquet")
    found = run_score(monkeypatch, folder, path, tmp_path / "scores.parquet")
    assert found.to_pylist() == own.to_pylist()


def test_imported_prompts_are_compared_with_the_experiments_template(
    monkeypatch, folder, tmp_path, caplog
):
    dump = tmp_path / "dump.jsonl"
    own = run_generate(monkeypatch, folder, tmp_path / "a.parquet", samples=1).to_pylist()
    own[1]["prompt_token_ids"].append(7)
    keys = ("prompt_id", "prompt_token_ids", "token_ids")
    dump.write_text("".join(json.dumps({k: row[k] for k in keys}) + "\n" for row in own))
    settings = {key: GENERATE[key] for key in ("domain", "mode", "law", "budget", "template")}
    files = {"model": folder / "target/model.json", "trajectories": dump}
    files |= {"prompts": folder / "prompts.parquet", "output": tmp_path / "i.parquet"}
    run(monkeypatch, import_trajectories, settings | {"samples": 1}, **files)
    assert records.provenance(tmp_path / "i.parquet")["prompts_differ"] == 1
    assert "1 prompts are not what the experiment's template renders, first p1" in caplog.text
    raw = settings | {"samples": 1, "template": {"chat_template": False}}
    run(monkeypatch, import_trajectories, raw, **files)
    assert records.provenance(tmp_path / "i.parquet")["prompts_differ"] == 3


def test_prompt_lookup_in_a_group_is_left_to_its_own_proposer(
    monkeypatch, folder, tmp_path, caplog
):
    path = tmp_path / "trajectories.parquet"
    run_generate(monkeypatch, folder, path)
    rows = [{"name": name, "allow_special_differences": False} for name in ("draft", "lookup")]
    with caplog.at_level(logging.INFO):
        table = run_score(
            monkeypatch, folder, path, tmp_path / "s.parquet", ("draft", "lookup"), drafts=rows
        )
    assert set(table.column("draft").to_pylist()) == {"draft"}
    assert "lookup is replayed from the text" in caplog.text


def test_case_65_a_shard_that_lacks_a_prompt_is_refused(monkeypatch, folder, tmp_path):
    path = tmp_path / "trajectories.parquet"
    table = run_generate(monkeypatch, folder, path)
    records.write(path, table.slice(2), "trajectories", records.condition(table))
    with pytest.raises(UserError, match="not complete: it lacks prompt p0"):
        run_score(monkeypatch, folder, path, tmp_path / "s.parquet")


def test_texts_of_another_target_or_an_unnamed_draft_are_refused(monkeypatch, folder, tmp_path):
    path = tmp_path / "trajectories.parquet"
    table = run_generate(monkeypatch, folder, path)
    with pytest.raises(UserError, match="draft/model.json is draft draft, which the settings"):
        run_score(monkeypatch, folder, path, tmp_path / "s.parquet", drafts=[])
    other = records.condition(table) | {"target_revision": "older"}
    records.write(path, table, "trajectories", other)
    with pytest.raises(UserError, match="was generated with target_revision older, but"):
        run_score(monkeypatch, folder, path, tmp_path / "s.parquet")


def test_texts_outside_the_law_fail_the_shard(monkeypatch, folder, tmp_path):
    path = tmp_path / "trajectories.parquet"
    run_generate(monkeypatch, folder, path)
    laws = SCORE["laws"] | {"decoding": LAW | {"temperature": 0.0}}
    with pytest.raises(UserError, match="the decoding law excludes .* first in prompt p0"):
        run_score(monkeypatch, folder, path, tmp_path / "s.parquet", laws=laws)
    assert not (tmp_path / "s.parquet").exists()
