"""Which logs may be compared: the same condition, except for what the caller names."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from typing import Any

from draftscope import records
from draftscope.errors import UserError


def comparable(
    first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, str], allowed: Collection
) -> tuple[dict[str, Any], dict[str, tuple[Any, Any]]]:
    """What two conditions share, and what differs as it may.

    Args:
        names: what the two logs are called.
        allowed: keys that may differ.

    Raises:
        UserError: other keys differ (all of them are named), or an allowed key is in neither.
    """
    known = sorted({*first, *second})
    for key in allowed:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            raise UserError(
                f"--may-differ {key}: no condition of that name; "
                f"nearest: {close[0] if close else ', '.join(known)}"
            )
    differs = {key: (first.get(key), second.get(key)) for key in known}
    differs = {key: pair for key, pair in differs.items() if pair[0] != pair[1]}
    refused = [key for key in differs if key not in allowed]
    if refused:
        parts = [f"{key} ({_text(differs[key][0])} / {_text(differs[key][1])})" for key in refused]
        raise UserError(
            f"{names[0]} and {names[1]} were measured under different conditions: "
            f"{', '.join(parts)}; if that is what you compare, add --may-differ {','.join(refused)}"
        )
    shared = records.require_same_condition(
        {names[0]: dict(first), f"{names[1]} (second)": dict(second)}, allowed
    )
    return shared, differs


def require_same_texts(
    first: Mapping[str, str], second: Mapping[str, str], names: tuple[str, str]
) -> None:
    """Refuse to pair prompts that share their id alone.

    Args:
        first, second: prompt id -> digest of its text; ids that only one of them says are not
            looked at.

    Raises:
        UserError: a prompt id stands for two texts.
    """
    shared = first.keys() & second.keys()
    other = sorted(prompt for prompt in shared if first[prompt] != second[prompt])
    if other:
        raise UserError(
            f"{names[0]} and {names[1]} hold other prompts under the same ids ({len(other)} of "
            f"{len(shared)}, first {other[0]}); only the same prompts can be paired: collect both "
            "from the same source with the same seed"
        )


def _text(value: Any) -> str:
    if value is None:
        return "not said"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
