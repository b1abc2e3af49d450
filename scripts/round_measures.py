"""Every measure of acceptance of logs of rounds, with intervals that resample prompts.

A log is a Parquet file of this program's rounds, or of an engine's that import_rounds.py made.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from pathlib import Path

from draftscope.arguments import give_back
from draftscope.errors import UserError, command

log = logging.getLogger("round_measures")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "logs", nargs="*", help="Parquet of schema rounds or imported_rounds; - is standard input"
    )
    parser.add_argument(
        "--names", nargs="+", default=[], help="what to call them (default: their paths)"
    )
    parser.add_argument("--positions", action="store_true", help="print draft positions too")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0, help="of the resampling")
    parser.add_argument("--output", help="also write OUTPUT.csv, .md and .tex")
    arguments = parser.parse_intermixed_args()
    words = len(arguments.logs) + len(arguments.names)
    wanted = words // 2 if arguments.names else words  # a name for each
    paths, names = give_back(arguments.logs, arguments.names, wanted)
    if not paths:
        raise UserError("no log is given; name at least one Parquet file of rounds")
    names = names or [str(Path(path)) for path in paths]
    if len(names) != len(paths):
        raise UserError(f"{len(names)} names for {len(paths)} logs; give one each")
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise UserError(f"two logs are called {twice[0]}; tell them apart with --names")
    if not 0 < arguments.confidence < 1:
        raise UserError(f"--confidence is {arguments.confidence}; it must be between 0 and 1")
    if arguments.seed < 0:
        raise UserError(f"--seed is {arguments.seed}; it must be at least 0")

    from draftscope.acceptance import printing, table
    from draftscope.acceptance.logs import loops

    logs = [(name, found) for name, path in zip(names, paths, strict=True) for found in loops(path)]
    rows = table.measure(logs, confidence=arguments.confidence, rng=arguments.seed)
    if arguments.output:
        table.shown(rows, arguments.confidence).write(Path(arguments.output))
        log.info("wrote %s.csv, .md and .tex", arguments.output)
    printing.say([printing.measures(rows, arguments.positions)])


if __name__ == "__main__":
    command(main)
