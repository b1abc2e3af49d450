"""Relaxed acceptance in the live loop: what it accepts, and that no test takes it for lossless."""

import numpy as np
import pytest
import torch
from draftscope.certificate_study.relaxed import equivalence
from draftscope.criteria import Criterion
from draftscope.drafters.model import Block, ModelDraft
from draftscope.live import RULES, decode
from draftscope.live.rules import relaxed
from draftscope.lossless.markov import pair
from draftscope.seeds import generator
from scipy import special

RELAXED = [
    Criterion("additive", t=0.3),
    Criterion("multiplicative", a=0.3),
    Criterion("top_m_additive", m=2, t=0.4),
    Criterion("typical", epsilon=0.1, delta=0.09),
]
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
T1 = GREEDY | {"temperature": 1.0}


def named(criterion):
    return criterion.label


@pytest.mark.parametrize("law", [GREEDY, T1, GREEDY | {"temperature": 0.6}], ids=["0", "1", ".6"])
@pytest.mark.parametrize("criterion", RELAXED, ids=named)
def test_a_token_stands_where_its_probability_passes_the_threshold(criterion, law):
    rng = np.random.default_rng(5)
    rule = relaxed(criterion)
    for _ in range(60):
        logits = torch.from_numpy(2 * rng.normal(size=(4, 6)))
        ids = torch.from_numpy(rng.integers(0, 7, 3))  # 6 is an id that the target does not have
        accepted, following = rule.test(Block(ids), logits, law, generator("relaxed"), None)
        p = torch.softmax(logits / (law["temperature"] or 1.0), -1).numpy()
        top, entropy = np.sort(p, -1)[:, ::-1], special.entr(p).sum(-1)
        passes = [
            token < 6 and p[i, token] > criterion.threshold(top, entropy)[i]
            for i, token in enumerate(ids.tolist())
        ]
        wanted = passes.index(False) if False in passes else 3
        assert accepted == wanted
        if law is GREEDY:
            assert following == int(logits[accepted].argmax())


def test_what_tests_no_single_token_is_no_rule_of_a_chain():
    for criterion in (Criterion("strict"), Criterion("tree", m=2)):
        with pytest.raises(ValueError, match="no relaxed rule"):
            relaxed(criterion)


@pytest.mark.parametrize("criterion", RELAXED, ids=named)
def test_acceptance_is_gained_and_the_text_is_another(criterion):
    target, draft = pair(24, 3, noise=0.8)
    found = {}
    for rule in (RULES["greedy"], relaxed(criterion)):
        texts = [
            decode(
                target, ModelDraft(draft, GREEDY), [i, i + 1], gamma=4, law=GREEDY, budget=40,
                eos_ids=frozenset(), rng=generator("unused"), rule=rule,
            )
            for i in range(8)
        ]  # fmt: skip
        found[rule.lossless] = texts
        assert rule.lossless == (rule.name == "greedy")
    rounds = {key: sum(len(text.rounds) for text in texts) for key, texts in found.items()}
    assert rounds[False] < rounds[True]
    same = [a.token_ids == b.token_ids for a, b in zip(found[True], found[False], strict=True)]
    assert not all(same)


def test_the_tests_of_losslessness_reject_every_relaxed_rule_and_pass_the_others():
    rows = equivalence(RELAXED, 3000, 7, 0.01)
    assert {row["rule"] for row in rows if row["correct"]} == {"speculative_sampling", "greedy"}
    for row in rows:
        assert row["rejected"] != row["correct"], row


def test_rules_that_accept_almost_everything_or_nothing_are_caught_too():
    extremes = [
        Criterion("additive", t=0.5),
        Criterion("additive", t=1.0),
        Criterion("multiplicative", a=1e-9),
        Criterion("multiplicative", a=0.99),
        Criterion("top_m_additive", m=1, t=0.3),
    ]
    for row in equivalence(extremes, 3000, 0, 0.01):
        if row["test"] == "goodness of fit":
            assert row["rejected"] != row["correct"], row
