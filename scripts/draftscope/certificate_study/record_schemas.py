"""Schemas of what the jobs with models write for the certificates study.

They stand apart from the statistics, so that a word there records nothing again.
"""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import KEYS, field, register

REAL, COUNT = pa.float64(), pa.int32()
POSITION = field("position", COUNT, "generated position, from 0", "tokens")
RULE = field("rule", pa.string(), "acceptance rule with its parameters; greedy: the target's own")
LOSSLESS = field("lossless", pa.bool_(), "the rule emits what the target would")

TARGETS = register(
    "certificate_targets",
    [
        *KEYS,
        POSITION,
        field("token_id", COUNT, "the emitted token", "token id"),
        field("log_p", REAL, "target's log-probability of it, T=1", "nats"),
        field("entropy", REAL, "entropy of the target's distribution, T=1", "nats"),
        field("vocabulary", COUNT, "width of that distribution", "tokens"),
        field("top", pa.list_(REAL), "its largest probabilities, descending, as many as it takes"),
    ],
)
DRAFTS = register(
    "certificate_drafts",
    [
        *KEYS,
        POSITION,
        field("draft", pa.string(), "name of the draft in the registry of models"),
        field("kl", REAL, "KL(p || q), T=1, float64; infinite where q lacks a token of p", "nats"),
        field("drafted", COUNT, "argmax q, ties to the lowest id", "token id"),
        field("p_drafted", REAL, "target's probability of it; of tied ones the least"),
        field("draft_rank", COUNT, "tokens other than argmax p that q holds at least as probable"),
        field("draft_entropy", REAL, "entropy of q, T=1", "nats"),
        field("uncommon_mass", REAL, "target's probability of tokens the draft cannot emit"),
    ],
)
TEXTS = register(
    "certificate_texts",
    [
        *KEYS,
        RULE,
        LOSSLESS,
        field("draft_length", pa.int16(), "draft length (gamma)", "tokens"),
        field("token_ids", pa.list_(COUNT), "generated tokens", "token ids"),
        field("stop_reason", pa.string(), "eos, budget or context"),
        field("log_p", pa.list_(REAL), "target's log-probability of each, T=1", "nats"),
        field("greedy", pa.list_(pa.bool_()), "it is the target's most probable token there"),
        field("text", pa.string(), "one decode of all of them"),
    ],
)
