"""Files of the position study about token types, temperatures, and the model of acceptance."""

from __future__ import annotations

import pyarrow as pa

from draftscope.position.schemas import COUNT, METHOD, REAL, REASON, TEXT, interval
from draftscope.schemas import field, register

PAIR = field("pair", TEXT, "name in the registry of pairs")
CONFIGURATION = [
    field("label", TEXT, "name of the pair in the published tables, such as same or xfam"),
    PAIR,
    field("domain", TEXT, "name in the registry of domains"),
    field("mode", TEXT, "name in the registry of decoding modes"),
    field("decoding", TEXT, "greedy (temperature 0) or sample"),
]
PROMPTS = field("prompts", COUNT, "prompts with an observation", "prompts")
SUBSET = field("subset", TEXT, "all, or loops_removed: without texts that repeat to their budget")
METRIC = field(
    "metric",
    TEXT,
    "def2: q(argmax p); alpha: min(1, q(y)/p(y)); match: the draft's most likely token (of prompt "
    "lookup: its proposal) is the emitted one",
)
POSITIONS = field("positions", COUNT, "generated positions", "tokens")


def real(name: str, meaning: str) -> pa.Field:
    return field(name, REAL, meaning, nullable=True)


register(
    "position_types",
    [
        *CONFIGURATION,
        METRIC,
        SUBSET,
        field(
            "kind",
            TEXT,
            "all: every token; type: tokens of one type; trigger: of one trigger; published: of the "
            "triggers that the published study names",
        ),
        field("name", TEXT, "the type or trigger"),
        field("place", TEXT, "any, or first: tokens that begin their word, number or phrase"),
        PROMPTS,
        POSITIONS,
        real("share", "of all positions of the subset"),
        *interval("", "mean over positions; intervals resample prompts"),
        METHOD,
        REASON,
    ],
)
register(
    "position_mismatches",
    [
        *CONFIGURATION,
        field(
            "level",
            TEXT,
            "of triggers: summary, type (of what the draft said), token (what it said); of all first "
            "tokens: matrix, by the type that was emitted and the type that was said",
        ),
        field("trigger", TEXT, "the trigger that was emitted, or all; level matrix: the type"),
        field("type", TEXT, "level type or token: type of the draft's most likely token, or none"),
        field("said", TEXT, "level token: the draft's most likely token, as text"),
        PROMPTS,
        field(
            "triggers", COUNT, "first tokens of triggers (or of the type), loops removed", "tokens"
        ),
        field("positions", COUNT, "those of them that the row is about", "tokens"),
        *interval("share", "level summary: of triggers, else of the mismatches"),
        real("moved", "mean total variation of p and q at these positions, T=1"),
        real("p", "mean probability of the emitted token by the target, T=1"),
        real("q", "mean probability of the emitted token by the draft, T=1"),
        METHOD,
        REASON,
    ],
)
register(
    "position_survival",
    [
        *CONFIGURATION,
        field("reached", COUNT, "length in tokens", "tokens"),
        field("prompts", COUNT, "prompts with a text of at least that length", "prompts"),
        field("prompts_total", COUNT, "prompts of the configuration, loops removed", "prompts"),
        *interval("whole", "mean acceptance of these texts, all of their positions"),
        *interval("beginning", "mean acceptance of these texts, positions before the first length"),
        METHOD,
        REASON,
    ],
)
register(
    "position_model",
    [
        *CONFIGURATION,
        field("outcome", TEXT, "alpha, or match where the draft has no distribution"),
        field(
            "model",
            TEXT,
            "pooled: one intercept, as a pooled curve has it; position: an intercept of each text; "
            "adjusted: also type, entropy and repetition",
        ),
        field(
            "reached",
            COUNT,
            "only texts of so many tokens, and their first so many; 0: all",
            "tokens",
        ),
        field("term", TEXT, "log2_position, entropy, repeated, or a type against words"),
        PROMPTS,
        POSITIONS,
        *interval("estimate", "change of acceptance by one unit of the term (a doubling, a nat)"),
        real("p", "two-sided p-value of no change"),
        real("margin", "log2_position: changes below it either way count as none"),
        real("equivalence_p", "log2_position: larger p of two one-sided tests against the margin"),
        real("decay_p", "log2_position: one-sided p against a fall of the margin or more"),
        field("verdict", TEXT, "log2_position: what the tests say; else empty"),
        METHOD,
        REASON,
    ],
)
LAW = field("law", TEXT, "decoding mode whose law p and q have")
TEMPERATURE = field("temperature", REAL, "of that law")
GROUP = field(
    "group", TEXT, "all; reflection: triggers; published: triggers of the published study"
)
register(
    "position_temperatures",
    [
        PAIR,
        field("domain", TEXT, "name in the registry of domains"),
        field("mode", TEXT, "decoding mode of the text"),
        LAW,
        TEMPERATURE,
        SUBSET,
        GROUP,
        field(
            "quantity",
            TEXT,
            "mal: emitted tokens a round, expected; def2: q(argmax p); alpha: overlap of p and q",
        ),
        field("draft_length", pa.int16(), "mal: draft length (gamma); 0 elsewhere", "tokens"),
        PROMPTS,
        POSITIONS,
        *interval("", "tokens / rounds for mal, else the mean over positions"),
        METHOD,
        REASON,
    ],
)
register(
    "position_slopes",
    [
        PAIR,
        field("domain", TEXT, "name in the registry of domains"),
        field(
            "mode", TEXT, "decoding mode of the text, whose positions are the same under each law"
        ),
        SUBSET,
        GROUP,
        field("quantity", TEXT, "def2, alpha, or difference: alpha minus def2"),
        PROMPTS,
        POSITIONS,
        field("laws", COUNT, "temperatures above 0 that the line goes through"),
        *interval("slope", "least-squares change by one unit of temperature"),
        METHOD,
        REASON,
    ],
)
