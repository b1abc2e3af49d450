"""Our value for each published cell of the losses study or of the retrace study, for the scorecard."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: study (losses or retrace); run and published, the two conditions; "
        "losses (arm -> its name, smoothing and decay), or variants (arm -> variant) and benchmarks "
        "(published -> domain)",
    )
    parser.add_argument("--published", required=True, help="CSV of the published cells")
    parser.add_argument("--lengths", required=True, help="Parquet, schema block_lengths")
    parser.add_argument("--differences", required=True, help="Parquet, schema block_differences")
    parser.add_argument("--speed", help="Parquet, schema block_speed")
    parser.add_argument("--speed-differences", help="Parquet, schema block_speed_differences")
    parser.add_argument("--probes", help="Parquet, schema retrace_probes")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    import draftscope.block_study.schemas
    import draftscope.exhibits.measurement  # noqa: F401
    from draftscope import records
    from draftscope.block_study.loss_measurements import LossMeasurements
    from draftscope.block_study.retrace_measurements import RetraceMeasurements
    from draftscope.exhibits import published

    frames = {
        name: records.read(
            path, "retrace_probes" if name == "probes" else f"block_{name}"
        ).to_pandas()
        for name in ("lengths", "differences", "speed", "speed_differences", "probes")
        if (path := getattr(arguments, name))
    }
    conditions = settings["run"], settings["published"]
    if settings["study"] == "losses":
        found = LossMeasurements(
            frames["lengths"],
            frames["differences"],
            frames.get("speed_differences"),
            settings["losses"],
            *conditions,
        )
    else:
        found = RetraceMeasurements(
            frames, settings["variants"], settings["benchmarks"], *conditions
        )
    rows = found.rows(published.load(arguments.published))
    records.write(arguments.output, rows, "measurements", records.condition(arguments.lengths))


if __name__ == "__main__":
    command(main)
