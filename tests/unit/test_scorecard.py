"""A verdict never claims more than the interval and the condition allow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from draftscope import records
from draftscope.exhibits import published, scorecard, tables
from draftscope.exhibits.published import Cell
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "config" / "published"
MARGINS = {"ratio": 0.02, "tokens": 0.1}


def cell(column="def1 difference", value="0.031", lower="0.026", upper="0.036", unit="ratio"):
    return Cell("position", "P", "Table 1", "r", column, value, lower, upper, "", unit, "", "s", "")


def mine(value=0.03, lower=0.025, upper=0.035, matches=True, reason=None):
    return {
        "value": value,
        "lower": lower,
        "upper": upper,
        "condition_matches": matches,
        "missing_reason": reason,
    }


@pytest.mark.parametrize(
    ("published_cell", "ours", "verdict"),
    [
        (cell(), mine(), "agrees"),
        (cell(), mine(0.05, 0.045, 0.055), "differs"),
        (cell(), mine(0.05, 0.045, 0.055, matches=False), "same direction"),
        (cell(), mine(-0.05, -0.055, -0.045), "differs"),
        (cell(), mine(-0.05, -0.055, -0.045, matches=False), "opposite direction"),
        (cell(), mine(0.03, -0.01, 0.07, matches=False), "unresolved"),
        (cell(), mine(0.03, 0.0, 0.06, matches=False), "unresolved"),
        (cell(), mine(0.05, 0.01, 0.09), "same direction"),  # too wide to agree or differ
        (cell(), mine(0.05, None, None), "unresolved"),
        (cell(), mine(None, None, None, reason="no run"), "not measured"),
        (cell(), None, "not measured"),
        (cell(value="0.01", lower="-0.01", upper="0.03"), mine(matches=False), "unresolved"),
        (cell("MAL", "4.99", "", "", "tokens"), mine(4.99, 4.97, 5.01), "agrees"),
        (cell("MAL", "4.99", "", "", "tokens"), mine(2.1, 2.0, 2.2, matches=False), "unresolved"),
        (cell("up", "327", "", "", "count"), mine(300, 290, 310), "unresolved"),
        (cell("sign-test p", "1e-21", "", "", "p-value"), mine(0.01, None, None), "unresolved"),
        (cell("speedup", "1.57", "", "", "x"), mine(0.8, 0.7, 0.9, False), "opposite direction"),
        (cell("speedup", "1.57", "", "", "x"), mine(1.2, 1.1, 1.3, False), "same direction"),
        (cell("rho", "-0.2", "", "", "correlation"), mine(-0.4, -0.5, -0.3, False),
         "same direction"),
        (cell("speedup", "", "", "1.0", "x"), mine(0.8, 0.7, 0.9, False), "unresolved"),
    ],
)  # fmt: skip
def test_verdicts(published_cell, ours, verdict):
    found, why = scorecard.judge(published_cell, ours, MARGINS)
    assert (found, bool(why)) == (verdict, True)


numbers = st.floats(-1, 1)


@given(numbers, st.floats(0, 0.5), st.booleans(), st.sampled_from(["ratio", "tokens", "count"]))
def test_no_verdict_claims_more_than_the_interval(low, width, matches, unit):
    published_cell = cell(unit=unit)
    verdict, _ = scorecard.judge(published_cell, mine(low, low, low + width, matches), MARGINS)
    if verdict in ("agrees", "differs"):
        assert matches and unit in MARGINS and width < MARGINS[unit] + 1e-12
    if verdict in ("same direction", "opposite direction"):
        assert low > 0 or low + width < 0
        assert unit != "count"
    if verdict == "same direction":
        assert low > 0


def row(column="def1 difference", **fields):
    base = mine() | {
        "study": "position",
        "exhibit": "Table 1",
        "row": "same/greedy",
        "column": column,
        "unit": "ratio",
        "n": 40,
        "condition_note": "other models",
    }
    return base | fields


def test_compare_lists_every_cell_with_reading_and_audit(tmp_path):
    cells = published.load(FOLDER / "position.csv")
    readings = published.load_readings(FOLDER / "readings.csv")
    ours = [row(condition_matches=False), row("def1 up", unit="count", value=25.0, lower=None,
            upper=None)]  # fmt: skip
    card = scorecard.compare([cells], ours, MARGINS, readings)
    assert len(card) == len(cells)
    first = card.iloc[0]
    assert first["verdict"] == "same direction"
    assert first["condition"] == "differs: other models"
    assert "draft length 5" in first["reading"]
    narrow = card[card["audit"].str.startswith("does not add up")]
    assert len(narrow) == 5 and (narrow["exhibit"].isin(["Table 4", "Figure 1"])).all()
    counts = scorecard.count(card)
    assert counts["same direction"] == 1 and counts["unresolved"] == 1
    assert counts["not measured"] == len(cells) - 2

    scorecard.write(card, tmp_path / "s.csv", tmp_path / "s.md", "Scorecard")
    back = tables.read_table(tmp_path / "s.csv")
    assert list(back.columns) == list(scorecard.COLUMNS)
    assert back.loc[0, "published"] == "0.031" and float(back.loc[0, "measured"]) == 0.03
    text = (tmp_path / "s.md").read_text(encoding="utf-8")
    assert "0.031 \\[0.026, 0.036\\]" in text and "0.0300 \\[0.0250, 0.0350\\]" in text
    assert "0.064 ± 0.0005" in text
    assert "assumes: draft length 5" in text
    assert "nan" not in text.lower() and "None" not in text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row("def1 diffrence")], "no published cell"),
        ([row(), row()], "two measurements"),
        ([row(unit="tokens")], "published in ratio, measured in tokens"),
    ],
)
def test_faults_of_the_measuring_study_are_refused(rows, message):
    cells = published.load(FOLDER / "position.csv")
    with pytest.raises(ValueError, match=message):
        scorecard.compare([cells], rows, MARGINS)


def test_the_command_writes_both_files(tmp_path):
    measured = [row(missing_reason=None)]
    records.write(tmp_path / "m.parquet", measured, "measurements", {"target": "t"})
    arguments = [
        sys.executable, str(ROOT / "scripts" / "scorecard.py"),
        "--settings", json.dumps({"experiment": "x", "margins": MARGINS}),
        "--published", str(FOLDER / "position.csv"),
        "--readings", str(FOLDER / "readings.csv"),
        "--measurements", str(tmp_path / "m.parquet"),
        "--csv", str(tmp_path / "s.csv"), "--markdown", str(tmp_path / "s.md"),
    ]  # fmt: skip
    subprocess.run(arguments, check=True, capture_output=True)
    assert tables.read_table(tmp_path / "s.csv").loc[0, "verdict"] == "agrees"
    arguments[3] = json.dumps({"margin": {}})
    refused = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert refused.returncode == 2 and "unknown settings" in refused.stderr
