"""Prompt lookup: the draft that copies what followed the last time these tokens stood in the text.

The method is Saxena's prompt lookup decoding (2023). Its q is one-hot at each proposed token, so
under speculative sampling the draft token is accepted exactly when it equals the emitted one.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.errors import UserError


class PromptLookup:
    """Proposes the continuation of the longest n-gram at the end of the text that stood before.

    Lengths are tried from `max_ngram` down to `min_ngram`; the first that occurs earlier wins, and
    of its occurrences the most recent one, because text late in an answer repeats what came
    shortly before. (The implementation in transformers takes the oldest; the two agree wherever
    the n-gram occurred once.) An occurrence may overlap the end of the text. The proposal stops
    at the end of the text, so a copy from close by is short.

    Each token costs one dictionary entry a length, each proposal one look-up a length.

    Raises:
        UserError: not 1 <= min_ngram <= max_ngram.
    """

    def __init__(self, max_ngram: int = 3, min_ngram: int = 1) -> None:
        if not 1 <= min_ngram <= max_ngram:
            raise UserError(
                f"prompt lookup needs 1 <= min_ngram <= max_ngram, got min_ngram {min_ngram} and "
                f"max_ngram {max_ngram}"
            )
        self.max_ngram, self.min_ngram = max_ngram, min_ngram
        self.start(())

    def start(self, token_ids: Sequence[int]) -> None:
        """Take `token_ids` as the whole text."""
        self._text: list[int] = []
        # For each n-gram, the position after its last occurrence that ends before the text does.
        self._after: list[tuple[int, dict[tuple[int, ...], int]]] = [
            (length, {}) for length in range(self.max_ngram, self.min_ngram - 1, -1)
        ]
        self.extend(token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the text."""
        text = self._text
        for token in token_ids:
            end = len(text)
            for length, after in self._after:
                if length <= end:
                    after[tuple(text[end - length :])] = end
            text.append(int(token))

    def propose(self, count: int) -> list[int]:
        """At most `count` tokens that followed the match; none without a match."""
        text = self._text
        for length, after in self._after:
            if length < len(text):
                begin = after.get(tuple(text[-length:]))
                if begin is not None:
                    return text[begin : begin + count]
        return []
