"""What reruns when: content and settings decide, never time stamps or other people's edits.

The table of the README is read here and held to what Snakemake plans, row by row.
"""

import os
import re

import pytest
from draftscope import records
from tiny_project import ROOT, Project

pytestmark = pytest.mark.workflow

# What the README calls statistics; each change reruns those of them that stand on it.
STATISTICS = {"acceptance_measures", "draft_choice", "position_statistics", "position_exhibits"}
STATISTICS |= {"position_measurements", "scorecard", "viewer", "report"}
STATISTICS |= {"token_types", "position_tokens", "position_type_exhibits"}

# Rules of studies that the tiny experiment leaves out, and a row that their own tests hold.
LEFT_OUT = {"score_temperatures"}
ELSEWHERE = {"how a draft is trained"}

CONFIG = "tiny/config.yaml"
SCORER = "scripts/draftscope/scoring.py"
MORE_PROMPTS = (CONFIG, "prompts: 8", "prompts: 12")
NEW_DRAFT = (CONFIG, "- lookup\n", "- lookup\n- other\n")
NEW_LENGTH = (CONFIG, "draft_lengths:\n- 2", "draft_lengths:\n- 1\n- 2")
NEW_MODE = [
    (CONFIG, "modes:\n- cold", "modes:\n- hot\n- cold"),
    ("tiny/modes.yaml", "cold:", "hot:\n  temperature: 1.2\ncold:"),
]
OTHER_SHARDS = (CONFIG, "shard_size: 4", "shard_size: 8")
# A row of the table -> the change, as edits of the tiny project.
CHANGES = {
    "nothing, or touch every file": [],
    "a comment in a GPU script": [(SCORER, "from __future__", "# why\nfrom __future__")],
    "more prompts in a domain": [MORE_PROMPTS],
    "fewer prompts in a domain": [(CONFIG, "prompts: 8", "prompts: 4")],
    "a domain's `max_new_tokens`, the `seed`, the `batch_size`": [
        (CONFIG, "max_new_tokens: 40", "max_new_tokens: 50")
    ],
    "another pair in a new `draft_group`": [NEW_DRAFT],
    "a draft length": [NEW_LENGTH],
    "another mode": NEW_MODE,
    "a mode's temperature": [("tiny/modes.yaml", "temperature: 0.8", "temperature: 0.7")],
    "the loop detector or its settings": [
        ("scripts/draftscope/loops.py", "MIN_SPAN = ", "MIN_SPAN = 1 + ")
    ],
    "the `tokens` settings": [
        (CONFIG, "report:\n", "tokens:\n  further_triggers: [aber]\nreport:\n")
    ],
    "the scorer's code": [(SCORER, "\nDECODING, ", "\nADDED = 1\nDECODING, ")],
    "`shard_size`": [OTHER_SHARDS],
    "the `statistics` settings": [(CONFIG, "resamples: 200", "resamples: 300")],
    "a draft's cost ratio": [(CONFIG, "tiny-4bit: 0.5", "tiny-4bit: 0.4")],
    "the `scorecard` settings": [
        (CONFIG, "report:\n", "scorecard:\n  margins:\n    ratio: 0.03\nreport:\n")
    ],
    "the `report` settings": [
        (CONFIG, "title: A tiny run", "title: Another"),
        (CONFIG, "viewer_trajectories: 1", "viewer_trajectories: 2"),
    ],
    "`gpus`, `memory_mb`, `runtime_minutes`, for all jobs or for a model": [
        (
            CONFIG,
            "generation:\n",
            "generation:\n  gpus: 1\n  memory_mb: 9000\n  runtime_minutes: 500\n",
        ),
        (CONFIG, "report:\n", "scoring:\n  for_models: {tiny: {memory_mb: 9, gpus: 1}}\nreport:\n"),
    ],
}
NEW_TEXT = "a domain's `max_new_tokens`, the `seed`, the `batch_size`"
# Of rows that name several changes, the others.
MORE = [
    (NEW_TEXT, (CONFIG, "experiment: tiny\n", "experiment: tiny\nseed: 5\n")),
    (NEW_TEXT, (CONFIG, "batch_size: 2", "batch_size: 1")),
    (
        "the loop detector or its settings",
        (CONFIG, "report:\n", "loops:\n  min_repeats: 7\nreport:\n"),
    ),
]
# Of these rules only some jobs run: what the first outputs of all of them have in common, and how
# many they are.
ONLY = {
    "more prompts in a domain": {
        "collect_prompts": (r"/small/0002\.parquet", 1),
        "generate": (r"/0002\.parquet", 2),
        "score": (r"/0002\.parquet", 2),
    },
    "another pair in a new `draft_group`": {
        "resolve_model": ("models/tiny-other/", 1),
        "score": ("/later/", 4),
        "replay_rounds": ("/other/", 2),
    },
    "another mode": {
        "generate": ("/hot/", 2),
        "score": ("/hot/", 2),
        "find_loops": (r"/hot\.", 1),
        "replay_rounds": (r"/hot\.", 2),
    },
    "a mode's temperature": {
        "generate": ("/warm/", 2),
        "score": ("/warm/", 2),
        "find_loops": (r"/warm\.", 1),
        "replay_rounds": (r"/warm\.", 2),
    },
}


def table() -> dict[str, str]:
    """The table of the README: what is changed -> what runs again."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## What reruns when")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:2] == "| "]
    assert rows.pop(0) == ["you change", "runs again"]
    return dict(rows)


@pytest.fixture(scope="module")
def scratch(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy to plan changes in; every test takes its own back."""
    return finished.copy(tmp_path_factory.mktemp("reruns") / "a copy")


def test_the_readme_lists_these_changes():
    assert [row for row in table() if row not in ELSEWHERE] == list(CHANGES)
    assert ONLY.keys() <= CHANGES.keys()


@pytest.mark.parametrize(
    ("row", "edits"), [*CHANGES.items(), *((row, [edit]) for row, edit in MORE)]
)
def test_the_readme_says_what_runs_again(scratch, row, edits):
    with scratch.changed(*edits):
        jobs = scratch.planned()
    named = set(re.findall(r"`(\w+)`", table()[row])) - LEFT_OUT
    stands = "statistics" in table()[row]
    assert named <= jobs.keys()
    assert (jobs.keys() - named <= STATISTICS) if stands else jobs.keys() == named
    assert not stands or "report" in jobs
    for rule, (pattern, count) in ONLY.get(row, {}).items():
        assert len(jobs[rule]) == count, jobs[rule]
        assert all(re.search(pattern, output) for output in jobs[rule]), jobs[rule]


def test_a_shard_that_was_not_full_is_made_again_with_its_new_prompts(scratch):
    with scratch.changed((CONFIG, "prompts: 8", "prompts: 7")):
        jobs = scratch.planned()
    assert jobs["collect_prompts"] == ["results/tiny/prompts/small/0001.parquet"]
    assert {os.path.basename(path) for path in jobs["generate"]} == {"0001.parquet"}


@pytest.mark.parametrize(("edits", "minutes"), [([], 120), ([OTHER_SHARDS], 240)])
def test_the_time_that_a_job_asks_for_grows_with_its_shard(scratch, edits, minutes):
    """An hour a batch of two prompts."""
    with scratch.changed(*edits):
        said = scratch.run("--dry-run", "--forcerun", "generate", "score")
    for rule in ("generate", "score"):
        jobs = re.findall(rf"^rule {rule}:\n(?: .*\n)*", said, re.MULTILINE)
        assert jobs and all(f"runtime={minutes}," in job for job in jobs), jobs


def test_case_62_touched_sources_rerun_nothing(scratch):
    for folder in ("scripts", "workflow", "config", "envs"):
        for path in (scratch.folder / folder).rglob("*"):
            if path.is_file():
                os.utime(path)
    assert scratch.plan() == {}


def test_other_weights_in_a_local_folder_are_another_model(project):
    from safetensors.torch import load_file, save_file

    path = project.folder / "weights/tiny/model.safetensors"
    weights = load_file(path)
    weights["lm_head.weight"] = -weights["lm_head.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    jobs = project.plan()
    assert jobs["resolve_model"] == 1
    assert jobs["generate"] == 4


@pytest.mark.slow
def test_an_experiment_that_grows_keeps_its_numbers(project):
    """More prompts, a draft in a new group, a draft length and a mode, all at once."""
    results = project.folder / "results/tiny"
    shards = {
        path: records.read(path, kind).to_pylist()
        for kind in ("prompts", "trajectories", "scores")
        for path in (results / kind).rglob("*.parquet")
    }
    replayed = {
        path: records.read(path, kind).to_pylist()
        for kind in ("rounds", "expected")
        for path in (results / kind).rglob("*.parquet")
    }
    assert len(shards) == 2 + 4 + 4 and len(replayed) == 2 * 4
    for edit in (MORE_PROMPTS, NEW_DRAFT, NEW_LENGTH, *NEW_MODE):
        project.edit(*edit)
    planned = {output for outputs in project.planned().values() for output in outputs}
    assert not planned & {str(path.relative_to(project.folder)) for path in shards}
    project.run("--cores", "2")
    assert len(list((results / "trajectories").rglob("*.parquet"))) == 3 * 3
    assert len(list((results / "rounds").rglob("*.parquet"))) == 3 * 3
    for path, rows in shards.items():
        assert records.read(path, path.relative_to(results).parts[0]).to_pylist() == rows
    for path, rows in replayed.items():
        now = records.read(path, path.relative_to(results).parts[0]).to_pylist()
        old = [row for row in now if row["prompt_id"] in PROMPTS and row["draft_length"] in (2, 4)]
        assert old == rows and len(now) > len(rows)


PROMPTS = {f"p{number}" for number in range(8)}
