"""Can the stages run as the configuration says: their devices, their attention implementation?"""

from __future__ import annotations

import importlib.util

from draftscope.doctor.findings import NOTE, OK, PROBLEM, Findings
from draftscope.errors import UserError
from draftscope.models.loaded import choose_device
from draftscope.resolved import Resolved
from draftscope.stage import Stage

# Implementations that take a package of their own.
PACKAGES = {"flash_attention_2": "flash_attn"}
# Studies that a stage works for, where these are not the one of its name; the first two work for all.
EVERY_STUDY = ("generation", "scoring")
STUDIES = {
    "trees": {"domains"},
    "training": {"interventions"},
    "block_training": {"losses", "retrace"},
}


def check_stages(experiment: Resolved, findings: Findings) -> None:
    """Look for the package of a stage's attention, and for its device; of the studies asked for.

    A device that is not here may be where the jobs run; a package must be in their environment, which
    is this one.
    """
    asked = set(experiment.settings.studies)
    for name, stage in experiment.settings:
        needed = name in EVERY_STUDY or asked & STUDIES.get(name, {name})
        if not isinstance(stage, Stage) or not needed:
            continue
        package = PACKAGES.get(stage.attention)
        if package and importlib.util.find_spec(package) is None:
            findings.add(
                "stage", name, PROBLEM,
                f"attention {stage.attention} needs the package {package}, which is not installed; "
                "sdpa and eager are always there",
            )  # fmt: skip
            continue
        try:
            device = choose_device(stage.device)
        except UserError as error:
            findings.add("stage", name, NOTE, f"{error}, unless jobs run on another machine")
            continue
        said = f"{stage.attention} in {stage.dtype} on device {stage.device}"
        here = f", which is {device} here" if stage.device == "auto" else ""
        findings.add("stage", name, OK, said + here)
