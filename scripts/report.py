"""Make report.html: everything an experiment found, in one file, from its result files alone."""

from __future__ import annotations

import argparse
import importlib
import re

from draftscope.errors import UserError, command, json_argument

KEYS = ("title", "experiment", "studies", "headline", "not_measured", "command", "schemas")
SCHEMA_MODULE = re.compile(r"draftscope(\.[a-z_]+)+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        default="{}",
        help="JSON or a JSON file: title, experiment, studies (name -> title), headline (study -> "
        "{title, exhibit or statements}: what the summary speaks of), not_measured (sentences), "
        "command (how to run it again), "
        "schemas (library modules whose files the data dictionary lists)",
    )
    parser.add_argument("--exhibits", nargs="*", default=[], help=".md, .svg and .csv files")
    parser.add_argument("--scorecard", help="scorecard.csv")
    parser.add_argument("--viewer", help="JSON made by viewer.py")
    parser.add_argument("--trajectories", nargs="*", default=[], help="Parquet shards")
    parser.add_argument("--rounds", nargs="*", default=[], help="Parquet, for their conditions")
    parser.add_argument("--output", required=True, help="HTML")
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.exhibits import report

    settings = json_argument(arguments.settings)
    if unknown := set(settings) - set(KEYS):
        raise UserError(f"unknown settings of the report: {', '.join(sorted(unknown))}")
    for name in settings.get("schemas", []):
        if not SCHEMA_MODULE.fullmatch(name):
            raise UserError(f"{name!r} is no library module with schemas")
        importlib.import_module(name)
    page = report.build(
        settings,
        arguments.exhibits,
        arguments.scorecard,
        arguments.viewer,
        arguments.trajectories,
        arguments.rounds,
    )
    with records.atomic(arguments.output) as file:
        file.write(page)


if __name__ == "__main__":
    command(main)
