"""Certificates of a log made by hand: counted by hand, violated on purpose, replayed with ties."""

import numpy as np
import pytest
from draftscope.certificate_study import draft_side, target_side
from draftscope.certificate_study.log import DraftLog, Log
from draftscope.certificate_study.relaxed_replay import replay
from draftscope.certificate_study.resampling import Settings
from draftscope.criteria import Criterion
from draftscope.errors import UserError
from scipy import special

P = np.array(
    [[0.5, 0.5, 0.0], [0.6, 0.3, 0.1], [0.9, 0.1, 0.0],
     [0.34, 0.33, 0.33], [1.0, 0.0, 0.0], [0.45, 0.3, 0.25]]
)  # fmt: skip
STRICT, TREE, ADDITIVE = Criterion("strict"), Criterion("tree", m=2), Criterion("additive", t=0.5)
SETTINGS = Settings(resamples=100)
PAIRS = {"pair": {"target": "target", "draft": "draft"}}


def log(**other) -> Log:
    """Six positions of two texts of one prompt and one of another; the tokens are argmax p."""
    columns = {
        "kl": np.array([0.0, 0.01, 0.4, 0.5, 0.2, 0.02]),
        "drafted": np.array([0, 0, 0, 1, 0, 1]),
        "p_drafted": np.array([0.5, 0.6, 0.9, 0.33, 1.0, 0.3]),
        "rank": np.array([1, 0, 0, 1, 0, 1]),
    }
    for name, (place, value) in other.items():
        columns[name][place] = value
    texts = ["prompt p0, sample 0", "prompt p0, sample 1", "prompt p1, sample 0"]
    return Log(
        "target", "chat", 2, np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 2, 2, 2]), texts,
        np.zeros(6, int), special.entr(P).sum(-1), [(np.arange(6), P, True)],
        {"draft": DraftLog("draft", **columns)},
    )  # fmt: skip


def test_tables_of_the_target_are_those_counted_by_hand():
    strict = np.array([0.0, 0.0509697, 0.3680642, 7.463e-05, np.log(2), 0.0151016])
    (row,) = target_side.values(log(), [STRICT], SETTINGS)
    assert row["mean"] == pytest.approx(strict.mean(), abs=1e-7)
    assert row["median"] == pytest.approx(0.0151016, abs=1e-7) and row["p5"] == 0.0
    (row,) = target_side.values(log(), [ADDITIVE], SETTINGS)
    assert row["infinite"] == 0.5  # where p(x0) lies below t
    (mass, *_) = target_side.mass(log(), SETTINGS)
    assert mass["mean"] == pytest.approx(P.max(-1).mean())
    low, _, high = target_side.runs(log(), [STRICT], [0.01, 0.2, 0.69], 100, SETTINGS)
    # Certified above .01: 0 1 | 1 | 0 1 1, so the runs are 1 1 | 1 | 1 2 1.
    assert low["run"] == pytest.approx(7 / 6) and low["uncut"] == pytest.approx(6 / 2)
    assert high["certified"] == pytest.approx(1 / 6) and high["uncut"] == pytest.approx(6 / 5)


def test_tables_of_the_draft_are_those_counted_by_hand():
    (row,), _ = draft_side.drafts([log()], PAIRS, [STRICT], 1e-9, SETTINGS)
    assert row["certified_positions"] == 2 and row["certified"] == pytest.approx(2 / 6)
    assert row["accepted"] == pytest.approx(3 / 6) and row["explained"] == pytest.approx(2 / 3)
    assert row["accepted_uncertified"] == pytest.approx(1 / 4)


@pytest.mark.parametrize(
    ("criterion", "wrong", "place"),
    [
        (STRICT, {"kl": (5, 0.001)}, "prompt p1, sample 0, generated position 2"),
        (TREE, {"kl": (3, 0.0), "rank": (3, 2)}, "prompt p1, sample 0, generated position 0"),
        (ADDITIVE, {"p_drafted": (5, -1.0)}, "prompt p1, sample 0, generated position 2"),
        (STRICT, {"p_drafted": (2, 0.1), "kl": (2, 0.1)}, "prompt p0, sample 1, generated"),
    ],
)
def test_a_violation_of_any_criterion_says_where(criterion, wrong, place):
    with pytest.raises(UserError, match=f"certificate violated: .*{place}"):
        draft_side.drafts([log(**wrong)], PAIRS, [criterion], 1e-9, SETTINGS)


def test_a_target_without_text_leaves_the_other_pairs():
    pairs = {"gone": {"target": "other", "draft": "draft"}, **PAIRS}
    rows, bins = draft_side.drafts([log()], pairs, [STRICT], 1e-9, SETTINGS)
    assert {row["pair"] for row in (*rows, *bins)} == {"pair"}


def test_replay_of_greedy_takes_ties_as_decoding_does():
    (name, lossless, tokens, rounds), *_ = replay(log(), "draft", [ADDITIVE], 4)
    # At position 0 two tokens tie in p and the draft has the one that was emitted: it stands, and
    # 1 1 | 1 | 0 1 0 are one round, one, and two.
    assert (name, lossless) == ("greedy", True)
    assert list(tokens) == [3, 3] and list(rounds) == [2, 2]
