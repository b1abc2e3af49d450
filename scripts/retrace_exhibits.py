"""Exhibits of the retrace study.

Writes findings, table1 to table7, table8a, table8b and table_training (.csv, .md, .tex) and figure1 to
figure5 (.svg, .pdf) into --folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from draftscope.errors import command, json_argument

FILES = ("lengths", "differences", "needed", "positions", "speed", "speed_differences")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help=f"Parquet, schema block_{name}")
    parser.add_argument("--probes", required=True, help="Parquet, schema retrace_probes")
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
    from draftscope.block_study import (
        findings,
        profile_figures,
        profile_tables,
        retrace_tables,
        tables,
    )
    from draftscope.block_study.training import network_words, read_histories
    from draftscope.exhibits import figures

    settings = records.condition(arguments.lengths)["statistics"]
    frames = {
        name: records.read(getattr(arguments, name), f"block_{name}").to_pandas() for name in FILES
    }
    probes = records.read(arguments.probes, "retrace_probes").to_pandas()
    given = json_argument(arguments.settings)
    histories = read_histories(given["trained"], arguments.histories)
    folder, confidence = Path(arguments.folder), settings["confidence"]
    backbone, control = settings["references"]
    how, against = {"confidence": confidence}, {"confidence": confidence, "paired": True}
    ranks, cosines = retrace_tables.probes(probes, number="Table 8", **how)
    for name, table in {
        "findings": findings.retrace(
            frames["differences"], frames["needed"], frames["speed"], probes
        ),
        "table1": retrace_tables.ablation(
            frames["lengths"],
            frames["speed"],
            frames["differences"],
            backbone=backbone,
            control=control,
            number="Table 1",
            **how,
        ),
        "table2": tables.lengths(frames["lengths"], number="Table 2", **how),
        "table3": tables.differences(
            frames["differences"], number="Table 3", role="reference", **against
        ),
        "table4": tables.needed(frames["needed"], number="Table 4", **how),
        "table5": profile_tables.positions(frames["positions"], number="Table 5", **how),
        "table6": profile_tables.speed(frames["speed"], number="Table 6", **how),
        "table7": profile_tables.speed_differences(
            frames["speed_differences"], number="Table 7", **against
        ),
        "table8a": ranks,
        "table8b": cosines,
        "table_training": tables.training(
            histories, number="Table 9", network=network_words(given["network"]), backbone=backbone
        ),
    }.items():
        table.write(folder / name)
    with figures.style():
        for name, title, figure in (
            (
                "figure1",
                "Variants against the backbone",
                drawn.differences(
                    frames["differences"], against=backbone, number="1", confidence=confidence
                ),
            ),
            (
                "figure2",
                "Acceptance by slot of the block",
                profile_figures.profiles(frames["positions"], number="2", confidence=confidence),
            ),
            ("figure3", "Learning curves", profile_figures.curves(histories, number="3")),
            (
                "figure4",
                "Measured speed",
                drawn.speed(frames["speed"], number="4", confidence=confidence),
            ),
            (
                "figure5",
                "Behind the first rejection",
                drawn.probes(probes, number="5", confidence=confidence),
            ),
        ):
            figures.save(figure, folder / name, f"{name.capitalize()}. {title}")


if __name__ == "__main__":
    command(main)
