"""Two logs on the same prompts: differences against independent tests, and what is refused."""

import importlib
import json
import sys
from pathlib import Path

import engine_logs as logs
import numpy as np
import pyarrow as pa
import pytest
from draftscope import records
from draftscope.acceptance import compare as comparing
from draftscope.acceptance.compare import Plan, compare, sentences
from draftscope.acceptance.conditions import comparable
from draftscope.acceptance.logs import loops, one_loop
from draftscope.acceptance.sums import Sums, of_rounds
from draftscope.engines.importing import import_requests
from draftscope.engines.options import Options
from draftscope.errors import UserError
from draftscope.exhibits.tables import read_table
from draftscope.schemas import SCHEMAS
from draftscope.statistics import prompts_needed, smallest_difference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

ROOT = Path(__file__).resolve().parents[2]
GAMMA = 4
CONDITION = {"target": "t", "draft": "d", "law": {"temperature": 0.6}, "domain": "math"}


def sums(drawn, gamma=GAMMA):
    return of_rounds(pa.Table.from_pylist(logs.round_rows(drawn, gamma), SCHEMAS["rounds"]))


def macro(found, metric="accepted_length"):
    (row,) = [r for r in found.rows if (r["metric"], r["pooling"]) == (metric, "macro")]
    return row


def micro(found, metric="accepted_length"):
    (row,) = [r for r in found.rows if (r["metric"], r["pooling"]) == (metric, "micro")]
    return row


@pytest.fixture(scope="module")
def pair():
    """Two drafts on the same 24 prompts; the second accepts a little more."""
    return logs.draw(prompts=24, seed=1), logs.draw(prompts=24, seed=2, rate=0.76)


@pytest.fixture(scope="module")
def found(pair):
    plan = Plan(margins={"accepted_length": 0.8, "def1": 0.001})
    return compare(*map(sums, pair), plan)


def means(drawn):
    return np.array([np.mean([a for _, a, _ in lines]) for _, lines in sorted(drawn.items())])


def test_differences_and_tests_are_those_of_scipy_and_statsmodels(pair, found):
    a, b = map(means, pair)
    row = macro(found)
    assert (row["first"], row["second"]) == pytest.approx((a.mean(), b.mean()))
    assert row["difference"] == pytest.approx((b - a).mean())
    up, down = int((b > a).sum()), int((b < a).sum())
    assert (row["up"], row["down"], row["ties"]) == (up, down, 0)
    assert row["p_sign"] == pytest.approx(stats.binomtest(up, up + down).pvalue)
    expected = stats.wilcoxon(b, a, zero_method="pratt", method="asymptotic")
    assert row["p_wilcoxon"] == pytest.approx(expected.pvalue)
    assert row["p_equivalence"] == pytest.approx(ttost_paired(b, a, -0.8, 0.8)[0])
    # Differences of 24 prompts are near normal: bootstrap-t and Student's interval are near too.
    student = stats.ttest_rel(b, a).confidence_interval(0.95)
    width = student.high - student.low
    assert [row["low"], row["high"]] == pytest.approx([student.low, student.high], abs=width / 8)


def test_micro_is_the_difference_of_pooled_ratios_resampled_in_pairs(pair, found):
    pooled = [sum(a for lines in d.values() for _, a, _ in lines) for d in pair]
    rounds = [sum(map(len, d.values())) for d in pair]
    row = micro(found)
    assert row["difference"] == pytest.approx(pooled[1] / rounds[1] - pooled[0] / rounds[0])
    # By hand: prompts drawn in pairs, the spread of the difference of the two ratios.
    rng = np.random.default_rng(5)
    above = [np.array([sum(a for _, a, _ in d[p]) for p in sorted(d)]) for d in pair]
    below = [np.array([len(d[p]) for p in sorted(d)]) for d in pair]
    drawn = rng.integers(0, 24, (4000, 24))
    ratios = [u[drawn].sum(1) / v[drawn].sum(1) for u, v in zip(above, below, strict=True)]
    spread = np.std(ratios[1] - ratios[0])
    assert (row["high"] - row["low"]) / (2 * stats.t.ppf(0.975, 23) * spread) == pytest.approx(
        1, abs=0.2
    )


def test_every_measure_is_compared_in_both_poolings(found):
    assert not found.missing
    seen = [(row["metric"], row["position"], row["pooling"]) for row in found.rows]
    assert len(seen) == len(set(seen)) == 2 * (8 + 2 * GAMMA)
    assert {row["pooling"] for row in found.rows} == {"micro", "macro"}
    assert all(row["reason"] or row["low"] is not None for row in found.rows)


def test_a_log_against_itself_is_equal_and_nothing_else(pair):
    one = sums(pair[0])
    plan = Plan(measures=("accepted_length",), margins={"accepted_length": 0.01})
    row = macro(compare(one, one, plan))
    assert (row["difference"], row["ties"], row["p_sign"], row["p_wilcoxon"]) == (0, 24, 1, 1)
    assert row["verdict"] == "equal, within the margin" and row["prompts_needed"] is None


def test_the_order_of_prompts_does_not_matter_but_who_is_paired_with_whom_does(pair):
    plan = Plan(measures=("accepted_length",))
    base = logs.draw(prompts=24, seed=3, spread=0.25)
    better = {p: [(k, min(k, a + (i % 7 == 0)), 0) for i, (k, a, _) in enumerate(lines)]
              for p, lines in base.items()}  # fmt: skip
    better = {p: [(k, a, a + 1) for k, a, _ in lines] for p, lines in better.items()}
    right = macro(compare(sums(base), sums(better), plan))
    again = macro(compare(sums(base), sums(dict(reversed(better.items()))), plan))
    assert again == right
    names = sorted(better)
    crossed = {name: better[names[n - 1]] for n, name in enumerate(names)}
    wrong = macro(compare(sums(base), sums(crossed), plan))
    assert wrong["difference"] == pytest.approx(right["difference"])
    assert wrong["high"] - wrong["low"] > 3 * (right["high"] - right["low"])
    assert right["verdict"] == "B higher" and wrong["verdict"] == "undecided"


def test_prompts_of_one_side_are_named_and_left_out(pair):
    first, second = dict(pair[0]), dict(pair[1])
    for name in ("p00", "p01"):
        del first[name]
    second["new"] = second.pop("p05")
    found = compare(sums(first), sums(second), Plan(measures=("def1",)))
    assert found.only_first == ["p05"] and found.only_second == ["new", "p00", "p01"]
    both = sorted(set(first) & set(second))
    alone = compare(*(sums({p: d[p] for p in both}) for d in pair), Plan(measures=("def1",)))
    assert found.rows == alone.rows and found.prompts == both
    with pytest.raises(UserError, match="share no prompt: one has p02, the other x"):
        compare(sums(first), sums({"x": second["p07"]}), Plan())


def test_a_prompt_with_nothing_to_measure_on_one_side_is_no_pair():
    first = {"a": [(4, 1, 2)], "b": [(4, 2, 3)], "c": [(4, 3, 4)]}
    second = {"a": [(2, 1, 2)], "b": [(4, 2, 3)], "c": [(4, 4, 5)]}  # a has no full round
    found = compare(sums(first), sums(second), Plan(measures=("def1",)))
    for row in (macro(found, "def1"), micro(found, "def1")):
        assert (row["prompts"], row["unpaired"]) == (2, 1)
    assert macro(found, "def1")["difference"] == pytest.approx(0.125)


def test_one_prompt_or_none_has_a_stated_answer():
    one = {"a": [(4, 1, 2)]}
    found = compare(sums(one), sums({"a": [(4, 3, 4)]}), Plan(measures=("def1",)))
    row = macro(found, "def1")
    assert row["difference"] == 0.5 and row["low"] is None and row["verdict"] == "undecided"
    assert row["reason"] == "one prompt: no interval"
    assert "too few prompts" in sentences(found, Plan())[0]
    empty = compare(sums({"a": [(2, 1, 2)]}), sums(one), Plan(measures=("def1",)))
    assert macro(empty, "def1")["difference"] is None
    assert macro(empty, "def1")["reason"] == "no values"


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_swapping_the_logs_turns_every_sign(seed, prompts):
    drawn = [logs.draw(prompts=prompts, rounds=6, seed=seed + n) for n in (0, 1)]
    plan = Plan(measures=("accepted_length", "def1"))
    one, other = compare(*map(sums, drawn), plan), compare(*map(sums, drawn[::-1]), plan)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a["difference"] == pytest.approx(-b["difference"], abs=1e-12)
        assert (a["first"], a["second"]) == (b["second"], b["first"])
        assert (a["up"], a["down"], a["p_sign"]) == (b["down"], b["up"], b["p_sign"])
        assert (a["prompts_needed"], a["smallest"]) == (b["prompts_needed"], b["smallest"])


# ------------------------------------------------------------------------------------- power


def test_the_number_of_prompts_has_the_power_that_is_promised(pair):
    a, b = map(means, pair)
    differences, effect = b - a, 0.25
    needed = prompts_needed(differences, effect)
    size = effect / differences.std(ddof=1)
    assert needed == int(np.ceil(TTestPower().solve_power(size, alpha=0.05, power=0.8)))
    # Prompts like the measured ones, moved to a mean of the effect: how often is it found?
    rng = np.random.default_rng(0)
    moved = differences - differences.mean()
    moved *= np.sqrt(len(moved) / (len(moved) - 1))
    samples = rng.choice(moved, (4000, needed)) + effect
    p = stats.ttest_1samp(samples, 0, axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.04)
    fewer = stats.ttest_1samp(samples[:, : needed // 2], 0, axis=1).pvalue
    assert (fewer < 0.05).mean() < 0.7  # half of them would not do


def test_the_smallest_difference_is_the_same_question_the_other_way_round(pair):
    differences = means(pair[1]) - means(pair[0])
    smallest = smallest_difference(differences)
    assert prompts_needed(differences, smallest * 1.001) == len(differences)
    assert prompts_needed(differences, smallest * 0.97) > len(differences)
    size = TTestPower().solve_power(nobs=len(differences), alpha=0.05, power=0.8)
    assert smallest == pytest.approx(size * differences.std(ddof=1))
    assert smallest_difference([1.0]) is None and smallest_difference([1.0, 1.0]) is None


def test_undecided_comparisons_say_what_would_settle_them(pair):
    first = sums(pair[0])
    second = sums(logs.draw(prompts=24, seed=9, rate=0.7))
    plan = Plan(measures=("accepted_length",))
    row = macro(compare(first, second, plan))
    assert row["verdict"] == "undecided" and row["effect"] == row["difference"]
    assert row["prompts_needed"] > 24
    asked = Plan(measures=("accepted_length",), effects={"accepted_length": 0.3})
    again = compare(first, second, asked)
    assert macro(again)["effect"] == 0.3
    assert (
        f"{macro(again)['prompts_needed']:,} prompts would settle a difference 0.3 if"
        in (sentences(again, asked)[0])
    )
    hopeless = Plan(measures=("accepted_length",), effects={"accepted_length": 1e-9})
    found = compare(first, second, hopeless)
    assert macro(found)["prompts_needed"] is None
    assert f"up to {comparing.MOST_PROMPTS:,}" in sentences(found, hopeless)[0]


@pytest.mark.parametrize(
    ("shift", "margin", "verdict"),
    [
        (0.0, 0.5, "equivalent"),
        (0.0, 0.0001, "undecided"),
        (1.0, 2.0, "B higher, within the margin"),
        (1.0, 0.5, "B higher"),
        (-1.0, 0.5, "B lower"),
    ],
)
def test_verdicts(shift, margin, verdict):
    rng = np.random.default_rng(4)
    names = np.array([f"p{n:02d}" for n in range(30)], object)
    below, base = np.full(30, 10.0), rng.normal(20, 5, 30)
    noise = rng.normal(0, 2, 30)
    noise -= noise.mean()

    def one(above):
        return Sums(names, GAMMA, 30, 300, 0, {("accepted_length", None): (above, below)}, {})

    plan = Plan(measures=("accepted_length",), margins={"accepted_length": margin})
    found = compare(one(base), one(base + noise + 10 * shift), plan)
    row = macro(found)
    assert row["verdict"] == verdict
    # Only what is undecided needs more prompts; what these could have found is always said.
    asks = verdict == "undecided"
    assert (row["effect"] is not None) == asks and row["smallest"] > 0
    assert asks or row["prompts_needed"] is None


# ------------------------------------------------------------------------- files and conditions


def write(path, drawn, gamma=GAMMA, condition=CONDITION, **loop):
    records.write(path, logs.round_rows(drawn, gamma, **loop), "rounds", condition)
    return path


def test_conditions_must_agree_except_for_what_is_named():
    first = CONDITION | {"draft_length": 3}
    second = CONDITION | {"draft": "e", "draft_length": 5, "engine": "vllm"}
    with pytest.raises(UserError) as error:
        comparable(first, second, ("A", "B"), ())
    assert "draft (d / e)" in str(error.value) and "engine (not said / vllm)" in str(error.value)
    assert str(error.value).endswith("add --may-differ draft,draft_length,engine")
    with pytest.raises(UserError, match="--may-differ draft$"):
        comparable(first, second, ("A", "B"), ("draft_length", "engine"))
    with pytest.raises(
        UserError, match="--may-differ drfat: no condition of that name; nearest: dra"
    ):
        comparable(first, second, ("A", "B"), ("drfat",))
    shared, differs = comparable(first, second, ("A", "A"), ("draft", "draft_length", "engine"))
    assert shared == {key: CONDITION[key] for key in ("target", "law", "domain")}
    assert differs["draft_length"] == (3, 5)


def test_a_file_of_several_loops_asks_which(tmp_path):
    rows = [row for gamma in (2, 4) for row in logs.round_rows({"a": [(2, 1, 2)]}, gamma)]
    path = tmp_path / "rounds.parquet"
    records.write(path, rows, "rounds", CONDITION)
    assert [log.condition["draft_length"] for log in loops(path)] == [2, 4]
    with pytest.raises(UserError, match="several loops: draft_length is 2, 4; choose one with --a"):
        one_loop(path, {}, "a")
    assert one_loop(path, {"draft_length": "4"}, "a").sums.draft_length == 4
    with pytest.raises(UserError, match="has no draft_length 3; it has 2, 4"):
        one_loop(path, {"draft_length": "3"}, "a")
    with pytest.raises(UserError, match="has no draftlength to choose; nearest: draft_length"):
        one_loop(path, {"draftlength": "3"}, "a")
    with pytest.raises(UserError, match="is no Parquet file of rounds; bring other logs in with"):
        one_loop(logs.jsonl(tmp_path / "x.jsonl", ["{}"]), {}, "a")


def test_requests_without_a_round_count_for_nothing_and_alone_are_no_log(tmp_path):
    drawn = {f"p{n}": [(4, n, n + 1), (4, 0, 1)] for n in range(3)}
    lines = [logs.neutral(p, r, GAMMA) for p, r in drawn.items()]
    silent = {"prompt_id": "quiet", "draft_length": GAMMA, "rounds": 0}
    path = tmp_path / "x.parquet"
    for written, fails in (([*lines, silent], False), ([silent], True)):
        raw = logs.jsonl(tmp_path / "x.jsonl", written)
        rows = import_requests("jsonl", [raw], Options()).rows
        records.write(path, rows, "imported_rounds", {})
        if fails:
            with pytest.raises(UserError, match="x.parquet holds no rounds"):
                list(loops(path))
        else:
            (log,) = loops(path)
            own, found = sums(drawn), log.sums
            assert not found.missing and found.requests == 4
            for key, pair in own.values.items():
                assert [side[:3].tolist() for side in found.values[key]] == [
                    side.tolist() for side in pair
                ]
                assert found.values[key][1][3] == 0


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a script's main function in this process; what it printed."""

    def run(script, *arguments):
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        importlib.import_module(Path(script).stem).main()
        return capsys.readouterr().out

    return run


def test_an_engine_against_our_own_log_from_end_to_end(tmp_path, pair, call):
    ours = write(tmp_path / "ours.parquet", pair[0])
    lines = [logs.vllm(p, lines, GAMMA) for p, lines in pair[1].items()]
    raw, theirs = logs.jsonl(tmp_path / "x.jsonl", lines), tmp_path / "theirs.parquet"
    call("import_rounds.py", raw, "--format", "vllm", "--every-round-drafts", "--condition",
         json.dumps(CONDITION), "--output", theirs)  # fmt: skip
    said = call("round_measures.py", ours, theirs, "--names", "ours", "vllm", "--output",
                tmp_path / "measures")  # fmt: skip
    assert "vllm: no acceptance_length: emitted tokens are not reported" in said
    table = read_table(tmp_path / "measures.csv").set_index(
        ["run", "metric", "position", "pooling"]
    )
    row = table.loc[("vllm", "accepted_length", "all", "macro")]
    assert float(row["value"]) == pytest.approx(means(pair[1]).mean())
    assert float(row["low"]) < float(row["value"]) < float(row["high"]) and row["prompts"] == "24"
    with pytest.raises(UserError) as refused:
        call("compare.py", ours, theirs)
    may = str(refused.value).partition("add --may-differ ")[2].split(",")
    assert may == ["engine", "lossless", "rule", "source"]
    call("compare.py", "--may-differ", ",".join(may[:2]), "--may-differ", ",".join(may[2:]), ours,
         theirs, "--measure", "accepted_length",
         "--margin", "accepted_length=1.5", "--output", tmp_path / "c.json")  # fmt: skip
    told = json.loads((tmp_path / "c.json").read_text())
    expected = means(pair[1]).mean() - means(pair[0]).mean()
    assert told["rows"][1]["difference"] == pytest.approx(expected)
    assert told["differs"]["engine"] == [None, "vllm"] and len(told["prompts"]) == 24
    may = ",".join(may)
    said = call("compare.py", ours, theirs, "--may-differ", may, "--output", tmp_path / "c.csv")
    assert "no acceptance_length: emitted tokens are not reported" in said
    frame = read_table(tmp_path / "c.csv")
    assert set(frame["pooling"]) == {"micro", "macro"} and "def1" in set(frame["metric"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--measure", "accept_length"),
            "--measure accept_length is no measure; nearest: accepted_l",
        ),
        (("--margin", "def1=0"), "--margin def1=0 must be above 0"),
        (("--margin", "def1=x"), "--margin def1=x must be a number"),
        (("--margin", "def1"), "--margin def1 must be NAME=VALUE"),
        (("--margin", "def1=1", "--measure", "accepted_length"), "--margin def1 is of no measure"),
        (("--effect", "def1=1", "--measure", "accepted_length"), "--effect def1 is of no measure"),
        (("--seed", "-1"), "--seed is -1; it must be at least 0"),
        (("--effect", "def2=1"), "--effect def2 is no measure; nearest: def1"),
        (("--confidence", "1.5"), "--confidence is 1.5; it must be between 0 and 1"),
        (("--output", "x.txt"), "--output x.txt must end in .csv or .json"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path, call, arguments, message):
    path = write(tmp_path / "a.parquet", {"a": [(4, 1, 2)]})
    with pytest.raises(UserError) as error:
        call("compare.py", path, path, *arguments)
    assert str(error.value).startswith(message)


def test_the_commands_of_the_readme_work(tmp_path, call):
    """Every command of the two sections, with the laptop run's file and the outputs replaced."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    own = readme.split("## Your own production runs")[1].split("## What reruns when")[0]
    text = "".join(block.split("```")[0] for block in own.split("```bash")[1:])
    commands = [
        line.split("#")[0].split()[1:]
        for line in text.replace("\\\n", " ").splitlines()
        if line.startswith("python scripts/")
    ]
    assert [Path(command[0]).stem for command in commands] == [
        *("validate_rounds", "import_rounds", "round_measures", "compare")
    ]
    rows = [
        row
        for gamma in (3, 5)
        for row in logs.round_rows(logs.draw(prompts=10, gamma=gamma, seed=gamma), gamma)
    ]
    replaced = {
        "results/laptop/rounds/smollm2-3bit/math/greedy.parquet": tmp_path / "rounds.parquet",
        "results/mine.parquet": tmp_path / "mine.parquet",
        "results/mine": tmp_path / "mine",
    }
    records.write(tmp_path / "rounds.parquet", rows, "rounds", CONDITION)
    for script, *arguments in commands:
        said = call(Path(script).name, *(replaced.get(one, one) for one in arguments))
    assert "acceptance_length: " in said and "(margin 0.1, p of equivalence" in said
    assert (tmp_path / "mine.csv").exists()
