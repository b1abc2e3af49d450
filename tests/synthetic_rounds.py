"""Synthetic texts, rounds and scores with known acceptance, written as the real files are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from draftscope import records

Rate = Callable[[np.ndarray], np.ndarray]  # relative positions in [0, 1) -> acceptance


def write_run(
    folder: Path,
    rate: Rate,
    *,
    prompts: int = 40,
    length: int | tuple[int, int] = (150, 192),
    budget: int = 192,
    gamma: int = 5,
    samples: int = 1,
    looping: int = 0,
    loop_rate: float = 1.0,
    seed: int = 0,
    spread: float = 0.0,
    draft: str = "draft",
    domain: str = "math",
    mode: str = "sample",
    scores: bool = True,
    shards: int = 2,
) -> dict[str, list[str] | str]:
    """Files of one configuration: rounds, loops, scores.

    Args:
        looping: the first so many prompts run to the budget and repeat from half of it on, with
            acceptance `loop_rate` there.
        spread: standard deviation of a shift of the rate by prompt.
    """
    rng = np.random.default_rng(seed)
    rounds, loops, positions = [], [], []
    for prompt in range(prompts):
        shift = rng.normal(0, spread)
        for sample in range(samples):
            key = {"prompt_id": f"p{prompt:04d}", "sample": sample}
            loops_here = prompt < looping
            tokens = budget if loops_here or isinstance(length, int) else int(rng.integers(*length))
            tokens = length if isinstance(length, int) and not loops_here else tokens
            accept = np.clip(rate(np.arange(tokens) / max(tokens, 1)) + shift, 0, 1)
            onset = tokens // 2 if loops_here else None
            if loops_here:
                accept[onset:] = loop_rate
            by_budget = tokens == budget
            rounds += _rounds(key, accept, gamma, by_budget, rng)
            loops.append(
                key
                | {
                    "tokens": tokens,
                    "looped": loops_here,
                    "onset": onset,
                    "period": 4 if loops_here else None,
                    "repeats": (tokens - onset) / 4 if loops_here else None,
                    "kind": "text" if loops_here else None,
                    "loop_problem": loops_here,
                }
            )
            positions.append((key, accept))
    condition = {"target": "target", "domain": domain, "mode": mode, "law": {"temperature": 0.6}}
    folder.mkdir(parents=True, exist_ok=True)
    paths = {"rounds": f"{folder}/rounds.parquet", "loops": f"{folder}/loops.parquet"}
    records.write(paths["rounds"], rounds, "rounds", condition | {"draft": draft})
    records.write(paths["loops"], loops, "loops", condition)
    paths["scores"] = []
    if scores:
        for shard, part in enumerate(np.array_split(np.arange(len(positions)), shards)):
            path = f"{folder}/scores{shard}.parquet"
            rows = [_scores(*positions[place], draft) for place in part]
            records.write(path, rows, "scores", condition)
            paths["scores"].append(path)
    return paths


def _rounds(key, accept, gamma, by_budget, rng) -> list[dict]:
    tokens, start, rows = len(accept), 0, []
    matched = rng.random(tokens) < accept
    while start < tokens:
        left = tokens - start
        offered = min(gamma, left) if by_budget else gamma
        ahead = matched[start : start + offered]
        accepted = len(ahead) if ahead.all() else int(ahead.argmin())
        emitted = min(accepted + 1, left)
        if start + emitted < tokens:
            end = "continue"
        else:
            end = "budget" if by_budget else "eos"
            if end == "eos" and accepted == left:
                offered = accepted  # an accepted end of text takes back the offer beyond it
        rows.append(
            key
            | {
                "draft_length": gamma,
                "source": "replay",
                "rule": "speculative_sampling",
                "lossless": True,
                "round": len(rows),
                "start": start,
                "offered": offered,
                "accepted": accepted,
                "emitted": emitted,
                "end": end,
            }
        )
        start += emitted
    return rows


def _scores(key, accept, draft) -> dict:
    with np.errstate(divide="ignore"):
        log_q = np.log(accept) - 1.0
    zeros, count = [0.0] * len(accept), [0] * len(accept)
    row = key | {"draft": draft, "law": "decoding", "token_ids": count}
    row |= {"log_p": [-1.0] * len(accept), "log_q": log_q.tolist()}
    row |= dict.fromkeys(("overlap", "target_entropy", "draft_entropy", "kl"), zeros)
    row |= {"log_q_target_argmax": (log_q + 1.0).tolist()}
    row |= dict.fromkeys(("top2_gap", "uncommon_mass"), zeros)
    row |= dict.fromkeys(("target_argmax", "draft_argmax", "draft_rank"), count)
    return row | {"target_disagreement": [False] * len(accept)}
