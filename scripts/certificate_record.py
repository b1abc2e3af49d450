"""Record the target's distributions along a shard of its text, and the KL of each draft to them."""

from __future__ import annotations

import argparse
import logging
import time

from draftscope import scored_texts
from draftscope.errors import UserError, command, json_argument

log = logging.getLogger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: domain, mode, prompts (how many of the shard, from the first), "
        "max_new_tokens (the beginning of each text), criteria (mappings with kind and "
        "parameters), depth, position_chunk, drafts (name, allow_special_differences), device, "
        "dtype, attention, threads",
    )
    scored_texts.add_arguments(parser)
    parser.add_argument("--drafts", required=True, nargs="+", help="model.json of each draft")
    parser.add_argument("--of-target", required=True, help="output: schema certificate_targets")
    parser.add_argument("--of-drafts", required=True, help="output: schema certificate_drafts")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import whole_numbers

    counted = ("prompts", "max_new_tokens", "depth", "position_chunk", "threads")
    whole_numbers(settings, **dict.fromkeys(counted, 1))
    runtime.prepare(settings["threads"])
    from draftscope import models, records
    from draftscope.certificate_study.record_schemas import DRAFTS, TARGETS
    from draftscope.certificate_study.recording import record, table
    from draftscope.criteria import Criterion
    from draftscope.models.vocabulary import align

    try:
        criteria = [Criterion.of(row) for row in settings["criteria"]]
    except ValueError as error:
        raise UserError(f"--settings: criteria: {error}") from None
    trajectories, generated = scored_texts.read(arguments)
    wanted = set(list(dict.fromkeys(trajectories["prompt_id"].to_pylist()))[: settings["prompts"]])
    most = settings["max_new_tokens"]
    rows = [
        row | {"token_ids": row["token_ids"][:most]}
        for row in trajectories.to_pylist()
        if row["prompt_id"] in wanted
    ]
    how = (settings["device"], settings["dtype"], settings["attention"])
    target = scored_texts.load_target(arguments, settings, generated)
    allowed = {row["name"]: row["allow_special_differences"] for row in settings["drafts"]}
    drafts, described = [], {}
    for path in arguments.drafts:
        draft = models.load(path, *how)
        if draft.name not in allowed:
            raise UserError(f"{path} is draft {draft.name}, which the settings do not name")
        drafts.append((draft, align(target, draft, allow_special=allowed[draft.name])))
        described[draft.name] = draft.condition("draft")

    started = time.monotonic()
    of_target, of_drafts = record(
        target, drafts, rows, criteria, settings["depth"], settings["position_chunk"]
    )
    depths = [len(top) for part in of_target for top in part["top"]]
    log.info("%d positions, up to %d probabilities each", len(depths), max(depths, default=0))
    condition = scored_texts.condition(generated, target)
    condition |= {"drafts": described, "recorded_tokens": most}
    made = {"device": str(target.device), "threads": settings["threads"]}
    made["seconds"] = time.monotonic() - started
    for path, parts, schema, name in (
        (arguments.of_target, of_target, TARGETS, "certificate_targets"),
        (arguments.of_drafts, of_drafts, DRAFTS, "certificate_drafts"),
    ):
        records.write(path, table(parts, schema), name, condition, made)


if __name__ == "__main__":
    command(main)
