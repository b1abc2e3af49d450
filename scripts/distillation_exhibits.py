"""What distillation gained: table1 (greedy match by domain), table_training and figure1."""

from __future__ import annotations

import argparse
from pathlib import Path

from draftscope.errors import command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", required=True, help="Parquet, schema distillation_match")
    parser.add_argument("--history", required=True, help="Parquet, schema training_history")
    parser.add_argument("--folder", required=True, help="folder to write the exhibits into")
    arguments = parser.parse_args()

    import draftscope.interventions.schemas
    import draftscope.training.schemas  # noqa: F401
    from draftscope import records
    from draftscope.exhibits import figures
    from draftscope.interventions import figures as drawn
    from draftscope.interventions import tables

    settings = records.condition(arguments.match)["statistics"]
    match = records.read(arguments.match, "distillation_match").to_pandas()
    history = records.read(arguments.history, "training_history").to_pandas()
    model, folder = records.condition(arguments.history)["draft"], Path(arguments.folder)
    confidence = settings["confidence"]
    tables.match(match, confidence=confidence, method=settings["method"]).write(folder / "table1")
    tables.training({model: history}).write(folder / "table_training")
    with figures.style():
        figure = drawn.distillation(history, match, model=model, confidence=confidence)
        figures.save(figure, folder / "figure1", "What distillation gained")


if __name__ == "__main__":
    command(main)
