"""Timings and rounds of a live loop whose every sum is known."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
from draftscope.live.tables import TIMED
from draftscope.lossless import speed
from draftscope.schemas import SCHEMAS

SETTINGS = speed.Settings(confidence=0.95, resamples=300, method="studentized", seed=1)
# Seconds of a round: a plain pass, a draft step, a verify pass.
PLAIN, STEP, VERIFY = 0.100, 0.030, 0.120


def log(prompts=10, gamma=2, accepted=(2, 1, 0), repeats=2, slow=None):
    """Timings and rounds of plain decoding and one draft length; every text has the same rounds."""
    timings, rounds = [], []

    def add(prompt, length, number, start, offered, taken, emitted, last, seconds):
        rounds.append(
            {"prompt_id": prompt, "sample": 0, "draft_length": length, "source": "live",
             "rule": "speculative_sampling", "lossless": True, "round": number, "start": start,
             "offered": offered, "accepted": taken, "emitted": emitted,
             "end": "budget" if last else "continue"}
        )  # fmt: skip
        for repeat in range(repeats):
            factor = (slow or {}).get((prompt, repeat), 1.0)
            timings.append(
                {"prompt_id": prompt, "sample": 0, "draft_length": length, "repeat": repeat,
                 "round": number, "start": start, "emitted": emitted, "verify_tokens": offered + 1}
                | dict(zip(TIMED[3:], (factor * s for s in seconds), strict=True))
            )  # fmt: skip

    tokens = sum(a + 1 for a in accepted)
    for index in range(prompts):
        name = f"p{index}"
        for place in range(tokens):
            first = 5 * PLAIN if place == 0 else PLAIN
            add(name, 0, place, place, 0, 0, 1, place == tokens - 1, (0, first, 0.004, 0.001))
        start = 0
        for number, taken in enumerate(accepted):
            verify = 5 * PLAIN if number == 0 else VERIFY
            seconds = (gamma * STEP, verify, 0.004, 0.001)
            last = number == len(accepted) - 1
            add(name, gamma, number, start, gamma, taken, taken + 1, last, seconds)
            start += taken + 1
    return pd.DataFrame(timings), pa.Table.from_pylist(rounds, SCHEMAS["rounds"])
