"""Is what the loop over token trees emits the target's own? Small matrices whose law is known."""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import command, json_argument

log = logging.getLogger("tree_equivalence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: level (p-values below it reject), generations, tokens, seed",
    )
    parser.add_argument("--output", required=True, help="Parquet, schema lossless_equivalence")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime

    runtime.prepare(1)
    import draftscope.lossless.schemas  # noqa: F401
    from draftscope import records
    from draftscope.lossless.judgement import verdicts
    from draftscope.tree.equivalence import level2_trees
    from draftscope.tree.exact import level1_trees

    rows = level1_trees(settings["seed"], settings["level"]) + level2_trees(**settings)
    found = verdicts(rows)
    for name in found["rejected"]:
        log.warning("a correct decoder was rejected: %s", name)
    for name in found["missed"]:
        log.warning("no test caught the control: %s", name)
    condition = {"equivalence": settings}
    records.write(
        arguments.output, rows, "lossless_equivalence", condition, {"seed": settings["seed"]}
    )
    log.info("%d tests", len(rows))


if __name__ == "__main__":
    command(main)
