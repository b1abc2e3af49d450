"""The statistics of the position study on synthetic texts with known acceptance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from draftscope import records
from draftscope.errors import UserError
from draftscope.position import analysis
from draftscope.position.analysis import Configuration, Settings
from synthetic_rounds import write_run

SETTINGS = Settings(
    draft_length=5, bin_width=32, confidence=0.95, resamples=400, method="studentized", seed=7
)


def configuration(paths, **changes) -> Configuration:
    fields = {
        "label": "same",
        "pair": "pair",
        "draft": "draft",
        "domain": "math",
        "mode": "sample",
        "temperature": 0.6,
        "rounds": paths["rounds"],
        "loops": paths["loops"],
        "scores": tuple(paths["scores"]),
    }
    return Configuration(**fields | changes)


def run(folder, rate, settings=SETTINGS, changes=None, **more):
    paths = write_run(folder, rate, **more)
    return analysis.study([configuration(paths, **(changes or {}))], settings)


def one(rows, schema, **key):
    (row,) = some(rows, schema, **key)
    return row


def some(rows, schema, **key):
    rows = rows[f"position_{schema}"]
    return [row for row in rows if all(row[name] == value for name, value in key.items())]


def constant(rate):
    return lambda x: np.full(len(x), rate)


def rising(x):
    return 0.6 + 0.2 * x


def test_planted_rise_is_recovered(tmp_path):
    rows = run(tmp_path, rising, prompts=60, spread=0.05)
    alpha = one(rows, "paired", metric="alpha", subset="all")
    # The halves of a line of slope .2 differ by .1.
    assert alpha["difference"] == pytest.approx(0.1, abs=0.003)
    def1 = one(rows, "paired", metric="def1", subset="all")
    assert def1["difference_lower"] > 0
    assert def1["up"] > 2 * def1["down"]
    assert def1["p"] < 1e-3
    for metric in ("def1", "alpha", "def2"):
        assert one(rows, "pooled", metric=metric, subset="all")["difference_lower"] > 0
    fifths = some(rows, "quintiles", metric="alpha", subset="all")
    assert [row["mean"] for row in fifths] == sorted(row["mean"] for row in fifths)
    assert fifths[4]["change"] == pytest.approx(0.16, abs=0.005)
    assert (fifths[0]["change"], fifths[0]["change_lower"]) == (0.0, 0.0)
    curve = some(rows, "curves", metric="def2", subset="all")
    assert curve[0]["mean"] < curve[3]["mean"]
    assert [row["start"] for row in curve] == list(range(0, 32 * len(curve), 32))


def test_planted_fall_has_the_other_sign(tmp_path):
    rows = run(tmp_path, lambda x: 0.8 - 0.2 * x, prompts=60)
    row = one(rows, "paired", metric="def1", subset="all")
    assert row["difference_upper"] < 0
    assert row["down"] > row["up"]


def test_constant_acceptance_differs_only_where_cut_rounds_are_counted(tmp_path):
    rows = run(tmp_path, constant(0.9), prompts=600, length=64, budget=64, scores=False)
    row = one(rows, "paired", metric="def1", subset="all")
    assert row["difference_lower"] < 0 < row["difference_upper"]
    # Negative control: the published protocol sees a fall in the same rounds.
    assert row["published_upper"] < -0.01
    assert row["published_p"] < 1e-3 < row["p"]
    assert row["cut_rounds"] > 600 / 2


def test_null_of_prompts_that_differ(tmp_path):
    rows = run(tmp_path, constant(0.7), prompts=80, spread=0.15, length=(64, 192))
    row = one(rows, "paired", metric="def1", subset="all")
    assert row["difference_lower"] < 0 < row["difference_upper"]
    assert row["holm_p"] > 0.01


def test_case_95_loops_inflate_acceptance(tmp_path):
    rows = run(tmp_path, constant(0.5), prompts=60, looping=20)
    whole, removed, cut = (
        one(rows, "paired", metric="def1", subset=name)
        for name in ("all", "loops_removed", "spans_cut")
    )
    assert whole["difference_lower"] > 0.05
    assert removed["difference_lower"] < 0 < removed["difference_upper"]
    assert cut["difference_lower"] < 0 < cut["difference_upper"]
    assert (removed["left_out_loops"], removed["prompts"]) == (20, 40)
    assert (cut["left_out_loops"], cut["prompts"]) == (0, 60)
    assert removed["prompts_total"] == 60
    pooled = one(rows, "pooled", metric="def1", subset="loops_removed")
    assert pooled["prompts"] == 40
    assert pooled["difference_lower"] < 0 < pooled["difference_upper"]


def test_case_76_only_ties(tmp_path):
    rows = run(tmp_path, constant(1.0), prompts=12)
    for metric in ("def1", "alpha"):
        row = one(rows, "paired", metric=metric, subset="all")
        assert (row["up"], row["down"], row["ties"], row["p"]) == (0, 0, 12, 1.0)
        assert (row["difference"], row["difference_lower"], row["difference_upper"]) == (0, 0, 0)
        assert row["reason"] == "constant"


def test_case_81_one_prompt_has_no_interval(tmp_path):
    rows = run(tmp_path, rising, prompts=1, looping=0)
    row = one(rows, "paired", metric="def1", subset="all")
    assert row["prompts"] == 1
    assert row["difference"] is not None
    assert row["difference_lower"] is None
    assert row["reason"] == "one prompt: no interval"
    assert row["p"] == 1.0
    written(tmp_path, rows)


def test_one_prompt_that_loops_leaves_nothing(tmp_path):
    rows = run(tmp_path, rising, prompts=1, looping=1)
    row = one(rows, "paired", metric="def1", subset="loops_removed")
    assert (row["prompts"], row["left_out_loops"], row["difference"]) == (0, 1, None)
    assert row["reason"] == analysis.NO_HALVES
    assert (row["p"], row["holm_p"]) == (1.0, None)
    written(tmp_path, rows)


@pytest.mark.parametrize("tokens", [0, 1, 3])
def test_case_85_texts_too_short_are_counted_apart(tmp_path, tokens):
    rows = run(tmp_path, constant(0.5), prompts=4, length=tokens, budget=192)
    paired = one(rows, "paired", metric="def1", subset="all")
    assert (paired["prompts"], paired["left_out_short"], paired["prompts_total"]) == (0, 4, 4)
    assert paired["reason"] == analysis.NO_HALVES
    fifths = some(rows, "quintiles", metric="alpha", subset="all")
    assert {row["prompts"] for row in fifths} == {0}
    written(tmp_path, rows)


def test_case_83_samples_of_a_prompt_are_one_unit(tmp_path):
    rows = run(tmp_path, constant(0.6), prompts=10, samples=6)
    row = one(rows, "paired", metric="def1", subset="all")
    assert row["prompts"] == row["up"] + row["down"] + row["ties"] == 10
    assert one(rows, "pooled", metric="alpha", subset="all")["prompts"] == 10


def test_draft_without_scores_says_so(tmp_path):
    paths = write_run(tmp_path, rising, scores=False)
    rows = analysis.study([configuration(paths)], SETTINGS)
    row = one(rows, "paired", metric="alpha", subset="all")
    assert (row["difference"], row["p"], row["reason"]) == (None, None, analysis.NO_SCORES)
    assert one(rows, "paired", metric="def1", subset="all")["family"] == 1
    assert not some(rows, "curves", metric="def2")
    written(tmp_path, rows)


def test_holm_counts_the_tests_of_one_table(tmp_path):
    first = configuration(write_run(tmp_path / "a", rising, seed=1))
    second = configuration(
        write_run(tmp_path / "b", constant(0.6), seed=2, scores=False), label="xfam", pair="other"
    )
    alone = analysis.study([first], SETTINGS)
    both = analysis.study([first, second], SETTINGS)
    row = one(both, "paired", label="same", metric="def1", subset="loops_removed")
    assert row["family"] == 3
    assert row["holm_p"] >= row["p"]
    # Nothing but the adjustment depends on what stands beside a configuration.
    mine = one(alone, "paired", metric="def1", subset="loops_removed")
    assert {k: v for k, v in row.items() if k not in ("holm_p", "family")} == {
        k: v for k, v in mine.items() if k not in ("holm_p", "family")
    }
    assert some(both, "curves", label="same") == alone["position_curves"]


def test_shards_and_their_order_change_nothing(tmp_path):
    whole = write_run(tmp_path / "a", rising, shards=1, looping=3)
    parts = write_run(tmp_path / "b", rising, shards=5, looping=3)
    parts["scores"].reverse()
    assert analysis.study([configuration(whole)], SETTINGS) == analysis.study(
        [configuration(parts)], SETTINGS
    )


def test_published_interval_is_the_percentile_one(tmp_path):
    rows = run(tmp_path, rising, prompts=12)
    row = one(rows, "paired", metric="alpha", subset="all")
    assert (row["published_lower"], row["published_upper"]) == (
        row["percentile_lower"],
        row["percentile_upper"],
    )
    assert row["difference_upper"] - row["difference_lower"] > (
        row["published_upper"] - row["published_lower"]
    )


def test_paths_in_the_wrong_order_are_refused(tmp_path):
    paths = write_run(tmp_path, rising, mode="greedy")
    with pytest.raises(UserError, match="measured with mode 'greedy', not 'sample'"):
        analysis.study([configuration(paths)], SETTINGS)


def test_files_of_different_runs_are_refused(tmp_path):
    paths = write_run(tmp_path, rising)
    loops = records.read(paths["loops"], "loops")
    other = records.condition(loops) | {"law": {"temperature": 1.0}}
    records.write(paths["loops"], loops, "loops", other)
    with pytest.raises(UserError, match="law is"):
        analysis.study([configuration(paths)], SETTINGS)


def test_unknown_draft_draft_length_and_text_are_refused(tmp_path):
    paths = write_run(tmp_path / "a", rising, prompts=4)
    with pytest.raises(UserError, match="no scores of draft 'other' .* only of draft"):
        analysis.study([configuration(paths, draft="other")], SETTINGS)
    settings = Settings(3, 32, 0.95, 100, "bca", 1)
    with pytest.raises(UserError, match=r"no rounds of draft length 3, only of \[5\]"):
        analysis.study([configuration(paths)], settings)
    fewer = write_run(tmp_path / "b", rising, prompts=3)
    with pytest.raises(UserError, match="does not fit its loops file: .*p0003"):
        analysis.study([configuration(paths | {"loops": fewer["loops"]})], SETTINGS)


def test_damaged_and_missing_files_are_named(tmp_path):
    paths = write_run(tmp_path, rising, prompts=4)
    with pytest.raises(UserError, match="nowhere.parquet does not exist"):
        analysis.study([configuration(paths, rounds=f"{tmp_path}/nowhere.parquet")], SETTINGS)
    content = (tmp_path / "scores0.parquet").read_bytes()
    (tmp_path / "scores0.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="scores0.parquet is damaged"):
        analysis.study([configuration(paths)], SETTINGS)


def test_another_schema_is_refused(tmp_path):
    paths = write_run(tmp_path, rising, prompts=4)
    with pytest.raises(UserError, match="holds loops, expected rounds"):
        analysis.study([configuration(paths, rounds=paths["loops"])], SETTINGS)


def written(folder, rows):
    """Every file takes its rows: nothing is NaN or null where the schema forbids it."""
    for schema, content in rows.items():
        records.write(folder / f"{schema}.parquet", content, schema, {})
        assert isinstance(records.read(folder / f"{schema}.parquet", schema), pa.Table)
