"""Tables of the studies of block drafters: lengths, differences, what is needed, profiles, speed."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from draftscope.exhibits.captioned import Table

SUBSET_WORD = {"all": "all prompts", "loops_removed": "loop problems removed"}
YES_NO = {True: "yes", False: "no"}
LENGTH_NOTE = (
    "Acceptance length (tau): tokens a round emits, the bonus or correction token included. Macro: mean "
    "over prompts of tokens over rounds; micro: all tokens over all rounds."
)
DOMAIN_NOTE = "all: mean of the domains, each with the same weight."
ESTIMATE_NOTE = (
    "Expected accepted: tokens of a block whose drafts are sampled, as far as the held-out text goes and "
    "without the bonus, on average over blocks (of ReTrace over the second ones): the sum over k of the "
    "product of min(1, q/p) at the text's own tokens. It is without bias where the texts were drawn at "
    "temperature 1 (train.temperature), not where they are greedy. By overlaps: overlaps of p and q in "
    "place of min(1, q/p), as D-PAL's weights have them before smoothing; biased in either case."
)
REPLAYED_LOOPS_NOTE = (
    "Loop problems are prompts whose replayed text loops; what is timed is decoded anew with a budget of "
    "its own, in a sampled mode another text, so it may loop where its prompt is kept and not where it is "
    "removed."
)


def interval_note(confidence: float, paired: bool = False) -> str:
    """How intervals are made, in a sentence."""
    with_what = (
        "; training s of an arm is compared with training s of the other, from whose weights it started"
        if paired
        else ""
    )
    return (
        f"Intervals: {confidence:.0%}, Student t, over trainings and prompts: the variance over prompts "
        "plus that between trainings of one arm, which is pooled over arms"
        f"{with_what}. Prompts alone: the interval of these very weights, without seed noise."
    )


def lengths(frame: pd.DataFrame, *, number: str, confidence: float) -> Table:
    """Acceptance length of each arm by domain and mode, macro and micro, with and without loops.

    Args:
        frame: schema block_lengths.
    """
    keys = ["mode", "domain", "arm", "subset"]
    macro, micro = (frame[frame["pooling"] == name].set_index(keys) for name in ("macro", "micro"))
    columns = ["trainings", "prompts", "left_out_loops", "length", "lower", "upper"]
    table = macro[[*columns, "prompts_lower", "prompts_upper", "reason"]].join(
        micro[["length", "lower", "upper"]].add_prefix("micro_")
    )
    table = table.reset_index()
    table["subset"] = table["subset"].map(SUBSET_WORD)
    reason = table.pop("reason")
    table["reason"] = reason
    headers = {
        "left_out_loops": "loop problems left out",
        "length": "macro tau",
        "prompts_lower": "prompts alone: lower",
        "prompts_upper": "prompts alone: upper",
        "micro_length": "micro tau",
        "micro_lower": "micro lower",
        "micro_upper": "micro upper",
    }
    notes = [LENGTH_NOTE, DOMAIN_NOTE, interval_note(confidence), _length_note(frame)]
    return Table(table, f"{number}. Acceptance length of each arm", notes, {}, headers)


def _length_note(frame: pd.DataFrame) -> str:
    lengths = sorted(set(frame["draft_length"]))
    return f"Draft length {', '.join(map(str, lengths))}."


def differences(
    frame: pd.DataFrame, *, number: str, role: str, confidence: float, paired: bool = False
) -> Table:
    """Differences between arms, macro with their micro counterpart.

    Args:
        frame: schema block_differences.
        role: reference or baseline.
    """
    own = frame[frame["role"] == role]
    keys = ["mode", "domain", "arm", "against", "subset"]
    macro, micro = (own[own["pooling"] == name].set_index(keys) for name in ("macro", "micro"))
    columns = ["trainings", "prompts", "difference", "lower", "upper", "prompts_lower"]
    columns += ["prompts_upper", "p", "holm_p", "separated", "gain", "reason"]
    table = macro[columns].join(micro[["difference", "lower", "upper"]].add_prefix("micro_"))
    table = table.reset_index()
    table["subset"] = table["subset"].map(SUBSET_WORD)
    table["separated"] = table["separated"].map(YES_NO).fillna("cannot be told")
    reason = table.pop("reason")
    table["reason"] = reason
    signed = ("difference", "lower", "upper", "prompts_lower", "prompts_upper")
    signed += ("micro_difference", "micro_lower", "micro_upper")
    formats = {name: "+.3f" for name in signed} | {"p": ".2g", "holm_p": ".2g", "gain": "+.1f"}
    headers = {
        "prompts_lower": "prompts alone: lower",
        "prompts_upper": "prompts alone: upper",
        "holm_p": "p (Holm)",
        "gain": "gain, %",
        "micro_difference": "micro difference",
        "micro_lower": "micro lower",
        "micro_upper": "micro upper",
    }
    others = ", ".join(dict.fromkeys(own["against"]))
    said = "from baselines without a model" if role == "baseline" else f"from {others}"
    notes = [
        LENGTH_NOTE,
        "Differences are taken prompt by prompt; those without a word are macro, in tokens a round.",
        DOMAIN_NOTE,
        interval_note(confidence, paired),
        (
            "Separated: the interval over trainings and prompts excludes 0. Holm: over the arms and modes "
            "of one comparison, domain and subset."
        ),
    ]
    caption = f"{number}. Differences in acceptance length {said}"
    return Table(table, caption, notes, formats, headers)


def needed(frame: pd.DataFrame, *, number: str, confidence: float) -> Table:
    """What would separate arms that these data do not.

    Args:
        frame: schema block_needed.
    """
    table = frame.copy()
    table["target"] = table["target"].map({"seen": "the difference seen", "asked": "asked for"})
    # Counts are missing where no number would do, and so real numbers in a frame.
    whole = dict.fromkeys(("trainings_needed", "prompts_needed", "factor_needed"), ".0f")
    headers = {
        "training_sd": "spread of trainings",
        "prompt_sd": "spread over prompts",
        "rest_sd": "rest",
        "smallest": "smallest difference found here",
        "target": "difference to find",
        "effect": "its size",
        "trainings_needed": "trainings needed",
        "prompts_needed": "prompts needed",
        "factor_needed": "times as many of both",
    }
    notes = [
        (
            "Found: with a power of 80%, in a two-sided test at level "
            f"{1 - confidence:.2g}. Trainings needed: of each arm, with the prompts at hand; prompts "
            "needed: in all domains of the row together, with the trainings at hand. A dash: no number "
            "of that kind would do, since the other spread alone hides the difference, or the "
            "difference is 0."
        ),
        (
            "Spreads are standard deviations in tokens a round, estimated from few trainings: the "
            "numbers are orders of magnitude. A difference that was seen is itself uncertain, so what "
            "would find it is too."
        ),
    ]
    caption = f"{number}. How much data would separate the arms"
    order = ["mode", "domain", "arm", "against", "trainings", "prompts", "training_sd", "prompt_sd"]
    order += ["rest_sd", "smallest", "target", "effect", *whole, "reason"]
    return Table(table[order], caption, notes, whole | {"effect": "+.3f"}, headers)


def training(
    histories: Mapping[tuple[str, int], pd.DataFrame],
    *,
    number: str,
    network: str,
    backbone: str | None = None,
) -> Table:
    """How each draft was trained and what its held-out texts say.

    Args:
        histories: (arm, training) -> schema block_training_history.
        network: what the drafters are, in a sentence.
        backbone: the arm that the others start from, and are trained on from by unrolled rounds.
    """
    rows = []
    for (arm, number_of, *_), history in histories.items():
        first, best = history.iloc[0], history[history["best"]].iloc[0]
        rows.append(
            {
                "arm": arm,
                "training": number_of,
                "steps": int(history["step"].max()),
                "tokens": int(history["tokens"].max()),
                "kept": int(best["step"]),
                "tau_before": first["held_out_tau"],
                "tau": best["held_out_tau"],
                "estimate": best["held_out_estimate"],
                "surrogate": best["held_out_surrogate"],
            }
        )
    headers = {
        "tokens": "drafted positions visited",
        "kept": "step kept",
        "tau_before": "held-out tau before",
        "tau": "held-out tau",
    }
    notes = [
        (
            "Held-out tau: acceptance length of a greedy replay of texts that no step visits, bonus token "
            "included. It is higher than on the prompts that are measured where those are harder."
        ),
        network,
    ]
    columns = ["arm", "training", "steps", "tokens", "kept", "tau_before", "tau"]
    estimated = [pd.notna(row["estimate"]) for row in rows]
    if any(estimated):
        columns += ["estimate", "surrogate", "reason"]
        headers |= {"estimate": "expected accepted", "surrogate": "the same, by overlaps"}
        notes.append(ESTIMATE_NOTE)
        for row, known in zip(rows, estimated, strict=True):
            row["reason"] = "" if known else "not of a loss that does not read p"
    if backbone is not None:
        notes.append(
            f"Arms other than {backbone}: held-out tau is that of second rounds, tokens of a block that "
            f"follows another one, and not to be set beside that of {backbone}. Their weights are kept "
            "by the least held-out loss, or by tau where the draft's own confidence weighs the loss; by "
            "loss, tau may have been higher at another step."
        )
    frame = pd.DataFrame(rows, columns=columns)
    return Table(frame, f"{number}. How the drafts were trained", notes, {}, headers)
