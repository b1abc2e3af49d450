"""Tables of the interventions: lengths, paired differences, answers, and what training gained."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from draftscope.exhibits.captioned import METHODS, Table

SUBSET_WORD = {"all": "all prompts", "loops_removed": "loop problems removed"}
LENGTH_NOTE = (
    "Acceptance length (MAL) of a prompt: its emitted tokens over its rounds, the bonus token "
    "included; the mean is over prompts, weighted equally."
)
ESTIMATOR_NOTE = (
    "As published: the rounds of one replay. Expected: tokens over expected rounds, without the "
    "noise of a replay; in greedy decoding the two are the same."
)


def lengths(frame: pd.DataFrame, *, draft_length: int, confidence: float, method: str) -> Table:
    """Table 4: mean acceptance length of each arm with its standard error.

    Args:
        frame: schema intervention_lengths.
    """
    rows = []
    keys = ["mode", "arm", "subset"]
    for (mode, arm, subset), group in frame.groupby(keys, sort=False):
        row = {"mode": mode, "arm": arm, "subset": SUBSET_WORD[subset]}
        by = {each["estimator"]: each for each in _records(group)}
        row["prompts"] = by["rounds"]["prompts"]
        row["published_mean"] = by["rounds"]["mean"]
        row["published_error"] = by["rounds"]["standard_error"]
        own = by["expected"]
        row |= {"mean": own["mean"], "error": own["standard_error"]}
        row |= {"lower": own["mean_lower"], "upper": own["mean_upper"]}
        rows.append(row | {"reason": own["reason"]})
    columns = ["mode", "arm", "subset", "prompts", "published_mean", "published_error"]
    columns += ["mean", "error", "lower", "upper", "reason"]
    headers = {
        "published_mean": "as published: mean",
        "published_error": "as published: standard error",
        "mean": "expected: mean",
        "error": "expected: standard error",
    }
    notes = [
        LENGTH_NOTE,
        ESTIMATOR_NOTE,
        f"Intervals: {confidence:.0%}, {METHODS[method]}, prompts resampled.",
        _domain(frame),
    ]
    caption = f"Table 4. Acceptance length of each arm at draft length {draft_length}"
    return Table(pd.DataFrame(rows, columns=columns), caption, notes, {}, headers)


def differences(frame: pd.DataFrame, *, confidence: float, method: str) -> Table:
    """Paired differences between arms, all estimators and subsets.

    Args:
        frame: schema intervention_differences.
    """
    kept = frame[(frame["estimator"] == "expected") | (frame["subset"] == "all")]
    table = pd.DataFrame(
        {
            "mode": kept["mode"],
            "arm": kept["arm"],
            "against": kept["against"],
            "estimator": kept["estimator"].map({"rounds": "as published", "expected": "expected"}),
            "subset": kept["subset"].map(SUBSET_WORD),
            "prompts": kept["prompts"],
            "difference": kept["difference"],
            "t_lower": kept["t_lower"],
            "t_upper": kept["t_upper"],
            "lower": kept["difference_lower"],
            "upper": kept["difference_upper"],
            "up": kept["up"],
            "down": kept["down"],
            "ties": kept["ties"],
            "t_p": kept["t_p"],
            "holm_p": kept["holm_p"],
            "reason": kept["reason"],
        }
    )
    signed = ("difference", "t_lower", "t_upper", "lower", "upper")
    formats = {name: "+.4f" for name in signed} | {"t_p": ".2g", "holm_p": ".2g"}
    headers = {
        "t_lower": "t: lower",
        "t_upper": "t: upper",
        "lower": "bootstrap: lower",
        "upper": "bootstrap: upper",
        "t_p": "p (t)",
        "holm_p": "p (t, Holm)",
    }
    notes = [
        LENGTH_NOTE,
        ESTIMATOR_NOTE,
        (
            f"Intervals of the mean over prompts of the difference, {confidence:.0%}: paired t, as "
            f"published, and {METHODS[method]}. Holm's adjustment is over the arms and modes of one "
            "comparison, estimator and subset."
        ),
        _domain(frame),
    ]
    caption = "Paired differences in acceptance length between arms, in tokens a round"
    return Table(table, caption, notes, formats, headers)


def accuracy(frame: pd.DataFrame, *, confidence: float) -> Table:
    """Answer accuracy of each arm and the exact McNemar test against the control.

    Args:
        frame: schema intervention_accuracy.
    """
    columns = ["domain", "mode", "arm", "prompts", "correct", "accuracy"]
    columns += ["accuracy_lower", "accuracy_upper", "only_own", "only_other", "chi2", "p"]
    columns += ["same_text", "reason"]
    headers = {
        "accuracy_lower": "lower",
        "accuracy_upper": "upper",
        "only_own": "right alone",
        "only_other": "control right alone",
        "p": "p (exact McNemar)",
        "same_text": "same text as control",
    }
    notes = [
        (
            "Verification is lossless: whatever the draft, an emitted text has the target's law, so "
            "accuracy cannot differ in law between arms, nor from plain decoding (target). In greedy "
            "decoding texts are equal up to near-ties of logits; in sampling they are independent "
            "draws, and discordant prompts are chance."
        ),
        f"Intervals: Wilson, {confidence:.0%}, over prompts. chi2 is 0 without discordant prompts.",
        "A text without an answer within its budget counts as wrong.",
    ]
    # Counts are missing for the control, and so real numbers in a frame.
    counts = dict.fromkeys(("only_own", "only_other", "same_text"), ".0f")
    formats = {"p": ".2g", "chi2": ".2f"} | counts
    caption = "Answer accuracy of each arm, from texts that its live loop emitted"
    return Table(frame[columns], caption, notes, formats, headers)


def match(frame: pd.DataFrame, *, confidence: float, method: str) -> Table:
    """Greedy match before and after distillation, by domain.

    Args:
        frame: schema distillation_match.
    """
    table = pd.DataFrame(
        {
            "domain": frame["domain"],
            "subset": frame["subset"].map(SUBSET_WORD),
            "prompts": frame["prompts"],
            "left_out_loops": frame["left_out_loops"],
            "untrained": frame["untrained"],
            "distilled": frame["distilled"],
            "difference": frame["difference"],
            "lower": frame["difference_lower"],
            "upper": frame["difference_upper"],
            "up": frame["up"],
            "down": frame["down"],
            "sign_p": frame["sign_p"],
            "reached": frame["reached"].map({True: "yes", False: "no"}).fillna("cannot be told"),
            "reason": frame["reason"],
        }
    )
    margin = float(frame["margin"].iloc[0]) if len(frame) else 0.0
    headers = {
        "left_out_loops": "loop problems left out",
        "difference": "gain",
        "sign_p": "p (sign test)",
        "reached": f"gain of {margin:.2f}",
    }
    notes = [
        (
            "Greedy match: share of a prompt's generated tokens that are the draft's most probable "
            "token; means over prompts. Untrained and distilled draft are scored on the same text."
        ),
        f"Intervals of the gain: {confidence:.0%}, {METHODS[method]}, prompts resampled in pairs.",
        f"Gain of {margin:.2f}: yes where the gain is at least that and its interval is above 0.",
    ]
    formats = {"difference": "+.3f", "lower": "+.3f", "upper": "+.3f", "sign_p": ".2g"}
    mode = frame["mode"].iloc[0] if len(frame) else "greedy"
    caption = f"Greedy match of the draft before and after distillation (mode {mode})"
    return Table(table, caption, notes, formats, headers)


def training(histories: Mapping[str, pd.DataFrame]) -> Table:
    """How each draft was trained and what its held-out texts say.

    Args:
        histories: model -> schema training_history.
    """
    rows = []
    for model, history in histories.items():
        first, best = history.iloc[0], history[history["best"]].iloc[0]
        rows.append(
            {
                "model": model,
                "steps": int(history["step"].max()),
                "tokens": int(history["tokens"].max()),
                "kept": int(best["step"]),
                "kl_before": first["held_out_kl"],
                "kl": best["held_out_kl"],
                "match_before": first["held_out_match"],
                "match": best["held_out_match"],
            }
        )
    headers = {
        "tokens": "tokens visited",
        "kept": "step kept",
        "kl_before": "held-out KL before",
        "kl": "held-out KL",
        "match_before": "same argmax before",
        "match": "same argmax",
    }
    notes = [
        (
            "Held-out texts are the target's own, of training prompts that no step visits; KL(p, q) in "
            "nats at temperature 1 and share of positions with the target's argmax."
        ),
        "The weights kept are those with the lowest held-out KL; step 0 is the draft before training.",
    ]
    columns = ["model", "steps", "tokens", "kept", "kl_before", "kl", "match_before", "match"]
    frame = pd.DataFrame(rows, columns=columns)
    return Table(frame, "How the drafts were trained", notes, {}, headers)


def _records(frame: pd.DataFrame) -> list[dict]:
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _domain(frame: pd.DataFrame) -> str:
    pairs = frame.drop_duplicates("arm")
    names = "; ".join(f"{row['arm']} = {row['pair']}" for row in _records(pairs))
    domains = ", ".join(dict.fromkeys(frame["domain"]))
    return f"Domain {domains}; {names}."
