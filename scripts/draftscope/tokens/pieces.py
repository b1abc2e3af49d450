"""Which characters of the whole decode each token covers.

A single id need not be text: byte-level vocabularies split characters, and SentencePiece decodes
one id without the space before it. So the bytes of all tokens are joined, decoded once, and each
token gets the characters that its bytes fall into.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
_TAG = re.compile(r"<[^\s<>]+>\Z")
_REPLACED = re.compile("\ufffd+")
SPACE_SIGN = "\u2581"  # how SentencePiece writes a space
# Tokens before the one in question that are decoded with it where bytes are not known.
_WINDOW = 12
_LONGEST = 4  # bytes of a character in UTF-8


@dataclass(frozen=True, eq=False)
class Spans:
    """Characters of each token in `text`: from `start` up to `stop`, [tokens] each.

    Attributes:
        partial: the token begins or ends within a character, or holds bytes that are none.
        special: a special token, a tag that is one token, or an id without text.
        line: text of the tokens as bytes, None where only their characters are known.
        offset: where each token begins in `line`, [tokens + 1].
    """

    text: str
    start: np.ndarray
    stop: np.ndarray
    partial: np.ndarray
    special: np.ndarray
    line: bytes | None = None
    offset: np.ndarray | None = None

    def after(self, tokens: int) -> Spans:
        """Without the first tokens, in the same text."""
        own = {
            name: getattr(self, name)[tokens:] for name in ("start", "stop", "partial", "special")
        }
        return replace(self, **own, offset=None if self.offset is None else self.offset[tokens:])


class Pieces:
    """The bytes of a tokenizer's ids, and the spans of a sequence of ids.

    Byte-level BPE and SentencePiece (with and without byte fallback) are read from the
    vocabulary, and what comes out is held against the tokenizer's own decode; any other
    tokenizer, or one whose decode differs, is decoded in steps, which is slower.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.kind = _kind(tokenizer)
        self._bytes: dict[int, bytes] = {}
        self._fallback: set[int] = set()  # ids that stand for one byte
        self._size = len(tokenizer)
        self._special = set(tokenizer.all_special_ids)
        for id_, added in getattr(tokenizer, "added_tokens_decoder", {}).items():
            if added.special or _TAG.match(str(added.content)):
                self._special.add(id_)

    def is_special(self, id_: int) -> bool:
        return id_ in self._special or not 0 <= id_ < self._size

    def piece(self, id_: int) -> bytes:
        """The bytes that one id adds to a text; none for an id without a string."""
        found = self._bytes.get(id_)
        if found is None:
            found = self._bytes[id_] = self._read(id_)
        return found

    def spans(self, ids: Sequence[int]) -> Spans:
        """Where each id of a sequence stands in the text of all of them."""
        ids = [int(id_) for id_ in ids]
        special = np.array([self.is_special(id_) for id_ in ids], dtype=bool)
        if self.kind != "other":
            pieces = [self.piece(id_) for id_ in ids]
            if self.kind == "sentencepiece":
                pieces = self._whole_runs(ids, pieces)
            spans = of_bytes(pieces, special)
            if same_text(spans.text, self.decode(ids)):
                return spans
        return self._in_steps(ids, special)

    def decode(self, ids: Sequence[int]) -> str:
        known = [id_ for id_ in ids if 0 <= id_ < self._size]
        return self.tokenizer.decode(
            known, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )

    def line_before(self, ids: Sequence[int], place: int, limit: int) -> bytes:
        """The text before a position: of its last line, and its last part of `limit` bytes or more.

        A special token parts it; a character that was cut in front is left out.
        """
        held: list[bytes] = []
        size, first = 0, place
        while first > 0 and size < limit and not self.is_special(int(ids[first - 1])):
            first -= 1
            held.append(self.piece(int(ids[first])))
            size += len(held[-1])
            if b"\n" in held[-1]:
                break
        if self.kind == "other":
            before = self.decode([int(id_) for id_ in ids[first:place]]).encode()
        else:
            before = b"".join(reversed(held))
        before = before[before.rfind(b"\n") + 1 :]
        while before[:1] and 0x80 <= before[0] < 0xC0:
            before = before[1:]
        return before

    def _whole_runs(self, ids: list[int], pieces: list[bytes]) -> list[bytes]:
        """The pieces, where a run of bytes that is no text in whole is none in part either.

        So decodes byte fallback: one wrong byte makes the bytes around it unreadable.
        """
        place = 0
        while place < len(ids):
            last = place
            # An id without text does not part a run: decoding leaves it out.
            while last < len(ids) and (ids[last] in self._fallback or not pieces[last]):
                last += 1
            if not _readable(b"".join(pieces[place:last])):
                pieces[place:last] = [piece and b"\xff" for piece in pieces[place:last]]
            place = max(last, place + 1)
        return pieces

    def _read(self, id_: int) -> bytes:
        if not 0 <= id_ < self._size:
            return b""
        token = self.tokenizer.convert_ids_to_tokens(id_)
        if not token:
            return b""
        if self.kind == "byte_level":
            alphabet = _alphabet()
            # As the byte-level decoder does: a token with any other character is plain text.
            if all(character in alphabet for character in token):
                return bytes(alphabet[character] for character in token)
            return token.encode()
        if self.kind == "other":
            return self.decode([id_]).encode()
        byte = _BYTE.match(token)
        if byte:
            self._fallback.add(id_)
            return bytes([int(byte[1], 16)])
        return token.replace(SPACE_SIGN, " ").encode()

    def _in_steps(self, ids: list[int], special: np.ndarray) -> Spans:
        text, starts, stops, partial = "", [], [], []
        first = 0
        while first < len(ids):
            context = ids[max(0, first - _WINDOW) : first]
            before, last = self.decode(context), first
            while True:  # up to the end of a character
                whole = self.decode(context + ids[first : last + 1])
                last += 1
                inside = whole.endswith("\ufffd") and last - first < _LONGEST
                if not inside or last == len(ids):
                    break
            added = whole[_shared(before, whole) :]
            broken = last - first > 1 or "\ufffd" in added
            for _ in range(first, last):
                starts.append(len(text))
                stops.append(len(text) + len(added))
                partial.append(broken)
            text += added
            first = last
        as_array = (np.array(each, dtype=np.int64) for each in (starts, stops))
        return Spans(text, *as_array, np.array(partial, dtype=bool), special)


def of_bytes(pieces: Sequence[bytes], special: np.ndarray) -> Spans:
    """Spans of tokens whose bytes are known."""
    line = b"".join(pieces)
    offset = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    text, begins, invalid = _decode(line)
    character = np.cumsum(begins) - 1
    # One more place, for tokens without bytes at the very end.
    character = np.append(character, len(text))
    begins = np.append(begins, True)
    filled = offset[1:] > offset[:-1]
    start = character[offset[:-1]]
    stop = np.where(filled, character[np.maximum(offset[1:] - 1, 0)] + 1, start)
    broken = np.concatenate([[0], np.cumsum(invalid)])
    partial = filled & (
        ~begins[offset[:-1]] | ~begins[offset[1:]] | (broken[offset[1:]] > broken[offset[:-1]])
    )
    return Spans(text, start, stop, partial, special, line, offset)


def _decode(line: bytes) -> tuple[str, np.ndarray, np.ndarray]:
    """Text of the bytes; which bytes begin a character of it, and which are no character."""
    values = np.frombuffer(line, dtype=np.uint8)
    begins = (values & 0xC0) != 0x80
    invalid = np.zeros(len(line), dtype=bool)
    parts, place = [], 0
    while True:
        try:
            parts.append(line[place:].decode())
            return "".join(parts), begins, invalid
        except UnicodeDecodeError as error:
            first, last = place + error.start, place + error.end
            parts += [line[place:first].decode(), "\ufffd"]
            begins[first:last] = False
            begins[first] = True
            invalid[first:last] = True
            place = last


def _readable(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def same_text(ours: str, theirs: str) -> bool:
    """Whether two decodes agree but for the space that a decoder takes off the front.

    Decoders differ in how many replacement characters stand for broken bytes.
    """
    ours, theirs = (_REPLACED.sub("\ufffd", text) for text in (ours, theirs))
    return ours == theirs or ours.removeprefix(" ") == theirs


def _shared(one: str, other: str) -> int:
    """Length of what two texts have in common from their beginning."""
    if other.startswith(one):
        return len(one)
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _kind(tokenizer: Any) -> str:
    """How strings of the vocabulary stand for bytes: byte_level, sentencepiece or other."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.loads(backend.to_str())["decoder"] if backend is not None else None
    steps = _steps(decoder)
    if "ByteLevel" in steps:
        return "byte_level"
    if {"Metaspace", "ByteFallback"} & set(steps):
        return "sentencepiece"
    return "other"


def _steps(decoder: dict | None) -> list[str]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [name for part in decoder["decoders"] for name in _steps(part)]
    return [decoder["type"]]


_ALPHABET: dict[str, int] = {}


def _alphabet() -> dict[str, int]:
    """Character of a byte-level vocabulary -> byte.

    Printable bytes of Latin-1 stand for themselves, the others for the characters from 256 on.
    """
    if not _ALPHABET:
        plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        others = [byte for byte in range(256) if byte not in plain]
        _ALPHABET.update({chr(byte): byte for byte in plain})
        _ALPHABET.update({chr(256 + place): byte for place, byte in enumerate(others)})
    return _ALPHABET
