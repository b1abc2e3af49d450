"""What is not installed is named before any job, with versions and the command that installs it."""

import importlib.metadata
import json
import subprocess
import sys

import pytest
from draftscope import extras
from draftscope.errors import UserError

MODELS = {
    "made-here": {"kind": "gptq", "base": "plain"},
    "from-hub": {"kind": "hub", "id": "a/b", "revision": "main", "quantization": "gptq"},
    "in-cpp": {"kind": "llama_cpp"},
    "plain": {"kind": "hub", "id": "a/c", "revision": "main", "quantization": None},
    "copy": {"kind": "round_to_nearest", "base": "plain"},
}


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.fixture
def installed(monkeypatch):
    """All packages are there, at versions that the test may change."""
    versions = {p.name: p.version for extra in extras.EXTRAS.values() for p in extra}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("importlib.metadata.version", lambda name: versions[name])
    return versions


def test_case_57_every_model_that_lacks_its_package_is_named(nothing_installed):
    lines = extras.missing(MODELS)
    assert [line.split()[1] for line in lines] == ["made-here", "from-hub", "in-cpp"]
    assert "gptqmodel 7.5.0" in lines[0] and "optimum 2.3.0" in lines[0]
    assert "pip install gptqmodel==7.5.0 optimum==2.3.0" in lines[1]
    assert "llama-cpp-python==" in lines[2]
    assert all("\n" not in line for line in lines)


def test_nothing_is_missing_where_all_is_installed(installed):
    assert extras.missing(MODELS) == []
    extras.require("gptq", "made-here")


def test_an_older_version_is_refused_and_a_newer_one_is_not(installed):
    installed["gptqmodel"] = "7.10.0"
    assert extras.missing(MODELS) == []
    installed["gptqmodel"] = "7.4.9"
    with pytest.raises(UserError, match=r"gptqmodel 7\.5\.0 or newer \(installed: 7\.4\.9\)"):
        extras.require("gptq", "made-here")


def test_a_package_without_metadata_counts_as_installed(installed, monkeypatch):
    def unknown(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", unknown)
    assert extras.missing(MODELS) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
        ({"quantization_config": {"quant_method": "awq"}}, None),
        ({"model_type": "llama"}, None),
        ("not a mapping", None),
    ],
)
def test_a_local_folder_tells_its_method(tmp_path, config, expected):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert extras.extra_of({"kind": "local", "path": str(tmp_path)}) == expected


def test_a_folder_that_is_not_there_needs_no_package(tmp_path):
    assert extras.extra_of({"kind": "local", "path": str(tmp_path / "none")}) is None


def test_asking_imports_none_of_the_packages():
    names = [p.module for extra in extras.EXTRAS.values() for p in extra] + ["torch"]
    program = (
        "import sys; from draftscope import extras; extras.missing({'a': {'kind': 'gptq'}, "
        f"'b': {{'kind': 'llama_cpp'}}}}); print([n for n in {names} if n in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(extras.__file__).rsplit("/draftscope", 1)[0]},
        check=True,
    )
    assert answer.stdout.strip() == "[]"
