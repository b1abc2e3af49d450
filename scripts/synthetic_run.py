"""Write a synthetic run: texts, scores, loops and rounds with planted acceptance, as real files.

500 prompts are the size of the published position study: 2,000 trajectories (two drafts, greedy and
sampled) with 1.78 million rounds, at positions up to 16 thousand.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from draftscope.errors import UserError, command


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--prompts", type=int, default=500, help="prompts, with a text in each mode"
    )
    parser.add_argument("--budget", type=int, default=16_384, help="most tokens of a text")
    parser.add_argument("--median", type=int, default=2_400, help="median tokens of a text")
    parser.add_argument("--draft-length", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, required=True, help="folder to write into")
    arguments = parser.parse_args()
    for name in ("prompts", "median", "draft_length"):
        if getattr(arguments, name) < 1:
            option = name.replace("_", "-")
            raise UserError(f"--{option} is {getattr(arguments, name)}; it must be at least 1")
    if arguments.budget < 300:
        raise UserError(
            f"--budget {arguments.budget} has no room for repetitions; it must be at least 300"
        )
    if arguments.budget <= arguments.median:
        raise UserError(
            f"--budget {arguments.budget} is not above --median {arguments.median}: no text would "
            "end by itself"
        )
    if arguments.folder.exists() and any(arguments.folder.iterdir()):
        raise UserError(f"--folder {arguments.folder} is not empty; files of two runs would mix")

    from draftscope.scale import run
    from draftscope.scale.synthetic import Size

    size = Size(arguments.prompts, arguments.budget, arguments.median)
    written = run.write(
        arguments.folder, size, draft_length=arguments.draft_length, seed=arguments.seed
    )
    for each in written:
        texts, rounds, positions = each.counts
        print(f"{each.pair}, {each.mode}: {texts} texts, {positions} positions, {rounds} rounds")


if __name__ == "__main__":
    command(main)
