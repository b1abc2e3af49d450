"""Files of the studies of block drafters: lengths, differences, profiles, speed, what would be needed."""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import field, register

TEXT, COUNT, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
SUBSETS = ("all", "loops_removed")
POOLINGS = ("macro", "micro")
ALL = "all"

ARM = field("arm", TEXT, "label of an arm, or of a baseline")
AGAINST = field("against", TEXT, "the arm or baseline it is compared with")
DOMAIN = field("domain", TEXT, "name of a domain; all is the mean of the domains, weighted alike")
MODE = field("mode", TEXT, "name in the registry of decoding modes")
TEMPERATURE = field("temperature", REAL, "of the mode; 0 is greedy")
GAMMA = field("draft_length", pa.int16(), "draft length (gamma)", "tokens")
SUBSET = field("subset", TEXT, "all prompts, or loops_removed: without loop problems")
POOLING = field(
    "pooling", TEXT, "macro: mean over prompts of tokens / rounds; micro: all tokens / all rounds"
)
TRAININGS = field("trainings", COUNT, "trainings of the arm's draft; 0 where nothing is trained")
PROMPTS = field("prompts", COUNT, "prompts", "prompts")
LOST = field("left_out_loops", COUNT, "prompts left out as loop problems", "prompts")
REASON = field("reason", TEXT, "why a value is missing or degenerate", nullable=True)


def ends(what: str, unit: str = "", alone: bool = True) -> list[pa.Field]:
    """Ends of an interval over trainings and prompts, and of that over prompts alone."""
    found = [
        field("lower", REAL, f"lower end, trainings and prompts: {what}", unit, nullable=True),
        field("upper", REAL, f"upper end, trainings and prompts: {what}", unit, nullable=True),
    ]
    if alone:
        found += [
            field("prompts_lower", REAL, f"lower end, prompts alone: {what}", unit, nullable=True),
            field("prompts_upper", REAL, f"upper end, prompts alone: {what}", unit, nullable=True),
        ]
    return found


TESTED = [
    field("standard_error", REAL, "of it, over trainings and prompts", nullable=True),
    field("degrees", REAL, "degrees of freedom of the interval (Satterthwaite)", nullable=True),
]
P = field("p", REAL, "two-sided t test of no difference", nullable=True)
SEPARATED = field("separated", FLAG, "the interval excludes no difference", nullable=True)

register(
    "block_lengths",
    [
        *(ARM, DOMAIN, MODE, TEMPERATURE, GAMMA, SUBSET, POOLING, TRAININGS, PROMPTS, LOST),
        field("length", REAL, "acceptance length, bonus token included", "tokens", nullable=True),
        *ends("acceptance length", "tokens"),
        *TESTED,
        REASON,
    ],
)
register(
    "block_differences",
    [
        *(ARM, AGAINST, DOMAIN, MODE, TEMPERATURE, GAMMA, SUBSET, POOLING),
        field("role", TEXT, "what it is compared with: reference or baseline"),
        *(TRAININGS, PROMPTS),
        field("difference", REAL, "difference in acceptance length", "tokens", nullable=True),
        *ends("difference in acceptance length", "tokens"),
        *TESTED,
        P,
        field("holm_p", REAL, "p by Holm over arms and modes", nullable=True),
        SEPARATED,
        field("gain", REAL, "ratio of the lengths - 1", "percent", nullable=True),
        field("gain_lower", REAL, "lower end of the gain", "percent", nullable=True),
        field("gain_upper", REAL, "upper end of the gain", "percent", nullable=True),
        REASON,
    ],
)
register(
    "block_positions",
    [
        *(ARM, DOMAIN, MODE, TEMPERATURE, GAMMA, SUBSET),
        field("position", pa.int16(), "slot of the block, 1 is the first drafted token"),
        field(
            "kind",
            TEXT,
            "unconditional: accepted there / rounds; conditional: given that all before it were "
            "and that it was offered",
        ),
        *(TRAININGS, PROMPTS),
        field("rounds", COUNT, "rounds that count, over all trainings", "rounds"),
        field("rate", REAL, "acceptance rate, rounds of a training pooled", nullable=True),
        *ends("acceptance rate", alone=False),
        REASON,
    ],
)
register(
    "block_needed",
    [
        *(ARM, AGAINST, DOMAIN, MODE, TRAININGS, PROMPTS),
        field("training_sd", REAL, "spread of the trainings of one arm", "tokens", nullable=True),
        field("prompt_sd", REAL, "spread over prompts of the difference", "tokens", nullable=True),
        field("rest_sd", REAL, "spread of one training on one prompt", "tokens", nullable=True),
        field("smallest", REAL, "difference that would be found in 4 of 5 repeats", "tokens",
              nullable=True),
        field("target", TEXT, "what is to be found: seen (the difference seen) or asked"),
        field("effect", REAL, "that difference", "tokens", nullable=True),
        field("trainings_needed", COUNT, "of each arm, with these prompts", nullable=True),
        field("prompts_needed", COUNT, "with these trainings", "prompts", nullable=True),
        field("factor_needed", COUNT, "times as many of both", nullable=True),
        REASON,
    ],
)  # fmt: skip
register(
    "block_speed",
    [
        *(ARM, DOMAIN, MODE, TEMPERATURE, GAMMA, SUBSET, TRAININGS, PROMPTS),
        field("speedup", REAL, "speed over plain decoding, geometric mean over prompts", "x",
              nullable=True),
        *ends("speedup", "x"),
        field("plain_rate", REAL, "plain decoding beside it, prompt read included", "tokens/s",
              nullable=True),
        field("rate", REAL, "speed of the arm, prompt read included", "tokens/s", nullable=True),
        field("length", REAL, "acceptance length of the timed texts, macro", "tokens",
              nullable=True),
        field("plain_step", REAL, "one token of plain decoding, after the prompt", "s",
              nullable=True),
        field("verify", REAL, "the target's pass of a round, after the prompt", "s", nullable=True),
        field("draft", REAL, "drafting a round's block, after the prompt", "s", nullable=True),
        REASON,
    ],
)  # fmt: skip
register(
    "block_speed_differences",
    [
        *(ARM, AGAINST, DOMAIN, MODE, TEMPERATURE, GAMMA, SUBSET, TRAININGS, PROMPTS),
        field("ratio", REAL, "speed of the arm over that of the other", "x", nullable=True),
        *ends("ratio of speeds", "x"),
        *TESTED,
        P,
        SEPARATED,
        REASON,
    ],
)
register(
    "retrace_probes",
    [
        *(ARM, DOMAIN, MODE, TEMPERATURE, TRAININGS, PROMPTS),
        field("measure", TEXT, "coverage, cosine_true, cosine_random or cosine_gap"),
        field("rank", pa.int32(), "of coverage: the highest rank that counts", nullable=True),
        field("places", COUNT, "drafted places after a first rejection, over all trainings"),
        field("value", REAL, "share of places with a rank up to it; or mean cosine", nullable=True),
        *ends("share or mean cosine", alone=False),
        REASON,
    ],
)
