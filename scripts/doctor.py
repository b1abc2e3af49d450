"""Find what would stop an experiment before its first job, and how large it is.

Prints a table of all checks; the exit status is 2 if one of them is a problem. Needs the network
for models and data of the hub, unless HF_HUB_OFFLINE=1 says that they are in the cache.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from draftscope.errors import UserError, command

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--configfile", nargs="*", default=[], help="laid over config/config.yaml, as by Snakemake"
    )
    parser.add_argument(
        "--calibrate", action="store_true", help="time a short batch of each target that is here"
    )
    parser.add_argument("--no-plan", action="store_true", help="do not count jobs by a dry run")
    arguments = parser.parse_args()

    from draftscope import config, registry
    from draftscope.checkpoints import BLOCK_DRAFTS
    from draftscope.doctor import attention, live, models, room, stages, texts
    from draftscope.doctor.findings import NOTE, OK, PROBLEM, Findings
    from draftscope.strict import load_yaml
    from snakemake.utils import update_config

    settings: dict = {}
    for path in (ROOT / "config/config.yaml", *arguments.configfile):
        update_config(settings, load_yaml(Path(path)))
    experiment = config.load(settings, ROOT)
    results = ROOT / "results" / experiment.settings.experiment
    findings = Findings()
    studies = {
        "lossless": experiment.live,
        "domains": experiment.trees,
        "interventions": experiment.interventions,
        "certificates": experiment.certificates,
        "losses": experiment.losses,
        "retrace": experiment.retrace,
    }
    pairs, needed = dict(experiment.pairs), dict(experiment.pairs)
    for name, study in studies.items():
        pairs |= study.pairs
        needed |= study.pairs if name in experiment.settings.studies else {}
    used = registry.models_of(needed, experiment.models)
    stages.check_stages(experiment, findings)
    known = models.look(experiment.models, used, results / "models", findings)
    models.compare(pairs, experiment.models, known, findings, needed)
    found = texts.check_texts(experiment, known, findings)
    live.check_live(experiment, known, findings)
    for name, study in (("temperatures", experiment.sweep), *studies.items()):
        if study.problem:
            findings.add(
                "study", name, NOTE, f"cannot be built in this experiment: {study.problem}"
            )
    read = {
        pair[role]: models.of_base(pair[role], experiment.models, known)
        for pair in experiment.trees.pairs.values()
        for role in ("target", "draft")
        if experiment.models[pair[role]]["kind"] not in BLOCK_DRAFTS  # they read no tree
    }
    attention.check_attention(read, experiment.settings.trees, findings)
    room.check_disk(experiment, results, findings)
    room.check_memory(experiment, found, known, findings)
    if arguments.calibrate:
        room.calibrate(experiment, found, results / "models", findings)
    if not arguments.no_plan:
        _plan(arguments.configfile, findings, (OK, PROBLEM))
    _print(findings)
    if findings.problems:
        raise UserError(f"{len(findings.problems)} of {len(findings.rows)} checks found a problem")


def _plan(configfiles: list[str], findings, verdicts) -> None:
    from draftscope.doctor import room

    told = subprocess.run(
        [sys.executable, "-m", "snakemake", "--dry-run", "--nocolor", "--cores", "1",
         *(["--configfile", *map(str, map(Path.absolute, map(Path, configfiles)))]
           if configfiles else [])],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if told.returncode:
        lines = (told.stderr or told.stdout).strip().splitlines()
        findings.add("jobs", "dry run", verdicts[1], lines[-1] if lines else "failed")
        return
    counts = room.job_counts(told.stdout)
    total = counts.pop("total", 0)
    said = ", ".join(f"{count} {rule}" for rule, count in counts.items())
    findings.add(
        "jobs", "dry run", verdicts[0], f"{total} jobs to run" + (f": {said}" if said else "")
    )


def _print(findings) -> None:
    widths = [
        max(len(getattr(row, name)) for row in findings.rows)
        for name in ("verdict", "check", "subject")
    ]
    for row in findings.rows:
        cells = zip((row.verdict, row.check, row.subject), widths, strict=True)
        print("  ".join(text.ljust(width) for text, width in cells), row.detail, sep="  ")


if __name__ == "__main__":
    command(main)
