"""Tables of real drafts under certificates, of relaxed rules, and the findings in words."""

from __future__ import annotations

import math

from draftscope.certificate_study.lookup import Row, Statistics, number
from draftscope.certificate_study.tables import NATS, SHARE, TOKENS, intervals
from draftscope.domains.layout import nothing, table
from draftscope.exhibits.captioned import Table

NONE_THERE = "no such position"


def drafts(found: Statistics) -> Table:
    """Which positions a draft is certified at, and what is accepted there and elsewhere."""
    rows = []
    for row in found.rows("drafts"):
        shown = {key: row[key] for key in ("pair", "domain", "criterion", "positions", "kl_median")}
        for name in ("certified", "accepted_certified", "accepted_uncertified", "accepted"):
            shown |= number(row, name)
        shown |= {"violations": row["violations"]} | number(row, "explained")
        rows.append(shown | {"reason": row["reason"]})
    return table(
        rows or [nothing("pair")],
        {
            "pair": ("pair", None),
            "domain": ("domain", None),
            "criterion": ("criterion", None),
            "positions": ("positions", None),
            "kl_median": ("median KL (nats)", NATS),
            "certified": ("share certified", SHARE),
            "accepted_certified": ("of them accepted", SHARE),
            "accepted_uncertified": ("of the others accepted", SHARE),
            "accepted": ("of all accepted", SHARE),
            "violations": ("certified and rejected", None),
            "explained": ("of the accepted, certified", SHARE),
        },
        "Real drafts: certified positions, and what is accepted there and elsewhere",
        [
            (
                "Certified: KL(p || q) at temperature 1 plus "
                f"{found.settings['tolerance']:g} nats lies below the certificate; both in float64. "
                "A certified proposal that was rejected would have failed the run. Accepted: the "
                "draft's most probable token by the criterion (for a tree, its m most probable tokens "
                "hold the target's), ties counted against the draft."
            ),
            (
                "The last column is the share of acceptance that a certificate explains; the rest is "
                "accepted although a draft at the same distance could have been rejected."
            ),
            intervals(found.settings),
        ],
    )


def bins(found: Statistics) -> Table:
    """The same by margin, by entropy and by KL over certificate."""
    rows = [
        {key: row[key] for key in ("pair", "criterion", "by", "lower_edge")}
        | {"upper_edge": row["upper_edge"], "positions": row["positions"]}
        | number(row, "certified")
        | number(row, "accepted")
        | {"reason": row["reason"] or (NONE_THERE if not row["positions"] else None)}
        for row in found.rows("bins")
    ]
    return table(
        rows or [nothing("pair")],
        {
            "pair": ("pair", None),
            "criterion": ("criterion", None),
            "by": ("by", None),
            "lower_edge": ("from", ".4g"),
            "upper_edge": ("to below", ".4g"),
            "positions": ("positions", None),
            "certified": ("share certified", SHARE),
            "accepted": ("share accepted", SHARE),
        },
        "Certified and accepted by margin, entropy, and KL over certificate; all domains",
        [
            (
                "Margin: p(x0) - p(x1). Entropy of p, nats. Ratio: KL over certificate; certified is "
                "below 1, and acceptance has to be 1 there."
            ),
            intervals(found.settings),
        ],
    )


def relaxed(found: Statistics) -> Table:
    """What relaxed rules gain and cost."""
    rows = []
    for row in found.rows("relaxed"):
        shown = {key: row[key] for key in ("domain", "rule", "source", "prompts")}
        shown["lossless"] = "lossless" if row["lossless"] else "lossy"
        for name in ("acceptance_length", "gain", "log_p", "cost", "own"):
            shown |= number(row, name)
        shown |= {"same_text": row["same_text"], "checked": row["checked"]}
        shown |= number(row, "right")
        why = row["reason"]
        if row["source"] == "replay":
            why = "; ".join(filter(None, (why, "replay emits the target's text: no cost")))
        elif row["checked"] is None:
            why = "; ".join(filter(None, (why, "no checker scores these answers")))
        rows.append(shown | {"reason": why})
    settings = found.settings["relaxed"]
    return table(
        rows or [nothing("domain")],
        {
            "domain": ("domain", None),
            "rule": ("rule", None),
            "source": ("source", None),
            "lossless": ("text", None),
            "prompts": ("prompts", None),
            "acceptance_length": ("tokens a round", TOKENS),
            "gain": ("more than greedy", "+.2f"),
            "log_p": ("log-likelihood a token", NATS),
            "cost": ("minus greedy's", "+.3f"),
            "own": ("share of tokens the target would choose", SHARE),
            "same_text": ("texts as greedy's", None),
            "checked": ("answers checked", None),
            "right": ("right", SHARE),
        },
        f"Relaxed acceptance: what it gains and costs, {settings['pair']}, draft length "
        f"{settings['draft_length']}",
        [
            (
                "All rules but greedy are lossy: they emit tokens that the target would not, and "
                f"{caught(found)}. Live: decoded greedily with the rule. Replay: "
                "along the target's own recorded text, so it tells the acceptance there and nothing of "
                "what a rule would have written; its greedy row accepts what the text itself has, and "
                "relaxed rules count ties of the draft against it."
            ),
            (
                "Log-likelihood: the target's, at temperature 1, nats a token of the emitted text. "
                "Greedy text has the highest probability token by token and no text of a rule is "
                "scored by length; answers are scored by the domain's checker, right only if wholly "
                "right; a text that the budget cut before its answer counts as wrong."
            ),
            intervals(found.settings),
        ],
    )


def caught(found: Statistics) -> str:
    """Whether the tests of losslessness told the lossy rules apart, in words."""
    lossy: dict[str, bool] = {}
    for row in found.rows("equivalence", correct=False):
        lossy[row["rule"]] = lossy.get(row["rule"], False) or row["rejected"]
    missed = [rule for rule, rejected in lossy.items() if not rejected]
    if not missed:
        return "the test of losslessness rejects them"
    return (
        f"the test of losslessness rejects {len(lossy) - len(missed)} of {len(lossy)} of them; "
        f"at its size it did not see that {', '.join(missed)} {'are' if missed[1:] else 'is'}"
    )


def equivalence(found: Statistics) -> Table:
    """Tests of losslessness on the relaxed rules, which have to be rejected."""
    rows = [
        {
            "rule": row["rule"],
            "should": "pass" if row["correct"] else "fail",
            "test": f"{row['subject']}: {row['test']}",
            "tokens": row["tokens"],
            "statistic": row["statistic"],
            "p": row["p"],
            "rejected": "yes" if row["rejected"] else "no",
            "total_variation": row["total_variation"],
            "reason": row["reason"],
        }
        for row in found.rows("equivalence")
    ]
    level = found.settings["equivalence"]["level"]
    return table(
        rows,
        {
            "rule": ("rule", None),
            "should": ("has to", None),
            "test": ("test", None),
            "tokens": ("tokens", None),
            "statistic": ("statistic", ".1f"),
            "p": ("p", ".2g"),
            "rejected": ("rejected", None),
            "total_variation": ("total variation", ".4f"),
        },
        "Are relaxed rules lossless? The tests that lossless rules pass",
        [f"Rejected: p below {level:g}, or a greedy text that is not plain decoding's."],
    )


def findings(found: Statistics) -> Table:
    """What the certificates say, in words."""
    rows = [*_targets(found), *_drafts(found), *_relaxed(found)]
    return table(
        [{"statement": text, "reason": None} for text in rows],
        {"statement": ("finding", None)},
        "Certificates in words",
        [],
    )


def _targets(found: Statistics) -> list[str]:
    out = []
    for target in found.targets:
        for row in found.rows("values", target=target, criterion="strict greedy"):
            out.append(
                f"{target}, {row['domain']}: at half of the {row['positions']:,} positions a draft "
                f"within a KL of {row['median']:.3f} nats of the target is never rejected by greedy "
                f"verification; at 5% of them {_small(row['p5'])} nats may already be too far."
            )
    margins = (0.1, 0.5, 0.9)
    levels = ", ".join(f"{margin:g} -> {_g(margin):.3f}" for margin in margins)
    out.append(
        "At a margin of d between the target's two most probable tokens, any draft within g(d) nats "
        f"is accepted, whatever it does elsewhere: {levels}; no margin secures more than log 2 = "
        "0.693 nats."
    )
    return out


def _small(value: float) -> str:
    return "less than 0.0001" if value < 1e-4 else f"{value:.4f}"


def _g(margin: float) -> float:
    return (1 + margin) / 2 * math.log1p(margin) + (1 - margin) / 2 * math.log1p(-margin)


def _drafts(found: Statistics) -> list[str]:
    out = []
    for row in found.rows("drafts", criterion="strict greedy"):
        if row["domain"] != _widest(found, row["pair"]):
            continue
        if row["certified_positions"]:
            said = (
                f"{row['certified']:.1%} of {row['positions']:,} positions are certified under greedy "
                f"verification, and all {row['certified_positions']:,} proposals there were accepted; "
                f"{row['accepted']:.1%} were accepted in all. Certificates explain "
                f"{row['explained']:.1%} of what was accepted: the rest stood although some draft at "
                "the same distance would have been rejected."
            )
        else:
            said = (
                f"none of {row['positions']:,} positions is certified under greedy verification; "
                f"{row['accepted']:.1%} of the proposals were accepted all the same."
            )
        out.append(f"{row['pair']}: {said}")
    return out


def _widest(found: Statistics, pair: str) -> str:
    """The pooled domain of a pair, or its only one: the last."""
    return found.rows("drafts", pair=pair, criterion="strict greedy")[-1]["domain"]


def _relaxed(found: Statistics) -> list[str]:
    out = []
    for row in found.rows("relaxed", source="live", lossless=False):
        if row["gain"] is None or row["cost"] is None:
            continue
        out.append(
            f"{row['domain']}, {row['rule']} (lossy): {row['acceptance_length']:.2f} tokens a round, "
            f"{row['gain']:+.2f} against greedy, at {row['cost']:+.3f} nats of log-likelihood a token"
            f"{_ends(row)}."
        )
    return out


def _ends(row: Row) -> str:
    if row["cost_lower"] is None:
        return ""
    return f" [{row['cost_lower']:+.3f}, {row['cost_upper']:+.3f}]"
