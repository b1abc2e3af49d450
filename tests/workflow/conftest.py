"""The tiny experiment, run once a session; tests that change anything work on a copy."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from tiny_project import Project, new_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The finished experiment; do not change it. Processes that share the tests share it too."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    project, done = Project(folder / "a project/draft scope"), folder / "finished"
    with open(folder / "finished.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(project.folder, ignore_errors=True)
            new_project(project.folder).run("--cores", "2")
            done.touch()
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of the finished tiny experiment to change at will."""
    return finished.copy(tmp_path / "copy of it")
