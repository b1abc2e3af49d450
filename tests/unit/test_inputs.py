"""Files that a user names: pipes are read as files are, and nothing is written over what is read."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import engine_logs as logs
import pytest
from compared_logs import two_drafts, write
from draftscope.errors import UserError
from draftscope.inputs import apart, regular

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
ROUNDS = [(3, 1, 2), (3, 3, 4)]
LINES = [logs.neutral(name, ROUNDS, 3) for name in "ab"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes are kept on Linux alone")


def run(*command: object, stdin: bytes = b"") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / str(command[0])), *map(str, command[1:])],
        input=stdin,
        capture_output=True,
        check=False,
    )


TEXT = "\n".join(map(json.dumps, LINES)).encode()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, TEXT) for name in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")),
        ("-", gzip.compress(TEXT)),
        ("-", json.dumps(LINES, indent=1).encode()),
    ],
)
def test_a_pipe_is_read_as_a_file(name, text):
    told = run("validate_rounds.py", name, stdin=text)
    assert told.stdout == b"2 requests, 4 rounds, 0 faults\n" and told.returncode == 0, told


def test_faults_of_a_pipe_are_named_by_what_the_user_called_it():
    told = run("validate_rounds.py", "-", stdin=b"\n{}\n")
    assert told.stdout.startswith(b"-:2: prompt_id is None") and told.returncode == 2
    told = run("validate_rounds.py", "-")
    assert told.stderr == b"error: 1 faults, first: - is empty: it holds no JSON object\n"
    told = run("validate_rounds.py", "-", "/dev/stdin", stdin=b"{}")
    assert told.stderr == b"error: a file is given twice; each request counts once\n"


def test_the_commands_of_a_pipeline_follow_each_other(tmp_path):
    pair = two_drafts()
    for name, drawn in zip("AB", pair, strict=True):
        write(tmp_path / name, drawn)
    lines = "\n".join(json.dumps(logs.vllm(p, r, 4)) for p, r in pair[0].items())
    told = run("import_rounds.py", "-", "--format", "vllm", "--output", tmp_path / "C",
               stdin=lines.encode())  # fmt: skip
    assert told.returncode == 0 and (tmp_path / "C").exists(), told.stderr
    told = run("compare.py", tmp_path / "A", "-", stdin=(tmp_path / "B").read_bytes())
    assert told.stdout.startswith(f"A: {tmp_path}/A, 24 prompts".encode()), told.stderr
    assert b"\nB: -, 24 prompts" in told.stdout
    words = (
        f"{sys.executable} {SCRIPTS}/round_measures.py <(cat '{tmp_path}/A') <(cat '{tmp_path}/B')"
    )
    told = subprocess.run(["bash", "-c", words], capture_output=True, check=True)
    assert told.stdout.count(b"acceptance_length  ") > 2


def test_what_is_nothing_says_so(tmp_path):
    with pytest.raises(UserError, match=r"^/dev/null is no regular file"):
        regular("/dev/null")
    with pytest.raises(UserError, match=r"^/dev/fd/987 does not exist"):
        regular("/dev/fd/987")


def test_an_output_that_is_an_input_is_refused_and_both_stay(tmp_path):
    path = logs.jsonl(tmp_path / "x.jsonl", LINES)
    (tmp_path / "link").symlink_to(path)
    before = path.read_bytes()
    for output in (path, tmp_path / "link"):
        told = run("import_rounds.py", path, "--format", "jsonl", "--output", output)
        assert told.stderr.decode().startswith(f"error: {output} is to be read and cannot be")
        assert path.read_bytes() == before
    apart(tmp_path / "other", [path])
