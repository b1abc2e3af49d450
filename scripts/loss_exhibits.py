"""Exhibits of the losses study.

Writes findings, table1 to table5 and table_training (.csv, .md, .tex) and figure1 to figure3 (.svg, .pdf)
into --folder; with timings also table7, table8 and figure4.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from draftscope.errors import command, json_argument

FILES = ("lengths", "differences", "needed", "positions")
TIMED = ("speed", "speed_differences")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in (*FILES, *TIMED):
        parser.add_argument(
            f"--{name}", required=name in FILES, help=f"Parquet, schema block_{name}"
        )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: trained, the arm and number of the training of each history; "
        "network, the settings of the drafters' network",
    )
    parser.add_argument(
        "--histories", required=True, nargs="+", help="Parquet, schema block_training_history"
    )
    parser.add_argument("--folder", required=True, help="folder to write the exhibits into")
    arguments = parser.parse_args()

    import draftscope.block_study.schemas
    import draftscope.block_training.schemas  # noqa: F401
    from draftscope import records
    from draftscope.block_study import figures as drawn
    from draftscope.block_study import findings, profile_figures, profile_tables, tables
    from draftscope.block_study.training import network_words, read_histories
    from draftscope.exhibits import figures

    settings = records.condition(arguments.lengths)["statistics"]
    frames = {
        name: records.read(path, f"block_{name}").to_pandas()
        for name in (*FILES, *TIMED)
        if (path := getattr(arguments, name))
    }
    given = json_argument(arguments.settings)
    histories = read_histories(given["trained"], arguments.histories)
    folder, confidence = Path(arguments.folder), settings["confidence"]
    how, paired = {"confidence": confidence}, settings["paired"]
    against = {"confidence": confidence, "paired": paired}
    made = {
        "findings": findings.losses(
            frames["lengths"], frames["differences"], frames["needed"], frames.get("speed")
        ),
        "table1": tables.lengths(frames["lengths"], number="Table 1", **how),
        "table2": tables.differences(
            frames["differences"], number="Table 2", role="reference", **against
        ),
        "table3": tables.needed(frames["needed"], number="Table 3", **how),
        "table4": tables.differences(
            frames["differences"], number="Table 4", role="baseline", **against
        ),
        "table5": profile_tables.positions(frames["positions"], number="Table 5", **how),
        "table_training": tables.training(
            histories, number="Table 6", network=network_words(given["network"])
        ),
    }
    if "speed" in frames:
        timed = {
            "table7": profile_tables.speed(frames["speed"], number="Table 7", **how),
            "table8": profile_tables.speed_differences(
                frames["speed_differences"], number="Table 8", **against
            ),
        }
        for name, table in timed.items():
            made[name] = replace(table, notes=[*table.notes, tables.REPLAYED_LOOPS_NOTE])
    for name, table in made.items():
        table.write(folder / name)
    reference = settings["references"][0]
    with figures.style():
        pictures = {
            "figure1": (
                "Differences between arms",
                drawn.differences(
                    frames["differences"], against=reference, number="1", confidence=confidence
                ),
            ),
            "figure2": (
                "Acceptance by slot of the block",
                profile_figures.profiles(frames["positions"], number="2", confidence=confidence),
            ),
            "figure3": ("Learning curves", profile_figures.curves(histories, number="3")),
        }
        if "speed" in frames:
            picture = drawn.speed(frames["speed"], number="4", confidence=confidence)
            pictures["figure4"] = ("Measured speed", picture)
        for name, (title, figure) in pictures.items():
            figures.save(figure, folder / name, f"{name.capitalize()}. {title}")


if __name__ == "__main__":
    command(main)
