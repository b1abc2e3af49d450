"""A copy of the project with tiny models, in which Snakemake can run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import planner
import yaml
from tiny import tiny_model_folder

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("scripts", "workflow", "config", "envs", "README.md", "Makefile", "pyproject.toml")

# A job of a plan: its rule and its first output. Targets, which make nothing, are none.
JOB = re.compile(r"^(?:local)?rule (\w+):\n(?:    .*\n)*?    output: ([^\s,]+)", re.MULTILINE)

MODELS = {
    "tiny": {"kind": "local", "path": "weights/tiny"},
    "tiny-4bit": {"kind": "round_to_nearest", "base": "tiny", "bits": 4, "group_size": 32},
    "tiny-other": {"kind": "local", "path": "weights/other"},
    "tiny-lookup": {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1},
}
PAIRS = {
    "copy": {"target": "tiny", "draft": "tiny-4bit", "draft_group": "copies"},
    "lookup": {"target": "tiny", "draft": "tiny-lookup", "draft_group": "free"},
    "other": {"target": "tiny", "draft": "tiny-other", "draft_group": "later"},
}
MODES = {
    "cold": {"temperature": 0},
    "warm": {"temperature": 0.8, "top_p": 0.95},
    "tepid": {"temperature": 0.4},
}
EXPERIMENT = {
    "experiment": "tiny",
    "registries": {kind: [f"tiny/{kind}.yaml"] for kind in ("models", "pairs", "domains", "modes")},
    "pairs": ["copy", "lookup"],
    "domains": [{"name": "small", "prompts": 8, "max_new_tokens": 40}],
    "modes": ["cold", "warm"],
    "draft_lengths": [2, 4],
    "shard_size": 4,
    "generation": {"batch_size": 2},
    "statistics": {"resamples": 200},
    "position": {
        "domain": "small",
        "draft_length": 2,
        "configurations": [{"pair": "copy", "label": "same"}, {"pair": "lookup", "label": "xfam"}],
        "bin_width": 10,
        "support_prompts": 2,
        "trend": {"lengths": [10, 20]},
        "temperatures": {
            "modes": ["cold", "warm"],
            "prompts": 6,
            "max_new_tokens": 16,
        },
    },
    "choice": {"cost_ratios": {"tiny-4bit": 0.5, "tiny-lookup": 0.0, "tiny-other": 0.5}},
    "lossless": {
        "domain": "small",
        "prompts": 6,
        "max_new_tokens": 16,
        "draft_length": 2,
        "configurations": [
            {"pair": "copy", "mode": "warm", "draft_lengths": [1, 2, 4], "published": "mixed_3b"},
            {"pair": "copy", "mode": "cold", "draft_lengths": [2]},
            {"pair": "lookup", "mode": "warm", "draft_lengths": [2]},
            {"pair": "lookup", "mode": "cold", "draft_lengths": [2, 4]},
        ],
        "replays": 20,
        "verify_latency": {"tokens": [1, 2, 5], "context": 24, "repeats": 3},
        "batch": {
            "pair": "copy",
            "mode": "warm",
            "draft_length": 2,
            "sizes": [1, 3],
            "prompts": 6,
            "repeats": 2,
        },
        "equivalence": {
            "trials": 2000,
            "generations": 200,
            "tokens": 20,
            "pair": "copy",
            "mode": "warm",
            "draft_length": 2,
            "prompts": 5,
            "samples": 4,
            "max_new_tokens": 12,
            "batch_size": 6,
        },
        "divergence": {"pair": "copy", "mode": "cold", "draft_length": 2, "prompts": 4},
        "threads": 1,
    },
    "trees": {
        "pair": "copy",
        "mode": "cold",
        "domains": [
            {"name": "small", "prompts": 5, "max_new_tokens": 16, "published": "chat"},
            {"name": "raw", "prompts": 6, "max_new_tokens": 12, "published": "math"},
        ],
        "entropy_bins": 3,
        "node_budgets": [1, 4],
        "cost_ratios": [0.2],
        "budget_depth": 3,
        "fewest_reached": 1,
        "equivalence": {"generations": 60, "tokens": 10},
    },
    "certificates": {
        "pairs": ["copy", "other"],
        "mode": "cold",
        "domains": [
            {"name": "small", "prompts": 5, "max_new_tokens": 16},
            {"name": "raw", "prompts": 5, "max_new_tokens": 12},
        ],
        "headline": "small",
        "relaxed": {"pair": "copy", "draft_length": 2, "batch_size": 4},
        "equivalence": {"trials": 3000},
    },
    "report": {"title": "A tiny run", "viewer_trajectories": 1, "not_measured": []},
}


@dataclass(frozen=True)
class Project:
    """A folder in which the workflow can run."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        return [
            *(sys.executable, "-m", "snakemake", "--configfile", "tiny/config.yaml"),
            *("--nocolor", *arguments),
        ]

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        """Start Snakemake in a session of its own, so that all of it can be killed."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **options,
        )

    def run(self, *arguments: str, status: int | None = 0) -> str:
        """Run Snakemake and return what it printed; `status` None accepts any exit status."""
        if "-n" in arguments:
            found, printed = planner.plan(self.folder, self.command(*arguments)[3:])
        else:
            answer = subprocess.run(
                self.command(*arguments),
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
                env=os.environ | {"COLUMNS": "200"},
            )
            found, printed = answer.returncode, answer.stdout + answer.stderr
        assert status is None or found == status, printed[-6000:]
        return printed

    def planned(self, *arguments: str) -> dict[str, list[str]]:
        """Jobs that Snakemake would run now: rule -> the first output of each."""
        printed = self.run("-n", *arguments)
        jobs: dict[str, list[str]] = {}
        for rule, output in JOB.findall(printed):
            jobs.setdefault(rule, []).append(output)
        assert jobs or "Nothing to be done" in printed, printed[-6000:]
        return jobs

    def plan(self, *arguments: str) -> dict[str, int]:
        """How many jobs of each rule Snakemake would run now."""
        return {rule: len(outputs) for rule, outputs in self.planned(*arguments).items()}

    @contextlib.contextmanager
    def changed(self, *edits: tuple[str, str, str]) -> Iterator[None]:
        """The project with some files edited (as by `edit`), and then as it was."""
        paths = [self.folder / name for name, _, _ in edits]
        before = [(path, path.read_bytes(), path.stat()) for path in paths]
        try:
            for edit in edits:
                self.edit(*edit)
            yield
        finally:
            for path, content, was in before:
                path.write_bytes(content)
                os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} does not hold {old!r}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def configure(self, name: str, content: dict) -> None:
        (self.folder / "tiny" / name).write_text(yaml.safe_dump(content, sort_keys=False))

    def tables(self, experiment: str = "tiny") -> dict[str, str]:
        """Every table of an experiment as text, by name."""
        folder = self.folder / "results" / experiment
        paths = [*folder.glob("exhibits/**/*.csv"), folder / "scorecard.csv"]
        return {str(path.relative_to(folder)): path.read_text("utf-8") for path in sorted(paths)}

    def copy(self, folder: Path) -> Project:
        """The project with its results and Snakemake's records, times kept."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Project(folder)


def new_project(folder: Path, parts: Sequence[str] = PARTS) -> Project:
    """A project without results, in a folder whose name has a space."""
    for part in parts:
        source = ROOT / part
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(source, folder / part, ignore=ignored)
        elif source.exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / part)
    tiny_model_folder(folder / "weights/tiny", seed=1)
    tiny_model_folder(folder / "weights/other", seed=2)
    project = Project(folder)
    (folder / "tiny").mkdir()
    prompts = [
        {"id": f"p{i}", "text": f"Say {i} things about the sea.", "language": "en"}
        for i in range(12)
    ]
    with open(folder / "tiny/prompts.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(prompt) + "\n" for prompt in prompts)
    project.configure("models.yaml", MODELS)
    project.configure("pairs.yaml", PAIRS)
    project.configure("modes.yaml", MODES)
    project.configure("domains.yaml", domains())
    project.configure("config.yaml", EXPERIMENT)
    return project


def domains() -> dict:
    source = {"source": "jsonl", "file": "tiny/prompts.jsonl", "evaluation": [0, 12]}
    raw = {"instruction": "Q: {problem}\nA:", "template": {"chat_template": False}}
    return {"small": source, "raw": source | raw}
