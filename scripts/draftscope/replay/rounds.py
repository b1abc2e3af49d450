"""Round tables: greedy, drawn under speculative sampling, or from a proposer's own blocks.

A round table is a dict of equally long arrays, one element a round: draft_length, round, start,
offered, accepted, emitted, end (as in the schema `rounds`). Starting at the first round's 0 the
rounds tile the trajectory: the emitted counts add up to its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from draftscope.drafters import Proposer
from draftscope.ends import last_end, next_index, offers, offers_before, outcomes

RoundTable = dict[str, np.ndarray]


def accept_prob_emitted(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """Probability that the draft's token was accepted, given the emitted y: min(1, q(y)/p(y)).

    A round emits y as an accepted draft with probability q(y) min(1, p(y)/q(y)) = min(p, q)(y)
    (Leviathan et al. 2023, algorithm 1) and emits it at all with probability p(y); this is the
    ratio of the two. Shapes: log_p, log_q [n], in nats; the result is float64 [n].

    Raises:
        ValueError: log_p is -inf or not a number: a token outside the target's law was never
            emitted by it, so such positions have to be taken out before.
    """
    log_p, log_q = np.asarray(log_p, np.float64), np.asarray(log_q, np.float64)
    if log_p.shape != log_q.shape or log_p.ndim != 1:
        raise ValueError(f"log_p and log_q differ in shape: {log_p.shape} and {log_q.shape}")
    if not np.isfinite(log_p).all() or np.isnan(log_q).any():
        where = int(np.flatnonzero(~np.isfinite(log_p) | np.isnan(log_q))[0])
        raise ValueError(f"no acceptance at position {where}: {log_p[where]=}, {log_q[where]=}")
    return np.exp(np.minimum(log_q - log_p, 0.0))


def greedy_rounds(
    matches: np.ndarray,
    gamma: int,
    *,
    budget: int | None = None,
    stop_reason: str = "budget",
    offered_limit: np.ndarray | None = None,
) -> RoundTable:
    """The rounds of a greedy loop, exactly.

    Args:
        matches: [n] booleans, the draft's argmax is the emitted token.
        gamma: draft length, at least 1.
        budget: most tokens the trajectory could have; None when it was n.
        stop_reason: eos, budget or context.
        offered_limit: [n] how many drafts can be offered by a round that starts here; None
            for a draft that always offers gamma.

    Raises:
        UserError: gamma is below 1.
        ValueError: shapes, budget and stop reason contradict each other.
    """
    matches = np.asarray(matches, bool)
    offered = offers(len(matches), gamma, budget, stop_reason, offered_limit)
    run = next_index(~matches) - np.arange(len(matches))
    return tile(run, offered, gamma, stop_reason)


def sampled_rounds(
    log_p: np.ndarray,
    log_q: np.ndarray,
    gamma: int,
    uniforms: np.ndarray | np.random.Generator,
    *,
    budget: int | None = None,
    stop_reason: str = "budget",
    offered_limit: np.ndarray | None = None,
    disagreement: np.ndarray | None = None,
) -> RoundTable:
    """Rounds drawn from their law under speculative sampling, given the emitted tokens.

    A position is tested by at most one round, and given the trajectory the tests are independent
    with probability `accept_prob_emitted`; so one uniform a position decides them all, and
    the same uniforms couple drafts and draft lengths (common random numbers).

    Where the scored law excludes the emitted token (`disagreement`) there is no acceptance to
    draw. No round offers a draft there: an offer that would reach such a position stops before
    it, and its token counts as the target's own. The rounds still tile the trajectory, offers
    and acceptances leave out the same positions, and the rounds concerned are cut rounds
    (offered < gamma).

    Args:
        log_p, log_q: [n] log-probabilities of the emitted tokens under the decoding law, nats.
        uniforms: [n or more] on [0, 1), element t for position t, or a generator to draw them.
        disagreement: [n] booleans, None for none.
        Others as in `greedy_rounds`, which this equals when all probabilities are 0 or 1.
    """
    accept_prob, limit = sampled_acceptance(log_p, log_q, gamma, offered_limit, disagreement)
    tokens = len(accept_prob)
    if isinstance(uniforms, np.random.Generator):
        uniforms = uniforms.random(tokens)
    if len(uniforms) < tokens:
        raise ValueError(f"{len(uniforms)} uniforms for {tokens} positions")
    return greedy_rounds(
        np.asarray(uniforms)[:tokens] < accept_prob,
        gamma,
        budget=budget,
        stop_reason=stop_reason,
        offered_limit=limit,
    )


def sampled_acceptance(
    log_p: np.ndarray,
    log_q: np.ndarray,
    gamma: int,
    offered_limit: np.ndarray | None = None,
    disagreement: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Acceptance probability and offer limit of each position, both [n]; see `sampled_rounds`.

    At positions of disagreement, which are never offered, the probability is 0.
    """
    if disagreement is None or not np.any(disagreement):
        return accept_prob_emitted(log_p, log_q), offered_limit
    out = np.asarray(disagreement, bool)
    accept_prob = np.where(
        out, 0.0, accept_prob_emitted(np.where(out, 0.0, log_p), np.where(out, 0.0, log_q))
    )
    limit = offers_before(out, gamma)
    return accept_prob, limit if offered_limit is None else np.minimum(limit, offered_limit)


@dataclass(frozen=True)
class Proposals:
    """What a proposer would offer in a round that starts at each of n positions.

    `offered` [n]: tokens proposed; `agreeing` [n]: how many of them, from the first on, are the
    tokens that the trajectory has there.
    """

    offered: np.ndarray
    agreeing: np.ndarray

    @property
    def first_agrees(self) -> np.ndarray:
        """[n] booleans: a first token is proposed, and it is the emitted one."""
        return self.agreeing > 0


def agreement(draft_ids: np.ndarray, token_ids: np.ndarray) -> Proposals:
    """What blocks that were drafted beforehand would offer, and how much of it the text has.

    Args:
        draft_ids: [n, K] the block that a round starting at each position would draft.
        token_ids: [n] the trajectory.
    """
    draft_ids, tokens = np.asarray(draft_ids), np.asarray(token_ids)
    same = np.zeros(draft_ids.shape, bool)
    for slot in range(min(draft_ids.shape[1], len(tokens))):
        same[: len(tokens) - slot, slot] = draft_ids[: len(tokens) - slot, slot] == tokens[slot:]
    agreeing = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    return Proposals(np.full(len(tokens), draft_ids.shape[1], np.int64), agreeing)


def proposals(
    prompt_ids: Sequence[int], token_ids: Sequence[int], proposer: Proposer, gamma: int
) -> Proposals:
    """Ask a proposer for a block of up to `gamma` tokens at every position of a trajectory."""
    # Array elements compare and hash slowly, and one trajectory has tens of thousands of them.
    prompt, tokens = np.asarray(prompt_ids).tolist(), np.asarray(token_ids).tolist()
    offered, agreeing = np.zeros(len(tokens), np.int64), np.zeros(len(tokens), np.int64)
    proposer.start(prompt)
    for start in range(len(tokens)):
        block = proposer.propose(gamma)
        offered[start] = len(block)
        accepted = 0
        for proposed, emitted in zip(block, tokens[start : start + len(block)], strict=False):
            if proposed != emitted:
                break
            accepted += 1
        agreeing[start] = accepted
        proposer.extend(tokens[start : start + 1])
    return Proposals(offered, agreeing)


def proposed_rounds(
    prompt_ids: Sequence[int],
    token_ids: Sequence[int],
    proposer: Proposer | Proposals,
    gamma: int,
    *,
    budget: int | None = None,
    stop_reason: str = "budget",
) -> RoundTable:
    """The rounds of a drafter that proposes a whole block, maybe short or empty, at a round start.

    Its q is one-hot: under greedy decoding and under speculative sampling alike a proposed token
    is accepted exactly when it is the emitted one, so nothing is drawn.

    Args:
        proposer: the drafter, or what `proposals` returned for it with a draft length of at
            least gamma (to replay several draft lengths from one pass over the text).
        Others as in `greedy_rounds`.
    """
    if not isinstance(proposer, Proposals):
        proposer = proposals(prompt_ids, token_ids, proposer, gamma)
    offered = offers(len(token_ids), gamma, budget, stop_reason, proposer.offered)
    return tile(proposer.agreeing, offered, gamma, stop_reason)


def tile(run: np.ndarray, offered: np.ndarray, gamma: int, stop_reason: str) -> RoundTable:
    """Walk along a text from round to round.

    Args:
        run: [n] how many drafts from each position on are the tokens of the text.
        offered: [n] drafts that a round starting there would offer.
        gamma: the draft length that the table names.
    """
    tokens = len(run)
    offered, accepted, emitted = outcomes(run, offered)
    starts, start, following = [], 0, (np.arange(tokens) + emitted).tolist()
    while start < tokens:
        starts.append(start)
        start = following[start]
    chosen = np.array(starts, np.int64)
    end = np.full(len(chosen), "continue", "<U8")
    end[-1:] = last_end(stop_reason)
    return {
        "draft_length": np.full(len(chosen), gamma, np.int16),
        "round": np.arange(len(chosen), dtype=np.int32),
        "start": chosen.astype(np.int32),
        "offered": offered[chosen].astype(np.int16),
        "accepted": accepted[chosen].astype(np.int16),
        "emitted": emitted[chosen].astype(np.int16),
        "end": end,
    }


def reached_positions(rounds: RoundTable, tokens: int) -> np.ndarray:
    """[tokens] booleans: a draft was tested there (accepted, or rejected and corrected)."""
    tested = rounds["accepted"] + (rounds["accepted"] < rounds["offered"])
    edges = np.zeros(tokens + 1, np.int64)
    np.add.at(edges, rounds["start"], 1)
    np.add.at(edges, rounds["start"] + tested, -1)
    return np.cumsum(edges)[:-1] > 0
