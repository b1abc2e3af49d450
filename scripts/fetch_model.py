"""Resolve one model of the registry: fetch or convert it, and write its record.

The only step that needs a network. The record says what the model is, at which revision; files
that had to be converted are put beside it.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("fetch_model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="name of the model in the registry")
    parser.add_argument("--settings", required=True, help="its registry row, JSON or a JSON file")
    parser.add_argument("--base", help="model.json of the model it is derived from")
    parser.add_argument("--output", required=True, help="where model.json goes")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)
    output = Path(arguments.output)
    if output.name != "model.json":
        raise UserError(f"--output must end in model.json, not {output.name}")

    from draftscope import models

    start = time.monotonic()
    record = models.resolve(arguments.name, settings, output.parent, arguments.base)
    log.info(
        "model %s: %s, resolved in %.1f s",
        arguments.name,
        record["revision"],
        time.monotonic() - start,
    )


if __name__ == "__main__":
    command(main)
