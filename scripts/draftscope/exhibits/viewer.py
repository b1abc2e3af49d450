"""The token viewer's data: which tokens of a text were drafted, accepted, corrected.

Text is cut at characters, not at tokens: a byte-level vocabulary splits a rare character over
several tokens, which then share one span marked `partial`. Bytes that are no UTF-8 are shown as
⟨E2⟩, never as a replacement character, since that character could also stand in the text itself.
"""

from __future__ import annotations

import codecs
import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

ACCEPTED, CORRECTION, BONUS, NOT_DRAFTED = "accepted", "correction", "bonus", "not drafted"
ROLES = {
    ACCEPTED: "drafted, and kept by the target",
    CORRECTION: "the target's own token after it rejected a draft token",
    BONUS: "the target's own token after a block that was accepted in full",
    NOT_DRAFTED: "the target's own token in a round that drafted nothing",
}
_ERRORS = "draftscope-hexadecimal"


def _hexadecimal(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(f"⟨{byte:02X}⟩" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_ERRORS, _hexadecimal)


@functools.cache
def _byte_of_character() -> dict[str, int]:
    """Byte-level vocabularies write each byte as one printable character (the GPT-2 table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + place): byte for place, byte in enumerate(others)}


def token_bytes(tokenizer: Any, token_ids: Sequence[int]) -> list[bytes]:
    """The bytes each token stands for inside a text.

    Args:
        tokenizer: a fast tokenizer of transformers, byte-level BPE or SentencePiece-like.

    Raises:
        ValueError: an id outside the vocabulary.
    """
    decoders = _decoders(tokenizer)
    added = {token_id: token.content for token_id, token in tokenizer.added_tokens_decoder.items()}
    pieces = tokenizer.convert_ids_to_tokens([int(token) for token in token_ids])
    table = _byte_of_character()
    result = []
    for token_id, piece in zip(token_ids, pieces, strict=True):
        if piece is None:
            raise ValueError(f"token id {int(token_id)} is not in the vocabulary")
        if int(token_id) in added:
            result.append(added[int(token_id)].encode())
        elif "ByteLevel" in decoders:
            # A character outside the table stands for itself, as the decoder treats it.
            parts = (bytes([table[c]]) if c in table else c.encode() for c in piece)
            result.append(b"".join(parts))
        elif len(piece) == 6 and piece.startswith("<0x") and "ByteFallback" in decoders:
            result.append(bytes([int(piece[3:5], 16)]))
        else:
            result.append(piece.replace("▁", " ").encode())
    return result


# Its description holds the whole vocabulary: megabytes of JSON to read once, not for every token.
@functools.lru_cache(maxsize=8)
def _decoders(tokenizer: Any) -> frozenset[str]:
    decoder = json.loads(tokenizer.backend_tokenizer.to_str())["decoder"] or {}
    return frozenset(part["type"] for part in decoder.get("decoders", [decoder]) if "type" in part)


def text_spans(pieces: Sequence[bytes]) -> list[tuple[str, list[int]]]:
    """Cut the joined bytes into texts that begin and end between characters.

    Returns:
        (text, places of its tokens); every token is in exactly one span, in order, and the texts
        joined are the whole text. A span has several tokens only where a character needs them.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors=_ERRORS)
    spans: list[tuple[str, list[int]]] = []
    text, places = "", []
    for place, piece in enumerate(pieces):
        text += decoder.decode(piece)
        places.append(place)
        if not decoder.getstate()[0]:  # nothing is waiting for the rest of a character
            spans.append((text, places))
            text, places = "", []
    if places:
        spans.append((text + decoder.decode(b"", final=True), places))
    return spans


def roles(rounds: Sequence[Mapping[str, Any]], tokens: int) -> list[tuple[str, int | None]]:
    """The role and round of each generated token.

    Args:
        rounds: rows of schema rounds of one trajectory and draft length.
        tokens: how many tokens were generated; those without a round are "not drafted".

    Raises:
        ValueError: a round emits tokens beyond the end, or two rounds the same one.
    """
    result: list[tuple[str, int | None]] = [(NOT_DRAFTED, None)] * tokens
    for row in rounds:
        start, offered, accepted = row["start"], row["offered"], row["accepted"]
        for place in range(row["emitted"]):
            position = start + place
            if position >= tokens or result[position][1] is not None:
                raise ValueError(f"round {row['round']} emits position {position} a second time")
            if place < accepted:
                role = ACCEPTED
            elif offered == 0:
                role = NOT_DRAFTED
            else:
                role = BONUS if accepted == offered else CORRECTION
            result[position] = (role, row["round"])
    return result


def view(
    tokenizer: Any,
    trajectory: Mapping[str, Any],
    rounds: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Any] | None,
    most_tokens: int,
) -> dict[str, Any]:
    """One trajectory for the viewer.

    Args:
        trajectory: row of schema trajectories, status ok.
        rounds: its rounds at one draft length.
        scores: its row of schema scores under the decoding law; only `log_p` of it for a draft
            without probabilities at each position (prompt lookup); None if it was not scored.
        most_tokens: the text is cut after so many tokens, at a character.

    Returns:
        prompt (text), tokens (all), shown, spans: text, partial, and its tokens with position,
        id, role, round, p and q of the emitted token, and at a correction the draft's most
        likely token. p and q are null where unknown.
    """
    ids = [int(token) for token in trajectory["token_ids"]]
    pieces = token_bytes(tokenizer, ids)
    role = roles(rounds, len(ids))
    spans, shown = [], 0
    for text, places in text_spans(pieces):
        if shown and shown + len(places) > most_tokens:
            break
        shown += len(places)
        tokens = [_token(place, ids[place], role[place], scores, tokenizer) for place in places]
        spans.append({"text": text, "partial": len(places) > 1, "tokens": tokens})
    prompt = token_bytes(tokenizer, trajectory["prompt_token_ids"])
    return {
        "prompt_id": trajectory["prompt_id"],
        "sample": trajectory["sample"],
        "prompt": "".join(text for text, _ in text_spans(prompt)),
        "tokens": len(ids),
        "shown": shown,
        "spans": spans,
    }


def _token(
    place: int,
    token_id: int,
    role: tuple[str, int | None],
    scores: Mapping[str, Any] | None,
    tokenizer: Any,
) -> dict[str, Any]:
    token: dict[str, Any] = {"position": place, "id": token_id, "role": role[0], "round": role[1]}
    token["p"] = token["q"] = token["draft"] = None
    if scores is not None:
        token["p"] = _probability(scores["log_p"][place])
    if scores is not None and "log_q" in scores:
        token["q"] = _probability(scores["log_q"][place])
        if role[0] == CORRECTION:
            wanted = token_bytes(tokenizer, [scores["draft_argmax"][place]])
            token["draft"] = "".join(text for text, _ in text_spans(wanted))
    return token


def _probability(log: float) -> float:
    return float(f"{math.exp(min(float(log), 0.0)):.4g}")
