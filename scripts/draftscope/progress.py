"""Progress of long jobs: a bar on a terminal, plain lines in a log file."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

LOG_INTERVAL = 15.0  # seconds between lines in a log; a log is read after the fact, not watched


@contextmanager
def progress(total: int, description: str, unit: str = "token") -> Iterator[Bar | Lines]:
    """Report progress towards `total` units while the block runs.

    The object has `update(n)` for n units done and `drop(n)` for n units that will not come
    (a text that ended before its budget), which lowers the total. On a terminal it is a tqdm bar
    with rate and time left; elsewhere a log line at most every `LOG_INTERVAL` seconds and a
    closing one. `note(words)` puts what was measured last behind either.
    """
    reporter = (
        Bar(total, description, unit) if sys.stderr.isatty() else Lines(total, description, unit)
    )
    try:
        yield reporter
    finally:
        reporter.close()


class Bar:
    """A tqdm bar."""

    def __init__(self, total: int, description: str, unit: str) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=total, desc=description, unit=f" {unit}s", dynamic_ncols=True)

    def update(self, count: int) -> None:
        self._bar.update(count)

    def drop(self, count: int) -> None:
        self._bar.total -= count
        self._bar.refresh()

    def note(self, words: str) -> None:
        self._bar.set_postfix_str(words)

    def close(self) -> None:
        self._bar.close()


class Lines:
    """Log lines, at most one every `LOG_INTERVAL` seconds."""

    def __init__(
        self, total: int, description: str, unit: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total, self.done = total, 0
        self._description, self._unit, self._clock = description, unit, clock
        self._started = self._last = clock()
        self._note = ""

    def update(self, count: int) -> None:
        self.done += count
        now = self._clock()
        if now - self._last >= LOG_INTERVAL:
            self._last = now
            rate = self.done / (now - self._started)
            left = _duration(max(self.total - self.done, 0) / rate) if self.done else "unknown"
            share = f"{100 * self.done / self.total:.0f}%, " if self.total else ""
            log.info(
                "%s: %d of %d %ss (%s%.1f a second, %s left)%s",
                *(self._description, self.done, self.total, self._unit, share, rate, left),
                self._note,
            )

    def drop(self, count: int) -> None:
        self.total -= count

    def note(self, words: str) -> None:
        self._note = f"; {words}"

    def close(self) -> None:
        seconds = self._clock() - self._started
        rate = f", {self.done / seconds:.1f} a second" if seconds > 0 else ""
        log.info(
            "%s: %d of %d %ss in %s%s",
            *(self._description, self.done, self.total, self._unit, _duration(seconds), rate),
        )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
