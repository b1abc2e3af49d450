"""Run on a CUDA device what no CPU can show, on random models of the published shapes.

Needs torch, transformers and this checkout, and neither network nor files. Prints each value, with
its bound where one must hold, and writes them all as JSON after every check, so that what was
found stays if the machine is taken away. Exit status 1: something did not hold.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))


class OutOfTime(BaseException):
    """The time that this may take is over; no fault, so that nobody takes it for one of theirs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("published", "tiny"), default="published")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ... or cpu")
    parser.add_argument("--minutes", type=float, default=8.0, help="most that this may take")
    parser.add_argument("--output", required=True, help="JSON file to write")
    parser.add_argument("--only", nargs="*", default=[], help="names of checks")
    arguments = parser.parse_args()

    start = time.monotonic()
    from draftscope import runtime
    from draftscope.writing import write_json

    runtime.prepare(1 if arguments.device == "cpu" else 8)
    import checks
    import torch
    from random_models import SIZES

    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("error: torch finds no CUDA device; try --size tiny --device cpu")
    result: dict[str, Any] = {
        "size": arguments.size,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(device),
        "versions": versions(),
        "finished": False,
        "values": [],
        "failures": [],
    }

    def keep() -> None:
        result["seconds"] = round(time.monotonic() - start, 1)
        result["holds"] = not result["failures"] and all(
            value["holds"] is not False for value in result["values"]
        )
        write_json(arguments.output, result)

    keep()
    signal.signal(signal.SIGALRM, _ring)
    bench = checks.Bench(SIZES[arguments.size], device)
    names = arguments.only or [check.__name__ for check in checks.CHECKS]
    try:
        left = 60 * arguments.minutes - (time.monotonic() - start)
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))
        for check in (check for check in checks.CHECKS if check.__name__ in names):
            try:
                for found in check(bench):
                    result["values"].append({"check": check.__name__, **described(found)})
                    print(line(found), flush=True)
                    keep()
            except Exception as error:  # noqa: BLE001  the next checks may still tell something
                result["failures"].append({"check": check.__name__, "error": repr(error)})
                print(f"FAILED  {check.__name__}: {error!r}", flush=True)
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
        result["finished"] = True
    except OutOfTime:
        result["failures"].append({"check": "time", "error": f"over {arguments.minutes} minutes"})
    signal.setitimer(signal.ITIMER_REAL, 0)
    keep()
    print("all that must hold does" if result["holds"] else "NOT ALL HOLDS", flush=True)
    # Not sys.exit, which would wait for the threads of a check that was cut short.
    os._exit(0 if result["holds"] else 1)


def _ring(*_: Any) -> None:
    raise OutOfTime


def described(found: Any) -> dict[str, Any]:
    value = found.value
    finite = value is None or value - value == 0
    return {
        "name": found.name,
        "value": value if finite else None,
        "unit": found.unit,
        "at_most": found.at_most,
        "at_least": found.at_least,
        "holds": found.holds if finite else False,
        "detail": found.detail if finite else f"the value is {value}",
    }


def line(found: Any) -> str:
    mark = {True: "holds ", False: "FAILED", None: "      "}[found.holds]
    value = "-" if found.value is None else f"{found.value:.4g}"
    bounds = [("at least", found.at_least), ("at most", found.at_most)]
    said = [f"{word} {bound:.4g}" for word, bound in bounds if bound is not None]
    said = ", ".join([*said, *filter(None, [found.detail])])
    return f"{mark}  {found.name}: {value} {found.unit}" + f" ({said})" * bool(said)


def machine(device: Any) -> dict[str, Any]:
    import torch

    about: dict[str, Any] = {"device": str(device), "processor": platform.processor()}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        about |= {
            "gpu": properties.name,
            "memory_gib": round(properties.total_memory / 2**30, 1),
            "capability": f"{properties.major}.{properties.minor}",
        }
    return about


def versions() -> dict[str, str | None]:
    import torch
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cuda": torch.version.cuda,
    }


if __name__ == "__main__":
    main()
