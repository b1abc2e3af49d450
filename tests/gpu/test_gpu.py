"""The checks of a CUDA device, where there is one."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from strikes import strike, with_strikes

SCRIPT = Path(__file__).parent / "check_gpu.py"
TINY = ("--size", "tiny", "--device", "cpu")


@pytest.mark.gpu
def test_what_must_hold_on_a_gpu_does(tmp_path):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")  # the same checks run tiny, on a CPU, in the tests below
    output = tmp_path / "gpu.json"
    answer = subprocess.run(
        [sys.executable, str(SCRIPT), "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert json.loads(output.read_text())["finished"]


def test_the_same_checks_run_on_a_cpu_with_nothing_but_torch_and_transformers(tmp_path):
    missing = "pandas pyarrow pydantic psutil scipy seaborn snakemake statsmodels"
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nfor name in {missing.split()}:\n    sys.modules[name] = None\n"
    )
    output = tmp_path / "gpu.json"
    answer = subprocess.run(
        [sys.executable, str(SCRIPT), *TINY, "--output", str(output)],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    result = json.loads(output.read_text())
    assert result["finished"] and result["holds"] and not result["failures"]
    assert result["versions"]["torch"] and result["machine"]["device"] == "cpu"
    held = {value["name"]: value["holds"] for value in result["values"]}
    unknown = {name for name, holds in held.items() if holds is None}
    assert held["tree mask, sdpa"] and held["tree mask, ignored on purpose"]
    assert held["cache of uneven rows"] and held["tokens, continuous"]
    assert "scoring, memory beside the weights" in unknown
    assert len(held) - len(unknown) >= 15


@pytest.mark.parametrize("end", ["time", "kill"])
def test_what_was_found_stays_when_it_is_cut_short(tmp_path, end):
    output = tmp_path / "gpu.json"
    minutes = "0" if end == "time" else "8"
    killed = strike(("check_gpu.py",), "kill", "draftscope.tree.selfcheck:check_trees")
    answer = subprocess.run(
        [sys.executable, str(SCRIPT), *TINY, "--minutes", minutes, "--output", str(output)],
        env=with_strikes(*[killed] * (end == "kill")),
        capture_output=True,
        text=True,
        check=False,
    )
    result = json.loads(output.read_text())
    assert not result["finished"]
    if end == "time":
        assert answer.returncode == 1 and not result["holds"]
        assert result["failures"] == [{"check": "time", "error": "over 0.0 minutes"}]
    else:
        assert answer.returncode == -signal.SIGKILL
        assert {value["name"] for value in result["values"]} >= {"tree mask, sdpa"}
