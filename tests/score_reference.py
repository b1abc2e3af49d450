"""Scores from their definitions: full softmax in float64, transformers' own warpers, plain loops."""

import numpy as np
import pytest
import torch
from draftscope.models.vocabulary import align
from draftscope.scoring import score
from scipy import stats
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

EXACT = {"target_argmax", "draft_argmax", "draft_rank"}


def scored(target, drafts, rows, laws, **options):
    """`score` with its rows by prompt, draft and law."""
    drafts = [(d, align(target, d)) for d in drafts]
    result = score(target, drafts, rows, laws, **options)
    return {(r["prompt_id"], r["draft"], r["law"]): r for r in result}


def warped(raw, law):
    """log-probabilities by transformers' own warpers, one position [V] in float64."""
    if law["temperature"] == 0:
        out = np.full(len(raw), -np.inf)
        out[np.argmax(raw)] = 0.0
        return out
    warpers = LogitsProcessorList([TemperatureLogitsWarper(law["temperature"])])
    if law["top_k"]:
        warpers.append(TopKLogitsWarper(law["top_k"]))
    if law["top_p"] < 1:
        warpers.append(TopPLogitsWarper(law["top_p"]))
    return torch.log_softmax(warpers(None, torch.tensor(raw)[None]), -1)[0].numpy()


def reference(raw_p, raw_q, token, law, masked=()):
    """Every column at one position from the definitions alone."""
    V, W = len(raw_p), len(raw_q)
    raw_q = raw_q.copy()
    raw_q[list(masked)] = -np.inf
    log_p, log_q = np.full(max(V, W), -np.inf), np.full(max(V, W), -np.inf)
    log_p[:V], log_q[:W] = warped(raw_p, law), warped(raw_q, law)
    p, q = np.exp(log_p), np.exp(log_q)
    emittable = [v for v in range(max(V, W)) if v < W and v not in masked]
    best = int(np.argmax(raw_p))
    of_best = raw_q[best] if best < W else -np.inf
    top = np.sort(raw_p)[::-1]
    return {
        "log_p": log_p[token],
        "log_q": log_q[token],
        "overlap": sum(min(a, b) for a, b in zip(p, q, strict=True)),
        "target_entropy": stats.entropy(p),
        "draft_entropy": stats.entropy(q),
        "kl": sum(p[v] * (log_p[v] - log_q[v]) for v in emittable if p[v] > 0),
        "log_q_target_argmax": log_q[best],
        "top2_gap": top[0] - top[1],
        "target_argmax": best,
        "draft_argmax": int(np.argmax(raw_q)),
        "draft_rank": sum(raw_q[v] >= of_best for v in range(W) if v != best),
        "uncommon_mass": sum(p[v] for v in range(V) if v not in emittable),
    }


def whole_logits(loaded, row):
    ids = torch.tensor([row["prompt_token_ids"] + row["token_ids"]])
    with torch.inference_mode():
        out = loaded.model(ids).logits[0].double().numpy()
    return out[len(row["prompt_token_ids"]) - 1 : -1]


def check_against_reference(target, draft, rows, found, laws, masked=()):
    for row in rows:
        ours, theirs = whole_logits(target, row), whole_logits(draft, row)
        for name, law in laws.items():
            columns = found[row["prompt_id"], draft.name, name]
            for t, token in enumerate(row["token_ids"]):
                wanted = reference(ours[t], theirs[t], token, law, masked)
                for key, value in wanted.items():
                    got = columns[key][t]
                    if key in EXACT:
                        assert got == value, (name, key, t)
                    else:
                        assert got == pytest.approx(value, rel=2e-5, abs=2e-6), (name, key, t)
