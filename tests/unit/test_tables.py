"""Tables: nothing is lost in the CSV, nothing is NaN anywhere, and the text is safe to show."""

import numpy as np
import pandas as pd
import pytest
from draftscope.errors import UserError
from draftscope.exhibits import tables
from hypothesis import given, settings
from hypothesis import strategies as st

AWKWARD = ["null", "NA", "None", "nan", '"', ",", "a\nb", " 007", "1e5", "", "|", "\\", "<b>", "é"]


def test_case_74_token_text_survives_the_csv(tmp_path):
    frame = pd.DataFrame({"token": AWKWARD, "count": range(len(AWKWARD))})
    tables.write_table(frame, tmp_path / "tokens", caption="Tokens")
    back = tables.read_table(tmp_path / "tokens.csv")
    assert back["token"].tolist() == AWKWARD
    assert back["count"].tolist() == [str(n) for n in range(len(AWKWARD))]
    assert len(back.groupby("token", dropna=False)) == len(AWKWARD)


def test_case_74_plain_pandas_reading_would_lose_them(tmp_path):
    frame = pd.DataFrame({"token": AWKWARD})
    tables.write_table(frame, tmp_path / "tokens", caption="Tokens")
    assert pd.read_csv(tmp_path / "tokens.csv")["token"].isna().any()


def test_full_precision_in_csv_and_rounding_elsewhere(tmp_path):
    frame = pd.DataFrame({"name": ["x"], "value": [1 / 3], "p": [1.25e-21], "n": [np.int32(7)]})
    tables.write_table(
        frame, tmp_path / "v1.5", caption="C", formats={"p": ".1e"}, headers={"n": "prompts"}
    )
    assert (tmp_path / "v1.5.csv").read_text() == (
        '"name","value","p","n"\n"x",0.3333333333333333,1.25e-21,7\n'
    )
    shown = tables.read_markdown(tmp_path / "v1.5.md")
    assert shown.rows == [["x", "0.333", "1.2e-21", "7"]]
    assert shown.columns == ["name", "value", "p", "prompts"]
    assert shown.numeric == [False, True, True, True]


def test_missing_needs_a_reason(tmp_path):
    frame = pd.DataFrame({"value": [1.0, np.nan]})
    with pytest.raises(ValueError, match="no reason"):
        tables.write_table(frame, tmp_path / "t", caption="C")
    frame["reason"] = [None, "one prompt: no interval"]
    paths = tables.write_table(frame, tmp_path / "t", caption="C")
    texts = [path.read_text() for path in paths]
    assert not any("nan" in text.lower().replace("<na>", "nan") for text in texts)
    assert texts[0].splitlines()[2] == '"","one prompt: no interval"'
    assert "| – | one prompt: no interval |" in texts[1]
    tables.write_table(frame[["value"]], tmp_path / "u", caption="C", missing="not run")
    assert tables.read_table(tmp_path / "u.csv")["value"].tolist() == ["1.0", "not run"]


def test_rounded_zero_has_no_sign(tmp_path):
    assert tables.show(-0.0001, ".2f") == "0.00"
    assert tables.show(-0.01, ".2f") == "-0.01"
    assert tables.show(float("inf")) == "unbounded"


def test_latex_is_escaped(tmp_path):
    frame = pd.DataFrame({"50%_a&b": ["{x}^~\\"], "d": [-0.5]})
    tables.write_table(frame, tmp_path / "t", caption="γ = 5 & more", notes=["100%"])
    text = (tmp_path / "t.tex").read_text()
    assert r"50\%\_a\&b & d \\" in text
    assert r"\{x\}\textasciicircum{}\textasciitilde{}\textbackslash{} & $-$0.500 \\" in text
    assert r"\caption{$\gamma$ = 5 \& more}" in text
    assert r"100\%" in text


def test_same_frame_same_bytes(tmp_path):
    frame = pd.DataFrame({"a": ["x", "y"], "b": [0.1, 0.2]})
    one = tables.write_table(frame, tmp_path / "one", caption="C", notes=["n"])
    two = tables.write_table(frame.copy(), tmp_path / "two", caption="C", notes=["n"])
    for first, second in zip(one, two, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_refuses_what_it_cannot_write(tmp_path):
    with pytest.raises(ValueError, match="repeated"):
        tables.write_table(pd.DataFrame([[1, 2]], columns=["a", "a"]), tmp_path / "t", caption="C")
    with pytest.raises(ValueError, match="no column 'b'"):
        tables.write_table(
            pd.DataFrame({"a": [1]}), tmp_path / "t", caption="C", formats={"b": "d"}
        )
    with pytest.raises(UserError, match="does not exist"):
        tables.read_table(tmp_path / "absent.csv")
    (tmp_path / "x.md").write_text("hello")
    with pytest.raises(UserError, match="not a table"):
        tables.read_markdown(tmp_path / "x.md")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(blacklist_categories=("Cs", "Cc"))),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_text_and_number_comes_back(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("tables")
    frame = pd.DataFrame(rows, columns=["text", "number"])
    tables.write_table(frame, folder / "t", caption="C")
    back = tables.read_table(folder / "t.csv")
    assert back["text"].tolist() == [text for text, _ in rows]
    assert [float(cell) for cell in back["number"]] == [number for _, number in rows]
    shown = tables.read_markdown(folder / "t.md")
    assert [row[0] for row in shown.rows] == [text for text, _ in rows]
