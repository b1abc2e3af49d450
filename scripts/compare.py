"""Compare two logs of rounds on the same prompts: B minus A, prompt by prompt.

A log is a Parquet file of this program's rounds, or of an engine's that import_rounds.py made. What
the two were measured under must agree, except for what --may-differ names.
"""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import math
from pathlib import Path
from typing import Any

from draftscope.arguments import give_back
from draftscope.errors import UserError, command

log = logging.getLogger("compare")


def main() -> None:
    parser = argparse.ArgumentParser(
        usage="%(prog)s [option ...] A B",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="A and B: two files of schema rounds or imported_rounds, or one file twice; - is standard input",
    )
    for side in ("a", "b"):
        parser.add_argument(
            f"--{side}",
            action="append",
            default=[],
            metavar="COLUMN=VALUE",
            help=f"which loop of {side.upper()}, such as draft_length=5",
        )
    parser.add_argument(
        "--may-differ",
        action="append",
        default=[],
        metavar="KEY[,KEY...]",
        help="conditions that may differ",
    )
    parser.add_argument(
        "--measure", nargs="+", default=[], help="measures to compare (default: all)"
    )
    parser.add_argument(
        "--margin",
        action="append",
        default=[],
        metavar="MEASURE=VALUE",
        help="largest difference that does not matter: tests equivalence",
    )
    parser.add_argument(
        "--effect",
        action="append",
        default=[],
        metavar="MEASURE=VALUE",
        help="difference to ask the number of prompts for (default: the one that was seen)",
    )
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--power", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0, help="of the resampling")
    parser.add_argument("--output", help="write FILE.csv (rows) or FILE.json (everything)")
    arguments = parser.parse_intermixed_args()
    paths, measures = give_back(arguments.logs, arguments.measure, 2)
    if len(paths) != 2:
        raise UserError(f"two logs are compared, A and B; given: {', '.join(paths) or 'none'}")
    for name in ("confidence", "power"):
        if not 0 < (value := getattr(arguments, name)) < 1:
            raise UserError(f"--{name} is {value}; it must be between 0 and 1")
    if arguments.seed < 0:
        raise UserError(f"--seed is {arguments.seed}; it must be at least 0")
    suffix = Path(arguments.output).suffix if arguments.output else ".csv"
    if suffix not in (".csv", ".json"):
        raise UserError(f"--output {arguments.output} must end in .csv or .json")

    from draftscope.acceptance.sums import MEASURES

    chosen = tuple(measures or MEASURES)
    for name in chosen:
        _known(name, MEASURES, "--measure")
    margins, effects = (
        {_known(name, MEASURES, f"--{option}"): _positive(name, text, option)
         for name, text in _pairs(getattr(arguments, option), option).items()}
        for option in ("margin", "effect")
    )  # fmt: skip
    for option, given in (("margin", margins), ("effect", effects)):
        if unused := [name for name in given if name not in chosen]:
            raise UserError(
                f"--{option} {unused[0]} is of no measure that is compared; add it to --measure"
            )
    may_differ = [key for text in arguments.may_differ for key in text.split(",") if key]

    from draftscope.acceptance import logs, printing
    from draftscope.acceptance.compare import Plan, compare, sentences
    from draftscope.acceptance.conditions import comparable, require_same_texts

    first, second = (
        logs.one_loop(path, _pairs(getattr(arguments, side), side), side)
        for path, side in zip(paths, ("a", "b"), strict=True)
    )
    shared, differs = comparable(
        first.condition, second.condition, (first.path, second.path), may_differ
    )
    require_same_texts(first.prompts, second.prompts, (first.path, second.path))
    plan = Plan(chosen, margins, effects, 1 - arguments.confidence, arguments.power, arguments.seed)
    found = compare(first.sums, second.sums, plan)
    notes = printing.notes(plan, differs)
    if not found.rows:
        raise UserError(
            "nothing to compare: "
            + "; ".join(f"no {name}: {reason}" for name, reason in found.missing.items())
        )
    missing = [f"no {name}: {reason}" for name, reason in found.missing.items()]
    if arguments.output:
        _write(arguments, first, second, shared, differs, found, notes)
    printing.say(
        [
            *printing.heading(first, second, differs, found),
            printing.comparison(found.rows),
            *missing,
            "",
            *sentences(found, plan),
            *notes,
        ]
    )


def _write(arguments, first, second, shared, differs, found, notes) -> None:
    from draftscope import records
    from draftscope.exhibits.tables import write_csv

    if arguments.output.endswith(".json"):
        records.write_json(
            arguments.output,
            {
                "first": {"path": first.path, "condition": first.condition},
                "second": {"path": second.path, "condition": second.condition},
                "shared_condition": shared,
                "differs": {key: list(pair) for key, pair in differs.items()},
                "prompts": found.prompts,
                "only_in_first": found.only_first,
                "only_in_second": found.only_second,
                "confidence": arguments.confidence,
                "power": arguments.power,
                "seed": arguments.seed,
                "rows": found.rows,
                "missing": found.missing,
                "notes": notes,
            },
        )
    else:
        columns = list(found.rows[0]) if found.rows else ["metric"]
        write_csv(arguments.output, columns, [list(row.values()) for row in found.rows])


def _pairs(given: list[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"--{option} {text} must be NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def _known(name: str, known: tuple[str, ...], option: str) -> str:
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        raise UserError(
            f"{option} {name} is no measure; nearest: {close[0] if close else ', '.join(known)}"
        )
    return name


def _positive(name: str, text: str, option: str) -> float:
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"--{option} {name}={text} must be a number")
    if not 0 < value < math.inf:
        raise UserError(f"--{option} {name}={text} must be above 0")
    return float(value)


if __name__ == "__main__":
    command(main)
