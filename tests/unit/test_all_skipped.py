"""An experiment, or one of its domains, of which every prompt is skipped: tables that say so."""

import json
import sys
from pathlib import Path

import draft_choice
import find_loops
import position_exhibits
import position_measurements
import position_statistics
import pytest
import replay_rounds
import report
import score
import scorecard
import torch
import viewer
from draftscope import models, records
from draftscope.exhibits import published
from draftscope.exhibits.tables import read_table
from tiny import tiny_model_folder

CELLS = Path(__file__).parents[2] / "config" / "published" / "position.csv"
FILES = ("paired", "pooled", "curves", "quintiles", "halves")
PROTOCOL = {"draft_length": 5, "confidence": 0.95, "resamples": 100, "method": "studentized"}
RUN = {"target": "big", "drafts": {"same": "small"}, "modes": {"greedy": 0.0, "sample": 0.6}}
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
LOOKUP = {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1}
LENGTHS = [3, 5]


@pytest.fixture(autouse=True)
def settings_of_torch():
    """The scripts prefer deterministic kernels; that is a setting of the whole process."""
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


def call(script, *arguments):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
        script.main()


def trajectory(name, place, skipped):
    ids = [40 + (place + n) % 7 for n in range(30)]
    return {
        "prompt_id": name, "sample": 0, "status": "skipped" if skipped else "ok",
        "reason": "empty prompt" if skipped else None, "prompt_token_ids": [] if skipped else [0, 9],
        "token_ids": [] if skipped else ids, "budget": 0 if skipped else 30,
        "stop_reason": None if skipped else "budget", "stop_token_id": None,
        "rendered_sha256": "0", "text": "",
    }  # fmt: skip


@pytest.fixture(scope="module")
def records_of_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("big", "small")):
        path = tiny_model_folder(folder / f"{name}-files", seed=seed)
        models.resolve(name, {"kind": "local", "path": str(path)}, folder / name)
    return folder


@pytest.fixture(scope="module", params=[("math",), ("math", "code")], ids=["all", "one-domain"])
def experiment(request, tmp_path_factory, records_of_models):
    """Everything behind the trajectories, made by the scripts; all prompts of math are skipped."""
    folder, domains = tmp_path_factory.mktemp("experiment"), request.param
    big = models.load(records_of_models / "big/model.json", "cpu").condition("target")
    files = {name: [] for name in ("trajectories", "scores", "loops", "rounds", "expected")}
    candidates = []
    for domain in domains:
        at = folder / domain
        condition = big | {"domain": domain, "mode": "greedy", "law": GREEDY, "template": {}}
        rows = [trajectory(f"{domain}-{n}", n, domain == "math") for n in range(6)]
        records.write(at / "t.parquet", rows, "trajectories", condition)
        call(
            score, "--settings", json.dumps({
                "domain": domain, "mode": "greedy", "laws": {"decoding": GREEDY | {"temperature": 1}},
                "drafts": [{"name": "small", "allow_special_differences": False}],
                "position_chunk": 8, "max_disagreement": 1.0, "device": "cpu", "threads": 1,
                "dtype": "float32", "attention": "sdpa"}),
            "--target", records_of_models / "big/model.json",
            "--drafts", records_of_models / "small/model.json",
            "--trajectories", at / "t.parquet", "--output", at / "s.parquet",
        )  # fmt: skip
        call(
            find_loops, "--model", records_of_models / "big/model.json",
            "--trajectories", at / "t.parquet", "--output", at / "loops.parquet",
        )  # fmt: skip
        files["trajectories"].append(at / "t.parquet")
        files["scores"].append(at / "s.parquet")
        for draft in ("small", "lookup"):
            settings = {
                "pair": f"big-{draft}", "domain": domain, "mode": "greedy", "draft": draft,
                "draft_settings": LOOKUP if draft == "lookup" else {"kind": "local"},
                "draft_lengths": LENGTHS, "law": GREEDY, "seed": 1,
            }  # fmt: skip
            outputs = [at / f"{draft}-{name}.parquet" for name in ("rounds", "expected")]
            call(
                replay_rounds, "--settings", json.dumps(settings),
                "--trajectories", at / "t.parquet",
                *(["--scores", at / "s.parquet"] if draft == "small" else []),
                "--rounds", outputs[0], "--expected", outputs[1],
            )  # fmt: skip
            files["rounds"].append(outputs[0])
            files["expected"].append(outputs[1])
            files["loops"].append(at / "loops.parquet")
            candidates.append({"target": "big", "pair": f"big-{draft}", "draft": draft,
                               "domain": domain, "mode": "greedy"})  # fmt: skip
    return folder, domains, files, candidates


def no_number_is_nan(folder):
    for path in folder.rglob("*.*"):
        assert b"NaN" not in path.read_bytes() and b">nan<" not in path.read_bytes(), path


def choose(experiment):
    folder, _, files, candidates = experiment
    settings = {"candidates": candidates, "cost_ratios": {"small": 0.2, "lookup": 0.0}, "seed": 1}
    settings |= {"confidence": 0.95, "resamples": 100, "method": "studentized"}
    call(
        draft_choice, "--settings", json.dumps(settings), "--expected", *files["expected"],
        "--loops", *files["loops"], "--output", folder / "choice.parquet",
        "--folder", folder / "exhibits/choice",
    )  # fmt: skip
    return folder / "exhibits/choice"


def study(experiment, name="position"):
    """Statistics, exhibits, measurements and scorecard of the position study."""
    folder, _, files, candidates = experiment
    made = folder / name
    configurations, scores = [], []
    for place, row in enumerate(candidates):
        own = [files["scores"][place // 2]] if row["draft"] == "small" else []
        scores += own
        configurations.append(
            {"label": row["draft"], "temperature": 0.0, "score_shards": len(own)}
            | {key: row[key] for key in ("pair", "draft", "domain", "mode")}
        )
    settings = PROTOCOL | {"configurations": configurations, "bin_width": 8, "seed": 3}
    options = [part for key in FILES for part in (f"--{key}", made / f"{key}.parquet")]
    call(
        position_statistics, "--settings", json.dumps(settings), "--rounds", *files["rounds"],
        "--loops", *files["loops"], "--scores", *scores, *options,
    )  # fmt: skip
    call(position_exhibits, *options, "--folder", folder / "exhibits" / name)
    run = {"domain": "math", "run": RUN, "published": RUN}
    call(
        position_measurements, "--settings", json.dumps(run), "--published", CELLS,
        *options[:6], "--output", made / "measurements.parquet",
    )  # fmt: skip
    return folder / "exhibits" / name, made


def test_case_20_the_draft_choice_says_that_every_prompt_was_skipped(experiment, caplog):
    _, domains, _, _ = experiment
    exhibits = choose(experiment)
    table = read_table(exhibits / "choice.csv")
    assert set(table["domain"]) == set(domains) - {"math"}
    for name in ("choice", "choice_all"):
        text = (exhibits / f"{name}.md").read_text(encoding="utf-8")
        assert "No row for math/greedy (target big): no prompt has text: all were skipped" in text
    assert "big, math, greedy: no prompt has text: all were skipped" in caplog.text
    assert "skipped" in (exhibits / "figure1.svg").read_text(encoding="utf-8")
    no_number_is_nan(exhibits)


def test_case_20_the_position_study_has_its_exhibits_and_measurements(experiment):
    exhibits, made = study(experiment)
    table = read_table(exhibits / "table1.csv")
    math = table[table["configuration"].str.contains("math") | (len(experiment[1]) == 1)]
    assert len(math) == 4
    assert set(math["prompts"]) == {"0"} and set(math["difference"]) == {""}
    assert set(math["reason"]) == {"no prompt has text: all were skipped"}
    notes = (exhibits / "table1.md").read_text(encoding="utf-8")
    assert "small/greedy, def1: no prompt has text: all were skipped." in notes
    rows = records.read(made / "measurements.parquet", "measurements").to_pylist()
    assert len(rows) == len(published.load(CELLS))
    assert all(row["value"] is not None or row["missing_reason"] for row in rows)
    cell = next(row for row in rows if row["row"] == "same/greedy" and "Table 1" in row["exhibit"])
    assert cell["value"] is None
    no_number_is_nan(exhibits)


def test_case_20_viewer_scorecard_and_report_say_why(experiment, records_of_models, caplog):
    folder, domains, files, _ = experiment
    choose(experiment)
    _, made = study(experiment)
    call(
        viewer, "--models", records_of_models / "big/model.json",
        "--trajectories", *files["trajectories"], "--rounds", *files["rounds"],
        "--scores", *files["scores"], "--output", folder / "viewer.json",
    )  # fmt: skip
    groups = json.loads((folder / "viewer.json").read_text(encoding="utf-8"))["groups"]
    assert {group["domain"] for group in groups} == set(domains) - {"math"}
    assert "every prompt was skipped: empty prompt (6)" in caplog.text
    call(
        scorecard, "--settings", "{}", "--published", CELLS,
        "--measurements", made / "measurements.parquet",
        "--csv", folder / "scorecard.csv", "--markdown", folder / "scorecard.md",
    )  # fmt: skip
    call(
        report, "--settings", json.dumps({"title": "T"}),
        "--exhibits", *sorted((folder / "exhibits").rglob("*.*")),
        "--scorecard", folder / "scorecard.csv", "--viewer", folder / "viewer.json",
        "--trajectories", *files["trajectories"], "--rounds", *files["rounds"],
        "--output", folder / "report.html",
    )  # fmt: skip
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "6 prompts skipped (6 trajectories): empty prompt." in page
    assert "empty prompt: 6 prompts (6 trajectories) in math, greedy (big)" in page
    assert "<code>math-0</code>, <code>math-1</code>" in page
    assert "No row for math/greedy (target big)" in page
