"""Tables, figures and scorecard values of the lossless study, from small statistics."""

from pathlib import Path

import pandas as pd
import pytest
from draftscope.exhibits import figures, published
from draftscope.exhibits.tables import read_table
from draftscope.lossless import breakdown, proof_tables, speed, tables
from draftscope.lossless import figures as drawn
from draftscope.lossless.measurements import Measurements
from live_logs import SETTINGS, log

ROOT = Path(__file__).resolve().parents[2]
STATISTICS = {"confidence": 0.95, "resamples": 300, "method": "studentized", "margin": 0.05}


@pytest.fixture(scope="module")
def frames():
    found = {"speed": [], "positions": [], "phases": []}
    for pair, label in (("copy", "mixed_3b"), ("lookup", None)):
        timings, rounds = log(gamma=4, accepted=(4, 2, 0))
        own = speed.Configuration(pair, "math", "sample", label, timings, rounds, 1.5)
        found["speed"] += speed.speed_rows(own, SETTINGS)
        found["positions"] += breakdown.position_rows(own, SETTINGS)
        found["phases"] += breakdown.phase_rows(own)
    latency = [
        {"target": "t", "tokens": n, "context": 8, "repeat": r, "seconds": n + r / 10}
        for n in (1, 5)
        for r in range(3)
    ]
    found["latency"] = breakdown.latency_rows(pd.DataFrame(latency))
    greedy = {"pair": "copy", "domain": "math", "mode": "greedy", "draft_length": 4}
    found["greedy"] = [
        greedy | {"dtype": "float32", "prompt_id": name, "tokens": 9, "identical": name == "a",
                  "flip": None if name == "a" else 3, "gap": None if name == "a" else 1e-4,
                  "reason": None}
        for name in "ab"
    ]  # fmt: skip
    test = {"texts": 5, "tokens": 50, "statistic": 3.0, "freedom": 2, "level_of_test": 0.01,
            "detectable": 0.1, "total_variation": 0.02, "reason": None}  # fmt: skip

    def tested(level, subject, name, correct, p):
        rule = "speculative_sampling" if correct else "bonus_from_draft"
        return test | {"level": level, "subject": subject, "rule": rule, "test": name,
                       "correct": correct, "p": p, "rejected": p < 0.01}  # fmt: skip

    found["equivalence"] = [
        *(
            tested(1, family, "goodness of fit", True, 0.4)
            for family in ("uniform-Dirichlet", "heavy-tailed", "near-identical",
                           "mismatched concentration")
        ),
        tested(1, "heavy-tailed", "goodness of fit", False, 1e-9),
        tested(2, "model draft", "pooled token counts, two-sample chi-square", True, 0.3),
        *(tested(2, "model draft", f"greedy, K={n}", True, 0.9) for n in (1, 2, 4, 8)),
        tested(3, "copy", "pooled token counts, two-sample chi-square", True, 0.2),
    ]  # fmt: skip
    replayed = {"domain": "math", "mode": "sample", "draft_length": 4, "prompts": 8, "texts": 8,
                "left_out": 0, "replays": 20, "margin": 0.05, "live": 2.0, "replayed": 2.01,
                "difference": -0.01, "difference_lower": -0.03, "difference_upper": 0.01,
                "prompts_needed": 12, "same_rounds": None, "length_p": 0.5,
                "live_counts": [3, 2, 1, 0, 2], "replayed_counts": [3.1, 1.9, 1, 0, 2],
                "reason": "chance is left"}  # fmt: skip
    found["replay"] = [
        replayed | {"pair": "copy", "p": 0.01},
        replayed | {"pair": "lookup", "p": 0.2},
    ]
    return {name: pd.DataFrame(rows) for name, rows in found.items()}


def shown(table, tmp_path):
    table.write(tmp_path / "table")
    return read_table(tmp_path / "table.csv"), (tmp_path / "table.md").read_text("utf-8")


def test_the_table_of_configurations_has_both_speeds_and_both_ratios(frames, tmp_path):
    rows, text = shown(tables.configurations(frames["speed"], 4, STATISTICS), tmp_path)
    assert list(rows["pair"]) == ["copy", "lookup"]
    assert list(rows["beside"]) == ["mixed_3b", "–"]
    first = frames["speed"].iloc[1]
    assert float(rows["speedup"][0]) == pytest.approx(first["speedup"])
    assert float(rows["acceptance"][0]) == pytest.approx(100 * first["acceptance"])
    assert "| speedup | lower | upper |" in text


def test_the_sweep_shows_plain_decoding_without_inventing_a_prediction(frames, tmp_path):
    rows, _ = shown(tables.sweep(frames["speed"], STATISTICS), tmp_path)
    assert list(rows["draft_length"]) == ["0", "4", "0", "4"]
    assert rows["predicted"][0] == "" and rows["reason"][0] == "plain decoding drafts nothing"
    assert float(rows["yield_positions"][1]) == pytest.approx(3)


def test_positions_phases_and_latency_are_in_percent_and_milliseconds(frames, tmp_path):
    rows, _ = shown(tables.positions(frames["positions"], 4, STATISTICS), tmp_path)
    assert [float(x) for x in rows["position_rate"][:4]] == pytest.approx(
        [200 / 3, 200 / 3, 100 / 3, 100 / 3]
    )
    rows, _ = shown(tables.phases(frames["phases"]), tmp_path)
    assert float(rows["sum"][0]) == pytest.approx(105)
    rows, _ = shown(tables.verify_latency(frames["latency"]), tmp_path)
    assert [float(x) for x in rows["median"]] == [1100.0, 5100.0]


def test_outcomes_say_pass_or_caught_and_missed_controls_are_named(frames, tmp_path):
    rows, text = shown(proof_tables.equivalence(frames["equivalence"]), tmp_path)
    assert list(rows["outcome"])[:5] == ["passes"] * 4 + ["caught"]
    assert "no test caught: none" in text
    weak = frames["equivalence"].assign(rejected=False)
    rows, text = shown(proof_tables.equivalence(weak), tmp_path)
    assert rows["outcome"][4] == "missed"
    assert "bonus\\_from\\_draft" in text.split("no test caught:")[1]


def test_equality_is_claimed_only_where_it_was_shown(frames, tmp_path):
    rows, _ = shown(proof_tables.replay(frames["replay"], STATISTICS), tmp_path)
    assert list(rows["equal"]) == ["yes", "not shown"]
    rows, _ = shown(proof_tables.greedy(frames["greedy"]), tmp_path)
    assert (rows["identical"][0], rows["prompts"][0], rows["gap_high"][0]) == ("1", "2", "0.0001")


def test_figures_draw_and_give_the_same_bytes_twice(frames, tmp_path):
    def draw(folder):
        with figures.style():
            for number, figure in enumerate(
                (
                    drawn.speed(frames["speed"], 0.95),
                    drawn.positions(frames["positions"], 4, 0.95),
                    drawn.phases(frames["phases"]),
                    drawn.verify_latency(frames["latency"]),
                    drawn.round_lengths(frames["replay"], 4),
                )
            ):
                figures.save(figure, folder / f"f{number}", "title")
        return [path.read_bytes() for path in sorted(folder.iterdir())]

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert draw(tmp_path / "a") == draw(tmp_path / "b")


def test_figures_without_data_say_so(frames):
    empty = {name: frame.iloc[:0] for name, frame in frames.items()}
    with figures.style():
        for figure in (
            drawn.speed(empty["speed"], 0.95),
            drawn.positions(empty["positions"], 4, 0.95),
            drawn.phases(empty["phases"]),
            drawn.verify_latency(empty["latency"]),
            drawn.round_lengths(empty["replay"], 4),
        ):
            assert any(axes.texts for axes in figure.axes)


def measured(frames, **run):
    conditions = {"draft_length": 4, "configurations": {"mixed_3b": "x"}}
    cells = published.load(ROOT / "config/published/lossless.csv")
    found = Measurements(frames, conditions | run, conditions, 4).rows(cells)
    return {(row["exhibit"], row["row"], row["column"]): row for row in found}, cells


def test_every_published_cell_has_a_value_or_a_reason(frames):
    rows, cells = measured(frames)
    assert rows.keys() == set(cells)
    for row in rows.values():
        assert (row["value"] is None) == bool(row["missing_reason"]), row


def test_values_stand_in_the_published_unit(frames):
    rows, _ = measured(frames)
    spec = frames["speed"].iloc[1]
    for key, value in {
        ("Table 3", "mixed_3b", "acceptance"): 100 * spec["acceptance"],
        ("Table 4", "K=4", "speedup"): spec["speedup"],
        ("Section 6.3", "mixed_3b", "positional acceptance 1"): 200 / 3,
        ("Section 6.4", "mixed_3b", "draft step"): 30.0,
        ("Section 6.5", "Transformers-MPS", "verify pass, 5 tokens"): 5100.0,
        ("Section 7", "mixed_3b", "tokens per round, measured"): 3.0,
        ("Level 1", "heavy-tailed", "goodness-of-fit p"): 0.4,
        ("Level 2", "greedy", "K=8 bit-identical"): 1.0,
        ("Level 3", "greedy", "identical prompts"): 1.0,
        ("Level 3", "two-sample test", "bins"): 3.0,
    }.items():
        assert rows[key]["value"] == pytest.approx(value), key
    assert rows["Table 3", "primary", "speedup"]["missing_reason"].startswith("no configuration")
    assert rows["Table 4", "K=6", "speedup"]["missing_reason"].startswith("no draft length 6")


def test_another_condition_is_named_and_the_same_one_is_not(frames):
    rows, _ = measured(frames)
    assert rows["Table 3", "mixed_3b", "speedup"]["condition_matches"]
    rows, _ = measured(frames, draft_length=5, configurations={"mixed_3b": "y"})
    note = rows["Table 3", "mixed_3b", "speedup"]["condition_note"]
    assert note == "draft length 5, published 4; mixed_3b is y, published x"
