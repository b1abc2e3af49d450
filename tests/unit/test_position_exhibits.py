"""Tables, figures and measurements of the position study, through its scripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import position_exhibits
import position_measurements
import position_statistics
import pytest
from draftscope import records
from draftscope.errors import UserError
from draftscope.exhibits import figures, published, scorecard
from draftscope.exhibits.tables import read_table
from draftscope.position import figures as drawn
from draftscope.position import tables
from draftscope.position.measurements import Measurements
from synthetic_rounds import write_run

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "config" / "published" / "position.csv"
FILES = ("paired", "pooled", "curves", "quintiles", "halves")
PROTOCOL = {"draft_length": 5, "confidence": 0.95, "resamples": 300, "method": "studentized"}
PUBLISHED = {
    "target": "7B",
    "data": "math-500",
    "prompts": 500,
    "max_new_tokens": 16384,
    "draft_length": 5,
    "drafts": {"same": "1.5B", "xfam": "other 1.5B"},
    "modes": {"greedy": 0.0, "sample": 0.6},
}
TEMPERATURE = {"greedy": 0.0, "sample": 0.6}


def call(monkeypatch, script, *arguments):
    monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
    script.main()


def options(folder):
    return [part for name in FILES for part in (f"--{name}", folder / f"{name}.parquet")]


def make(monkeypatch, folder, labels=("same", "xfam"), modes=("greedy", "sample"), **more):
    """Statistics of synthetic configurations; xfam is a draft without scores."""
    configurations, paths = [], {"rounds": [], "loops": [], "scores": []}
    for place, label in enumerate(labels):
        for mode in modes:
            files = write_run(
                folder / label / mode,
                lambda x: 0.6 + 0.1 * x,
                **{"prompts": 16, "length": (60, 150), "looping": 3, "budget": 160} | more,
                seed=place,
                draft=label,
                mode=mode,
                scores=label != "xfam",
            )
            for name in ("rounds", "loops"):
                paths[name].append(files[name])
            paths["scores"] += files["scores"]
            configurations.append(
                {
                    "label": label,
                    "pair": f"pair-{label}",
                    "draft": label,
                    "domain": "math",
                    "mode": mode,
                    "temperature": TEMPERATURE[mode],
                    "score_shards": len(files["scores"]),
                }
            )
    settings = PROTOCOL | {"configurations": configurations, "bin_width": 32, "seed": 3}
    settings["support_prompts"] = 4
    arguments = ["--settings", json.dumps(settings)]
    for name, values in paths.items():
        arguments += [f"--{name}", *values]
    call(monkeypatch, position_statistics, *arguments, *options(folder))
    return folder


def frame(folder, name):
    return records.read(folder / f"{name}.parquet", f"position_{name}").to_pandas()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield make(monkeypatch, tmp_path_factory.mktemp("study"))


def test_scripts_write_every_exhibit(study, tmp_path, monkeypatch):
    call(monkeypatch, position_exhibits, *options(study), "--folder", tmp_path)
    names = {f"table{n}.{s}" for n in (1, 2) for s in ("csv", "md", "tex")}
    names |= {f"figure{n}.{s}" for n in (1, 2, 5) for s in ("svg", "pdf")}
    assert {path.name for path in tmp_path.iterdir()} == names
    for path in tmp_path.iterdir():
        assert b"NaN" not in path.read_bytes()
        assert b">nan<" not in path.read_bytes()
    table = read_table(tmp_path / "table1.csv")
    assert list(table["configuration"]) == [
        f"{label}/{mode}"
        for label in ("same", "xfam")
        for mode in ("greedy",) * 2 + ("sample",) * 2
    ]
    lookup = table[(table["configuration"] == "xfam/greedy") & (table["metric"] == "alpha")].iloc[0]
    assert (lookup["difference"], lookup["p"]) == ("", "")
    assert lookup["reason"].startswith("not defined")
    note = (tmp_path / "table1.md").read_text(encoding="utf-8")
    assert "13 of 16 prompts; left out 3 as loop problems, 0 with an empty half" in note
    assert "is left out whatever it accepted" in note
    assert "over the 6 tests of this table" in note
    again = tmp_path / "again"
    call(monkeypatch, position_exhibits, *options(study), "--folder", again)
    for path in again.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_table_columns_hold_the_statistics(study):
    paired = frame(study, "paired")
    table = tables.paired_halves(paired, **PROTOCOL).frame
    rows = paired[paired["subset"] == "loops_removed"]
    assert list(table["difference"].dropna()) == list(rows["difference"].dropna())
    assert list(table["published_difference"].dropna()) == list(rows["published"].dropna())
    pooled = frame(study, "pooled")
    second = tables.pooled_halves(pooled, **PROTOCOL).frame
    assert len(second) == 6  # def1 of four configurations, alpha of two
    whole = pooled[(pooled["subset"] == "all") & (pooled["metric"] == "def1")]
    shown = second[second["metric"] == "def1"]
    assert list(shown["difference_all"]) == list(whole["difference"])
    assert list(shown["published_all"]) == list(whole["published"])


def test_the_rule_in_the_notes_gives_the_printed_counts(study):
    """As a reader would recompute them from the files, from the notes alone."""
    note = " ".join(tables.paired_halves(frame(study, "paired"), **PROTOCOL).notes)
    assert "offered = gamma = 5" in note and "start + 5 <= n" in note
    assert "full rounds only" not in note
    for mode in ("greedy", "sample"):
        folder = next((study / "same" / mode).glob("**/*rounds*")).parent
        rounds = records.read(folder / "rounds.parquet", "rounds").to_pandas()
        loops = records.read(folder / "loops.parquet", "loops").to_pandas()
        joined = rounds[rounds["draft_length"] == 5].merge(
            loops[~loops["loop_problem"]], on=["prompt_id", "sample"]
        )
        ended = joined.groupby(["prompt_id", "sample"])["end"].transform(lambda e: "eos" in set(e))
        late = joined["start"] + 5 > joined["tokens"]
        counted = joined[(joined["offered"] == 5) & ~(ended & late)]
        assert (joined["offered"] == 5).sum() > len(counted)  # the second part of the rule matters
        row = frame(study, "paired").query(
            f"label == 'same' and mode == '{mode}' and metric == 'def1' "
            "and subset == 'loops_removed'"
        )
        assert (row["full_rounds"].item(), row["cut_rounds"].item()) == (
            len(counted),
            len(joined) - len(counted),
        )


def test_several_domains_are_named_in_the_rows(study):
    paired = frame(study, "paired")
    both = pd.concat([paired, paired.assign(domain="code")])
    names = set(tables.paired_halves(both, **PROTOCOL).frame["configuration"])
    assert {"math, same/greedy", "code, same/greedy"} <= names


def texts(figure):
    found = [text.get_text() for axis in figure.axes for text in axis.texts]
    return " ".join(found).replace("\n", " ")


def all_figures(frames):
    return (
        drawn.acceptance_by_position(
            frames["curves"], confidence=0.95, support_prompts=4, draft_length=5
        ),
        drawn.halves(frames["paired"], frames["halves"], confidence=0.95),
        drawn.quintiles(frames["quintiles"], confidence=0.95),
    )


def test_figures_of_the_study(study):
    frames = {name: frame(study, name) for name in FILES}
    with figures.style():
        first, second, fifth = all_figures(frames)
        assert len(first.axes) == 6  # three panels, each with its prompts alive
        labels = {axis.get_xlabel() for axis in first.axes} - {""}
        assert labels == {"Position in the generated text (tokens)"}
        titles = [axis.get_title(loc="left") for axis in first.axes[:3]]
        assert titles[0] == "(a) same: pair-same\nmath, all prompts"
        assert titles[2] == "(c) xfam: pair-xfam\nmath, loop problems removed"
        assert "at most 16" in first.caption_text
        assert "same/greedy: 16, 13, 16" in second.caption_text
        assert "same/greedy 13" in fifth.caption_text
        drawn_points = first.axes[0].lines[0].get_ydata()
        curve = frames["curves"].query(
            "label == 'same' and mode == 'greedy' and subset == 'all' and metric == 'def1'"
        )
        assert list(drawn_points) == list(curve.loc[curve["supported"], "mean"])


def test_figures_without_data_say_why(study):
    frames = {name: frame(study, name).iloc[:0] for name in FILES}
    with figures.style():
        first, second, fifth = all_figures(frames)
        assert "no observation in this panel" in texts(first)
        assert "no configuration" in texts(second)
        assert "no observation in this panel" in texts(fifth)
    for table in (
        tables.paired_halves(frames["paired"], **PROTOCOL),
        tables.pooled_halves(frames["pooled"], **PROTOCOL),
    ):
        assert table.frame.empty
        assert table.caption


def test_bins_with_few_prompts_are_not_drawn(study):
    curves = frame(study, "curves").assign(supported=False)
    with figures.style():
        figure = drawn.acceptance_by_position(
            curves, confidence=0.95, support_prompts=40, draft_length=5
        )
        assert "fewer than 40 prompts in every bin" in texts(figure)


@pytest.mark.parametrize(
    "more",
    [
        {"labels": ("same",), "modes": ("greedy",)},
        {"labels": ("xfam",), "modes": ("sample",), "prompts": 1, "looping": 1},
        {"labels": ("same",), "modes": ("greedy",), "prompts": 2, "length": 0, "looping": 0},
        {"labels": ("same",), "modes": ("sample",), "prompts": 1, "looping": 0},
    ],
    ids=["greedy-only", "one-looping-prompt", "zero-rounds", "one-prompt"],
)
def test_small_studies_have_all_exhibits(tmp_path, monkeypatch, more):
    make(monkeypatch, tmp_path, **more)
    call(monkeypatch, position_exhibits, *options(tmp_path), "--folder", tmp_path / "exhibits")
    for path in (tmp_path / "exhibits").iterdir():
        assert b"NaN" not in path.read_bytes()
    rows = measure(tmp_path, monkeypatch, PUBLISHED)
    assert len(rows) == len(published.load(CELLS))


def test_wrong_numbers_of_files_are_refused(tmp_path, monkeypatch):
    settings = PROTOCOL | {"configurations": [], "bin_width": 32, "seed": 3}
    with pytest.raises(UserError, match="--rounds: 1 files for 0 configurations"):
        call(
            monkeypatch, position_statistics, "--settings", json.dumps(settings),
            "--rounds", "a", "--loops", "b", *options(tmp_path),
        )  # fmt: skip


def measure(folder, monkeypatch, run):
    output = folder / "measurements.parquet"
    settings = {"domain": "math", "run": run, "published": PUBLISHED}
    call(
        monkeypatch, position_measurements, "--settings", json.dumps(settings),
        "--published", CELLS, *options(folder)[:6], "--output", output,
    )  # fmt: skip
    return records.read(output, "measurements").to_pylist()


def by_key(rows):
    return {(row["exhibit"], row["row"], row["column"]): row for row in rows}


def test_every_published_cell_has_a_row_the_scorecard_takes(study, monkeypatch):
    cells = published.load(CELLS)
    rows = measure(study, monkeypatch, PUBLISHED | {"target": "135M", "prompts": 16})
    assert {tuple(key) for key in by_key(rows)} == set(cells)
    for row in rows:
        assert (row["value"] is None) == (row["missing_reason"] is not None)
    card = scorecard.compare([cells], rows, {"ratio": 10.0})
    assert not set(card["verdict"]) & {"agrees", "differs"}
    found = by_key(rows)
    paired = frame(study, "paired")
    one = paired.query(
        "label == 'same' and mode == 'greedy' and metric == 'def1' and subset == 'loops_removed'"
    ).iloc[0]
    cell = found["Table 1", "same/greedy", "def1 difference"]
    assert (cell["value"], cell["lower"]) == (one["difference"], one["difference_lower"])
    assert cell["n"] == 13
    assert found["Table 1", "same/greedy", "def1 up"]["value"] == one["up"]
    assert found["Table 1", "same/greedy", "def1 sign-test p"]["value"] == one["p"]
    assert found["Figure 2", "all", "loop problems removed"]["value"] == 3
    assert found["Abstract", "all", "problems"]["value"] == 16
    assert found["Abstract", "all", "configurations"]["value"] == 4
    whole = paired[(paired["metric"] == "def1") & (paired["subset"] == "all")]
    total = whole["full_rounds"].sum() + whole["cut_rounds"].sum()
    assert found["Abstract", "all", "verification rounds"]["value"] == total
    assert "no distribution" in found["Table 1", "xfam/sample", "alpha up"]["missing_reason"]
    assert "temperatures" in found["Table 3", "T=0.3", "MAL"]["missing_reason"]
    low, high = (found["Figure 1", "same/greedy", f"curve {end} end"] for end in ("low", "high"))
    assert low["value"] < high["value"]
    full = found["Table 2", "same/greedy", "pooled def1 difference, full"]
    pooled = frame(study, "pooled").query(
        "label == 'same' and mode == 'greedy' and metric == 'def1' and subset == 'all'"
    )
    assert full["value"] == pooled["difference"].iloc[0]


def test_condition_is_compared_and_never_assumed(study):
    frames = {name: frame(study, name) for name in ("paired", "pooled", "curves")}
    cells = published.load(CELLS)

    def matching(run):
        rows = Measurements(frames, "math", run, PUBLISHED).rows(cells)
        return {key: row["condition_matches"] for key, row in by_key(rows).items()}

    assert all(matching(PUBLISHED).values())
    warmer = matching(PUBLISHED | {"modes": {"greedy": 0.0, "sample": 1.0}})
    assert warmer["Table 1", "same/greedy", "def1 difference"]
    assert not warmer["Table 1", "same/sample", "def1 difference"]
    assert not warmer["Abstract", "all", "verification rounds"]
    drafts = matching(PUBLISHED | {"drafts": {"same": "1.5B", "xfam": "lookup"}})
    assert drafts["Table 1", "same/sample", "def1 difference"]
    assert not drafts["Table 1", "xfam/sample", "def1 difference"]
    for key in ("target", "data", "prompts", "max_new_tokens", "draft_length"):
        assert not any(matching(PUBLISHED | {key: None}).values())
    assert not any(matching({}).values())


def test_published_temperature_chooses_the_mode(study):
    frames = {name: frame(study, name) for name in ("paired", "pooled", "curves")}
    frames = {
        name: pd.concat([part, part[part["mode"] == "sample"].assign(mode="warm")])
        for name, part in frames.items()
    }
    run = PUBLISHED | {"modes": {"greedy": 0.0, "sample": 1.0, "warm": 0.6}}
    chosen = Measurements(frames, "math", run, PUBLISHED)
    assert chosen.modes == {"greedy": "greedy", "sample": "warm"}
    assert chosen.differences([], ["greedy", "sample"]) == ""
    neither = Measurements(
        frames, "math", run | {"modes": {"greedy": 0.0, "sample": 1.0, "warm": 0.9}}, PUBLISHED
    )
    assert neither.modes["sample"] == "sample"
    rows = by_key(neither.rows(published.load(CELLS)))
    cell = rows["Table 1", "same/sample", "def1 difference"]
    assert cell["condition_note"] == (
        "sample temperature 1.0, published 0.6; of several modes for sample the first, sample, "
        "not warm"
    )
    assert not cell["condition_matches"]
    assert rows["Table 1", "same/greedy", "def1 difference"]["condition_note"] == ""
