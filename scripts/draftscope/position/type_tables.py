"""Tables about token types, mismatches at triggers, and the trend within texts."""

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
Settings = Mapping[str, Any]


def by_type(types: pd.DataFrame, settings: Settings) -> Table:
    """Acceptance by token type, loop problems removed.

    Args:
        types: schema position_types, as a frame.
    """
    chosen = where(types, subset="loops_removed", place="any")
    keys = ["label", "mode", "kind", "name"]
    rows = []
    for key, part in chosen.groupby(["domain", *keys], sort=False):
        by_metric = {row["metric"]: row for row in _records(part)}
        first = by_metric[METRICS[0]]
        if not first["positions"] and first["kind"] != "all":
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
        rows.append(row | {"reason": _reasons(by_metric)})
    columns = ["configuration", "tokens of", "prompts", "positions", "share"]
    for metric in METRICS:
        columns += [metric, f"{metric}_lower", f"{metric}_upper"]
    frame = pd.DataFrame(rows, columns=[*columns, "reason"])
    headers = {f"{m}_{end}": f"{m} {end}" for m in METRICS for end in ("lower", "upper")}
    notes = [METRIC_NOTE, TYPES_NOTE, _intervals(settings)]
    return Table(frame, _caption("Acceptance by the type of the token", types), notes, {}, headers)


def said_instead(mismatches: pd.DataFrame, settings: Settings) -> Table:
    """What the draft said instead of a trigger.

    Args:
        mismatches: schema position_mismatches, as a frame.
    """
    rows = []
    for row in _records(mismatches[mismatches["level"] != "matrix"]):
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
        _intervals(settings),
    ]
    caption = _caption("What the draft said instead of a trigger", mismatches)
    return Table(frame, caption, notes, {}, headers)


MODEL_WORD = {
    "pooled": "pooled (one intercept)",
    "position": "within texts",
    "adjusted": "within texts, adjusted",
}


def trend(model: pd.DataFrame, settings: Settings) -> Table:
    """Does acceptance fall with position: slopes, their intervals, and tests of a margin.

    Args:
        model: schema position_model, as a frame.
    """
    chosen = where(model, term="log2_position")
    # Where every position has the same texts, one intercept gives the same slope as many.
    chosen = chosen[(chosen["model"] != "pooled") | (chosen["reached"] == 0)]
    frame = pd.DataFrame(
        {
            "configuration": [f"{r['label']}/{r['mode']}" for r in _records(chosen)],
            "outcome": chosen["outcome"].to_numpy(),
            "texts": [_reached(n) for n in chosen["reached"]],
            "model": [MODEL_WORD[name] for name in chosen["model"]],
            "prompts": chosen["prompts"].to_numpy(),
            "positions": chosen["positions"].to_numpy(),
            "slope": chosen["estimate"].to_numpy(),
            "slope_lower": chosen["estimate_lower"].to_numpy(),
            "slope_upper": chosen["estimate_upper"].to_numpy(),
            "p": chosen["p"].to_numpy(),
            "equivalence_p": chosen["equivalence_p"].to_numpy(),
            "decay_p": chosen["decay_p"].to_numpy(),
            "verdict": chosen["verdict"].to_numpy(),
            "reason": [_model_reason(r) for r in _records(chosen)],
        }
    )
    margin = settings["margin"]
    formats: dict[str, Any] = dict.fromkeys(("slope", "slope_lower", "slope_upper"), "+.4f")
    formats |= dict.fromkeys(("p", "equivalence_p", "decay_p"), ".2g")
    headers = {f"slope_{end}": f"slope {end}" for end in ("lower", "upper")}
    headers |= {"equivalence_p": "p (within margin)", "decay_p": "p (no fall of it)"}
    notes = [
        (
            "Slope: change of acceptance by a doubling of the position, log2(1 + i) of position i from 0. "
            "Linear model of every position, errors clustered by prompt; loop problems removed."
        ),
        (
            "Within texts: each text has an intercept of its own, so that a text which is easy, and long "
            "or short for it, is no trend. Adjusted: also the type of the token, the target's entropy and "
            "whether the text repeats itself there. Pooled: one intercept, which is what a pooled curve "
            "shows; it is fooled where easy texts are longer or shorter than others."
        ),
        (
            "Texts of a length or more: only those, and only their first so many positions, so that every "
            "position has the same texts (a pooled slope is then that within texts)."
        ),
        (
            f"The margin is {margin:g} of acceptance a doubling. p (within margin): two one-sided tests "
            "(Schuirmann 1987); p (no fall of it): one-sided, against a fall of the margin or more. Small "
            "values say so with evidence; a large p of the slope alone would not."
        ),
        _intervals(settings),
    ]
    caption = _caption("Trend of acceptance along a text, as an estimate", model)
    return Table(frame, caption, notes, formats, headers)


def effects(model: pd.DataFrame, settings: Settings) -> Table:
    """What else acceptance goes with, within texts: type, entropy, repetition.

    Args:
        model: schema position_model, as a frame.
    """
    chosen = model[(model["model"] == "adjusted") & (model["reached"] == 0)]
    chosen = chosen[chosen["estimate"].notna() | chosen["term"].eq("log2_position")]
    frame = pd.DataFrame(
        {
            "configuration": [f"{r['label']}/{r['mode']}" for r in _records(chosen)],
            "outcome": chosen["outcome"].to_numpy(),
            "term": [_term(name) for name in chosen["term"]],
            "prompts": chosen["prompts"].to_numpy(),
            "change": chosen["estimate"].to_numpy(),
            "change_lower": chosen["estimate_lower"].to_numpy(),
            "change_upper": chosen["estimate_upper"].to_numpy(),
            "p": chosen["p"].to_numpy(),
            "reason": [_model_reason(r) for r in _records(chosen)],
        }
    )
    formats: dict[str, Any] = dict.fromkeys(("change", "change_lower", "change_upper"), "+.3f")
    headers = {f"change_{end}": f"change {end}" for end in ("lower", "upper")}
    notes = [
        (
            "Terms of the adjusted model of the table of trends, over all texts: change of acceptance by "
            "a doubling of the position, by a nat of the target's entropy (T = 1), inside a repetition, and "
            "of each type against words. Terms that no text lets be told are left out."
        ),
        _intervals(settings),
    ]
    caption = _caption("What acceptance goes with inside a text", model)
    return Table(frame, caption, notes, formats | {"p": ".2g"}, headers)


def survival(survivors: pd.DataFrame, settings: Settings) -> Table:
    """How many prompts reach each length, and how they are accepted.

    Args:
        survivors: schema position_survival, as a frame.
    """
    rows = _records(survivors)
    names = [f"{part}{end}" for part in ("whole", "beginning") for end in ("", "_lower", "_upper")]
    frame = pd.DataFrame(
        [
            {
                "configuration": f"{row['label']}/{row['mode']}",
                "texts": _reached(row["reached"]),
                "prompts": row["prompts"],
                "of": row["prompts_total"],
                **{name: row[name] for name in names},
                "reason": row["reason"],
            }
            for row in rows
        ],
        columns=["configuration", "texts", "prompts", "of", *names, "reason"],
    )
    beginning = min(settings["lengths"])
    headers = {"whole": "acceptance", "beginning": f"of their first {beginning} tokens"}
    for part in ("whole", "beginning"):
        for end in ("lower", "upper"):
            headers[f"{part}_{end}"] = f"{headers[part]} {end}"
    notes = [
        (
            "Acceptance (alpha, or match for prompt lookup) of the texts that reach a length, loop problems "
            f"removed: over all of their positions, and over their first {beginning} tokens, where all texts "
            "can be compared. Where the texts that get far are easier or harder from the beginning, a "
            "pooled curve over positions shows a trend that no text has."
        ),
        _intervals(settings),
    ]
    return Table(frame, _caption("Prompts alive at each length", survivors), notes, {}, headers)


def _reached(length: int) -> str:
    return f"{length} tokens or more" if length else "all"


def _term(name: str) -> str:
    words = {"log2_position": "position, doubled", "entropy": "entropy, a nat more"}
    return words.get(name) or ("repeating" if name == "repeated" else f"{name} against word")


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


def _model_reason(row: Mapping[str, Any]) -> str | None:
    if row["reason"]:
        return row["reason"]
    return "no test: prompts all alike" if row["p"] is None else None


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries with None where pandas holds NaN."""
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _intervals(settings: Settings) -> str:
    method = METHODS[settings["method"]]
    return (
        f"Intervals: {settings['confidence']:.0%}, prompts resampled {settings['resamples']:,} times, "
        f"{method}."
    )


def _caption(title: str, frame: pd.DataFrame) -> str:
    pairs = dict(zip(frame["label"], frame["pair"], strict=True)) if len(frame) else {}
    domains: Sequence[str] = list(dict.fromkeys(frame["domain"])) if len(frame) else []
    if not pairs:
        return title
    named = "; ".join(f"{label} = {pair}" for label, pair in pairs.items())
    return f"{title} (domain {', '.join(domains)}; {named})"
