"""Type the tokens of the texts of a mode: trajectories -> a row of schema token_types each."""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import command, json_argument

log = logging.getLogger("token_types")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON text or file: published_triggers, further_triggers, operators, "
        "operators_between, operator_commands",
    )
    parser.add_argument("--trajectories", nargs="+", required=True, help="the shards of a mode")
    parser.add_argument(
        "--prompts",
        nargs="+",
        help="Parquet of schema prompts, one file a shard of --trajectories in the same order: a "
        "shard that lacks a prompt is refused",
    )
    parser.add_argument("--model", required=True, help="model.json of the target, for its tokens")
    parser.add_argument("--output", required=True, help="Parquet of schema token_types")
    arguments = parser.parse_args()

    import draftscope.tokens.schemas  # noqa: F401
    import numpy as np
    from draftscope import records
    from draftscope.checkpoints import load_tokenizer
    from draftscope.progress import progress
    from draftscope.shards import require_complete
    from draftscope.tokens.lists import Lists
    from draftscope.tokens.names import NAMES
    from draftscope.tokens.typist import Typist

    settings = json_argument(arguments.settings)
    typist = Typist(load_tokenizer(arguments.model), Lists.of(settings))
    if arguments.prompts:
        require_complete(arguments.trajectories, arguments.prompts)
    table = records.read_many(arguments.trajectories, "trajectories")
    names = ["prompt_id", "sample", "status", "prompt_token_ids", "token_ids"]
    texts = table.select(names).to_pylist()
    texts = [row for row in texts if row["status"] == "ok" and row["token_ids"]]
    rows, seen = [], np.zeros(len(NAMES), dtype=np.int64)
    with progress(len(texts), "type tokens", "text") as bar:
        for row in texts:
            typed = typist.sequence(row["token_ids"], row["prompt_token_ids"])
            seen += np.bincount(typed.type, minlength=len(NAMES))
            rows.append(
                {
                    "prompt_id": row["prompt_id"],
                    "sample": row["sample"],
                    "type": typed.type,
                    "initial": typed.initial,
                    "whole": typed.whole,
                    "region": typed.region,
                    "trigger": typed.trigger,
                }
            )
            bar.update(1)
    condition = records.condition(table) | {"token_lists": dict(settings)}
    records.write(arguments.output, rows, "token_types", condition)
    counts = ", ".join(f"{n:,} {name}" for name, n in zip(NAMES, seen, strict=True) if n)
    log.info("%d texts: %s", len(rows), counts or "no tokens")


if __name__ == "__main__":
    command(main)
