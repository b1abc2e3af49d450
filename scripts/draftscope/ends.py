"""How rounds begin and how a trajectory ends: every replay, the expected values and trees use it.

A round at generated position s (the first round at 0: a draft precedes the first token) offers
min(gamma, budget left, what the drafter can offer) tokens. The accepted ones are a prefix of the
offer; one more token follows them, the correction after a rejection or the bonus after a full
acceptance, unless the trajectory ended before it:

- an accepted end-of-text token is the last of the round: nothing after it was offered or emitted;
- an end-of-text token that is the correction or the bonus leaves the offer as it was;
- a block accepted in full up to the budget has no bonus.

A trajectory that filled the model's context ended where its room did, as one that spent a budget.
"""

from __future__ import annotations

import numpy as np

from draftscope.errors import UserError

STOP_REASONS = ("eos", "budget", "context")


def check_draft_length(gamma: int) -> None:
    """Raises UserError unless gamma is an integer from 1 to 32767."""
    if isinstance(gamma, bool) or not isinstance(gamma, int | np.integer) or not 0 < gamma < 2**15:
        raise UserError(f"the draft length must be an integer of at least 1, got {gamma!r}")


def effective_budget(tokens: int, budget: int | None, stop_reason: str) -> int:
    """The budget that limits the offers of a trajectory of `tokens` tokens.

    Raises:
        ValueError: an unknown stop reason, or tokens, budget and reason contradict each other.
    """
    if stop_reason not in STOP_REASONS:
        raise ValueError(f"stop reason {stop_reason!r} is none of {', '.join(STOP_REASONS)}")
    if budget is None or (stop_reason == "context" and budget >= tokens):
        return tokens
    if budget < tokens or (stop_reason == "budget" and budget != tokens):
        raise ValueError(f"{tokens} tokens, stopped by {stop_reason}, contradict budget {budget}")
    return int(budget)


def next_index(flags: np.ndarray) -> np.ndarray:
    """For each position the first position at or after it whose flag is set, else n; [n]."""
    positions = np.where(flags, np.arange(len(flags)), len(flags))
    return np.minimum.accumulate(positions[::-1])[::-1]


def offers(
    tokens: int,
    gamma: int,
    budget: int | None,
    stop_reason: str,
    offered_limit: np.ndarray | None,
) -> np.ndarray:
    """Draft tokens that a round starting at each position would offer; [tokens], integers."""
    check_draft_length(gamma)
    left = effective_budget(tokens, budget, stop_reason) - np.arange(tokens)
    offered = np.minimum(left, gamma)
    if offered_limit is None:
        return offered
    offered_limit = np.asarray(offered_limit)
    if offered_limit.shape != (tokens,) or (offered_limit < 0).any():
        raise ValueError(f"offered_limit must hold {tokens} counts of at least 0, one a position")
    return np.minimum(offered, offered_limit)


def offers_before(flags: np.ndarray, gamma: int) -> np.ndarray:
    """The offer that stops before the next flagged position; gamma where none follows; [n]."""
    following = next_index(flags)
    return np.where(following < len(flags), following - np.arange(len(flags)), gamma)


def outcomes(run: np.ndarray, offered: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a round that starts at each position of a text does: offered, accepted, emitted; [n].

    Args:
        run: [n] how many drafts from the position on are the tokens of the text.
        offered: [n] drafts that a round starting there would offer.
    """
    tokens = len(run)
    left = tokens - np.arange(tokens)
    accepted = np.minimum(run, offered)
    # Nothing was offered beyond an accepted end-of-text token; up to a budget this changes nothing.
    offered = np.where(accepted == left, accepted, offered)
    return offered, accepted, accepted + (accepted < left)


def last_end(stop_reason: str) -> str:
    """How the round that reaches the end of the text ended; the others continue."""
    return "eos" if stop_reason == "eos" else "budget"
