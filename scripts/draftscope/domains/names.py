"""Names in the files of the domains study, and what they mean."""

from __future__ import annotations

ALL = "all"
PUBLISHED, CORRECTED = "published", "corrected"

# name -> (protocol, meaning). The rank-1 chain is the path of most probable children: node of
# rank 1 below nodes of rank 1 only. "Reached" nodes are those whose parent the walk accepted.
MEASURES = {
    "alpha": (PUBLISHED, "min(1, p/q) at T=1, mean over all nodes, whatever rank or parent"),
    "alpha_chain": (CORRECTED, "min(1, p/q), nodes of the rank-1 chain only"),
    "alpha_chain_reached": (CORRECTED, "min(1, p/q), nodes of the rank-1 chain that are reached"),
    "walk_chain": (CORRECTED, "accepted by the walk / reached nodes of the rank-1 chain"),
    "walk_level": (CORRECTED, "levels with an accepted node / levels that are reached"),
}
# Further measures of `rates` (they have no depth of their own).
RATES = MEASURES | {
    "alpha_macro": (CORRECTED, "min(1, p/q) of all nodes: mean over prompts of the prompt's mean"),
    "walk_first": (CORRECTED, "trees whose node of depth 1 and rank 1 is accepted / trees"),
    "walk_first_macro": (CORRECTED, "walk_first: mean over prompts of the prompt's own rate"),
    "walk_nodes": (CORRECTED, "nodes accepted by the walk / all nodes verified"),
    "target_entropy": (PUBLISHED, "entropy of p at T=1, mean over all nodes (nats)"),
    "target_entropy_text": (CORRECTED, "entropy of p at T=1, mean over the text's own positions"),
}
# Further measures of `depths`: chances of reaching a depth.
SURVIVALS = {
    "chain_product": (PUBLISHED, "product of the mean min(1, p/q) of the depths up to this one"),
    "chain_joint": (CORRECTED, "trees whose rank-1 chain is accepted down to this depth / trees"),
    "path_joint": (CORRECTED, "trees whose accepted path has at least this length / trees"),
}
LENGTHS = {
    "product": (PUBLISHED, "sum over depths of chain_product"),
    "chain": (CORRECTED, "accepted length of the rank-1 chain, mean over trees at every token"),
    "joint": (CORRECTED, "length of the accepted path, mean over trees at every token"),
    "joint_macro": (CORRECTED, "the same, mean over prompts of the prompt's mean"),
    "rounds": (CORRECTED, "the same over real rounds: each starts where the last one ended"),
    "rounds_all": (CORRECTED, "the same with the rounds that the end of the text cut"),
}
# How `changes` compares a depth with depth 1. A rate among reached nodes cannot be compared prompt
# by prompt: within a finite text, the rate after accepted tokens is below the text's own rate even
# if nothing depends on depth, because the tokens before are known to be accepted.
COMPARISONS = {
    "prompt": "the prompt's own rates, mean over prompts (measures of all nodes)",
    "text": "with the text's other positions at depth 1, those before the node left out",
    "position": "with depth 1 at the same position of the text, in the tree that starts there; "
    "zero for a draft that sees the full text",
}
CORRELATIONS = {
    "pooled": (PUBLISHED, "over all nodes of the domain, taken as independent"),
    "within_prompt": (CORRECTED, "mean over prompts of the prompt's own rho"),
    "within_prompt_partial": (CORRECTED, "the same, partial on depth and rank"),
}
FACTORS = {
    "domain": "the kind of text; varies between prompts only",
    "depth": "depth of the node, as a category",
    "rank": "rank of the node, and whether an ancestor has a rank below 1, as a category",
    "entropy": "target entropy at the node, in bins of equal numbers of nodes over all domains",
    "position": "early or late in the text",
}

OUTCOMES = {
    "alpha": "min(1, p/q) of all nodes",
    "walk_chain": "accepted, of the reached nodes of the rank-1 chain",
}
MODELLED_OUTCOMES = {
    "alpha": "min(1, p/q) of all nodes",
    "walk": "accepted, of all reached nodes",
}
