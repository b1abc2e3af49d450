"""Tables, figures and scorecard rows of the domains study, from made-up statistics."""

import json
import math
import subprocess
import sys
from pathlib import Path

import domain_frames
import numpy as np
import pandas as pd
import planted_nodes
import pyarrow as pa
import pytest
from draftscope import records
from draftscope.domains import (
    analysis,
    budget_tables,
    figures,
    inference_tables,
    observations,
    profile_tables,
    proof_table,
    rate_tables,
    schemas,
)
from draftscope.domains.files import FILES
from draftscope.domains.lookup import Statistics
from draftscope.domains.measurements import LABELS, Measurements
from draftscope.domains.measures import Settings
from draftscope.errors import UserError
from draftscope.exhibits import figures as drawing
from draftscope.exhibits import published, scorecard
from draftscope.exhibits.tables import read_markdown, read_table
from draftscope.schemas import SCHEMAS
from draftscope.strict import load_yaml

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = published.load(ROOT / "config/published/domains.csv")
CONDITION = load_yaml(ROOT / "config/published/conditions.yaml")["domains"]
BESIDE = {"chat": "chat", "code": "code", "math": "maths", "reasoning": "logic"}
TABLES = {
    "claims": inference_tables.claims,
    "table1": rate_tables.rates,
    "table2": rate_tables.lengths,
    "table3": rate_tables.survival,
    "table4": profile_tables.depths,
    "table5": profile_tables.positions,
    "table6": profile_tables.correlations,
    "table_budgets": budget_tables.budgets,
    "table_contrasts": inference_tables.contrasts,
    "table_effects": inference_tables.effects,
    "table_factors": inference_tables.factors,
    "table_paradox": inference_tables.paradox,
    "table_path_rates": budget_tables.path_rates,
    "table_speeds": budget_tables.speeds,
}
FIGURES = (figures.rates, figures.depth_profiles, figures.entropy_curves, figures.budgets)


@pytest.fixture(scope="module")
def frames():
    return domain_frames.frames()


@pytest.fixture(scope="module")
def found(frames):
    return Statistics(frames, domain_frames.SETTINGS)


def emptied(frames: dict[str, pd.DataFrame], reason: str) -> Statistics:
    """The same keys with no value anywhere, for one reason."""
    gone = {}
    for name, frame in frames.items():
        gone[name] = frame.copy()
        for column in frame.columns:
            nullable = schemas_field(name, column).nullable
            if nullable and column not in ("cost_ratio",):
                gone[name][column] = reason if column == "reason" else None
    return Statistics(gone, domain_frames.SETTINGS)


def schemas_field(name: str, column: str):
    return SCHEMAS[f"domains_{name}"].field(column)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_written_and_shows_both_protocols(found, name, tmp_path):
    table = TABLES[name](found)
    table.write(tmp_path / name)
    shown = read_markdown(tmp_path / f"{name}.md")
    assert len(shown.rows) == len(table.frame) > 1
    cells = {cell for row in shown.rows for cell in row}
    assert not cells & {"nan", "None", "<NA>"}
    if name.startswith("table") and name[5:].isdigit():
        assert any(column.startswith("as published: ") for column in shown.columns)
        assert any(column.startswith("corrected: ") for column in shown.columns)


@pytest.mark.parametrize("name", TABLES)
def test_a_value_that_is_missing_everywhere_has_its_reason(frames, name, tmp_path):
    TABLES[name](emptied(frames, "one prompt")).write(tmp_path / name)
    written = read_table(tmp_path / f"{name}.csv")
    assert written["reason"].str.contains("one prompt").all()
    assert "nan" not in (tmp_path / f"{name}.csv").read_text(encoding="utf-8").lower().split(",")


def test_numbers_stand_where_their_heading_says(frames, found):
    rates = frames["rates"].set_index(["domain", "measure"])
    table = rate_tables.rates(found).frame.set_index("domain")
    for column, measure in (("alpha", "alpha"), ("walk_chain", "walk_chain")):
        assert table.loc["maths", column] == rates.loc[("maths", measure), "value"]
        assert table.loc["maths", f"{column}_lower"] == rates.loc[("maths", measure), "value_lower"]
    changes = frames["changes"]
    changes = changes[changes["comparison"] != "position"].set_index(["domain", "depth", "measure"])
    depths = profile_tables.depths(found).frame.set_index(["domain", "depth"])
    assert depths.loc[("chat", 3), "alpha_change"] == changes.loc[("chat", 3, "alpha"), "pooled"]
    assert depths.loc[("chat", 3), "change"] == changes.loc[("chat", 3, "walk_chain"), "difference"]
    assert math.isnan(depths.loc[("chat", 1), "change"])


@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_figures_say_what_they_show(found, frames, draw, tmp_path):
    with drawing.style():
        paths = drawing.save(draw(found), tmp_path / "figure", "Figure")
        drawn = paths[0].read_text(encoding="utf-8")
        for name in ("chat", "code", "maths", "logic"):
            assert name in drawn
        assert "95% intervals from" in " ".join(drawn.split())
        draw(emptied(frames, "one prompt"))
        draw(Statistics(domain_frames.frames([]), domain_frames.SETTINGS))


@pytest.mark.parametrize(
    ("domains", "prompts", "tokens"),
    [({"only": 0.5}, 1, 6), ({"one": 40.0, "other": 40.0}, 3, 40)],
    ids=["one prompt of one domain", "everything accepted"],
)
def test_a_study_that_can_tell_nothing_still_has_every_exhibit(domains, prompts, tokens, tmp_path):
    planted = planted_nodes.Planted(domains)
    log = observations.observe(
        planted_nodes.simulate(planted, prompts, tokens, np.random.default_rng(1))
    )
    rows = analysis.study(log, Settings(resamples=100))
    made = {
        name: pa.Table.from_pylist(rows[name], schema=SCHEMAS[f"domains_{name}"]).to_pandas()
        for name in FILES
    }
    little = Statistics(made, domain_frames.SETTINGS)
    for name, build in TABLES.items():
        build(little).write(tmp_path / name)
        assert read_markdown(tmp_path / f"{name}.md").rows, name
    for draw in FIGURES:
        draw(little)
    found = Measurements(little, {}, CONDITION, CONDITION).rows(PUBLISHED)
    assert all((row["value"] is None) == bool(row["missing_reason"]) for row in found)


def test_a_tree_is_shown_by_the_children_of_its_nodes():
    assert budget_tables.shape("[[1],[2],[1,1],[1,2],[2,1],[1,1,1]]") == "2 / 2, 1 / 1"
    assert budget_tables.shape("[]") == "plain decoding"
    assert budget_tables.shape(None) == "plain decoding"


def test_the_findings_say_where_the_analyses_disagree(frames):
    claims = frames["claims"].copy().astype({"agree": object})
    claims["agree"] = [True, False, None, None, False]
    found = Statistics(frames | {"claims": claims}, domain_frames.SETTINGS)
    first, *others = inference_tables.findings(found).frame["statement"]
    assert "Of 5 conclusions" in first and "agree on 1 and disagree on 2; 2 cannot" in first
    claim, (said,) = claims["claim"][0], set(claims["statement"])
    assert others[:2] == [f"code, {claim}: {said}.", f"{claim}: {said}."]
    assert others[2:] == [f"Not to be told at this size is whether {claim} (maths, logic)."]


def measured(found, **run):
    same = CONDITION | run
    rows = Measurements(found, BESIDE, same, CONDITION).rows(PUBLISHED)
    return {(r["exhibit"], r["row"], r["column"]): r for r in rows}


def test_every_published_cell_has_a_value_or_a_reason(found):
    rows = measured(found)
    assert rows.keys() == PUBLISHED.keys()
    for key, row in rows.items():
        assert (row["value"] is None) == bool(row["missing_reason"]), key
        assert row["unit"] == PUBLISHED[key].unit
        assert row["condition_matches"]
    absent = {key[0] for key, row in rows.items() if row["value"] is None}
    assert absent == {"Section III-D", "Section III-E", "Section IV", "Repository log"}
    card = scorecard.compare([PUBLISHED], list(rows.values()), {"ratio": 1.0})
    assert len(card) == len(PUBLISHED)


def test_cells_are_looked_up_by_the_published_protocol(frames, found):
    rows = measured(found)

    def frame(file, **key):
        own = frames[file]
        for name, value in key.items():
            own = own[own[name] == value]
        assert len(own) == 1
        return own.iloc[0]

    def value(*key):
        return rows[key]["value"]

    rate = frame("rates", domain="logic", measure="alpha")
    assert value("Table I", "reasoning", "mean alpha") == rate["value"]
    assert rows["Table I", "reasoning", "mean alpha"]["lower"] == rate["value_lower"]
    assert value("Table I", "reasoning", "nodes") == rate["nodes"]
    pooled = frame("rates", domain=schemas.ALL, measure="target_entropy")
    assert value("Table I", "all", "mean target entropy") == pooled["value"]
    assert (
        value("Table II", "math", "E[L]")
        == (frame("lengths", domain="maths", measure="product")["value"])
    )
    assert (
        value("Table III", "chat", "chain length 2")
        == (frame("depths", domain="chat", depth=2, measure="chain_product")["value"])
    )
    assert (
        value("Table IV", "code", "depth 3")
        == (frame("depths", domain="code", depth=3, measure="alpha")["value"])
    )
    assert (
        value("Table IV", "code", "delta 1 to 3")
        == (frame("changes", domain="code", depth=3, measure="alpha")["pooled"])
    )
    early = frame("positions", domain=schemas.ALL, depth=2, measure="alpha")
    assert value("Table V", "depth 2", "early (tokens 1-32)") == early["early"]
    assert value("Table V", "depth 2", "delta late minus early") == early["pooled"]
    assert value("Repository results", "depth 2", "late nodes") == early["late_nodes"]
    rho = {
        label: frame(
            "correlations",
            domain=BESIDE[label],
            measure="pooled",
            outcome="alpha",
            entropy="target",
        )["rho"]
        for label in LABELS
    }
    assert value("Table VI", "math", "Spearman rho(H, alpha)") == rho["math"]
    assert value("Abstract", "all", "rho low end") == min(rho.values())
    assert value("Section V-E", "all", "largest |rho| (bound)") == max(map(abs, rho.values()))
    gap = value("Section V-A", "chat vs math", "relative gap in mean alpha")
    chat, math_ = (value("Table I", label, "mean alpha") for label in ("chat", "math"))
    assert gap == pytest.approx(100 * (chat / math_ - 1))


def test_what_differs_from_the_published_condition_is_named(found):
    data = CONDITION["data"] | {"chat": "my-chat"}
    rows = measured(found, target="my-target", data=data, shape={"kind": "confidence"})
    note = rows["Table I", "math", "mean alpha"]["condition_note"]
    assert "target my-target, published TheBloke" in note and "my-chat" not in note
    assert "shape kind confidence, published kind breadth_first, max_depth 3" in note
    assert "data of chat my-chat" in rows["Table I", "chat", "mean alpha"]["condition_note"]
    assert "data of chat my-chat" in rows["Table I", "all", "mean alpha"]["condition_note"]
    assert not rows["Table I", "chat", "mean alpha"]["condition_matches"]


def test_a_domain_that_stands_beside_none_is_said(found):
    rows = Measurements(found, {"chat": "chat"}, CONDITION, CONDITION).rows(PUBLISHED)
    reasons = {row["missing_reason"] for row in rows if row["value"] is None}
    assert "no domain stands beside math" in reasons
    assert "no domain stands beside code, math, reasoning" in reasons


@pytest.fixture
def written(frames, tmp_path):
    """The statistics and the tests of sampled trees as files."""
    for name, frame in frames.items():
        rows = frame.replace({np.nan: None}).to_dict("records")
        condition = {"statistics": domain_frames.SETTINGS}
        records.write(tmp_path / f"{name}.parquet", rows, f"domains_{name}", condition)
    import draftscope.lossless.schemas  # noqa: F401

    test = {
        "level": 2, "subject": "tree", "rule": "without_replacement", "test": "goodness of fit",
        "correct": True, "texts": 9, "tokens": 90, "statistic": 3.0, "freedom": 4, "p": 0.5,
        "level_of_test": 0.01, "rejected": False, "detectable": 0.1, "total_variation": 0.02,
        "reason": None,
    }  # fmt: skip
    control = test | {"rule": "accept_everything", "correct": False, "rejected": True, "p": 0.0}
    records.write(tmp_path / "equivalence.parquet", [test, control], "lossless_equivalence", {})
    return tmp_path


def run(script: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "scripts" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_commands_write_exhibits_and_measurements(written):
    paths = [str(written / f"{name}.parquet") for name in FILES]
    folder = written / "exhibits"
    done = run(
        "domain_exhibits.py", "--statistics", *paths,
        "--equivalence", str(written / "equivalence.parquet"), "--folder", str(folder),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in (*TABLES, "findings", "table_equivalence"):
        assert (folder / f"{name}.tex").stat().st_size > 0
    assert len(list(folder.glob("figure?.svg"))) == 4
    shown = read_markdown(folder / "table_equivalence.md")
    assert [row[1] for row in shown.rows] == ["pass", "fail"]
    settings = {"labels": BESIDE, "run": CONDITION, "published": CONDITION}
    done = run(
        "domain_measurements.py", "--settings", json.dumps(settings), "--statistics", *paths,
        "--published", str(ROOT / "config/published/domains.csv"),
        "--output", str(written / "measurements.parquet"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert records.read(written / "measurements.parquet", "measurements").num_rows == len(PUBLISHED)


def test_a_missing_file_of_statistics_is_named(written):
    from draftscope.domains import lookup

    with pytest.raises(UserError, match=r"lacks depths\.parquet"):
        lookup.read([written / f"{name}.parquet" for name in FILES if name != "depths"])


def test_two_rows_of_one_key_are_a_fault(frames):
    twice = frames | {"rates": pd.concat([frames["rates"]] * 2)}
    with pytest.raises(ValueError, match="2 rows of rates"):
        Statistics(twice, {}).row("rates", domain="chat", measure="alpha")


def test_the_published_lengths_follow_from_the_published_means():
    for label, printed in {"chat": 1.065, "code": 0.975, "reasoning": 0.956, "math": 0.914}.items():
        cells = [PUBLISHED["Table IV", label, f"depth {depth}"] for depth in (1, 2, 3)]
        means = [cell.number for cell in cells]
        length = sum(math.prod(means[:depth]) for depth in (1, 2, 3))
        assert float(PUBLISHED["Table II", label, "E[L]"].value) == printed
        assert length == pytest.approx(printed, abs=0.002)
        digits = [
            PUBLISHED["Repository results", label, f"depth {d} mean alpha"].number
            for d in (1, 2, 3)
        ]
        exact = sum(math.prod(digits[:depth]) for depth in (1, 2, 3))
        assert exact == pytest.approx(
            PUBLISHED["Repository results", label, "E[L]"].number, abs=1e-9
        )
        assert round(exact, 3) == printed


def test_the_table_of_sampled_trees_needs_no_row():
    assert len(proof_table.equivalence([]).frame) == 1
