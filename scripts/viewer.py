"""Prepare the report's token viewer: a few trajectories of each pair, domain and mode."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from typing import Any

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("viewer")
DEFAULTS = {"draft_length": 5, "trajectories": 2, "tokens": 240}
# What says that rounds, scores and trajectories belong to the same text.
SAME_TEXT = ("target", "target_revision", "domain", "mode")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        default="{}",
        help='JSON or a JSON file: {"draft_length": 5, "trajectories": 2, "tokens": 240}, '
        "how many trajectories of each file of rounds and how many tokens of each",
    )
    parser.add_argument("--models", nargs="+", required=True, help="model.json of each target")
    parser.add_argument("--trajectories", nargs="+", required=True, help="Parquet shards")
    parser.add_argument("--rounds", nargs="+", required=True, help="Parquet, one a pair and mode")
    parser.add_argument("--scores", nargs="*", default=[], help="Parquet shards")
    parser.add_argument("--output", required=True, help="JSON")
    arguments = parser.parse_args()

    from draftscope import records

    settings = json_argument(arguments.settings)
    if unknown := set(settings) - set(DEFAULTS):
        raise UserError(f"unknown settings of the viewer: {', '.join(sorted(unknown))}")
    settings = DEFAULTS | settings
    tokenizers = _tokenizers(arguments.models)
    texts = _by_text(arguments.trajectories)
    scores = _by_text(arguments.scores)
    groups = []
    for path in arguments.rounds:
        condition = records.condition(path)
        target = condition.get("target")
        if target not in tokenizers:
            raise UserError(f"{path} is of target {target!r}; give its model.json (--models)")
        key = _key(condition)
        if key not in texts:
            raise UserError(f"no trajectories for {path} among the files given")
        views = _views(path, tokenizers[target], texts[key], scores.get(key, []), settings)
        if views:
            shown = {name: condition.get(name) for name in ("target", "draft", "domain", "mode")}
            shown |= {"rule": condition.get("rule"), "law": condition.get("law")}
            groups.append(shown | {"draft_length": settings["draft_length"], "views": views})
        else:
            wanted = settings["draft_length"]
            log.warning("%s has no rounds at draft length %s%s", path, wanted, _why(texts[key]))
    records.write_json(arguments.output, {"groups": groups})


def _key(condition: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(condition.get(name) for name in SAME_TEXT)


def _by_text(paths: list[str]) -> dict[tuple[Any, ...], list[str]]:
    from draftscope import records

    found: dict[tuple[Any, ...], list[str]] = {}
    for path in paths:
        found.setdefault(_key(records.condition(path)), []).append(path)
    return found


def _views(
    path: str, tokenizer: Any, texts: list[str], scores: list[str], settings: dict[str, Any]
) -> list[dict[str, Any]]:
    import pyarrow.compute as pc
    from draftscope import records
    from draftscope.exhibits import viewer

    draft = records.condition(path).get("draft")
    chosen: dict[tuple[str, int], tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for text in texts:
        if len(chosen) == settings["trajectories"]:
            break
        rows = records.read(text, "trajectories").to_pylist()
        rounds = _rounds(path, {row["prompt_id"] for row in rows}, settings["draft_length"])
        for row in rows:
            if len(chosen) == settings["trajectories"]:
                break
            mine = _of(rounds, row)
            if row["status"] == "ok" and mine.num_rows:
                chosen[row["prompt_id"], row["sample"]] = row, mine.to_pylist()
    scored: dict[tuple[str, int], dict[str, Any]] = {}
    for shard in scores:
        table = records.read(shard, "scores")
        table = table.filter(pc.equal(table["law"], "decoding"))
        for key, (row, _) in chosen.items():
            for found in _of(table, row).to_pylist():
                if found["draft"] == draft:
                    scored[key] = found
                else:  # the target's probabilities do not depend on the draft
                    scored.setdefault(key, {"log_p": found["log_p"]})
    return [
        viewer.view(tokenizer, row, mine, scored.get(key), settings["tokens"])
        for key, (row, mine) in chosen.items()
    ]


def _rounds(path: str, prompts: set[str], draft_length: int) -> Any:
    """The rounds of some prompts; a file may hold millions of others."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from draftscope import columns
    from draftscope.schemas import SCHEMAS

    wanted = pa.array(sorted(prompts))
    parts = [SCHEMAS["rounds"].empty_table()]
    for table in columns.batches(path, "rounds", SCHEMAS["rounds"].names):
        mine = pc.is_in(table["prompt_id"], wanted)
        mine = pc.and_(mine, pc.equal(table["draft_length"], draft_length))
        parts.append(table.filter(mine).cast(SCHEMAS["rounds"]))
    return pa.concat_tables(parts)


def _why(texts: list[str]) -> str:
    """Why there is nothing to show, if it is that every prompt was skipped."""
    from draftscope import records

    reasons: Counter[str] = Counter()
    for path in texts:
        table = records.read(path, "trajectories").select(["status", "reason"])
        for row in table.to_pylist():
            if row["status"] == "ok":
                return ""
            reasons[row["reason"] or "no reason recorded"] += 1
    listed = [f"{reason} ({number})" for reason, number in reasons.most_common(3)]
    return f": every prompt was skipped: {', '.join(listed)}"


def _of(table: Any, row: dict[str, Any]) -> Any:
    import pyarrow.compute as pc

    mine = pc.and_(
        pc.equal(table["prompt_id"], row["prompt_id"]), pc.equal(table["sample"], row["sample"])
    )
    return table.filter(mine)


def _tokenizers(paths: list[str]) -> dict[str, Any]:
    from draftscope.checkpoints import load_tokenizer, read_record

    return {record["name"]: load_tokenizer(record) for record in map(read_record, paths)}


if __name__ == "__main__":
    command(main)
