"""A file is there as a whole or not at all: kills, faults, a full disk, two writers of one name."""

import contextlib
import errno
import json
import multiprocessing
import os
import resource
import signal
import time

import pytest
from draftscope import records, writing
from draftscope.errors import UserError


def _write_forever(path: str) -> None:
    value = 0
    while True:
        writing.write_json(path, {"value": value, "filling": "x" * 200_000})
        value += 1


def test_case_63_a_kill_never_leaves_a_half_file(tmp_path):
    path = tmp_path / "x.json"
    context = multiprocessing.get_context("fork")
    for pause in (0.05, 0.11, 0.17):
        process = context.Process(target=_write_forever, args=(str(path),))
        process.start()
        time.sleep(pause)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        if path.exists():
            assert len(json.loads(path.read_text())["filling"]) == 200_000
    assert path.exists()
    assert all(rest.suffix in (".json", writing.UNFINISHED) for rest in tmp_path.iterdir())


def test_an_exception_inside_the_block_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.txt"
    with writing.atomic(path) as file:
        file.write("old")
    with pytest.raises(RuntimeError), writing.atomic(path) as file:
        file.write("half of the n")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


def test_a_pipe_or_device_is_not_replaced_and_a_link_stays_a_link(tmp_path):
    """Made beside the test: with enough rights /dev/null itself would become a file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    for name in ("pipe", "to pipe"):
        with (
            pytest.raises(UserError, match=f"{name} is a pipe or a device, which"),
            writing.atomic(tmp_path / name) as file,
        ):
            file.write("x")
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "to pipe").is_symlink()
    (tmp_path / "elsewhere").mkdir()
    for name in ("a file", "nothing yet"):
        there, link = tmp_path / "elsewhere" / name, tmp_path / f"to {name}"
        link.symlink_to(there)
        if name == "a file":
            there.write_text("old")
        with writing.atomic(link) as file:
            file.write("new")
        assert link.is_symlink() and there.read_text() == "new"


def test_two_writers_of_one_file_do_each_other_no_harm(tmp_path):
    path = tmp_path / "x.txt"
    with writing.atomic(path) as slow:
        slow.write("the same ")
        with writing.atomic(path) as fast:
            fast.write("the same text")
        assert path.read_text() == "the same text"
        slow.write("text")
    assert path.read_text() == "the same text"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


@contextlib.contextmanager
def room_for(size: int):
    """No file can grow beyond so many bytes; the system says so in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_file_that_does_not_fit_is_named_in_one_line_and_nothing_is_left(tmp_path, kind):
    path = tmp_path / f"shard.{kind}"
    path.write_text("old")
    with pytest.raises(UserError) as refused, room_for(2000):
        if kind == "json":
            writing.write_json(path, list(range(10_000)))
        else:
            rows = [{"prompt_id": str(n), "sample": n, **LOOP} for n in range(10_000)]
            records.write(path, rows, "loops", {})
    assert str(refused.value).startswith(f"{path} could not be written: file too large; make room")
    assert "\n" not in str(refused.value)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


LOOP = {
    "tokens": 3,
    "looped": False,
    "onset": None,
    "period": None,
    "repeats": None,
    "kind": None,
    "loop_problem": False,
}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_told_from_other_faults(tmp_path, monkeypatch, call):
    def fails_with(number):
        def fail(*_, **__):
            raise OSError(number, os.strerror(number))

        return fail

    monkeypatch.setattr(os, call, fails_with(errno.ENOSPC))
    with pytest.raises(UserError, match="x.json could not be written: no space left on device"):
        writing.write_json(tmp_path / "x.json", 1)
    monkeypatch.setattr(os, call, fails_with(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        writing.write_json(tmp_path / "x.json", 1)
    assert list(tmp_path.iterdir()) == []


def test_case_63_a_folder_appears_whole_and_takes_the_place_of_the_old_one(tmp_path):
    final = tmp_path / "weights"
    (tmp_path / ".weights.making-old").mkdir()  # left by a killed run
    for content in ("first", "second"):
        with writing.whole_folder(final) as folder:
            assert not folder.exists() and folder.name == "weights"
            (folder / "inner").mkdir(parents=True)
            (folder / "inner" / "x").write_text(content)
            (folder / "inner" / "x").chmod(0o600)
            folder.with_name("scratch").write_text("")
            assert content == "first" or (final / "inner" / "x").read_text() == "first"
        assert (final / "inner" / "x").read_text() == content
        assert list(tmp_path.iterdir()) == [final]
    (tmp_path / "ordinary").write_text("")
    mode = (tmp_path / "ordinary").stat().st_mode
    assert (final / "inner" / "x").stat().st_mode == mode


def test_case_63_a_fault_leaves_the_old_folder_and_nothing_else(tmp_path):
    final = tmp_path / "weights"
    with writing.whole_folder(final) as folder:
        folder.mkdir()
        (folder / "x").write_text("old")
    with pytest.raises(MemoryError), writing.whole_folder(final) as folder:
        folder.mkdir()
        (folder / "x").write_text("half")
        raise MemoryError
    assert (final / "x").read_text() == "old" and list(tmp_path.iterdir()) == [final]
