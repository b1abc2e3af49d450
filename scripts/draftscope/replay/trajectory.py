"""All draft lengths of one draft on one trajectory, and the tables that many of them make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from draftscope import seeds
from draftscope.drafters import Proposer
from draftscope.ends import effective_budget
from draftscope.errors import UserError
from draftscope.replay.expected import ExpectedRounds, expected_rounds
from draftscope.replay.rounds import (
    Proposals,
    RoundTable,
    greedy_rounds,
    proposals,
    proposed_rounds,
    sampled_acceptance,
    sampled_rounds,
)
from draftscope.schemas import SCHEMAS

RULES = ("greedy", "speculative_sampling", "exact_match")


@dataclass(frozen=True)
class Replay:
    """One trajectory replayed with one draft: a round table and expected counts a draft length.

    `disagreement` counts those of its `tokens` positions that sampled replay left out.
    """

    prompt_id: str
    sample: int
    tokens: int
    rule: str
    rounds: list[RoundTable] = field(default_factory=list)
    expected: list[dict[str, Any]] = field(default_factory=list)
    disagreement: int = 0

    def add(
        self, table: RoundTable, gamma: int, counts: ExpectedRounds, accept_prob_mean: float
    ) -> None:
        """Append the rounds and the expected counts of one draft length."""
        self.rounds.append(table)
        self.expected.append(
            {
                "prompt_id": self.prompt_id,
                "sample": self.sample,
                "draft_length": gamma,
                "tokens": counts.tokens,
                "expected_rounds": counts.rounds,
                "expected_accepted": counts.accepted,
                "expected_offered": counts.offered,
                "acceptance_length": counts.acceptance_length,
                "accept_prob_mean": float(accept_prob_mean),
            }
        )


def replay_trajectory(
    trajectory: Mapping[str, Any],
    draft: Mapping[str, np.ndarray] | Proposer | Proposals,
    draft_lengths: Sequence[int],
    rule: str,
    *,
    run_seed: int = 0,
    domain: str = "",
) -> Replay:
    """Replay every draft length of one draft on one trajectory.

    Args:
        trajectory: prompt_id, sample, prompt_token_ids, token_ids, budget, stop_reason.
        draft: for a model its scores under the decoding law, arrays [n]: token_ids and
            draft_argmax (greedy), log_p, log_q, target_disagreement (speculative sampling);
            for a drafter without a model its proposer; for a block drafter what it proposed
            (`agreement`).
        rule: greedy, speculative_sampling, or exact_match: argmax drafts that stand when they are
            what the target sampled, which given the text leaves nothing to chance.
        run_seed, domain: with prompt and sample the key of the uniforms, which all drafts and
            draft lengths share.

    Returns:
        Without rounds when the trajectory is empty, or when sampled replay has to leave out
        every position of it.

    Raises:
        UserError: the scores belong to other tokens; the stop reason contradicts the tokens.
    """
    if rule not in RULES:
        raise UserError(f"unknown acceptance rule {rule!r}; replay knows {', '.join(RULES)}")
    prompt_id, sample = str(trajectory["prompt_id"]), int(trajectory["sample"])
    tokens = np.asarray(trajectory["token_ids"])
    ends = {"budget": trajectory["budget"], "stop_reason": trajectory["stop_reason"]}
    replay = Replay(prompt_id, sample, len(tokens), rule)
    if not len(tokens):
        return replay
    try:
        effective_budget(len(tokens), **ends)
    except ValueError as error:
        raise UserError(f"prompt {prompt_id}, sample {sample}: {error}") from error

    if not isinstance(draft, Mapping):
        blocks = draft
        if not isinstance(draft, Proposals):
            blocks = proposals(trajectory["prompt_token_ids"], tokens, draft, max(draft_lengths))
        for gamma in draft_lengths:
            table = proposed_rounds((), tokens, blocks, gamma, **ends)
            replay.add(table, gamma, counted(table), blocks.first_agrees.mean())
        return replay

    if rule == "exact_match":
        raise ValueError("exact_match is replayed from what a drafter proposed, not from scores")
    if not np.array_equal(draft["token_ids"], tokens):
        raise UserError(
            f"prompt {prompt_id}, sample {sample}: the scores belong to other tokens than the "
            "trajectory holds; delete the scores and run again"
        )
    if rule == "greedy":
        matches = np.asarray(draft["draft_argmax"]) == tokens
        for gamma in draft_lengths:
            table = greedy_rounds(matches, gamma, **ends)
            replay.add(table, gamma, counted(table), matches.mean())
        return replay

    out = np.asarray(draft["target_disagreement"], bool)
    replay = Replay(prompt_id, sample, len(tokens), rule, disagreement=int(out.sum()))
    if out.all():
        return replay
    log_p, log_q = draft["log_p"], draft["log_q"]
    uniforms = seeds.uniforms(len(tokens), "replay", run_seed, domain, prompt_id, sample)
    for gamma in draft_lengths:
        accept_prob, limit = sampled_acceptance(log_p, log_q, gamma, disagreement=out)
        table = sampled_rounds(log_p, log_q, gamma, uniforms, disagreement=out, **ends)
        counts = expected_rounds(accept_prob, gamma, offered_limit=limit, **ends)
        replay.add(table, gamma, counts, accept_prob[~out].mean())
    return replay


def counted(table: RoundTable) -> ExpectedRounds:
    """Where acceptance is 0 or 1 the expected counts are the counts."""
    totals = (table[name].sum(dtype=np.int64) for name in ("emitted", "accepted", "offered"))
    emitted, accepted, offered = totals
    return ExpectedRounds(int(emitted), float(len(table["round"])), float(accepted), float(offered))


def rounds_table(replays: Iterable[Replay]) -> pa.Table:
    """All rounds as a table of schema `rounds`, ordered as the replays and draft lengths are."""
    parts = [(replay, table) for replay in replays for table in replay.rounds]
    if not parts:
        return SCHEMAS["rounds"].empty_table()
    lengths = [len(table["round"]) for _, table in parts]

    def repeated(values: list[Any], type: pa.DataType) -> pa.Array:
        return pa.array(values, type).take(pa.array(np.repeat(np.arange(len(parts)), lengths)))

    columns: dict[str, Any] = {
        name: np.concatenate([table[name] for _, table in parts]) for name in parts[0][1]
    }
    columns["prompt_id"] = repeated([replay.prompt_id for replay, _ in parts], pa.string())
    columns["sample"] = repeated([replay.sample for replay, _ in parts], pa.int32())
    columns["rule"] = repeated([replay.rule for replay, _ in parts], pa.string())
    columns["source"] = repeated(["replay"] * len(parts), pa.string())
    columns["lossless"] = repeated([True] * len(parts), pa.bool_())
    schema = SCHEMAS["rounds"]
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def expected_table(replays: Iterable[Replay]) -> pa.Table:
    """Expected counts as a table of schema `expected`, a row a trajectory and draft length."""
    rows = [row for replay in replays for row in replay.expected]
    return pa.Table.from_pylist(rows, SCHEMAS["expected"])
