"""Decoded texts as rows: trajectories, the round log that replay writes too, and timings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from draftscope.live.loop import Decoded
from draftscope.live.rules import Rule
from draftscope.schemas import KEYS, field, register
from draftscope.trajectories import decode as text_of

if TYPE_CHECKING:
    from draftscope.models import LoadedModel
    from draftscope.trajectories import RenderedPrompt

register(
    "live_timings",
    [
        *KEYS,
        field("draft_length", pa.int16(), "draft length (gamma); 0 is plain decoding", "tokens"),
        field("repeat", pa.int16(), "which of several timed passes over the same text, from 0"),
        field("round", pa.int32(), "number of the round, from 0; round 0 reads the prompt"),
        field("start", pa.int32(), "generated position of the round's first token", "tokens"),
        field("emitted", pa.int16(), "tokens emitted by the round", "tokens"),
        field("verify_tokens", pa.int32(), "tokens that the target's pass read", "tokens"),
        field("draft_seconds", pa.float64(), "proposing, with drawing the drafts", "s"),
        field("verify_seconds", pa.float64(), "the target's pass", "s"),
        field("sample_seconds", pa.float64(), "target's law, tests, correction or bonus", "s"),
        field("other_seconds", pa.float64(), "ends of the text, stepping both caches back", "s"),
    ],
)


def trajectory_row(
    target: LoadedModel, prompt_id: str, sample: int, prompt: RenderedPrompt, decoded: Decoded
) -> dict[str, Any]:
    """A row of the schema `trajectories`."""
    return {
        "prompt_id": prompt_id,
        "sample": sample,
        "status": "ok",
        "reason": None,
        "prompt_token_ids": list(prompt.token_ids),
        "token_ids": decoded.token_ids,
        "budget": decoded.budget,
        "stop_reason": decoded.stop_reason,
        "stop_token_id": decoded.stop_token_id,
        "rendered_sha256": prompt.sha256,
        "text": text_of(target, decoded.token_ids),
    }


def skipped_row(prompt_id: str, sample: int, prompt: RenderedPrompt, reason: str) -> dict[str, Any]:
    """A row of the schema `trajectories` for a prompt that cannot be decoded."""
    return {
        "prompt_id": prompt_id,
        "sample": sample,
        "status": "skipped",
        "reason": reason,
        "prompt_token_ids": list(prompt.token_ids),
        "token_ids": [],
        "budget": 0,
        "stop_reason": None,
        "stop_token_id": None,
        "rendered_sha256": prompt.sha256,
        "text": "",
    }


def round_rows(
    prompt_id: str, sample: int, gamma: int, rule: Rule, decoded: Decoded
) -> list[dict[str, Any]]:
    """Rows of the schema `rounds`, source "live"."""
    return [
        {
            "prompt_id": prompt_id,
            "sample": sample,
            "draft_length": gamma,
            "source": "live",
            "rule": rule.name,
            "lossless": rule.lossless,
            "round": number,
            "start": round_.start,
            "offered": round_.offered,
            "accepted": round_.accepted,
            "emitted": round_.emitted,
            "end": round_.end,
        }
        for number, round_ in enumerate(decoded.rounds)
    ]


TIMED = (
    "start",
    "emitted",
    "verify_tokens",
    "draft_seconds",
    "verify_seconds",
    "sample_seconds",
    "other_seconds",
)


def timing_rows(
    prompt_id: str, sample: int, gamma: int, passes: Sequence[Decoded]
) -> list[dict[str, Any]]:
    """Rows of the schema `live_timings`; `passes` are timed repetitions of one text."""
    return [
        {
            "prompt_id": prompt_id,
            "sample": sample,
            "draft_length": gamma,
            "repeat": repeat,
            "round": number,
        }
        | {name: getattr(round_, name) for name in TIMED}
        for repeat, decoded in enumerate(passes)
        for number, round_ in enumerate(decoded.rounds)
    ]
