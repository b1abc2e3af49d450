"""Fixtures that every unit test may use."""

from pathlib import Path

import pytest


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
