"""Can the stages run as the configuration says: their devices, their attention implementation?"""

from __future__ import annotations

import importlib.util

from draftscope.doctor.findings import NOTE, OK, PROBLEM, Findings
from draftscope.errors import UserError
from draftscope.models.loaded import choose_device
from draftscope.resolved import Resolved

# Implementations that take a package of their own.
PACKAGES = {"flash_attention_2": "flash_attn"}


def check_stages(experiment: Resolved, findings: Findings) -> None:
    """Look for the package of a stage's attention, and for its device.

    A device that is not here may be where the jobs run; a package must be in their environment, which
    is this one.
    """
    settings = experiment.settings
    stages = {"generation": settings.generation, "scoring": settings.scoring}
    stages |= {"trees": settings.trees} if "domains" in settings.studies else {}
    for name, stage in stages.items():
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
