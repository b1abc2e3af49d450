"""Whatever dies, the next run gives the tables of an undisturbed one, or says in one line why not."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from draftscope import records
from draftscope.writing import UNFINISHED
from strikes import strike, with_strikes
from tiny_project import EXPERIMENT, Project

pytestmark = pytest.mark.workflow

RESULTS = "results/tiny"
WARM, COLD = "trajectories/tiny/small/warm", "scores/tiny/copies/small/cold"
# Five ways to lose a job, each in a job that depends on none of the others.
STRIKES = (
    strike(("scripts/generate.py", f"{WARM}/0000"), "kill", "draftscope.sampling:law", 45),
    strike(("scripts/score.py", f"{COLD}/0000"), "kill", "draftscope.sampling:log_law", 6),
    strike(("scripts/score.py", f"{COLD}/0001"), "kill", "os:replace", 1, f"{COLD}/0001.parquet"),
    strike(("scripts/replay_rounds.py", "rounds/lookup/small/cold"), "fill", "os:fsync"),
    strike(("scripts/find_loops.py", "loops/tiny/small/cold"), "vanish"),
)
# And one that is still writing when the run itself is killed.
HELD = strike(("scripts/generate.py", f"{WARM}/0001"), "hold", "os:replace", 1, f"{WARM}/0001.parq")


def until(condition: Callable[[], object], seconds: float = 300):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return value


def clear_lock(project: Project) -> subprocess.CompletedProcess:
    """What `make demo` does before it starts."""
    return subprocess.run(
        [sys.executable, "scripts/clear_stale_lock.py"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
    )


def every_file_is_whole(project: Project) -> None:
    for path in (project.folder / RESULTS).rglob("*.parquet"):
        pq.read_table(path)


def log_of(project: Project) -> str:
    """What the latest run of Snakemake has logged so far."""
    logs = (project.folder / ".snakemake/log").glob("*.log")
    return max(logs, key=lambda path: path.stat().st_mtime).read_text(encoding="utf-8")


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen]]:
    """Start Snakemake in a project; what of it is alive at the end of the test is ended."""
    started = []

    def run(project: Project, *arguments: str, **options) -> subprocess.Popen:
        started.append(project.start(*arguments, **options))
        return started[-1]

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def unscored(project: Project) -> Project:
    """The tiny experiment with half of its text, and neither scores nor what stands on them."""
    results = project.folder / RESULTS
    shutil.rmtree(results / WARM)
    for name in ("scores", "loops", "rounds", "expected", "statistics", "exhibits"):
        shutil.rmtree(results / name)
    for path in results.glob("*.*"):
        path.unlink()
    shutil.rmtree(project.folder / ".snakemake/log")
    return project


def test_cases_63_64_65_whatever_dies_the_next_run_gives_the_same_tables(finished, unscored, start):
    project, results = unscored, unscored.folder / RESULTS
    first = start(project, "--cores", "2", "--latency-wait", "1", env=with_strikes(*STRIKES, HELD))
    (held,) = until(lambda: list(project.folder.glob("held.*")))
    worker = psutil.Process(int(held.suffix[1:]))
    until(lambda: log_of(project).count("Error in rule") == len(STRIKES) - 1)
    until(lambda: "MissingOutputException" in log_of(project))
    for path in (f"{WARM}/0000", f"{COLD}/0000", f"{COLD}/0001", "rounds/lookup/small/cold"):
        assert not (results / f"{path}.parquet").exists()
    every_file_is_whole(project)
    assert list((results / WARM).glob(f".0001.parquet.*{UNFINISHED}"))
    full = (results / "logs/rounds/lookup/small/cold.log").read_text().splitlines()
    assert full[-1].startswith(f"error: {RESULTS}/rounds/lookup/small/cold.parquet could not be")
    assert "no space left on device" in full[-1] and not any("Traceback" in line for line in full)
    assert "Missing files after 1 seconds" in log_of(project)
    assert f"{RESULTS}/loops/tiny/small/cold.parquet" in log_of(project)

    # A second run on the folder, while the first is alive.
    printed = project.run("--cores", "2", status=1)
    assert "Directory cannot be locked" in printed and "Traceback" not in printed
    refused = clear_lock(project)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert f"process {first.pid})" in refused.stderr

    # Snakemake alone is killed; its last job lives on, and writes beside the same job of the next
    # run.
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    refused = clear_lock(project)
    said = refused.stderr.splitlines()[-1]  # before it, perhaps, that Slurm does not answer
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "error: jobs of a run that was killed are still at work in this folder" in said
    assert str(worker.pid) in said
    project.run("--unlock")
    second = start(project, "--cores", "2")
    until(lambda: (results / f"{WARM}/0001.parquet").exists())
    held.unlink()
    assert worker.wait(300) in (0, None)
    assert second.wait(600) == 0, log_of(project)[-6000:]
    assert project.tables() == finished.tables()
    assert clear_lock(project).returncode == 0
    assert not list(results.rglob(f".*{UNFINISHED}"))


def test_case_65_a_damaged_or_incomplete_shard_stops_the_run_by_name(project):
    results = project.folder / RESULTS
    text, scores = results / "trajectories/tiny/small/cold", results / "scores/tiny/copies/small"
    rows = records.read(text / "0000.parquet", "trajectories")
    records.write(text / "0001.parquet", rows, "trajectories", records.condition(rows))
    cut(text / "0000.parquet")
    cut(scores / "warm/0000.parquet")
    printed = project.run("--cores", "2", status=1)
    for path in (text / "0000.parquet", scores / "warm/0000.parquet"):
        name = path.relative_to(project.folder)
        assert f"error: {name} is damaged" in printed and "delete it and run again" in printed
    assert "cold/0001.parquet is not complete: it lacks prompts p4, p5, p6 and 1 more" in printed
    assert "Traceback" not in printed


def cut(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "prompts/small/0001.parquet",
        "trajectories/tiny/small/warm/0001.parquet",
        "scores/tiny/copies/small/warm/0001.parquet",
        "loops/tiny/small/warm.parquet",
        "rounds/copy/small/warm.parquet",
        "expected/copy/small/warm.parquet",
        "statistics/position/paired.parquet",
        "statistics/position/curves.parquet",
        "statistics/position/measurements.parquet",
        "viewer.json",
        "models/tiny/model.json",
    ],
)
def test_a_truncated_file_of_any_stage_is_named_and_made_again_once_deleted(
    finished, project, name
):
    path = project.folder / RESULTS / name
    cut(path)
    printed = project.run("--cores", "2", status=1)
    lines = [line for line in printed.splitlines() if line.lstrip().startswith("error: ")]
    assert lines and all(f"{RESULTS}/{name}" in line for line in lines), printed[-3000:]
    assert "Traceback" not in printed
    path.unlink()
    project.run("--cores", "2")
    assert project.tables() == finished.tables()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_stops_the_run_in_one_line_and_the_next_one_finishes(finished, unscored):
    project, disk = unscored, unscored.folder / RESULTS / "scores"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)], check=False
    )
    if mounted.returncode:
        pytest.skip("this root may not mount")  # a container without the right; no disk to fill
    try:
        printed = project.run("--cores", "2", status=1)
        assert "could not be written: no space left on device; make room and run again" in printed
        assert "Traceback" not in printed
        every_file_is_whole(project)
        assert not list(disk.rglob(f".*{UNFINISHED}"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    project.run("--cores", "2")
    assert project.tables() == finished.tables()


@pytest.fixture(scope="module")
def smaller(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One pair and one mode of the tiny experiment, finished; do not change it."""
    project = finished.copy(tmp_path_factory.mktemp("smaller") / "a copy")
    shutil.rmtree(project.folder / RESULTS)
    alone = EXPERIMENT["position"] | {"configurations": [{"pair": "copy", "label": "same"}]}
    project.configure(
        "config.yaml",
        EXPERIMENT | {"pairs": ["copy"], "modes": ["warm"], "position": alone},
    )
    project.run("--cores", "2")
    return project


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_kill_at_a_random_moment_costs_time_only(smaller, start, tmp_path, seed):
    """Either everything dies at once, or one job of a run that goes on to its own end."""
    project = smaller.copy(tmp_path / "killed")
    chance, results = random.Random(seed), project.folder / RESULTS
    jobs = len(logs_of_jobs(results))
    for path in results.iterdir():
        if path.name not in ("models", "prompts"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    run = start(project, "--cores", "2")
    begun = chance.randrange(jobs - 4)
    until(lambda: len(logs_of_jobs(results)) >= begun)
    time.sleep(chance.uniform(0, 1))
    assert run.poll() is None
    if chance.random() < 0.5:
        os.killpg(run.pid, signal.SIGKILL)
    else:
        os.kill(chance.choice(until(lambda: workers(run))).pid, signal.SIGKILL)
    run.wait(600)
    assert run.returncode
    every_file_is_whole(project)
    until(lambda: clear_lock(project).returncode == 0)  # what a killed shell had started lives on
    project.run("--cores", "2")
    assert project.tables() == smaller.tables()


def logs_of_jobs(results: Path) -> list[Path]:
    """The logs of the jobs that have begun, those of models and prompts left out."""
    logs = (results / "logs").rglob("*.log")
    return [path for path in logs if not {"models", "prompts"} & set(path.parts)]


def workers(run: subprocess.Popen) -> list[psutil.Process]:
    """What works at the jobs of a run: shells and the scripts that they call."""
    found = []
    for process in psutil.Process(run.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if "scripts/" in " ".join(process.cmdline()):
                found.append(process)
    return found
