"""The record of a run: a line of JSON for each event, so that a killed run can be resumed.

    {"record": 1, "run": …, "resumes": …}      the run has begun
    {"begun": NAME, "run": …, "place": …}      a table is about to be merged, with this run ID
    {"ended": {…}, "place": …}                 the result of a table

The record does not define the data: only a manifest shows that an output exists, and which run made it. A line that was
cut short by a kill is ignored. The kernel keeps the file locked while the run lives.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from mutator.errors import error
from mutator.workflow.many_tables.summary import TableResult

_FORMAT = 1


@dataclass
class Past:
    """The runs that a record describes."""

    run: str | None = None  # the latest run; None: no record exists
    began: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # table and path -> run IDs
    ended: dict[tuple[str, str], TableResult] = field(default_factory=dict)  # the latest result


class EventRecord:
    """The record of the present run."""

    def __init__(self, path: str, stream: BinaryIO, past: Past) -> None:
        self._path, self._stream = path, stream
        self.past = past

    def run(self, run: str) -> None:
        """Note that a run has begun."""
        self._write({"record": _FORMAT, "run": run, "resumes": self.past.run})

    def begun(self, table: str, place: str, run: str | None) -> None:
        """Note, durably, that a table is about to be merged."""
        self._write({"begun": table, "place": place, "run": run})
        os.fdatasync(self._stream.fileno())  # before its output can exist

    def ended(self, result: TableResult, place: str) -> None:
        """Note the result of a table."""
        self._write({"ended": asdict(result), "place": place})

    def _write(self, line: dict[str, Any]) -> None:
        try:
            # One call that appends, so that lines of several threads do not mix.
            os.write(self._stream.fileno(), json.dumps(line).encode("ascii") + b"\n")
        except OSError as fault:
            raise error("storage", path=self._path, why=fault.strerror or fault) from None


@contextmanager
def recording(path: str, run: str, resume: bool) -> Iterator[EventRecord]:
    """Open and lock the record of a run within the ``with`` block. resume: continue the existing record.

    Raises StateError if another run has it, ConfigError if there is no run to resume.
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
        # Earlier lines stay, also for a later resume: an output belongs to this record if its manifest names a run in
        # it. The last line may have been cut short by a kill.
        stream.write(b"\n")
        record = EventRecord(path, stream, past)
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
                result = TableResult.parse(found["ended"])
                past.ended[result.table, found["place"]] = result
        except (ValueError, TypeError, KeyError):
            continue  # cut short by a kill: the manifest decides
    if past.run is None:
        raise error("many.nothing", path=path)
    return past
