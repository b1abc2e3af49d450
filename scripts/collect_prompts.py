"""Collect one shard of a domain's prompts from its source."""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import command, json_argument

log = logging.getLogger("collect_prompts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="the domain's registry row with its name as `domain`, JSON or a JSON file",
    )
    parser.add_argument("--start", type=int, required=True, help="first prompt of the shard")
    parser.add_argument("--stop", type=int, required=True, help="one past the last prompt")
    parser.add_argument("--output", required=True, help="Parquet file of schema prompts")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import prompts, records

    rows = prompts.collect(settings, arguments.start, arguments.stop)
    source = {key: value for key, value in settings.items() if key != "template"}
    records.write(
        arguments.output, rows, "prompts", {"domain": settings["domain"], "source": source}
    )
    log.info("domain %s: %d prompts", settings["domain"], len(rows))


if __name__ == "__main__":
    command(main)
