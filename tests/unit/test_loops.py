"""Loop detection: planted loops, texts that merely look repetitive, and a slow reference."""

import re
import time

import numpy as np
import pytest
from draftscope.errors import UserError
from draftscope.loops import Loop, find_loop, kind_of_repetition, loop_row
from hypothesis import given
from hypothesis import strategies as st


def slow_reference(ids, max_period, min_repeats, min_span):
    """The definition, read literally: try every period, shortest first."""
    n = len(ids)
    for period in range(1, min(max_period, n) + 1):
        span = max(min_span, min_repeats * period)
        if span <= n and all(ids[i] == ids[i + period] for i in range(n - span, n - period)):
            onset = n - span
            while onset > 0 and ids[onset - 1] == ids[onset - 1 + period]:
                onset -= 1
            return Loop(onset, period, (n - onset) / period)
    return None


def characters(text):
    return [ord(character) for character in text]


def decode(ids):
    return "".join(chr(i) for i in ids)


@given(
    st.lists(st.integers(0, 2), max_size=60),
    st.integers(1, 12),
    st.integers(2, 4),
    st.integers(1, 20),
)
def test_equals_the_definition(ids, max_period, min_repeats, min_span):
    expected = slow_reference(ids, max_period, min_repeats, min_span)
    assert find_loop(ids, max_period, min_repeats, min_span) == expected


@given(
    prefix=st.lists(st.integers(0, 5), max_size=30),
    period=st.lists(st.integers(0, 5), min_size=1, max_size=12),
    repeats=st.integers(6, 9),
    extra=st.integers(0, 11),
)
def test_equals_the_definition_on_planted_loops(prefix, period, repeats, extra):
    ids = prefix + period * repeats + period[: extra % len(period)]
    assert find_loop(ids, 20, 3, 6) == slow_reference(ids, 20, 3, 6)


@given(
    prefix=st.lists(st.integers(0, 999), max_size=50),
    period_length=st.integers(1, 60),
    cuts=st.lists(st.integers(0, 150), min_size=2, max_size=4),
)
def test_case_94_planted_loop_is_recovered_wherever_the_text_is_cut(prefix, period_length, cuts):
    period = list(range(1000, 1000 + period_length))
    for cut in cuts:
        ids = prefix + (period * 200)[: max(3 * period_length, 32) + cut]
        loop = find_loop(ids)
        assert (loop.onset, loop.period) == (len(prefix), period_length)
        assert loop.repeats == (len(ids) - len(prefix)) / period_length


def test_onset_does_not_depend_on_the_thresholds():
    ids = list(range(100, 150)) + [1, 2, 3, 4] * 50
    found = {find_loop(ids, min_repeats=r, min_span=s).onset for r in (2, 10) for s in (8, 150)}
    assert found == {50}


def test_a_long_period_counts_up_to_the_limit():
    period = np.random.default_rng(0).integers(0, 50_000, 1025)
    ids = np.tile(period, 4)
    assert find_loop(ids) is None
    assert find_loop(ids[: 4 * 1024], max_period=1025).period == 1025
    assert find_loop(np.tile(period[:1024], 3)) == Loop(0, 1024, 3.0)


def test_repetition_that_stopped_before_the_end_is_no_loop():
    assert find_loop([1, 2, 3] * 40 + [9]) is None


def test_case_89_imports_are_no_loop():
    names = re.findall(
        r"\w+",
        "os re io ast abc csv json math time uuid heapq queue shutil socket string struct random "
        "decimal inspect logging",
    )
    assert len(set(names)) == 20
    assert find_loop(characters("".join(f"import {name}\n" for name in names))) is None


def test_case_89_indented_lines_are_no_loop():
    lines = "".join(f"        total_{i} = rows[{i}] + {i * i}\n" for i in range(12))
    for cut in range(len(lines) - 60, len(lines) + 1):  # also inside an indentation
        assert find_loop(characters(lines[:cut])) is None


def test_case_91_lines_with_a_long_shared_prefix_are_no_loop():
    names = re.findall(
        r"\w+",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho "
        "sigma tau upsilon",
    )
    lines = "".join(f"projects/p/locations/x/services/{name}\n" for name in names)
    for cut in range(len(lines) - 60, len(lines) + 1):
        assert find_loop(characters(lines[:cut])) is None


def test_case_94_near_repeats_are_out_of_scope():
    assert find_loop(characters(" ".join(f"{i}. again" for i in range(1, 40)))) is None
    assert "1. again 2. again" in find_loop.__doc__


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0" * 60, "digits"),
        ("142857" * 20, "digits"),
        ("0.000, " * 20, "digits"),
        (" " * 80, "formatting"),
        ("|---|---|\n" * 12, "formatting"),
        ("<br>\n" * 20, "formatting"),
        ("\\quad " * 20, "formatting"),
        ("─" * 64, "formatting"),
        ("and again, " * 12, "text"),
        ("1. again\n" * 12, "text"),
        ("🙂" * 40, "text"),
        ("再次。" * 20, "text"),
        ("\N{REPLACEMENT CHARACTER}" * 40, "text"),
    ],
)
def test_kind_of_repetition(text, kind):
    for cut in range(3):
        assert (
            find_loop(characters("Well: x" + text[: len(text) - cut]), decode=decode).kind == kind
        )


def test_kind_judges_tags_across_the_seam():
    assert kind_of_repetition("br>\n<" * 3) == "formatting"
    assert kind_of_repetition("br>x<" * 3) == "text"


def test_kind_is_unknown_without_a_decoder():
    assert find_loop([7] * 40).kind is None


@pytest.mark.parametrize("tokens", [0, 1, 2, 31])
def test_short_texts_have_no_loop(tokens):
    assert find_loop([5] * tokens) is None
    assert find_loop([5] * 32) == Loop(0, 1, 32.0)


@pytest.mark.parametrize(
    "thresholds", [{"max_period": 0}, {"min_repeats": 1}, {"min_span": 0}, {"min_span": 2.5}]
)
def test_thresholds_out_of_range_are_refused(thresholds):
    with pytest.raises(UserError, match=next(iter(thresholds))):
        find_loop([1, 2, 3], **thresholds)


def test_time_grows_linearly():
    """Eight times the text takes at most about eight times as long; quadratic would be 64."""
    hard = np.array(([1] * 40 + [2]) * 4000)  # long borders everywhere

    def seconds(tokens):
        taken = []
        for _ in range(5):
            begin = time.process_time()
            find_loop(hard[:tokens], max_period=tokens, min_repeats=2, min_span=tokens)
            taken.append(time.process_time() - begin)
        return min(taken)

    assert seconds(131_072) / seconds(16_384) < 24
    begin = time.process_time()
    assert find_loop(hard[:16_384]) is not None
    assert time.process_time() - begin < 1


def trajectory(ids, stop_reason, stop_token_id=None):
    return {
        "prompt_id": "a",
        "sample": 0,
        "token_ids": ids,
        "stop_reason": stop_reason,
        "stop_token_id": stop_token_id,
    }


def test_loop_problem_needs_the_length_limit():
    looping = [3, 4] * 30
    row = loop_row(trajectory(looping, "budget"), None)
    assert (row["looped"], row["loop_problem"], row["onset"], row["repeats"]) == (True, True, 0, 30)
    assert loop_row(trajectory(looping, "context"), None)["loop_problem"]
    ended = loop_row(trajectory([*looping, 0], "eos", 0), None)
    assert (ended["looped"], ended["loop_problem"], ended["tokens"]) == (True, False, 61)
    plain = loop_row(trajectory(list(range(60)), "budget"), None)
    assert (plain["looped"], plain["loop_problem"], plain["period"]) == (False, False, None)
