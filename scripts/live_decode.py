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
        "decoding), prompts, budget, samples, repeats, warm_up, allow_special_differences, "
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
    from draftscope.threads import share_cores

    share_cores()
    runtime.prepare(settings["threads"])
    import draftscope.lossless.live_schemas  # noqa: F401  (registers the schema of live texts)
    from draftscope import models, records
    from draftscope.drafters.model import TextDraft
    from draftscope.drafters.prompt_lookup import PromptLookup
    from draftscope.live.run import model_draft
    from draftscope.lossless.decoding import first_prompts, peak_memory, side_by_side
    from draftscope.models.vocabulary import align
    from draftscope.prompts import render

    rows = first_prompts(arguments.prompts, settings["prompts"])
    where, attention, law = settings["device"], settings["attention"], settings["law"]
    target = models.load(arguments.target, where, settings["dtype"], attention)
    draft = models.load(
        arguments.draft, where, settings["draft_dtype"] or settings["dtype"], attention
    )
    if draft.model is None:
        lookup = {key: draft.settings[key] for key in ("max_ngram", "min_ngram")}
        drafter = TextDraft(PromptLookup(**lookup), draft.name)
    else:
        drafter = model_draft(
            draft, align(target, draft, settings["allow_special_differences"]), law
        )
    out = side_by_side(
        target,
        drafter,
        [(row["prompt_id"], render(target, row, settings["template"])) for row in rows],
        settings["draft_lengths"],
        repeats=settings["repeats"],
        warm_up=settings["warm_up"],
        law=law,
        budget=settings["budget"],
        run_seed=settings["seed"],
        domain=settings["domain"],
        samples=settings["samples"],
    )
    shared = ("law", "template", "domain", "mode", "budget")
    condition = target.condition("target") | draft.condition("draft")
    condition |= {key: settings[key] for key in shared}
    condition |= {"engine": "live", "batch_size": 1, "threads": settings["threads"]}
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
