"""Fixtures that every unit test may use."""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every run and no deadline on a busy machine; HYPOTHESIS_PROFILE=explore
# looks for new counterexamples.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Several test runs share the machine, and the number of threads moves floating point."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with its tokenizer, saved once a session."""
    from tiny import tiny_model_folder

    return tiny_model_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., str]:
    """Run a script's main function in this process; what it printed."""

    def run(script: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        importlib.import_module(Path(script).stem).main()
        return capsys.readouterr().out

    return run
