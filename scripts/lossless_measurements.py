"""Our value for each published cell of the lossless study, for the scorecard."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument

FILES = ("speed", "positions", "phases", "latency", "greedy", "equivalence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: draft_length; run and published, the two conditions in the "
        "same keys (data, prompts, max_new_tokens, draft_length, temperature, configurations)",
    )
    parser.add_argument("--published", required=True, help="CSV of the published cells")
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help=f"Parquet, schema lossless_{name}")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    arguments = parser.parse_args()

    import draftscope.lossless.schemas  # noqa: F401
    from draftscope import records
    from draftscope.exhibits import published
    from draftscope.lossless.measurements import Measurements

    settings = json_argument(arguments.settings)
    tables = {name: records.read(getattr(arguments, name), f"lossless_{name}") for name in FILES}
    condition = records.condition(tables["speed"])
    device = condition.get("device_type")
    measurements = Measurements(
        {name: table.to_pandas() for name, table in tables.items()},
        settings["run"] | {"device": device},
        settings["published"],
        settings["draft_length"],
    )
    rows = measurements.rows(published.load(arguments.published))
    records.write(arguments.output, rows, "measurements", condition)


if __name__ == "__main__":
    command(main)
