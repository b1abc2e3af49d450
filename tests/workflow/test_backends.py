"""The five published kinds of draft and target can be planned, on a laptop and as published."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.workflow


@pytest.mark.parametrize(
    ("files", "jobs", "condition"),
    [
        (
            ["config/backends.yaml"],
            {"make_gguf": 4, "convert_model": 1, "verify_latency": 3},
            '"mixed":"smollm2-135m-3bit q8_0 llama.cpp, smollm2-135m float32 transformers"',
        ),
        (
            ["config/paper.yaml", "config/paper_gguf.yaml"],
            {"resolve_model": 5, "derive_model": 3, "verify_latency": 4},
            "Qwen/Qwen2.5-0.5B-Instruct q8_0 llama.cpp, "
            + "Qwen/Qwen2.5-7B-Instruct q4_k_m llama.cpp",
        ),
    ],
    ids=["laptop", "published"],
)
def test_pairs_of_both_engines_can_be_planned(files, jobs, condition):
    command = [sys.executable, "-m", "snakemake", "--configfile", *files, "-n", "-p", "--nolock"]
    answer = subprocess.run(
        [*command, "--forceall", "--", "lossless"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    table = dict(line.split() for line in answer.stdout.splitlines() if len(line.split()) == 2)
    assert {name: int(table[name]) for name in jobs} == jobs
    assert condition in answer.stdout + answer.stderr
