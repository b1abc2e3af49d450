"""The whole workflow on tiny models: complete, and independent of sharding."""

import json
import shutil
import subprocess
import sys

import pytest
from draftscope import records
from tiny_project import ROOT

pytestmark = pytest.mark.workflow

EXHIBITS = [
    *(f"position/table{n}.{kind}" for n in (1, 2) for kind in ("csv", "md", "tex")),
    *(f"position/figure{n}.{kind}" for n in (1, 2, 3, 4, 5, 7) for kind in ("svg", "pdf")),
    *(f"position/table_{name}.csv" for name in ("types", "mismatches", "trend", "effects")),
]


def test_every_promised_output_is_there(finished):
    results = finished.folder / "results/tiny"
    for name in EXHIBITS:
        assert (results / "exhibits" / name).stat().st_size > 0, name
    page = (results / "report.html").read_text(encoding="utf-8")
    for outside in ('src="http', "url(http", '<link rel="stylesheet" href="http'):
        assert outside not in page
    assert (results / "scorecard.md").stat().st_size > 0


def test_rounds_carry_the_condition_they_were_measured_under(finished):
    path = finished.folder / "results/tiny/rounds/copy/small/warm.parquet"
    condition = records.condition(path)
    assert condition["target"] == "tiny"
    assert condition["draft"] == "tiny-4bit"
    assert condition["law"] == {"temperature": 0.8, "top_k": 0, "top_p": 0.95}
    assert condition["batch_size"] == 2


def test_another_shard_size_gives_the_same_tables(finished, tmp_path):
    project = finished.copy(tmp_path / "resharded")
    project.edit("tiny/config.yaml", "shard_size: 4", "shard_size: 8")
    project.edit("tiny/config.yaml", "experiment: tiny", "experiment: resharded")
    project.run("--cores", "2")
    assert len(list((project.folder / "results/resharded/trajectories").rglob("small/cold/*"))) == 1
    assert project.tables("resharded") == finished.tables()


def test_case_71_the_report_needs_result_files_only(project):
    shutil.rmtree(project.folder / ".snakemake")
    page = project.folder / "results/tiny/report.html"
    before = page.read_bytes()
    project.run("--cores", "2", "--touch")
    page.unlink()
    project.run("--cores", "1")
    assert page.read_bytes() == before


def test_snakemake_makes_its_own_report_too(finished, tmp_path):
    target = tmp_path / "snakemake.html"
    finished.run("--report", str(target))
    assert target.stat().st_size > 100_000


def test_case_68_bad_settings_stop_before_any_job(finished):
    printed = finished.run("-n", "--config", "draft_lenghts=[3]", status=1)
    assert "error: configuration: unknown key 'draft_lenghts'; did you mean" in printed
    assert "Traceback" not in printed


def test_case_69_a_list_on_the_command_line_is_read_as_numbers(finished):
    assert finished.plan("--config", "draft_lengths=[2,3,4]")["replay_rounds"] == 4
    printed = finished.run("-n", "--config", "draft_lengths=[two]", status=1)
    assert "draft_lengths.0 is 'two'" in printed


def test_the_study_at_its_published_scale_can_be_planned():
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "snakemake", "--configfile", "config/paper.yaml"),
            *("-n", "--quiet", "rules", "--nolock"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    jobs = dict(line.split() for line in answer.stdout.splitlines() if len(line.split()) == 2)
    assert jobs["generate"] == "78"  # 64, and 14 of two more temperatures
    assert jobs["score_temperatures"] == "28"
    assert jobs["score"] == "64"


def test_text_of_another_engine_takes_the_place_of_generated_text(project):
    rows = []
    for path in sorted((project.folder / "results/tiny/trajectories/tiny").rglob("*.parquet")):
        if "cold" in path.parts:
            rows += records.read(path, "trajectories").to_pylist()
    with open(project.folder / "tiny/engine.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            keys = ("prompt_id", "prompt_token_ids", "token_ids")
            file.write(json.dumps({key: row[key] for key in keys}) + "\n")
    with open(project.folder / "tiny/modes.yaml", "a", encoding="utf-8") as file:
        file.write("engine:\n  temperature: 0\n  imported:\n    small: tiny/engine.jsonl\n")
    project.edit("tiny/config.yaml", "- warm\n", "- warm\n- engine\n")
    project.run("--cores", "2", "rounds")
    folder = project.folder / "results/tiny/rounds/copy/small"
    imported = records.read(folder / "engine.parquet", "rounds").to_pylist()
    assert imported == records.read(folder / "cold.parquet", "rounds").to_pylist()


SWEPT = ("tiny/config.yaml", "    modes:\n    - cold\n", "    modes:\n    - cold\n    - tepid\n")


def test_a_mode_of_the_sweep_alone_is_generated_for_it(project):
    project.edit(*SWEPT)
    jobs = project.planned("temperatures")
    assert sorted(path.rpartition("/")[0] for path in jobs["generate"]) == 2 * [
        "results/tiny/trajectories/tiny/small/tepid"
    ]
    assert len(jobs["score_temperatures"]) == 3 * 2  # every text under one more law
    assert not {"score", "find_loops", "replay_rounds", "token_types"} & jobs.keys()
    assert "generate" not in project.planned()  # the sweep is built when it is asked for


@pytest.mark.slow
def test_a_sweep_leaves_the_other_tables_alone(project, finished):
    project.edit(*SWEPT)
    project.edit(
        "tiny/config.yaml",
        "experiment: tiny\n",
        "experiment: tiny\nstudies: [position, temperatures]\n",
    )
    project.run("--cores", "2")
    before, after = finished.tables(), project.tables()
    assert after.keys() - before.keys() == {
        "exhibits/temperatures/table3.csv",
        "exhibits/temperatures/table_slopes.csv",
    }
    assert {name for name in before if after[name] != before[name]} == {"scorecard.csv"}
    assert '"tepid"' in after["exhibits/temperatures/table3.csv"]
    assert "Acceptance by temperature" in (project.folder / "results/tiny/report.html").read_text(
        encoding="utf-8"
    )
