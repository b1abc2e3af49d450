"""The sweep over temperatures: def2 falls by itself where alpha does not, and Table 3."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import position_temperatures
import pytest
import temperature_exhibits
from draftscope import records
from draftscope.errors import UserError
from draftscope.exhibits.tables import read_table
from draftscope.position import temperatures
from draftscope.position.measurements import Measurements
from draftscope.replay import expected_rounds
from draftscope.tokens.typist import Typist
from experiments import LAPTOP
from token_lists import LISTS, byte_level

TEMPERATURES = {"greedy": 0.0, "cool": 0.3, "warm": 0.6, "hot": 0.9}
LOOPS = {"max_period": 64, "min_repeats": 3, "min_span": 32}
SIZE = 12
TEXT = "So wait, it is 12 + 3. However, we check it once more, and hold on to it. But 7 is odd."


def settings(**over):
    return temperatures.Settings(
        **{
            "pair": "pair", "draft": "draft", "domain": "math", "draft_length": 3,
            "temperatures": TEMPERATURES, "loops": LOOPS, "confidence": 0.95, "resamples": 200,
            "method": "studentized", "seed": 1,
        } | over
    )  # fmt: skip


def law_of(logits, temperature):
    """Probabilities [positions, SIZE] under a temperature; 0 is one-hot."""
    if temperature == 0:
        return np.eye(SIZE)[logits.argmax(1)]
    scaled = np.exp((logits - logits.max(1, keepdims=True)) / temperature)
    return scaled / scaled.sum(1, keepdims=True)


def scored(mode, prompts, draft_noise, seed=0, longest=None):
    """Trajectories and scores of one mode's own texts, from logits of target and draft."""
    rng = np.random.default_rng(seed)
    ids = byte_level().encode(TEXT, add_special_tokens=False)
    trajectories, scores = [], []
    for prompt in range(prompts):
        tokens = ids[: len(ids) - prompt % 3][:longest]
        target = rng.normal(0, 2, (len(tokens), SIZE))
        draft = target + draft_noise * rng.normal(0, 2, target.shape)
        p = law_of(target, TEMPERATURES[mode])
        drawn = np.array([rng.choice(SIZE, p=row) for row in p])
        key = {"prompt_id": f"p{prompt:02d}", "sample": 0}
        trajectories.append(
            key
            | {
                "status": "ok", "reason": None, "prompt_token_ids": [1], "token_ids": tokens,
                "budget": len(tokens), "stop_reason": "budget", "stop_token_id": None,
                "rendered_sha256": "0" * 64, "text": "",
            }
        )  # fmt: skip
        for law, temperature in TEMPERATURES.items():
            p, q = (law_of(each, temperature) for each in (target, draft))
            place = np.arange(len(tokens))
            with np.errstate(divide="ignore"):
                columns = {
                    "log_p": np.log(p[place, drawn]), "log_q": np.log(q[place, drawn]),
                    "log_q_target_argmax": np.log(q[place, target.argmax(1)]),
                }  # fmt: skip
            zeros = np.zeros(len(tokens))
            scores.append(
                key
                | columns
                | {
                    "draft": "draft", "law": "decoding" if law == mode else law, "token_ids": tokens,
                    "overlap": np.minimum(p, q).sum(1), "target_entropy": zeros,
                    "draft_entropy": zeros, "kl": zeros, "top2_gap": zeros, "uncommon_mass": zeros,
                    "target_argmax": tokens, "draft_argmax": np.where(
                        draft.argmax(1) == drawn, tokens, -1
                    ),
                    "draft_rank": zeros.astype(int), "target_disagreement": zeros.astype(bool),
                }
            )  # fmt: skip
    return trajectories, scores


def summed(mode, prompts=12, draft_noise=0.3, **over):
    chosen = settings(**over)
    sums = temperatures.Sums(mode, chosen, Typist(byte_level(), LISTS))
    trajectories, scores = scored(mode, prompts, draft_noise)
    by_key = {(row["prompt_id"], row["sample"]): row for row in trajectories}
    for key, laws in temperatures.by_text(scores, "draft"):
        sums.add(by_key[key], laws)
    return sums, trajectories, scores


def one(rows, **key):
    found = [row for row in rows if all(row[name] == value for name, value in key.items())]
    assert len(found) == 1, key
    return found[0]


def test_a_perfect_draft_has_a_falling_def2_and_an_alpha_of_one():
    """The artefact by itself: p = q at every temperature, and still def2 falls."""
    values, slopes = summed("warm", draft_noise=0.0)[0].rows()
    for law in TEMPERATURES:
        alpha = one(values, law=law, quantity="alpha", group="all", subset="all")
        assert alpha["value"] == pytest.approx(1.0)
    key = {"group": "all", "subset": "all"}
    def2, alpha = (one(slopes, quantity=name, **key) for name in ("def2", "alpha"))
    assert def2["slope_upper"] < -0.1
    assert alpha["slope"] == pytest.approx(0.0, abs=1e-9)
    difference = one(slopes, quantity="difference", **key)
    assert difference["slope_lower"] > 0.1
    assert difference["slope"] == pytest.approx(alpha["slope"] - def2["slope"])


def test_means_and_slopes_are_those_of_the_same_positions():
    sums, trajectories, scores = summed("warm")
    values, slopes = sums.rows()
    typist = Typist(byte_level(), LISTS)
    turning = {
        row["prompt_id"]: typist.sequence(row["token_ids"]).trigger >= 0 for row in trajectories
    }
    for group in ("all", "reflection"):
        lines = {"def2": [], "alpha": []}
        for law, temperature in TEMPERATURES.items():
            name = "decoding" if law == "warm" else law
            rows = [row for row in scores if row["law"] == name]
            held = [turning[r["prompt_id"]] | (group == "all") for r in rows]
            def2 = np.concatenate(
                [np.exp(r["log_q_target_argmax"])[h] for r, h in zip(rows, held, strict=True)]
            )
            alpha = np.concatenate([r["overlap"][h] for r, h in zip(rows, held, strict=True)])
            for quantity, expected in (("def2", def2.mean()), ("alpha", alpha.mean())):
                row = one(values, law=law, quantity=quantity, group=group, subset="all")
                assert row["value"] == pytest.approx(expected)
                assert row["positions"] == len(def2) and row["mode"] == "warm"
                if temperature:
                    lines[quantity].append(expected)
        for quantity, line in lines.items():
            slope = one(slopes, quantity=quantity, group=group, subset="all")
            assert slope["slope"] == pytest.approx(np.polyfit([0.3, 0.6, 0.9], line, 1)[0])
            assert slope["laws"] == 3


@pytest.mark.parametrize("mode", ["greedy", "warm"])
def test_mal_is_tokens_by_expected_rounds_under_the_own_law(mode):
    sums, trajectories, scores = summed(mode)
    row = one(sums.rows()[0], quantity="mal", subset="all")
    tokens = rounds = 0.0
    for trajectory in trajectories:
        own = one(scores, prompt_id=trajectory["prompt_id"], law="decoding")
        accept = np.exp(np.minimum(own["log_q"] - own["log_p"], 0.0))
        if mode == "greedy":
            accept = (np.array(own["draft_argmax"]) == np.array(own["token_ids"])).astype(float)
        counts = expected_rounds(accept, 3, budget=trajectory["budget"], stop_reason="budget")
        tokens, rounds = tokens + counts.tokens, rounds + counts.rounds
    assert row["value"] == pytest.approx(tokens / rounds)
    assert row["draft_length"] == 3 and row["law"] == mode


def test_published_triggers_are_fewer_than_all():
    values, _ = summed("cool")[0].rows()
    key = {"law": "cool", "quantity": "alpha", "subset": "all"}
    counts = [
        one(values, group=name, **key)["positions"] for name in ("all", "reflection", "published")
    ]
    assert counts[0] > counts[1] > counts[2] > 0


def test_one_temperature_has_no_slope_and_no_text_no_number():
    few = {"greedy": 0.0, "warm": 0.6}
    sums, *_ = summed("warm", temperatures=few)
    assert {row["reason"] for row in sums.rows()[1]} == {temperatures.TOO_FEW_LAWS}
    empty = temperatures.Sums("warm", settings(), Typist(byte_level(), LISTS))
    values, slopes = empty.rows()
    assert all(row.get("value") is None and row["reason"] for row in values)
    assert all(row["slope"] is None and row["reason"] for row in slopes)


def test_a_missing_law_is_named():
    sums = temperatures.Sums("warm", settings(), Typist(byte_level(), LISTS))
    trajectories, scores = scored("warm", 1, 0.1)
    ((_, laws),) = temperatures.by_text(scores, "draft")
    laws.pop("hot")
    with pytest.raises(UserError, match="prompt p00 has no scores under law 'hot'"):
        sums.add(trajectories[0], laws)
    laws["hot"] = laws["decoding"]
    with pytest.raises(UserError, match="prompt p00: the scores belong to other tokens"):
        sums.add(trajectories[0] | {"token_ids": trajectories[0]["token_ids"][:-1]}, laws)


def run(monkeypatch, script, *arguments):
    monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
    script.main()


def test_scripts_write_table_3_the_slopes_and_the_figure(tmp_path, monkeypatch):
    byte_level().save_pretrained(tmp_path / "weights")
    paths = {"trajectories": [], "scores": []}
    for number, mode in enumerate(TEMPERATURES):
        trajectories, scores = scored(mode, 5, 0.3, seed=number, longest=40)
        condition = {"target": "t", "domain": "math", "mode": mode, "law": {"temperature": 1}}
        for name, rows, extra in (
            ("trajectories", trajectories, {}),
            ("scores", scores, {"draft": "draft", "laws": {}}),
        ):
            paths[name].append(str(tmp_path / f"{mode}-{name}"))
            records.write(paths[name][-1], rows, name, condition | extra)
    given = vars(settings()) | {"prompts": [5], "max_new_tokens": 40}
    given["token_lists"] = LAPTOP["tokens"]
    files = ["--temperatures", tmp_path / "temperatures", "--slopes", tmp_path / "slopes"]
    arguments = ["--settings", json.dumps(given), "--model", tmp_path / "weights"]
    for name, values in paths.items():
        arguments += [f"--{name}", *values]
    run(monkeypatch, position_temperatures, *arguments, *files)
    run(monkeypatch, temperature_exhibits, *files, "--folder", tmp_path / "out")
    names = {
        f"{stem}.{kind}" for stem in ("table3", "table_slopes") for kind in ("csv", "md", "tex")
    }
    names |= {f"figure_temperatures.{kind}" for kind in ("svg", "pdf")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    table = read_table(tmp_path / "out/table3.csv")
    assert list(table["mode"]) == list(TEMPERATURES)
    values = records.read(tmp_path / "temperatures", "position_temperatures").to_pylist()
    for row in table.to_dict("records"):
        own = one(
            values, mode=row["mode"], law=row["mode"], subset="loops_removed", group="all",
            quantity="mal",
        )  # fmt: skip
        assert float(row["mal"]) == own["value"]
    swapped = [*paths["scores"][1:], paths["scores"][0]]
    place = arguments.index("--scores")
    with pytest.raises(UserError, match="was measured with mode"):
        run(monkeypatch, position_temperatures, *arguments[: place + 1], *swapped, *files)


def test_table_3_of_the_scorecard_is_that_of_the_own_law():
    values, _ = summed("warm")[0].rows()
    frames = {
        "temperatures": pd.DataFrame(values),
        "paired": pd.DataFrame({"domain": ["math"], "decoding": ["sample"], "mode": ["warm"]}),
    }
    published = {
        "target": "T", "prompts": 500, "max_new_tokens": 400, "draft_length": 3,
        "drafts": {"same": "D"}, "sweep": {"label": "same", "prompts": 12},
    }  # fmt: skip
    run = published | {"prompts": 32, "drafts": {"same": "D"}}
    run |= {"sweep": {"label": "same", "prompts": 12, "max_new_tokens": 400}}
    cells = {("Table 3", "T=0.6", column): SimpleNamespace(unit="ratio") for column in COLUMNS}
    for row in Measurements(frames, "math", run, published).rows(cells):
        group, quantity = COLUMNS[row["column"]]
        own = one(values, law="warm", subset="loops_removed", group=group, quantity=quantity)
        assert row["value"] == own["value"] and row["lower"] == own["lower"]
        assert row["condition_matches"], row["condition_note"]
    fewer = run | {"sweep": {"label": "xfam", "prompts": 8, "max_new_tokens": 400}}
    (row, *_) = Measurements(frames, "math", fewer, published).rows(cells)
    assert row["condition_note"] == "prompts 8, published 12; same draft not stated, published D"
    missing = {("Table 3", "T=0.3", "MAL"): SimpleNamespace(unit="tokens")}
    (row,) = Measurements(frames, "math", run, published).rows(missing)
    assert row["missing_reason"] == "no mode of temperature 0.3 in the sweep"
    del frames["temperatures"]
    (row,) = Measurements(frames, "math", run, published).rows(missing)
    assert row["value"] is None and "not part of this experiment" in row["missing_reason"]


COLUMNS = {
    "MAL": ("all", "mal"),
    "def2": ("all", "def2"),
    "alpha": ("all", "alpha"),
    "reflection def2": ("published", "def2"),
    "reflection alpha": ("published", "alpha"),
}
