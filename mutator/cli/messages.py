"""The lines on stderr: errors, warnings, notices, and with --verbose the steps; in colours on a terminal."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from mutator.cli.progress_line import line_hidden
from mutator.errors.display import one_line
from mutator.errors.parts import plain

_BOLD_RED, _BOLD_YELLOW = "1;31", "1;33"


def is_coloured(stream: TextIO) -> bool:
    """Return whether text on a stream may have colours: https://no-color.org, https://force-color.org."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def error_line(program: str, text: object) -> str:
    """Return the line of an error, with its line feed. program: as the user called it."""
    return f"{program}: {_coloured('error:', _BOLD_RED)} {text}\n"


def print_error(text: object) -> None:
    """Print an error on stderr."""
    _print(error_line("mutator", text))


def notify(arguments: argparse.Namespace, text: str) -> None:
    """Print what is happening on stderr, unless the user wants quiet."""
    if not is_quiet(arguments):
        _print(f"mutator: {one_line(text)}\n")


def warn(arguments: argparse.Namespace, warnings: Iterable[str]) -> None:
    """Print warnings on stderr, each of them once: as soon as they are known, because the command may still fail."""
    printed: set[str] = vars(arguments).setdefault("printed_warnings", set())
    for warning in () if is_quiet(arguments) else map(plain, warnings):
        if warning not in printed:
            printed.add(warning)
            _print(f"mutator: {_coloured('warning:', _BOLD_YELLOW)} {one_line(warning)}\n")


def tell(arguments: argparse.Namespace, text: str) -> None:
    """Print on stderr what a command that goes on for long does: with the time of day, in a log with the date, too."""
    if not is_quiet(arguments):
        now = datetime.now(UTC)
        moment = f"{now.astimezone():%H:%M:%S}" if sys.stderr.isatty() else f"{now:%Y-%m-%dT%H:%M:%SZ}"
        _print(f"mutator: {moment}  {one_line(text)}\n")


def is_quiet(arguments: argparse.Namespace) -> bool:
    """Return whether to print errors only: with --quiet, or where stderr would end up in the JSON.

    spark-submit redirects stderr to stdout.
    """
    return arguments.quiet or (arguments.json and "PYSPARK_GATEWAY_PORT" in os.environ)


@contextmanager
def steps_on_stderr(arguments: argparse.Namespace) -> Iterator[None]:
    """Print what the package logs within the ``with`` block, if the user wants it."""
    if not arguments.verbose or is_quiet(arguments):
        yield
        return
    logger, handler = logging.getLogger("mutator"), _Steps()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _Steps(logging.Handler):
    """Prints each step with the seconds since the start, and since the step before."""

    def __init__(self) -> None:
        super().__init__()
        self._started = self._last = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Print one step."""
        now = time.monotonic()
        times = f"{now - self._started:7.2f} s {f'+{now - self._last:.2f}':>7}"
        self._last = now
        _print(f"mutator: {times}  {one_line(record.getMessage())}\n")


def _coloured(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if is_coloured(sys.stderr) else text


def _print(text: str) -> None:
    with line_hidden():
        sys.stderr.write(text)
        sys.stderr.flush()
