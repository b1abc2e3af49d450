"""Tables about token types and mismatches at triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from draftscope.exhibits.captioned import METHODS, Table
from draftscope.exhibits.figures import where
from draftscope.position.texts import METRICS

SHOWN_TOKENS = 10
METRIC_NOTE = (
    "def2 is q(argmax p), the draft's probability of the target's most likely token; alpha is "
    "min(1, q(y)/p(y)) of the emitted token; match is whether the draft's most likely token is the "
    "emitted one (of prompt lookup: its proposal, as if a round started there). p and q are those "
    "of the decoding law."
)
TYPES_NOTE = (
    "A type is that of the characters that a token covers in the whole decoded text; white space in "
    "front of a word belongs to the word's token. Types by kind stand first, then the triggers of "
    "reflection one by one, and together those that the published study names."
)
FIRST_NOTE = (
    "first: alpha (match for prompt lookup) at the tokens that begin their word, number or phrase, whose "
    "number stands before."
)
Settings = Mapping[str, Any]


def by_type(types: pd.DataFrame, settings: Settings) -> Table:
    """Acceptance by token type, loop problems removed.

    Args:
        types: schema position_types, as a frame.
    """
    chosen = where(types, subset="loops_removed", place="any")
    beginnings = where(types, subset="loops_removed", place="first")
    keys = ["label", "mode", "kind", "name"]
    rows = []
    for key, part in chosen.groupby(["domain", *keys], sort=False):
        by_metric = {row["metric"]: row for row in records_of(part)}
        first = by_metric[METRICS[0]]
        if not first["positions"] and first["kind"] not in ("all", "published"):
            continue
        row = {
            "configuration": f"{key[1]}/{key[2]}",
            "tokens of": _group(first),
            "prompts": max(each["prompts"] for each in by_metric.values()),
            "positions": first["positions"],
            "share": first["share"],
        }
        for metric in METRICS:
            each = by_metric[metric]
            row |= {metric: each["value"], f"{metric}_lower": each["lower"]}
            row |= {f"{metric}_upper": each["upper"]}
        own = where(beginnings, domain=key[0], label=key[1], mode=key[2], kind=key[3], name=key[4])
        row |= _first(own)
        rows.append(row | {"reason": _reasons(by_metric)})
    columns = ["configuration", "tokens of", "prompts", "positions", "share"]
    for metric in METRICS:
        columns += [metric, f"{metric}_lower", f"{metric}_upper"]
    columns += ["first_positions", "first", "first_lower", "first_upper"]
    frame = pd.DataFrame(rows, columns=[*columns, "reason"])
    shown = (*METRICS, "first")
    headers = {f"{m}_{end}": f"{m} {end}" for m in shown for end in ("lower", "upper")}
    headers["first_positions"] = "first tokens"
    notes = [METRIC_NOTE, TYPES_NOTE, FIRST_NOTE, intervals_note(settings)]
    return Table(frame, captioned("Acceptance by the type of the token", types), notes, {}, headers)


def said_instead(mismatches: pd.DataFrame, settings: Settings) -> Table:
    """What the draft said instead of a trigger.

    Args:
        mismatches: schema position_mismatches, as a frame.
    """
    rows = []
    for row in records_of(mismatches[mismatches["level"] != "matrix"]):
        if row["level"] == "summary":
            said = "anything else" if row["trigger"] == "all" else "anything else, by trigger"
        else:
            said = {"type": f"{row['type']} (type)", "token": row["said"]}[row["level"]]
        rows.append(
            {
                "configuration": f"{row['label']}/{row['mode']}",
                "emitted": "any trigger" if row["trigger"] == "all" else row["trigger"],
                "said": said,
                "level": row["level"],
                "positions": row["positions"],
                "of": row["triggers"],
                "share": row["share"],
                "share_lower": row["share_lower"],
                "share_upper": row["share_upper"],
                "moved": row["moved"],
                "p": row["p"],
                "q": row["q"],
                "reason": row["reason"],
            }
        )
    names = ["configuration", "emitted", "said", "level", "positions", "of"]
    names += ["share", "share_lower", "share_upper", "moved", "p", "q", "reason"]
    frame = pd.DataFrame(rows, columns=names)
    if len(frame):
        place = frame.groupby(["configuration", "level"]).cumcount()
        frame = frame[(frame["level"] != "token") | (place < SHOWN_TOKENS)]
    frame = frame.drop(columns="level")
    headers = {f"share_{end}": f"share {end}" for end in ("lower", "upper")}
    headers |= {"of": "of triggers", "said": "draft said"}
    notes = [
        (
            "Counted at the first token of each trigger that was emitted, loop problems removed. The "
            "share of 'anything else' is of these triggers, every other share of those where the draft's "
            "most likely token was another one."
        ),
        (
            "What the draft said is typed after the same text; what would have followed is not known, so "
            "the beginning of another trigger counts as a word. ␣ is a space at an edge of a token."
        ),
        (
            "moved: mean total variation of p and q at these positions, the probability that the draft "
            "would have to move; p and q: mean probability of the emitted token by target and draft. "
            "All three at temperature 1, so that greedy and sampled texts compare."
        ),
        f"At most {SHOWN_TOKENS} tokens a configuration, the most frequent first.",
        intervals_note(settings),
    ]
    caption = captioned("What the draft said instead of a trigger", mismatches)
    return Table(frame, caption, notes, {}, headers)


def _first(own: pd.DataFrame) -> dict[str, Any]:
    """Acceptance at the first tokens: alpha, or match where there is none."""
    by_metric = {row["metric"]: row for row in records_of(own)}
    found = by_metric["alpha"]
    found = by_metric["match"] if found["value"] is None else found
    names = {"first": "value", "first_lower": "lower", "first_upper": "upper"}
    return {"first_positions": found["positions"]} | {k: found[v] for k, v in names.items()}


def _group(row: Mapping[str, Any]) -> str:
    return {
        "all": "all tokens",
        "type": row["name"],
        "trigger": f"reflection: {row['name']}",
        "published": f"reflection, published triggers ({row['name'] or 'none'})",
    }[row["kind"]]


def _reasons(by_metric: Mapping[str, Mapping[str, Any]]) -> str | None:
    reasons: dict[str, list[str]] = {}
    for metric, row in by_metric.items():
        if row["reason"]:
            reasons.setdefault(row["reason"], []).append(metric)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items()) or None


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries with None where pandas holds NaN."""
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def intervals_note(settings: Settings) -> str:
    """How the intervals of a table were made."""
    method = METHODS[settings["method"]]
    return (
        f"Intervals: {settings['confidence']:.0%}, prompts resampled {settings['resamples']:,} times, "
        f"{method}."
    )


def captioned(title: str, frame: pd.DataFrame) -> str:
    """A title with the domain and the pairs of a frame."""
    pairs = dict(zip(frame["label"], frame["pair"], strict=True)) if len(frame) else {}
    domains: Sequence[str] = list(dict.fromkeys(frame["domain"])) if len(frame) else []
    if not pairs:
        return title
    named = "; ".join(f"{label} = {pair}" for label, pair in pairs.items())
    return f"{title} (domain {', '.join(domains)}; {named})"
