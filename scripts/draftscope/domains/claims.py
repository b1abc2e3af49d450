"""Where the two analyses agree: each published conclusion, by its own numbers and by corrected ones.

A corrected conclusion needs an interval that lies on one side of the boundary; an interval that
holds it decides nothing, and the row says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftscope.domains.observations import Log
from draftscope.domains.schemas import ALL

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]
WEAK = -0.3  # a rho between it and zero counts as weak
RISES = "acceptance rises with depth"
LONG = "more than one drafted token is accepted in a tree"
ENTROPY = f"acceptance falls with entropy, and weakly (rho between {WEAK:g} and 0)"
TASK = "the kind of text tells more about acceptance than depth does"
PARADOX = "the domain of highest entropy accepts most"
ALONG = "acceptance at depth 1 rises along the text"
UNDECIDED = "the interval holds the boundary: undecided"


def claims(log: Log, tables: Tables) -> list[Row]:
    """Rows of `domains_claims`.

    Args:
        tables: the study's other rows by the name of their file.
    """
    rows = []
    for domain in log.domains:
        rows.append(_depth(log, tables, domain))
    for domain in log.domains:
        published = _one(tables["lengths"], domain=domain, measure="product")
        corrected = _one(tables["lengths"], domain=domain, measure="joint")
        value = published["value"]
        rows.append(
            _row(LONG, domain, None if value is None else value > 1, value, corrected, "value", 1.0)
        )
    for domain in log.domains:
        rows.append(_entropy(tables, domain))
    rows += [_task(log, tables), _paradox(log, tables), _along(tables)]
    return rows


def _depth(log: Log, tables: Tables, domain: str) -> Row:
    key = {"domain": domain, "depth": log.deepest}
    published = _one(tables["changes"], **key, measure="alpha")
    corrected = _one(tables["changes"], **key, measure="walk_chain", comparison="text")
    value = published.get("pooled")
    holds = None if value is None else value > 0
    return _row(RISES, domain, holds, value, corrected, "difference")


def _entropy(tables: Tables, domain: str) -> Row:
    key = {"domain": domain, "entropy": "target"}
    published = _one(tables["correlations"], **key, outcome="alpha", measure="pooled")
    corrected = _one(
        tables["correlations"], **key, outcome="walk_chain", measure="within_prompt_partial"
    )
    value = published.get("rho")
    row = _row(ENTROPY, domain, None, value, corrected, "rho")
    low, high = row["corrected_value_lower"], row["corrected_value_upper"]
    if value is not None:
        row["published"] = WEAK < value < 0
    if low is not None:
        within, outside = WEAK < low and high < 0, high < WEAK or low > 0
        row["corrected"] = True if within else False if outside else None
        row["reason"] = UNDECIDED if row["corrected"] is None else corrected["reason"]
    return _finished(row)


def _task(log: Log, tables: Tables) -> Row:
    """Published: the spread of the domains' means against the spread of the depths' means."""
    means = [
        _one(tables["rates"], domain=domain, measure="alpha").get("value") for domain in log.domains
    ]
    depths = [row["value"] for row in _all(tables["depths"], domain=ALL, measure="alpha")]
    corrected = _one(tables["comparisons"], outcome="walk", first="domain", second="depth")
    value = None
    if len(means) > 1 and depths and None not in (*means, *depths):
        value = max(means) - min(means) - (max(depths) - min(depths))
    holds = None if value is None else value > 0
    return _row(TASK, ALL, holds, value, corrected, "difference")


def _paradox(log: Log, tables: Tables) -> Row:
    found = [row for row in tables["paradox"] if row["other"] != ALL]
    alphas = [row for row in found if row["outcome"] == "alpha" and row["difference"] is not None]
    walks = [
        row for row in found if row["outcome"] == "walk_chain" and row["difference"] is not None
    ]
    highest = found[0]["highest"] if found else ALL
    value = None
    if alphas:
        means = {
            domain: _one(tables["rates"], domain=domain, measure="alpha").get("value")
            for domain in log.domains
        }
        rest = [mean for domain, mean in means.items() if domain != highest and mean is not None]
        value = means[highest] - max(rest)
    # The domain that comes nearest (or beats it) decides.
    corrected = min(walks, key=lambda row: row["difference"], default={})
    return _row(
        PARADOX, highest, None if value is None else value > 0, value, corrected, "difference"
    )


def _along(tables: Tables) -> Row:
    published = _one(tables["positions"], domain=ALL, depth=1, measure="alpha")
    corrected = _one(tables["positions"], domain=ALL, depth=1, measure="walk_chain")
    value = published.get("pooled")
    holds = None if value is None else value > 0
    return _row(ALONG, ALL, holds, value, corrected, "difference")


def _row(
    claim: str,
    domain: str,
    published: bool | None,
    value: float | None,
    corrected: Row,
    column: str,
    boundary: float = 0.0,
) -> Row:
    """A claim that a value lies above the boundary."""
    low, high = corrected.get(f"{column}_lower"), corrected.get(f"{column}_upper")
    holds = None
    if low is not None:
        holds = True if low > boundary else False if high < boundary or low == high else None
    reason = corrected.get("reason", "nothing to compare")
    if low is not None and holds is None:
        reason = UNDECIDED
    return _finished(
        {
            "claim": claim,
            "domain": domain,
            "published": published,
            "corrected": holds,
            "published_value": value,
            "corrected_value": corrected.get(column),
            "corrected_value_lower": low,
            "corrected_value_upper": high,
            "reason": reason,
        }
    )


def _finished(row: Row) -> Row:
    both = (row["published"], row["corrected"])
    row["agree"] = None if None in both else both[0] == both[1]
    words = {True: "holds", False: "does not hold", None: "cannot be told"}
    said = [f"as published it {words[both[0]]}", f"corrected it {words[both[1]]}"]
    if row["published_value"] is not None:
        said[0] += f" ({row['published_value']:+.3f})"
    if row["corrected_value_lower"] is not None:
        said[1] += (
            f" ({row['corrected_value']:+.3f}, {row['corrected_value_lower']:+.3f} to "
            f"{row['corrected_value_upper']:+.3f})"
        )
    verdict = {True: "the analyses agree", False: "the analyses disagree", None: "no verdict"}
    row["statement"] = f"{'; '.join(said)}: {verdict[row['agree']]}"
    return row


def _all(rows: Sequence[Row], **key: Any) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in key.items())]


def _one(rows: Sequence[Row], **key: Any) -> Row:
    found = _all(rows, **key)
    return found[0] if found else {}
