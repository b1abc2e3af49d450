"""The doctor: nothing to say of a healthy experiment, and of a sick one every problem at once."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from draftscope import config
from draftscope.doctor.findings import Findings
from draftscope.doctor.room import job_counts
from draftscope.doctor.stages import check_stages
from draftscope.strict import load_yaml
from tiny_project import EXPERIMENT, MODELS, PAIRS, Project, new_project

ROOT = Path(__file__).parents[2]


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


def damage(folder, file, text):
    (folder / "weights/other" / file).write_text(text)


DAMAGED = [
    ("config.json", "{oops", "weights/other/config.json is damaged, not valid JSON"),
    ("tokenizer.json", "", "weights/other/tokenizer.json is damaged, not valid JSON"),
    ("generation_config.json", "[]", "generation_config.json holds no JSON object, but a list"),
    ("config.json", None, "hidden_size"),
]


@pytest.mark.parametrize(("file", "text", "said"), DAMAGED)
def test_a_damaged_model_stops_no_other_check(project, file, text, said):
    if text is None:  # valid, and nothing that transformers can make sense of
        path = project.folder / "weights/other" / file
        text = json.dumps(json.loads(path.read_text()) | {"hidden_size": "many"})
    damage(project.folder, file, text)
    project.configure("config.yaml", EXPERIMENT | {"pairs": ["copy", "lookup", "other"]})
    status, rows = doctor(project, "--no-plan")
    (problem,) = (row for row in rows if row[0] == "problem")
    assert status == 2 and problem[1:3] == ("model", "tiny-other") and said in problem[3]
    assert {"prompts", "context", "memory", "disk"} <= {check for _, check, *_ in rows}


def test_what_no_study_needs_that_is_asked_for_is_a_note(project):
    damage(project.folder, "config.json", "{oops")
    status, rows = doctor(project, "--no-plan")
    (note,) = (row for row in rows if row[1:3] == ("model", "tiny-other"))
    assert status == 0 and note[0] == "note"
    assert note[3].endswith("no study that is asked for needs it")


def test_every_study_that_cannot_be_built_is_named(project):
    _, rows = doctor(project, "--no-plan")
    found = {subject for _, check, subject, _ in rows if check == "study"}
    assert found == {"interventions", "losses", "retrace"}


def test_room_on_the_disk_is_asked_for_without_the_models(project):
    _, rows = doctor(project, "--no-plan")
    with_models = next(detail for _, check, _, detail in rows if check == "disk")
    large = EXPERIMENT | {"domains": [{"name": "small", "prompts": 8, "max_new_tokens": 10**6}]}
    project.configure("config.yaml", large)
    (project.folder / "weights/tiny/config.json").write_text("{oops")
    _, rows = doctor(project, "--no-plan")
    without = next(detail for _, check, _, detail in rows if check == "disk")
    # Two texts of 8 prompts x 1,000,000 tokens, some 100 bytes each and pass.
    assert with_models.startswith("trajectories and scores take 0.00 GB")
    assert 1 < float(without.split("take ")[1].split(" GB")[0]) < 20


@pytest.mark.skipif(bool(find_spec("flash_attn")), reason="the package is there")
def test_what_a_stage_cannot_have_is_told(project):
    blocks = {
        "generation": {"batch_size": 2, "attention": "flash_attention_2"},
        "scoring": {"device": "balanced"},
    }
    project.configure("config.yaml", EXPERIMENT | blocks)
    status, rows = doctor(project, "--no-plan")
    said = {subject: (verdict, detail) for verdict, check, subject, detail in rows
            if check == "stage"}  # fmt: skip
    assert status == 2 and said["generation"][0] == "problem"
    assert "needs the package flash_attn, which is not installed" in said["generation"][1]
    assert said["scoring"][0] == "note" and "finds none" in said["scoring"][1]


@pytest.mark.skipif(bool(find_spec("flash_attn")), reason="the package is there")
@pytest.mark.parametrize(
    ("study", "stage"),
    [
        ("lossless", "lossless"),
        ("domains", "trees"),
        ("certificates", "certificates"),
        ("interventions", "interventions"),
        ("interventions", "training"),
    ],
)
def test_the_stages_of_every_study_that_is_asked_for_are_looked_at(study, stage):
    settings = load_yaml(ROOT / "config/config.yaml")
    settings[stage]["attention"] = "flash_attention_2"
    found = {}
    for studies in (["position"], ["position", study]):
        findings = Findings()
        check_stages(config.load(settings | {"studies": studies}, ROOT), findings)
        found[len(studies)] = {row.subject: row.verdict for row in findings.rows}
    assert set(found[1]) == {"generation", "scoring"}
    assert found[2][stage] == "problem"
