"""Table 3, slopes over temperature on the same positions, and their figure.

Writes table3 and table_slopes (.csv, .md, .tex) and figure_temperatures (.svg, .pdf) into --folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from draftscope.errors import command

FILES = ("temperatures", "slopes")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help=f"Parquet, schema position_{name}")
    parser.add_argument("--folder", required=True, help="folder to write the exhibits into")
    arguments = parser.parse_args()

    import draftscope.position.token_schemas  # noqa: F401
    from draftscope import records
    from draftscope.exhibits import figures
    from draftscope.position import temperature_exhibits

    settings = records.condition(arguments.temperatures)["statistics"]
    frames = {
        name: records.read(getattr(arguments, name), f"position_{name}").to_pandas()
        for name in FILES
    }
    folder = Path(arguments.folder)
    temperature_exhibits.by_temperature(frames["temperatures"], settings).write(folder / "table3")
    temperature_exhibits.same_positions(frames["slopes"], settings).write(folder / "table_slopes")
    with figures.style():
        figure = temperature_exhibits.curves(frames["temperatures"], settings)
        figures.save(
            figure, folder / "figure_temperatures", "Temperature: own text and same positions"
        )


if __name__ == "__main__":
    command(main)
