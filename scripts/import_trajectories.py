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
    parser.add_argument("--trajectories", required=True, help="JSONL or Parquet to import")
    parser.add_argument(
        "--prompts", help="Parquet of schema prompts: those to take (default: all in the file)"
    )
    parser.add_argument("--output", required=True, help="Parquet of schema trajectories")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime

    runtime.prepare(threads=1)
    from draftscope import models, records
    from draftscope.imports import import_trajectories

    prompt_ids = None
    if arguments.prompts:
        prompt_ids = records.read(arguments.prompts, "prompts").column("prompt_id").to_pylist()
    loaded = models.load(arguments.model, "cpu", "auto")
    rows, retokenized = import_trajectories(
        loaded,
        arguments.trajectories,
        budget=settings["budget"],
        samples=settings["samples"],
        prompt_ids=prompt_ids,
    )
    # What is not known of the other engine (its precision, its kernels) stays out of the condition.
    known = ("target", "target_revision", "tokenizer_sha256", "quantization")
    condition = {key: loaded.condition("target")[key] for key in known}
    condition |= {key: settings[key] for key in ("law", "template", "domain", "mode")}
    condition |= {"engine": "imported", "retokenized": retokenized}
    records.write(
        arguments.output,
        rows,
        "trajectories",
        condition,
        {"imported_from": str(arguments.trajectories)},
    )


if __name__ == "__main__":
    command(main)
