"""Our value for each published cell of the position study, for the scorecard.

`run` and `published` in the settings describe the two conditions in the same keys: target, data,
prompts, max_new_tokens, draft_length, drafts (label -> name), modes (run: mode -> temperature;
published: greedy and sample -> temperature), and sweep with what is different of the sweep over
temperatures. A cell counts as measured under the published
condition only when every key agrees.
"""

from __future__ import annotations

import argparse

from draftscope.errors import UserError, command, json_argument

FILES = ("paired", "pooled", "curves")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings", required=True, help="JSON text or file: domain, run, published"
    )
    parser.add_argument("--published", required=True, help="CSV of the published cells")
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help=f"Parquet, schema position_{name}")
    parser.add_argument("--temperatures", help="Parquet, schema position_temperatures")
    parser.add_argument(
        "--interventions",
        nargs="*",
        default=[],
        help="lengths, differences, diagnostics and accuracy of trained drafts, in this order",
    )
    parser.add_argument("--weightings", default="{}", help="JSON: arm -> weighting of its loss")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    arguments = parser.parse_args()

    import draftscope.position.schemas
    import draftscope.position.token_schemas  # noqa: F401
    from draftscope import records
    from draftscope.exhibits import published
    from draftscope.position.measurements import Measurements

    settings = json_argument(arguments.settings)
    tables = {name: records.read(getattr(arguments, name), f"position_{name}") for name in FILES}
    if arguments.temperatures:
        tables["temperatures"] = records.read(arguments.temperatures, "position_temperatures")
    frames = {name: table.to_pandas() for name, table in tables.items()}
    trained = read_interventions(arguments.interventions)
    measurements = Measurements(
        frames,
        settings["domain"],
        settings["run"],
        settings["published"],
        trained,
        json_argument(arguments.weightings),
    )
    rows = measurements.rows(published.load(arguments.published))
    records.write(arguments.output, rows, "measurements", records.condition(tables["paired"]))


def read_interventions(paths: list[str]) -> dict | None:
    """Statistics of trained drafts by name; None where there are none.

    Raises:
        UserError: another number of files.
    """
    if not paths:
        return None
    import draftscope.interventions.schemas  # noqa: F401
    from draftscope import records

    names = ("lengths", "differences", "diagnostics", "accuracy")
    if len(paths) != len(names):
        raise UserError(f"--interventions: {len(paths)} files; give {', '.join(names)}")
    return {
        name: records.read(path, f"intervention_{name}").to_pandas()
        for name, path in zip(names, paths, strict=True)
    }


if __name__ == "__main__":
    command(main)
