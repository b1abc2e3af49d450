"""What is wrong with a file of an engine is said in one line: file, line, field, what is right."""

import gzip
import json
import logging
import subprocess
import sys
from pathlib import Path

import engine_logs as logs
import jsonschema
import pytest
from draftscope.engines import neutral
from draftscope.engines.fields import Object
from draftscope.engines.importing import BY_REQUEST, import_requests
from draftscope.engines.options import Options
from draftscope.engines.validating import validate
from draftscope.errors import UserError
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = [(3, 1, 2), (3, 3, 4)]
LINE = logs.neutral("a", ROUNDS, 3)
SCHEMA = json.loads((ROOT / "config/rounds.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def vllm(**changes):
    return logs.vllm("a", ROUNDS, 3, **changes)


def sglang(**changes):
    return logs.sglang("a", ROUNDS, 3, **changes)


def read(path, format="jsonl", options=Options(), **more):  # noqa: B008 (frozen)
    return import_requests(format, [path], options, **more).rows


FAULTS = [
    # Engine-neutral lines.
    ("jsonl", LINE | {"accepted": [4, 3]}, r"accepted\[0\] is 4, but offered\[0\] is 3;.*nearest: 3"),
    ("jsonl", LINE | {"accepted": [-1, 3]}, r"accepted\[0\] is -1; .*from 0 to 32767; nearest: 0"),
    ("jsonl", LINE | {"accepted": [1.4, 3]}, r"accepted\[0\] is 1.4; .*nearest: 1"),
    ("jsonl", LINE | {"accepted": ["1", 3]}, r"accepted\[0\] is '1'; .*nearest: 1"),
    ("jsonl", LINE | {"accepted": [True, 3]}, r"accepted\[0\] is True; it must be a whole number"),
    ("jsonl", LINE | {"accepted": [float("nan"), 3]}, r"accepted\[0\] is nan; it must be a whole"),
    ("jsonl", LINE | {"accepted": 3}, r"accepted is 3; it must be a list of whole numbers"),
    ("jsonl", LINE | {"accepted": [1]}, r"offered has 2 elements and accepted 1"),
    ("jsonl", LINE | {"offered": [3, 4]}, r"offered\[1\] has 4 tokens in a round, but draft_length is"),
    ("jsonl", LINE | {"emitted": [3, 4]}, r"emitted\[0\] is 3, but a round emits .*nearest: 2"),
    ("jsonl", LINE | {"acepted": [1]}, r"acepted is no field of this format; did you mean accepted\?"),
    ("jsonl", LINE | {"prompt_id": ""}, r"prompt_id is ''; it must be a text"),
    ("jsonl", LINE | {"prompt_id": 7}, r"prompt_id is 7; it must be a text"),
    ("jsonl", LINE | {"sample": -1}, r"sample is -1; .*nearest: 0"),
    ("jsonl", LINE | {"draft_length": 0}, r"draft_length is 0; .*nearest: 1"),
    ("jsonl", LINE | {"stop": "length"}, r"stop is 'length'; it must be eos or budget"),
    ("jsonl", LINE | {"rounds": 3}, r"rounds is 3, but the rounds add up to 2; nearest: 2"),
    ("jsonl", LINE | {"accepted_total": 3}, r"accepted_total is 3, but the rounds add up to 4"),
    ("jsonl", {"prompt_id": "a", "rounds": None, "tokens": 3}, r"rounds is missing"),
    ("jsonl", {"prompt_id": "a", "rounds": 2, "draft_length": 3, "accepted_total": 7},
     r"accepted_total is 7, more than 2 rounds of 3 drafts; at most 6"),
    ("jsonl", {"prompt_id": "a", "rounds": 2, "accepted_total": 5, "offered_total": 4},
     r"accepted_total is 5, but offered_total is 4"),
    ("jsonl", {"prompt_id": "a", "rounds": 2, "accepted_total": 1, "emitted_total": 4},
     r"emitted_total is 4; 2 rounds that accepted 1 drafts emit 1 to 3 tokens; nearest: 3"),
    ("jsonl", {"prompt_id": "a", "rounds": 1, "offered": [3]}, r"accepted is missing beside offered"),
    ("jsonl", LINE | {"tokens": 1}, r"tokens is 1, but the rounds emitted 6 tokens.*nearest: 6"),
    ("jsonl", LINE | {"offered": [3, 0], "accepted": [1, 0], "emitted": [2, 1],
                      "rounds_without_drafts": "omitted"}, r"is omitted, but offered holds a 0"),
    ("jsonl", {"prompt_id": "a", "rounds": 2**63 - 1},
     r"rounds is 9223372036854775807; .*from 0 to 1099511627776; nearest: 1099511627776"),
    ("jsonl", {"prompt_id": "a", "accepted": [4, 3], "count": [2**40, 1]}, r"adds up to .*more than"),
    ("jsonl", {"prompt_id": "a", "accepted": [9], "count": [2**40]}, r"adds up to .*more than"),
    # vLLM.
    ("vllm", vllm(num_spec_steps=-2), r"speculative_decoding.num_spec_steps is -2; .*nearest: 0"),
    ("vllm", vllm(num_spec_steps=3), r"num_spec_steps is 3, but the rounds add up to 2"),
    ("vllm", vllm(num_draft_tokens=3), r"num_draft_tokens is 3, but the rounds add up to 6"),
    ("vllm", vllm(per_step_accepted=[1, 4]), r"per_step_accepted\[1\] is 4, but per_step_drafted\[1\]"),
    ("vllm", vllm(per_step_accepted=[2, 3], num_accepted_draft_tokens=5),
     r"acceptance_histogram\[1\] is 1, but 0 rounds of per_step_accepted accepted 1"),
    ("vllm", vllm(acceptance_histogram=[0, float("nan"), 1]), r"acceptance_histogram\[1\] is nan"),
    ("vllm", vllm(acceptance_histogram={"x": 1}), r"acceptance_histogram has the key 'x'; keys are"),
    ("vllm", vllm(per_step_accepted=None, acceptance_histogram=[0, 1, 0, 0, 1]),
     r"acceptance_histogram has 4 tokens in a round, but num_spec_tokens is 3"),
    # SGLang.
    ("sglang", sglang(spec_verify_ct=3), r"meta_info.spec_verify_ct is 3, but the rounds add up to 2"),
    ("sglang", sglang(spec_num_correct_drafts=7), r"spec_num_correct_drafts is 7, but the rounds add"),
    ("sglang", sglang(spec_verify_ct="2"), r"spec_verify_ct is '2'; .*nearest: 2"),
    # AIPerf.
    ("aiperf", logs.aiperf("a", ROUNDS, 3, num_spec_steps=5), r"spec_decode_acceptance.num_spec_steps"),
    # Formats that were taken for others, and files with nothing to read.
    ("vllm", sglang(), r":1 is not of format vllm; try --format sglang"),
    ("sglang", vllm(), r"try --format vllm"),
    ("jsonl", logs.aiperf("a", ROUNDS, 3), r"try --format aiperf"),
    ("aiperf", LINE, r"try --format jsonl"),
    ("vllm", {"id": "a", "choices": []}, r"holds no request with metrics.speculative_decoding; start"),
    ("sglang", {"meta_info": {"id": "a"}}, r"holds no request with meta_info.spec_verify_ct; launch"),
    ("vllm", vllm(num_spec_tokens=0), r"num_spec_tokens is 0; .*nearest: 1"),
    ("vllm", {"prompt_id": "a", "choices": 1, "metrics": []}, r"holds no request with metrics.spec"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("format", "line", "message"), FAULTS, ids=[f"{n}-{one[0]}" for n, one in enumerate(FAULTS)]
)
def test_a_fault_names_file_line_and_field(tmp_path, format, line, message):
    path = logs.jsonl(tmp_path / "x.jsonl", [line])
    with pytest.raises(UserError, match=rf"x\.jsonl.*{message}") as error:
        read(path, format)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400 + len(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: it holds no JSON object"),
        (b"\n \n", "is empty"),
        (b'{"prompt_id": "a", "accepted": [1], "accepted": [2]}', "key 'accepted' stands twice"),
        (b'{"prompt_id": "a", "accepted": [1],}', "x.jsonl:1: not valid JSON"),
        (b"[]", "is empty|no request"),
        (b"PAR1....", "is Parquet; expected JSON"),
        (b"PK\x03\x04...", "is a zip archive"),
        (b"prompt,accepted\na,1\n", "x.jsonl:1: not valid JSON .*expected one JSON object a line"),
        (b'"text"\n', "x.jsonl:1: expected a JSON object, found str"),
        (b"# HELP vllm:spec_decode_num_drafts x\n", "counters of a server.*--format vllm-counters"),
        (b'{"prompt_id": "\xff", "accepted": [1]}\n', "byte 16 of the line .0xff. is not UTF-8"),
        (gzip.compress(mtime=0, data=b'{"prompt_id": "a", "accepted": [1]}\n')[:-9], "gzip, but damaged or cut"),
    ],
)  # fmt: skip
def test_files_that_are_no_json_lines(tmp_path, content, message):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(path)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(UserError, match="x does not exist"):
        read(tmp_path / "x")
    with pytest.raises(UserError, match="is a folder"):
        read(tmp_path)


def test_gzip_a_byte_order_mark_and_one_value_over_several_lines_are_read(tmp_path):
    text = json.dumps(LINE).encode()
    for name, content in (
        ("gz", gzip.compress(text + b"\n")),
        ("bom", b"\xef\xbb\xbf" + text + b"\r\n"),
        ("list", json.dumps([LINE], indent=2).encode()),
        ("object", json.dumps(LINE, indent=2).encode()),
    ):
        (tmp_path / name).write_bytes(content)
        (row,) = read(tmp_path / name)
        assert (row["accepted"], row["offered"]) == ((1, 3), (3, 3)), name


def test_case_63_a_torn_last_line_is_dropped_and_said_but_one_in_the_middle_stops(tmp_path, caplog):
    torn, whole = json.dumps(LINE)[:-9], json.dumps(LINE | {"prompt_id": "b"})
    with caplog.at_level(logging.WARNING):
        assert len(read(logs.jsonl(tmp_path / "x.jsonl", [whole, torn], end=""))) == 1
    assert "x.jsonl:2: dropped a torn last line" in caplog.text
    with pytest.raises(UserError, match="x.jsonl:1: not valid JSON"):
        read(logs.jsonl(tmp_path / "x.jsonl", [torn, whole]))


def test_what_stands_twice_is_refused(tmp_path):
    with pytest.raises(UserError, match="x.jsonl:2: prompt a, sample 0 also stands in .*jsonl:1"):
        read(logs.jsonl(tmp_path / "x.jsonl", [LINE, LINE]))
    with pytest.raises(UserError, match="2: request chatcmpl-a also stands in .*jsonl:1"):
        read(logs.jsonl(tmp_path / "x.jsonl", [vllm(), vllm()]), "vllm")
    lines = [vllm(), vllm()]
    lines[1]["response"]["id"] = "another"
    rows = read(logs.jsonl(tmp_path / "x.jsonl", lines), "vllm")
    assert [(row["prompt_id"], row["sample"]) for row in rows] == [("a", 0), ("a", 1)]


def test_requests_without_the_name_of_a_prompt_are_said_to_be_units_of_their_own(tmp_path, caplog):
    line = vllm()
    del line["prompt_id"]
    with caplog.at_level(logging.WARNING):
        (row,) = read(logs.jsonl(tmp_path / "x.jsonl", [line]), "vllm")
    assert row["prompt_id"] == "chatcmpl-a" and "--prompt-id" in caplog.text
    line["row"] = {"number": 7}
    (row,) = read(logs.jsonl(tmp_path / "x.jsonl", [line]), "vllm", Options("row.number"))
    assert row["prompt_id"] == "7"
    with pytest.raises(UserError, match="x.jsonl:1: row.name is missing; --prompt-id"):
        read(logs.jsonl(tmp_path / "x.jsonl", [line]), "vllm", Options("row.name"))


def test_counters_that_fell_contradict_or_are_not_there(tmp_path):
    few, many = (logs.counters(logs.draw(prompts=n), 4) for n in (2, 4))
    for name, text in (("few", few), ("many", many)):
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match="below that of .*many; the server was started anew"):
        read(tmp_path / "few", "vllm-counters", since=tmp_path / "many")
    (tmp_path / "odd").write_text(few.replace('position="3"', 'position="0"'))
    with pytest.raises(UserError, match="more than 53 rounds of 3 drafts"):
        read(tmp_path / "odd", "vllm-counters")
    (tmp_path / "odd").write_text(few.replace('position="3"} ', 'position="3"} 5'))
    with pytest.raises(UserError, match="no position can count more than the one before"):
        read(tmp_path / "odd", "vllm-counters")
    (tmp_path / "nan").write_text(few.replace("num_drafts_total", 'num_drafts_total{a="b"} NaN\nx'))
    with pytest.raises(UserError, match="is NaN; a counter is a whole number"):
        read(tmp_path / "nan", "vllm-counters")
    (tmp_path / "other").write_text("up 1\n")
    with pytest.raises(UserError, match="other holds no counter vllm:spec_decode_num_"):
        read(tmp_path / "other", "vllm-counters")


# ------------------------------------------------------------------- validator and JSON Schema


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, f"scripts/{script}", *map(str, arguments)],
        *(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_and_the_validator_as_a_command(tmp_path):
    good = run("validate_rounds.py", "config/rounds.example.jsonl")
    assert good.returncode == 0, good.stderr
    assert good.stdout == "4 requests, 18 rounds, 0 faults\n"
    lines = [LINE, LINE | {"accepted": [4, 3]}, "{", LINE, LINE | {"stop": 1, "sample": 1}]
    bad = run("validate_rounds.py", logs.jsonl(tmp_path / "x.jsonl", lines))
    assert bad.returncode == 2
    assert [line.split(": ")[0].rsplit(":", 1)[1] for line in bad.stdout.splitlines()[:-1]] == [
        *("2", "3", "4", "5")
    ]
    assert bad.stdout.endswith("1 requests, 2 rounds, 4 faults\n")
    assert len(bad.stderr.strip().splitlines()) == 1 and bad.stderr.startswith("error: 4 faults")


def test_the_example_follows_the_schema_and_shows_each_field():
    text = (ROOT / "config/rounds.example.jsonl").read_text(encoding="utf-8")
    shown = set()
    for line in text.splitlines():
        VALIDATOR.validate(json.loads(line))
        shown |= set(json.loads(line))
    assert set(SCHEMA["properties"]) == set(neutral.FIELDS)
    assert shown <= set(neutral.FIELDS) and {"accepted", "count", "stop"} <= shown
    assert not validate([ROOT / "config/rounds.example.jsonl"]).faults


def accepted(line):
    try:
        list(neutral.requests(Object("x:1", line), Options()))
    except UserError as error:
        return str(error)
    return None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from([2**31, 2**40, 1.0, 1.5, "", "a"])
    | st.sampled_from(["eos", "budget", "included", "omitted"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=1),
    max_leaves=4,
)  # fmt: skip
# Faults that no JSON Schema of one object can state: they are about several fields at once.
TOGETHER = ("elements and", ", but ", "more than", "tokens in a round", "rounds that accepted")


@settings(max_examples=300)
@given(
    st.dictionaries(st.sampled_from([*neutral.FIELDS, "offred"]), VALUES, max_size=5), st.booleans()
)
def test_schema_and_validator_agree_on_every_field(line, complete):
    line = (LINE | line) if complete else line
    said, valid = accepted(line), VALIDATOR.is_valid(line)
    if said is None:
        assert valid, line
    elif not any(mark in said for mark in TOGETHER):
        assert not valid, (line, said)


@pytest.mark.parametrize(
    "fault", [one for one in FAULTS if one[0] == "jsonl" and "prompt_id" in one[1]]
)
def test_the_schema_alone_sees_faults_of_single_fields(fault):
    _, line, _ = fault
    said = accepted(line)
    line = json.loads(json.dumps(line).replace("NaN", "1.5"))
    assert VALIDATOR.is_valid(line) == any(mark in said for mark in TOGETHER), said


WHOLE_LINES = {
    "vllm": vllm(),
    "sglang": sglang(),
    "aiperf": logs.aiperf("a", ROUNDS, 3),
    "jsonl": LINE,
}


def places(value, path=()):
    """Every place inside a JSON value."""
    yield path
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, one in inside:
        yield from places(one, (*path, key))


@settings(max_examples=200)
@given(st.sampled_from(sorted(WHOLE_LINES)), st.data())
def test_any_value_anywhere_is_read_or_refused_in_one_line(format, data):
    line = json.loads(json.dumps(WHOLE_LINES[format]))
    *path, last = data.draw(st.sampled_from([one for one in places(line) if one]))
    holder = line
    for key in path:
        holder = holder[key]
    holder[last] = data.draw(VALUES | st.sampled_from([float("nan"), float("inf"), -1, 10**30]))
    try:
        requests = list(BY_REQUEST[format].requests(Object("x:1", line), Options()))
    except UserError as error:
        assert "\n" not in str(error) and str(error).startswith("x:1: ")
    else:
        for request in requests:
            request.row(0)
            assert request.accepted_total is None or request.accepted_total >= 0


def test_a_draft_length_that_the_file_contradicts_is_refused(tmp_path):
    for format, line in (("jsonl", LINE), ("vllm", vllm())):
        path = logs.jsonl(tmp_path / "x.jsonl", [line])
        assert read(path, format, Options(draft_length=3))[0]["draft_length"] == 3
        with pytest.raises(UserError, match="is 3, but --draft-length is 5; leave the option out"):
            read(path, format, Options(draft_length=5))


def test_the_lines_in_the_manual_are_of_the_format():
    text = (ROOT / "config/README.md").read_text(encoding="utf-8")
    part = text.split("### The engine-neutral format")[1].split("## Prompts of your own")[0]
    lines = part.split("```json")[1].split("```")[0].strip().splitlines()
    assert len(lines) == 3 and not any(accepted(json.loads(line)) for line in lines)
    for field in neutral.FIELDS:
        assert f"`{field}`" in part, field


def test_a_wrong_format_on_the_command_line_is_one_line_and_exit_status_2(tmp_path):
    path = logs.jsonl(tmp_path / "x.jsonl", [sglang()])
    found = run("import_rounds.py", path, "--format", "vllm", "--output", tmp_path / "o.parquet")
    assert found.returncode == 2 and not (tmp_path / "o.parquet").exists()
    assert found.stderr == f"error: {path}:1 is not of format vllm; try --format sglang\n"


def test_a_number_of_faults_below_zero_is_refused(call):
    with pytest.raises(UserError, match="--most is -3; it must be at least 0"):
        call("validate_rounds.py", ROOT / "config/rounds.example.jsonl", "--most", "-3")
