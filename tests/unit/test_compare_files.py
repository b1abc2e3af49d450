"""Comparing files of rounds: conditions, loops, the commands, and arguments that are refused."""

import json
from pathlib import Path

import engine_logs as logs
import pytest
from compared_logs import CONDITION, GAMMA, means, sums, two_drafts, write
from draftscope import records
from draftscope.acceptance.conditions import comparable
from draftscope.acceptance.logs import loops, one_loop
from draftscope.engines.importing import import_requests
from draftscope.engines.options import Options
from draftscope.errors import UserError
from draftscope.exhibits.tables import read_table
from draftscope.prompts.digests import digests

ROOT = Path(__file__).resolve().parents[2]


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


def test_ids_that_stand_for_other_prompts_are_not_paired(tmp_path, call):
    ours, theirs = two_drafts()
    texts = [{"prompt_id": p, "messages_json": f"[{p}]", "text": p} for p in sorted(ours)]
    other = [row | {"text": "another"} for row in texts[:2]] + texts[2:]
    # Another row of the source, or one that was edited, where the text alone or the chat differs.
    assert digests(texts) != digests([texts[0] | {"messages_json": "[]"}, *texts[1:]])
    a = write(tmp_path / "a", ours, prompts=digests(texts))
    for name, said, fails in (
        ("same", digests(texts), False),
        ("grown", digests([*texts, {"prompt_id": "z", "messages_json": "", "text": ""}]), False),
        ("unsaid", None, False),
        ("other", digests(other), True),
    ):
        b = write(tmp_path / name, theirs, prompts=said)
        assert records.prompt_digests(b) == (said or {})
        if not fails:
            call("compare.py", a, b)
            continue
        with pytest.raises(UserError, match=r"other prompts under the same ids \(2 of 24, first p"):
            call("compare.py", a, b)
        with pytest.raises(UserError, match="only the same prompts can be paired"):
            call("compare.py", a, b, "--may-differ", "domain")


def test_a_prompt_without_rounds_may_have_had_another_text(tmp_path, call):
    """One that was skipped here and decoded there is left out, whatever it said."""
    ours, theirs = two_drafts()
    texts = {prompt: "same" for prompt in theirs}
    whole = write(tmp_path / "whole", theirs, prompts=texts | {"p00": "mended"})
    lacks = {prompt: lines for prompt, lines in ours.items() if prompt != "p00"}
    short = write(tmp_path / "short", lacks, prompts=texts | {"p00": "empty"})
    assert "left out, only in B: p00" in call("compare.py", short, whole)
    assert set(one_loop(short, {"draft_length": str(GAMMA)}, "a").prompts) == set(lacks)


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


def test_an_engine_against_our_own_log_from_end_to_end(tmp_path, call):
    pair = two_drafts()
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


@pytest.mark.parametrize(
    "order",
    [
        "A B --measure def1 accepted_length",
        "--measure def1 accepted_length A B",
        "A --measure def1 accepted_length B",
        "--measure def1 accepted_length --seed 1 A B",
        "--seed 1 A --measure def1 accepted_length --power 0.9 B",
    ],
)
def test_measures_may_stand_before_the_files(tmp_path, call, order):
    pair = two_drafts()
    files = {name: write(tmp_path / name, drawn) for name, drawn in zip("AB", pair, strict=True)}
    call("compare.py", *(files.get(word, word) for word in order.split()), "--output",
         tmp_path / "found.json")  # fmt: skip
    told = json.loads((tmp_path / "found.json").read_text())
    assert [told[side]["path"] for side in ("first", "second")] == list(map(str, files.values()))
    assert [row["metric"] for row in told["rows"][::2]] == ["def1", "accepted_length"]


@pytest.mark.parametrize("given", ["", "A", "A B C", "--measure def1 A"])
def test_other_than_two_logs_is_one_line(call, given):
    with pytest.raises(UserError, match="two logs are compared, A and B; given: "):
        call("compare.py", *given.split())


@pytest.mark.parametrize("order", ["A B --names x y", "--names x y A B", "A --names x y B"])
def test_names_may_stand_before_the_files(tmp_path, call, order):
    files = {name: write(tmp_path / name, {"a": [(4, 1, 2)]}) for name in "AB"}
    said = call("round_measures.py", *(files.get(word, word) for word in order.split()))
    assert {line.split()[0] for line in said.splitlines()[1:]} <= {"x", "y", "x:", "y:"}
    with pytest.raises(UserError, match="2 names for 1 logs; give one each"):
        call("round_measures.py", files["A"], "--names", "x", "y")
    with pytest.raises(UserError, match="no log is given"):
        call("round_measures.py", "--seed", "1")
