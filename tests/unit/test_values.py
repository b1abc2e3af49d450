"""Settings written by hand: gaps and impossible values are told in one line, before any work."""

import subprocess
import sys
from pathlib import Path

import pytest
from draftscope.errors import UserError, json_argument
from draftscope.values import decoding_law, distinct_numbers, whole_numbers

SCRIPTS = Path(__file__).parents[2] / "scripts"
LAW = {"temperature": 0.5, "top_k": 0, "top_p": 1.0}


def test_a_missing_key_is_named_with_the_nearest_one():
    settings = json_argument('{"thread": 1, "law": {"top": 1}}')
    with pytest.raises(UserError, match="lack 'threads'; it has 'thread'"):
        settings["threads"]
    with pytest.raises(UserError, match="lack 'top_p'"):
        settings["law"]["top_p"]
    assert settings.get("threads") is None and "threads" not in settings


@pytest.mark.parametrize("text", ["[1]", '"threads"'])
def test_settings_are_an_object(text):
    with pytest.raises(UserError, match="no JSON object"):
        json_argument(text)


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None])
def test_a_count_is_a_whole_number_and_large_enough(value):
    with pytest.raises(UserError, match="setting 'budget' is .* at least 1"):
        whole_numbers({"budget": value}, budget=1)
    whole_numbers({"budget": 1, "warm_up": 0}, budget=1, warm_up=0)


@pytest.mark.parametrize("value", [[], 4, [0, -1], [2, 2], ["2"]])
def test_draft_lengths_are_distinct_counts(value):
    with pytest.raises(UserError, match="draft_lengths"):
        distinct_numbers({"draft_lengths": value}, "draft_lengths", 0)
    distinct_numbers({"draft_lengths": [0, 4]}, "draft_lengths", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": -0.1},
        {"temperature": float("inf")},
        {"temperature": float("nan")},
        {"temperature": "1"},
        {"top_p": 1.5},
        {"top_k": -1},
        {"typical": 0.2},
    ],
)
def test_a_law_has_its_three_parts_within_their_ranges(change):
    with pytest.raises(UserError, match="'law'|top_k"):
        decoding_law({"law": LAW | change})
    assert decoding_law({"law": LAW}) == LAW


@pytest.mark.parametrize(
    ("script", "settings", "said"),
    [
        ("live_decode", "{}", "the settings lack 'prompts'"),
        ("verify_latency", '{"context": 8, "repeats": 1, "threads": 1, "tokens": []}', "tokens"),
    ],
)
def test_a_script_says_it_in_one_line_before_it_loads_anything(tmp_path, script, settings, said):
    needed = {
        "live_decode": ["--target", "t", "--draft", "d", "--prompts", "p", "--trajectories", "x",
                        "--rounds", "y", "--timings", "z"],
        "verify_latency": ["--target", "t", "--output", "x"],
    }  # fmt: skip
    told = subprocess.run(
        [sys.executable, SCRIPTS / f"{script}.py", "--settings", settings, *needed[script]],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 2 and told.stderr.count("\n") == 1
    assert told.stderr.startswith("error: ") and said in told.stderr
