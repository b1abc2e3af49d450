"""Take trajectories that another engine generated in place of generating them."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: domain, mode, law, samples, budget, template",
    )
    parser.add_argument("--model", required=True, help="model.json of the target")
    parser.add_argument(
        "--trajectories",
        required=True,
        help="JSONL or Parquet to import; - for JSONL on standard input",
    )
    parser.add_argument(
        "--prompts",
        help="Parquet of schema prompts: those to take, compared with the experiment's own rendering "
        "of them (default: all in the file)",
    )
    parser.add_argument("--output", required=True, help="Parquet of schema trajectories")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime

    runtime.prepare(threads=1)
    from draftscope import models, records
    from draftscope.imports import import_trajectories
    from draftscope.inputs import apart
    from draftscope.prompts import render

    apart(arguments.output, [arguments.trajectories])
    loaded = models.load(arguments.model, "cpu", "auto")
    prompts = None
    if arguments.prompts:
        rows = records.read(arguments.prompts, "prompts").to_pylist()
        prompts = [(row["prompt_id"], render(loaded, row, settings["template"])) for row in rows]
    imported = import_trajectories(
        loaded,
        arguments.trajectories,
        budget=settings["budget"],
        samples=settings["samples"],
        prompts=prompts,
    )
    # What is not known of the other engine (its precision, its kernels) stays out of the condition.
    known = ("target", "target_revision", "tokenizer_sha256", "quantization")
    condition = {key: loaded.condition("target")[key] for key in known}
    condition |= {key: settings[key] for key in ("law", "template", "domain", "mode")}
    condition |= {"engine": "imported", "retokenized": imported.retokenized}
    records.write(
        arguments.output,
        imported.rows,
        "trajectories",
        condition,
        # Counts of one shard: in the condition they would set the shards of a mode apart.
        {
            "imported_from": str(arguments.trajectories),
            "prompts_differ": imported.prompts_differ,
            "texts_cut_to_budget": imported.cut,
            "trajectories_skipped": imported.skipped,
        },
    )


if __name__ == "__main__":
    command(main)
