"""Acceptance on trees: laws summed over all draws, simulation, and faults that must be seen."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from draftscope import sampling
from draftscope.lossless.judgement import goodness_of_fit
from draftscope.lossless.rule_level import families
from draftscope.seeds import generator
from draftscope.tree.controls import SIBLING_FAULTS
from draftscope.tree.exact import exact_law, level1_trees
from draftscope.tree.verify import (
    SiblingTest,
    Walk,
    children_of,
    draw_children,
    greedy_walk,
    point_mass_walk,
    sampled_walk,
    without,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

weights = st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.4, 1.0, 3.0, 3.1]), min_size=5, max_size=5)


def normal(row):
    row = torch.tensor(row, dtype=torch.float64)
    return row / row.sum()


distributions = weights.filter(any).map(normal)


# --- one node, exactly --------------------------------------------------------------------------


@settings(max_examples=40)
@given(distributions, distributions, st.integers(1, 4), st.booleans())
def test_siblings_emit_exactly_the_target_summed_over_all_draws(p, q, children, fill):
    law = exact_law(p, q, children, fill=fill)
    np.testing.assert_allclose(law, p.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("fault", SIBLING_FAULTS)
def test_a_fault_moves_the_exact_law(fault):
    p, q = (torch.tensor(x) for x in families(0)["mismatched concentration"])
    distance = abs(exact_law(p, q, 2, SIBLING_FAULTS[fault]) - p.numpy()).sum() / 2
    assert distance > 1e-3
    assert abs(exact_law(p, q, 2) - p.numpy()).sum() < 1e-14


def test_level_1_rows_hold_the_right_test_and_its_faults():
    rows = level1_trees(seed=5, level=0.01)
    assert [row["correct"] for row in rows] == [True] * 4 + [False] * len(SIBLING_FAULTS)
    assert all(row["rejected"] != row["correct"] for row in rows)


@settings(max_examples=40)
@given(distributions, distributions)
def test_one_child_is_accepted_with_the_overlap_and_two_with_more(p, q):
    def accepted(children):
        """1 - the chance that all are rejected, over all draws."""
        out = 0.0
        for draws in itertools.permutations(range(5), children):
            chance, left, rejected, test = 1.0, q.clone(), 1.0, SiblingTest(p, q)
            for token in draws:
                chance *= float(left[token] / left.sum()) if left.sum() > 0 else 0.0
                if chance:
                    rejected *= 1 - test.chance(token)
                    test.reject()
                    left[token] = 0
            out += chance * (1 - rejected)
        return out

    overlap = float(torch.minimum(p, q).sum())
    assert accepted(1) == pytest.approx(overlap, abs=1e-12)
    if int((q > 0).sum()) > 1:
        assert accepted(2) >= overlap - 1e-12


# --- one node, by simulation --------------------------------------------------------------------


def emitted_by(siblings, p, q, children, trials, key):
    """Counts of the token that follows a node, drawn and tested as the loop does."""
    rng, counts = generator(key), np.zeros(len(p))
    ids, exist = draw_children(q.expand(trials, -1), torch.tensor(rng.random((trials, children))))
    for row, there in zip(ids.tolist(), exist.sum(-1).tolist(), strict=True):
        tokens = row[:there]
        walk = sampled_walk(
            tokens, [-1] * there, [q] + [None] * there, p.expand(there + 1, -1),
            rng.random(there + 1), siblings=siblings,
        )  # fmt: skip
        counts[tokens[walk.path[0]] if walk.path else walk.next_id] += 1
    return counts


P = normal([0.0004, 0.4, 0.3, 0.2, 0.1])
Q = normal([3.0, 0.2, 0.2, 0.2, 2.0])


def test_siblings_emit_the_target_by_simulation():
    outcome = goodness_of_fit(emitted_by(SiblingTest, P, Q, 3, 2500, "right"), P.numpy(), 0.01)
    assert not outcome.rejected
    assert outcome.detectable < 0.05


@pytest.mark.parametrize("fault", SIBLING_FAULTS)
def test_simulation_sees_each_fault_two_percent_of_the_residual_among_them(fault):
    counts = emitted_by(SIBLING_FAULTS[fault], P, Q, 3, 2500, "right")
    assert goodness_of_fit(counts, P.numpy(), 0.01).p < 1e-6


def test_children_are_drawn_as_without_replacement_should():
    q, trials = normal([4.0, 2.0, 1.0, 0.0]), 6000
    uniforms = torch.tensor(generator("draws").random((trials, 2)))
    ids, exist = draw_children(q.expand(trials, -1), uniforms)
    assert exist.all()
    seen = Counter(map(tuple, ids.tolist()))
    pairs = list(itertools.permutations(range(3), 2))
    wanted = [trials * float(q[a] * q[b] / (1 - q[a])) for a, b in pairs]
    assert sum(seen.values()) == sum(seen[pair] for pair in pairs)
    assert chisquare([seen[pair] for pair in pairs], wanted).pvalue > 1e-3


def test_a_law_that_is_used_up_has_fewer_children_or_goes_on_uniformly():
    q = torch.stack((normal([0.0, 1.0, 0.0, 0.0]), normal([1.0, 1.0, 1.0, 2.0])))
    uniforms = torch.tensor([[0.5, 0.5, 0.9]] * 2, dtype=torch.float64)
    ids, exist = draw_children(q, uniforms)
    assert exist.tolist() == [[True, False, False], [True] * 3]
    assert ids[0, 0] == 1
    ids, exist = draw_children(q, uniforms, fill=True)
    assert exist.all()
    assert ids[0].tolist() == [1, 2, 3]  # of 0, 2, 3 the middle one, of 0, 3 the second
    assert len(set(ids[1].tolist())) == 3
    four = torch.full((2, 6), 0.5, dtype=torch.float64)
    ids, exist = draw_children(q, four, fill=True)
    assert exist.sum(-1).tolist() == [4, 4]
    assert sorted(ids[1, :4].tolist()) == [0, 1, 2, 3]
    torch.testing.assert_close(
        without(q[0], torch.tensor([1, 0])), torch.tensor([0, 0, 0.5, 0.5], dtype=torch.float64)
    )
    with pytest.raises(ValueError, match="all 4 ids were tried"):
        without(q[0], torch.tensor([1, 0, 2, 3]))


# --- walks --------------------------------------------------------------------------------------

TOKENS, PARENTS = [5, 7, 5, 9, 2], [-1, -1, 0, 1, 1]


def test_the_greedy_walk_follows_the_argmax_of_each_row():
    assert children_of(PARENTS) == [[0, 1], [2], [3, 4], [], [], []]
    assert greedy_walk(TOKENS, PARENTS, [7, 0, 9, 0, 1, 0]) == Walk([1, 3], 1)
    assert greedy_walk(TOKENS, PARENTS, [5, 9, 0, 0, 0, 0]) == Walk([0], 9)
    assert greedy_walk(TOKENS, PARENTS, [2, 0, 0, 0, 0, 0]) == Walk([], 2)
    assert greedy_walk([], [], [4]) == Walk([], 4)
    with pytest.raises(ValueError, match="parents come before children"):
        greedy_walk([1, 2], [1, -1], [1, 1, 1])


def test_at_temperature_zero_both_sampled_walks_are_the_greedy_one():
    logits = torch.randn(6, 12, generator=torch.Generator().manual_seed(0))
    for best in itertools.product([5, 7, 3], [5, 1], [9, 2, 8]):
        rows = logits.clone()
        for row, token in enumerate(best):
            rows[row, token] = 9.0
        p = sampling.law(rows, 0.0)
        wanted = greedy_walk(TOKENS, PARENTS, rows.argmax(-1).tolist())
        uniforms = generator("zero", *best).random(6)
        q = [normal([1.0] * 12)] * 6
        assert sampled_walk(TOKENS, PARENTS, q, p, uniforms) == wanted
        assert point_mass_walk(TOKENS, PARENTS, p, uniforms) == wanted


@pytest.mark.parametrize("gamma", [1, 2, 5])
def test_without_branches_the_walk_is_the_test_of_a_chain_uniform_for_uniform(gamma):
    lengths = Counter()
    for trial in range(150):
        rng = generator("chain", gamma, trial)
        p = torch.tensor(rng.dirichlet(np.full(8, 0.7), gamma + 1))
        q = 0.7 * p[:-1] + 0.3 * torch.tensor(rng.dirichlet(np.full(8, 0.7), gamma))
        ids = sampling.draw(q, torch.tensor(rng.random(gamma))).tolist()
        accepted, following = sampling.verify(ids, q, p, generator("u", trial))
        walk = sampled_walk(
            ids, range(-1, gamma - 1), [*q, None], p, generator("u", trial).random(gamma + 1)
        )
        assert walk == Walk(list(range(accepted)), following)
        lengths[accepted] += 1
    assert len(lengths) == gamma + 1


def test_a_chosen_child_is_accepted_with_its_own_probability():
    """As the test of one point mass after the other: r(x), or r without x, renormalised."""
    p = normal([3.0, 1.0, 4.0, 1.0, 5.0])
    grid = (np.arange(1000) + 0.5) / 1000
    for children in ([0], [2, 4], [1, 3, 0], [0, 1, 2, 3, 4]):
        n, rest, left = len(children), p.clone(), 1.0
        rows = p.expand(n + 1, -1)
        walks = [point_mass_walk(children, [-1] * n, rows, [u] * (n + 1)) for u in grid]
        for place, child in enumerate(children):
            chance = left * float(rest[child])
            left -= chance
            rest[child] = 0
            rest = rest / rest.sum() if rest.sum() > 0 else rest
            found = np.mean([walk.path == [place] for walk in walks])
            assert found == pytest.approx(chance, abs=2e-3)
        stopped = [walk.next_id for walk in walks if not walk.path]
        assert not set(stopped) & set(children)


def test_ids_that_one_side_lacks_are_rejected_counted_and_cost_nothing():
    p = normal([0.2, 0.2, 0.6]).expand(3, -1)
    wide, narrow = normal([0.1, 0.1, 0.1, 5.0, 4.0]), normal([0.5, 0.5])
    counts = Counter()
    walk = sampled_walk([3, 4], [-1, -1], [wide, None, None], p, [0.0, 0.0, 0.99], counts)
    assert walk == Walk([], 2)
    assert counts == {"unmappable": 2}
    for q in (wide, narrow):
        np.testing.assert_allclose(exact_law(p[0], q, 2), p[0].numpy(), atol=1e-12)
    counts = emitted_by(SiblingTest, p[0], narrow, 2, 3000, "narrow")
    assert chisquare(counts, 3000 * p[0].numpy()).pvalue > 1e-3


def test_input_that_is_no_tree_or_no_probability_is_refused():
    p, q = P.expand(2, -1), [Q, None]
    with pytest.raises(ValueError, match="a tree of 1 nodes needs"):
        sampled_walk([0], [-1], [Q], p, [0.5, 0.5])
    with pytest.raises(ValueError, match="a tree of 1 nodes needs"):
        sampled_walk([0], [-1], q, p[:1], [0.5, 0.5])
    broken = P.clone()
    broken[0] = torch.nan
    with pytest.raises(ValueError, match="drafted token 0 is NaN"):
        sampled_walk([0], [-1], q, broken.expand(2, -1), [0.5, 0.5])
