"""Files of the certificates study: statistics/certificates/*.parquet, one schema a file.

Values are nats unless the unit says otherwise. A value that does not exist is null and `reason`
says why; an infinite certificate is infinite.
"""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import field, register

TEXT, COUNT, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
ALL = "all"
FILES = ("mass", "values", "runs", "drafts", "bins", "relaxed", "equivalence")
QUANTILES = {"p5": 0.05, "p25": 0.25, "median": 0.5}

TARGET = field("target", TEXT, "name in the registry of models")
DOMAIN = field("domain", TEXT, f"name in the registry of domains, or {ALL}: pooled")
PAIR = field("pair", TEXT, "name in the registry of pairs")
DRAFT = field("draft", TEXT, "name of the draft in the registry of models")
CRITERION = field("criterion", TEXT, "acceptance criterion with its parameters")
PROMPTS = field("prompts", COUNT, "prompts that carry the value", "prompts")
POSITIONS = field("positions", COUNT, "generated positions", "tokens")
REASON = field("reason", TEXT, "why a value or an interval is missing", nullable=True)


def interval(name: str, meaning: str, unit: str = "") -> list[pa.Field]:
    """A number that may be missing, and the ends of its interval over prompts."""
    return [
        field(name, REAL, meaning, unit, nullable=True),
        field(f"{name}_lower", REAL, f"lower end: {meaning}", unit, nullable=True),
        field(f"{name}_upper", REAL, f"upper end: {meaning}", unit, nullable=True),
    ]


def summary(what: str, unit: str) -> list[pa.Field]:
    """Mean and quantiles over positions, with intervals over prompts."""
    out = interval("mean", f"mean {what}", unit)
    for name, level in QUANTILES.items():
        out += interval(name, f"{level:.0%} of positions have {what} at most", unit)
    return out


register(
    "certificates_mass",
    [TARGET, DOMAIN, field("k", COUNT, "how many of the most probable tokens", "tokens"),
     PROMPTS, POSITIONS, *summary("probability of the k most probable tokens", ""), REASON],
)  # fmt: skip
register(
    "certificates_values",
    [
        TARGET,
        DOMAIN,
        CRITERION,
        field("kind", TEXT, "kind of criterion"),
        field("lossless", FLAG, "greedy decoding with it emits the target's own text"),
        PROMPTS,
        POSITIONS,
        field("infinite", REAL, "share of positions where no draft can be rejected"),
        *summary("certificate (mean: of the finite ones)", "nats"),
        field("bound", REAL, "mean closed-form lower bound, finite positions", "nats",
              nullable=True),
        REASON,
    ],
)  # fmt: skip
register(
    "certificates_runs",
    [
        TARGET,
        DOMAIN,
        CRITERION,
        field("kl", REAL, "certified is a position that tolerates more than this KL", "nats"),
        PROMPTS,
        POSITIONS,
        field("certified", REAL, "share of positions that are certified"),
        *interval("run", "mean over starts: positions up to the first uncertified one, which "
                  "counts; cut at the end of the text and at the cap", "tokens"),
        *interval("uncut", "positions / uncertified positions: the same, were texts endless and "
                  "positions alike; missing where all are certified", "tokens"),
        REASON,
    ],
)  # fmt: skip
register(
    "certificates_drafts",
    [
        PAIR,
        TARGET,
        DRAFT,
        DOMAIN,
        CRITERION,
        PROMPTS,
        POSITIONS,
        field("kl_median", REAL, "median KL(p || q)", "nats"),
        field("certified_positions", COUNT, "positions with KL below the certificate", "tokens"),
        field("violations", COUNT, "of them rejected: 0, or the run would have failed", "tokens"),
        *interval("certified", "share of positions that are certified"),
        *interval("accepted", "share of positions whose proposal is accepted"),
        *interval("accepted_certified", "of the certified positions"),
        *interval("accepted_uncertified", "of the others: how conservative certificates are"),
        *interval("explained", "of the accepted positions, share that is certified"),
        REASON,
    ],
)
register(
    "certificates_bins",
    [
        PAIR,
        CRITERION,
        field("by", TEXT, "margin (p(x0) - p(x1)), entropy (of p), or ratio (KL / certificate)"),
        field("bin", COUNT, "number of the bin, from 0"),
        field("lower_edge", REAL, "smallest value of the bin"),
        field("upper_edge", REAL, "values of the bin are below it (infinite: no limit)"),
        PROMPTS,
        POSITIONS,
        field("median_value", REAL, "median of what is binned", nullable=True),
        *interval("certified", "share of its positions that are certified"),
        *interval("accepted", "share of its positions whose proposal is accepted"),
        REASON,
    ],
)
register(
    "certificates_relaxed",
    [
        PAIR,
        DOMAIN,
        field("rule", TEXT, "acceptance rule; greedy: the target's own text"),
        field("lossless", FLAG, "the rule emits what the target would"),
        field("source", TEXT, "live: decoded with the rule; replay: along the target's own text"),
        field("draft_length", COUNT, "draft length (gamma)", "tokens"),
        PROMPTS,
        *interval("acceptance_length", "tokens / rounds", "tokens a round"),
        *interval("gain", "acceptance length minus that of greedy, paired by prompt", "tokens"),
        *interval("log_p", "target's log-probability a token, T=1 (live texts)", "nats"),
        *interval("cost", "the same minus that of greedy, prompts paired: below 0 is worse",
                  "nats"),
        *interval("own", "share of emitted tokens that are the target's most probable there"),
        field("same_text", COUNT, "texts equal to those of greedy decoding", "texts",
              nullable=True),
        field("checked", COUNT, "answers that a checker scored", "texts", nullable=True),
        *interval("right", "share of them that are right"),
        REASON,
    ],
)  # fmt: skip
