"""Collecting: stable rows, disjoint splits, every source, bad input."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from draftscope import prompts, records
from draftscope.errors import UserError
from draftscope.prompts import collecting, hub

ROOT = Path(__file__).parents[2]
REGISTRY = yaml.safe_load((ROOT / "config" / "domains.yaml").read_text(encoding="utf-8"))
OFFLINE = ("math", "code", "logic", "chat")


def domain(name, **changes):
    return {"domain": name, **REGISTRY[name], **changes}


@pytest.fixture(autouse=True)
def project_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(params=OFFLINE)
def offline(request):
    return domain(request.param)


def test_rows_do_not_depend_on_how_many_are_asked_for(offline):
    whole = prompts.collect(offline, 0, 24)
    assert prompts.collect(offline, 0, 3) == whole[:3]
    assert [r for start in range(0, 24, 8) for r in prompts.collect(offline, start, start + 8)] == (
        whole
    )


def test_rows_fit_the_schema_and_survive_the_file(offline, tmp_path):
    rows = prompts.collect(offline, 0, 12)
    records.write(tmp_path / "p.parquet", rows, "prompts", {"domain": offline["domain"]})
    ids = [row["prompt_id"] for row in rows]
    assert records.read(tmp_path / "p.parquet", "prompts", ids).to_pylist() == rows
    assert len(set(ids)) == len({row["text"] for row in rows}) == 12
    for row in rows:
        assert row["text"].strip() and row["split"] == "evaluation"
        assert json.loads(row["messages_json"])[-1] == {"role": "user", "content": row["text"]}


def test_training_and_evaluation_are_disjoint(offline):
    wanted = 20
    evaluation = prompts.collect(offline, 0, wanted)
    training = prompts.collect(offline | {"split": "training"}, 0, wanted)
    for key in ("prompt_id", "text"):
        assert not {row[key] for row in evaluation} & {row[key] for row in training}
    assert {row["split"] for row in training} == {"training"}


def test_generated_problems_never_repeat():
    small = domain("logic", tasks=["propositional_logic"], evaluation=[0, 300], training=[300, 600])
    small["options"] = {"propositional_logic": {"max_vars": 2, "max_complexity": 2}}
    texts = [row["text"] for row in prompts.collect(small, 0, 100)]
    assert len(set(texts)) == 100
    # The family is so small that plain seeds repeat it.
    import reasoning_gym

    plain = [
        reasoning_gym.create_dataset(
            "propositional_logic", seed=27182 + i, size=1, max_vars=2, max_complexity=2
        )[0]["question"]
        for i in range(100)
    ]
    assert len(set(plain)) < 100


def test_a_generated_problem_can_be_generated_again():
    import reasoning_gym

    for row in prompts.collect(domain("math"), 5, 8):
        where = json.loads(row["source_row"])
        again = reasoning_gym.create_dataset(where["task"], seed=where["seed"], size=1)[0]
        assert (again["question"], again["answer"]) == (row["text"], row["answer"])


def test_logic_mixes_its_tasks_in_turn():
    ids = [row["prompt_id"] for row in prompts.collect(domain("logic"), 0, 4)]
    assert ids == [
        *("knights_knaves-000000", "propositional_logic-000001"),
        *("knights_knaves-000002", "propositional_logic-000003"),
    ]


def test_a_family_that_is_too_small_is_named():
    tiny = domain("logic", tasks=["propositional_logic"])
    sizes = {"min_vars": 2, "max_vars": 2, "min_statements": 1, "max_statements": 1}
    tiny["options"] = {"propositional_logic": sizes | {"min_complexity": 1, "max_complexity": 1}}
    with pytest.raises(UserError, match="propositional_logic has no .* different problems"):
        prompts.collect(tiny, 0, 200)


def test_the_code_problems_are_the_164_of_the_package():
    every = prompts.collect(domain("code", evaluation=[0, 164], training=None), 0, 164)
    assert len({row["source_row"] for row in every}) == 164
    assert every[0]["source_row"] == "HumanEval/0" and "def " in every[163]["text"]
    assert all(row["answer"].strip() for row in every)


def test_case_11_languages_are_kept_with_the_prompts():
    rows = prompts.collect(domain("chat", evaluation=[0, 60], training=None), 0, 60)
    languages = {row["language"] for row in rows}
    assert {"en", "zh", "es"} <= languages
    assert sum(row["language"] != "en" for row in rows) == 8
    assert {row["language"] for row in prompts.collect(domain("math"), 0, 4)} == {"en"}


def test_every_registry_row_is_valid_and_its_revision_is_a_commit():
    for name in REGISTRY:
        first, last = REGISTRY[name]["evaluation"]
        collecting.check(domain(name), last - first)
        if REGISTRY[name]["source"] == "hub":
            assert len(REGISTRY[name]["revision"]) == 40


@pytest.mark.parametrize(
    ("changes", "start", "stop", "named"),
    [
        ({}, 0, 121, r"has 120 evaluation prompts, asked for 121"),
        ({"split": "training"}, 0, 45, r"has 44 training prompts"),
        ({"split": "test"}, 0, 1, r"'test' is neither"),
        ({"training": [100, 164]}, 0, 1, r"\[0, 120\] and training \[100, 164\] overlap"),
        ({"training": None, "split": "training"}, 0, 1, r"no training range"),
        ({"evaluation": [5, 5]}, 0, 1, r"past the last"),
        ({"evaluation": [0, 500], "training": None}, 160, 170, r"fewer than 170 items"),
        ({"source": "humaneval"}, 0, 1, r"'humaneval' is unknown; known sources: .*human_eval"),
        ({"sead": 1}, 0, 1, r"unknown sead"),
        ({"instruction": "Do it."}, 0, 1, r"lacks \{problem\}"),
        ({"template": {"chat_template": "yes"}}, 0, 1, r"true or false"),
        ({}, 3, 3, r"no prompts in the range 3 to 3"),
    ],
)
def test_bad_domains_are_named(changes, start, stop, named):
    with pytest.raises(UserError, match=named):
        prompts.collect(domain("code", **changes), start, stop)


def jsonl(tmp_path, *lines):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return {"domain": "own", "source": "jsonl", "file": str(path), "evaluation": [0, len(lines)]}


def test_a_file_of_ones_own(tmp_path):
    own = jsonl(
        tmp_path,
        '{"id": "a", "text": "{braces} and\\nlines", "answer": "42"}',
        '{"id": "b", "text": "", "language": "de"}',
    )
    own |= {"instruction": "Say {problem} in \\boxed{}", "system": "Be brief."}
    first, second = prompts.collect(own, 0, 2)
    assert first["text"] == "Say {braces} and\nlines in \\boxed{}"
    assert json.loads(first["messages_json"])[0] == {"role": "system", "content": "Be brief."}
    assert (first["answer"], second["answer"], second["language"]) == ("42", None, "de")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"id": "a", "text": "again"}', r"own.jsonl:2: prompt id a also stands in line 1"),
        ('{"id": "b"}', r"own.jsonl:2: text is missing"),
        ('{"id": 7, "text": "x"}', r"own.jsonl:2: id is missing or not a string"),
        ('{"id": "b", "text": "x", "langauge": "en"}', r"own.jsonl:2: unknown key 'langauge'"),
        ('{"id": "b", "te', r"own.jsonl:2: not valid JSON"),
        ('{"id": "b", "text": %s}' % ("1" * 5000), r"own.jsonl:2: not valid JSON"),
        ("[1]", r"own.jsonl:2: expected a JSON object, found list"),
        ('{"id": "", "text": "x"}', r"own.jsonl:2: id is empty"),
        (
            '{"id": "b", "text": "x", "language": ["en"]}',
            r"2: language is \['en'\]; expected a str",
        ),
        (
            '{"id": "b", "text": "x", "answer": true}',
            r"2: answer is True; expected a string or a n",
        ),
        ('{"id": "b", "text": "x", "answer": NaN}', r"2: answer is nan; expected a string or a n"),
        ('{"id": "b", "text": "x", "answer": ["1"]}', r"2: answer is \['1'\]; expected a string"),
        ('{"id": "b", "text": "a \\ud83d b"}', r"own.jsonl:2: 'text' holds half of a surrogate"),
    ],
)
def test_bad_lines_are_named_whichever_prompts_are_asked_for(tmp_path, line, named):
    own = jsonl(tmp_path, '{"id": "a", "text": "x"}', line)
    with pytest.raises(UserError, match=named):
        prompts.collect(own, 0, 1)


def test_lines_end_at_newlines_only_and_a_byte_order_mark_is_skipped(tmp_path):
    texts = ["one\u2028two", "three\u0085four\x0bfive", "\U0001f642"]
    lines = [json.dumps({"id": f"p{n}", "text": text}, ensure_ascii=False)
             for n, text in enumerate(texts)]  # fmt: skip
    lines[1] = lines[1].replace("\\u000b", " ") + "\r"  # a line written on Windows
    own = jsonl(tmp_path, "\ufeff" + lines[0], "", *lines[1:])
    found = [row["text"] for row in prompts.collect(own, 0, 3)]
    assert found == [texts[0], "three\u0085four five", texts[2]]


def test_a_pair_of_surrogates_is_a_character_and_a_number_an_answer(tmp_path):
    own = jsonl(
        tmp_path,
        '{"id": "a", "text": "\\ud83d\\ude42", "answer": 42}',
        '{"id": "b", "text": "x", "answer": 0.5, "language": null}',
    )
    first, second = prompts.collect(own, 0, 2)
    assert (first["text"], first["answer"], second["answer"]) == ("🙂", "42", "0.5")


def test_bytes_that_are_not_utf_8_are_named(tmp_path):
    own = jsonl(tmp_path, '{"id": "a", "text": "x"}', '{"id": "b", "text": "y"}')
    path = tmp_path / "own.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"y"', b'"\xe9"'))
    with pytest.raises(UserError, match=r"own.jsonl:2: byte 22 of the line \(0xe9\) is not UTF-8"):
        prompts.collect(own, 0, 1)


HUB = {
    "domain": "gsm",
    "source": "hub",
    "repository": "someone/data",
    "revision": "main",
    "file": "main/test.parquet",
    "text_field": "question",
    "answer_field": "answer",
    "answer_pattern": r"####\s*(.+)",
    "evaluation": [0, 3],
}
ROWS = [{"question": f"q{i}", "answer": f"so it is\n#### {i},000", "more": i} for i in range(3)]


def test_hub_files_are_read_without_their_library(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "test.parquet")
    (tmp_path / "test.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS))
    read = [
        hub.read_file(HUB, tmp_path / f"test.{kind}", 1, 3, "c" * 40)
        for kind in ("parquet", "jsonl")
    ]
    assert read[0] == read[1]
    assert [(item.prompt_id, item.text, item.answer) for item in read[0]] == [
        ("gsm-000001", "q1", "1,000"),
        ("gsm-000002", "q2", "2,000"),
    ]
    assert read[0][0].source_row == f"someone/data@{'c' * 40}:main/test.parquet:1"
    for kind in ("parquet", "jsonl"):
        with pytest.raises(UserError, match=r"no field 'problem'.*question"):
            hub.read_file(HUB | {"text_field": "problem"}, tmp_path / f"test.{kind}", 0, 1, "x")


def test_case_72_hub_data_comes_from_a_filled_cache(tmp_path, monkeypatch):
    from huggingface_hub import constants

    commit = "d" * 40
    repository = tmp_path / "datasets--someone--data"
    snapshot = repository / "snapshots" / commit / "main"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    pq.write_table(pa.Table.from_pylist(ROWS), snapshot / "test.parquet")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    rows = prompts.collect(HUB, 0, 3)
    assert [row["text"] for row in rows] == ["q0", "q1", "q2"]
    assert commit in rows[0]["source_row"]
    with pytest.raises(UserError, match=r"other\.parquet.*HF_ENDPOINT.*HF_HOME"):
        prompts.collect(HUB | {"file": "other.parquet"}, 0, 1)


def test_case_20_an_instruction_makes_no_prompt_of_an_empty_item(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "a", "text": " "}\n{"id": "b", "text": "x"}\n', encoding="utf-8")
    settings = {"domain": "d", "source": "jsonl", "file": str(path), "evaluation": [0, 2]}
    rows = prompts.collect(settings | {"instruction": "Answer: {problem}"}, 0, 2)
    assert [row["text"] for row in rows] == [" ", "Answer: x"]
