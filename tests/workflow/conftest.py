"""The tiny experiment, run once a session; tests that change anything work on a copy."""

from pathlib import Path

import pytest
from tiny_project import Project, new_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The finished experiment; do not change it."""
    project = new_project(tmp_path_factory.mktemp("a project") / "draft scope")
    project.run("--cores", "2")
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of the finished tiny experiment to change at will."""
    return finished.copy(tmp_path / "copy of it")
