"""Drafters that are not a language model of their own, behind one small interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

# Kinds of draft that read their target's hidden states: what drafts with them live (`open_draft`) and
# what reads texts with them for token trees (`open_reader`). Loaded by name where such a draft is met,
# so that nothing else depends on them, the training of such a draft least of all.
LIVE = {"dflash": "draftscope.drafters.block", "retrace": "draftscope.drafters.retrace_draft"}
TREES = {"dflash": "draftscope.tree.block_reader"}


class Proposer(Protocol):
    """Proposes a whole block of draft tokens from the text so far.

    What it proposes depends on that text alone, never on which of its proposals were accepted,
    and a shorter proposal is the beginning of a longer one. Replay rests on both.
    """

    def start(self, token_ids: Sequence[int]) -> None:
        """Forget everything and take `token_ids` (the prompt) as the text."""

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append the emitted tokens to the text."""

    def propose(self, count: int) -> list[int]:
        """The next tokens, `count` at most; fewer, or none, where it has nothing to say."""
