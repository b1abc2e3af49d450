"""Decode prompts together in batches of several sizes, plain and speculative, and time them."""

from __future__ import annotations

import argparse

from draftscope.errors import UserError, command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: domain, mode, law, template, draft_length, sizes, prompts, "
        "budget, repeats, allow_special_differences, draft_dtype (null: the target's), seed, "
        "device, dtype, attention, threads",
    )
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--draft", required=True, help="model.json of the draft")
    parser.add_argument("--prompts", required=True, nargs="+", help="Parquet of schema prompts")
    parser.add_argument("--output", required=True, help="Parquet, schema live_batches")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import decoding_law, distinct_numbers, whole_numbers

    counted = ("prompts", "budget", "repeats", "draft_length", "threads")
    whole_numbers(settings, **dict.fromkeys(counted, 1))
    distinct_numbers(settings, "sizes", 1)
    decoding_law(settings)
    runtime.prepare(settings["threads"])
    import draftscope.lossless.live_schemas  # noqa: F401
    from draftscope import records
    from draftscope.live.batched_model import BatchedModel
    from draftscope.live.model import open_decoder
    from draftscope.live.run import unusable
    from draftscope.lossless.batching import batch_times, ways
    from draftscope.lossless.decoding import first_prompts, peak_memory
    from draftscope.lossless.opening import open_pair
    from draftscope.prompts import render

    rows = first_prompts(arguments.prompts, settings["prompts"])
    pair = open_pair(settings, arguments.target, arguments.draft)
    target = pair.target
    decoder = open_decoder(target)
    prompts = [(row["prompt_id"], render(target, row, settings["template"])) for row in rows]
    prompts = [(name, prompt) for name, prompt in prompts if not unusable(decoder, prompt)]
    if not prompts:
        raise UserError(f"no prompt of domain {settings['domain']} fits the context of the target")
    chosen = ways(
        (decoder, pair.drafter()),
        (BatchedModel(target), pair.batched_drafter()),
        settings["sizes"],
        law=pair.law,
        eos_ids=target.eos_ids,
        run_seed=settings["seed"],
        domain=settings["domain"],
    )
    times = batch_times(
        chosen, prompts, settings["draft_length"], settings["budget"], settings["repeats"]
    )
    shared = ("law", "template", "domain", "mode", "budget", "threads")
    condition = pair.condition()
    condition |= {key: settings[key] for key in shared} | {"engine": "live"}
    made = {
        "seed": settings["seed"],
        "device": str(target.device),
        "peak_memory_gb": peak_memory(),
    }
    records.write(arguments.output, times, "live_batches", condition, made)


if __name__ == "__main__":
    command(main)
