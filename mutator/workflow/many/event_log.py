"""The record of a run: a line of JSON for each thing that happened, so that a run that was killed can be resumed.

    {"record": 1, "run": …, "resumes": …}      the run was begun
    {"begun": NAME, "run": …, "place": …}      a table is about to be merged, under this run id
    {"ended": {…}, "place": …}                 what became of it

It is no truth about the data: whether an output is there, and which run made it, its manifest says. A line that a kill
has cut short is no line. The file is locked for as long as the run lives, by the kernel.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from mutator.errors import error
from mutator.workflow.many.summary import Result

__all__ = ["Past", "Record", "recording"]

_FORMAT = 1


@dataclass
class Past:
    """What the record says of the runs before."""

    run: str | None = None  # the latest; None: there is no record
    began: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # table and place -> run ids
    ended: dict[tuple[str, str], Result] = field(default_factory=dict)  # the latest result


class Record:
    """The record of the run that is under way."""

    def __init__(self, path: str, stream: BinaryIO, past: Past) -> None:
        self._path, self._stream = path, stream
        self.past = past

    def run(self, run: str) -> None:
        """Write down that a run has begun."""
        self._write({"record": _FORMAT, "run": run, "resumes": self.past.run})

    def begun(self, table: str, place: str, run: str | None) -> None:
        """Write down that a table is about to be merged; durable when it returns."""
        self._write({"begun": table, "place": place, "run": run})
        os.fdatasync(self._stream.fileno())  # before its output can be there

    def ended(self, result: Result, place: str) -> None:
        """Write down what became of a table."""
        self._write({"ended": asdict(result), "place": place})

    def _write(self, line: dict[str, Any]) -> None:
        try:
            # One call, at the end of the file: lines of several threads do not mix.
            os.write(self._stream.fileno(), json.dumps(line).encode("ascii") + b"\n")
        except OSError as fault:
            raise error("storage", path=self._path, why=fault.strerror or fault) from None


@contextmanager
def recording(path: str, run: str, resume: bool) -> Iterator[Record]:
    """Hold the record of a run inside of the ``with`` block. resume: go on with the one that is there.

    Raises StateError where another run has it, ConfigError where there is none to resume.
    """
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        stream = open(path, "a+b", buffering=0)  # noqa: SIM115  # it is closed below
    except OSError as fault:
        raise error("storage", path=path, why=fault.strerror or fault) from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise error("many.busy", path=path) from None
        past = Past()
        if resume:
            stream.seek(0)
            past = _parsed(path, stream.read())
        # What runs before have made stays known, also to who resumes later: an output is ours if its manifest has a run
        # that stands here. A kill may have cut the last line short.
        stream.write(b"\n")
        record = Record(path, stream, past)
        record.run(run)
        yield record


def _parsed(path: str, data: bytes) -> Past:
    past = Past()
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise ValueError("no object")
            if "record" in found:
                if found["record"] != _FORMAT:
                    raise error("many.record", path=path, why=f"line {number} has format {found['record']}")
                past.run = found["run"]
            elif "begun" in found:
                past.began.setdefault((found["begun"], found["place"]), set()).add(found["run"])
            elif "ended" in found:
                result = Result.parse(found["ended"])
                past.ended[result.table, found["place"]] = result
        except (ValueError, TypeError, KeyError):
            continue  # cut short by a kill: then nothing is known, and the manifest decides
    if past.run is None:
        raise error("many.nothing", path=path)
    return past
