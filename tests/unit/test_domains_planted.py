"""Planted effects: the corrected analysis covers them, the published one is fooled by rank."""

from dataclasses import replace

import numpy as np
import pytest
from draftscope.domains import as_published, measures
from draftscope.domains.cells import collect
from draftscope.domains.changes import by_depth
from draftscope.domains.contrasts import contrasts
from draftscope.domains.entropy import correlations, paradox
from draftscope.domains.models import models
from draftscope.domains.observations import observe
from draftscope.domains.rates import lengths
from draftscope.statistics.permutation import between_groups
from planted_nodes import ENTROPIES, Planted, simulate
from scipy import stats

# Depth lowers acceptance; text of the draft's own first choices raises the mean of deep nodes.
TRUTH = Planted(
    {"chat": 1.3, "code": 0.9},
    depth=(0.0, -0.25, -0.5),
    rank=-0.8,
    entropy=-0.4,
    spread=0.4,
    own_top=1.1,
    own_other=-0.7,
    mixture={"chat": (0.1, 0.2, 0.3, 0.4)},
)
TOKENS, PROMPTS = 24, 26
SETTINGS = measures.Settings(position_edge=12, entropy_bins=9, resamples=300)


def find(rows, **key):
    (row,) = [row for row in rows if all(row[name] == value for name, value in key.items())]
    return row


def estimates(log):
    """Every estimate under test with its interval: name -> (value, lower, upper)."""
    changes, pairs = by_depth(log, SETTINGS), contrasts(log, SETTINGS)
    _, comparisons, coefficients = models(log, SETTINGS, ["walk"])
    found = {}

    def take(label, row, column):
        found[label] = tuple(row[f"{column}{end}"] for end in ("", "_lower", "_upper"))

    for name in ("walk_chain", "alpha_chain_reached"):
        for how in ("text", "position"):
            row = find(changes, domain="chat", depth=3, measure=name, comparison=how)
            take(f"depth: {name}, {how}", row, "difference")
    for name in ("walk_chain", "joint"):
        take(f"domain: {name}", find(pairs, measure=name), "difference")
    take("E[L]", find(lengths(log, SETTINGS), domain="chat", measure="joint"), "value")
    rho = {"domain": "chat", "outcome": "alpha", "entropy": "target"}
    row = find(correlations(log, SETTINGS), **rho, measure="within_prompt_partial")
    take("entropy: rho", row, "rho")
    row = find(paradox(log, SETTINGS), other="code", outcome="walk_chain")
    for part in ("composition", "at_equal_entropy"):
        take(f"paradox: {part}", row, part)
    for factor, level in (("domain", "code"), ("depth", "3"), ("rank", "2"), ("entropy", "3 to 3")):
        row = find(coefficients, outcome="walk", factor=factor, level=level)
        take(f"model: {factor}", row, "log_odds")
        take(f"effect: {factor}", row, "effect")
    row = find(comparisons, outcome="walk", second="depth")
    take("model: domain - depth", row, "difference")
    return found


@pytest.fixture(scope="module", params=[40, pytest.param(200, marks=pytest.mark.slow)])
def data_sets(request):
    rng = np.random.default_rng(20)
    logs = [observe(simulate(TRUTH, PROMPTS, TOKENS, rng)) for _ in range(request.param)]
    return logs, [estimates(log) for log in logs]


@pytest.fixture(scope="module")
def population():
    """One data set so large that its estimates are the truth, to an eighth of an interval."""
    log = observe(simulate(TRUTH, 60 * PROMPTS, TOKENS, np.random.default_rng(21)))
    return estimates(log)


def test_corrected_intervals_cover_what_was_planted(data_sets, population, capsys):
    _, found = data_sets
    covered = {
        name: np.mean([one[name][1] <= value <= one[name][2] for one in found])
        for name, (value, *_) in population.items()
    }
    with capsys.disabled():
        print()
        for name, share in covered.items():
            print(f"  coverage over {len(found)} data sets: {name} {share:.3f}")
    # Of 40 intervals that cover at 95%, fewer than 33 do so one time in 4,000.
    least, most = (0.90, 0.98) if len(found) >= 200 else (0.825, 1.0)
    assert all(least <= share <= most for share in covered.values()), covered
    assert 0.92 <= np.mean(list(covered.values())) <= 0.98


def test_the_population_is_what_the_effects_add_up_to(population):
    # Chance of a reached node of the rank-1 chain: the mean over prompts and entropies.
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    level = TRUTH.domains["chat"] + TRUTH.spread * nodes[:, None]
    mixture = np.array(TRUTH.mixture["chat"])
    chance = [
        (1 / (1 + np.exp(-(level + shift + TRUTH.entropy * ENTROPIES)))) @ mixture
        for shift in TRUTH.depth
    ]
    weights = weights / weights.sum()
    reached = chance[0] * chance[1]
    fall = (weights * reached * (chance[2] - chance[0])).sum() / (weights * reached).sum()
    assert population["depth: alpha_chain_reached, text"][0] == pytest.approx(fall, abs=0.006)
    assert population["depth: walk_chain, text"][0] == pytest.approx(fall, abs=0.006)
    assert fall < -0.08


def test_the_published_profile_is_fooled_by_rank(data_sets):
    # Acceptance falls with depth, and yet the deepest nodes have the highest mean: they all
    # hang below the draft's first choices.
    logs, found = data_sets
    rises = []
    for log in logs:
        first, second, third = (mean.value for mean in as_published.profile(log, "chat"))
        rises.append(third > first and third > second)
    assert np.mean(rises) > 0.95
    corrected = np.array([one["depth: walk_chain, text"] for one in found])
    # Of 40 sets fewer find the fall than of 200, by chance.
    assert (corrected[:, 2] < 0).mean() > (0.9 if len(found) >= 200 else 0.75)
    assert (corrected[:, 1] > 0).sum() == 0


def test_comparing_depths_prompt_by_prompt_would_find_a_fall_that_is_not_there():
    # Why `changes` compares a reached node with the text's other positions.
    even = replace(TRUTH, depth=(0.0, 0.0, 0.0), entropy=0.0)
    log = observe(simulate(even, 400, TOKENS, np.random.default_rng(3)))
    value, rows = measures.measured(log, "walk_chain")
    sums = log.sums(value, rows, log.depth - 1, 3)
    held = sums.count.all(1)
    rate = sums.total[held] / sums.count[held]
    assert (rate[:, 2] - rate[:, 0]).mean() < -0.03
    row = find(by_depth(log, SETTINGS), domain="all", depth=3, measure="walk_chain",
               comparison="text")  # fmt: skip
    assert row["difference_lower"] < 0 < row["difference_upper"]
    same = find(by_depth(log, SETTINGS), domain="all", depth=3, measure="walk_chain",
                comparison="position")  # fmt: skip
    assert (same["difference"], same["reason"]) == (0.0, "constant")


def test_prompts_as_units_keep_the_level_of_the_domain_test():
    # No difference between domains, but prompts differ: the permutation test must not see one.
    even = replace(TRUTH, domains={"chat": 1.0, "code": 1.0}, spread=1.0, mixture={})
    rng = np.random.default_rng(4)
    p, naive = [], []
    for _ in range(100):
        log = observe(simulate(even, 12, 16, rng))
        cells = collect(log, SETTINGS, "walk_chain")
        mean = cells.successes.sum() / cells.trials.sum()
        rest = (cells.successes - cells.trials * mean).sum(1)
        weight = cells.trials.sum(1) * mean * (1 - mean)
        test = between_groups(rest, weight, cells.domain, 199, rng)
        p.append(test.p)
        naive.append(stats.chi2.sf(test.statistic, 1))
    assert np.mean(np.array(p) <= 0.05) <= 0.12
    assert np.mean(np.array(naive) <= 0.05) > 0.2
