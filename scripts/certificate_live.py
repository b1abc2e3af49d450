"""Decode prompts live with relaxed acceptance rules, and say how the target likes the texts."""

from __future__ import annotations

import argparse

from draftscope.errors import UserError, command, json_argument


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: domain, template, prompts, budget, rules (mappings with kind "
        "and parameters), draft_length, batch_size, position_chunk, allow_special_differences, "
        "seed, device, dtype, attention, threads",
    )
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--draft", required=True, help="model.json of the draft")
    parser.add_argument("--prompts", required=True, nargs="+", help="Parquet of schema prompts")
    parser.add_argument("--texts", required=True, help="output: schema certificate_texts")
    parser.add_argument("--rounds", required=True, help="output: schema rounds")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import whole_numbers

    counted = ("prompts", "budget", "draft_length", "batch_size", "position_chunk", "threads")
    whole_numbers(settings, **dict.fromkeys(counted, 1))
    runtime.prepare(settings["threads"])
    from draftscope import records
    from draftscope.certificate_study.live import GREEDY_LAW, decode_rules
    from draftscope.criteria import Criterion
    from draftscope.live.batched_model import BatchedModel
    from draftscope.live.rules import RULES, relaxed
    from draftscope.lossless.decoding import first_prompts
    from draftscope.lossless.opening import open_pair
    from draftscope.prompts import render
    from draftscope.prompts.digests import digests

    try:
        rules = [relaxed(Criterion.of(row)) for row in settings["rules"]]
    except ValueError as error:
        raise UserError(f"--settings: rules: {error}") from None
    rows = first_prompts(arguments.prompts, settings["prompts"])
    pair = open_pair(
        settings | {"law": GREEDY_LAW, "draft_dtype": None}, arguments.target, arguments.draft
    )
    prompts = [(row["prompt_id"], render(pair.target, row, settings["template"])) for row in rows]
    texts, rounds = decode_rules(
        pair.target,
        (BatchedModel(pair.target), pair.batched_drafter()),
        prompts,
        [RULES["greedy"], *rules],
        gamma=settings["draft_length"],
        budget=settings["budget"],
        size=settings["batch_size"],
        run_seed=settings["seed"],
        domain=settings["domain"],
        position_chunk=settings["position_chunk"],
    )
    shared = ("domain", "template", "budget", "draft_length", "batch_size")
    condition = pair.condition() | {key: settings[key] for key in shared}
    condition |= {"law": GREEDY_LAW, "engine": "live", "threads": settings["threads"]}
    made = {"seed": settings["seed"], "device": str(pair.target.device)}
    records.write(arguments.texts, texts, "certificate_texts", condition, made)
    records.write(arguments.rounds, rounds, "rounds", condition, made, digests(rows))


if __name__ == "__main__":
    command(main)
