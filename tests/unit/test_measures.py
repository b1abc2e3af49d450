"""Every measure from hand-made rounds, through the script, as tables."""

import json
import subprocess
import sys

import pytest
from draftscope import records
from draftscope.errors import UserError
from draftscope.exhibits import measures
from draftscope.exhibits.tables import read_table


def rounds(path, counts, prompts="aab"):
    """Rounds of draft length 3 with (offered, accepted, emitted) each."""
    rows = [
        {"prompt_id": prompt, "sample": 0, "draft_length": 3, "source": "replay", "rule": "greedy",
         "lossless": True, "round": i, "start": 0, "offered": offered, "accepted": accepted,
         "emitted": emitted, "end": "continue"}
        for i, (prompt, (offered, accepted, emitted)) in enumerate(zip(prompts, counts, strict=True))
    ]  # fmt: skip
    records.write(path, rows, "rounds", {"domain": "d", "mode": "m"})
    return path


def test_case_42_the_same_rounds_under_every_definition(tmp_path):
    path = rounds(tmp_path / "rounds.parquet", [(3, 2, 3), (3, 0, 1), (3, 3, 4)])
    settings = {"configurations": [{"pair": "p", "domain": "d", "mode": "m"}]}
    subprocess.run(
        [sys.executable, "scripts/acceptance_measures.py", "--settings", json.dumps(settings),
         "--rounds", path, "--output", tmp_path / "m.parquet", "--folder", tmp_path],
        check=True, capture_output=True,
    )  # fmt: skip
    table = read_table(tmp_path / "measures.csv").set_index("pooling")
    micro = table.loc["micro"]
    assert float(micro["def1"]) == pytest.approx(5 / 9)
    assert float(micro["accepted_length"]) == pytest.approx(5 / 3)
    assert float(micro["acceptance_length"]) == pytest.approx(8 / 3)
    assert float(micro["verify_rate"]) == pytest.approx(8 / 12)
    # Prompt a: (2 + 0) / 2 rounds, prompt b: 3 / 1.
    assert float(table.loc["macro", "accepted_length"]) == pytest.approx((1 + 3) / 2)
    places = read_table(tmp_path / "positions.csv")
    assert list(places["position"]) == ["1", "2", "3"]
    assert list(places["conditional_rate"].astype(float)) == pytest.approx([2 / 3, 1, 1 / 2])
    assert list(places["reached"]) == ["3", "2", "2"]


def test_a_position_that_no_round_reached_says_so(tmp_path):
    path = rounds(tmp_path / "rounds.parquet", [(3, 0, 1), (3, 0, 1), (3, 0, 1)])
    rows = measures.measure([{"pair": "p", "domain": "d", "mode": "m"}], [path])
    records.write(tmp_path / "m.parquet", rows, "measures", {})
    frame = records.read(tmp_path / "m.parquet", "measures").to_pandas()
    table = measures.by_position(frame).frame
    assert list(table["conditional_rate"].isna()) == [False, True, True]
    assert list(table["reason"].fillna("")) == ["", "no round reached it", "no round reached it"]


def test_files_and_configurations_must_be_as_many():
    with pytest.raises(UserError, match="2 files of rounds for 1 configurations"):
        measures.measure([{"pair": "p", "domain": "d", "mode": "m"}], ["a", "b"])


def test_a_file_without_rounds_has_no_measures(tmp_path):
    path = rounds(tmp_path / "rounds.parquet", [], "")
    assert measures.measure([{"pair": "p", "domain": "d", "mode": "m"}], [path]) == []
