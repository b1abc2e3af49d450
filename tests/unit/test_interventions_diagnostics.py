"""Interventions: where an arm gains, read off scores and token types; what distillation gained."""

import itertools

import numpy as np
import pytest
from draftscope import records
from draftscope.errors import UserError
from draftscope.interventions import diagnostics, match
from draftscope.interventions.diagnostics import Texts
from draftscope.training.inputs import read_marks
from intervention_arms import ARMS, KEY, PROTOCOL, chosen, matches, planted, score_rows


def test_a_planted_gain_at_triggers_is_found_there_and_nowhere_else():
    texts = planted()
    rows = diagnostics.study(texts, ARMS, "even", 4, KEY, PROTOCOL)
    at = chosen(rows, arm="odd", level="reflection")[0]
    elsewhere = chosen(rows, arm="odd", level="other tokens")[0]
    assert np.isclose(at["difference"], 0.2) and at["difference_lower"] > 0.19
    assert elsewhere["difference"] == 0.0
    assert at["positions"] == int(texts.reflection.sum()) and at["prompts"] == 20
    assert np.isclose(at["mean"], texts.accept["o"][texts.reflection].mean())
    bins = chosen(rows, arm="base", factor="entropy")
    assert [row["positions"] for row in bins] == [200] * 4
    assert all(np.isclose(row["difference"], -0.05) for row in bins)
    assert all(a["high"] == b["low"] for a, b in itertools.pairwise(bins))


def test_texts_without_a_trigger_or_with_one_entropy_have_a_stated_answer():
    texts = planted(3, 5)
    texts = Texts(texts.prompts, texts.prompt, texts.entropy * 0, texts.reflection & False,
                  texts.accept)  # fmt: skip
    rows = diagnostics.study(texts, ARMS, "even", 4, KEY, PROTOCOL)
    at = chosen(rows, arm="odd", level="reflection")[0]
    assert at["mean"] is None and at["reason"] == "no trigger in these texts"
    assert [row["positions"] for row in chosen(rows, arm="odd", factor="entropy")] == [15]


def test_diagnostics_read_scores_and_types_position_by_position(tmp_path):
    rows = score_rows({"b": [5, 6, 8], "e": [5, 6, 7]}, [5, 6, 7])
    records.write(tmp_path / "s.parquet", rows, "scores", {})
    # A part of a character that a trigger holds is of a type of its own, and in a trigger.
    types = {"prompt_id": "a", "sample": 0, "type": [0, 8, 0], "initial": [True] * 3}
    types |= {"whole": [True] * 3, "region": [0] * 3, "trigger": [-1, 0, -1]}
    records.write(tmp_path / "t.parquet", [types], "token_types", {"domain": "math"})
    (marked,) = read_marks([tmp_path / "t.parquet"]).values()
    assert marked.tolist() == [False, True, False]
    texts = diagnostics.read([tmp_path / "s.parquet"], tmp_path / "t.parquet", ["b", "e"], ["a"])
    assert texts.prompts == ["a"] and texts.reflection.tolist() == [False, True]
    assert np.allclose(texts.accept["b"], np.exp(-1)) and np.allclose(texts.entropy, 2)
    with pytest.raises(UserError, match="not every text is scored by x"):
        diagnostics.read([tmp_path / "s.parquet"], tmp_path / "t.parquet", ["b", "x"], ["a"])


def test_the_gain_is_paired_by_prompt_with_loops_removed(tmp_path):
    rows, paths, loops = matches(tmp_path)
    whole, removed = rows
    assert (whole["prompts"], removed["prompts"], removed["left_out_loops"]) == (6, 5, 1)
    assert np.isclose(removed["difference"], (0.3 + 4 * 0.2) / 5)
    assert np.isclose(removed["untrained"], 0.2) and removed["positions"] == 50
    assert removed["reached"] and removed["difference_lower"] > 0 and removed["up"] == 5
    strict = match.study(paths, loops, ("u", "d"), "cold", 0.3, PROTOCOL)
    assert not strict[1]["reached"]
    backwards = match.study(paths, loops, ("d", "u"), "cold", 0.1, PROTOCOL)
    assert not backwards[1]["reached"] and backwards[1]["difference"] < 0
