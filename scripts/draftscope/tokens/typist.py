"""The type of each token of a text, and of a token that could have stood in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from draftscope.tokens.lexer import Lexed, lex
from draftscope.tokens.lists import Lists
from draftscope.tokens.names import CODE, NO_TRIGGER
from draftscope.tokens.pieces import Pieces, Spans, of_bytes
from draftscope.tokens.regions import PROSE

# Bytes before a token that decide the type of another one in its place.
_CONTEXT = 200


@dataclass(frozen=True, eq=False)
class Typed:
    """Types of the tokens of one text, [tokens] each.

    Attributes:
        type: code of `names.TYPES`.
        initial: the token holds the beginning of the segment (word, number, phrase, run of
            spaces) that gives it its type.
        whole: it holds all of that segment.
        trigger: number of the trigger in the lists, `NO_TRIGGER` elsewhere.
        region: prose, formula or code, as in `regions`; prose for a token without text.
    """

    type: np.ndarray
    initial: np.ndarray
    whole: np.ndarray
    trigger: np.ndarray
    region: np.ndarray
    spans: Spans
    lexed: Lexed

    def after(self, tokens: int) -> Typed:
        """Without the first tokens; characters are counted from the beginning all the same."""
        own = {name: getattr(self, name)[tokens:] for name in _OF_TOKENS}
        return replace(self, **own, spans=self.spans.after(tokens))


_OF_TOKENS = ("type", "initial", "whole", "trigger", "region")


@dataclass(frozen=True)
class Alternative:
    """A token in the place of another: its type's code, trigger and characters."""

    type: int
    trigger: int
    text: str


class Typist:
    """Types the tokens of texts by one tokenizer."""

    def __init__(self, tokenizer: Any, lists: Lists) -> None:
        self.pieces, self.lists = Pieces(tokenizer), lists

    def sequence(self, ids: Sequence[int], prompt: Sequence[int] = ()) -> Typed:
        """The types of all tokens of a text.

        A token has the type of its first character that is no white space, except that one which
        holds part of a trigger is a reflection; what is no whole character comes before all.

        Args:
            prompt: what the text goes on from. It is read with it from its last special token on:
                all of a raw prompt, which may have opened a function, and nothing but a line break
                of most chat templates.
        """
        begins = len(prompt)
        while begins and not self.pieces.is_special(int(prompt[begins - 1])):
            begins -= 1
        opened = list(prompt[begins:])
        spans = self.pieces.spans([*opened, *ids])
        # A special token parts the text: what stands on its two sides is no word together.
        return _typed(spans, lex(_parted(spans), self.lists)).after(len(opened))

    def alternative(self, ids: Sequence[int], place: int, id_: int, region: int) -> Alternative:
        """The token `id_` in place of the one at position `place` of a text.

        It is typed after the line before it; what would follow it is not known, so that the
        beginning of a trigger is a word.

        Args:
            region: the region (prose, formula, code) of the token whose place it takes.
        """
        special = self.pieces.is_special(id_)
        before = self.pieces.line_before(ids, place, _CONTEXT)
        own = of_bytes([before, self.pieces.piece(id_)], np.array([False, special]))
        found = _typed(own, lex(_parted(own), self.lists, region))
        text = own.text[own.start[1] : own.stop[1]]
        return Alternative(int(found.type[1]), int(found.trigger[1]), text)


def _parted(spans: Spans) -> str:
    """The text with line breaks in place of special tokens, of the same length."""
    if not spans.special.any():
        return spans.text
    characters = list(spans.text)
    for start, stop in zip(spans.start[spans.special], spans.stop[spans.special], strict=True):
        characters[start:stop] = "\n" * (stop - start)
    return "".join(characters)


def _typed(spans: Spans, lexed: Lexed) -> Typed:
    length, start = len(spans.text), spans.start
    solid = _next(lexed.type != CODE["whitespace"])
    turning = _next(lexed.type == CODE["reflection"])
    at = np.append(np.arange(length), length)  # tokens without characters point past the end
    first = np.where(solid[start] < spans.stop, solid[start], at[start])
    first = np.where(turning[start] < spans.stop, turning[start], first)
    filled = spans.stop > start
    kind = np.full(len(start), CODE["special"], dtype=np.int8)
    trigger = np.full(len(start), NO_TRIGGER, dtype=np.int16)
    initial, whole = np.ones(len(start), dtype=bool), np.ones(len(start), dtype=bool)
    region = np.full(len(start), PROSE, dtype=np.int8)
    if length:
        region[filled] = lexed.region[spans.stop[filled] - 1]
        place = np.minimum(first, length - 1)
        kind = np.where(filled, lexed.type[place], kind).astype(np.int8)
        trigger = np.where(filled, lexed.trigger[place], trigger).astype(np.int16)
        # Of several tokens that share a character only the first begins it.
        shared = np.append(False, spans.stop[:-1] > start[1:])[: len(start)]
        begun = (lexed.segment[place] >= start) & ~shared
        initial = np.where(filled, begun, True)
        whole = np.where(filled, begun & (lexed.end[place] <= spans.stop), True)
    kind[spans.partial] = CODE["partial_utf8"]  # which may still be a part of a trigger
    kind[spans.special] = CODE["special"]
    trigger[spans.special] = NO_TRIGGER
    initial[spans.special] = whole[spans.special] = True
    return Typed(kind, initial, whole, trigger, region, spans, lexed)


def _next(there: np.ndarray) -> np.ndarray:
    """[n + 1] place of the first true at or after each; n where there is none."""
    n = len(there)
    places = np.where(there, np.arange(n), n)
    following = np.minimum.accumulate(places[::-1])[::-1] if n else places
    return np.append(following, n)
