"""Generate a shard of trajectories of the target model."""

from __future__ import annotations

import argparse
import time

from draftscope.errors import command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: domain, mode, law, samples, budget, template, batch_size, "
        "engine, seed, device, dtype, attention, threads",
    )
    parser.add_argument("--model", required=True, help="model.json of the target")
    parser.add_argument("--prompts", required=True, help="Parquet of schema prompts")
    parser.add_argument("--output", required=True, help="Parquet of schema trajectories")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import decoding_law, whole_numbers

    counted = ("samples", "budget", "batch_size", "threads")
    whole_numbers(settings, **dict.fromkeys(counted, 1))
    decoding_law(settings)
    runtime.prepare(settings["threads"])
    from draftscope import models, records
    from draftscope.prompts import render
    from draftscope.trajectories import generate

    rows = records.read(arguments.prompts, "prompts").to_pylist()
    loaded = models.load(
        arguments.model, settings["device"], settings["dtype"], settings["attention"]
    )
    prompts = [(row["prompt_id"], render(loaded, row, settings["template"])) for row in rows]
    started = time.monotonic()
    trajectories = generate(
        loaded,
        prompts,
        law=settings["law"],
        budget=settings["budget"],
        batch_size=settings["batch_size"],
        samples=settings["samples"],
        run_seed=settings["seed"],
        domain=settings["domain"],
        engine=settings["engine"],
    )
    seconds = time.monotonic() - started
    shared = ("law", "template", "batch_size", "engine", "domain", "mode")
    condition = loaded.condition("target") | {key: settings[key] for key in shared}
    records.write(
        arguments.output,
        trajectories,
        "trajectories",
        condition,
        {
            "seed": settings["seed"],
            "device": str(loaded.device),
            "threads": settings["threads"],
            "seconds": seconds,
            "tokens": sum(len(row["token_ids"]) for row in trajectories),
        },
    )


if __name__ == "__main__":
    command(main)
