"""Table 3, slopes over temperature on the same positions, and their figure.

Writes table3 and table_slopes (.csv, .md, .tex) and figure_temperatures (.svg, .pdf) into --folder.
"""

from __future__ import annotations

from draftscope.errors import command
from draftscope.position import exhibit_files

FILES = ("temperatures", "slopes")


def main() -> None:
    frames, settings, folder = exhibit_files.read(__doc__, FILES)

    from draftscope.exhibits import figures
    from draftscope.position import temperature_exhibits

    temperature_exhibits.by_temperature(frames["temperatures"], settings).write(folder / "table3")
    temperature_exhibits.same_positions(frames["slopes"], settings).write(folder / "table_slopes")
    with figures.style():
        figure = temperature_exhibits.curves(frames["temperatures"], settings)
        figures.save(
            figure, folder / "figure_temperatures", "Temperature: own text and same positions"
        )


if __name__ == "__main__":
    command(main)
