"""The schemas of the files that every study shares, and the data dictionary made from them."""

from __future__ import annotations

import pyarrow as pa

FLOATS, INTEGERS, FLAGS = pa.list_(pa.float32()), pa.list_(pa.int32()), pa.list_(pa.bool_())
SCHEMAS: dict[str, pa.Schema] = {}


def field(
    name: str, type: pa.DataType, description: str, unit: str = "", nullable: bool = False
) -> pa.Field:
    """One column with its meaning; columns are not nullable unless said."""
    return pa.field(name, type, nullable, {"description": description, "unit": unit})


def register(name: str, fields: list[pa.Field]) -> pa.Schema:
    """Make a schema known under `name`; a study registers its own when its package is imported."""
    schema = pa.schema(fields)
    if name in SCHEMAS and not SCHEMAS[name].equals(schema, check_metadata=True):
        raise ValueError(f"schema {name} is registered twice with different fields")
    SCHEMAS[name] = schema
    return schema


def data_dictionary(names: list[str] | None = None) -> list[dict[str, str]]:
    """Every column of the named (or all known) schemas: file, column, type, unit, meaning."""
    return [
        {
            "file": name,
            "column": column.name,
            "type": f"{column.type}{' or null' if column.nullable else ''}",
            "unit": column.metadata[b"unit"].decode(),
            "meaning": column.metadata[b"description"].decode(),
        }
        for name in (names or sorted(SCHEMAS))
        for column in SCHEMAS[name]
    ]


PROMPT = field("prompt_id", pa.string(), "identity of the prompt, unique within its domain")
KEYS = [PROMPT, field("sample", pa.int32(), "which of several trajectories of the prompt")]

register(
    "prompts",
    [
        PROMPT,
        field("domain", pa.string(), "name in the registry of domains"),
        field("source_row", pa.string(), "where the prompt stands in its source"),
        field("messages_json", pa.string(), "the chat as JSON: a list of role and content"),
        field("text", pa.string(), "the prompt without a template"),
        field("answer", pa.string(), "reference answer, where the source has one", nullable=True),
        field("checker", pa.string(), "name of the scorer of answers", nullable=True),
        field("language", pa.string(), "language of the prompt, as a BCP 47 tag"),
        field("split", pa.string(), "evaluation or training"),
    ],
)
register(
    "trajectories",
    [
        *KEYS,
        field("status", pa.string(), "ok, or skipped"),
        field("reason", pa.string(), "why the prompt was skipped", nullable=True),
        field("prompt_token_ids", INTEGERS, "rendered prompt", "token ids"),
        field("token_ids", INTEGERS, "generated tokens with the end-of-text token", "token ids"),
        field("budget", pa.int32(), "most tokens that could be generated", "tokens"),
        field("stop_reason", pa.string(), "eos, budget or context", nullable=True),
        field("stop_token_id", pa.int32(), "the end-of-text token that stopped it", nullable=True),
        field("rendered_sha256", pa.string(), "hash of the rendered prompt text"),
        field("text", pa.string(), "one decode of all generated tokens"),
    ],
)
register(
    "scores",
    [
        *KEYS,
        field("draft", pa.string(), "name of the draft in the registry of models"),
        field("law", pa.string(), "decoding (the mode's), unwarped (T=1), or a further law"),
        field("token_ids", INTEGERS, "generated tokens, one a position", "token ids"),
        field("log_p", FLOATS, "target's log-probability of the emitted token", "nats"),
        field("log_q", FLOATS, "draft's log-probability of the emitted token", "nats"),
        field("overlap", FLOATS, "sum over tokens of min(p, q) = 1 - total variation"),
        field("target_entropy", FLOATS, "entropy of p", "nats"),
        field("draft_entropy", FLOATS, "entropy of q", "nats"),
        field("kl", FLOATS, "KL(p, q) over the tokens the draft can emit", "nats"),
        field("log_q_target_argmax", FLOATS, "draft's log-probability of argmax p", "nats"),
        field("top2_gap", FLOATS, "target's best minus second logit, T=1", "nats"),
        field("target_argmax", INTEGERS, "argmax p, ties to the lowest id", "token ids"),
        field("draft_argmax", INTEGERS, "argmax q, ties to the lowest id", "token ids"),
        field("draft_rank", INTEGERS, "rank of argmax p under q, 0 is best, ties against it"),
        field("target_disagreement", FLAGS, "the decoding law as scored excludes the token"),
        field("uncommon_mass", FLOATS, "target's probability of ids the draft cannot emit"),
    ],
)
register(
    "loops",
    [
        *KEYS,
        field("tokens", pa.int32(), "generated tokens", "tokens"),
        field("looped", pa.bool_(), "the text ends in a repetition"),
        field("onset", pa.int32(), "first position of the repetition", "tokens", nullable=True),
        field("period", pa.int32(), "length of what repeats", "tokens", nullable=True),
        field("repeats", pa.float64(), "tokens from the onset / period", nullable=True),
        field("kind", pa.string(), "text, digits or formatting", nullable=True),
        field("loop_problem", pa.bool_(), "looped and stopped by the budget"),
    ],
)
register(
    "rounds",
    [
        *KEYS,
        field("draft_length", pa.int16(), "draft length (gamma) of the loop", "tokens"),
        field("source", pa.string(), "replay or live"),
        field("rule", pa.string(), "acceptance rule, such as greedy or speculative_sampling"),
        field("lossless", pa.bool_(), "the rule leaves the target's distribution unchanged"),
        field("round", pa.int32(), "number of the round, from 0"),
        field("start", pa.int32(), "generated position of the round's first token", "tokens"),
        field("offered", pa.int16(), "draft tokens that could be accepted", "tokens"),
        field("accepted", pa.int16(), "draft tokens accepted", "tokens"),
        field("emitted", pa.int16(), "tokens emitted, with bonus or correction", "tokens"),
        field("end", pa.string(), "continue, eos or budget"),
    ],
)
register(
    "expected",
    [
        *KEYS,
        field("draft_length", pa.int16(), "draft length (gamma)", "tokens"),
        field("tokens", pa.int32(), "tokens emitted", "tokens"),
        field("expected_rounds", pa.float64(), "expected number of rounds", "rounds"),
        field("expected_accepted", pa.float64(), "expected accepted draft tokens", "tokens"),
        field("expected_offered", pa.float64(), "expected offered draft tokens", "tokens"),
        field("acceptance_length", pa.float64(), "tokens / expected rounds", "tokens a round"),
        field("accept_prob_mean", pa.float64(), "mean of min(1, q(y)/p(y)) over positions"),
    ],
)
