"""Replay judged by the live loop: the same texts, replayed from their scores.

Given the emitted text, the rounds of a live loop have the law that replay draws from. So each live
text is replayed many times over: this removes the chance of the text from the comparison, and what
is left to chance is the live loop's own acceptance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftscope import seeds
from draftscope.drafters import Proposer
from draftscope.replay import greedy_rounds, proposed_rounds, sampled_rounds
from draftscope.statistics import equivalence, prompts_needed

RoundTable = Mapping[str, np.ndarray]
COMPARED = ("start", "offered", "accepted", "emitted")


@dataclass(frozen=True)
class Replayed:
    """A live text of one draft length, its rounds, and the replays of it.

    `replays` holds one table where nothing is left to chance (greedy decoding, text drafts).
    """

    prompt_id: str
    tokens: int
    live: RoundTable
    replays: Sequence[RoundTable]
    deterministic: bool


def replay_text(
    text: Mapping[str, Any],
    live: RoundTable,
    draft: Mapping[str, Any] | Proposer,
    *,
    greedy: bool,
    replays: int,
    run_seed: int,
    domain: str,
) -> Replayed | None:
    """Replay one live text.

    Args:
        text: a row of schema live_trajectories.
        live: arrays of its rounds (start, offered, accepted, emitted).
        draft: its row of schema live_scores, or the proposer of a text draft.

    Returns:
        None where scoring finds an emitted token excluded: there replay does not apply.
    """
    gamma, tokens = int(text["draft_length"]), np.asarray(text["token_ids"])
    ends = {"budget": text["budget"], "stop_reason": text["stop_reason"]}
    if not isinstance(draft, Mapping):
        table = proposed_rounds(text["prompt_token_ids"], tokens, draft, gamma, **ends)
        tables, certain = [table], True
    elif np.any(draft["target_disagreement"]):
        return None
    elif greedy:
        matches = np.asarray(draft["draft_argmax"]) == tokens
        tables, certain = [greedy_rounds(matches, gamma, **ends)], True
    else:
        key = ("replay of live", run_seed, domain, text["prompt_id"], text["sample"], gamma)
        rng = seeds.generator(*key)
        tables = [
            sampled_rounds(draft["log_p"], draft["log_q"], gamma, rng.random(len(tokens)), **ends)
            for _ in range(replays)
        ]
        certain = False
    return Replayed(str(text["prompt_id"]), len(tokens), live, tables, certain)


def same_rounds(one: RoundTable, other: RoundTable) -> bool:
    """Whether two loops made the same rounds, one for one."""
    return all(np.array_equal(one[name], other[name]) for name in COMPARED)


def compare(
    texts: Sequence[Replayed],
    draft_length: int,
    *,
    margin: float,
    left_out: int = 0,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The columns of schema lossless_replay beyond those that name the row.

    The acceptance length of a text is its tokens / its rounds, live and replayed alike, so that
    both are the same function of the rounds; a prompt is the mean of its texts, and prompts are
    paired. Rounds by accepted tokens are compared by a Monte Carlo test, in which each replay
    stands in for the live loop once: chance within a text and between its rounds is in the
    replays as it is in the live loop.

    Args:
        left_out: live texts that could not be replayed, for the record.
        options: of `statistics.bootstrap` (method, resamples, rng).
    """
    prompts = sorted({text.prompt_id for text in texts})
    counts = {
        "prompts": len(prompts),
        "texts": len(texts),
        "left_out": left_out,
        "margin": margin,
    }
    if not texts:
        reason = "every text was left out" if left_out else "no text"
        return counts | _NOTHING | {"reason": reason}
    live = {name: [] for name in prompts}
    replayed = {name: [] for name in prompts}
    for text in texts:
        live[text.prompt_id].append(text.tokens / len(text.live["accepted"]))
        lengths = [text.tokens / len(table["accepted"]) for table in text.replays]
        replayed[text.prompt_id].append(np.mean(lengths))
    ours = np.array([np.mean(live[name]) for name in prompts])
    theirs = np.array([np.mean(replayed[name]) for name in prompts])
    options = {key: value for key, value in (options or {}).items() if key != "confidence"}
    test = equivalence(ours - theirs, margin, **options)
    certain = texts[0].deterministic
    seen = _histogram([text.live for text in texts], draft_length)
    number = min(len(text.replays) for text in texts)
    drawn = np.array(
        [_histogram([text.replays[i] for text in texts], draft_length) for i in range(number)]
    )
    interval = test.interval
    # Both one-sided tests at .05 with power .9 each reject together with power .8.
    needed = prompts_needed(ours - theirs, margin, level=0.1, power=0.9)
    return counts | {
        "replays": number,
        "live": float(ours.mean()),
        "replayed": float(theirs.mean()),
        "difference": interval.estimate,
        "difference_lower": interval.low,
        "difference_upper": interval.high,
        "p": test.p,
        "prompts_needed": needed,
        "same_rounds": (
            sum(same_rounds(text.live, text.replays[0]) for text in texts) if certain else None
        ),
        "length_p": None if certain else monte_carlo_p(seen, drawn),
        "live_counts": seen.tolist(),
        "replayed_counts": drawn.mean(axis=0).tolist(),
        "reason": _reason(certain, test.reason),
    }


_NOTHING = {
    "replays": 0, "live": None, "replayed": None, "difference": None, "difference_lower": None,
    "difference_upper": None, "p": None, "prompts_needed": None, "same_rounds": None,
    "length_p": None, "live_counts": [], "replayed_counts": [],
}  # fmt: skip


def _reason(certain: bool, of_test: str | None) -> str:
    if certain:
        return "nothing is left to chance given the text: rounds are compared one for one"
    return of_test or "chance is left, so rounds need not agree one for one"


def _histogram(tables: Sequence[RoundTable], draft_length: int) -> np.ndarray:
    accepted = np.concatenate([table["accepted"] for table in tables])
    return np.bincount(accepted, minlength=draft_length + 1)


def monte_carlo_p(seen: np.ndarray, drawn: np.ndarray) -> float:
    """p-value of counts [cells] against counts [draws, cells] that have the law of the null.

    The statistic is Pearson's distance to the mean of all of them, the seen one included, which
    makes the test exact: under the null all are exchangeable.
    """
    everything = np.vstack([seen, drawn]).astype(float)
    mean = everything.mean(axis=0)
    used = mean > 0
    distance = ((everything[:, used] - mean[used]) ** 2 / mean[used]).sum(axis=1)
    return float((distance >= distance[0] - 1e-9).mean())


def greedy_rows(
    texts: Sequence[Mapping[str, Any]], gaps: Mapping[tuple[str, int], np.ndarray]
) -> list[dict[str, Any]]:
    """Every greedy text beside plain decoding: identical, or where and how narrowly they part.

    Args:
        texts: rows of schema live_trajectories of one configuration.
        gaps: (prompt, sample) -> top-2 gaps [tokens] of the plain text, in nats.

    Returns:
        draft_length, prompt_id, tokens, identical, flip, gap, reason.
    """
    plain = {
        (text["prompt_id"], text["sample"]): text for text in texts if not text["draft_length"]
    }
    rows = []
    for text in texts:
        key = (text["prompt_id"], text["sample"])
        if not text["draft_length"] or text["status"] != "ok":
            continue
        ours, theirs = text["token_ids"], plain[key]["token_ids"]
        flip = first_difference(ours, theirs)
        gap = None
        if flip is not None and key in gaps and flip < len(gaps[key]):
            gap = float(gaps[key][flip])
        rows.append(
            {
                "draft_length": int(text["draft_length"]),
                "prompt_id": text["prompt_id"],
                "tokens": len(theirs),
                "identical": flip is None,
                "flip": flip,
                "gap": gap,
                "reason": "identical, so there is no flip"
                if flip is None
                else None
                if gap is not None
                else "the target's logits were not kept",
            }
        )
    return rows


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """First position at which two texts differ; the end of the shorter one counts. None: equal."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return None if len(one) == len(other) else min(len(one), len(other))
