"""Put each published number beside ours: scorecard.csv and scorecard.md."""

from __future__ import annotations

import argparse

from draftscope.errors import UserError, command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help='JSON or a JSON file: {"experiment": name, "margins": {unit: largest width}}',
    )
    parser.add_argument("--published", nargs="+", required=True, help="files of published cells")
    parser.add_argument("--readings", help="file of assumptions (config/published/readings.csv)")
    parser.add_argument(
        "--measurements", nargs="*", default=[], help="Parquet files of schema measurements"
    )
    parser.add_argument("--csv", required=True, help="output: the scorecard, full precision")
    parser.add_argument("--markdown", required=True, help="output: the scorecard for reading")
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.exhibits import published, scorecard

    settings = json_argument(arguments.settings)
    unknown = set(settings) - {"experiment", "margins"}
    if unknown:
        raise UserError(f"unknown settings of the scorecard: {', '.join(sorted(unknown))}")
    studies = [published.load(path) for path in arguments.published]
    readings = published.load_readings(arguments.readings) if arguments.readings else []
    rows = [
        row
        for path in arguments.measurements
        for row in records.read(path, "measurements").to_pylist()
    ]
    card = scorecard.compare(studies, rows, settings.get("margins", {}), readings)
    title = f"Scorecard of the experiment {settings.get('experiment', '')}".rstrip()
    scorecard.write(card, arguments.csv, arguments.markdown, title)


if __name__ == "__main__":
    command(main)
