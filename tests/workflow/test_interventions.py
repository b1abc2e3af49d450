"""Drafts that are trained in the workflow: once, on training prompts alone, and resumable."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml
from safetensors.torch import load_file
from tiny_project import MODELS, PAIRS, Project, domains, new_project

pytestmark = [pytest.mark.slow, pytest.mark.workflow]
RESULTS = "results/tiny"
TRAIN = {
    "domains": [{"name": "small", "prompts": 4, "samples": 2, "max_new_tokens": 16}],
    "temperature": 0.8,
    "held_out": 0.25,
    "steps": 6,
    "batch": 2,
    "lr": 0.003,
    "warm_up": 1,
    "evaluate_every": 2,
    "patience": 5,
    "seed": 1,
}
LORA = {"kind": "lora", "base": "tiny-distilled", "target": "tiny", "rank": 2, "alpha": 4}
WEIGHTINGS = ("uniform", "reflection", "entropy")


def training_project(folder) -> Project:
    """The tiny project with drafts to train and prompts to train them on."""
    project = new_project(folder)
    prompts = [
        {"id": f"p{i}", "text": f"Count {i} pebbles on the beach, please.", "answer": str(i)}
        for i in range(12)
    ]
    (project.folder / "tiny/prompts.jsonl").write_text(
        "".join(json.dumps(prompt) + "\n" for prompt in prompts)
    )
    split = {"evaluation": [0, 8], "training": [8, 12], "checker": "math"}
    rows = {name: row | split for name, row in domains().items()}
    cut = {"kind": "layer_subset", "base": "tiny", "layers": [1]}
    distilled = {"kind": "distilled", "base": "tiny", "layers": [1], "train": TRAIN}
    arms = {f"tiny-{w}": LORA | {"weighting": w, "train": TRAIN} for w in WEIGHTINGS}
    models = MODELS | {"tiny-cut": cut, "tiny-distilled": distilled} | arms
    groups = {"cut": "distilled", "distilled": "distilled"} | dict.fromkeys(WEIGHTINGS, "adapters")
    pairs = PAIRS | {
        name: {"target": "tiny", "draft": f"tiny-{name}", "draft_group": group}
        for name, group in groups.items()
    }
    for name, content in (("models", models), ("pairs", pairs), ("domains", rows)):
        project.configure(f"{name}.yaml", content)
    experiment = yaml.safe_load((project.folder / "tiny/config.yaml").read_text())
    experiment |= {
        "training": {"threads": 1},
        "interventions": {
            "domain": "small",
            "draft_length": 2,
            "untrained": "cut",
            "base": "distilled",
            "arms": [{"label": w, "pair": w} for w in WEIGHTINGS],
            "entropy_bins": 2,
            "accuracy": {"domains": ["small"], "prompts": 4, "draft_length": 2, "batch_size": 4},
        },
    }
    project.configure("config.yaml", experiment)
    return project


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    project = training_project(tmp_path_factory.mktemp("trained") / "a project")
    project.run("--cores", "2", "--", "interventions")
    return project


@pytest.fixture
def project(finished, tmp_path) -> Project:
    return finished.copy(tmp_path / "copy")


def test_the_study_is_built_once_and_says_what_it_found(finished):
    exhibits = finished.folder / RESULTS / "exhibits"
    for name in ("interventions/table4.csv", "interventions/figure6.svg",
                 "interventions/figure8.pdf", "distillation/table1.md"):  # fmt: skip
        assert (exhibits / name).is_file(), name
    text = (exhibits / "interventions/table_accuracy.md").read_text()
    assert "target" in text and "cannot differ in law" in text
    assert finished.plan("--", "interventions") == {}
    # All arms learnt from the same texts, which are of training prompts alone.
    records = [
        json.loads((finished.folder / RESULTS / f"models/tiny-{w}/model.json").read_text())
        for w in WEIGHTINGS
    ]
    assert len({record["trained_on"]["sha256"] for record in records}) == 1
    # No trigger stands in these texts, so the reflection arm is the uniform one, and says so.
    revisions = {w: record["revision"] for w, record in zip(WEIGHTINGS, records, strict=True)}
    assert revisions["entropy"] != revisions["uniform"] == revisions["reflection"]
    log = (finished.folder / RESULTS / "logs/models/tiny-reflection.log").read_text()
    assert "no trigger in the training texts: this arm is the uniform one" in log
    assert records[0]["trained_on"]["prompts"] == 4


def test_greedy_texts_of_all_arms_are_the_targets(finished):
    table = (finished.folder / RESULTS / "exhibits/interventions/table_accuracy.csv").read_text()
    lines = [line.split(",") for line in table.splitlines()]
    place = lines[0].index('"same_text"')
    greedy = [line for line in lines[1:] if line[1] == '"cold"' and line[2] != '"uniform"']
    assert len(greedy) == 4 and {float(line[place]) for line in greedy} == {4.0}


@pytest.mark.parametrize(
    ("file", "old", "new", "trained"),
    [
        ("tiny/models.yaml", "weighting: reflection", "weighting: reflection\n  emphasis: 9.0", 1),
        ("tiny/config.yaml", "prompts: 8", "prompts: 7", 0),  # prompts that are measured
    ],
)
def test_only_what_changed_is_trained_again(project, file, old, new, trained):
    project.edit(file, old, new)
    planned = project.plan("--", "interventions")
    assert planned.get("adapt_model", 0) == trained and "distill_model" not in planned
    assert "training_texts" not in planned and planned["intervention_statistics"] == 1


def test_a_prompt_that_leaks_under_another_name_stops_the_run(project):
    lines = (project.folder / "tiny/prompts.jsonl").read_text().splitlines()
    (project.folder / "tiny/other.jsonl").write_text(lines[9] + "\n" + lines[1] + "\n")
    rows = yaml.safe_load((project.folder / "tiny/domains.yaml").read_text())
    rows["other"] = rows["small"] | {"file": "tiny/other.jsonl", "evaluation": [0, 2]}
    del rows["other"]["training"]
    project.configure("domains.yaml", rows)
    content = yaml.safe_load((project.folder / "tiny/config.yaml").read_text())
    content["domains"].append({"name": "other", "prompts": 2, "max_new_tokens": 8})
    project.configure("config.yaml", content)
    printed = project.run("--cores", "2", "--", "distillation", status=1)
    assert "was trained on prompt p9, which is measured as prompt p9" in printed


def test_every_study_of_a_trained_draft_asks_for_leaks(tmp_path):
    project = training_project(tmp_path / "a project")
    content = yaml.safe_load((project.folder / "tiny/config.yaml").read_text())
    content["pairs"] = ["distilled", "lookup"]
    content["position"]["configurations"] = [{"pair": "distilled", "label": "same"}]
    content["certificates"] |= {"pairs": ["entropy"]}
    content["certificates"]["relaxed"]["pair"] = "entropy"
    content["choice"]["cost_ratios"]["tiny-distilled"] = 0.5
    project.configure("config.yaml", content)
    models = f"{RESULTS}/models/tiny-distilled/leaks/small.json"
    types = f"{RESULTS}/exhibits/position/table_types.csv"
    for target in ("rounds", types, "temperatures", "interventions", "distillation"):
        assert models in project.planned("--", target)["check_leaks"], target
    folder = f"{RESULTS}/certificates/leaks"
    # An adapter also knows what the draft that it is added to was trained on.
    assert set(project.planned("--", "certificates")["certificate_leaks"]) == {
        f"{folder}/tiny-{model}/tiny/{domain}.json"
        for model in ("distilled", "entropy")
        for domain in ("small", "raw")
    }
    # A prompt that is measured under another name, with another instruction around it.
    lines = (project.folder / "tiny/prompts.jsonl").read_text().splitlines()
    (project.folder / "tiny/other.jsonl").write_text("\n".join([*lines[:4], lines[9]]) + "\n")
    rows = yaml.safe_load((project.folder / "tiny/domains.yaml").read_text())
    rows["small"]["instruction"] = "Be short.\n\n{problem}"
    rows["raw"] |= {"file": "tiny/other.jsonl", "evaluation": [0, 5], "training": [5, 6]}
    project.configure("domains.yaml", rows)
    printed = project.run("--cores", "1", "--", f"{folder}/tiny-entropy/tiny/raw.json", status=1)
    assert "tiny-entropy was trained on prompt p9, which is measured as prompt p9" in printed


def test_a_killed_training_goes_on_to_the_same_weights(finished, tmp_path):
    """SIGKILL in the middle, then once more: bit for bit the weights of a run without it."""
    folder = finished.folder / RESULTS
    texts = sorted((folder / "training/tiny/small").glob("*/*.trajectories.parquet"))
    prompts = [str(path).replace("trajectories", "prompts") for path in texts]
    row = {"kind": "distilled", "base": "tiny", "layers": [1], "target": None}
    row |= {"train": TRAIN | {"steps": 400, "evaluate_every": 10, "patience": 99}}
    settings = {"model": row, "allow_special_differences": False, "device": "cpu"}
    settings |= {"dtype": "float32", "attention": "sdpa", "threads": 1}

    def command(place):
        record = str(folder / "models/tiny/model.json")
        return [
            *(sys.executable, str(finished.folder / "scripts/train_draft.py"), "--name", "d"),
            *("--settings", json.dumps(settings), "--base", record, "--target", record),
            *("--prompts", *prompts, "--trajectories", *map(str, texts)),
            *("--history", str(place / "history.parquet"), "--output", str(place / "model.json")),
        ]

    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    folders = [tmp_path / name for name in ("whole", "killed")]
    run = {"cwd": finished.folder, "env": environment}
    done = subprocess.run(command(folders[0]), **run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    running = subprocess.Popen(command(folders[1]), **run, stderr=subprocess.DEVNULL)
    checkpoint = folders[1] / ".training.safetensors"
    first = None
    for _ in range(1200):
        if checkpoint.exists():
            first = first or checkpoint.stat().st_mtime_ns
            if checkpoint.stat().st_mtime_ns != first:
                break
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert not (folders[1] / "model.json").exists() and checkpoint.exists()
    # A checkpoint of other code is not gone on from.
    shutil.copytree(folders[1], tmp_path / "other")
    other = [*command(tmp_path / "other"), "--code", "changed"]
    with subprocess.Popen(other, **run, stderr=subprocess.PIPE, text=True) as anew:
        said = next((line for line in anew.stderr if "step" in line or "another" in line), "")
        anew.kill()
    assert "belongs to another training" in said
    again = subprocess.run(command(folders[1]), **run, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "going on from step" in again.stderr
    weights = [load_file(place / "weights/model.safetensors") for place in folders]
    assert all(weights[0][name].equal(value) for name, value in weights[1].items())
    assert not checkpoint.exists()
    shutil.rmtree(folders[0])
