"""What relaxed rules gain in acceptance, and what their texts cost in quality."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from draftscope import answers, seeds
from draftscope.certificate_study.log import Log
from draftscope.certificate_study.relaxed_replay import GREEDY, of_target, replay
from draftscope.certificate_study.resampling import Row, Settings, differences, ratios, said
from draftscope.criteria import Criterion
from draftscope.drafters.model import ModelDraft
from draftscope.live.loop import decode
from draftscope.live.rules import RULES, relaxed
from draftscope.lossless.judgement import Outcome, Subject, goodness_of_fit, row
from draftscope.lossless.markov import pair
from draftscope.lossless.rule_level import emitted, families

Group = dict[str, list[Mapping[str, Any]]]
LIVE, REPLAY = "live", "replay"
FAMILY = "heavy-tailed"
MARKOV_TEXTS, MARKOV_TOKENS, MARKOV_VOCABULARY = 20, 40, 48
COLUMNS = ("acceptance_length", "gain", "log_p", "cost", "own", "right")


def replayed(
    logs: Sequence[Log],
    pair_name: str,
    models: Mapping[str, str],
    rules: Sequence[Criterion],
    gamma: int,
    settings: Settings,
) -> list[Row]:
    """Rows of `certificates_relaxed` with source replay."""
    rows = []
    for domain, log in of_target(logs, models["target"]).items():
        greedy = None
        for name, lossless, tokens, rounds in replay(log, models["draft"], rules, gamma):
            greedy = greedy or (tokens, rounds)
            rows.append(
                _row(pair_name, domain, name, lossless, REPLAY, gamma)
                | {"prompts": log.prompts}
                | _lengths((tokens, rounds), greedy, settings, (REPLAY, pair_name, domain, name))
            )
    return rows


def _row(pair_name, domain, rule, lossless, source, gamma) -> Row:
    empty = {name: None for name in ("same_text", "checked", "reason")}
    for name in COLUMNS:
        empty |= dict.fromkeys((name, f"{name}_lower", f"{name}_upper"))
    return {
        "pair": pair_name,
        "domain": domain,
        "rule": rule,
        "lossless": lossless,
        "source": source,
        "draft_length": gamma,
        **empty,
    }


def _lengths(own, greedy, settings: Settings, names: tuple[str, ...]) -> Row:
    limits = {"acceptance_length": (1.0, np.inf)}
    length, missing = ratios({"acceptance_length": own}, settings, *names, limits=limits)
    gain, more = differences({"gain": (*own, *greedy)}, settings, *names)
    return length | gain | {"reason": said(missing | more)}


def decoded(
    pair_name: str,
    domain: str,
    texts: Sequence[Mapping[str, Any]],
    rounds: Sequence[Mapping[str, Any]],
    prompts: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    settings: Settings,
) -> list[Row]:
    """Rows of `certificates_relaxed` with source live, the greedy rule first.

    Args:
        texts: rows of schema certificate_texts, of several rules on the same prompts.
        rounds: rows of schema rounds, of the same texts.
        prompts: rows of schema prompts; their checkers judge the answers, where they have any.
        options: of the domain's generated problems, by task.
    """
    by_rule: Group = defaultdict(list)
    for text in texts:
        by_rule[text["rule"]].append(text)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for one in rounds:
        counts[one["rule"], one["prompt_id"]] += 1
    asked = {row["prompt_id"]: row for row in prompts}
    judged = {
        rule: [right(asked.get(text["prompt_id"]), text["text"], options) for text in rows]
        for rule, rows in by_rule.items()
    }
    names = list(dict.fromkeys(text["prompt_id"] for text in texts))
    sums = {rule: _sums(rows, counts, names, judged[rule]) for rule, rows in by_rule.items()}
    greedy = {(t["prompt_id"], t["sample"]): list(t["token_ids"]) for t in by_rule[GREEDY]}
    rows = []
    for rule, own in sums.items():
        first, key = by_rule[rule][0], (LIVE, pair_name, domain, rule)
        base = sums[GREEDY]
        columns = {"log_p": "tokens", "own": "tokens"}
        if own["checked"].any():
            columns["right"] = "checked"
        found, missing = ratios(
            {name: (own[name], own[below]) for name, below in columns.items()},
            settings,
            *key,
            limits={"log_p": (-np.inf, 0.0)},
        )
        cost, more = differences(
            {"cost": (own["log_p"], own["tokens"], base["log_p"], base["tokens"])},
            settings,
            *key,
        )
        lengths = _lengths(
            (own["tokens"], own["rounds"]), (base["tokens"], base["rounds"]), settings, key
        )
        same = sum(
            greedy.get((t["prompt_id"], t["sample"])) == list(t["token_ids"]) for t in by_rule[rule]
        )
        rows.append(
            _row(pair_name, domain, rule, first["lossless"], LIVE, first["draft_length"])
            | lengths
            | found
            | cost
            | {
                "prompts": len(names),
                "same_text": same,
                "checked": int(own["checked"].sum()) or None,
                "reason": "; ".join(filter(None, (lengths["reason"], said(missing | more))))
                or None,
            }
        )
    return rows


def right(prompt: Mapping[str, Any] | None, text: str, options: Mapping[str, Any]) -> bool | None:
    """Whether a text answers its prompt rightly; None where no checker says so."""
    if prompt is None or prompt["checker"] not in answers.CHECKERS:
        return None
    return answers.judge(prompt, text, options).correct


def _sums(
    texts: Sequence[Mapping[str, Any]],
    counts: Mapping[tuple[str, str], int],
    prompts: Sequence[str],
    judged: Sequence[bool | None],
) -> dict[str, np.ndarray]:
    place = {prompt: number for number, prompt in enumerate(prompts)}
    out = {name: np.zeros(len(prompts)) for name in
           ("tokens", "rounds", "log_p", "own", "checked", "right")}  # fmt: skip
    for text, verdict in zip(texts, judged, strict=True):
        at = place[text["prompt_id"]]
        out["tokens"][at] += len(text["token_ids"])
        out["log_p"][at] += float(np.sum(text["log_p"]))
        out["own"][at] += int(np.sum(text["greedy"]))
        if verdict is not None:
            out["checked"][at] += 1
            out["right"][at] += verdict
    for prompt, at in place.items():
        out["rounds"][at] = counts[texts[0]["rule"], prompt]
    return out


def equivalence(
    rules: Sequence[Criterion], trials: int, seed: int, level: float
) -> list[dict[str, Any]]:
    """Rows of the schema `lossless_equivalence`: tests of losslessness on relaxed rules.

    Speculative sampling and greedy acceptance have to pass, every relaxed rule has to be caught:
    sampled tokens against the law they must have, and greedy texts of a stochastic matrix against
    plain decoding, bit for bit.

    Args:
        trials: tokens that each rule emits, of a heavy-tailed law p whose draft is halfway to
            another law. With p itself as the draft, a rule that accepts all would go unseen; far
            from p, one that accepts little.
    """
    p, other = families(seed)[FAMILY]
    q = (p + other) / 2
    wrong = [relaxed(criterion) for criterion in rules]
    rows = []
    for rule in (RULES["speculative_sampling"], *wrong):
        rng = seeds.generator("relaxed, draft halfway", seed, rule.name)
        outcome = goodness_of_fit(emitted(rule, p, q, trials, rng), p, level)
        subject = Subject(1, f"{FAMILY}, draft halfway", rule.name, rule.lossless, trials, trials)
        rows.append(row(subject, outcome, level))
    target, draft = pair(MARKOV_VOCABULARY, seed, noise=0.5)
    plain = [_greedy_text(target, None, i, None) for i in range(MARKOV_TEXTS)]
    for rule in (RULES["greedy"], *wrong):
        texts = [_greedy_text(target, draft, i, rule) for i in range(MARKOV_TEXTS)]
        different = sum(a != b for a, b in zip(texts, plain, strict=True))
        tokens = MARKOV_TEXTS * MARKOV_TOKENS
        subject = Subject(2, "greedy texts", rule.name, rule.lossless, MARKOV_TEXTS, tokens)
        reason = (
            f"{different} of {MARKOV_TEXTS} texts differ" if different else "texts are identical"
        )
        rows.append(row(subject, Outcome("identity", rejected=different > 0, reason=reason), level))
    return rows


def _greedy_text(target, draft, number: int, rule) -> list[int]:
    law = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    return decode(
        target,
        ModelDraft(draft, law) if draft is not None else None,
        [number % MARKOV_VOCABULARY, 7 * number % MARKOV_VOCABULARY],
        gamma=4 if draft is not None else 0,
        law=law,
        budget=MARKOV_TOKENS,
        eos_ids=frozenset(),
        rng=seeds.generator("greedy takes nothing from it"),
        rule=rule,
    ).token_ids
