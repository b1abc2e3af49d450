"""README, schema, configuration and environments stay in step with each other."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from draftscope import extras

ROOT = Path(__file__).resolve().parents[2]


def pins(lines) -> dict[str, str]:
    found = (re.match(r"^([A-Za-z0-9_.-]+)==(\S+)$", line.strip()) for line in lines)
    return {re.sub(r"[-_.]+", "-", m[1]).lower(): m[2] for m in found if m}


def lock(name: str) -> dict[str, str]:
    return pins((ROOT / f"envs/{name}.lock").read_text().splitlines())


LOCK = lock("requirements")


def test_the_lock_pins_everything_the_project_uses_directly():
    lines = (ROOT / "envs/requirements.in").read_text().splitlines()
    names = {line for line in lines if line and not line.startswith("#")}
    assert names <= LOCK.keys()


@pytest.mark.parametrize("name", ["gpu", "analysis"])
def test_the_conda_files_mirror_the_lock(name):
    environment = yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())
    pip = next(item["pip"] for item in environment["dependencies"] if isinstance(item, dict))
    mirrored = pins(pip)
    assert len(mirrored) == len(pip)
    known = LOCK | lock("gptq")
    assert {package: known.get(package) for package in mirrored} == mirrored


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_an_extra_is_pinned_alike_wherever_it_stands(extra):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = {p.name: p.version for p in extras.EXTRAS[extra]}
    assert pins(project["project"]["optional-dependencies"][extra]) == named
    added = lock(extra)
    assert named.items() <= added.items()
    assert not added.keys() & LOCK.keys()  # it changes no version of the main environment


def test_case_78_the_pinned_scipy_handles_zeros_exactly():
    assert tuple(map(int, LOCK["scipy"].split(".")[:2])) >= (1, 13)


def scripts() -> list[Path]:
    return sorted((ROOT / "scripts").glob("*.py"))


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_every_script_says_how_to_run_it_by_hand(script):
    answer = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert "usage" in answer.stdout


def rule_files() -> list[Path]:
    return sorted((ROOT / "workflow/rules").glob("*.smk"))


@pytest.mark.parametrize("path", rule_files(), ids=lambda path: path.name)
def test_every_rule_file_opens_with_its_contract(path):
    head = path.read_text(encoding="utf-8")[:900]
    assert head.startswith("# Needs: ") and "Makes: " in head and "# Why: " in head
    if path.name != "common.smk":
        included = (ROOT / "workflow/Snakefile").read_text(encoding="utf-8")
        assert f'"rules/{path.name}"' in included


def test_every_script_of_a_rule_exists_and_is_tracked():
    named = set()
    for path in rule_files():
        text = path.read_text(encoding="utf-8")
        called = set(re.findall(r"python scripts/(\w+\.py)", text))
        tracked = set(re.findall(r'(?:sources|digest)\(\s*"(\w+\.py)"', text))
        assert called == tracked, path.name
        named |= called
    assert named <= {path.name for path in scripts()}


def test_the_readme_names_every_study_target_and_command():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    snakefile = (ROOT / "workflow/Snakefile").read_text(encoding="utf-8")
    targets = re.findall(r"^rule (\w+):", snakefile, flags=re.MULTILINE)
    for name in (
        *targets,
        "make demo",
        "make test",
        "config/paper.yaml",
        "results/laptop/report.html",
    ):
        assert name in readme, name
    for path in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / path).exists(), path
    assert "@" not in re.sub(r"\S+@\S+\.\S+", "", readme), "a placeholder is left"


def test_no_file_of_the_library_is_too_long_to_read_alone():
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in ("scripts", "workflow")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".smk")
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > 340
    }
    assert not long


@pytest.mark.parametrize(
    "profile", sorted(path.name for path in (ROOT / "workflow/profiles").iterdir())
)
def test_case_66_every_profile_waits_for_slow_file_systems(profile):
    settings = yaml.safe_load((ROOT / f"workflow/profiles/{profile}/config.yaml").read_text())
    assert settings["latency-wait"] >= 5
    assert settings["rerun-incomplete"] is True
    assert "keep-incomplete" not in settings


@pytest.mark.parametrize("path", rule_files(), ids=lambda path: path.name)
def test_every_rule_that_holds_models_tells_its_job_how_many_gpus_it_was_given(path):
    for rule in re.split(r"\n(?=rule )", path.read_text(encoding="utf-8")):
        if rule.startswith("rule "):
            asks = "**requests(" in rule
            assert asks == ("DRAFTSCOPE_GPUS={resources.gpu}" in rule), rule.split("\n")[0]
