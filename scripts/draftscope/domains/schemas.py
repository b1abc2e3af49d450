"""Files of the domains study: statistics/domains/*.parquet, one schema a file.

Rows are long: a domain (or `ALL`, the domains pooled), a measure, and a value with its interval.
What each name means, and whether it follows the published protocol or the corrected one, stands
in `names`. A value that does not exist is null and `reason` says why.
"""

from __future__ import annotations

import pyarrow as pa

from draftscope.domains.names import (
    ALL,
    COMPARISONS,
    CORRECTED,
    CORRELATIONS,
    FACTORS,
    LENGTHS,
    MEASURES,
    MODELLED_OUTCOMES,
    OUTCOMES,
    PUBLISHED,
    RATES,
    SURVIVALS,
)
from draftscope.schemas import field, register

TEXT, COUNT, REAL, SHORT = pa.string(), pa.int64(), pa.float64(), pa.int16()
DOMAIN = field("domain", TEXT, f"name in the registry of domains, or {ALL}: the domains pooled")
PROTOCOL = field("protocol", TEXT, f"{PUBLISHED} or {CORRECTED}")
PROMPTS = field("prompts", COUNT, "prompts that carry the value", "prompts")
METHOD = field("method", TEXT, "interval method, prompts resampled; none without an interval")
REASON = field("reason", TEXT, "why a value is missing or degenerate", nullable=True)


def described(name: str, meanings: dict[str, str]) -> pa.Field:
    """A text column whose values have meanings."""
    return field(name, TEXT, "; ".join(f"{value}: {text}" for value, text in meanings.items()))


OUTCOME = described("outcome", OUTCOMES)
MODELLED = described("outcome", MODELLED_OUTCOMES)


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


def measure(names: dict[str, tuple[str, str]]) -> pa.Field:
    return described("measure", {name: meaning for name, (_, meaning) in names.items()})


TEST = [
    real("p", "two-sided p-value, the prompt as the unit (nodes where the measure is pooled)"),
    real("holm_p", "p adjusted by Holm over the domains of the measure"),
    field("family", COUNT, "tests in that adjustment", "tests"),
]

register(
    "domains_rates",
    [
        DOMAIN,
        measure(RATES),
        PROTOCOL,
        PROMPTS,
        field("trees", COUNT, "trees that hold the nodes", "trees"),
        field("cut_trees", COUNT, "of those, trees that the end of the text or context cut"),
        field("nodes", COUNT, "nodes (levels, positions) that the mean is over", "nodes"),
        *interval("value", "the mean; intervals for both protocols, by prompt"),
        real("spread", "standard deviation over nodes"),
        METHOD,
        REASON,
    ],
)
register(
    "domains_lengths",
    [
        DOMAIN,
        measure(LENGTHS),
        PROTOCOL,
        PROMPTS,
        field("trees", COUNT, "trees (or rounds) that the mean is over", "trees"),
        field("left_out", COUNT, "trees (or rounds) left out because they were cut", "trees"),
        *interval("value", "accepted tokens, without the bonus or correction token", "tokens"),
        *interval("tokens_per_round", "value + 1, or emitted / rounds for rounds_all", "tokens"),
        METHOD,
        REASON,
    ],
)
register(
    "domains_depths",
    [
        DOMAIN,
        field("depth", SHORT, "depth of the nodes, from 1"),
        measure(MEASURES | SURVIVALS),
        PROTOCOL,
        PROMPTS,
        field("nodes", COUNT, "nodes (levels, trees) that the rate is over", "nodes"),
        *interval("value", "the mean or rate"),
        real("spread", "standard deviation over nodes"),
        METHOD,
        REASON,
    ],
)
register(
    "domains_changes",
    [
        DOMAIN,
        measure(MEASURES),
        PROTOCOL,
        field("first_depth", SHORT, "depth that is compared with (1)"),
        field("depth", SHORT, "depth that is compared"),
        PROMPTS,
        field("left_out", COUNT, "prompts without a node at one of the depths", "prompts"),
        described("comparison", COMPARISONS),
        field("nodes", COUNT, "nodes at the compared depth", "nodes"),
        *interval("pooled", "difference of the plain means, as published"),
        *interval("difference", "mean difference, as `comparison` says"),
        field("up", COUNT, "prompts with a higher rate at the second depth", "prompts"),
        field("down", COUNT, "prompts with a lower one", "prompts"),
        field("ties", COUNT, "prompts with no difference", "prompts"),
        *TEST,
        METHOD,
        REASON,
    ],
)
register(
    "domains_positions",
    [
        DOMAIN,
        field("depth", SHORT, "depth of the nodes; 0: all depths"),
        measure(MEASURES),
        PROTOCOL,
        field("edge", COUNT, "trees at generated positions below it are early", "tokens"),
        field("early_nodes", COUNT, "nodes of early trees", "nodes"),
        field("late_nodes", COUNT, "nodes of late trees", "nodes"),
        *interval("early", "plain mean over the early nodes"),
        *interval("late", "plain mean over the late nodes"),
        real("early_spread", "standard deviation over the early nodes"),
        real("late_spread", "standard deviation over the late nodes"),
        *interval("pooled", "late minus early, plain means, as published"),
        PROMPTS,
        field("left_out", COUNT, "prompts without early or without late nodes", "prompts"),
        *interval("difference", "late minus early rate over the prompts that have both"),
        *TEST,
        METHOD,
        REASON,
    ],
)
register(
    "domains_correlations",
    [
        DOMAIN,
        measure(CORRELATIONS),
        PROTOCOL,
        OUTCOME,
        field("entropy", TEXT, "target or draft: whose entropy at the node"),
        PROMPTS,
        field("undefined", COUNT, "prompts whose rho is undefined (constant), in no mean"),
        field("nodes", COUNT, "nodes", "nodes"),
        *interval("rho", "Spearman's rank correlation of entropy and outcome"),
        *TEST,
        METHOD,
        REASON,
    ],
)
register(
    "domains_curves",
    [
        DOMAIN,
        OUTCOME,
        field("bin", SHORT, "bin of target entropy, from 0; the edges are those of all domains"),
        field("lower_edge", REAL, "smallest entropy of the bin", "nats"),
        field("upper_edge", REAL, "largest entropy of the bin", "nats"),
        real("entropy", "mean entropy of the domain's nodes in the bin", "nats"),
        PROMPTS,
        field("nodes", COUNT, "nodes", "nodes"),
        *interval("value", "mean outcome of the nodes in the bin"),
        METHOD,
        REASON,
    ],
)
register(
    "domains_contrasts",
    [
        field("first", TEXT, "a domain"),
        field("second", TEXT, "the domain that is subtracted"),
        measure(MEASURES | {"joint": LENGTHS["joint"]}),
        PROTOCOL,
        field("first_prompts", COUNT, "prompts of the first domain", "prompts"),
        field("second_prompts", COUNT, "prompts of the second domain", "prompts"),
        *interval("difference", "first minus second"),
        real("effect", "difference / standard deviation of the prompts' own rates (Hedges' g)"),
        *TEST,
        METHOD,
        REASON,
    ],
)
register(
    "domains_paradox",
    [
        field("highest", TEXT, "the domain of highest mean target entropy"),
        field("other", TEXT, f"the domain it is compared with, or {ALL}: the others pooled"),
        OUTCOME,
        *interval("entropy_difference", "mean target entropy, highest minus other", "nats"),
        *interval("difference", "mean outcome, highest minus other"),
        *interval("composition", "part due to how entropy is spread: what equal curves leave"),
        *interval("at_equal_entropy", "part of the difference at equal entropy"),
        field("bins", COUNT, "bins of entropy that both have nodes in", "bins"),
        real("outside", "share of the nodes in bins that only one of them has"),
        *TEST,
        METHOD,
        REASON,
    ],
)
register(
    "domains_models",
    [
        MODELLED,
        described("factor", FACTORS | {"full": "all of them"}),
        field("parameters", COUNT, "coefficients of the factor"),
        PROMPTS,
        field("nodes", COUNT, "nodes", "nodes"),
        real("alone", "share of the deviance that the factor explains by itself"),
        *interval(
            "dropped",
            "share of the deviance lost when the full model does without it, less what chance "
            "gives (jackknife over prompts); below 0: no more than chance",
        ),
        real("by_chance", "mean of that share over domains dealt to prompts at random (domain "
             "only): what chance gives"),
        real("wald", "chi-square of the factor's coefficients in the full model, by prompt"),
        real("p", "of wald"),
        real("permutation_p", "domains dealt to prompts at random, factor alone (domain only)"),
        real("permutation_p_adjusted", "the same after the other factors (domain only)"),
        real("largest_effect", "largest difference of the factor's levels, other factors equal"),
        field("separated", COUNT, "coefficients that are unbounded (perfect separation)"),
        METHOD,
        REASON,
    ],
)  # fmt: skip
register(
    "domains_comparisons",
    [
        MODELLED,
        field("first", TEXT, "factor"),
        field("second", TEXT, "factor that is subtracted"),
        *interval("difference", "dropped (see domains_models), first minus second"),
        real("p", "two-sided, by prompt"),
        METHOD,
        REASON,
    ],
)
register(
    "domains_coefficients",
    [
        MODELLED,
        field("factor", TEXT, "factor of the full model"),
        field("level", TEXT, "level of the factor"),
        field("reference", TEXT, "level that it is compared with"),
        *interval("log_odds", "coefficient of the full model, errors clustered by prompt"),
        real("p", "of the coefficient, by prompt"),
        real("holm_p", "p adjusted by Holm over the levels of the factor"),
        *interval("effect", "difference of mean chances, the other factors as they are"),
        field("direction", SHORT, "sign of an unbounded coefficient; 0: both", nullable=True),
        REASON,
    ],
)
register(
    "domains_path_rates",
    [
        DOMAIN,
        field("depth", SHORT, "depth of the nodes, from 1"),
        field("rank", SHORT, "rank among siblings, from 1"),
        PROMPTS,
        field("reached", COUNT, "nodes whose parent the walk accepted", "nodes"),
        field("accepted", COUNT, "of those, accepted by the walk", "nodes"),
        *interval("rate", "accepted / reached"),
        real("used", "the rate that the budgets use; null: the rank counts as never accepted"),
        field("source", TEXT, "measured, deeper (the rate of the next depth above) or none"),
        METHOD,
        REASON,
    ],
)
register(
    "domains_budgets",
    [
        DOMAIN,
        field("kind", TEXT, "chain (rank 1 only) or tree"),
        field("rule", TEXT, "nodes: most tokens a round for this many nodes; cost: most speed"),
        real("cost_ratio", "draft step / target pass that the speed is computed for"),
        field("budget", COUNT, "most nodes (tree) or tokens (chain) that were allowed", "nodes"),
        field("nodes", COUNT, "nodes of the best shape; 0: plain decoding is best", "nodes"),
        field("depth", SHORT, "depth of the best shape"),
        field("paths", TEXT, "its nodes as JSON: a list of rank paths, parents before children"),
        PROMPTS,
        *interval("tokens_per_round", "1 + sum over nodes of the product of rates", "tokens"),
        *interval("speedup", "tokens_per_round / (1 + depth * cost_ratio)"),
        real("in_log", "mean accepted + 1 of the same shape in the log's own trees", "tokens"),
        field("extrapolated", pa.bool_(), "uses a rate that was not measured at that depth"),
        METHOD,
        REASON,
    ],
)
register(
    "domains_claims",
    [
        field("claim", TEXT, "what the published analysis concludes"),
        field("domain", TEXT, f"the domain it is about, or {ALL}"),
        field("published", pa.bool_(), "holds by the published analysis", nullable=True),
        field("corrected", pa.bool_(), "holds by the corrected analysis", nullable=True),
        real("published_value", "the number behind the first"),
        *interval("corrected_value", "the number behind the second"),
        field("agree", pa.bool_(), "both give the same answer", nullable=True),
        field("statement", TEXT, "the comparison in words"),
        REASON,
    ],
)
