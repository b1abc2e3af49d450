"""Interventions: tables and figures written whole, and the scorecard's rows."""

from types import SimpleNamespace

import pandas as pd
import pytest
from draftscope.exhibits import figures
from draftscope.interventions import accuracy, diagnostics, lengths, tables
from draftscope.interventions import figures as drawn
from draftscope.interventions.measurements import Interventions, holds
from draftscope.position.measurements import Measurements
from intervention_arms import ARMS, KEY, PROTOCOL, answers, chosen, matches, planted, three_arms


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    sources = three_arms(tmp_path_factory.mktemp("rounds"))
    rows, differences = lengths.study(sources, 5, "even", PROTOCOL)
    found = accuracy.study(
        answers({"target": [1, 0, 1], "base": [1, 1, 1], "even": [1, 0, 0], "odd": [0, 0, 1]}),
        "even",
        {"warm": 0.7},
        0.95,
    )
    diagnosed = []
    for mode in ("cold", "warm"):
        diagnosed += diagnostics.study(planted(), ARMS, "even", 4, KEY | {"mode": mode}, PROTOCOL)
    content = {"lengths": rows, "differences": differences}
    content |= {"diagnostics": diagnosed, "accuracy": found}
    return {name: pd.DataFrame(each) for name, each in content.items()}


HISTORY = pd.DataFrame(
    {
        "step": [0, 10, 20],
        "tokens": [0, 900, 1800],
        "training_loss": [None, 3.0, 2.0],
        "held_out_kl": [5.0, 2.5, 2.6],
        "held_out_match": [0.0, 0.3, 0.29],
        "rate": [0.0, 0.1, 0.01],
        "best": [False, True, False],
    }
)


def test_tables_and_figures_are_written_whole(frames, tmp_path):
    matched = pd.DataFrame(matches(tmp_path)[0])
    how = {"confidence": 0.95, "method": "studentized"}
    made = {
        "table4": tables.lengths(frames["lengths"], draft_length=5, **how),
        "table_differences": tables.differences(frames["differences"], **how),
        "table_accuracy": tables.accuracy(frames["accuracy"], confidence=0.95),
        "table_match": tables.match(matched, **how),
        "table_training": tables.training({"draft": HISTORY}),
    }
    for name, table in made.items():
        table.write(tmp_path / name)
        text = (tmp_path / f"{name}.md").read_text()
        assert "nan" not in text.lower().replace("explanation", "")
    text = (tmp_path / "table_accuracy.md").read_text()
    assert "cannot differ in law" in text
    assert "| base | 3 | 3 | 1.000 | 0.439 | 1.000 | 2 | 0 | 2.00 | 0.5 | 0 |" in text
    assert "math" in (tmp_path / "table4.md").read_text()
    with figures.style():
        for name, figure in (
            ("figure6", drawn.lengths(frames["lengths"], frames["differences"], control="even",
                                      confidence=0.95)),
            ("figure8", drawn.diagnostics(frames["diagnostics"], control="even", confidence=0.95)),
            ("figure1", drawn.distillation(HISTORY, matched, model="draft",
                                           confidence=0.95)),
        ):  # fmt: skip
            figures.save(figure, tmp_path / name, name)
            assert (tmp_path / f"{name}.svg").stat().st_size > 5000


def test_published_cells_find_our_values(frames):
    weightings = {"even": "uniform", "odd": "reflection"}
    found = Interventions(frames, weightings, {"greedy": "cold", "sample": "warm"})
    row = chosen(frames["lengths"].to_dict("records"), arm="odd", mode="warm", subset="all",
                 estimator="rounds")[0]  # fmt: skip
    cell = found.find("Table 4", "reflection-marked", "MAL sampling")
    assert (cell["value"], cell["n"]) == (row["mean"], 9)
    delta = found.find("Table 4", "reflection-marked", "delta greedy")
    assert delta["lower"] < delta["value"] < delta["upper"]
    missing = found.find("Table 4", "entropy-weighted", "delta greedy")
    assert "no entropy-weighted arm" in missing["missing_reason"]
    assert found.find("Table 4", "all arms", "McNemar chi2")["value"] == 0.0
    assert found.find("Figure 8", "intervention", "diagnostic problems")["value"] == 20
    assert holds("Abstract", "LoRA arms") and not holds("Abstract", "problems")


def test_the_scorecard_of_the_position_study_has_the_trained_drafts(frames):
    modes = {"cold": 0.0, "warm": 0.7}
    paired = pd.DataFrame(
        {"domain": "math", "decoding": ["greedy", "sample"], "mode": list(modes), "label": "same"}
    )
    condition = {"drafts": {"same": "d"}, "modes": modes}
    cells = {("Table 4", "base", "MAL greedy"): SimpleNamespace(unit="tokens")}
    weightings = {"even": "uniform", "odd": "reflection"}
    args = ({"paired": paired}, "math", condition, {"drafts": {"same": "d"}, "modes": {}})
    (without,) = Measurements(*args).rows(cells)
    assert without["value"] is None and "not part" in without["missing_reason"]
    (row,) = Measurements(*args, frames, weightings).rows(cells)
    wanted = chosen(frames["lengths"].to_dict("records"), arm="base", mode="cold", subset="all",
                    estimator="rounds")[0]  # fmt: skip
    assert (row["value"], row["n"]) == (wanted["mean"], 9)
