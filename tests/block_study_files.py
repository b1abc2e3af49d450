"""Planted measurements of block drafters: rounds, loops, timings, probes and learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import draftscope.block_training.schemas
import draftscope.live.tables
import draftscope.lossless.live_schemas  # noqa: F401
import numpy as np
from draftscope import records

GAMMA = 4
MODES = {"greedy": 0.0, "warm": 0.7}


@dataclass(frozen=True)
class Plan:
    """Acceptance probability of a slot by arm; spread over prompts and over trainings."""

    rates: Mapping[str, float]
    trainings: int = 2
    domains: tuple[str, ...] = ("math", "chat")
    prompts: int = 12
    tokens: int = 60
    prompt_sd: float = 0.08
    training_sd: float = 0.02
    baselines: tuple[str, ...] = ()


def accepted_rounds(
    rng: np.random.Generator, rate: float, tokens: int
) -> list[tuple[int, int, int]]:
    """(offered, accepted, emitted) of the rounds of one text, by the rules of a loop with a budget."""
    found, start = [], 0
    while start < tokens:
        offered = min(GAMMA, tokens - start)
        hits = rng.random(offered) < rate
        accepted = int(offered if hits.all() else hits.argmin())
        emitted = min(accepted + 1, tokens - start)
        found.append((offered, accepted, emitted))
        start += emitted
    return found


def rows_of(prompt: str, rounds: list[tuple[int, int, int]], source: str) -> list[dict]:
    start, rows = 0, []
    for number, (offered, accepted, emitted) in enumerate(rounds):
        row = {"prompt_id": prompt, "sample": 0, "draft_length": GAMMA, "source": source}
        row |= {"rule": "exact_match", "lossless": True, "round": number, "start": start}
        row |= {"offered": offered, "accepted": accepted, "emitted": emitted, "end": "continue"}
        rows.append(row)
        start += emitted
    return rows


def timing_rows(prompt: str, rounds, draft_length: int, pace: float, repeats: int) -> list[dict]:
    """Each pass of a round takes `pace` seconds, drafting a tenth of that."""
    start, rows = 0, []
    for number, (_, _, emitted) in enumerate(rounds):
        for repeat in range(repeats):
            row = {"prompt_id": prompt, "sample": 0, "draft_length": draft_length}
            row |= {"repeat": repeat, "round": number, "start": start, "emitted": emitted}
            row |= {"verify_tokens": draft_length + 1, "verify_seconds": pace}
            row |= {"draft_seconds": pace / 10 if draft_length else 0.0}
            rows.append(row | {"sample_seconds": 0.0, "other_seconds": 0.0})
        start += emitted
    return rows


def text_row(prompt: str, tokens: int, draft_length: int, looped: bool) -> dict:
    ids = [1, 2] * (tokens // 2) if looped else list(range(3, tokens + 3))
    row = {"prompt_id": prompt, "sample": 0, "draft_length": draft_length, "status": "ok"}
    row |= {"reason": None, "prompt_token_ids": [1], "token_ids": ids, "budget": tokens}
    row |= {"stop_reason": "budget", "stop_token_id": None, "rendered_sha256": "", "text": ""}
    return row


def loop_row(prompt: str, tokens: int, looped: bool) -> dict:
    row = {"prompt_id": prompt, "sample": 0, "tokens": tokens, "looped": looped}
    return row | {"loop_problem": looped} | dict.fromkeys(("onset", "period", "repeats", "kind"))


def write(folder: Path, plan: Plan, seed: int = 0) -> list[tuple[dict, dict]]:
    """Write every file of every arm; returns the sources with their paths.

    Prompt 0 of each domain is a loop problem.
    """
    # Looking up versions and the commit for each of some hundred files would take seconds.
    with mock.patch.object(records, "_general_provenance", dict):
        return _written(folder, plan, seed)


def _written(folder: Path, plan: Plan, seed: int) -> list[tuple[dict, dict]]:
    rng, found = np.random.default_rng(seed), []
    arms = {**plan.rates}
    effects = {
        (arm, number): 0.0 if arm in plan.baselines else rng.normal(0, plan.training_sd)
        for arm in arms
        for number in range(1, plan.trainings + 1)
    }
    for mode, temperature in MODES.items():
        for domain in plan.domains:
            names = [f"{domain}-{n:02d}" for n in range(plan.prompts)]
            shift = dict(zip(names, rng.normal(0, plan.prompt_sd, len(names)), strict=True))
            loops = folder / f"{domain}-{mode}-loops.parquet"
            rows = [loop_row(name, plan.tokens, name == names[0]) for name in names]
            records.write(loops, rows, "loops", {"mode": mode})
            for arm, rate in arms.items():
                numbers = [0] if arm in plan.baselines else range(1, plan.trainings + 1)
                for number in numbers:
                    stem = f"{arm}-{number}-{domain}-{mode}"
                    own = {
                        name: accepted_rounds(
                            rng,
                            float(
                                np.clip(rate + shift[name] + effects.get((arm, number), 0), 0, 1)
                            ),
                            plan.tokens,
                        )
                        for name in names
                    }
                    source = {"arm": arm, "pair": f"{arm}-{number}", "training": number}
                    source |= {"domain": domain, "mode": mode, "temperature": temperature}
                    found.append((source, _files(folder, stem, own, plan, loops, rng)))
    return found


def _files(folder: Path, stem: str, own, plan: Plan, loops: Path, rng) -> dict[str, str]:
    condition = {"mode": stem.rsplit("-", 1)[1], "draft": stem}
    paths = {
        name: str(folder / f"{stem}-{name}.parquet")
        for name in ("rounds", "texts", "timings", "probes")
    }
    plain = [(0, 0, 1)] * plan.tokens
    rounds, texts, timings, probes = [], [], [], []
    for place, (name, each) in enumerate(own.items()):
        rounds += rows_of(name, each, "live")
        for gamma in (0, GAMMA):
            texts.append(text_row(name, plan.tokens, gamma, place == 0))
        timings += timing_rows(name, plain, 0, 0.010, 2) + timing_rows(name, each, GAMMA, 0.012, 2)
        for number, (_, accepted, _) in enumerate(each):
            for slot in range(accepted + 2, GAMMA + 1):
                row = {"prompt_id": name, "sample": 0, "round": number, "slot": slot}
                row |= {"first_rejected": accepted + 1, "rank": int(rng.geometric(0.3))}
                row |= {"cosine_true": rng.normal(0.35, 0.1), "cosine_random": rng.normal(0.1, 0.1)}
                probes.append(row)
    records.write(paths["rounds"], rounds, "rounds", condition)
    records.write(paths["texts"], texts, "live_trajectories", condition)
    records.write(paths["timings"], timings, "live_timings", condition)
    records.write(paths["probes"], probes, "probes", condition)
    return paths | {"loops": str(loops)}


def write_history(path: Path, draft: str, best: float) -> str:
    """A learning curve that rises to `best` at its last look but one."""
    rows = []
    for look, tau in enumerate((1.0, 0.6 * best + 0.4, best, 0.99 * best)):
        row = {"step": 50 * look, "tokens": 4000 * look, "held_out_tau": tau, "best": look == 2}
        expected = {"held_out_estimate": tau - 0.9, "held_out_surrogate": tau - 0.8}
        row |= expected if "dpal" in draft else dict.fromkeys(expected)
        row |= {"training_loss": None if not look else 5 - look, "held_out_loss": 5.5 - look}
        rows.append(row | {"rate": 0.001})
    records.write(path, rows, "block_training_history", {"draft": draft})
    return str(path)
