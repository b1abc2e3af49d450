"""Acceptance by type and at triggers, against sums written out; scripts and exhibits end to end."""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import position_tokens
import position_type_exhibits
import pytest
from draftscope import records
from draftscope.errors import UserError
from draftscope.exhibits.tables import read_table
from draftscope.position import by_type, mismatches, texts, token_study
from draftscope.tokens.names import CODE, NAMES
from token_files import write
from token_lists import LISTS

SETTINGS = token_study.Settings((10, 30), 0.01, 0.95, 200, "studentized", 1)
FILES = token_study.FILES


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def lookup(tmp_path_factory):
    return write(tmp_path_factory.mktemp("lookup"), lookup=True)


@pytest.fixture(scope="module")
def measured(model):
    return token_study.measure(*(model[0], SETTINGS, model[1]))


def one(rows, **key):
    found = [row for row in rows if all(row[name] == value for name, value in key.items())]
    assert len(found) == 1, (key, len(found))
    return found[0]


def flat(source):
    """All positions one after the other: prompt, type, initial, trigger, problem, values."""
    rows = []
    for text in texts.read(source):
        for place in range(len(text.token)):
            values = {name: each[place] for name, each in text.values.items()}
            rows.append(
                values
                | {"prompt": text.prompt_id, "type": NAMES[text.type[place]]}
                | {"first": bool(text.initial[place]), "trigger": int(text.trigger[place])}
                | {"problem": text.problem, "said": text.proposal[place], "is": text.token[place]}
            )
    return rows


def test_values_are_those_of_the_scores(model):
    source, _ = model
    scores = records.read(source.scores[0], "scores").to_pylist()
    by_key = {(row["prompt_id"], row["law"]): row for row in scores}
    for text in texts.read(source):
        decoding = by_key[text.prompt_id, "decoding"]
        ratio = np.minimum(1, np.exp(np.array(decoding["log_q"]) - np.array(decoding["log_p"])))
        out = np.array(decoding["target_disagreement"])
        assert np.isnan(text.values["alpha"])[out].all()
        np.testing.assert_allclose(text.values["alpha"][~out], ratio[~out], rtol=1e-6)
        unwarped = by_key[text.prompt_id, "unwarped"]
        np.testing.assert_allclose(text.entropy, unwarped["target_entropy"], rtol=1e-6)
        np.testing.assert_allclose(text.moved, 1 - np.array(unwarped["overlap"]), rtol=1e-5)


@pytest.mark.parametrize("metric", ["def2", "alpha", "match"])
def test_means_by_type_are_those_of_the_positions(model, measured, metric):
    rows = flat(model[0])
    for subset in ("all", "loops_removed"):
        kept = [row for row in rows if subset == "all" or not row["problem"]]
        for name in ("word", "number", "reflection", "operator"):
            for place in ("any", "first"):
                own = [r for r in kept if r["type"] == name and (place == "any" or r["first"])]
                found = one(
                    measured["types"],
                    subset=subset,
                    kind="type",
                    name=name,
                    place=place,
                    metric=metric,
                )
                assert found["positions"] == len(own)
                assert found["share"] == pytest.approx(len(own) / len(kept))
                expected = np.nanmean([row[metric] for row in own])
                assert found["value"] == pytest.approx(expected)


def test_published_triggers_are_counted_together_and_one_by_one(model, measured):
    rows = [row for row in flat(model[0]) if not row["problem"]]
    found = one(
        measured["types"], subset="loops_removed", kind="published", metric="alpha", place="any"
    )
    assert found["name"] == "wait, however, check"
    assert found["positions"] == sum(0 <= row["trigger"] < 3 for row in rows)
    hold = one(
        measured["types"], subset="loops_removed", kind="trigger", name="hold on",
        metric="alpha", place="first",
    )  # fmt: skip
    number = LISTS.triggers.index("hold on")
    assert hold["positions"] == sum(row["trigger"] == number and row["first"] for row in rows)
    assert hold["positions"] >= 1


def test_mismatches_are_counted_at_the_first_token_of_a_trigger(model, measured):
    rows = [r for r in flat(model[0]) if not r["problem"] and r["trigger"] >= 0 and r["first"]]
    wrong = [row for row in rows if row["said"] != row["is"]]
    assert wrong
    summary = one(measured["mismatches"], level="summary", trigger="all")
    assert (summary["triggers"], summary["positions"]) == (len(rows), len(wrong))
    assert summary["share"] == pytest.approx(len(wrong) / len(rows))
    by_kind = [row for row in measured["mismatches"] if row["level"] == "type"]
    assert sum(row["positions"] for row in by_kind) == len(wrong)
    assert sum(row["share"] for row in by_kind) == pytest.approx(1.0)
    tokens = [row for row in measured["mismatches"] if row["level"] == "token"]
    assert sum(row["positions"] for row in tokens) == len(wrong)
    assert all(row["said"] for row in tokens)


def test_every_type_has_a_row_of_what_was_said_instead(model, measured):
    rows = [row for row in flat(model[0]) if not row["problem"] and row["first"]]
    matrix = [row for row in measured["mismatches"] if row["level"] == "matrix"]
    for name in ("word", "number", "reflection"):
        own = [row for row in matrix if row["trigger"] == name]
        emitted = [row for row in rows if row["type"] == name]
        wrong = sum(row["said"] != row["is"] for row in emitted)
        assert sum(row["positions"] for row in own) == wrong > 0
        assert {row["triggers"] for row in own} == {len(emitted)}
        assert sum(row["share"] for row in own) == pytest.approx(1.0)


def test_what_the_draft_said_is_typed_in_its_place(model):
    source, typist = model
    (text, *_) = [each for each in texts.read(source) if (each.trigger >= 0).any()]
    place = int(np.flatnonzero((text.trigger >= 0) & text.initial)[0])
    encode = typist.pieces.tokenizer.encode
    for said, kind in (
        (" 7", "number"),
        (" so", "word"),
        (".", "punctuation"),
        ("\n", "whitespace"),
    ):
        proposal = text.token.copy()
        proposal[place] = encode(said, add_special_tokens=False)[-1]
        found = mismatches.Mismatches(LISTS.triggers, typist)
        found.add(dataclasses.replace(text, proposal=proposal))
        (only,) = [each for each in found.places if not each.agreed]
        assert (
            only.type == kind
            and only.said.replace("\u2423", "").strip("\\n") in said.strip() + "\n"
        )


def test_prompt_lookup_is_asked_at_every_position(lookup):
    source, typist = lookup
    rows = token_study.measure(source, SETTINGS, typist)
    found = one(rows["types"], subset="all", kind="all", place="any", metric="match")
    assert 0 < found["value"] < 1
    for metric in ("def2", "alpha"):
        row = one(rows["types"], subset="all", kind="all", place="any", metric=metric)
        assert row["value"] is None and row["reason"] == by_type.NO_VALUES
    assert {row["outcome"] for row in rows["model"]} == {"match"}
    said = {row["type"] for row in rows["mismatches"] if row["level"] == "type"}
    assert said <= {*NAMES, "none"} and "none" in said


def test_survivors_are_counted(measured, model):
    lengths = [len(t.token) for t in texts.read(model[0]) if not t.problem]
    for row in measured["survival"]:
        assert row["prompts"] == sum(n >= row["reached"] for n in lengths)
        assert row["prompts_total"] == len(lengths)
        assert row["whole"] is None if not row["prompts"] else 0 < row["whole"] < 1


def test_texts_without_a_trigger_say_so(model):
    source, typist = model
    found = mismatches.Mismatches(LISTS.triggers, typist)
    for text in texts.read(source):
        found.add(dataclasses.replace(text, trigger=np.full(len(text.token), -1)))
    rows = mismatches.rows(source, found, SETTINGS.options(source, "x"))
    (summary,) = [row for row in rows if row["level"] != "matrix"]
    assert summary["reason"] == mismatches.WITHOUT_TRIGGERS and summary["share"] is None


def test_scores_of_other_texts_are_refused(model, tmp_path):
    source, _ = model
    table = records.read(source.types, "token_types")
    condition = records.condition(table)
    records.write(tmp_path / "fewer", table.slice(1), "token_types", condition)
    with pytest.raises(UserError, match="prompt p0, sample 0 .* make them again"):
        list(texts.read(dataclasses.replace(source, types=str(tmp_path / "fewer"))))
    rows = table.to_pylist()
    for name in ("type", "initial", "whole", "region", "trigger"):
        rows[0][name] = rows[0][name][:-1]
    records.write(tmp_path / "shorter", rows, "token_types", condition)
    with pytest.raises(UserError, match="make the types again"):
        list(texts.read(dataclasses.replace(source, types=str(tmp_path / "shorter"))))


def run(monkeypatch, script, *arguments):
    monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
    script.main()


def arguments(sources, folder):
    rows = [
        {key: getattr(source, key) for key in position_tokens.KEYS}
        | {"trajectory_shards": len(source.trajectories), "score_shards": len(source.scores)}
        for source in sources
    ]
    settings = {"configurations": rows, "lengths": [10, 30], "margin": 0.01, "confidence": 0.95}
    settings |= {"resamples": 200, "method": "studentized", "seed": 1}
    given = ["--settings", json.dumps(settings)]
    for option, name in (("token-types", "types"), ("loops", "loops"), ("models", "model")):
        given += [f"--{option}", *(getattr(source, name) for source in sources)]
    given += ["--trajectories", *(path for source in sources for path in source.trajectories)]
    given += ["--scores", *(path for source in sources for path in source.scores)]
    return given + [part for name in FILES for part in (f"--{name}", folder / f"{name}.parquet")]


def test_scripts_make_every_exhibit(model, lookup, tmp_path, monkeypatch):
    greedy, _ = write(tmp_path / "greedy", mode="greedy", seed=3)
    run(monkeypatch, position_tokens, *arguments([model[0], greedy, lookup[0]], tmp_path))
    exhibits = tmp_path / "exhibits"
    files = [part for name in FILES for part in (f"--{name}", tmp_path / f"{name}.parquet")]
    run(monkeypatch, position_type_exhibits, *files, "--folder", exhibits)
    tables = ("table_types", "table_mismatches", "table_trend", "table_effects", "table_survival")
    names = {f"{stem}.{kind}" for stem in tables for kind in ("csv", "md", "tex")}
    figures = ("figure3", "figure4", "figure7", "figure_trend")
    names |= {f"{stem}.{kind}" for stem in figures for kind in ("svg", "pdf")}
    assert {path.name for path in exhibits.iterdir()} == names
    for path in exhibits.iterdir():
        assert b"NaN" not in path.read_bytes() and b">nan<" not in path.read_bytes()
    trend = read_table(exhibits / "table_trend.csv")
    assert set(trend["configuration"]) == {"same/sample", "same/greedy", "xfam/sample"}
    assert len(trend) == 3 * (3 + 2 * 2)  # configurations, models of all and of two lengths
    shown = read_table(exhibits / "table_types.csv")
    assert "reflection, published triggers (wait, however, check)" in set(shown["tokens of"])


def test_the_wrong_number_of_files_is_refused(model, tmp_path, monkeypatch):
    given = arguments([model[0]], tmp_path)
    place = given.index("--scores")
    with pytest.raises(UserError, match="--scores: 2 files, but the configurations ask for 1"):
        run(
            monkeypatch, position_tokens, *given[: place + 1], given[place + 1], *given[place + 1 :]
        )


def test_no_text_at_all_gives_reasons_and_no_number(tmp_path, monkeypatch, model):
    source, _ = write(tmp_path / "none", prompts=0)
    run(monkeypatch, position_tokens, *arguments([source], tmp_path))
    files = [part for name in FILES for part in (f"--{name}", tmp_path / f"{name}.parquet")]
    run(monkeypatch, position_type_exhibits, *files, "--folder", tmp_path / "out")
    for row in records.read(tmp_path / "types.parquet", "position_types").to_pylist():
        assert row["value"] is None and row["reason"]
    assert CODE["word"] == 0
