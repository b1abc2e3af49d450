"""A synthetic run as files: the schemas and the layout of a real one, written shard by shard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from draftscope import records
from draftscope.replay import Replay, expected_table, replay_trajectory, rounds_table
from draftscope.scale.synthetic import DRAFTS, TEMPERATURES, Draft, Size, Text, scores, texts
from draftscope.schemas import SCHEMAS

TARGET, DOMAIN, GROUP = "synthetic-target", "synthetic", "synthetic"
LAWS = ("decoding", "unwarped")


@dataclass(frozen=True)
class Configuration:
    """A pair in a mode with its files; `counts` are its texts, rounds and generated positions."""

    draft: Draft
    mode: str
    rounds: Path
    expected: Path
    loops: Path
    scores: Sequence[Path]
    counts: tuple[int, int, int]

    @property
    def pair(self) -> str:
        return self.draft.name


def write(
    folder: Path,
    size: Size,
    *,
    draft_length: int = 5,
    seed: int = 0,
    modes: Sequence[str] = tuple(TEMPERATURES),
    drafts: Sequence[Draft] = DRAFTS,
) -> list[Configuration]:
    """Write prompts, trajectories, scores, loops, rounds and expected rounds below `folder`.

    Rounds come from the replay that real runs use. Columns of the scores that no analysis of
    acceptance reads hold zeros.

    Returns:
        Every draft in every mode, mode by mode.
    """
    written = []
    for mode in modes:
        condition = _condition(mode, size, seed)
        rule = "speculative_sampling" if TEMPERATURES[mode] > 0 else "greedy"
        shards, loops, positions = [], [], 0
        rounds: dict[str, list[pa.Table]] = {draft.name: [] for draft in drafts}
        expected: dict[str, list[pa.Table]] = {draft.name: [] for draft in drafts}
        for number, shard in enumerate(_blocks(texts(size, mode, seed), size.shard_size)):
            name = f"{number:04d}.parquet"
            prompts = folder / "prompts" / DOMAIN / name
            if not prompts.exists():
                records.write(prompts, [_prompt(text) for text in shard], "prompts", {})
            path = folder / "trajectories" / TARGET / DOMAIN / mode / name
            rows = [text.trajectory() for text in shard]
            records.write(path, rows, "trajectories", condition)
            loops += [text.loop() for text in shard]
            positions += sum(text.tokens for text in shard)
            table, replays = _scored(shard, drafts, mode, rule, draft_length, seed)
            shards.append(folder / "scores" / TARGET / GROUP / DOMAIN / mode / name)
            named = {"drafts": {draft.name: {} for draft in drafts}, "laws": list(LAWS)}
            records.write(shards[-1], table, "scores", condition | named)
            for draft, own in replays.items():
                rounds[draft].append(rounds_table(own))
                expected[draft].append(expected_table(own))
        loop_file = folder / "loops" / TARGET / DOMAIN / f"{mode}.parquet"
        records.write(loop_file, loops, "loops", condition)
        for draft in drafts:
            own = condition | {"draft": draft.name, "rule": rule, "source": "replay"}
            paths = {
                schema: folder / schema / draft.name / DOMAIN / f"{mode}.parquet"
                for schema in ("rounds", "expected")
            }
            table = pa.concat_tables(rounds.pop(draft.name))
            records.write(paths["rounds"], table, "rounds", own)
            records.write(
                paths["expected"], pa.concat_tables(expected.pop(draft.name)), "expected", own
            )
            counts = (len(loops), table.num_rows, positions)
            written.append(
                Configuration(draft, mode, **paths, loops=loop_file, scores=shards, counts=counts)
            )
    return written


def _blocks(items: Iterator[Text], size: int) -> Iterator[list[Text]]:
    while block := list(islice(items, size)):
        yield block


def _condition(mode: str, size: Size, seed: int) -> dict[str, Any]:
    return {
        "target": TARGET,
        "target_revision": f"synthetic, seed {seed}",
        "tokenizer_sha256": "0" * 64,
        "domain": DOMAIN,
        "mode": mode,
        "law": {"temperature": TEMPERATURES[mode], "top_k": 0, "top_p": 1.0},
        "engine": "none: made up",
    }


def _prompt(text: Text) -> dict[str, Any]:
    return {
        "prompt_id": text.prompt_id,
        "domain": DOMAIN,
        "source_row": text.prompt_id,
        "messages_json": "[]",
        "text": hashlib.sha256(text.prompt_id.encode()).hexdigest(),
        "answer": None,
        "checker": None,
        "language": "en",
        "split": "evaluation",
    }


def _scored(
    shard: Sequence[Text],
    drafts: Sequence[Draft],
    mode: str,
    rule: str,
    draft_length: int,
    seed: int,
) -> tuple[pa.Table, dict[str, list[Replay]]]:
    """The scores of a shard as a table, and each draft's replay of them."""
    replays: dict[str, list[Replay]] = {draft.name: [] for draft in drafts}
    keys: list[dict[str, Any]] = []
    values: dict[str, list[np.ndarray]] = {}
    for text in shard:
        for draft in drafts:
            found = scores(text, draft, mode) | {"token_ids": text.token_ids}
            agree = {"target_disagreement": np.zeros(text.tokens, dtype=bool)}
            replays[draft.name].append(
                replay_trajectory(
                    text.trajectory(), found | agree, [draft_length], rule,
                    run_seed=seed, domain=DOMAIN,
                )
            )  # fmt: skip
            for law in LAWS:
                key = {"prompt_id": text.prompt_id, "sample": 0, "draft": draft.name, "law": law}
                keys.append(key)
                for name, column in found.items():
                    values.setdefault(name, []).append(column)
    lengths = [len(column) for column in values["token_ids"]]
    edges = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    columns = {}
    for column in SCHEMAS["scores"]:
        if column.name in keys[0]:
            columns[column.name] = pa.array([key[column.name] for key in keys], column.type)
            continue
        kind = column.type.value_type
        flat = np.concatenate(values[column.name]) if column.name in values else None
        if flat is None:
            flat = np.zeros(sum(lengths), kind.to_pandas_dtype())
        columns[column.name] = pa.ListArray.from_arrays(edges, pa.array(flat, kind))
    return pa.table(columns), replays
