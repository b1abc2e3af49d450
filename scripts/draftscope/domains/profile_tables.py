"""Tables IV to VI: acceptance by depth, by position and by entropy, published and corrected."""

from __future__ import annotations

from draftscope.domains.layout import (
    AS_PUBLISHED,
    CHANGE,
    CORRECTED,
    CORRELATION,
    SHARE,
    P,
    adjusted,
    holm,
    intervals,
    table,
)
from draftscope.domains.lookup import Statistics, number, reasons
from draftscope.domains.schemas import ALL
from draftscope.exhibits.captioned import Table

NOTHING = 5e-4  # is shown as 0.000


def depths(found: Statistics) -> Table:
    """Table IV: acceptance by depth, and how it changes from the first depth."""
    rows, tests = [], []
    for domain in found.domains:
        for depth in found.depths():
            own = {
                m: found.row("depths", domain=domain, depth=depth, measure=m)
                for m in ("alpha", "alpha_chain", "walk_chain")
            }
            changes = {
                m: found.row("changes", domain=domain, depth=depth, measure=m, comparison=how)
                for m, how in (("alpha", "prompt"), ("walk_chain", "text"))
            }
            if depth == 1:
                changes = {m: {} for m in changes}
            tests.append(changes["walk_chain"])
            rows.append(
                {
                    "domain": domain,
                    "depth": depth,
                    "nodes": own["alpha"].get("nodes"),
                    **number(own["alpha"], "value", "alpha"),
                    **number(changes["alpha"], "pooled", "alpha_change"),
                    **number(own["alpha_chain"], "value", "alpha_chain"),
                    "reached": own["walk_chain"].get("nodes"),
                    **number(own["walk_chain"], "value", "walk_chain"),
                    **number(changes["walk_chain"], "difference", "change"),
                    "holm_p": adjusted(changes["walk_chain"]),
                    "reason": _at_first_depth(
                        depth,
                        reasons(**own, alpha_change=changes["alpha"], change=changes["walk_chain"]),
                    ),
                }
            )
    return table(
        rows,
        {
            "domain": ("domain", None),
            "depth": ("depth", None),
            "nodes": (f"{AS_PUBLISHED}nodes", None),
            "alpha": (f"{AS_PUBLISHED}mean min(1, p/q)", SHARE),
            "alpha_change": (f"{AS_PUBLISHED}change from depth 1", CHANGE),
            "alpha_chain": ("at equal rank: rank-1 chain, mean min(1, p/q)", SHARE),
            "reached": (f"{CORRECTED}reached nodes of the rank-1 chain", None),
            "walk_chain": ("of them accepted", SHARE),
            "change": (f"{CORRECTED}change from depth 1", CHANGE),
            "holm_p": ("p (Holm)", P),
        },
        "Table IV. Acceptance by depth and domain",
        [
            (
                "As published, depths differ in the ranks of their nodes: in a tree of 2, 4 and 2 "
                "nodes the last two hang below the draft's first choices only, while the depths "
                "above hold second choices too, so that a rise with depth can come from rank alone. "
                "At equal rank it cannot; nodes that no walk reaches still count there. Corrected: "
                "equal rank, and only nodes whose parent the walk accepted."
            ),
            (
                "Change: as published a difference of plain means. Corrected: each reached node less "
                "the acceptance of its text's other positions at depth 1, those just before it "
                "left out, since they are known to be accepted; mean over nodes. " + holm(tests)
            ),
            *_same_place(found),
            intervals(found.settings),
        ],
    )


def _same_place(found: Statistics) -> list[str]:
    """What is left of a change with depth when the place in the text is held fixed."""
    rows = found.rows("changes", measure="walk_chain", comparison="position")
    left = [abs(row["difference"]) for row in rows if row["difference"] is not None]
    if not left:
        return []
    note = (
        "Compared with depth 1 at the same place of the text, in the tree that starts there, the "
        f"corrected acceptance changes by at most {max(left):.3f} in any domain."
    )
    if max(left) < NOTHING:
        note += (
            " A draft that sees the whole text is as good at any depth of an accepted path; what "
            "changes is how easy the stretches of text are in which paths get so deep."
        )
    return [note]


def _at_first_depth(depth: int, reason: str | None) -> str | None:
    if depth > 1:
        return reason
    return "; ".join(filter(None, ("changes are from this depth", reason)))


def positions(found: Statistics) -> Table:
    """Table V: acceptance early and late in the text."""
    keys = [(ALL, depth) for depth in (*found.depths(), 0)]
    keys += [(domain, 0) for domain in found.domains if domain != ALL]
    rows, tests = [], []
    for domain, depth in keys:
        alpha, walk = (
            found.row("positions", domain=domain, depth=depth, measure=m)
            for m in ("alpha", "walk_chain")
        )
        tests.append(walk)
        rows.append(
            {
                "domain": domain,
                "depth": str(depth) if depth else "all",
                **number(alpha, "early", "early"),
                **number(alpha, "late", "late"),
                **number(alpha, "pooled", "pooled"),
                "walk_early": walk.get("early"),
                "walk_late": walk.get("late"),
                "prompts": walk.get("prompts"),
                **number(walk, "difference", "difference"),
                "holm_p": adjusted(walk),
                "reason": reasons(as_published=alpha, corrected=walk),
            }
        )
    edge = max((row["edge"] for row in found.rows("positions")), default=0)
    return table(
        rows,
        {
            "domain": ("domain", None),
            "depth": ("depth", None),
            "early": (f"{AS_PUBLISHED}early", SHARE),
            "late": (f"{AS_PUBLISHED}late", SHARE),
            "pooled": (f"{AS_PUBLISHED}late minus early", CHANGE),
            "walk_early": (f"{CORRECTED}early", SHARE),
            "walk_late": (f"{CORRECTED}late", SHARE),
            "prompts": (f"{CORRECTED}prompts", None),
            "difference": (f"{CORRECTED}late minus early, same prompts", CHANGE),
            "holm_p": ("p (Holm)", P),
        },
        f"Table V. Acceptance up to generated token {edge} and after it",
        [
            (
                "As published: plain means of min(1, p/q) over all nodes, so that late means lack "
                "the prompts whose text is short. Corrected: accepted / reached nodes of the "
                "rank-1 chain; the difference is over the prompts that have both."
            ),
            holm(tests),
            intervals(found.settings),
        ],
    )


def correlations(found: Statistics) -> Table:
    """Table VI: rank correlation of entropy with acceptance."""
    rows, tests = [], []
    for entropy in ("target", "draft"):
        for domain in found.domains:
            pooled = _rho(found, domain, "pooled", "alpha", entropy)
            within = _rho(found, domain, "within_prompt", "walk_chain", entropy)
            partial = _rho(found, domain, "within_prompt_partial", "walk_chain", entropy)
            tests.append(within)
            rows.append(
                {
                    "entropy": entropy,
                    "domain": domain,
                    **number(pooled, "rho", "pooled"),
                    "prompts": within.get("prompts"),
                    "undefined": within.get("undefined"),
                    **number(within, "rho", "within"),
                    "holm_p": adjusted(within),
                    **number(partial, "rho", "partial"),
                    "reason": reasons(as_published=pooled, within_prompts=within, partial=partial),
                }
            )
    return table(
        rows,
        {
            "entropy": ("entropy of", None),
            "domain": ("domain", None),
            "pooled": (f"{AS_PUBLISHED}rho, all nodes", CORRELATION),
            "prompts": (f"{CORRECTED}prompts", None),
            "undefined": ("undefined", None),
            "within": ("rho within prompts, accepted", CORRELATION),
            "holm_p": ("p (Holm)", P),
            "partial": ("the same, partial on depth and rank", CORRELATION),
        },
        "Table VI. Spearman's correlation of entropy with acceptance by domain",
        [
            (
                "As published: entropy of the target with min(1, p/q), all nodes of the domain as "
                "if they were independent. Corrected: with acceptance by the real walk, over the "
                "reached nodes of one prompt, then the mean over prompts, so that neither "
                "differences between prompts nor many nodes of one text make a correlation. The "
                "draft's entropy is what is known before verification."
            ),
            (
                "Undefined: prompts whose entropy or acceptance is constant; they are in no mean. "
                "Prompts are tested by the signs of their rho. " + holm(tests)
            ),
            intervals(found.settings),
        ],
    )


def _rho(found: Statistics, domain: str, measure: str, outcome: str, entropy: str):
    return found.row(
        "correlations", domain=domain, measure=measure, outcome=outcome, entropy=entropy
    )
