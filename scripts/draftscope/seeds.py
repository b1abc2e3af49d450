"""Random streams that depend on what is measured, never on shards, order or other prompts."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def generator(*key: int | str) -> np.random.Generator:
    """A generator of its own for one key, such as ("replay", run_seed, domain, prompt_id, sample).

    The key is hashed (SHA-256 of its JSON), so two keys that differ anywhere give independent
    streams, and 1 and "1" are different keys.
    """
    for part in key:
        if isinstance(part, bool) or not isinstance(part, int | str):
            raise TypeError(f"a seed key holds integers and strings, not {part!r}")
    text = json.dumps(list(key), ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def uniforms(count: int, *key: int | str) -> np.ndarray:
    """`count` uniforms on [0, 1), shape [count]; the first n do not depend on `count`.

    Element t belongs to generated position t, so drafts, draft lengths and decoding laws that
    use the same key share their random numbers.
    """
    return generator(*key).random(count)
