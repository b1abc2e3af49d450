"""Our value for each published cell of the certificates study, for the scorecard."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: targets (published target -> target), domain; run and "
        "published, the two conditions in the same keys (targets, temperature, data and others)",
    )
    parser.add_argument("--published", required=True, help="CSV of the published cells")
    parser.add_argument(
        "--statistics", nargs="+", required=True, help="Parquet files, schemas certificates_*"
    )
    parser.add_argument("--output", required=True, help="Parquet file to write")
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.certificate_study import lookup
    from draftscope.certificate_study.measurements import Measurements
    from draftscope.exhibits import published

    found = lookup.read(arguments.statistics)
    rows = Measurements(found, **json_argument(arguments.settings)).rows(
        published.load(arguments.published)
    )
    records.write(arguments.output, rows, "measurements", {"statistics": found.settings})


if __name__ == "__main__":
    command(main)
