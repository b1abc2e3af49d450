"""Is what the loop emits the target's own? The rule alone, small matrices, and a real pair."""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import command, json_argument

log = logging.getLogger("lossless_equivalence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: level (p-values below it reject), trials, generations, tokens, "
        "pair, draft_length, seed",
    )
    parser.add_argument("--trajectories", required=True, help="Parquet, schema live_trajectories")
    parser.add_argument("--output", required=True, help="Parquet, schema lossless_equivalence")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime

    runtime.prepare(1)
    import draftscope.lossless.schemas  # noqa: F401
    from draftscope import records
    from draftscope.lossless.equivalence import equivalence

    table = records.read(arguments.trajectories, "live_trajectories")
    condition = records.condition(table)
    # A block drafter that proposes argmax tokens has the target sample by itself.
    argmax = condition.get("drafting") == "argmax"
    rule = "exact_match" if argmax else "speculative_sampling"
    rows = equivalence(table.to_pylist(), **settings, rule=rule)
    condition |= {"equivalence": settings}
    records.write(
        arguments.output, rows, "lossless_equivalence", condition, {"seed": settings["seed"]}
    )
    log.info("%d tests", len(rows))


if __name__ == "__main__":
    command(main)
