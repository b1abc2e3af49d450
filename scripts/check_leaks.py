"""Check that a trained draft was trained on no prompt that it is measured on, by their texts."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="name of the trained model")
    parser.add_argument(
        "--training", required=True, nargs="+", help="its training prompts, Parquet, schema prompts"
    )
    parser.add_argument(
        "--measured", required=True, nargs="+", help="prompts that are measured, schema prompts"
    )
    parser.add_argument(
        "--instructions",
        default="{}",
        help="JSON or a JSON file: domain -> the instruction that its prompts have around an item",
    )
    parser.add_argument("--output", required=True, help="JSON: what was compared")
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.training.leaks import refuse_leaks

    training, measured = (
        [row for path in paths for row in records.read(path, "prompts").to_pylist()]
        for paths in (arguments.training, arguments.measured)
    )
    done = refuse_leaks(arguments.model, training, measured, json_argument(arguments.instructions))
    records.write_json(arguments.output, done)


if __name__ == "__main__":
    command(main)
