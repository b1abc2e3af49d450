"""The choice of a draft: planted winners found, equal drafts not told apart, costs respected."""

from __future__ import annotations

import json
import sys

import draft_choice
import numpy as np
import pytest
from draftscope import records
from draftscope.choice import tables
from draftscope.choice.analysis import Candidate, Settings, compare
from draftscope.choice.figures import by_draft_length
from draftscope.errors import UserError
from draftscope.exhibits import figures
from draftscope.exhibits.tables import read_table

COSTS = {"good": 0.1, "poor": 0.1, "free": 0.0}
OPTIONS = {"confidence": 0.95, "resamples": 300, "method": "studentized"}


def settings(**changes) -> Settings:
    return Settings(**{"cost_ratios": COSTS, "seed": 5} | OPTIONS | changes)


def write(folder, rates, *, prompts=20, lengths=(3, 5), tokens=100, looping=0, domain="math", **at):
    """Candidates whose expected acceptance length follows from a rate by prompt.

    Args:
        rates: draft -> acceptance at each prompt, a number or [prompts].
    """
    condition = {"target": "target", "domain": domain, "mode": "greedy"} | at
    ids = [f"p{number:03d}" for number in range(prompts)]
    loops = [
        {
            "prompt_id": name,
            "sample": 0,
            "tokens": tokens,
            "looped": place < looping,
            "onset": 10 if place < looping else None,
            "period": 2 if place < looping else None,
            "repeats": 45.0 if place < looping else None,
            "kind": "text" if place < looping else None,
            "loop_problem": place < looping,
        }
        for place, name in enumerate(ids)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    loop_path = f"{folder}/{domain}-loops.parquet"
    records.write(loop_path, loops, "loops", condition)
    candidates = []
    for draft, rate in rates.items():
        rows = []
        for name, a in zip(ids, np.broadcast_to(rate, prompts), strict=True):
            for gamma in lengths:
                yields = 1 + sum(a**k for k in range(1, gamma + 1))
                rounds = tokens / yields
                rows.append(
                    {
                        "prompt_id": name,
                        "sample": 0,
                        "draft_length": gamma,
                        "tokens": tokens,
                        "expected_rounds": rounds,
                        "expected_accepted": tokens - rounds,
                        "expected_offered": gamma * rounds,
                        "acceptance_length": yields,
                        "accept_prob_mean": float(a),
                    }
                )
        path = f"{folder}/{domain}-{draft}.parquet"
        records.write(path, rows, "expected", condition | {"draft": draft})
        candidates.append(
            Candidate("target", f"pair-{draft}", draft, domain, "greedy", path, loop_path)
        )
    return candidates


def spread(center, prompts=20, seed=0):
    return np.clip(np.random.default_rng(seed).normal(center, 0.05, prompts), 0.01, 0.99)


def row(rows, **key):
    (found,) = [r for r in rows if all(r[name] == value for name, value in key.items())]
    return found


def test_planted_winner_is_found_and_clear(tmp_path):
    rows = compare(write(tmp_path, {"poor": spread(0.4), "good": spread(0.8, seed=1)}), settings())
    best = row(rows, rank=1, subset="all")
    assert (best["draft"], best["draft_length"], best["separation"]) == ("good", 5, "best")
    assert best["against_plain"] == "faster"
    poor = row(rows, draft="poor", draft_length=3, subset="all")
    assert poor["separation"] == "clear"
    assert poor["difference_lower"] > 0
    assert (poor["up"], poor["down"], poor["ties"]) == (20, 0, 0)
    assert poor["holm_p"] >= poor["p"]


def test_speedup_of_a_constant_rate_is_the_closed_form(tmp_path):
    a, c, gamma, v = 0.8, 0.1, 5, 1.2
    rows = compare(write(tmp_path, {"good": a}), settings(verify_cost=v))
    found = row(rows, draft_length=gamma, subset="all")
    expected = (1 - a ** (gamma + 1)) / (1 - a)
    assert found["acceptance_length"] == pytest.approx(expected)
    assert found["speedup"] == pytest.approx(expected / (v + gamma * c))
    assert found["draft_acceptance_rate"] == pytest.approx((expected - 1) / gamma)
    assert found["reason"] == "constant"


def test_cost_decides_between_draft_lengths(tmp_path):
    candidates = write(tmp_path, {"good": spread(0.6)}, lengths=(1, 8))
    cheap = compare(candidates, settings(cost_ratios={"good": 0.0}))
    dear = compare(candidates, settings(cost_ratios={"good": 0.5}))
    assert row(cheap, rank=1, subset="all")["draft_length"] == 8
    assert row(dear, rank=1, subset="all")["draft_length"] == 1
    assert row(dear, draft_length=8, subset="all")["against_plain"] == "slower"


def test_equal_drafts_are_not_separated(tmp_path):
    same = spread(0.7)
    rows = compare(write(tmp_path, {"good": same, "poor": same}, lengths=(4,)), settings())
    second = row(rows, rank=2, subset="all")
    assert (second["difference"], second["p"], second["ties"]) == (0.0, 1.0, 20)
    assert second["separation"] == "negligible"
    # The draft named first is not favored by rounding: equal predictions keep the order.
    assert row(rows, rank=1, subset="all")["draft"] == "good"


def test_noise_is_not_separated(tmp_path):
    rates = {"good": spread(0.7, seed=2), "poor": spread(0.7, seed=3)}
    rows = compare(write(tmp_path, rates, lengths=(4,)), settings())
    assert row(rows, rank=2, subset="all")["separation"] == "not separated"


def test_longer_free_draft_is_negligibly_better(tmp_path):
    rows = compare(write(tmp_path, {"free": spread(0.2)}, lengths=(5, 8)), settings())
    second = row(rows, rank=2, subset="all")
    assert second["p"] < 1e-4
    assert second["separation"] == "negligible"
    strict = compare(write(tmp_path, {"free": spread(0.2)}, lengths=(5, 8)), settings(negligible=0))
    assert row(strict, rank=2, subset="all")["separation"] == "clear"


def test_case_47_micro_and_macro_are_both_named(tmp_path):
    rates = np.array([0.99] * 10 + [0.01] * 10)
    found = row(compare(write(tmp_path, {"good": rates}, lengths=(5,)), settings()), subset="all")
    own = [1 + sum(a**k for k in range(1, 6)) for a in rates]
    assert found["macro_acceptance_length"] == pytest.approx(np.mean(own))
    assert found["acceptance_length"] == pytest.approx(1 / np.mean([1 / x for x in own]))
    assert found["acceptance_length"] < found["macro_acceptance_length"] - 1


def test_case_95_loops_are_removed_in_their_own_rows(tmp_path):
    rates = np.array([0.99] * 5 + [0.5] * 15)
    rows = compare(write(tmp_path, {"good": rates}, lengths=(5,), looping=5), settings())
    whole, removed = row(rows, subset="all"), row(rows, subset="loops_removed")
    assert whole["acceptance_length"] > removed["acceptance_length"]
    assert removed["acceptance_length"] == pytest.approx(sum(0.5**k for k in range(6)))
    assert (removed["prompts"], removed["prompts_left_out"]) == (15, 5)


@pytest.mark.parametrize(("prompts", "looping"), [(1, 0), (1, 1), (2, 2)])
def test_case_81_tiny_samples_have_reasons(tmp_path, prompts, looping):
    candidates = write(tmp_path, {"good": 0.7, "poor": 0.4}, prompts=prompts, looping=looping)
    rows = compare(candidates, settings())
    for found in rows:
        if found["acceptance_length_lower"] is None or found["reason"] == "constant":
            assert found["reason"]
        assert found["separation"] in ("best", "not separated", "negligible")
    records.write(tmp_path / "choice.parquet", rows, "choice", {})
    frame = records.read(tmp_path / "choice.parquet", "choice").to_pandas()
    protocol = OPTIONS | {"negligible": 0.01}
    assert len(tables.best(frame, **protocol).frame) == 2
    with figures.style():
        by_draft_length(frame, "speedup", confidence=0.95)


def test_family_of_holm_is_all_comparisons(tmp_path):
    candidates = [
        candidate
        for domain in ("math", "code")
        for candidate in write(
            tmp_path, {"good": spread(0.8), "poor": spread(0.75, seed=4)}, domain=domain
        )
    ]
    rows = [r for r in compare(candidates, settings()) if r["subset"] == "all"]
    tests = [r for r in rows if r["rank"] > 1]
    assert len(tests) == 6
    smallest = min(tests, key=lambda r: r["p"])
    assert smallest["holm_p"] == pytest.approx(min(1, 6 * smallest["p"]))


def test_impossible_costs_are_refused(tmp_path):
    candidates = write(tmp_path / "a", {"good": 0.7, "poor": 0.5})
    with pytest.raises(UserError, match="has no entry for draft 'poor'"):
        compare(candidates, settings(cost_ratios={"good": 0.1}))
    with pytest.raises(UserError, match=r"is -0.1 \(below 0\) for draft 'good'"):
        compare(candidates, settings(cost_ratios={"good": -0.1, "poor": 0}))
    with pytest.raises(UserError, match="verify_cost is 0"):
        compare(candidates, settings(verify_cost=0))


def test_case_17_drafts_are_compared_on_the_same_text_only(tmp_path):
    candidates = write(tmp_path / "a", {"good": 0.7, "poor": 0.5})
    other = write(tmp_path / "b", {"poor": 0.5}, tokens=90)
    with pytest.raises(UserError, match="not measured on the same text: prompt p000"):
        compare([candidates[0], *other], settings())
    fewer = write(tmp_path / "c", {"poor": 0.5}, prompts=19)
    with pytest.raises(UserError, match="not measured on the same text: prompt p019"):
        compare([candidates[0], *fewer], settings())
    elsewhere = write(tmp_path / "d", {"poor": 0.5}, target_revision="other")
    with pytest.raises(UserError, match="target_revision is"):
        compare([candidates[0], *elsewhere], settings())


def test_script_writes_tables_and_figures(tmp_path, monkeypatch):
    candidates = [
        candidate
        for domain in ("math", "code")
        for candidate in write(
            tmp_path, {"good": spread(0.8), "free": spread(0.2, seed=4)}, domain=domain, looping=2
        )
    ]
    given = [
        {key: getattr(candidate, key) for key in draft_choice.CANDIDATE} for candidate in candidates
    ]
    text = json.dumps({"candidates": given, "cost_ratios": COSTS, "seed": 5} | OPTIONS)
    argv = ["draft_choice.py", "--settings", text, "--output", f"{tmp_path}/choice.parquet"]
    argv += ["--folder", f"{tmp_path}/exhibits", "--expected", *[c.expected for c in candidates]]
    monkeypatch.setattr(sys, "argv", [*argv, "--loops", *[c.loops for c in candidates]])
    draft_choice.main()
    names = {f"{n}.{s}" for n in ("choice", "choice_all") for s in ("csv", "md", "tex")}
    names |= {f"figure{n}.{s}" for n in (1, 2) for s in ("svg", "pdf")}
    assert {path.name for path in (tmp_path / "exhibits").iterdir()} == names
    table = read_table(tmp_path / "exhibits" / "choice.csv")
    assert list(table["domain"]) == ["math", "math", "code", "code"]
    assert list(table["text"]) == ["all", "loops removed"] * 2
    assert set(table["draft"]) == {"good"}
    assert len(read_table(tmp_path / "exhibits" / "choice_all.csv")) == 8
    assert "math/greedy 2" in (tmp_path / "exhibits" / "choice.md").read_text(encoding="utf-8")
    for path in (tmp_path / "exhibits").iterdir():
        assert b"NaN" not in path.read_bytes()
    monkeypatch.setattr(sys, "argv", [*argv, "--loops", candidates[0].loops])
    with pytest.raises(UserError, match="--loops: 1 files for 4 candidates"):
        draft_choice.main()
