"""The files of one configuration of the live loop, as what the comparison with replay takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import draftscope.lossless.schemas  # noqa: F401  (registers the schemas)
from draftscope import records
from draftscope.checkpoints import BLOCK_DRAFTS, TEXT_DRAFTS
from draftscope.drafters import Proposer, of_text
from draftscope.errors import UserError
from draftscope.lossless.replay_check import COMPARED, Replayed, replay_text
from draftscope.replay.blocks import proposed, read_proposals

Key = tuple[str, int, int]
COLUMNS = ("log_p", "log_q", "top2_gap", "draft_argmax", "target_disagreement")


@dataclass(frozen=True)
class Inputs:
    """Live texts, their rounds and their scores, by (prompt, sample, draft length).

    `blocks` holds what a block drafter proposed along each text. `live_only`: what was proposed
    depends on more than the text, so that nothing can be replayed.
    """

    texts: list[dict[str, Any]]
    rounds: Mapping[Key, Mapping[str, np.ndarray]]
    scores: Mapping[Key, Mapping[str, np.ndarray]] | None
    draft_settings: Mapping[str, Any]
    greedy: bool
    domain: str
    condition: Mapping[str, Any]
    blocks: Mapping[Key, np.ndarray] | None = None
    live_only: bool = False

    @property
    def draft_lengths(self) -> list[int]:
        """Those of speculation, ascending."""
        return sorted({row["draft_length"] for row in self.texts if row["draft_length"]})

    def replayed(
        self, draft_length: int, replays: int, run_seed: int
    ) -> tuple[list[Replayed], int]:
        """The texts of a draft length with their replays, and how many had to be left out."""
        found, left_out = [], 0
        proposer = of_text.proposer(self.draft_settings, self.condition)
        for text in self.texts:
            if text["draft_length"] != draft_length or not text["token_ids"]:
                continue
            key = key_of(text)
            one = replay_text(
                text,
                self.rounds[key],
                self._draft(text, proposer),
                greedy=self.greedy,
                replays=replays,
                run_seed=run_seed,
                domain=self.domain,
            )
            if one is None:
                left_out += 1
            else:
                found.append(one)
        return found, left_out

    def _draft(self, text: Mapping[str, Any], proposer: Proposer | None) -> Any:
        key = key_of(text)
        if self.blocks is not None:
            return proposed(self.blocks, key, text["token_ids"])
        return proposer if self.scores is None else self.scores[key]

    def gaps(self) -> dict[tuple[str, int], np.ndarray]:
        """Top-2 gaps of the plainly decoded texts, in nats; empty without scores."""
        if self.scores is None:
            return {}
        return {key[:2]: row["top2_gap"] for key, row in self.scores.items() if key[2] == 0}


def key_of(row: Mapping[str, Any]) -> Key:
    """What names a live text."""
    return str(row["prompt_id"]), int(row["sample"]), int(row["draft_length"])


def read(
    row: Mapping[str, Any],
    live: str,
    rounds: str,
    scores: Iterator[str],
    proposals: Iterator[str] | None = None,
) -> Inputs:
    """Read the files of a configuration.

    Args:
        row: draft, draft_settings, law, domain, mode.
        scores: paths; the next one is taken when the draft is a model.
        proposals: paths; the next one is taken when blocks can be replayed.

    Raises:
        UserError: a file is missing, or of another run than the first.
    """
    texts = records.read(live, "live_trajectories")
    condition = records.condition(texts)
    table = records.read(rounds, "rounds")
    read_from = {live: condition, rounds: records.condition(table)}
    scored = blocks = None
    kind, drafting = row["draft_settings"]["kind"], condition.get("drafting")
    live_only = kind in BLOCK_DRAFTS and (kind, drafting) != ("dflash", "argmax")
    if kind in BLOCK_DRAFTS and not live_only:
        path = next(proposals or iter(()), None)
        if path is None:
            raise UserError(f"draft {row['draft']} drafts blocks: give its --proposals")
        blocks, read_from[path] = read_proposals([path], row["draft"], "live_proposals")
    elif kind not in TEXT_DRAFTS | BLOCK_DRAFTS:
        path = next(scores, None)
        if path is None:
            raise UserError(f"draft {row['draft']} is a model: give its --scores")
        found = records.read(path, "live_scores")
        read_from[path] = records.condition(found)
        scored = {
            key_of(one): {name: np.asarray(one[name]) for name in COLUMNS}
            for one in found.to_pylist()
        }
    for key in ("domain", "mode", "draft"):
        if condition[key] != row[key]:
            raise UserError(f"{live} was measured with {key} {condition[key]}, not {row[key]}")
    records.require_same_condition(read_from)
    frame = table.select(["prompt_id", "sample", "draft_length", *COMPARED]).to_pandas()
    grouped = frame.groupby(["prompt_id", "sample", "draft_length"], sort=False)
    return Inputs(
        texts.to_pylist(),
        {
            (str(name[0]), int(name[1]), int(name[2])): {
                column: part[column].to_numpy() for column in COMPARED
            }
            for name, part in grouped
        },
        scored,
        row["draft_settings"],
        row["law"]["temperature"] == 0,
        row["domain"],
        condition,
        blocks,
        live_only,
    )
