"""Tables I to III: acceptance, accepted length and survival by domain, published and corrected."""

from __future__ import annotations

from draftscope.domains.layout import (
    AS_PUBLISHED,
    CHAIN_NOTE,
    CORRECTED,
    LENGTH,
    SHARE,
    intervals,
    table,
)
from draftscope.domains.lookup import Statistics, number, reasons
from draftscope.domains.schemas import ALL
from draftscope.exhibits.captioned import Table

MIXED = (
    "As published, min(1, p/q) at temperature 1 is averaged over all nodes of the trees, most of "
    "which no walk would reach: it is the chance to accept a token that was drawn from q, which "
    "these tokens, the most probable ones under q, were not."
)


def rates(found: Statistics) -> Table:
    """Table I: acceptance and entropy by domain."""
    rows, left_out = [], []
    for domain in found.domains:
        alpha, chain, level, text, entropy = (
            found.row("rates", domain=domain, measure=measure)
            for measure in (
                "alpha",
                "walk_chain",
                "walk_level",
                "target_entropy_text",
                "target_entropy",
            )
        )
        rows.append(
            {
                "domain": domain,
                "prompts": alpha.get("prompts"),
                "trees": alpha.get("trees"),
                "nodes": alpha.get("nodes"),
                **number(alpha, "value", "alpha"),
                "alpha_spread": alpha.get("spread"),
                **number(entropy, "value", "entropy"),
                "reached": chain.get("nodes"),
                **number(chain, "value", "walk_chain"),
                **number(level, "value", "walk_level"),
                **number(text, "value", "entropy_text"),
                "reason": reasons(
                    alpha=alpha, chain=chain, level=level, entropy=entropy, entropy_of_text=text
                ),
            }
        )
        left_out.append((domain, alpha.get("cut_trees") or 0))
    cut = ", ".join(f"{domain} {count:,}" for domain, count in left_out if domain != ALL)
    return table(
        rows,
        {
            "domain": ("domain", None),
            "prompts": ("prompts", None),
            "trees": ("trees", None),
            "nodes": (f"{AS_PUBLISHED}nodes", None),
            "alpha": (f"{AS_PUBLISHED}mean min(1, p/q)", SHARE),
            "alpha_spread": ("sd over nodes", SHARE),
            "entropy": (f"{AS_PUBLISHED}target entropy, nodes", SHARE),
            "reached": (f"{CORRECTED}reached nodes of the rank-1 chain", None),
            "walk_chain": ("of them accepted", SHARE),
            "walk_level": ("levels reached: accepted", SHARE),
            "entropy_text": ("target entropy, text", SHARE),
        },
        "Table I. Acceptance and target entropy by domain",
        [
            MIXED,
            CHAIN_NOTE + " A level is accepted when any of its nodes is.",
            (
                f"{ALL.capitalize()}: nodes of all domains pooled. Entropy in nats, of the target at "
                "temperature 1: as published over the nodes, most of which hang below drafts that "
                "were rejected; corrected over the positions of the text itself."
            ),
            f"Trees that reach past the end of the budget or the context: {cut or 'none'}.",
            intervals(found.settings),
        ],
    )


def lengths(found: Statistics) -> Table:
    """Table II: expected accepted length."""
    measures = ("product", "chain", "joint", "rounds")
    rows = []
    for domain in found.domains:
        own = {m: found.row("lengths", domain=domain, measure=m) for m in measures}
        row = {"domain": domain, "prompts": own["product"].get("prompts")}
        for measure in measures:
            row |= number(own[measure], "value", measure)
        row |= number(own["rounds"], "tokens_per_round", "emitted")
        rows.append(row | {"reason": reasons(**own)})
    return table(
        rows,
        {
            "domain": ("domain", None),
            "prompts": ("prompts", None),
            "product": (f"{AS_PUBLISHED}E[L], sum of products of means", LENGTH),
            "chain": (f"{CORRECTED}rank-1 chain, every token", LENGTH),
            "joint": (f"{CORRECTED}tree, every token", LENGTH),
            "rounds": (f"{CORRECTED}tree, real rounds", LENGTH),
            "emitted": ("tokens a round with the target's own", LENGTH),
        },
        "Table II. Expected accepted length by domain, in tokens",
        [
            (
                "As published: products of the mean min(1, p/q) of each depth, as if depths were "
                "independent and every node lay on the accepted path. Corrected: tokens that the "
                "real walk accepted, counted; a tree at every generated token, or only where a "
                "round of speculative decoding would really start."
            ),
            (
                "None of them counts the token that the target adds to each round. Drafting pays for "
                "itself by tokens a round, which count it and are above 1 whenever anything is "
                "accepted: E[L] above 1 is no threshold."
            ),
            "Trees that the end of the text cut are left out of the corrected columns.",
            intervals(found.settings),
        ],
    )


def survival(found: Statistics) -> Table:
    """Table III: chances that a chain is accepted down to each depth."""
    measures = ("chain_product", "chain_joint", "path_joint")
    rows = []
    for domain in found.domains:
        for depth in found.depths():
            own = {m: found.row("depths", domain=domain, depth=depth, measure=m) for m in measures}
            row = {"domain": domain, "depth": depth, "prompts": own["chain_joint"].get("prompts")}
            for measure in measures:
                row |= number(own[measure], "value", measure)
            rows.append(row | {"reason": reasons(**own)})
    return table(
        rows,
        {
            "domain": ("domain", None),
            "depth": ("length", None),
            "prompts": ("prompts", None),
            "chain_product": (f"{AS_PUBLISHED}product of means", SHARE),
            "chain_joint": (f"{CORRECTED}rank-1 chain", SHARE),
            "path_joint": (f"{CORRECTED}any path of the tree", SHARE),
        },
        "Table III. Chance that drafts are accepted down to a length, by domain",
        [
            (
                "As published: the product of the mean min(1, p/q) of the depths. Corrected: share "
                "of the trees whose rank-1 chain, or whose accepted path, is at least so long."
            ),
            intervals(found.settings),
        ],
    )
