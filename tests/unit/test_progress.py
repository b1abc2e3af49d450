"""Progress bars and log lines."""

import logging

import pytest
from draftscope import progress as module
from draftscope.progress import Bar, Lines, progress


def test_log_lines_are_rare_and_name_rate_and_time_left(caplog):
    now = [0.0]
    lines = Lines(1000, "generating math", "token", clock=lambda: now[0])
    with caplog.at_level(logging.INFO):
        for _ in range(40):
            now[0] += 1.0
            lines.update(10)
        lines.close()
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "generating math: 150 of 1000 tokens (15%, 10.0 a second, 1:25 left)",
        "generating math: 300 of 1000 tokens (30%, 10.0 a second, 1:10 left)",
        "generating math: 400 of 1000 tokens in 0:40, 10.0 a second",
    ]


def test_units_that_will_not_come_lower_the_total(caplog):
    with caplog.at_level(logging.INFO), progress(10, "job", "row") as reporter:
        reporter.update(4)
        reporter.drop(6)
    assert "job: 4 of 4 rows" in caplog.text


def test_a_closing_line_comes_even_when_the_job_fails(caplog):
    with caplog.at_level(logging.INFO), pytest.raises(RuntimeError), progress(10, "job"):
        raise RuntimeError
    assert "job: 0 of 10 tokens" in caplog.text


def test_what_was_measured_last_stands_behind_the_progress(caplog):
    now = [0.0]
    lines = Lines(100, "training d", "token", clock=lambda: now[0])
    with caplog.at_level(logging.INFO):
        lines.note("acceptance length 1.133")
        for _ in range(2):
            now[0] += 20.0
            lines.update(20)
            lines.note("acceptance length 1.752")
    assert [record.getMessage().rpartition("; ")[2] for record in caplog.records] == [
        "acceptance length 1.133",
        "acceptance length 1.752",
    ]


def test_a_terminal_gets_a_bar_with_rate_and_time_left(monkeypatch, capsys):
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True, raising=False)
    with progress(10, "job") as reporter:
        assert isinstance(reporter, Bar)
        reporter.update(4)
        reporter.drop(5)
        reporter.update(1)
        reporter.note("acceptance length 1.752")
    shown = capsys.readouterr().err
    assert "job" in shown and "5/5" in shown and "tokens/s" in shown and "1.752" in shown
