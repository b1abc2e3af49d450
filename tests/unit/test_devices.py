"""GPUs of one machine: each job gets its own, and keeps it until it ends."""

import subprocess
import sys
from pathlib import Path

import pytest
from draftscope import devices, runtime

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
# A job: claims, says what it got, and ends when its input does.
JOB = """
import logging, os, sys
from pathlib import Path
logging.basicConfig(level=logging.INFO, format="%(message)s")
from draftscope import devices
devices.claim(int(sys.argv[1]), folder=Path(sys.argv[2]), wait_s=0.05)
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def job(tmp_path):
    started = []

    def start(count: int, visible: str = "0,1,2") -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", JOB, str(count), str(tmp_path / "locks")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(SCRIPTS), "CUDA_VISIBLE_DEVICES": visible},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def got(process: subprocess.Popen) -> list[str]:
    return process.stdout.readline().strip().split(",")


def test_jobs_side_by_side_use_different_devices(job):
    processes = [job(1) for _ in range(3)]
    assert sorted(got(process)[0] for process in processes) == ["0", "1", "2"]


def test_a_killed_job_frees_its_device_for_the_one_that_waits(job):
    first, second = job(2), None
    taken = got(first)
    second = job(2)
    assert "waiting: 1 of 3 GPUs free, 2 needed" in second.stderr.readline()
    first.kill()
    assert sorted(got(second)) == taken == ["0", "1"]


def test_what_a_scheduler_chose_is_left_alone(job):
    # As many as the job was given: nothing to choose, so that both may have the same one.
    assert [got(process) for process in (job(1, "GPU-5"), job(1, "GPU-5"))] == [["GPU-5"]] * 2


def test_a_job_without_gpus_claims_none(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert devices.claim(0, folder=tmp_path / "locks") == ["0", "1"]
    assert not (tmp_path / "locks").exists()


def test_devices_are_counted_by_their_files(monkeypatch, tmp_path):
    for name in ("nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.visible_devices(tmp_path) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices.visible_devices(tmp_path) == []


def test_a_job_asks_for_as_many_as_its_rule_was_given(monkeypatch):
    asked = []
    monkeypatch.setattr(devices, "claim", lambda count: asked.append(count))
    monkeypatch.setenv("DRAFTSCOPE_GPUS", "2")
    runtime.claim_gpus()
    monkeypatch.delenv("DRAFTSCOPE_GPUS")
    runtime.claim_gpus()
    assert asked == [2, 0]
