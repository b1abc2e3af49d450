"""Files of one configuration with token types, written as the workflow writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import draftscope.tokens.schemas  # noqa: F401
import numpy as np
from draftscope import records
from draftscope.position.texts import Source
from draftscope.tokens.typist import Typist
from token_lists import LISTS, byte_level

CONDITION = {"target": "target", "target_revision": "r", "domain": "math"}
SENTENCES = (
    "So 12 + 30 = 42. Wait, that is wrong.",
    "However, we check it: x = 3, and hold on.",
    "The number is 7. It is fine, I know.",
    "But $x^2 = 9$ so we check again.",
)


def write(
    folder: Path, *, prompts: int = 8, mode: str = "sample", lookup: bool = False, seed: int = 0
) -> tuple[Source, Typist]:
    """Texts with random scores; of prompt lookup no scores are written."""
    rng = np.random.default_rng(seed)
    tokenizer = byte_level()
    typist = Typist(tokenizer, LISTS)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder / "weights")
    law = {"temperature": 0.6 if mode == "sample" else 0.0, "top_k": 0, "top_p": 1.0}
    condition = CONDITION | {"mode": mode, "law": law}
    trajectories, types, scores, loops = [], [], [], []
    for prompt in range(prompts):
        text = " ".join(SENTENCES[(prompt + n) % len(SENTENCES)] for n in range(1 + prompt % 3))
        ids = tokenizer.encode(text, add_special_tokens=False)
        key = {"prompt_id": f"p{prompt}", "sample": 0}
        problem = prompt == prompts - 1
        trajectories.append(_trajectory(key, ids))
        typed = typist.sequence(ids)
        types.append(
            key
            | {
                name: getattr(typed, name)
                for name in ("type", "initial", "whole", "region", "trigger")
            }
        )
        scores += [
            _scores(key, ids, each, len(tokenizer), rng) for each in ("decoding", "unwarped")
        ]
        loops.append(key | {
            "tokens": len(ids), "looped": problem, "onset": len(ids) // 2 if problem else None,
            "period": 2 if problem else None, "repeats": 3.0 if problem else None,
            "kind": "text" if problem else None, "loop_problem": problem,
        })  # fmt: skip
    paths = {
        name: str(folder / f"{name}.parquet")
        for name in ("trajectories", "types", "loops", "scores")
    }
    records.write(paths["trajectories"], trajectories, "trajectories", condition)
    lists = {name: list(value) if not isinstance(value, str) else value for name, value in vars(LISTS).items()
             if name in LISTS.__dataclass_fields__}  # fmt: skip
    lists["operator_commands"] = sorted(lists["operator_commands"])
    records.write(paths["types"], types, "token_types", condition | {"token_lists": lists})
    records.write(paths["loops"], loops, "loops", condition)
    if not lookup:
        records.write(paths["scores"], scores, "scores", condition)
    return (
        Source(
            label="xfam" if lookup else "same",
            pair="lookup-pair" if lookup else "pair",
            draft="draft",
            domain="math",
            mode=mode,
            temperature=law["temperature"],
            draft_settings={"kind": "prompt_lookup", "max_ngram": 2, "min_ngram": 1}
            if lookup
            else {},
            model=str(folder / "weights"),
            types=paths["types"],
            loops=paths["loops"],
            trajectories=(paths["trajectories"],),
            scores=() if lookup else (paths["scores"],),
        ),
        typist,
    )


def _trajectory(key: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    return key | {
        "status": "ok", "reason": None, "prompt_token_ids": ids[:6], "token_ids": ids,
        "budget": len(ids), "stop_reason": "budget", "stop_token_id": None,
        "rendered_sha256": "0" * 64, "text": "",
    }  # fmt: skip


def _scores(key, ids, law, size, rng) -> dict[str, Any]:
    tokens = len(ids)
    said = np.where(rng.random(tokens) < 0.6, ids, rng.integers(0, size, tokens))
    log_p, log_q = np.log(rng.uniform(0.2, 1, tokens)), np.log(rng.uniform(0.1, 1, tokens))
    return key | {
        "draft": "draft", "law": law, "token_ids": ids, "log_p": log_p, "log_q": log_q,
        "overlap": rng.uniform(0, 1, tokens), "target_entropy": rng.gamma(1.0, 1.0, tokens),
        "draft_entropy": rng.gamma(1.0, 1.0, tokens), "kl": rng.gamma(1.0, 1.0, tokens),
        "log_q_target_argmax": np.log(rng.uniform(0.1, 1, tokens)),
        "top2_gap": rng.gamma(1.0, 1.0, tokens), "target_argmax": ids, "draft_argmax": said,
        "draft_rank": np.zeros(tokens, dtype=int), "uncommon_mass": np.zeros(tokens),
        "target_disagreement": rng.random(tokens) < 0.02,
    }  # fmt: skip
