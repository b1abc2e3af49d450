"""Check files of the engine-neutral format: every fault with its file, line and field.

The format is that of config/README.md and config/rounds.schema.json.
"""

from __future__ import annotations

import argparse

from draftscope.errors import UserError, command


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files", nargs="+", help="JSON lines, - for standard input; gzip is unpacked"
    )
    parser.add_argument("--most", type=int, default=20, help="faults to print (default 20)")
    arguments = parser.parse_args()
    if arguments.most < 0:
        raise UserError(f"--most is {arguments.most}; it must be at least 0")

    from draftscope.engines.validating import validate

    found = validate(arguments.files)
    for fault in found.faults[: arguments.most]:
        print(fault)
    print(f"{found.requests} requests, {found.rounds} rounds, {len(found.faults)} faults")
    if found.faults:
        raise UserError(f"{len(found.faults)} faults, first: {found.faults[0]}")


if __name__ == "__main__":
    command(main)
