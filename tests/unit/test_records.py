"""Files are whole or absent, hold what their schema says, and know their condition."""

import numpy as np
import pyarrow as pa
import pytest
from draftscope import errors, records, schemas, seeds
from draftscope.errors import UserError
from hypothesis import given
from hypothesis import strategies as st


def loop_row(prompt: str, **changes) -> dict:
    row = {
        "prompt_id": prompt,
        "sample": 0,
        "tokens": 3,
        "looped": False,
        "onset": None,
        "period": None,
        "repeats": None,
        "kind": None,
        "loop_problem": False,
    }
    return row | changes


def test_rows_come_back_as_written_with_condition_and_provenance(tmp_path):
    path = tmp_path / "deep/loops.parquet"
    rows = [loop_row("a"), loop_row("b", looped=True, onset=1, period=2, repeats=1.5, kind="text")]
    records.write(path, rows, "loops", {"target": "t"}, {"seed": 7})
    table = records.read(path, "loops", ["a", "b"])
    assert table.to_pylist() == rows
    assert records.condition(path) == {"target": "t"}
    provenance = records.provenance(path)
    assert provenance["seed"] == 7
    assert provenance["packages"]["pyarrow"] == pa.__version__


@pytest.mark.parametrize("text", ["NaN", "null", "NA", '"', ",", "\n", " 007", "", "\u2028"])
def test_case_74_odd_text_survives_parquet(tmp_path, text):
    records.write(tmp_path / "x.parquet", [loop_row(text, kind=text)], "loops", {})
    assert records.read(tmp_path / "x.parquet", "loops").column("kind").to_pylist() == [text]


def test_case_75_types_do_not_depend_on_the_values(tmp_path):
    records.write(tmp_path / "none.parquet", [loop_row("a")], "loops", {})
    records.write(tmp_path / "some.parquet", [loop_row("b", onset=4)], "loops", {})
    records.write(tmp_path / "empty.parquet", [], "loops", {})
    paths = [tmp_path / f"{name}.parquet" for name in ("none", "some", "empty")]
    joined = records.read_many(paths, "loops")
    assert joined.column("onset").to_pylist() == [None, 4]
    assert joined.schema.field("onset").type == pa.int32()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"prompt_id": "a"}], "other columns"),
        ([loop_row("a", sample=None)], "nulls"),
        ([loop_row("a", repeats=float("nan"))], "NaN"),
    ],
)
def test_a_wrong_row_is_a_fault_and_leaves_no_file(tmp_path, rows, expected):
    with pytest.raises(ValueError, match=expected):
        records.write(tmp_path / "x.parquet", rows, "loops", {})
    assert list(tmp_path.iterdir()) == []


def test_case_65_a_shard_is_complete_when_it_holds_exactly_its_prompts(tmp_path):
    path = tmp_path / "x.parquet"
    records.write(path, [loop_row("a"), loop_row("c")], "loops", {})
    with pytest.raises(UserError, match="lacks prompt b and holds foreign prompt c"):
        records.read(path, "loops", ["a", "b"])


@given(st.data())
def test_a_truncated_file_is_refused_by_name(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("t") / "x.parquet"
    records.write(path, [loop_row(str(i)) for i in range(50)], "loops", {})
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(UserError, match="x.parquet is damaged or not Parquet"):
        records.read(path, "loops")


@pytest.mark.parametrize("ask", [records.condition, records.provenance])
def test_what_a_truncated_file_was_measured_under_is_refused_by_name(tmp_path, ask):
    path = tmp_path / "x.parquet"
    records.write(path, [loop_row("a")], "loops", {"target": "t"})
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="x.parquet is damaged or not Parquet"):
        ask(path)
    with pytest.raises(UserError, match="does not exist"):
        ask(tmp_path / "y.parquet")


def test_another_schema_or_no_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        records.read(tmp_path / "x.parquet", "loops")
    records.write(tmp_path / "x.parquet", [loop_row("a")], "loops", {})
    with pytest.raises(UserError, match="holds loops, expected rounds"):
        records.read(tmp_path / "x.parquet", "rounds")


def test_case_10_rows_of_different_conditions_are_not_joined(tmp_path):
    for name, thinking in (("a", True), ("b", False)):
        condition = {"target": "t", "template": {"enable_thinking": thinking}}
        records.write(tmp_path / f"{name}.parquet", [loop_row(name)], "loops", condition)
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with pytest.raises(UserError, match="template is .*enable_thinking.* they cannot be compared"):
        records.read_many(paths, "loops")
    table = records.read_many(paths, "loops", may_differ=["template"])
    assert table.num_rows == 2
    assert records.condition(table) == {"target": "t"}


def test_a_prompt_in_two_shards_is_refused(tmp_path):
    for name in ("a", "b"):
        records.write(tmp_path / f"{name}.parquet", [loop_row("same")], "loops", {})
    with pytest.raises(UserError, match="prompt same stands in"):
        records.read_many([tmp_path / "a.parquet", tmp_path / "b.parquet"], "loops")


def test_the_data_dictionary_covers_every_column_with_a_meaning():
    rows = schemas.data_dictionary(["trajectories", "scores", "rounds"])
    assert all(row["meaning"] for row in rows)
    assert {row["column"] for row in rows if row["file"] == "rounds"} == set(
        schemas.SCHEMAS["rounds"].names
    )


@given(st.integers(0, 200), st.integers(0, 200), st.text(), st.integers(0, 2**40))
def test_a_stream_of_uniforms_does_not_depend_on_how_many_are_asked_for(few, more, text, number):
    key = ("replay", number, text)
    short, long = seeds.uniforms(few, *key), seeds.uniforms(few + more, *key)
    assert np.array_equal(short, long[:few])


def test_streams_of_different_keys_differ():
    streams = [
        tuple(seeds.uniforms(4, *key))
        for key in [("a", "b"), ("ab",), ("a", 1), ("a", "1"), ("a", "b", 0), ("b", "a")]
    ]
    assert len(set(streams)) == len(streams)
    with pytest.raises(TypeError):
        seeds.generator("a", 1.5)


def test_a_script_reports_bad_input_in_one_line_and_a_fault_with_its_trace(capsys):
    def bad():
        raise UserError("gamma is 0; the smallest is 1")

    with pytest.raises(SystemExit) as stop:
        errors.command(bad)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: gamma is 0; the smallest is 1\n"
    with pytest.raises(ZeroDivisionError):
        errors.command(lambda: 1 / 0)


def test_a_json_argument_is_text_or_a_file(tmp_path):
    (tmp_path / "x.json").write_text('{"a": 1}')
    assert errors.json_argument('{"a": 1}') == errors.json_argument(str(tmp_path / "x.json"))
    with pytest.raises(UserError, match="not valid JSON"):
        errors.json_argument("{a")
    with pytest.raises(UserError, match="neither JSON"):
        errors.json_argument("nowhere.json")
