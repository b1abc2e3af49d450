"""Certificates: how close to the target a draft must be, in KL, to be sure of acceptance.

`exact` holds the water level, `functions` one function a criterion, `bounds` the closed forms and
lower bounds. p [..., V] is a tensor or an array, values are nats.
"""

from draftscope.certificates.exact import certificate, worst_draft, worst_tree_draft
from draftscope.certificates.functions import (
    additive,
    evaluate,
    multiplicative,
    of_criterion,
    rejected,
    strict,
    top_m_additive,
    top_m_multiplicative,
    tree,
    typical,
)

__all__ = [
    "additive",
    "certificate",
    "evaluate",
    "multiplicative",
    "of_criterion",
    "rejected",
    "strict",
    "top_m_additive",
    "top_m_multiplicative",
    "tree",
    "typical",
    "worst_draft",
    "worst_tree_draft",
]
