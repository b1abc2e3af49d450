"""The loop on models whose law is known exactly: what it emits, and faults that must be seen."""

from collections import Counter

import numpy as np
import pytest
import torch
from draftscope import sampling
from draftscope.drafters.model import Block, ModelDraft
from draftscope.live import RULES, decode
from draftscope.lossless.controls import CONTROL, GROSS
from draftscope.lossless.markov import MarkovModel, pair
from draftscope.seeds import generator
from scipy.stats import chi2, chi2_contingency, chisquare

PROMPT = [1, 0]
T1 = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}


def long_text(target, drafter, gamma, *, law=T1, tokens=3000, rule=None, key="law"):
    return decode(
        target,
        drafter,
        PROMPT,
        gamma=gamma,
        law=law,
        budget=tokens,
        eos_ids=frozenset(),
        rng=generator(key, gamma),
        rule=rule,
    )


def transitions(token_ids, width):
    """Counts [V, V, V] of each token after each two tokens, the prompt's among them."""
    text = np.array(PROMPT + list(token_ids))
    out = np.zeros((width,) * 3)
    np.add.at(out, (text[:-2], text[1:-1], text[2:]), 1)
    return out


def fits(observed, target, law=T1):
    """p-value of Pearson's test of transitions [V, V, V] against the target's law.

    Given its context each token is a draw from a known law; tokens rare in a context are pooled
    there, so that each cell expects at least five.
    """
    statistic, freedom = 0.0, 0
    for context in np.ndindex(observed.shape[:2]):
        count = observed[context]
        wanted = sampling.law(target.logits(list(context)), **law)[0].numpy() * count.sum()
        assert not count[wanted == 0].any()
        order = np.argsort(wanted)
        rare = int(np.searchsorted(np.cumsum(wanted[order]), 5.0)) + 1
        groups = [order[:rare], *([i] for i in order[rare:])]
        if len(groups) > 1:
            seen, due = (np.array([x[g].sum() for g in groups]) for x in (count, wanted))
            statistic += ((seen - due) ** 2 / due).sum()
            freedom += len(groups) - 1
    return chi2.sf(statistic, freedom)


def fit_of(rule=None, gamma=3, target_key=1, law=T1, draft_law=T1, key="law", drafter=ModelDraft):
    target, draft = pair(4, target_key)
    decoded = long_text(target, drafter(draft, draft_law), gamma, law=law, rule=rule, key=key)
    return fits(transitions(decoded.token_ids, 4), target, law)


@pytest.mark.parametrize("gamma", [0, 1, 2, 4, 8])
def test_the_loop_emits_the_law_of_the_target(gamma):
    assert fit_of(gamma=gamma) > 1e-3


@pytest.mark.parametrize(
    ("target_law", "draft_law"),
    [
        ((0.6, 0, 1.0), (0.6, 0, 1.0)),
        ((1.0, 3, 0.9), (1.0, 3, 0.9)),
        ((1.0, 2, 1.0), (1.5, 0, 0.8)),  # each side its own law
        ((1.0, 0, 1.0), (0.0, 0, 1.0)),  # a greedy draft
    ],
)
def test_case_39_any_decoding_law_on_either_side_keeps_the_target_law(target_law, draft_law):
    names = ("temperature", "top_k", "top_p")
    law, q_law = (dict(zip(names, x, strict=True)) for x in (target_law, draft_law))
    assert fit_of(target_key=2, law=law, draft_law=q_law) > 1e-3


def test_speculative_and_plain_decoding_pass_a_two_sample_test():
    target, draft = pair(6, key=3)
    plain = transitions(long_text(target, None, 0).token_ids, 6)
    live = transitions(long_text(target, ModelDraft(draft, T1), 3).token_ids, 6)
    table = np.stack((plain.ravel(), live.ravel()))
    table = table[:, table.sum(0) >= 10]
    assert chi2_contingency(table).pvalue > 1e-3


def test_the_first_tokens_follow_the_law_from_the_prompt_on():
    """A long text hardly sees its beginning, where both caches hold the prompt alone."""
    target, draft = pair(4, key=1)
    observed = np.zeros((4, 4))
    for i in range(600):
        decoded = decode(
            target, ModelDraft(draft, T1), PROMPT, gamma=1, law=T1, budget=2,
            eos_ids=frozenset(), rng=generator("first", i),
        )  # fmt: skip
        observed[tuple(decoded.token_ids)] += 1
    expected = 600 * target.text_law(PROMPT, 2, T1).ravel()
    kept = expected >= 5
    cells = [np.append(x[kept], x[~kept].sum()) for x in (observed.ravel(), expected)]
    assert chisquare(*cells).pvalue > 1e-3


@pytest.mark.parametrize("gamma", [1, 2, 4, 8])
@pytest.mark.parametrize("engine", ["first order", "second order"])
def test_greedy_is_bit_identical(gamma, engine):
    rounds = 0
    for key in range(6):
        target, draft = pair(48, key, noise=0.5)
        if engine == "first order":
            target, draft = MarkovModel(target._last), MarkovModel(draft._last)
        for prompt in ([1, 0], [5], [3, 3, 7]):
            settings = {"law": GREEDY, "budget": 60, "eos_ids": frozenset()}
            plain = decode(target, None, prompt, gamma=0, rng=generator("a"), **settings)
            text = list(prompt)
            for _ in range(60):
                text.append(int(target.logits(text).argmax()))
            assert plain.token_ids == text[len(prompt) :]
            drafter = ModelDraft(draft, GREEDY)
            live = decode(target, drafter, prompt, gamma=gamma, rng=generator("b"), **settings)
            assert live.token_ids == plain.token_ids
            rounds += len(live.rounds)
    assert rounds < 0.8 * 18 * 60  # drafts were accepted, not only corrected


@pytest.mark.parametrize("law", [T1, GREEDY], ids=["sampling", "greedy"])
@pytest.mark.parametrize("gamma", range(1, 9))
def test_case_27_a_self_draft_is_accepted_at_exactly_one(gamma, law):
    target, same = pair(30, key=4, noise=0)
    decoded = decode(
        target,
        ModelDraft(same, law),
        PROMPT,
        gamma=gamma,
        law=law,
        budget=10 * (gamma + 1) + 1,
        eos_ids=frozenset(),
        rng=generator("self", gamma),
    )
    *full, last = decoded.rounds
    assert [(r.offered, r.accepted, r.emitted) for r in full] == [(gamma, gamma, gamma + 1)] * 10
    assert (last.offered, last.accepted, last.emitted) == (1, 1, 1)


def test_the_same_test_passes_the_control_without_a_fault():
    assert fit_of(CONTROL, key="controls") > 1e-3


@pytest.mark.parametrize("fault", GROSS)
def test_a_wrong_rule_is_caught(fault):
    assert fit_of(GROSS[fault], key="controls") < 1e-6


def test_case_41_a_lossy_rule_says_so_and_the_test_sees_it():
    assert not RULES["typical"].lossless
    assert fit_of(RULES["typical"]) < 1e-6


def test_a_draft_with_an_unfaithful_cache_is_slower_but_never_wrong():
    """Losslessness must not rest on the draft being right about its own text."""

    class Careless(ModelDraft):
        def extend(self, token_ids):
            self._decoder.crop(len(PROMPT) - 1)
            self._text.extend(token_ids[::-1])

    target, draft = pair(4, key=1)
    decoded = long_text(target, Careless(draft, T1), 2, tokens=500)
    assert fits(transitions(decoded.token_ids, 4), target) > 1e-3


def test_case_38_three_rules_and_their_closed_forms():
    """p = q = (.6, .4): sampled drafts 1, argmax drafts .6, a sampler's match .6^2 + .4^2."""
    model = MarkovModel(torch.tensor([[0.6, 0.4]] * 2, dtype=torch.float64).log())
    same = MarkovModel(model._last)
    argmax = {**T1, "temperature": 0.0}
    wanted = {
        ("speculative_sampling", "sampled"): 1.0,
        ("speculative_sampling", "argmax"): 0.6,
        ("sampler_match", "sampled"): 0.52,
        ("sampler_match", "argmax"): 0.6,
    }
    for (name, kind), rate in wanted.items():
        drafter = ModelDraft(same, T1 if kind == "sampled" else argmax)
        decoded = decode(
            model,
            drafter,
            [0],
            gamma=1,
            law=T1,
            budget=2000,
            eos_ids=frozenset(),
            rng=generator("rules", name, kind),
            rule=RULES[name],
        )
        rounds = [r for r in decoded.rounds if r.offered]
        accepted = np.mean([r.accepted for r in rounds])
        assert accepted == rate if rate == 1 else abs(accepted - rate) < 0.05
        assert abs(np.mean(np.equal(decoded.token_ids, 0)) - 0.6) < 0.05
        assert RULES[name].lossless


def test_case_4_a_draft_id_beyond_the_target_is_rejected_and_counted():
    target, draft = pair(4, key=1)
    wide = MarkovModel(
        torch.cat((draft._last, torch.ones(4, 2)), 1), torch.zeros(4, 6), name="wide"
    )
    wide._last = torch.cat((wide._last, torch.zeros(2, 6)))
    wide._before = torch.zeros(6, 6, dtype=torch.float64)
    decoded = long_text(target, ModelDraft(wide, T1), 3)
    assert decoded.counts["unmappable"] > 100
    assert fits(transitions(decoded.token_ids, 4), target) > 1e-3


def test_case_4_a_draft_without_q_may_be_wider_than_the_target():
    p = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).log()
    counts = Counter()
    block = Block(torch.tensor([5]), None)
    told = RULES["speculative_sampling"].test(block, p, T1, generator("wide"), counts)
    assert told == (0, 0) and counts["unmappable"] == 1


def test_q_is_the_law_that_the_draft_decodes_under():
    """Any q is lossless, so the law of the emitted tokens cannot tell which one was used."""
    _, draft = pair(6, key=5)
    law = {"temperature": 0.7, "top_k": 4, "top_p": 0.9}
    drafter = ModelDraft(draft, law)
    drafter.start(PROMPT, generator("q"))
    block = drafter.propose(5)
    text = PROMPT + block.ids.tolist()
    for i in range(5):
        wanted = sampling.law(draft.logits(text[: len(PROMPT) + i]), **law)[0]
        assert torch.equal(block.q[i], wanted)
    drawn = np.bincount([_first(draft, law, i) for i in range(800)], minlength=6)
    kept = block.q[0].numpy() > 0
    assert not drawn[~kept].any()
    assert chisquare(drawn[kept], 800 * block.q[0].numpy()[kept]).pvalue > 1e-3


def _first(draft, law, key):
    drafter = ModelDraft(draft, law)
    drafter.start(PROMPT, generator("q", key))
    return int(drafter.propose(1).ids[0])


def test_masked_ids_are_never_drafted():
    _, draft = pair(6, key=5)
    for law in (T1, GREEDY):
        drafter = ModelDraft(draft, law, masked_ids=[0, 3])
        drafter.start(PROMPT, generator("masked"))
        seen = set()
        for _ in range(40):
            block = drafter.propose(4)
            seen |= set(block.ids.tolist())
            if block.q is not None:
                assert not block.q[:, [0, 3]].any()
            drafter.extend(block.ids[:2].tolist())
        assert not seen & {0, 3}


class Fixed:
    """Proposes what it is told, with one-hot q, whatever it is asked for."""

    name, width = "fixed", 0

    def __init__(self, blocks):
        self.blocks = list(blocks)

    def start(self, token_ids, rng):
        self.learned = []

    def propose(self, count):
        return Block(torch.tensor(self.blocks.pop(0)[:count], dtype=torch.long))

    def extend(self, token_ids):
        self.learned.append(token_ids)


def test_short_and_empty_blocks_are_recorded_as_offered():
    step = MarkovModel(torch.full((9, 9), -5.0).fill_diagonal_(-5).roll(1, 1) + 10 * successor(9))
    drafter = Fixed([[1, 2], [], [5, 0], [7, 8, 0]])
    decoded = decode(
        step, drafter, [0], gamma=3, law=GREEDY, budget=20, eos_ids=frozenset({8}),
        rng=generator("short"),
    )  # fmt: skip
    assert decoded.token_ids == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [(r.offered, r.accepted, r.emitted) for r in decoded.rounds] == [
        (2, 2, 3),
        (0, 0, 1),
        (2, 1, 2),
        (2, 2, 2),
    ]
    assert drafter.learned == [[1, 2, 3], [4], [5, 6]]


def successor(size):
    return torch.eye(size, dtype=torch.float64).roll(1, 1)
