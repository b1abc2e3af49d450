"""Nothing is lost without a word, and nothing counted twice."""

import json
import os

import engine_logs as logs
import pytest
from draftscope import jsonlines
from draftscope.engines.importing import import_requests
from draftscope.engines.options import Options
from draftscope.engines.validating import validate
from draftscope.errors import UserError

ROUNDS = [(3, 1, 2), (3, 3, 4)]
LINE = logs.neutral("a", ROUNDS, 3)
VLLM, SGLANG = logs.vllm("a", ROUNDS, 3), logs.sglang("a", ROUNDS, 3)


def read(path, format="jsonl"):
    return import_requests(format, [path], Options()).rows


@pytest.mark.parametrize("rest", ['{"a": 1,}', '{"a": 1, "a": 2}', '{"a": tru', '{"a": "x', "{"])
def test_what_is_wrong_with_a_last_line_is_a_fault_of_the_validator(tmp_path, rest):
    path = logs.jsonl(tmp_path / "x.jsonl", [json.dumps(LINE), rest], end="")
    (fault,) = validate([path]).faults
    assert fault.startswith(f"{path}:2: not valid JSON")


@pytest.mark.parametrize("at", range(1, 40))
def test_every_beginning_of_a_line_is_torn_and_no_other_line_is(at):
    line = '{"a": [true, null, -1], "b": "é\\u00e9"}'.encode()[:at]
    cut = line[-1:] == "é".encode()[:1]  # inside a character: no more can be said of the line
    for text, torn in ((line, True), (b"}" + line, cut), (line + b"\n", False)):
        with pytest.raises((ValueError, RecursionError)) as error:
            jsonlines.parse(text)
        assert jsonlines.is_torn(text, error.value) == torn, text


def test_nothing_is_counted_twice(tmp_path):
    path = logs.jsonl(tmp_path / "x.jsonl", [VLLM])
    for again in (path, path.parent / "." / path.name):
        with pytest.raises(UserError, match="x.jsonl is given twice"):
            import_requests("vllm", [path, again], Options())
    with pytest.raises(UserError, match="given twice"):
        validate([path, path])
    with pytest.raises(UserError, match="request chatcmpl-a also stands in"):
        (tmp_path / "list").write_text(json.dumps([VLLM, VLLM]))
        read(tmp_path / "list", "vllm")
    for name, prompts in (("early", 2), ("late", 4)):
        (tmp_path / name).write_text(logs.counters(logs.draw(prompts=prompts), 4))
    with pytest.raises(UserError, match="give one file, and the earlier one as --since"):
        import_requests("vllm-counters", [tmp_path / "early", tmp_path / "late"], Options())


def test_a_line_of_another_format_further_down_is_named(tmp_path):
    for format, line in (("vllm", VLLM), ("jsonl", LINE)):
        path = logs.jsonl(tmp_path / "x.jsonl", [line, SGLANG])
        with pytest.raises(UserError, match=f"jsonl:2 is not of format {format}; try --format sgl"):
            read(path, format)
    assert "try --format sglang" in validate([path]).faults[0]


def test_a_folder_and_a_pipe_are_no_input(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for format in ("jsonl", "vllm-counters"):
        with pytest.raises(UserError, match="pipe is no regular file"):
            read(tmp_path / "pipe", format)
        with pytest.raises(UserError, match="is a folder"):
            read(tmp_path, format)
