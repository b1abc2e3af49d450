"""Replay one draft on the trajectories of a target, domain and mode, for every draft length.

Reads trajectories and, for a draft that is a model, its scores under the decoding law; for a block
drafter what it proposes at every position. Writes the rounds of the speculative loop and their expectation without sampling noise.
"""

from __future__ import annotations

import argparse
import itertools
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from draftscope import records
from draftscope.checkpoints import BLOCK_DRAFTS
from draftscope.drafters import of_text
from draftscope.errors import UserError, command, json_argument
from draftscope.prompts.digests import digests
from draftscope.replay import Replay, expected_table, replay_trajectory, rounds_table
from draftscope.replay.blocks import proposed, read_proposals
from draftscope.shards import require_complete
from draftscope.values import whole_numbers

log = logging.getLogger(__name__)

LAW = "decoding"
KEYS = ("prompt_id", "sample")
SCORES = {
    "greedy": ("token_ids", "draft_argmax"),
    "speculative_sampling": ("token_ids", "log_p", "log_q", "target_disagreement"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON text or file: pair, domain, mode, draft (a name), draft_settings (its row in "
        "the registry of models; of bigrams with record, the path of their model.json), "
        "draft_lengths, law, seed; optional: prompts, how many of --prompts, from the first (all)",
    )
    parser.add_argument("--trajectories", required=True, nargs="+", help="Parquet shards")
    parser.add_argument(
        "--prompts",
        nargs="+",
        help="Parquet of schema prompts, one file a shard of --trajectories in the same order: a shard "
        "that lacks a prompt is refused",
    )
    parser.add_argument("--scores", nargs="+", default=[], help="Parquet shards, of a model draft")
    parser.add_argument(
        "--proposals", nargs="+", default=[], help="Parquet shards, of a block drafter"
    )
    parser.add_argument("--rounds", required=True, help="Parquet file to write")
    parser.add_argument("--expected", required=True, help="Parquet file to write")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    first = settings.get("prompts")
    if first is not None:
        whole_numbers(settings, prompts=1)
        if not arguments.prompts:
            raise UserError(f"prompts: the first {first}: give their files as --prompts")
    texts = None
    if arguments.prompts:
        require_complete(arguments.trajectories, arguments.prompts)
        shards = [records.read(path, "prompts").to_pylist() for path in arguments.prompts]
        held = sum(map(len, shards))
        if first is not None and first > held:
            raise UserError(
                f"prompts: the first {first} are wanted, but --prompts hold {held}; say {held} or "
                "give more files"
            )
        chosen = itertools.islice(itertools.chain(*shards), first)
        texts = digests(chosen)
    trajectories = records.read_many(arguments.trajectories, "trajectories")
    condition = records.condition(trajectories)
    of_blocks = settings["draft_settings"]["kind"] in BLOCK_DRAFTS
    sampled = "exact_match" if of_blocks else "speculative_sampling"
    rule = sampled if settings["law"]["temperature"] > 0 else "greedy"
    proposer = of_text.proposer(settings["draft_settings"], condition)
    if of_blocks:
        if not arguments.proposals:
            raise UserError(f"draft {settings['draft']} drafts blocks: give its --proposals")
        blocks, condition = read_proposals(arguments.proposals, settings["draft"])
    elif proposer is None:
        if not arguments.scores:
            raise UserError(f"draft {settings['draft']} is a model: give its --scores")
        scores, scored = read_scores(arguments.scores, settings["draft"], SCORES[rule])
        condition = of_one_draft(scored, settings["draft"])
    condition = condition | {
        "draft": settings["draft"],
        "draft_settings": of_text.plain(settings["draft_settings"]),
        "rule": rule,
        "source": "replay",
    }

    replays: list[Replay] = []
    for trajectory in each_row(trajectories):
        if trajectory["status"] != "ok" or not len(trajectory["token_ids"]):
            continue
        if texts is not None and trajectory["prompt_id"] not in texts:
            continue
        key = (trajectory["prompt_id"], trajectory["sample"])
        if of_blocks:
            draft = proposed(blocks, key, trajectory["token_ids"])
        elif proposer is not None:
            draft = proposer
        elif key in scores:
            draft = scores[key]
        else:
            raise UserError(
                f"prompt {key[0]}, sample {key[1]} has no {LAW} scores of draft "
                f"{settings['draft']}; delete the scores of its shard and run again"
            )
        replays.append(
            replay_trajectory(
                trajectory,
                draft,
                settings["draft_lengths"],
                rule,
                run_seed=settings["seed"],
                domain=settings["domain"],
            )
        )

    extra = {"seed": settings["seed"], **left_out(replays)}
    rounds = rounds_table(replays)
    records.write(arguments.rounds, rounds, "rounds", condition, extra, texts)
    records.write(arguments.expected, expected_table(replays), "expected", condition, extra)
    log.info(
        "%s, %s, %s: %d trajectories, %d rounds, rule %s; %d positions left out (%.3f%%)",
        *(settings["pair"], settings["domain"], settings["mode"], len(replays), rounds.num_rows),
        *(rule, extra["disagreement_positions"], 100 * extra["disagreement_share"]),
    )


def read_scores(
    paths: list[str], draft: str, columns: tuple[str, ...]
) -> tuple[dict[tuple[str, int], dict[str, np.ndarray]], dict[str, Any]]:
    """One draft's scores by prompt and sample, and their condition.

    Raises:
        UserError: shards of different conditions, or a trajectory that is scored twice.
    """
    found: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    conditions = {}
    for path in paths:
        # One shard at a time, and of it only what replay needs: the rest is most of the bytes.
        table = records.read(path, "scores")
        conditions[path] = records.condition(table)
        chosen = pc.and_(pc.equal(table["draft"], draft), pc.equal(table["law"], LAW))
        for row in each_row(table.filter(chosen).select([*KEYS, *columns])):
            key = (row["prompt_id"], row["sample"])
            if key in found:
                raise UserError(f"prompt {key[0]}, sample {key[1]} is scored twice, also in {path}")
            found[key] = row
    return found, records.require_same_condition(conditions)


def of_one_draft(condition: dict[str, Any], draft: str) -> dict[str, Any]:
    """The condition of one draft's rounds, from that of the scores of its group."""
    kept = {key: value for key, value in condition.items() if key not in ("drafts", "laws")}
    return kept | condition.get("drafts", {}).get(draft, {})


def each_row(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows as dictionaries; a list column gives numpy arrays."""
    columns = {
        name: _arrays(table[name])
        if pa.types.is_list(table.schema.field(name).type)
        else table[name].to_pylist()
        for name in table.column_names
    }
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _arrays(column: pa.ChunkedArray) -> list[np.ndarray]:
    arrays = []
    for chunk in column.chunks:
        values = chunk.flatten().to_numpy(zero_copy_only=False)
        edges = np.cumsum(chunk.value_lengths().to_numpy(zero_copy_only=False))
        arrays.extend(np.split(values, edges[:-1]) if len(edges) else [])
    return arrays


def left_out(replays: list[Replay]) -> dict[str, float]:
    """How many positions sampled replay left out, and their share of all."""
    count = sum(replay.disagreement for replay in replays)
    tokens = sum(replay.tokens for replay in replays)
    return {
        "disagreement_positions": count,
        "disagreement_share": count / tokens if tokens else 0.0,
        "trajectories_left_out": sum(not replay.rounds for replay in replays),
    }


if __name__ == "__main__":
    command(main)
