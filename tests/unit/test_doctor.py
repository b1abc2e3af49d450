"""The doctor: nothing to say of a healthy experiment, and of a sick one every problem at once."""

import json
import subprocess
import sys

import pytest
import yaml
from draftscope.doctor.room import job_counts
from tiny_project import EXPERIMENT, MODELS, PAIRS, Project, new_project


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "a project")


def doctor(project: Project, *arguments: str) -> tuple[int, list[tuple[str, str, str, str]]]:
    """Exit status and rows (verdict, check, subject, detail)."""
    told = subprocess.run(
        [sys.executable, "scripts/doctor.py", "--configfile", "tiny/config.yaml", *arguments],
        cwd=project.folder, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    rows = [line.split("  ") for line in told.stdout.splitlines()]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert rows and all(len(row) == 4 for row in rows), told.stdout + told.stderr
    return told.returncode, [tuple(row) for row in rows]


def test_a_healthy_experiment_has_no_problem_and_says_its_size(project):
    status, rows = doctor(project)
    assert status == 0 and {verdict for verdict, *_ in rows} <= {"ok", "note"}
    said = {(check, subject): detail for _, check, subject, detail in rows}
    assert "fit the context of tiny" in said["context", "tiny, small"]
    assert "tokens alike" in said["vocabulary", "copy"]
    assert "sdpa reads trees" in said["attention", "tiny"]
    assert "jobs to run" in said["jobs", "dry run"] and "4 generate" in said["jobs", "dry run"]
    memory = said["memory", "generate, tiny"]
    assert "holds at least" in memory and "a job asks for" in memory


def test_every_problem_is_told_not_the_first(project):
    folder = project.folder
    config = json.loads((folder / "weights/other/config.json").read_text())
    config["max_position_embeddings"] = 48
    (folder / "weights/other/config.json").write_text(json.dumps(config))
    project.configure("models.yaml", MODELS | {"gone": {"kind": "local", "path": "weights/gone"}})
    pairs = PAIRS | {"lost": {"target": "tiny", "draft": "gone", "draft_group": "lost"}}
    project.configure("pairs.yaml", pairs)
    sick = EXPERIMENT | {
        "pairs": ["copy", "lookup", "other", "lost"],
        "generation": {"batch_size": 2, "memory_mb": 1},
        "choice": {"cost_ratios": EXPERIMENT["choice"]["cost_ratios"] | {"gone": 1.0}},
        "studies": ["position", "lossless"],
        "lossless": EXPERIMENT["lossless"]
        | {"verify_latency": {"tokens": [1, 5], "context": 9000, "repeats": 3}},
    }
    (folder / "tiny/config.yaml").write_text(yaml.safe_dump(sick, sort_keys=False))
    status, rows = doctor(project, "--no-plan")
    assert status == 2
    problems = {(check, subject): detail for verdict, check, subject, detail in rows
                if verdict == "problem"}  # fmt: skip
    assert set(problems) == {
        ("model", "gone"), ("context", "tiny-other, small"), ("memory", "generate, tiny"),
        ("verify latency", "tiny"),
    }  # fmt: skip
    assert "weights/gone does not exist" in problems["model", "gone"]
    assert "context of draft tiny-other, 48" in problems["context", "tiny-other, small"]
    assert "the longest context is" in problems["verify latency", "tiny"]
    notes = {(check, subject) for verdict, check, subject, _ in rows if verdict == "note"}
    assert ("vocabulary", "lost") in notes


def test_the_plan_is_read_off_a_dry_run():
    printed = "Job stats:\njob   count\n----  -----\nall       1\nscore     4\ntotal     5\n"
    assert job_counts(printed) == {"all": 1, "score": 4, "total": 5}
