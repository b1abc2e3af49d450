"""Time one pass of a model against the number of its tokens, over a context of fixed length."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: tokens (of a pass), context, repeats, device, dtype, "
        "attention, threads",
    )
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--output", required=True, help="Parquet, schema verify_latency")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import distinct_numbers, whole_numbers

    whole_numbers(settings, context=1, repeats=1, threads=1)
    distinct_numbers(settings, "tokens", 1)
    runtime.prepare(settings["threads"])
    import draftscope.lossless.live_schemas  # noqa: F401
    from draftscope import models, records
    from draftscope.live.model import open_decoder
    from draftscope.lossless.latency import pass_times

    target = models.load(
        arguments.target, settings["device"], settings["dtype"], settings["attention"]
    )
    decoder = open_decoder(target)
    times = pass_times(decoder, settings["tokens"], settings["context"], settings["repeats"])
    rows = [
        {"target": target.name, "context": settings["context"]}
        | {"tokens": tokens, "repeat": repeat, "seconds": seconds}
        for tokens, repeat, seconds in times
    ]
    condition = target.condition("target") | {"threads": settings["threads"]}
    made = {"device": str(target.device), "engine": decoder.engine}
    records.write(arguments.output, rows, "verify_latency", condition, made)


if __name__ == "__main__":
    command(main)
