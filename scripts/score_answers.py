"""Judge the answers in texts that several drafts' live loops emitted, and in plain ones."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("score_answers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: texts (a list with arm, domain, mode and the number of files, in "
        "the order of --trajectories), prompts (how many of each domain, from the first), options "
        "(by domain: parameters of generated problems), checkers (by domain: what judges its answers, "
        "where that is not its prompts' own checker)",
    )
    parser.add_argument("--model", required=True, help="model.json of the target")
    parser.add_argument("--prompts", required=True, nargs="+", help="Parquet of schema prompts")
    parser.add_argument(
        "--trajectories", required=True, nargs="+", help="schema trajectories or live_trajectories"
    )
    parser.add_argument("--output", required=True, help="Parquet, schema intervention_answers")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    import draftscope.interventions.schemas
    import draftscope.lossless.live_schemas  # noqa: F401
    from draftscope import records
    from draftscope.answers import judge
    from draftscope.checkpoints import load_tokenizer

    tokenizer = load_tokenizer(arguments.model)
    asked: dict[str, dict[str, dict]] = {}
    for path in arguments.prompts:
        for row in records.read(path, "prompts").to_pylist():
            checker = settings["checkers"].get(row["domain"], row["checker"])
            asked.setdefault(row["domain"], {})[row["prompt_id"]] = row | {"checker": checker}
    asked = {
        domain: dict(list(rows.items())[: settings["prompts"]]) for domain, rows in asked.items()
    }
    files = iter(arguments.trajectories)
    if sum(each["files"] for each in settings["texts"]) != len(arguments.trajectories):
        raise UserError("--trajectories: another number of files than the settings say")
    rows = []
    for each in settings["texts"]:
        prompts, seen = asked[each["domain"]], set()
        for _ in range(each["files"]):
            for text in read(next(files)):
                prompt = prompts.get(text["prompt_id"])
                if prompt is None or text["status"] != "ok":
                    continue
                seen.add(text["prompt_id"])
                plain = tokenizer.decode(text["token_ids"], skip_special_tokens=True)
                verdict = judge(prompt, plain, settings["options"].get(each["domain"]))
                ids = json.dumps(list(text["token_ids"])).encode()
                rows.append(
                    {
                        "prompt_id": text["prompt_id"],
                        "sample": text["sample"],
                        "arm": each["arm"],
                        "domain": each["domain"],
                        "mode": each["mode"],
                        "checker": prompt["checker"],
                        "expected": prompt["answer"],
                        "given": verdict.given,
                        "correct": verdict.correct,
                        "tokens_sha256": hashlib.sha256(ids).hexdigest(),
                    }
                )
        log.info("%s, %s, %s: %d prompts", each["arm"], each["domain"], each["mode"], len(seen))
    condition = {"prompts": settings["prompts"], "target": records.common_condition(
        arguments.trajectories
    ).get("target")}  # fmt: skip
    records.write(arguments.output, rows, "intervention_answers", condition)


def read(path: str) -> list[dict]:
    """Texts of a file of either schema."""
    from draftscope import records

    try:
        return records.read(path, "trajectories").to_pylist()
    except UserError:
        return records.read(path, "live_trajectories").to_pylist()


if __name__ == "__main__":
    command(main)
