"""What is not compared: too few prompts, too little in a log, and arguments that mean nothing."""

import engine_logs as logs
import numpy as np
import pytest
from compared_logs import GAMMA, macro, micro, sums, write
from draftscope import records
from draftscope.acceptance import printing
from draftscope.acceptance.compare import Plan, compare
from draftscope.acceptance.logs import Log
from draftscope.acceptance.table import measure
from draftscope.errors import UserError
from draftscope.statistics import prompts_needed, smallest_difference
from draftscope.writing import atomic
from scipy import stats


def constant(values):
    """A log with one round a prompt, that accepted so many drafts."""
    return sums({f"p{n:02d}": [(4, value, value + 1)] for n, value in enumerate(values)})


@pytest.mark.parametrize("prompts", [2, 7, 8])
def test_few_prompts_that_agree_show_nothing(prompts):
    plan = Plan(measures=("accepted_length",), margins={"accepted_length": 2})
    found = compare(constant([1] * prompts), constant([2] * prompts), plan)
    for row in found.rows:
        assert row["difference"] == 1
        if prompts < 8:
            assert row["low"] is None and row["verdict"] == "undecided"
            assert row["p_equivalence"] is None and row["reason"].startswith("constant over ")
        else:
            assert row["low"] == row["high"] == 1 and row["verdict"].startswith("B higher")
    shown = printing.comparison(found.rows)
    assert "constant" in shown and ("[+1.0000, +1.0000] constant" in shown) == (prompts == 8)
    log = Log("x", {}, constant([1] * prompts), {})
    shown = printing.measures(measure([("x", log)], confidence=0.95), False)
    assert ("[1.000, 1.000] constant" in shown) == (prompts == 8)
    assert ("constant over 2 prompts" in shown) == (prompts == 2)


@pytest.mark.parametrize(("differing", "verdict"), [(1, "undecided"), (3, "undecided"),
                                                    (5, "undecided"), (7, "B higher")])  # fmt: skip
def test_a_handful_of_prompts_among_ties_decides_only_with_the_sign_test(differing, verdict):
    plan = Plan(measures=("accepted_length",))
    found = compare(constant([1] * 30), constant([2] * differing + [1] * (30 - differing)), plan)
    row = macro(found)
    assert (row["verdict"], row["ties"]) == (verdict, 30 - differing)
    assert f"only {differing} prompts differ" in row["reason"]
    reach = stats.t.ppf(0.975, 29) * np.std([1] * differing + [0] * (30 - differing), ddof=1)
    assert row["low"] == pytest.approx(differing / 30 - reach / 30**0.5)
    assert micro(found)["verdict"] == verdict


@pytest.mark.parametrize("differing", [4, 5, 7])
def test_under_the_null_with_many_ties_a_direction_is_found_at_most_as_often_as_said(differing):
    """Exactly, over all signs of the differing prompts."""
    plan, wrong = Plan(measures=("accepted_length",)), 0.0
    for up in range(differing + 1):
        second = [3] * up + [1] * (differing - up) + [2] * (30 - differing)
        found = compare(constant([2] * 30), constant(second), plan)
        if macro(found)["verdict"] != "undecided":
            wrong += stats.binom.pmf(up, differing, 0.5)
    assert wrong <= plan.level


def test_constant_differences_have_no_spread_whatever_the_rounding():
    differences = np.arange(12) / 6 + 1 / 6 - np.arange(12) / 6
    assert np.ptp(differences) > 0
    assert smallest_difference(differences) is None and prompts_needed(differences, 0.1) is None
    assert smallest_difference(differences + 1e-9 * np.arange(12)) > 0


def test_a_measure_that_neither_log_has_is_refused(tmp_path, call):
    lines = [logs.vllm(p, r, GAMMA) for p, r in logs.draw(prompts=3).items()]
    raw, path = logs.jsonl(tmp_path / "x.jsonl", lines), tmp_path / "x.parquet"
    call("import_rounds.py", raw, "--format", "vllm", "--output", path)
    with pytest.raises(UserError, match="nothing to compare: no verify_rate: rounds that offered"):
        call("compare.py", path, path, "--measure", "verify_rate")
    asserted = tmp_path / "asserted.parquet"
    call("import_rounds.py", raw, "--format", "vllm", "--every-round-drafts", "--output", asserted)
    with pytest.raises(UserError, match="rounds_without_drafts .omitted / included."):
        call("compare.py", path, asserted)


def test_positions_that_nothing_reached_are_said_once_and_only_where_positions_are(tmp_path, call):
    path = write(tmp_path / "x.parquet", {"a": [(3, 1, 2)], "b": [(3, 2, 3)]})
    assert "conditional_rate" not in call("round_measures.py", path)
    said = call("round_measures.py", path, "--positions")
    assert said.count("no conditional_rate[4]: no round offered that position") == 1
    with pytest.raises(UserError, match="--seed is -1; it must be at least 0"):
        call("round_measures.py", path, "--seed", "-1")
    with pytest.raises(UserError, match="is a folder"):
        call("round_measures.py", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--condition", '{"law": {"temperature": NaN}}'), "NaN is no JSON number"),
        (("--condition", '{"law": "caf\\ud83e"}'), "half of a surrogate pair"),
        (("--condition", '{"engine": "vllm 1"}'), "a version belongs under engine_version"),
    ],
)
def test_bad_conditions_are_one_line(tmp_path, call, arguments, message):
    raw = logs.jsonl(tmp_path / "x.jsonl", [logs.vllm("a", [(3, 1, 2)], 3)])
    command = ("import_rounds.py", raw, "--format", "vllm", "--output", tmp_path / "x.parquet")
    with pytest.raises(UserError, match=message):
        call(*command, *arguments)
    call(*command, "--condition", '{"engine_version": "1.2"}')
    assert records.condition(tmp_path / "x.parquet") == {"engine": "vllm", "engine_version": "1.2"}


def test_outputs_that_cannot_be_written_are_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for path, message in (
        (tmp_path, "is a folder; name a file in it"),
        (tmp_path / "file" / "x", "cannot be written"),
        ("/proc/x.parquet", "cannot be written"),
    ):
        with pytest.raises(UserError, match=message), atomic(path) as file:
            file.write("x")
