"""Synthetic runs of any size: what is planted is found, and what a run and a plan cost is measured."""

import json
import sys

import bench
import numpy as np
import pyarrow as pa
import pytest
import synthetic_run
from draftscope import records
from draftscope.errors import UserError
from draftscope.loops import find_loop
from draftscope.position import analysis, inputs
from draftscope.position.analysis import Configuration, Settings
from draftscope.scale import meter, plan, points, run, study
from draftscope.scale.synthetic import DRAFTS, TEMPERATURES, Draft, Size, texts
from experiments import ROOT

SMALL = Size(40, budget=768, median=250)
SETTINGS = Settings(
    draft_length=5, bin_width=64, confidence=0.95, resamples=200, method="studentized", seed=1
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return run.write(tmp_path_factory.mktemp("synthetic"), SMALL, draft_length=5)


def configuration(each, **changes) -> Configuration:
    fields = {
        "label": each.draft.label,
        "pair": each.pair,
        "draft": each.draft.name,
        "domain": run.DOMAIN,
        "mode": each.mode,
        "temperature": TEMPERATURES[each.mode],
        "rounds": str(each.rounds),
        "loops": str(each.loops),
        "scores": tuple(map(str, each.scores)),
    }
    return Configuration(**fields | changes)


@pytest.fixture(scope="module")
def found(small):
    return analysis.study([configuration(each) for each in small], SETTINGS)


def rows(found, schema, **key):
    return [
        row
        for row in found[f"position_{schema}"]
        if all(row[name] == value for name, value in key.items())
    ]


def test_the_statistics_recover_what_is_planted(small, found):
    for each in small:
        key = {"pair": each.pair, "mode": each.mode}
        (alpha,) = rows(found, "paired", **key, metric="alpha", subset="loops_removed")
        error = (alpha["percentile_upper"] - alpha["percentile_lower"]) / 4
        assert abs(alpha["difference"] - each.draft.change / 2) < 4 * error
        (pooled,) = rows(found, "pooled", **key, metric="alpha", subset="loops_removed")
        assert (pooled["first"] + pooled["second"]) / 2 == pytest.approx(
            each.draft.acceptance, abs=0.03
        )
        # Repetition is easy to draft and stands late: with loops in, halves differ by more.
        if each.mode == "greedy":
            (whole,) = rows(found, "paired", **key, metric="alpha", subset="all")
            assert whole["difference"] > alpha["difference"]


def test_acceptance_length_is_that_of_independent_drafts(tmp_path):
    draft = Draft("flat", 0.8, 0.0, 0.0)
    size = Size(20, budget=4000, median=3000, deviation=0.1, looping={"sample": 0.0})
    (each,) = run.write(tmp_path, size, draft_length=5, modes=["sample"], drafts=[draft])
    _, rounds, positions = each.counts
    # Leviathan et al. 2023, eq. 1: (1 - a^6) / (1 - a) tokens a round.
    assert positions / rounds == pytest.approx((1 - 0.8**6) / 0.2, rel=0.01)


def test_the_size_is_the_published_one():
    lengths = [text.tokens for mode in TEMPERATURES for text in texts(Size(500), mode, 0)]
    assert len(lengths) * len(DRAFTS) == 2000
    assert max(lengths) == 16_384
    looped = [text for text in texts(Size(500), "greedy", 0) if text.onset is not None]
    assert len(looped) == 46


def test_planted_repetitions_are_found_where_they_start():
    looped = [text for text in texts(SMALL, "greedy", 0) if text.onset is not None]
    assert looped
    for text in looped:
        loop = find_loop(text.token_ids)
        assert (loop.onset, loop.period) == (text.onset, text.loop()["period"])
        assert loop.repeats == pytest.approx(text.loop()["repeats"])
    ordinary = next(text for text in texts(SMALL, "greedy", 0) if text.onset is None)
    assert find_loop(ordinary.token_ids[:-1]) is None


def test_one_seed_gives_one_run_and_more_prompts_leave_its_lengths_as_likely(tmp_path):
    size = Size(6, budget=200, median=60)
    first, second, other = (
        run.write(tmp_path / name, size, seed=seed, modes=["sample"])
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    same, twin, different = (
        records.read(each[0].rounds, "rounds") for each in (first, second, other)
    )
    assert same.equals(twin)
    assert not same.equals(different)


@pytest.mark.parametrize("values", [1, 700])
def test_blocks_change_nothing(small, found, monkeypatch, values):
    """To the last bit, however many rounds and positions are in memory at a time."""
    monkeypatch.setattr(inputs, "VALUES", values)
    monkeypatch.setattr(inputs, "SCORE_ROWS", 5)
    again = analysis.study([configuration(small[-1])], SETTINGS)
    own = {"pair": small[-1].pair, "mode": small[-1].mode}
    for schema in ("pooled", "curves", "quintiles", "halves"):
        assert rows(again, schema) == rows(found, schema, **own)


def test_rounds_in_any_order_and_of_other_draft_lengths_change_nothing(small, found, tmp_path):
    each = small[0]
    table = records.read(each.rounds, "rounds")
    longer = table.set_column(
        table.column_names.index("draft_length"),
        table.schema.field("draft_length"),
        [np.full(table.num_rows, 7, np.int16)],
    )
    order = np.random.default_rng(0).permutation(2 * table.num_rows)
    mixed = pa.concat_tables([table, longer]).take(order)
    path = str(tmp_path / "rounds.parquet")
    records.write(path, mixed, "rounds", records.condition(table))
    again = analysis.study([configuration(each, rounds=path)], SETTINGS)
    own = {"pair": each.pair, "mode": each.mode}
    for schema in ("pooled", "curves", "quintiles", "halves"):
        assert rows(again, schema) == rows(found, schema, **own)


def test_scores_of_other_texts_are_refused(small, tmp_path):
    each = small[0]
    loops = records.read(each.loops, "loops").to_pylist()
    loops[3]["tokens"] += 1
    path = str(tmp_path / "loops.parquet")
    records.write(path, loops, "loops", records.condition(each.loops))
    with pytest.raises(UserError, match="synthetic-000003, sample 0 has .* tokens here"):
        analysis.study([configuration(each, loops=path)], SETTINGS)


def test_a_trajectory_that_is_scored_twice_is_refused(small):
    each = small[0]
    twice = configuration(each, scores=tuple(map(str, [*each.scores, each.scores[0]])))
    with pytest.raises(UserError, match="stands in two rows"):
        analysis.study([twice], SETTINGS)


def test_memory_is_that_of_the_command_and_not_of_who_started_it():
    held = bytearray(400 << 20)
    held[::4096] = b"x" * len(held[::4096])
    idle = meter.measure([sys.executable, "-c", "print('done')"])
    busy = meter.measure([sys.executable, "-c", "x = b'x' * (300 << 20)"])
    assert idle.printed == "done\n"
    assert idle.peak_gib < 0.1
    assert 0.28 < busy.peak_gib < 0.4
    assert 0 < idle.cpu_s and 0 < idle.wall_s
    with pytest.raises(meter.CommandFailed, match="no such thing"):
        meter.measure([sys.executable, "-c", "raise SystemExit('no such thing')"])


def test_the_plan_has_the_jobs_that_it_says(tmp_path):
    small = plan.Plan(targets=1, drafts=2, domains=2, modes=1, shards=3)
    row = points.planning(small, tmp_path, ROOT)
    assert row["jobs"] > sum(small.jobs.values()) > 0
    assert row["wall_s"] > 0
    for size, jobs in ((plan.TEN_THOUSAND, 10_000), (plan.FIFTY_THOUSAND, 50_000)):
        assert jobs <= sum(size.jobs.values()) < 1.01 * jobs


def test_sizes_are_measured_without_a_model_and_ratios_are_not(tmp_path, monkeypatch):
    out = tmp_path / "bench.json"
    monkeypatch.setattr(sys, "argv", ["bench.py", "--output", str(out), "--only", "dry_run_10k_s"])
    planned = {"jobs": 10_009, "wall_s": 31.0, "cpu_s": 30.0, "peak_gib": 0.3}
    monkeypatch.setattr(points, "planning", lambda *_: planned)
    bench.main()
    (row,) = json.loads(out.read_text())
    assert (row["value"], row["bound"], row["holds"], row["unit"]) == (31.0, 30.0, False, "s")
    assert "10,009 jobs" in row["detail"] and "bench.py" in row["command"]
    monkeypatch.setattr(sys, "argv", ["bench.py", "--output", str(out)])
    with pytest.raises(UserError, match="give --target and --prompts"):
        bench.main()


@pytest.mark.parametrize(
    "given, message",
    [
        (["--prompts", "0"], "--prompts is 0; it must be at least 1"),
        (["--budget", "299"], "at least 300"),
        (["--budget", "900", "--median", "900"], "no text would end by itself"),
        ([], "is not empty"),
    ],
)
def test_impossible_sizes_and_used_folders_are_refused(tmp_path, monkeypatch, given, message):
    (tmp_path / "something").touch()
    monkeypatch.setattr(sys, "argv", ["synthetic_run.py", "--folder", str(tmp_path), *given])
    with pytest.raises(UserError, match=message):
        synthetic_run.main()


@pytest.mark.slow
def test_every_step_runs_as_the_workflow_runs_it(tmp_path):
    """About 20 s."""
    written = run.write(tmp_path / "run", SMALL)
    costs = study.run(study.steps(written, tmp_path / "analysis"))
    row = study.row(written, costs)
    assert row["trajectories"] == 4 * SMALL.prompts
    assert list(row["steps"]) == list(costs)
    exhibits = {path.name for path in (tmp_path / "analysis/exhibits").rglob("*")}
    assert {"table1.csv", "figure5.pdf", "measures.csv", "choice.csv"} <= exhibits


@pytest.mark.slow
def test_the_published_size_fits_a_laptop(tmp_path):
    """About three minutes; `make bench` holds the seconds to their bound."""
    row = points.analysis(500, tmp_path)
    assert row["trajectories"] == 2000
    assert 1_780_000 <= row["rounds"] <= 1_800_000
    assert row["peak_gib"] < 2
    assert not list(tmp_path.iterdir())
