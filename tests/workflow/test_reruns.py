"""What reruns when: content and settings decide, never time stamps or other people's edits."""

import os

import pytest
from draftscope import records

pytestmark = [pytest.mark.workflow, pytest.mark.xdist_group("workflow")]

BELOW_LOOPS = {"position_statistics", "position_exhibits", "scorecard", "report"}


def test_a_finished_run_has_nothing_to_do(finished):
    assert "Nothing to be done" in finished.run("-n")


def test_case_62_touched_sources_rerun_nothing(project):
    for folder in ("scripts", "workflow", "config", "envs"):
        for path in (project.folder / folder).rglob("*"):
            if path.is_file():
                os.utime(path)
    assert project.plan() == {}


def test_case_61_an_edited_loop_detector_reruns_loops_and_what_stands_on_them(project):
    project.edit("scripts/draftscope/loops.py", "MIN_SPAN = ", "MIN_SPAN = 1 + ")
    jobs = project.plan()
    assert "find_loops" in jobs
    assert not {"generate", "score", "replay_rounds", "collect_prompts"} & jobs.keys()


def test_case_62_a_comment_in_a_gpu_module_reruns_no_gpu_job(project):
    project.edit("scripts/draftscope/scoring.py", "from __future__", "# why\nfrom __future__")
    assert project.plan() == {}


def test_an_edited_scorer_reruns_scores_but_no_generation(project):
    path = project.folder / "scripts/draftscope/scoring.py"
    path.write_text(path.read_text(encoding="utf-8") + "\nADDED = 1\n", encoding="utf-8")
    jobs = project.plan()
    assert jobs["score"] == 4
    assert "generate" not in jobs


def test_another_temperature_reruns_only_the_shards_of_its_mode(project):
    project.edit("tiny/modes.yaml", "temperature: 0.8", "temperature: 0.7")
    jobs = project.plan()
    assert jobs["generate"] == 2
    assert jobs["score"] == 2
    assert jobs["find_loops"] == 1


def test_more_prompts_generate_only_the_new_shards_and_leave_the_old_numbers(project):
    old = sorted((project.folder / "results/tiny/trajectories").rglob("small/**/*.parquet"))
    before = {path: records.read(path, "trajectories").to_pylist() for path in old}
    project.edit("tiny/config.yaml", "prompts: 8", "prompts: 12")
    jobs = project.plan()
    assert jobs["collect_prompts"] == 1
    assert jobs["generate"] == 2
    assert jobs["score"] == 2
    project.run("--cores", "2", "trajectories")
    assert {path: records.read(path, "trajectories").to_pylist() for path in old} == before


def test_a_draft_in_a_new_group_scores_only_itself(project):
    project.edit("tiny/config.yaml", "- lookup\n", "- lookup\n- other\n")
    jobs = project.plan()
    assert jobs["score"] == 4
    assert jobs["replay_rounds"] == 2
    assert "generate" not in jobs


def test_another_draft_length_replays_only(project):
    project.edit("tiny/config.yaml", "draft_lengths:\n- 2", "draft_lengths:\n- 1\n- 2")
    jobs = project.plan()
    assert jobs["replay_rounds"] == 4
    assert not {"generate", "score", "find_loops"} & jobs.keys()


def test_the_statistics_block_reruns_no_model(project):
    project.edit("tiny/config.yaml", "resamples: 200", "resamples: 300")
    assert not {"generate", "score", "find_loops", "replay_rounds"} & project.plan().keys()


def test_other_weights_in_a_local_folder_are_another_model(project):
    from safetensors.torch import load_file, save_file

    path = project.folder / "weights/tiny/model.safetensors"
    weights = load_file(path)
    weights["lm_head.weight"] = -weights["lm_head.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    jobs = project.plan()
    assert jobs["resolve_model"] == 1
    assert jobs["generate"] == 4
