"""Profiles: each line says why, and none promises what the others take back."""

import importlib.metadata
import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROFILES = sorted((ROOT / "workflow/profiles").glob("*/config.yaml"))
SLURM = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text(encoding="utf-8"))


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "envs" / name).read_text(encoding="utf-8").splitlines()
    found = (re.match(r"^([A-Za-z0-9_.-]+)==(\S+)$", line.strip()) for line in lines)
    return {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2] for match in found if match}


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.parent.name)
def test_every_setting_stands_under_its_reason(path):
    explained = False
    for line in path.read_text(encoding="utf-8").splitlines():
        explained = line.startswith("#") or (explained and bool(line.strip()))
        if re.match(r"^[a-z-]+: ", line) and not line.startswith("executor: "):
            assert explained, line


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.parent.name)
def test_a_retry_changes_no_setting_of_the_numbers(path):
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert not {"config", "configfile", "set-threads"} & settings.keys()
    # A rule that retries by itself would do so inside its first allocation.
    for rules in (ROOT / "workflow").rglob("*.smk"):
        assert not re.search(r"^\s+retries:", rules.read_text(encoding="utf-8"), re.MULTILINE)


def test_slurm_is_asked_by_squeue_and_often_enough_for_it():
    assert SLURM["slurm-status-command"] == "squeue"
    # Slurm's default MinJobAge; below three times the interval the plugin falls back to sacct.
    assert 3 * SLURM["slurm-init-seconds-before-status-checks"] <= 300


def test_the_executor_is_installed_as_pinned_and_finds_what_it_needs():
    """The lock has all that the plugins ask for, but for the numpy that is held back."""
    lock, refused = pins("requirements.lock"), set()
    for name, version in pins("cluster.lock").items():
        assert importlib.metadata.version(name) == version
        for need in map(Requirement, importlib.metadata.requires(name)):
            pinned = (lock | pins("cluster.lock"))[need.name.lower()]
            if pinned not in need.specifier:
                refused.add(need.name)
    assert refused == {"numpy"}
