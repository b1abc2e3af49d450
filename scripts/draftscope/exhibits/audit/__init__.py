"""Re-derive published numbers from each other and say which do not add up.

A printed number stands for every number that rounds to it. A finding fails only when no such
numbers fit the relation, so rounding alone never accuses a paper. A study's relations live in the
module of its name, listed in `CHECKS`; a study without one has no findings.
"""

from __future__ import annotations

from draftscope.exhibits.audit import certificates, domains, lossless, position, retrace
from draftscope.exhibits.audit.relations import Audit, Finding, remarks
from draftscope.exhibits.published import Published

CHECKS = {
    "position": position.check,
    "domains": domains.check,
    "certificates": certificates.check,
    "retrace": retrace.check,
    "lossless": lossless.check,
}
__all__ = ["CHECKS", "Audit", "Finding", "remarks", "run"]


def run(published: Published) -> list[Finding]:
    """Every finding of a study, in the order in which its module states them."""
    audit = Audit(published)
    if published.study in CHECKS:
        CHECKS[published.study](audit)
    return audit.findings
