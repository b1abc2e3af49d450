"""Table 4 and Figures 6 and 8 of the position study, and tables of differences and of answers.

Writes table4, table_differences, table_accuracy and table_training (.csv, .md, .tex), figure6 and
figure8 (.svg, .pdf) into --folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from draftscope.errors import command

FILES = ("lengths", "differences", "diagnostics", "accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help=f"Parquet, schema intervention_{name}")
    parser.add_argument(
        "--histories",
        required=True,
        nargs="+",
        help="Parquet, schema training_history, an arm each",
    )
    parser.add_argument("--folder", required=True, help="folder to write the exhibits into")
    arguments = parser.parse_args()

    import draftscope.interventions.schemas
    import draftscope.training.schemas  # noqa: F401
    from draftscope import records
    from draftscope.exhibits import figures
    from draftscope.interventions import figures as drawn
    from draftscope.interventions import tables

    settings = records.condition(arguments.lengths)["statistics"]
    frames = {
        name: records.read(getattr(arguments, name), f"intervention_{name}").to_pandas()
        for name in FILES
    }
    histories = {
        records.condition(path)["draft"]: records.read(path, "training_history").to_pandas()
        for path in arguments.histories
    }
    folder, confidence = Path(arguments.folder), settings["confidence"]
    how = {"confidence": confidence, "method": settings["method"]}
    length = settings["draft_length"]
    for name, table in (
        ("table4", tables.lengths(frames["lengths"], draft_length=length, **how)),
        ("table_differences", tables.differences(frames["differences"], **how)),
        ("table_accuracy", tables.accuracy(frames["accuracy"], confidence=confidence)),
        ("table_training", tables.training(histories)),
    ):
        table.write(folder / name)
    control = settings["control"]
    with figures.style():
        figure6 = drawn.lengths(
            frames["lengths"], frames["differences"], control=control, confidence=confidence
        )
        figure8 = drawn.diagnostics(frames["diagnostics"], control=control, confidence=confidence)
        figures.save(figure6, folder / "figure6", "Figure 6. Acceptance length of each arm")
        figures.save(figure8, folder / "figure8", "Figure 8. Where arms differ")


if __name__ == "__main__":
    command(main)
