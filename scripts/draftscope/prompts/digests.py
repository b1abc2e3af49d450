"""Which text stands behind a prompt id.

Ids are short, and a source that is drawn anew with another seed, or a file that was edited, gives
the same ids other texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

_LENGTH = 16  # hexadecimal digits: enough to tell the prompts of any two experiments apart


def digests(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Prompt id -> digest of chat and text, of rows of schema prompts."""
    found = {}
    for row in rows:
        content = f"{row['messages_json']}\0{row['text']}".encode()
        found[row["prompt_id"]] = hashlib.sha256(content).hexdigest()[:_LENGTH]
    return found
