"""A quantized model in the workflow: refused in time without its packages, made once with them."""

import importlib.util
import json
import os
import subprocess

import pytest
from tiny_project import MODELS, PAIRS, domains, new_project

pytestmark = pytest.mark.workflow

installed = importlib.util.find_spec("gptqmodel") and importlib.util.find_spec("optimum")
RECORD = "results/tiny/models/tiny-gptq/model.json"


@pytest.fixture(scope="module")
def quantizing(tmp_path_factory):
    """A project whose pair has a target that is quantized on training prompts."""
    project = new_project(tmp_path_factory.mktemp("gptq") / "project")
    calibration = {"domains": ["spare"], "texts": 4, "tokens": 40}
    row = {"kind": "gptq", "base": "tiny", "bits": 4, "group_size": 32, "calibration": calibration}
    pair = {"target": "tiny-gptq", "draft": "tiny-4bit", "draft_group": "copies"}
    measured = {name: row | {"evaluation": [0, 8]} for name, row in domains().items()}
    spare = measured["small"] | {"training": [8, 12]}
    project.configure("models.yaml", MODELS | {"tiny-gptq": row})
    project.configure("pairs.yaml", PAIRS | {"quantized": pair})
    project.configure("domains.yaml", measured | {"spare": spare})
    project.edit("tiny/config.yaml", "- lookup\n", "- lookup\n- quantized\n")
    return project


def test_case_57_a_missing_package_stops_a_run_before_its_first_job(quantizing, tmp_path):
    # As on a machine without the package, whatever this one has.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['gptqmodel'] = None\n")
    command = quantizing.command("--cores", "1", RECORD)
    hidden = os.environ | {"PYTHONPATH": str(tmp_path)}
    answer = subprocess.run(
        command, cwd=quantizing.folder, env=hidden, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert "error: model tiny-gptq (gptq) needs gptqmodel 7.5.0" in answer.stderr
    assert "make gptq" in answer.stderr and "Traceback" not in answer.stderr
    assert not (quantizing.folder / "results").exists()
    # A plan needs no package, and neither does a run that touches no such model.
    planned = subprocess.run(
        [*command, "-n"], cwd=quantizing.folder, env=hidden, capture_output=True, check=False
    )
    assert planned.returncode == 0


@pytest.mark.skipif(not installed, reason="gptqmodel is not installed: make gptq")
def test_a_quantized_model_is_made_once_from_training_prompts(quantizing):
    quantizing.run("--cores", "2", RECORD)
    record = json.loads((quantizing.folder / RECORD).read_text())
    assert record["calibration"]["texts"] == 4
    assert quantizing.plan("--", RECORD) == {}
    quantizing.edit("tiny/models.yaml", "tokens: 40", "tokens: 30")
    assert quantizing.plan("--", RECORD) == {"quantize_model": 1}
