"""Schemas of the statistics of the lossless study; with them, those of what it decodes live."""

from __future__ import annotations

import pyarrow as pa

from draftscope.lossless.live_schemas import LENGTH, REAL, SHORT, TEXT
from draftscope.schemas import field, register

COUNT = pa.int64()
REASON = field("reason", TEXT, "why a value is missing", nullable=True)
CONFIGURATION = [
    field("pair", TEXT, "name in the registry of pairs"),
    field("domain", TEXT, "name in the registry of domains"),
    field("mode", TEXT, "name in the registry of decoding modes"),
    LENGTH,
]


def real(name: str, meaning: str, unit: str = "") -> pa.Field:
    """A number that may be missing, with its reason in the row."""
    return field(name, REAL, meaning, unit, nullable=True)


def interval(name: str, meaning: str, unit: str = "") -> list[pa.Field]:
    """A number that may be missing, and the ends of its interval over prompts."""
    return [
        real(name, meaning, unit),
        real(f"{name}_lower", f"lower end: {meaning}", unit),
        real(f"{name}_upper", f"upper end: {meaning}", unit),
    ]


register(
    "lossless_speed",
    [
        *CONFIGURATION,
        field("published", TEXT, "published configuration it stands beside", nullable=True),
        field("prompts", COUNT, "prompts that were decoded", "prompts"),
        field("repeats", COUNT, "timed passes over each text, of which the median counts"),
        field("tokens", COUNT, "emitted tokens", "tokens"),
        field("rounds", COUNT, "rounds", "rounds"),
        *interval("tokens_per_second", "all tokens / all time, reading of the prompt included"),
        real("tokens_per_second_sd", "standard deviation of the prompts' own rates"),
        *interval("speedup", "mean seconds a token of plain decoding / of this, over prompts"),
        real("speedup_of_rates", "ratio of the means of the prompts' tokens a second"),
        *interval("acceptance", "accepted / offered drafts, pooled"),
        *interval("acceptance_length", "emitted tokens a round", "tokens"),
        real("offered", "mean drafts offered in a round", "tokens"),
        real("first_token", "reading the prompt and the first round, mean over prompts", "s"),
        real("draft_step", "time of one draft step, after the first round", "s"),
        real("verify_pass", "time of one pass of the target, after the first round", "s"),
        real("baseline_step", "time of one pass of plain decoding, after the first round", "s"),
        real("cost_ratio", "c: draft step / pass of plain decoding"),
        real("verify_ratio", "v: verify pass / pass of plain decoding"),
        real("yield_positions", "1 + sum of position rates: tokens a full round", "tokens"),
        real("yield_iid", "(1 - a^(K+1)) / (1 - a) at the pooled acceptance a", "tokens"),
        real("predicted", "acceptance length / (offered c + 1)"),
        real("predicted_iid", "yield_iid / (K c + 1)"),
        real("predicted_with_verify", "acceptance length / (offered c + v)"),
        real("peak_memory", "high-water mark of the process that decoded", "GB"),
        field("method", TEXT, "interval method; prompts are resampled"),
        REASON,
    ],
)
register(
    "lossless_positions",
    [
        *CONFIGURATION,
        field("position", SHORT, "draft position, from 1"),
        *interval("position_rate", "accepted at the position / rounds"),
        *interval("conditional_rate", "accepted / rounds that reached and offered it"),
        field("rounds", COUNT, "rounds", "rounds"),
        field("reached", COUNT, "rounds that reached and offered the position", "rounds"),
        REASON,
    ],
)
register(
    "lossless_phases",
    [
        *CONFIGURATION,
        field("phase", TEXT, "draft, verify, sample, other; or total, prompt reading included"),
        field("per_token", REAL, "time a token; all but total after the first round", "s"),
        field("share", REAL, "of the four phases, after the first round", nullable=True),
        field("tokens", COUNT, "tokens emitted in that time", "tokens"),
        REASON,
    ],
)
register(
    "lossless_latency",
    [
        field("target", TEXT, "name in the registry of models"),
        field("tokens", SHORT, "tokens of the pass", "tokens"),
        field("context", pa.int32(), "tokens that the cache held before it", "tokens"),
        field("repeats", COUNT, "timed passes"),
        field("median", REAL, "median time of a pass", "s"),
        field("lower", REAL, "first quartile", "s"),
        field("upper", REAL, "third quartile", "s"),
        field("ratio", REAL, "median / median of the shortest pass"),
        field("shortest", SHORT, "tokens of the shortest pass", "tokens"),
    ],
)
register(
    "lossless_batch",
    [
        *CONFIGURATION[:3],
        field("engine", TEXT, "what decoded: the loop over one text, or over a batch"),
        field("batch_size", SHORT, "texts decoded together", "texts"),
        LENGTH,
        field("prompts", COUNT, "prompts that were decoded", "prompts"),
        field("batches", COUNT, "batches, the units of the intervals"),
        field("repeats", COUNT, "timed passes over each batch, of which the median counts"),
        field("tokens", COUNT, "emitted tokens of speculation", "tokens"),
        *interval("plain_tokens_per_second", "all tokens / all time of plain decoding"),
        *interval("tokens_per_second", "all tokens / all time of speculation"),
        *interval("speedup", "mean seconds a token of plain decoding / of this, over batches"),
        field("acceptance_length", REAL, "emitted tokens a round of a text", "tokens"),
        real("plain_pass", "pass of plain decoding, after the first", "s"),
        real("verify_pass", "pass over the blocks, after the first", "s"),
        real("verify_ratio", "v: verify_pass / plain_pass"),
        field("identical", COUNT, "texts with the tokens and rounds that they have alone", "texts"),
        field("texts", COUNT, "texts, plain and speculative", "texts"),
        field("method", TEXT, "interval method of the speedup; batches are resampled"),
        REASON,
    ],
)
register(
    "lossless_replay",
    [
        *CONFIGURATION,
        field("prompts", COUNT, "prompts compared", "prompts"),
        field("texts", COUNT, "live texts that were replayed", "texts"),
        field("left_out", COUNT, "texts with a position that scoring finds excluded", "texts"),
        field("replays", COUNT, "replays of each text; 1 where nothing is left to chance"),
        real("live", "acceptance length of the live loop, mean over prompts", "tokens"),
        real("replayed", "acceptance length of the replays, mean over prompts", "tokens"),
        *interval("difference", "live minus replay, 90% interval", "tokens"),
        field("margin", REAL, "largest difference that counts as equal", "tokens"),
        real("p", "two one-sided tests: the difference is not within the margin"),
        field("prompts_needed", COUNT, "prompts that would show equality, power .8, no difference",
              "prompts", nullable=True),
        field("same_rounds", COUNT, "texts whose rounds agree one for one", "texts", nullable=True),
        real("length_p", "Monte Carlo test of the counts of rounds by accepted tokens"),
        field("live_counts", pa.list_(COUNT), "live rounds by accepted tokens, 0 to K", "rounds"),
        field("replayed_counts", pa.list_(REAL), "the same, mean of the replays", "rounds"),
        REASON,
    ],
)  # fmt: skip
register(
    "lossless_greedy",
    [
        *CONFIGURATION,
        field("dtype", TEXT, "data type of the target"),
        field("prompt_id", TEXT, "identity of the prompt"),
        field("tokens", COUNT, "tokens of plain decoding", "tokens"),
        field("identical", pa.bool_(), "the same ids as plain decoding through the same loop"),
        field("flip", COUNT, "first position that differs", "tokens", nullable=True),
        real("gap", "target's best minus second logit there, in plain decoding", "nats"),
        REASON,
    ],
)
register(
    "lossless_equivalence",
    [
        field("level", SHORT, "1 the rule alone, 2 the decoder on matrices, 3 a real pair"),
        field("subject", TEXT, "family, decoder or pair under test"),
        field("rule", TEXT, "acceptance rule"),
        field("test", TEXT, "what was compared, and how"),
        field("correct", pa.bool_(), "a correct decoder, which has to pass; else a control"),
        field("texts", COUNT, "texts or trials of each method", nullable=True),
        field("tokens", COUNT, "tokens of each method", "tokens", nullable=True),
        real("statistic", "of the test"),
        field("freedom", COUNT, "degrees of freedom", nullable=True),
        real("p", "p-value"),
        field("level_of_test", REAL, "p-values below it reject"),
        field("rejected", pa.bool_(), "the test says: not the target's law"),
        real("detectable", "total variation found with power 0.9"),
        real("total_variation", "estimated, or exact where the law is known"),
        REASON,
    ],
)
