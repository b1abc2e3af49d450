"""Our value for each published cell of the domains study, for the scorecard."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: labels (published domain -> domain); run and published, the two "
        "conditions in the same keys (target, draft, data, prompts, shape and others)",
    )
    parser.add_argument("--published", required=True, help="CSV of the published cells")
    parser.add_argument(
        "--statistics", nargs="+", required=True, help="Parquet files, schemas domains_*"
    )
    parser.add_argument("--output", required=True, help="Parquet file to write")
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.domains import lookup
    from draftscope.domains.measurements import Measurements
    from draftscope.exhibits import published

    found = lookup.read(arguments.statistics)
    rows = Measurements(found, **json_argument(arguments.settings)).rows(
        published.load(arguments.published)
    )
    records.write(arguments.output, rows, "measurements", {"statistics": found.settings})


if __name__ == "__main__":
    command(main)
