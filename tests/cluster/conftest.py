"""A real Slurm of one node, and the tiny experiment on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_cluster import Slurm, until
from tiny_project import EXPERIMENT, Project, new_project


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(cluster.folder / "slurm.conf"))
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "often"))
        try:
            if unfit := cluster.start():
                pytest.skip(unfit)  # no root or no packages: the reason says which
            yield cluster
        finally:
            cluster.do("stop")


@pytest.fixture(scope="session")
def local(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny experiment of one pair, finished without a cluster; do not change it.

    Generation asks for a GPU and waits as long as there is a file `hold`, leaving `hold.{process}`
    beside it, so that tests can choose their moment.
    """
    project = new_project(tmp_path_factory.mktemp("a project") / "draft scope")
    blocks = {name: EXPERIMENT.get(name, {}) | {"gpus": 1} for name in ("generation", "scoring")}
    one = {"configurations": [{"pair": "copy", "label": "same"}]}
    small = {"pairs": ["copy"], "modes": ["warm"], "shard_size": 8}
    small["position"] = EXPERIMENT["position"] | one
    project.configure("config.yaml", EXPERIMENT | blocks | small)
    project.edit(
        "scripts/generate.py",
        "    from draftscope import runtime\n",
        "    while Path('hold').exists():\n"
        "        Path(f'hold.{os.getpid()}').touch()\n"
        "        time.sleep(0.1)\n"
        "    from draftscope import runtime\n",
    )
    project.edit(
        "scripts/generate.py", "import time\n", "import os\nimport time\nfrom pathlib import Path\n"
    )
    project.run("--cores", "2")
    return project


@pytest.fixture
def project(local: Project, slurm: Slurm, tmp_path: Path) -> Iterator[Project]:
    """A copy in which text has yet to be generated, and is held up."""
    project = local.copy(tmp_path / "copy of it")
    shutil.rmtree(project.folder / "results/tiny/trajectories")
    (project.folder / "hold").touch()
    yield project
    (project.folder / "hold").unlink(missing_ok=True)
    subprocess.run(["scancel", "--user=root"], check=True)
    until(lambda: not slurm.jobs("RUNNING", "COMPLETING"))


@pytest.fixture
def submit(project: Project) -> Iterator[Callable[..., subprocess.Popen]]:
    """Start Snakemake in the project; what is still alive at the end of the test is ended."""
    started = []

    def start(*arguments: str) -> subprocess.Popen:
        started.append(project.start(*arguments))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
