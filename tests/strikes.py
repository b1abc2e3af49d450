"""What shall happen to which job, and when: faults that hit a run at a chosen moment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

INTERFERENCE = Path(__file__).parent / "interference"


def strike(
    job: tuple[str, ...],
    do: Literal["kill", "fill", "vanish", "hold"],
    at: str = "",
    call: int = 1,
    arguments: str = "",
) -> dict:
    """One strike.

    Args:
        job: words that all stand on the command line of the process.
        do: "kill" as `kill -9` does, "fill" the disk (the call raises ENOSPC), "vanish" with exit
            status 0, or "hold" it, which leaves a file `held.{process id}` in its folder until
            somebody removes that.
        at: the moment, a call of the function module:name; by default the start of the process.
        call: which call it is, of those whose arguments, written out, hold `arguments`.
    """
    return {"job": list(job), "do": do, "at": at, "call": call, "with": arguments}


def with_strikes(*strikes: dict) -> dict[str, str]:
    """The environment of a run in which these happen."""
    paths = [str(INTERFERENCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "INTERFERE": json.dumps(strikes)}
