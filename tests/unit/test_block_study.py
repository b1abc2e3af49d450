"""The studies of block drafters: counts, lengths, differences, profiles, speed and probes."""

import numpy as np
import pandas as pd
import pytest
from block_study_files import GAMMA, MODES, Plan, accepted_rounds, rows_of, write
from draftscope import records
from draftscope.block_study import counts, findings, lengths, positions, probes, speed
from draftscope.block_study.counts import Source
from draftscope.block_study.lengths import Design
from draftscope.block_study.speed import Timed
from draftscope.errors import UserError
from draftscope.metrics import acceptance_metrics
from draftscope.statistics.crossed import ONE_TRAINING
from scipy import stats

PLAN = Plan({"ce": 0.4, "pace": 0.55, "pal": 0.55, "lookup": 0.2}, tokens=40, baselines=("lookup",))
DESIGN = Design(GAMMA, ["pace"], ["lookup"])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write(tmp_path_factory.mktemp("blocks"), PLAN)


@pytest.fixture(scope="module")
def frame(written):
    return counts.table(
        [Source(**s, rounds=p["rounds"], loops=p["loops"]) for s, p in written], GAMMA
    )


@pytest.fixture(scope="module")
def found(frame):
    return lengths.study(frame, DESIGN)


def chosen(rows, **values) -> list[dict]:
    return [row for row in rows if all(row[k] == v for k, v in values.items())]


def one(rows, **values) -> dict:
    (row,) = chosen(rows, **values)
    return row


# ---- Counts ------------------------------------------------------------------------------------


def test_counts_are_those_of_the_metrics(written, frame):
    source, paths = written[0]
    metrics = acceptance_metrics(records.read(paths["rounds"], "rounds"))
    own = frame[(frame["arm"] == source["arm"]) & (frame["training"] == 1)]
    own = own[(own["domain"] == source["domain"]) & (own["mode"] == source["mode"])]
    assert own["emitted"].sum() / own["rounds"].sum() == metrics.acceptance_length.micro
    assert (own["emitted"] / own["rounds"]).mean() == pytest.approx(metrics.acceptance_length.macro)
    for i in range(1, GAMMA + 1):
        rate, given = metrics.position_rate[i - 1], metrics.conditional_rate[i - 1]
        assert own[f"accepted_{i}"].sum() / own["rounds"].sum() == rate.micro
        assert own[f"accepted_{i}"].sum() / own[f"tested_{i}"].sum() == given.micro


def test_live_texts_tell_their_own_loops(written, frame):
    live = counts.table(
        [Source(**s, rounds=p["rounds"], texts=p["texts"]) for s, p in written],
        GAMMA,
        {"max_period": 8, "min_repeats": 3, "min_span": 8},
    )
    assert live["looped"].sum() == frame["looped"].sum() > 0
    assert set(live[live["looped"]]["prompt_id"]) == {"math-00", "chat-00"}


def test_other_prompts_and_absent_draft_lengths_are_refused(written, tmp_path):
    source, paths = written[0]
    with pytest.raises(UserError, match="has nothing of draft length 9"):
        counts.table([Source(**source, rounds=paths["rounds"], loops=paths["loops"])], 9)
    fewer = tmp_path / "fewer.parquet"
    rows = rows_of("math-03", accepted_rounds(np.random.default_rng(0), 0.5, 20), "replay")
    records.write(fewer, rows, "rounds", {})
    both = [
        Source(**source, rounds=paths["rounds"], loops=paths["loops"]),
        Source(**(source | {"arm": "x"}), rounds=str(fewer), loops=paths["loops"]),
    ]
    with pytest.raises(UserError, match="hold different prompts"):
        counts.table(both, GAMMA)


# ---- Lengths and differences -------------------------------------------------------------------


def test_lengths_are_means_of_trainings_of_domains_weighted_alike(frame, found):
    own = frame[(frame["arm"] == "pal") & (frame["mode"] == "warm")]
    by = own.assign(own=own["emitted"] / own["rounds"])
    wanted = by.groupby(["training", "domain"])["own"].mean().groupby("training").mean().mean()
    key = {"arm": "pal", "mode": "warm", "domain": "all", "subset": "all"}
    assert one(found["lengths"], **key, pooling="macro")["length"] == pytest.approx(wanted)
    sums = own.groupby(["training", "domain"])[["emitted", "rounds"]].sum()
    micro = (sums["emitted"] / sums["rounds"]).groupby("training").mean().mean()
    assert one(found["lengths"], **key, pooling="micro")["length"] == pytest.approx(micro)
    kept = one(found["lengths"], **(key | {"subset": "loops_removed"}), pooling="macro")
    assert (kept["left_out_loops"], kept["prompts"]) == (2, 22)


def test_differences_hold_the_planted_one_and_baselines_have_no_trainings(found):
    rows = chosen(found["differences"], subset="all", pooling="macro", domain="all")
    assert {(r["arm"], r["against"]) for r in rows} == {
        ("ce", "pace"), ("pal", "pace"), ("ce", "lookup"), ("pace", "lookup"), ("pal", "lookup")
    }  # fmt: skip
    for mode in MODES:
        row = one(rows, arm="ce", against="pace", mode=mode)
        assert row["upper"] < 0 and row["separated"] and row["holm_p"] >= row["p"]
        assert not one(rows, arm="pal", against="pace", mode=mode)["separated"]
        assert one(rows, arm="pal", against="lookup", mode=mode)["lower"] > 0
    assert one(found["lengths"], arm="lookup", mode="warm", domain="all", subset="all",
               pooling="macro")["trainings"] == 0  # fmt: skip


def test_the_gain_is_the_ratio_and_its_interval_that_of_the_logarithm(found):
    key = {"mode": "greedy", "domain": "math", "subset": "all", "pooling": "macro"}
    row = one(found["differences"], arm="ce", against="pace", **key)
    levels = [one(found["lengths"], arm=arm, **key)["length"] for arm in ("ce", "pace")]
    assert row["gain"] == pytest.approx(100 * (levels[0] / levels[1] - 1))
    assert row["gain_lower"] < row["gain"] < row["gain_upper"] < 0
    # Near the scale of the difference: its ends over the reference's length.
    assert row["gain_upper"] == pytest.approx(100 * row["upper"] / levels[1], abs=6)


def test_one_training_has_no_interval_and_says_so(frame):
    single = frame[frame["training"] <= 1]
    rows = lengths.study(single, DESIGN)
    row = one(rows["differences"], arm="ce", against="pace", mode="greedy", domain="all",
              subset="all", pooling="macro")  # fmt: skip
    assert row["lower"] is None and row["reason"] == ONE_TRAINING and row["separated"] is None
    assert row["prompts_lower"] is not None
    needed = one(rows["needed"], arm="ce", mode="greedy", domain="all", target="seen")
    assert needed["smallest"] is None and needed["reason"] == ONE_TRAINING


def test_one_training_is_not_called_unseparated_from_a_baseline(frame):
    single = frame[(frame["training"] < 2) & (frame["arm"].isin(["pal", "pace", "lookup"]))]
    found = lengths.study(single, DESIGN)
    tables = [pd.DataFrame(found[name]) for name in ("lengths", "differences", "needed")]
    (said,) = [s for s in findings.losses(*tables, None).frame["statement"] if "lookup" in s]
    assert f"pal has no interval ({ONE_TRAINING}) beside lookup (greedy +" in said
    assert "separated" not in said


def test_a_domain_without_prompts_left_leaves_the_mean_of_domains_empty(frame):
    looped = frame.copy()
    looped.loc[looped["domain"] == "chat", "looped"] = True
    rows = lengths.study(looped, DESIGN)["lengths"]
    key = {"arm": "ce", "mode": "greedy", "subset": "loops_removed", "pooling": "macro"}
    assert one(rows, **key, domain="chat")["reason"] == lengths.NOTHING
    assert one(rows, **key, domain="all")["length"] is None
    assert one(rows, **key, domain="math")["length"] is not None


def simulated(rng, trainings: int, sd: float) -> pd.DataFrame:
    """Counts of two arms of one law in one domain, with trainings that differ."""
    rows = []
    ease = rng.normal(0, 0.08, 24)
    for arm in ("a", "b"):
        for training in range(1, trainings + 1):
            effect = rng.normal(0, sd)
            for prompt, shift in enumerate(ease):
                # Rounds of prompts differ in number, so that micro and macro are two estimands.
                number = int(20 + 40 * (prompt % 3))
                rate = np.clip(0.5 + shift + effect + rng.normal(0, 0.03), 0, 1)
                accepted = rng.binomial(number * GAMMA, rate)
                rows.append((arm, training, f"p{prompt:02d}", number + accepted, number))
    frame = pd.DataFrame(rows, columns=["arm", "training", "prompt_id", "emitted", "rounds"])
    return frame.assign(domain="d", mode="m", temperature=0.0, looped=False)


@pytest.mark.parametrize("trainings", [2, 3])
def test_intervals_of_the_study_cover_in_planted_data_sets_and_prompts_alone_do_not(trainings):
    # Beside the 200 data sets of the estimator's own test: here through counts of rounds.
    rng, held, sets = np.random.default_rng(trainings), np.zeros((2, 2)), 100
    design = Design(GAMMA, ["b"])
    for _ in range(sets):
        frame = simulated(rng, trainings, sd=0.04)
        for place, pooling in enumerate(("macro", "micro")):
            crossed = design.crossed(*counts.layout(frame, "emitted", "rounds", pooling))
            found = crossed.difference("a", "b")
            held[place] += [
                found.low <= 0 <= found.high,
                found.prompts_low <= 0 <= found.prompts_high,
            ]
    assert (held[:, 0] / sets >= 0.9).all(), held
    assert (held[:, 1] / sets < 0.75).all(), held


def test_what_is_needed_is_told_for_what_was_seen_and_what_is_asked(found):
    rows = chosen(found["needed"], arm="pal", mode="warm", domain="all")
    assert [row["target"] for row in rows] == ["seen", "asked"]
    assert rows[1]["effect"] == DESIGN.effect and rows[1]["factor_needed"] > 1
    assert rows[0]["smallest"] == rows[1]["smallest"] > 0
    assert all(row["training_sd"] >= 0 and row["prompts"] == 24 for row in rows)


# ---- Profiles ----------------------------------------------------------------------------------


def test_profiles_multiply_up_and_fall(frame):
    rows = positions.study(counts.only(frame, "math", "greedy", "all", "all"), DESIGN)
    key = {"arm": "pace", "mode": "greedy", "domain": "math", "subset": "all"}
    both = [
        [one(rows, **key, kind=kind, position=i)["rate"] for i in range(1, GAMMA + 1)]
        for kind in ("unconditional", "conditional")
    ]
    assert all(a >= b for a, b in zip(both[0], both[0][1:], strict=False))
    # Cut rounds at a text's end come to a slot without offering it, so products are near, not equal.
    assert np.cumprod(both[1]) == pytest.approx(both[0], abs=0.03)
    assert both[1] == pytest.approx([0.55] * GAMMA, abs=0.15)
    first = one(rows, **key, kind="unconditional", position=1)
    assert first["lower"] < first["rate"] < first["upper"]


# ---- Speed -------------------------------------------------------------------------------------


def test_speed_is_the_planted_one_and_ratios_compare_arms(written, frame):
    timed = [Timed(**{k: s[k] for k in ("arm", "training", "domain", "mode", "temperature")},
                   timings=p["timings"])
             for s, p in written if s["mode"] == "warm"]  # fmt: skip
    problems = {("math", "warm", "math-00"), ("chat", "warm", "chat-00")}
    found = speed.study(speed.table(timed, GAMMA, problems), DESIGN)
    key = {"mode": "warm", "domain": "math"}
    assert one(found["speed"], arm="pace", subset="loops_removed", **key)["prompts"] == 11
    key |= {"subset": "all"}
    row = one(found["speed"], arm="pace", **key)
    own = frame[(frame["arm"] == "pace") & (frame["mode"] == "warm") & (frame["domain"] == "math")]
    # A round of an arm takes 13.2 ms, a plain step 10.
    wanted = np.exp(np.log(own["emitted"] / own["rounds"] / 1.32).mean())
    assert row["speedup"] == pytest.approx(wanted)
    assert row["lower"] < row["speedup"] < row["upper"]
    assert (row["plain_rate"], row["verify"], row["draft"]) == pytest.approx((100.0, 0.012, 0.0012))
    ratio = one(found["speed_differences"], arm="ce", against="pace", **key)
    other = one(found["speed"], arm="ce", **key)
    assert ratio["ratio"] == pytest.approx(other["speedup"] / row["speedup"])
    assert ratio["upper"] < 1 and ratio["separated"]
    with pytest.raises(UserError, match="no text of draft length 9"):
        speed.table(timed, 9)


# ---- Probes ------------------------------------------------------------------------------------


def test_probes_cover_the_planted_ranks_and_cosines(written):
    sources = [(s, p) for s, p in written if s["arm"] == "ce"]
    keys = ("arm", "training", "domain", "mode", "temperature")
    frame = probes.table([probes.Probed(**{k: s[k] for k in keys}, probes=p["probes"])
                          for s, p in sources])  # fmt: skip
    rows = probes.study(frame, Design(GAMMA, ["ce"]))
    law = stats.geom(0.3)
    for rank in (1, 2, 5, 10):
        row = one(rows, measure="coverage", rank=rank, domain="all", mode="greedy")
        assert row["lower"] <= law.cdf(rank) <= row["upper"]
    assert one(rows, measure="coverage", rank=5000, domain="all", mode="greedy")[
        "value"
    ] == pytest.approx(1)
    gap = one(rows, measure="cosine_gap", domain="math", mode="warm")
    assert gap["value"] == pytest.approx(0.25, abs=0.03) and gap["lower"] > 0
    parts = [one(rows, measure=f"cosine_{n}", domain="math", mode="warm")["value"]
             for n in ("true", "random")]  # fmt: skip
    assert gap["value"] == pytest.approx(parts[0] - parts[1])


def test_prompts_without_a_place_behind_a_rejection_weigh_nothing(written, tmp_path):
    source, paths = next((s, p) for s, p in written if s["arm"] == "ce")
    table = records.read(paths["probes"], "probes")
    few = tmp_path / "few.parquet"
    rows = [row for row in table.to_pylist() if row["prompt_id"] != "math-01"]
    records.write(few, rows, "probes", {})
    keys = ("arm", "training", "domain", "mode", "temperature")
    one_of = {k: source[k] for k in keys}
    both = [
        probes.Probed(**one_of, probes=paths["probes"]),
        probes.Probed(**(one_of | {"training": 2}), probes=str(few)),
    ]
    frame = probes.table(both)
    empty = frame[(frame["training"] == 2) & (frame["prompt_id"] == "math-01")]
    assert empty["places"].tolist() == [0]
    row = one(probes.study(frame, Design(GAMMA, ["ce"])), measure="coverage", rank=1)
    shares = [np.mean([r["rank"] == 1 for r in part]) for part in (table.to_pylist(), rows)]
    assert row["value"] == pytest.approx(np.mean(shares))
