"""Schemas of what is decoded and timed live.

They stand apart from the statistics, so that a word there decodes nothing again.
"""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import FLAGS, FLOATS, INTEGERS, KEYS, SCHEMAS, field, register

TEXT, REAL, SHORT = pa.string(), pa.float64(), pa.int16()
LENGTH = field("draft_length", SHORT, "draft length (K, gamma); 0 is plain decoding", "tokens")

register("live_trajectories", [*KEYS, LENGTH, *list(SCHEMAS["trajectories"])[2:]])
register(
    "live_scores",
    [
        *KEYS,
        LENGTH,
        field("token_ids", INTEGERS, "generated tokens, one a position", "token ids"),
        field("log_p", FLOATS, "target's log-probability of the emitted token", "nats"),
        field("log_q", FLOATS, "draft's log-probability of the emitted token", "nats"),
        field("top2_gap", FLOATS, "target's best minus second logit, T=1", "nats"),
        field("draft_argmax", INTEGERS, "argmax q, ties to the lowest id", "token ids"),
        field("target_disagreement", FLAGS, "the decoding law as scored excludes the token"),
    ],
)
register(
    "live_batches",
    [
        field("engine", TEXT, "what decoded: the loop over one text, or over a batch"),
        field("batch_size", SHORT, "texts decoded together", "texts"),
        LENGTH,
        field("repeat", SHORT, "which of the timed passes over the same texts, from 0"),
        field("batch", pa.int32(), "which batch of this size, from 0, in the order of prompts"),
        field("prompt_ids", pa.list_(TEXT), "its prompts; fewer than its size at the end"),
        field("tokens", pa.int32(), "tokens emitted", "tokens"),
        field("rounds", pa.int32(), "rounds of its texts, summed", "rounds"),
        field("passes", pa.int32(), "passes of the target: rounds of the longest text"),
        *(
            field(f"{phase}_seconds", REAL, f"{phase}, summed over the passes", "s")
            for phase in ("draft", "verify", "sample", "other")
        ),
        field("later_verify_seconds", REAL, "verify without the first pass", "s"),
        field("identical", SHORT, "its texts with the tokens and rounds that they have alone"),
    ],
)
register(
    "verify_latency",
    [
        field("target", TEXT, "name in the registry of models"),
        field("tokens", SHORT, "tokens of the pass", "tokens"),
        field("context", pa.int32(), "tokens that the cache held before it", "tokens"),
        field("repeat", SHORT, "which of the timed passes, from 0"),
        field("seconds", REAL, "the pass, with the device waited for", "s"),
    ],
)
