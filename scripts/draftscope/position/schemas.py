"""Files of the position study: one row a configuration, metric and subset (and bin, or half).

A configuration is a target-draft pair on a domain in a decoding mode. Subsets: `all`;
`loops_removed`, without the trajectories that repeat themselves up to the budget; `spans_cut`,
every prompt kept but each trajectory only up to where its repetition starts.
"""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import field, register

METRICS = ("def1", "alpha", "def2")
SUBSETS = ("all", "loops_removed", "spans_cut")

TEXT, COUNT, REAL = pa.string(), pa.int64(), pa.float64()
CONFIGURATION = [
    field("label", TEXT, "name of the pair in the published tables, such as same or xfam"),
    field("pair", TEXT, "name in the registry of pairs"),
    field("domain", TEXT, "name in the registry of domains"),
    field("mode", TEXT, "name in the registry of decoding modes"),
    field("decoding", TEXT, "greedy (temperature 0) or sample"),
    field("draft_length", pa.int16(), "draft length (gamma)", "tokens"),
    field(
        "metric",
        TEXT,
        "def1: accepted / gamma of a round; alpha: min(1, q(y)/p(y)) at every position; "
        "def2: q(argmax p) at every position",
    ),
    field("subset", TEXT, "all, loops_removed or spans_cut"),
]
REASON = field("reason", TEXT, "why a value is missing or degenerate", nullable=True)
METHOD = field("method", TEXT, "bootstrap interval of lower and upper; prompts are resampled")


def interval(prefix: str, what: str) -> list[pa.Field]:
    """A nullable value with the ends of its interval."""
    return [
        field(prefix or "value", REAL, what, nullable=True),
        field(f"{prefix}_lower".strip("_"), REAL, f"lower end: {what}", nullable=True),
        field(f"{prefix}_upper".strip("_"), REAL, f"upper end: {what}", nullable=True),
    ]


def _signs(prefix: str, rounds: str) -> list[pa.Field]:
    return [
        field(f"{prefix}up", COUNT, f"prompts whose second half is higher, {rounds}", "prompts"),
        field(f"{prefix}down", COUNT, f"prompts whose second half is lower, {rounds}", "prompts"),
        field(f"{prefix}ties", COUNT, f"prompts with no difference, {rounds}", "prompts"),
        field(f"{prefix}p", REAL, f"exact two-sided sign test, {rounds}", nullable=True),
    ]


register(
    "position_paired",
    [
        *CONFIGURATION,
        field("prompts", COUNT, "prompts with a value in both halves", "prompts"),
        field("prompts_total", COUNT, "prompts measured, before anything is left out", "prompts"),
        field("left_out_loops", COUNT, "prompts left out as loop problems", "prompts"),
        field("left_out_short", COUNT, "prompts with an empty half", "prompts"),
        *interval("difference", "mean over prompts of second minus first half, full rounds"),
        METHOD,
        field("percentile_lower", REAL, "lower end of the percentile interval", nullable=True),
        field("percentile_upper", REAL, "upper end of the percentile interval", nullable=True),
        *_signs("", "full rounds"),
        field("holm_p", REAL, "p adjusted by Holm over the family of the table", nullable=True),
        field("family", COUNT, "tests in that family", "tests"),
        *interval("published", "the difference as published: cut rounds counted as rounds"),
        *_signs("published_", "cut rounds counted"),
        field("full_rounds", COUNT, "rounds not cut by the end of the text; 0 for alpha"),
        field("cut_rounds", COUNT, "rounds that the end of the text cut or could cut, left out"),
        field("positions", COUNT, "generated positions used; 0 for def1", "tokens"),
        REASON,
    ],
)
register(
    "position_pooled",
    [
        *CONFIGURATION,
        field("prompts", COUNT, "prompts with at least one observation", "prompts"),
        field("observations", COUNT, "full rounds (def1) or positions (alpha, def2) pooled"),
        field("split", REAL, "median start over prompts of the pool", "tokens", nullable=True),
        field("first", REAL, "pooled mean before the split", nullable=True),
        field("second", REAL, "pooled mean from the split on", nullable=True),
        *interval("difference", "second minus first, full rounds, split held fixed"),
        METHOD,
        field("published", REAL, "the difference as published: cut rounds counted", nullable=True),
        field("cut_rounds", COUNT, "rounds that the end of the text cut or could cut, left out"),
        REASON,
    ],
)
register(
    "position_curves",
    [
        *CONFIGURATION,
        field("start", COUNT, "first position of the bin", "tokens"),
        field("stop", COUNT, "one past its last position", "tokens"),
        field("prompts", COUNT, "prompts with an observation in the bin", "prompts"),
        field("alive", COUNT, "prompts with a text that reaches the bin", "prompts"),
        field("observations", COUNT, "full rounds (def1) or positions in the bin"),
        *interval("mean", "mean of all observations that start in the bin"),
        METHOD,
        field("supported", pa.bool_(), "at least `support_prompts` prompts in the bin"),
        REASON,
    ],
)
register(
    "position_quintiles",
    [
        *CONFIGURATION,
        field("quintile", pa.int16(), "floor(5 i / n) of position i in n generated tokens"),
        field("prompts", COUNT, "prompts with a value in all five", "prompts"),
        field("left_out_short", COUNT, "prompts with an empty quintile", "prompts"),
        *interval("mean", "mean over prompts"),
        *interval("change", "mean over prompts of the change from the first quintile"),
        METHOD,
        REASON,
    ],
)
register(
    "position_halves",
    [
        *CONFIGURATION,
        field("half", TEXT, "first or second"),
        field("prompts", COUNT, "prompts with a value in both halves", "prompts"),
        *interval("mean", "mean over prompts of the half's mean"),
        METHOD,
        REASON,
    ],
)
