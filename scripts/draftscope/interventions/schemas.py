"""Files of the interventions: lengths and their differences, diagnostics, answers, greedy match."""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import KEYS, field, register

TEXT, COUNT, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
SUBSETS = ("all", "loops_removed")
ESTIMATORS = ("rounds", "expected")

ARM = field("arm", TEXT, "base, or the label of an arm")
PAIR = field("pair", TEXT, "name in the registry of pairs")
DOMAIN = field("domain", TEXT, "name in the registry of domains")
MODE = field("mode", TEXT, "name in the registry of decoding modes")
DECODING = field("decoding", TEXT, "greedy (temperature 0) or sample")
GAMMA = field("draft_length", pa.int16(), "draft length (gamma)", "tokens")
SUBSET = field("subset", TEXT, "all prompts, or loops_removed: without loop problems")
REASON = field("reason", TEXT, "why a value is missing or degenerate", nullable=True)
METHOD = field("method", TEXT, "bootstrap interval of lower and upper; prompts are resampled")
PROMPTS = field("prompts", COUNT, "prompts with a value", "prompts")
LOST = field("left_out_loops", COUNT, "prompts left out as loop problems", "prompts")
ESTIMATOR = field(
    "estimator",
    TEXT,
    "of a prompt's acceptance length: rounds (emitted / rounds of one replay) or expected "
    "(tokens / expected rounds, without the noise of the replay)",
)


def interval(name: str, what: str, unit: str = "") -> list[pa.Field]:
    """A nullable value with the ends of its interval."""
    return [
        field(name, REAL, what, unit, nullable=True),
        field(f"{name}_lower", REAL, f"lower end: {what}", unit, nullable=True),
        field(f"{name}_upper", REAL, f"upper end: {what}", unit, nullable=True),
    ]


SIGNS = [
    field("up", COUNT, "prompts with a positive difference", "prompts"),
    field("down", COUNT, "prompts with a negative difference", "prompts"),
    field("ties", COUNT, "prompts without a difference", "prompts"),
    field("sign_p", REAL, "exact two-sided sign test"),
]

register(
    "intervention_lengths",
    [
        *(ARM, PAIR, DOMAIN, MODE, DECODING, GAMMA, SUBSET, ESTIMATOR, PROMPTS, LOST),
        *interval("mean", "mean over prompts of the acceptance length, bonus token included"),
        field("standard_error", REAL, "of that mean, over prompts", "tokens", nullable=True),
        METHOD,
        REASON,
    ],
)
register(
    "intervention_differences",
    [
        *(ARM, PAIR, field("against", TEXT, "the arm it is compared with"), DOMAIN, MODE, DECODING),
        *(GAMMA, SUBSET, ESTIMATOR, PROMPTS),
        *interval("difference", "mean over prompts of the difference, bootstrap", "tokens"),
        field("standard_error", REAL, "of the mean difference", "tokens", nullable=True),
        field("t_lower", REAL, "lower end of the paired t interval", "tokens", nullable=True),
        field("t_upper", REAL, "upper end of the paired t interval", "tokens", nullable=True),
        field("t_p", REAL, "two-sided paired t test", nullable=True),
        field("holm_p", REAL, "t_p by Holm over arms and modes", nullable=True),
        *SIGNS,
        METHOD,
        REASON,
    ],
)
register(
    "intervention_diagnostics",
    [
        *(ARM, PAIR, DOMAIN, MODE, DECODING),
        field("factor", TEXT, "what positions are told apart by: tokens or entropy"),
        field("level", TEXT, "reflection or other tokens; or a bin of H(p), from the lowest"),
        field("place", pa.int16(), "place of the level within its factor, from 0"),
        field("low", REAL, "lowest entropy of the bin", "nats", nullable=True),
        field("high", REAL, "highest entropy of the bin", "nats", nullable=True),
        PROMPTS,
        field("positions", COUNT, "generated positions", "tokens"),
        *interval("mean", "mean of min(1, q(y)/p(y)) over positions"),
        *interval("difference", "the same minus that of the control, at the same positions"),
        METHOD,
        REASON,
    ],
)
register(
    "intervention_answers",
    [
        *KEYS,
        field("arm", TEXT, "target (plain decoding), base, or the label of an arm"),
        DOMAIN,
        MODE,
        field("checker", TEXT, "what judged the answer"),
        field("expected", TEXT, "the reference answer", nullable=True),
        field("given", TEXT, "the answer that was found in the text", nullable=True),
        field("correct", FLAG, "the answer is right; a text without one is wrong"),
        field("tokens_sha256", TEXT, "hash of the generated token ids"),
    ],
)
register(
    "intervention_accuracy",
    [
        field("arm", TEXT, "target (plain decoding), base, or the label of an arm"),
        *(DOMAIN, MODE, DECODING, PROMPTS),
        field("correct", COUNT, "prompts answered right", "prompts"),
        *interval("accuracy", "share answered right, Wilson interval"),
        field("against", TEXT, "the arm it is compared with", nullable=True),
        field("only_own", COUNT, "prompts that this arm alone answered right", nullable=True),
        field("only_other", COUNT, "prompts that the other alone answered right", nullable=True),
        field("chi2", REAL, "McNemar's statistic; 0 without discordant prompts", nullable=True),
        field("p", REAL, "exact McNemar test", nullable=True),
        field("same_text", COUNT, "prompts with the other's very tokens", nullable=True),
        REASON,
    ],
)
register(
    "distillation_match",
    [
        *(DOMAIN, MODE, SUBSET, PROMPTS, LOST),
        field("positions", COUNT, "generated positions", "tokens"),
        *interval("untrained", "mean over prompts of the greedy match before training"),
        *interval("distilled", "the same after it"),
        *interval("difference", "distilled minus untrained, prompt by prompt"),
        *SIGNS,
        field("margin", REAL, "gain that was asked for"),
        field("reached", FLAG, "gain of at least the margin, its interval above 0", nullable=True),
        METHOD,
        REASON,
    ],
)
