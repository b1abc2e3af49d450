"""Exact certificates: against a convex solver, against random drafts, at their limits."""

import itertools
import math

import numpy as np
import pytest
import torch
from draftscope import certificates
from draftscope.certificates import exact
from draftscope.criteria import Criterion
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize, special

CRITERIA = [
    Criterion("strict"),
    Criterion("additive", t=0.1),
    Criterion("additive", t=0.3),
    Criterion("multiplicative", a=0.5),
    Criterion("multiplicative", a=0.1),
    Criterion("top_m_additive", m=2, t=0.2),
    Criterion("top_m_multiplicative", m=3, a=0.3),
    Criterion("typical", epsilon=0.1, delta=0.09),
    Criterion("typical", epsilon=0.3, delta=0.8),
    Criterion("tree", m=1),
    Criterion("tree", m=2),
    Criterion("tree", m=4),
    Criterion("tree", m=8),
]
SINGLE = [criterion for criterion in CRITERIA if criterion.kind != "tree"]
PAIRS = 10_000


def named(criterion):
    return criterion.label


def targets(count, width, seed=0):
    """Distributions of many shapes: flat, peaked, with two leaders, with zeros."""
    rng = np.random.default_rng(seed)
    p = np.stack([rng.dirichlet(np.full(width, c)) for c in rng.choice([0.1, 0.5, 2.0], count)])
    p[: count // 10, : width // 3] = 0.0
    return p / p.sum(-1, keepdims=True)


def kl(p, q):
    return special.rel_entr(p, q).sum(-1)


def solved(p, constraints):
    """The least KL(p || q) over distributions q under linear constraints A q >= 0."""
    start = np.full(len(p), 1 / len(p))
    answer = optimize.minimize(
        lambda q: float(special.rel_entr(p, q).sum()),
        start,
        jac=lambda q: -p / q,
        bounds=[(1e-12, 1.0)] * len(p),
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda q: np.ones(len(p))},
            *({"type": "ineq", "fun": lambda q, a=a: a @ q, "jac": lambda q, a=a: a}
              for a in constraints),
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 400},
    )  # fmt: skip
    assert answer.success or answer.status == 8, answer.message
    return answer.fun


def above(width, high, low):
    """The row a with a @ q = q[high] - q[low]."""
    row = np.zeros(width)
    row[high], row[low] = 1.0, -1.0
    return row


def by_solver(p, criterion):
    """The certificate by its definition: the nearest draft that would be rejected."""
    width, best = len(p), int(p.argmax())
    others = [v for v in range(width) if v != best]
    if criterion.kind == "tree":
        sets = itertools.combinations(others, criterion.m)
        nearest = (solved(p, [above(width, v, best) for v in chosen]) for chosen in sets)
        return min(nearest, default=math.inf)
    rejected = np.flatnonzero(certificates.rejected(p, criterion))
    values = [solved(p, [above(width, x, v) for v in range(width) if v != x]) for x in rejected]
    return min(values, default=math.inf)


@pytest.mark.parametrize("criterion", CRITERIA, ids=named)
def test_the_water_level_is_what_a_convex_solver_finds(criterion):
    rng = np.random.default_rng(3)
    for p in rng.dirichlet(np.full(6, 0.8), 3):
        ours = certificates.of_criterion(p, criterion)
        assert ours == pytest.approx(by_solver(p, criterion), abs=2e-6)


@pytest.fixture(scope="module")
def pairs():
    """10,000 targets with a draft each, from almost equal to unrelated."""
    rng = np.random.default_rng(11)
    p = targets(PAIRS, 10, seed=5)
    noise = rng.normal(size=p.shape) * 10 ** rng.uniform(-3, 1, (PAIRS, 1))
    q = (p + 1e-9) * np.exp(noise)
    return p, q / q.sum(-1, keepdims=True)


def accepted(p, q, criterion):
    """Whether the proposal of q is accepted, ties against it, by the criteria's definitions."""
    top = np.sort(p, -1)[:, ::-1]
    x0, first = p.argmax(-1)[:, None], top[:, :1]
    if criterion.kind == "tree":
        return (q >= np.take_along_axis(q, x0, -1)).sum(-1) <= criterion.m
    stands = np.ones(p.shape, bool)
    if criterion.kind == "strict":
        stands = p > top[:, 1:2]
    if criterion.t is not None:
        stands = p > first - criterion.t
    if criterion.a is not None:
        stands = p > criterion.a * first
    if criterion.kind == "typical":
        entropy = special.entr(p).sum(-1, keepdims=True)
        stands = p > np.minimum(criterion.epsilon, criterion.delta * np.exp(-entropy))
    if criterion.m is not None:
        stands &= (p[:, None, :] >= p[:, :, None]).sum(-1) <= criterion.m
    tied = q >= q.max(-1, keepdims=True)
    return (stands | ~tied).all(-1)


@pytest.mark.parametrize("criterion", CRITERIA, ids=named)
def test_no_draft_below_the_certificate_is_rejected_and_the_worst_one_attains_it(criterion, pairs):
    p, q = pairs
    certificate = certificates.of_criterion(p, criterion)
    rejected = ~accepted(p, q, criterion)
    assert rejected.any() and not rejected.all()
    assert (kl(p, q)[rejected] >= certificate[rejected] - 1e-12).all()
    finite = np.isfinite(certificate)
    if criterion.kind == "tree":
        worst = certificates.worst_tree_draft(p[finite], criterion.m)
    else:
        worst = certificates.worst_draft(p[finite], certificates.rejected(p, criterion)[finite])
    assert np.abs(worst.sum(-1) - 1).max() < 1e-12
    assert np.abs(kl(p[finite], worst) - certificate[finite]).max() < 1e-9
    # It is a draft that is rejected: its most probable tokens include one that is not accepted.
    assert not accepted(p[finite], worst, criterion).any()


@pytest.mark.parametrize("criterion", CRITERIA, ids=named)
def test_the_control_that_knows_too_little_is_violated(criterion, pairs):
    # A value a tenth too high is no certificate: some draft at that distance is rejected.
    p, _ = pairs
    certificate = certificates.of_criterion(p, criterion)
    finite = np.isfinite(certificate) & (certificate > 1e-6)
    if criterion.kind == "tree":
        worst = certificates.worst_tree_draft(p[finite], criterion.m)
    else:
        worst = certificates.worst_draft(p[finite], certificates.rejected(p, criterion)[finite])
    assert (kl(p[finite], worst) < 1.1 * certificate[finite]).all()


def test_one_candidate_is_greedy_verification():
    p = targets(500, 9)
    strict = certificates.strict(p)
    assert np.allclose(certificates.tree(p, 1), strict, atol=1e-14)
    assert np.allclose(certificates.top_m_additive(p, 1, 0.4), strict, atol=1e-14)


def test_any_region_gives_what_its_criterion_gives():
    p = targets(300, 9, seed=2)
    for criterion in SINGLE:
        region = certificates.rejected(p, criterion)
        assert np.allclose(
            certificates.certificate(p, region), certificates.of_criterion(p, criterion), atol=1e-14
        )


def test_a_region_without_tokens_tolerates_everything():
    p = np.array([0.3, 0.3, 0.4])
    assert certificates.certificate(p, np.zeros(3, bool)) == math.inf
    assert np.isnan(certificates.worst_draft(p, np.zeros(3, bool))).all()
    assert certificates.additive(p, 0.5) == math.inf  # p(x0) - t lies below 0
    assert certificates.tree(p, 3) == math.inf  # three others do not exist
    assert certificates.strict(np.array([1.0])) == math.inf


def test_ties_at_the_top_are_never_certified():
    p = np.array([0.4, 0.4, 0.2])
    for criterion in (CRITERIA[0], Criterion("top_m_additive", m=1, t=0.3), Criterion("tree", m=1)):
        assert certificates.of_criterion(p, criterion) == 0.0
    assert certificates.additive(p, 0.3) == math.inf  # a tie at the top is no harm where both stand
    assert certificates.tree(p, 2) > 0  # both leaders are among two candidates


def test_a_threshold_that_x0_does_not_pass_certifies_nothing():
    p = np.array([0.25, 0.25, 0.25, 0.25])
    assert certificates.typical(p, epsilon=0.9, delta=2.0) == 0.0


def test_ceilings_are_reached_as_the_target_grows_sure():
    p = np.array([1 - 1e-9, *[1e-9 / 9] * 9])
    assert certificates.strict(p) == pytest.approx(math.log(2), abs=1e-6)
    for m in (1, 2, 4, 8):
        assert certificates.tree(p, m) == pytest.approx(math.log(m + 1), abs=1e-6)


@given(
    arrays(np.float64, st.integers(2, 12), elements=st.floats(0, 1)).filter(
        lambda x: x.sum() > 0.1
    ),
    st.integers(1, 6),
    st.floats(0.01, 0.99),
)
def test_order_and_ceilings(weights, m, share):
    p = weights / weights.sum()
    strict = certificates.strict(p)
    tree = certificates.tree(p, m)
    assert -1e-15 <= strict <= math.log(2) + 1e-12
    assert tree == math.inf or tree <= math.log(m + 1) + 1e-12
    assert tree >= certificates.tree(p, 1) - 1e-12
    # Accepting more tokens cannot lower a certificate; being among the m accepts fewer.
    additive, narrow = certificates.additive(p, share), certificates.top_m_additive(p, m, share)
    assert strict - 1e-12 <= narrow <= additive + 1e-12
    assert certificates.additive(p, min(1.0, share + 0.01)) >= additive - 1e-12
    region = certificates.rejected(p, Criterion("multiplicative", a=share))
    if region.any():
        size = exact.active_size(p, region)
        assert certificates.multiplicative(p, share) <= 2 / size * math.log(2) + 1e-12


def test_a_wide_vocabulary_is_as_exact_as_a_sorted_one(monkeypatch):
    p = targets(40, 3000, seed=9)
    flat = np.full((1, 3000), 1 / 3000)  # its threshold lies deeper than any prefix
    p = np.concatenate([p, flat])
    for criterion in CRITERIA:
        shallow = certificates.of_criterion(p, criterion)
        monkeypatch.setattr("draftscope.certificates.functions.DEPTH", 3000)
        assert np.array_equal(shallow, certificates.of_criterion(p, criterion)), criterion.label
        monkeypatch.undo()


def test_leading_axes_tensors_and_narrow_types():
    p = targets(12, 20).reshape(3, 4, 20)
    wanted = certificates.additive(p, 0.2)
    assert wanted.shape == (3, 4)
    assert np.array_equal(certificates.additive(torch.from_numpy(p), 0.2), wanted)
    narrow = certificates.strict(torch.from_numpy(p).bfloat16())
    assert np.abs(narrow - certificates.strict(p)).max() < 0.02


@pytest.mark.parametrize("p", [[0.5, 0.6], [1.2, -0.2], [math.nan, 1.0], [], [math.inf, 0.0], 1.0])
def test_what_is_no_distribution_is_refused(p):
    with pytest.raises(ValueError, match="distribution"):
        certificates.strict(np.array(p))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "additve", "t": 0.1}, "'additve' is not one of"),
        ({"kind": "additive"}, "needs t"),
        ({"kind": "additive", "t": 0.0}, "t=0.0 is not above 0"),
        ({"kind": "additive", "t": math.nan}, "not finite"),
        ({"kind": "strict", "t": 0.1}, "takes no t"),
        ({"kind": "multiplicative", "a": 1.0}, "a=1.0 is not between 0 and 1"),
        ({"kind": "tree", "m": 0}, "m=0 is not a whole number"),
        ({"kind": "tree", "m": 2.0}, "m=2.0 is not a whole number"),
        ({"kind": "tree", "m": True}, "m=True is not a number"),
        ({"kind": "additive", "t": "0.1"}, "t='0.1' is not a number"),
        ({"kind": ["tree"], "m": 2}, r"\['tree'\] is not one of"),
        ({"t": 0.1}, "needs a kind"),
        ({"kind": "tree", "m": 2, "width": 3}, "has no 'width'"),
        ({"kind": "typical", "epsilon": 0.1, "delta": -1.0}, "delta=-1.0 is not above 0"),
    ],
)
def test_a_mistaken_criterion_is_named(settings, said):
    with pytest.raises(ValueError, match=said):
        Criterion.of(settings)


def test_a_criterion_survives_its_settings():
    for criterion in CRITERIA:
        assert Criterion.of(criterion.settings) == criterion
    assert Criterion("top_m_additive", m=4, t=0.1).label == "top-m additive m=4 t=0.1"
    assert Criterion("typical", epsilon=0.1, delta=0.09).label == "typical epsilon=0.1 delta=0.09"
