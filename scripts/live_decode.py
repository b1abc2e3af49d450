"""Decode prompts live at several draft lengths, plain decoding among them, and time every phase."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: domain, mode, law, template, draft_lengths (with 0 for plain "
        "decoding), prompts, budget, samples, repeats, warm_up, batch_size (texts decoded "
        "together; above 1 repeats and warm_up are 1 and 0), allow_special_differences, "
        "draft_dtype (null: the target's), seed, device, dtype, attention, threads",
    )
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--draft", required=True, help="model.json of the draft")
    parser.add_argument("--prompts", required=True, nargs="+", help="Parquet of schema prompts")
    parser.add_argument("--trajectories", required=True, help="output, schema live_trajectories")
    parser.add_argument("--rounds", required=True, help="output, schema rounds")
    parser.add_argument("--timings", required=True, help="output, schema live_timings")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import decoding_law, distinct_numbers, whole_numbers

    counted = ("prompts", "budget", "samples", "repeats", "batch_size", "threads")
    whole_numbers(settings, **dict.fromkeys(counted, 1), warm_up=0)
    distinct_numbers(settings, "draft_lengths", 0)
    decoding_law(settings)
    runtime.prepare(settings["threads"])
    import draftscope.lossless.live_schemas  # noqa: F401  (registers the schema of live texts)
    from draftscope import records
    from draftscope.live.batched_model import BatchedModel
    from draftscope.lossless.batching import texts_in_batches
    from draftscope.lossless.decoding import first_prompts, peak_memory, side_by_side
    from draftscope.lossless.opening import open_pair
    from draftscope.prompts import render

    rows = first_prompts(arguments.prompts, settings["prompts"])
    pair = open_pair(settings, arguments.target, arguments.draft)
    target, size = pair.target, settings["batch_size"]
    prompts = [(row["prompt_id"], render(target, row, settings["template"])) for row in rows]
    options = {
        "law": pair.law,
        "budget": settings["budget"],
        "run_seed": settings["seed"],
        "domain": settings["domain"],
        "samples": settings["samples"],
    }
    lengths = settings["draft_lengths"]
    if size > 1:
        together = BatchedModel(target), pair.batched_drafter()
        out = texts_in_batches(target, together, prompts, lengths, size, **options)
    else:
        out = side_by_side(
            target,
            pair.drafter(),
            prompts,
            lengths,
            repeats=settings["repeats"],
            warm_up=settings["warm_up"],
            **options,
        )
    shared = ("law", "template", "domain", "mode", "budget")
    condition = pair.condition() | {key: settings[key] for key in shared}
    condition |= {"engine": "live", "batch_size": size, "threads": settings["threads"]}
    made = {
        "seed": settings["seed"],
        "device": str(target.device),
        "peak_memory_gb": peak_memory(),
        "counts": dict(out.counts),
    }
    for path, content, schema in (
        (arguments.trajectories, out.trajectories, "live_trajectories"),
        (arguments.rounds, out.rounds, "rounds"),
        (arguments.timings, out.timings, "live_timings"),
    ):
        records.write(path, content, schema, condition, made)


if __name__ == "__main__":
    command(main)
