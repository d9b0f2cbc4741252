"""The line on stderr that shows how far a command has come. It is rewritten in place, and only a terminal has it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

from mutator.storage.progress import Counts, ShownWork, shown_by

CHOICES = ("auto", "off")
_FIRST, _INTERVAL = 1.0, 0.25  # seconds until the line appears, and between two changes of it


class ProgressLine:
    """A line of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        """Show nothing yet."""
        self._stream = stream
        self._lock = threading.RLock()
        self._shown = 0  # columns of the line

    @contextmanager
    def show(self, work: ShownWork) -> Iterator[None]:
        """Show the progress of some work, and remove the line at the end of the ``with`` block."""
        stop = threading.Event()
        threading.Thread(target=self._draw, args=(work, stop), daemon=True).start()
        try:
            yield
        finally:
            stop.set()
            with self.hidden():
                pass

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the line for the time of the ``with`` block, which prints other lines."""
        with self._lock:
            if self._shown:
                self._put("\r" + " " * (self._shown + 2) + "\r")  # 2: the terminal shows a Ctrl-C as ^C
                self._shown = 0
            yield

    def _draw(self, work: ShownWork, stop: threading.Event) -> None:
        began = time.monotonic()
        seconds, counts, counted = _FIRST, Counts(), 0.0
        while not stop.wait(seconds):
            seconds = _INTERVAL
            passed = time.monotonic() - began
            if (done := work.done()) != counts:
                counts, counted = done, passed
            text = progress_text(work, done, passed, passed - counted)[: max(self._columns() - 3, 0)]
            with self._lock:
                if stop.is_set():
                    break
                self._put("\r" + text.ljust(self._shown))
                self._shown = max(len(text), self._shown)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._shown = 0  # the terminal has gone


def progress_text(work: ShownWork, done: Counts, seconds: float, still: float = 0) -> str:
    """Return the line after some seconds. still: for how many of them nothing more was done.

    Between reading and writing, rows are sorted: then the time that was left at the end of reading goes on to pass.
    """
    from mutator.pipeline.reports.sections import size_text, time_text  # only long work needs them

    share = work.share(done)
    parts = [f"{size_text(min(done.bytes, work.bytes))} of {size_text(work.bytes)} read"]
    parts += [f"{done.rows:,} rows"] if done.rows else []
    parts += [f"{done.written:,} written"] if work.rewritten and done.written else []
    if 0.02 < share < 1 and (left := (seconds - still) * (1 - share) / share - still) > 0:
        parts.append(f"{f'{left:.0f} s' if left < 120 else time_text(left)} left")
    return f"mutator: {', '.join(parts)}"


_line: ProgressLine | None = None


@contextmanager
def progress_on(stream: TextIO, *, is_wanted: bool) -> Iterator[None]:
    """Show the progress of long work within the ``with`` block, if the stream is a terminal."""
    global _line
    if not is_wanted or not stream.isatty():
        yield
        return
    _line = ProgressLine(stream)
    try:
        with shown_by(_line.show):
            yield
    finally:
        _line = None


def line_hidden() -> AbstractContextManager[None]:
    """Return a context in which other lines can be printed."""
    return nullcontext() if _line is None else _line.hidden()
