"""Columns are read a few rows at a time, and a file that does not fit is named."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from draftscope import columns, records
from draftscope.errors import UserError

LOOP = {"sample": 0, "looped": False, "onset": None, "period": None, "repeats": None, "kind": None}


@pytest.fixture
def path(tmp_path):
    rows = [
        LOOP | {"prompt_id": f"p{n % 3}", "tokens": n, "loop_problem": False} for n in range(10)
    ]
    records.write(tmp_path / "loops.parquet", rows, "loops", {})
    return tmp_path / "loops.parquet"


def test_rows_come_in_order_and_only_the_columns_asked_for(path):
    parts = list(
        columns.batches(path, "loops", ["tokens", "prompt_id"], rows=4, coded=["prompt_id"])
    )
    assert [part.num_rows for part in parts] == [4, 4, 2]
    assert {name for part in parts for name in part.column_names} == {"prompt_id", "tokens"}
    assert [value for part in parts for value in part["tokens"].to_pylist()] == list(range(10))
    assert all(pa.types.is_dictionary(part["prompt_id"].type) for part in parts)
    assert parts[0]["prompt_id"].to_pylist() == ["p0", "p1", "p2", "p0"]


def test_a_file_without_rows_gives_none(tmp_path):
    records.write(tmp_path / "none.parquet", [], "loops", {})
    found = columns.batches(tmp_path / "none.parquet", "loops", ["tokens"])
    assert sum(part.num_rows for part in found) == 0


def test_files_that_do_not_fit_are_named(path):
    def message(file, schema="loops", names=("tokens",)):
        with pytest.raises(UserError) as told:
            list(columns.batches(file, schema, names))
        return str(told.value)

    assert "nowhere.parquet does not exist" in message(path.with_name("nowhere.parquet"))
    assert "holds loops, expected rounds" in message(path, "rounds")
    assert "another version of schema loops: it lacks depth" in message(path, names=["depth"])
    foreign = path.with_name("foreign.parquet")
    pq.write_table(pa.table({"tokens": [1]}), foreign)
    assert "holds no named schema" in message(foreign)
    content = path.read_bytes()
    damaged = path.with_name("damaged.parquet")
    for kept in (content[: len(content) // 2], content[:4] + b"\0" * 200 + content[204:]):
        damaged.write_bytes(kept)
        assert "damaged or not Parquet" in message(damaged, names=("tokens", "prompt_id"))
