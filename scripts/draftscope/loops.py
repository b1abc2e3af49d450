"""Finds texts that end in a repetition: the period, where it starts, and what repeats."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from draftscope.errors import UserError

# Three whole repetitions, since lists and code often say a thing twice. The span keeps an
# indentation, a ruled line or a decimal expansion that merely stands at the end from counting.
MAX_PERIOD, MIN_REPEATS, MIN_SPAN = 1024, 3, 32

# Markup written with letters, which is formatting all the same.
_MARKUP = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>|&[A-Za-z]{2,8};|\\(?:q?quad|hline|newline|\\)")
_BOX_DRAWING = range(0x2500, 0x2600)


class Loop(NamedTuple):
    """A text's periodic tail: `token_ids[i] == token_ids[i + period]` for every i from `onset`.

    Attributes:
        onset: first position of the longest tail with this period, 0-based, in tokens.
        period: tokens in one repetition.
        repeats: tokens from the onset to the end / period; not whole when the text is cut.
        kind: text, digits or formatting; None when no decoder was given.
    """

    onset: int
    period: int
    repeats: float
    kind: str | None = None


def find_loop(
    token_ids: Sequence[int] | np.ndarray,
    max_period: int = MAX_PERIOD,
    min_repeats: int = MIN_REPEATS,
    min_span: int = MIN_SPAN,
    decode: Callable[[list[int]], str] | None = None,
) -> Loop | None:
    """The repetition in which a text ends, or None.

    The period is the shortest P up to `max_period` such that the last `min_span` tokens or the
    last `min_repeats * P`, whichever are more, repeat with period P token by token. The onset is
    then found by walking left while the period holds, so it does not depend on where in a
    repetition the text was cut, nor on the two thresholds. Time is linear in the length.

    Only exact repetition counts: "1. again 2. again 3. again" changes in every repetition and is
    not a loop here. When a repetition itself holds a run of `min_span` tokens with a shorter
    period and the text ends inside that run, the shorter period is reported.

    Args:
        token_ids: generated ids, shape [tokens]; leave out the end-of-text token.
        decode: maps the ids of repetitions to text, to tell the kind.

    Raises:
        UserError: a threshold out of range.
    """
    for name, value, least in (
        ("max_period", max_period, 1),
        ("min_repeats", min_repeats, 2),
        ("min_span", min_span, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise UserError(f"loops: {name} is {value!r}, it must be a whole number >= {least}")
    ids = np.asarray(token_ids)
    if ids.ndim != 1:
        raise ValueError(f"token_ids must be one-dimensional, not of shape {ids.shape}")
    period = _shortest_period(ids, max_period, min_repeats, min_span)
    if period is None:
        return None
    breaks = np.flatnonzero(ids[period:] != ids[:-period])
    onset = int(breaks[-1]) + 1 if len(breaks) else 0
    kind = None
    if decode is not None:
        kind = kind_of_repetition(decode(ids[onset : onset + 3 * period].tolist()))
    return Loop(onset, period, (len(ids) - onset) / period, kind)


def _shortest_period(
    ids: np.ndarray, max_period: int, min_repeats: int, min_span: int
) -> int | None:
    """Grow the tail token by token and stop at the first one that repeats often enough.

    The failure function of the reversed text gives the smallest period of every tail
    (Knuth, Morris and Pratt 1977), and that period never falls as the tail grows. So the first
    tail that is long enough and holds `min_repeats` of its own period has the shortest period
    asked for, and tails beyond the limit below cannot be the first.
    """
    limit = min(len(ids), max(min_span, min_repeats * max_period))
    tail = ids[len(ids) - limit :][::-1].tolist()
    failure = [0] * limit
    border = 0
    for last in range(limit):
        if last:
            while border and tail[last] != tail[border]:
                border = failure[border - 1]
            border += tail[last] == tail[border]
            failure[last] = border
        length = last + 1
        period = length - border
        if period > max_period:
            return None
        if length >= min_span and length >= min_repeats * period:
            return period
    return None


def kind_of_repetition(text: str) -> str:
    """Whether a repetition is text, digits or formatting.

    Digits: at least one digit, and besides only what counts as formatting. Formatting: only
    white space, punctuation, mathematical signs, drawn lines, tags and layout commands. Anything
    with a letter or a pictograph is text.

    Args:
        text: three repetitions decoded in one piece; the middle one is judged, since a tag may
            straddle the place where one repetition ends.
    """
    marked = [False] * len(text)
    for match in _MARKUP.finditer(text):
        marked[match.start() : match.end()] = [True] * (match.end() - match.start())
    third = len(text) // 3
    middle = slice(third, len(text) - third)
    digits = False
    for character, markup in zip(text[middle], marked[middle], strict=True):
        if markup or _is_formatting(character):
            continue
        if not unicodedata.category(character).startswith("N"):
            return "text"
        digits = True
    return "digits" if digits else "formatting"


def _is_formatting(character: str) -> bool:
    if character == "\N{REPLACEMENT CHARACTER}":  # a character split over tokens: unknown, so text
        return False
    category = unicodedata.category(character)
    return (
        category[0] in "ZP"
        or category in ("Cc", "Cf", "Sm", "Sk", "Sc")
        or ord(character) in _BOX_DRAWING
    )


def loop_row(row: dict, decode: Callable[[list[int]], str] | None, **thresholds: int) -> dict:
    """One row of schema loops from one row of schema trajectories (status ok).

    The end-of-text token is left out of the search, so a text that repeats and then ends on its
    own counts as looped, but only one that ran into its length limit is a loop problem.
    """
    ids = row["token_ids"]
    ended = row["stop_reason"] == "eos" and len(ids) > 0 and ids[-1] == row["stop_token_id"]
    loop = find_loop(ids[:-1] if ended else ids, decode=decode, **thresholds)
    return {
        "prompt_id": row["prompt_id"],
        "sample": row["sample"],
        "tokens": len(ids),
        "looped": loop is not None,
        "onset": loop.onset if loop else None,
        "period": loop.period if loop else None,
        "repeats": loop.repeats if loop else None,
        "kind": loop.kind if loop else None,
        "loop_problem": loop is not None and row["stop_reason"] in ("budget", "context"),
    }
