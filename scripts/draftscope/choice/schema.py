"""One row a candidate: a draft at a draft length, on a domain in a decoding mode."""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import field, register

TEXT, COUNT, REAL = pa.string(), pa.int64(), pa.float64()


def _interval(name: str, what: str, unit: str = "") -> list[pa.Field]:
    return [
        field(name, REAL, what, unit, nullable=True),
        field(f"{name}_lower", REAL, f"lower end: {what}", unit, nullable=True),
        field(f"{name}_upper", REAL, f"upper end: {what}", unit, nullable=True),
    ]


register(
    "choice",
    [
        field("target", TEXT, "name of the target in the registry of models"),
        field("domain", TEXT, "name in the registry of domains"),
        field("mode", TEXT, "name in the registry of decoding modes"),
        field("subset", TEXT, "all, or loops_removed (without loop problems)"),
        field("pair", TEXT, "name in the registry of pairs"),
        field("draft", TEXT, "name of the draft in the registry of models"),
        field("draft_length", pa.int16(), "draft length (gamma)", "tokens"),
        field("prompts", COUNT, "prompts with text, the same for all candidates", "prompts"),
        field("prompts_left_out", COUNT, "prompts with loop problems only, left out", "prompts"),
        field("tokens", COUNT, "generated tokens of those prompts", "tokens"),
        *_interval(
            "acceptance_length", "sum of tokens / sum of expected rounds (micro)", "tokens a round"
        ),
        *_interval(
            "macro_acceptance_length", "mean over prompts of their own ratio", "tokens a round"
        ),
        *_interval("draft_acceptance_rate", "sum of accepted / sum of offered draft tokens"),
        field("cost_ratio", REAL, "c: time of a draft step / time of a target step, as given"),
        field("verify_cost", REAL, "time of a verification pass / time of a target step, as given"),
        *_interval("speedup", "predicted over plain decoding: acceptance length / (v + gamma c)"),
        field("against_plain", TEXT, "faster, slower or not separated, by the interval"),
        field("rank", COUNT, "by predicted speedup in its domain, mode and subset, from 1"),
        *_interval("difference", "predicted speedup of the best candidate minus this one's"),
        field("up", COUNT, "prompts on which the best is faster than this one", "prompts"),
        field("down", COUNT, "prompts on which the best is slower", "prompts"),
        field("ties", COUNT, "prompts without a difference", "prompts"),
        field("p", REAL, "exact two-sided sign test of best against this one", nullable=True),
        field("holm_p", REAL, "adjusted over all comparisons of the subset", nullable=True),
        field(
            "separation",
            TEXT,
            "best (rank 1), or how the best differs: clear, negligible, not separated",
        ),
        field("method", TEXT, "bootstrap interval; prompts are resampled"),
        field("reason", TEXT, "why an interval is missing or degenerate", nullable=True),
    ],
)
