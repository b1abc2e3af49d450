"""Every published measure of acceptance from the rounds of every pair, domain and mode.

The files stand in the order of the configurations.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from draftscope.errors import command, json_argument

log = logging.getLogger("acceptance_measures")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: configurations (objects with pair, domain, mode)",
    )
    parser.add_argument("--rounds", nargs="+", required=True, help="one file a configuration")
    parser.add_argument("--output", required=True, help="Parquet file to write, schema measures")
    parser.add_argument(
        "--folder", required=True, help="folder for measures and positions (.csv, .md, .tex)"
    )
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.exhibits import measures

    rows = measures.measure(json_argument(arguments.settings)["configurations"], arguments.rounds)
    records.write(arguments.output, rows, "measures", records.common_condition(arguments.rounds))
    frame = records.read(arguments.output, "measures").to_pandas()
    for name, table in (
        ("measures", measures.whole_rounds(frame)),
        ("positions", measures.by_position(frame)),
    ):
        table.write(Path(arguments.folder) / name)
    log.info("%d measures", len(rows))


if __name__ == "__main__":
    command(main)
