"""Published numbers keep their digits, and the audit finds what does not add up in the papers."""

from pathlib import Path

import pytest
from draftscope.errors import UserError
from draftscope.exhibits import audit, published
from draftscope.exhibits.published import Cell, Published, Span
from hypothesis import given
from hypothesis import strategies as st

FOLDER = Path(__file__).parents[2] / "config" / "published"
STUDIES = ("position", "domains", "certificates", "losses", "retrace", "lossless")
HEADER = ",".join(published.COLUMNS)
ROW = "P,Table 1,r,c,0.50,0.4,0.6,,ratio,,arXiv 1,"
SIGN_TESTS = {
    ("same/greedy", "def1"): "1.2e-21",
    ("same/sample", "def1"): "5.2e-25",
    ("xfam/greedy", "def1"): "1.8e-60",
    ("xfam/sample", "def1"): "9.6e-55",
    ("same/sample", "alpha"): "8.3e-17",
    ("xfam/sample", "alpha"): "8.7e-30",
}
# Known faults of arithmetic in the papers, found by hand before this audit was written.
KNOWN = {
    "position": {
        "interval width entropy-weighted delta greedy",
        "Figure 1 ranges as def1",
    },
    "domains": {
        "mean alpha over nodes",
        "mean entropy over nodes",
        "deviation of alpha over nodes",
        "late minus early depth 1, log",
        "late minus early depth 2, log",
        "gap chat over math",
        "nodes at depth 1",
        "run time",
        "memory of the target",
        "memory of the draft",
    },
    "certificates": {
        *(f"top-{m} within additive t=0.01 Qwen3-4B" for m in (2, 4, 6, 8)),
        *(f"top-{m} within additive t=0.1 Qwen3-4B" for m in (4, 6, 8)),
        *(f"top-{m} within additive t=0.2 Qwen3-4B" for m in (6, 8)),
        *(
            f"m=2 as strict greedy t={t} {model}"
            for t in ("0.01", "0.05", "0.1", "0.2")
            for model in ("Qwen3-1.7B", "Qwen3-4B")
        ),
    },
    "losses": set(),
    "retrace": {
        "gain in speedup, mean of ratios",
        "speedup from cycle time without the bonus token",
        "speedup from cycle time with the bonus token",
        *(f"DFlash average speedup T={t}/{m}/DFlash (16)" for t in (0, 1) for m in ("4B", "8B")),
        "DFlash over EAGLE-3 (16) T=0",
        "DFlash over EAGLE-3 (16) T=1",
        "DFlash largest ratio",
        "DFlash overall ratio",
        "DFlash thinking T=0",
        "DFlash thinking T=1",
    },
    "lossless": {
        "tokens Level 2",
        "i.i.d. formula as an upper bound",
        "slower at every K",
        "speculative milliseconds a token",
    },
}


def change(cells: Published, key, **fields) -> Published:
    changed = dict(cells) | {key: Cell(**(vars(cells[key]) | fields))}
    return Published(cells.study, list(changed.values()))


@pytest.mark.parametrize("study", STUDIES)
def test_the_audit_finds_exactly_the_known_faults(study):
    findings = audit.run(published.load(FOLDER / f"{study}.csv"))
    assert {finding.name for finding in findings if not finding.holds} == KNOWN[study]
    assert study == "losses" or sum(finding.holds for finding in findings) >= 20


@pytest.mark.parametrize(("row", "metric"), SIGN_TESTS)
def test_sign_tests_follow_from_the_printed_counts(row, metric):
    cells = published.load(FOLDER / "position.csv")
    key = ("Table 1", row, f"{metric} sign-test p")
    assert cells[key].value == SIGN_TESTS[row, metric]
    name = f"sign test {row} {metric}"
    assert {f.name: f.holds for f in audit.run(cells)}[name]
    up = ("Table 1", row, f"{metric} up")
    wrong = change(cells, up, value=str(int(cells[up].value) + 1))
    assert not {f.name: f.holds for f in audit.run(wrong)}[name]


def test_the_audit_notices_a_changed_difference():
    cells = published.load(FOLDER / "position.csv")
    key = ("Table 4", "reflection-marked", "delta sampling")
    assert "difference reflection-marked sampling" not in KNOWN["position"]
    wrong = change(cells, key, value="-0.0238")
    failed = {f.name for f in audit.run(wrong) if not f.holds}
    assert "difference reflection-marked sampling" in failed
    assert audit.remarks(audit.run(wrong))[key].startswith("does not add up: arm minus uniform")


def test_remarks_name_what_fails_and_what_holds():
    remarks = audit.remarks(audit.run(published.load(FOLDER / "retrace.csv")))
    text = remarks["DFlash Table 1", "T=0/4B/DFlash (16)", "Avg speedup"]
    assert "the arithmetic mean gives" in text
    assert "but holds: DFlash geometric average" in text
    remarks = audit.remarks(audit.run(published.load(FOLDER / "position.csv")))
    key = ("Table 1", "same/greedy", "def1 sign-test p")
    assert remarks[key] == "consistent with the paper's other numbers"


def test_an_unknown_study_has_no_findings():
    cells = published.load(FOLDER / "position.csv", study="new")
    assert cells.study == "new" and audit.run(cells) == []


@pytest.mark.parametrize(
    ("value", "unit", "note", "low", "high"),
    [
        ("0.010", "ratio", "", 0.0095, 0.0105),
        ("1.2e-21", "p-value", "", 1.15e-21, 1.25e-21),
        ("-0.0138", "tokens", "", -0.01385, -0.01375),
        ("327", "count", "", 327, 327),
        ("4", "percent", "", 3.5, 4.5),
        ("1780000", "count", "printed as about 1.78M", 1775000, 1785000),
        ("12000", "tokens", "printed as 0-12K", 11500, 12500),
    ],
)
def test_rounding_interval_of_printed_digits(value, unit, note, low, high):
    cell = Cell("s", "p", "e", "r", "c", value, "", "", "", unit, "", "src", note)
    span = cell.rounding()
    assert (span.low, span.high) == pytest.approx((low, high), rel=1e-12)


def test_interval_prefers_what_the_paper_states():
    base = ("s", "p", "e", "r", "c", "4.990")
    printed = Cell(*base, "4.9", "5.1", "", "tokens", "", "src", "")
    error = Cell(*base, "", "", "0.012", "tokens", "", "src", "spread = standard error")
    deviation = Cell(*base, "", "", "0.012", "tokens", "", "src", "spread = standard deviation")
    assert printed.interval() == Span(4.9, 5.1)
    assert error.interval().low == pytest.approx(4.990 - 1.96 * 0.012, abs=1e-5)
    assert deviation.interval() == deviation.rounding()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER.replace("unit", "units") + "\n" + ROW, "columns must be"),
        (HEADER + "\n" + ROW + "\n" + ROW, "line 3: the cell Table 1 / r / c is there twice"),
        (HEADER + "\n" + ROW.replace("0.50", "nan"), "value is 'nan', not a number"),
        (HEADER + "\n" + ROW.replace("0.50", "about 1"), "not a number"),
        (HEADER + "\n" + ROW.replace("0.4,0.6", "0.6,0.4"), "lower 0.6 is above upper 0.4"),
        (HEADER + "\n" + ROW.replace("0.50", ""), "must start with 'bound only'"),
        (HEADER + "\n" + ROW.replace("0.50,0.4,0.6", ",,"), "neither a value nor a bound"),
        (HEADER + "\n" + ROW.replace("ratio", ""), "unit is empty"),
        (HEADER + "\n" + ROW + ",x", "13 fields, not 12"),
        (HEADER, "holds no cells"),
    ],
)
def test_refuses_bad_files(tmp_path, text, message):
    path = tmp_path / "study.csv"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        published.load(path)
    with pytest.raises(UserError, match="does not exist"):
        published.load(tmp_path / "absent.csv")


def test_every_reading_covers_a_cell_and_nothing_is_lost():
    readings = published.load_readings(FOLDER / "readings.csv")
    studies = {study: published.load(FOLDER / f"{study}.csv") for study in STUDIES}
    for reading in readings:
        assert any(reading.covers(cell) for cell in studies[reading.study].values()), reading
    cells = studies["position"]

    def of(*key):
        return " / ".join(reading.reading for reading in readings if reading.covers(cells[key]))

    assert "draft length 5" in of("Table 1", "same/greedy", "def1 difference")
    assert "temperature" not in of("Table 1", "same/greedy", "def1 difference")
    assert "temperature 0.6" in of("Table 1", "same/sample", "alpha difference")
    assert "draft length" not in of("Table 1", "same/sample", "alpha difference")
    assert "bonus token" in of("Table 3", "T=0.3", "MAL")
    assert "temperature 0.6" not in of("Table 3", "T=0.3", "MAL")
    assert of("Abstract", "all", "problems") == ""


finite = st.floats(-100, 100)


@given(finite, finite, st.floats(0, 1), st.floats(0, 1), st.sampled_from("+-*"))
def test_interval_arithmetic_contains_every_point(a, b, wide_a, wide_b, sign):
    operation = {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
    }[sign]
    spans = Span(a, a + wide_a), Span(b, b + wide_b)
    result = operation(*spans)
    for x in (spans[0].low, spans[0].high, (spans[0].low + spans[0].high) / 2):
        for y in (spans[1].low, spans[1].high, (spans[1].low + spans[1].high) / 2):
            value = operation(x, y)
            assert result.low - 1e-9 <= value <= result.high + 1e-9
