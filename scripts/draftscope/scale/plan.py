"""An experiment of tens of thousands of jobs, and how long its plan takes (`snakemake -n`)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from draftscope.scale.meter import Cost, measure

KINDS = ("models", "pairs", "domains", "modes")
SHARD_SIZE = 16


@dataclass(frozen=True)
class Plan:
    """How many of each there are; every draft is scored in a group of its own."""

    targets: int
    drafts: int
    domains: int
    modes: int
    shards: int

    @property
    def jobs(self) -> dict[str, int]:
        """Jobs of each rule that grows with the experiment."""
        texts = self.targets * self.domains * self.modes
        return {
            "resolve_model": self.targets + self.drafts,
            "collect_prompts": self.domains * self.shards,
            "generate": texts * self.shards,
            "score": texts * self.drafts * self.shards,
            "find_loops": texts,
            "replay_rounds": texts * self.drafts,
        }


# A little over 10,000 and 50,000 jobs.
TEN_THOUSAND = Plan(targets=4, drafts=5, domains=5, modes=2, shards=40)
FIFTY_THOUSAND = Plan(targets=4, drafts=5, domains=10, modes=2, shards=102)


def write(plan: Plan, folder: Path) -> Path:
    """Write registries and an experiment over `config/config.yaml`; returns the experiment's file.

    Models and data sets are of the hub and do not exist, which a plan does not ask.
    """
    folder = folder.resolve()
    targets = [f"planned-target-{n}" for n in range(plan.targets)]
    drafts = [f"planned-draft-{n}" for n in range(plan.drafts)]
    domains = [f"planned-domain-{n}" for n in range(plan.domains)]
    modes = [f"planned-mode-{n}" for n in range(plan.modes)]
    prompts = plan.shards * SHARD_SIZE
    rows: dict[str, dict[str, Any]] = {
        "models": {
            name: {"kind": "hub", "id": f"planned/{name}", "revision": "main"}
            for name in (*targets, *drafts)
        },
        "pairs": {
            f"{target}--{draft}": {"target": target, "draft": draft, "draft_group": draft}
            for target in targets
            for draft in drafts
        },
        "domains": {
            name: {
                "source": "hub",
                "repository": f"planned/{name}",
                "revision": "main",
                "file": "prompts.jsonl",
                "text_field": "text",
                "evaluation": [0, prompts],
            }
            for name in domains
        },
        "modes": {name: {"temperature": 0.5 * n} for n, name in enumerate(modes)},
    }
    pairs = list(rows["pairs"])
    experiment = {
        "experiment": "planned",
        "studies": ["position"],
        "registries": {
            kind: [f"config/{kind}.yaml", str(folder / f"{kind}.yaml")] for kind in KINDS
        },
        "pairs": pairs,
        "domains": [{"name": name, "prompts": prompts, "max_new_tokens": 4096} for name in domains],
        "modes": modes,
        "draft_lengths": [5],
        "shard_size": SHARD_SIZE,
        "generation": {"batch_size": SHARD_SIZE},
        "position": {
            "domain": domains[0],
            "draft_length": 5,
            "configurations": [{"pair": pair, "label": f"pair{n}"} for n, pair in enumerate(pairs)],
            "temperatures": None,
        },
        "choice": {"cost_ratios": dict.fromkeys(drafts, 0.2)},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        _dump(folder / f"{kind}.yaml", rows[kind])
    _dump(folder / "experiment.yaml", experiment)
    return folder / "experiment.yaml"


def _dump(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False), encoding="utf-8")


def dry_run(experiment: Path, root: Path) -> tuple[Cost, dict[str, int]]:
    """Plan an experiment in the project's folder `root`: what that cost, and its jobs by rule.

    Nothing is run and nothing written but Snakemake's own log. `--quiet rules` leaves the table of
    jobs, without which nothing would show that all of them were planned.
    """
    command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "rules", "--nocolor"]
    cost = measure([*command, "--configfile", str(experiment)], root)
    jobs = {}
    for line in cost.printed.splitlines():
        if found := re.fullmatch(r"(\w+) +(\d+)", line.strip()):
            jobs[found[1]] = int(found[2])
    return cost, jobs
