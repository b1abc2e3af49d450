"""Tables and figures of the lossless study, from its statistics.

Writes configurations, sweep, positions, phases, verify_latency, batch, equivalence, greedy and
replay (.csv, .md, .tex) and figure1 to figure5 (.svg, .pdf) into --folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from draftscope.errors import command

FILES = ("speed", "positions", "phases", "latency", "batch", "replay", "greedy", "equivalence")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help=f"Parquet, schema lossless_{name}")
    parser.add_argument("--draft-length", type=int, required=True, help="of the main tables")
    parser.add_argument("--folder", required=True, help="folder to write the exhibits into")
    arguments = parser.parse_args()

    import draftscope.lossless.schemas  # noqa: F401
    from draftscope import records
    from draftscope.exhibits import figures
    from draftscope.lossless import batch_speed, proof_tables, tables
    from draftscope.lossless import figures as drawn

    frame = {
        name: records.read(getattr(arguments, name), f"lossless_{name}").to_pandas()
        for name in FILES
    }
    settings = records.condition(arguments.speed)["statistics"]
    replayed = records.condition(arguments.replay)["statistics"]
    length, folder = arguments.draft_length, Path(arguments.folder)
    for name, table in {
        "configurations": tables.configurations(frame["speed"], length, settings),
        "sweep": tables.sweep(frame["speed"], settings),
        "positions": tables.positions(frame["positions"], length, settings),
        "phases": tables.phases(frame["phases"]),
        "verify_latency": tables.verify_latency(frame["latency"]),
        "batch": batch_speed.batch(frame["batch"], settings),
        "equivalence": proof_tables.equivalence(frame["equivalence"]),
        "greedy": proof_tables.greedy(frame["greedy"]),
        "replay": proof_tables.replay(frame["replay"], replayed),
    }.items():
        table.write(folder / name)
    confidence = settings["confidence"]
    with figures.style():
        for number, (figure, title) in enumerate(
            (
                (drawn.speed(frame["speed"], confidence), "Speedup by draft length"),
                (
                    drawn.positions(frame["positions"], length, confidence),
                    "Acceptance by draft position",
                ),
                (drawn.phases(frame["phases"]), "Time a token by phase"),
                (drawn.verify_latency(frame["latency"]), "Verify latency"),
                (drawn.round_lengths(frame["replay"], length), "Round lengths, live and replay"),
            ),
            1,
        ):
            figures.save(figure, folder / f"figure{number}", f"Figure {number}. {title}")


if __name__ == "__main__":
    command(main)
