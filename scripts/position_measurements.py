"""Our value for each published cell of the position study, for the scorecard.

`run` and `published` in the settings describe the two conditions in the same keys: target, data,
prompts, max_new_tokens, draft_length, drafts (label -> name), modes (run: mode -> temperature;
published: greedy and sample -> temperature). A cell counts as measured under the published
condition only when every key agrees.
"""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument

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
    parser.add_argument("--output", required=True, help="Parquet file to write")
    arguments = parser.parse_args()

    import draftscope.position.schemas  # noqa: F401
    from draftscope import records
    from draftscope.exhibits import published
    from draftscope.position.measurements import Measurements

    settings = json_argument(arguments.settings)
    tables = {name: records.read(getattr(arguments, name), f"position_{name}") for name in FILES}
    frames = {name: table.to_pandas() for name, table in tables.items()}
    measurements = Measurements(frames, settings["domain"], settings["run"], settings["published"])
    rows = measurements.rows(published.load(arguments.published))
    records.write(arguments.output, rows, "measurements", records.condition(tables["paired"]))


if __name__ == "__main__":
    command(main)
