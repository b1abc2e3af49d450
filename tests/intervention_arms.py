"""Small arms of the interventions study: rounds, answers, scores and texts with planted effects."""

import numpy as np
from draftscope import records
from draftscope.interventions import match
from draftscope.interventions.diagnostics import Texts
from draftscope.interventions.lengths import Protocol, Source

PROTOCOL = Protocol(confidence=0.95, resamples=300, method="studentized", seed=7)
ARMS = {"base": ("pb", "b"), "even": ("pe", "e"), "odd": ("po", "o")}
KEY = {"domain": "math", "mode": "warm", "decoding": "sample"}


def write_source(folder, arm: str, mode: str, rounds: dict[str, list[int]], loops=()) -> Source:
    """An arm whose rounds emit these numbers of tokens, by prompt."""
    paths = {name: str(folder / f"{name}-{arm}-{mode}.parquet") for name in ("rounds", "expected")}
    paths["loops"] = str(folder / f"loops-{mode}.parquet")
    rows, expected, looped = [], [], []
    for prompt, emitted in rounds.items():
        key = {"prompt_id": prompt, "sample": 0}
        for number, count in enumerate(emitted):
            rows.append(
                key
                | {"draft_length": 5, "source": "replay", "rule": "greedy", "lossless": True}
                | {"round": number, "start": sum(emitted[:number]), "offered": 5}
                | {"accepted": count - 1, "emitted": count, "end": "continue"}
            )
        total = sum(emitted)
        expected.append(
            key
            | {"draft_length": 5, "tokens": total, "expected_rounds": len(emitted) + 0.5}
            | {"expected_accepted": 1.0, "expected_offered": 5.0, "accept_prob_mean": 0.5}
            | {"acceptance_length": total / (len(emitted) + 0.5)}
        )
        looped.append(
            key
            | {"tokens": total, "looped": prompt in loops, "loop_problem": prompt in loops}
            | dict.fromkeys(("onset", "period", "repeats", "kind"))
        )
    for name, content in (("rounds", rows), ("expected", expected), ("loops", looped)):
        records.write(paths[name], content, name, {"mode": mode})
    temperature = 0.0 if mode == "cold" else 0.7
    return Source(arm, f"pair-{arm}", "math", mode, temperature, **paths)


def three_arms(folder) -> list[Source]:
    """Arms base, even and odd on nine prompts in two modes; prompt p3 loops."""
    numbers = np.random.default_rng(1)
    prompts = [f"p{i}" for i in range(9)]
    sources = []
    for mode in ("cold", "warm"):
        for arm, shift in (("base", 0), ("even", 1), ("odd", 1)):
            rounds = {
                p: (numbers.integers(1, 6, 6) + (shift if i % 2 else 0)).tolist()
                for i, p in enumerate(prompts)
            }
            sources.append(write_source(folder, arm, mode, rounds, loops=("p3",)))
    return sources


def chosen(rows, **values) -> list[dict]:
    return [row for row in rows if all(row[k] == v for k, v in values.items())]


def answers(right: dict[str, list[int]], mode: str = "warm") -> list[dict]:
    """By arm: which of the prompts it answers right."""
    return [
        {"prompt_id": f"p{i}", "sample": 0, "arm": arm, "domain": "math", "mode": mode}
        | {"correct": bool(value), "tokens_sha256": f"{arm if value else 'same'}"}
        for arm, values in right.items()
        for i, value in enumerate(values)
    ]


def planted(prompts: int = 20, each: int = 40) -> Texts:
    """The arm `odd` accepts .2 more at triggers, and as much as the control elsewhere."""
    numbers = np.random.default_rng(5)
    size = prompts * each
    prompt = np.repeat(np.arange(prompts), each)
    reflection = numbers.random(size) < 0.15
    plain = numbers.uniform(0.2, 0.7, size)
    accept = {"e": plain, "o": plain + 0.2 * reflection, "b": plain - 0.05}
    entropy = numbers.exponential(size=size)
    return Texts([f"p{i}" for i in range(prompts)], prompt, entropy, reflection, accept)


def score_rows(drafts: dict[str, list[int]], emitted: list[int], prompt: str = "a") -> list[dict]:
    """Rows of schema scores under two laws; by draft its argmax at each position."""
    count = len(emitted)
    zeros = np.zeros(count, np.float32)
    columns = ("overlap", "draft_entropy", "kl", "log_q_target_argmax", "top2_gap", "uncommon_mass")
    return [
        {"prompt_id": prompt, "sample": 0, "draft": draft, "law": law, "token_ids": emitted}
        | dict.fromkeys(columns, zeros)
        | {"log_p": zeros - 0.5, "log_q": zeros - 1.5, "target_entropy": zeros + 2}
        | {"target_argmax": emitted, "draft_argmax": argmax, "draft_rank": [0] * count}
        | {"target_disagreement": [False] * (count - 1) + [law == "decoding"]}
        for draft, argmax in drafts.items()
        for law in ("decoding", "unwarped")
    ]


def matches(folder):
    """What the study of matches finds, and its files.

    Six prompts of ten tokens: 2 match before, 4 after (5 in one); one prompt loops.
    """
    emitted = list(range(10))
    rows = []
    for i in range(6):
        after = 5 if i == 0 else 4
        guesses = {"u": 2, "d": after}
        rows += score_rows(
            {n: emitted[:k] + [99] * (10 - k) for n, k in guesses.items()}, emitted, f"p{i}"
        )
    records.write(folder / "s.parquet", rows, "scores", {})
    write_source(folder, "x", "cold", {f"p{i}": [10] for i in range(6)}, loops=("p5",))
    paths, loops = {"math": [folder / "s.parquet"]}, {"math": folder / "loops-cold.parquet"}
    return match.study(paths, loops, ("u", "d"), "cold", 0.1, PROTOCOL), paths, loops
