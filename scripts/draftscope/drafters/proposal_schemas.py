"""Schemas of what block drafters propose along texts."""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import INTEGERS, KEYS, field, register

_PROPOSED = [
    field("token_ids", INTEGERS, "generated tokens, one a position", "token ids"),
    field(
        "draft_ids",
        INTEGERS,
        "argmax of each slot of the block that a round starting at each position would draft: "
        "block size - 1 of them a position, position after position",
        "token ids",
    ),
    field(
        "outside",
        pa.int32(),
        "generated tokens that the draft vocabulary lacks, so that they are never proposed",
        "tokens",
    ),
]
register("proposals", [*KEYS, *_PROPOSED])
register(
    "live_proposals",
    [*KEYS, field("draft_length", pa.int16(), "draft length (gamma)", "tokens"), *_PROPOSED],
)
