"""Level 2: the whole decoder on stochastic matrices, whose law is known exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from draftscope import seeds
from draftscope.drafters.model import Drafter, ModelDraft, TextDraft
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.live.loop import decode
from draftscope.live.rules import RULES, Rule
from draftscope.lossless.controls import GROSS, MILD
from draftscope.lossless.judgement import Outcome, Subject, row, transitions_fit, two_sample
from draftscope.lossless.markov import MarkovModel, pair

VOCABULARY = 48
T1 = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
GREEDY = T1 | {"temperature": 0.0}
GREEDY_LENGTHS = (1, 2, 4, 8)
GREEDY_TEXTS, GREEDY_TOKENS = 20, 60


def texts(
    target: MarkovModel,
    drafter: Drafter | None,
    gamma: int,
    generations: int,
    tokens: int,
    key: tuple[int | str, ...],
    rule: Rule | None = None,
) -> np.ndarray:
    """Sampled texts [generations, 1 + tokens], each with the one token of its prompt."""
    out = np.empty((generations, 1 + tokens), np.int64)
    for i in range(generations):
        prompt = [i % target.width]
        decoded = decode(
            target,
            drafter,
            prompt,
            gamma=gamma,
            law=T1,
            budget=tokens,
            eos_ids=frozenset(),
            rng=seeds.generator("level 2", *key, i),
            rule=rule,
        )
        out[i] = prompt + decoded.token_ids
    return out


def level2(
    generations: int, tokens: int, draft_length: int, seed: int, level: float
) -> list[dict[str, Any]]:
    """Rows of the schema `lossless_equivalence`.

    Plain decoding and four correct decoders (a model draft, a greedy model draft, prompt lookup,
    and a sampler's match) have to pass; the faulty rules have to be caught. Sampled texts are
    tested transition by transition against the matrix, and against plain decoding as published.
    Greedy texts have to be plain decoding's, bit for bit.

    Args:
        generations: texts of each decoder, correct or faulty.
        tokens: of each text.
    """
    target, draft = pair(VOCABULARY, seed, noise=0.7, order=1)
    law = torch.softmax(target.matrix, -1).numpy()
    speculative, match = RULES["speculative_sampling"], RULES["sampler_match"]
    model = ModelDraft(draft, T1)
    runs: list[tuple[str, Drafter | None, Rule, bool]] = [
        ("model draft", model, speculative, True),
        ("greedy model draft", ModelDraft(draft, GREEDY), speculative, True),
        ("prompt lookup", TextDraft(PromptLookup(), "lookup"), speculative, True),
        ("sampler's match", model, match, True),
        *(("model draft", model, rule, False) for rule in (*GROSS.values(), MILD)),
    ]

    def judged(name, emitted, rule, correct, *outcomes: Outcome) -> list[dict[str, Any]]:
        subject = Subject(2, name, rule.name, correct, len(emitted), emitted[:, 1:].size)
        return [row(subject, outcome, level) for outcome in outcomes]

    plain = texts(target, None, 0, generations, tokens, (seed, "plain"))
    frequencies = np.bincount(plain[:, 1:].ravel(), minlength=VOCABULARY)
    fit = transitions_fit(_transitions(plain), law, level)
    rows = judged("plain decoding", plain, speculative, True, fit)
    for name, drafter, rule, correct in runs:
        key = (seed, name, rule.name)
        emitted = texts(target, drafter, draft_length, generations, tokens, key, rule)
        own = np.bincount(emitted[:, 1:].ravel(), minlength=VOCABULARY)
        fit = transitions_fit(_transitions(emitted), law, level)
        rows += judged(name, emitted, rule, correct, fit, two_sample(own, frequencies, level))
    return rows + [_greedy(gamma, seed, level) for gamma in GREEDY_LENGTHS]


def _transitions(texts: np.ndarray) -> np.ndarray:
    counts = np.zeros((VOCABULARY, VOCABULARY))
    np.add.at(counts, (texts[:, :-1].ravel(), texts[:, 1:].ravel()), 1)
    return counts


def _greedy(gamma: int, seed: int, level: float) -> dict[str, Any]:
    """Greedy texts of second-order matrices, so that a cache a token off gives another text."""
    target, draft = pair(VOCABULARY, seed, noise=0.5)
    drafter = ModelDraft(draft, GREEDY)
    different = 0
    for i in range(GREEDY_TEXTS):
        prompt = [i, (7 * i) % VOCABULARY]

        def decoded(drafter: Drafter | None, gamma: int, prompt=prompt) -> list[int]:
            return decode(
                target,
                drafter,
                prompt,
                gamma=gamma,
                law=GREEDY,
                budget=GREEDY_TOKENS,
                eos_ids=frozenset(),
                rng=seeds.generator("greedy takes nothing from it"),
            ).token_ids

        different += decoded(drafter, gamma) != decoded(None, 0)
    subject = Subject(2, "model draft", "greedy", True, GREEDY_TEXTS, GREEDY_TEXTS * GREEDY_TOKENS)
    reason = f"{different} of {GREEDY_TEXTS} texts differ" if different else "texts are identical"
    return row(subject, Outcome(f"greedy, K={gamma}", rejected=different > 0, reason=reason), level)
