"""The result of each table and of the whole run: values, as text for a terminal and as JSON.

The record of a run: a line of JSON for each event, so that a killed run can be resumed.

    {"record": 1, "run": …, "resumes": …}      the run has begun
    {"begun": NAME, "run": …, "place": …}      a table is about to be merged, with this run ID
    {"ended": {…}, "place": …}                 the result of a table

The record does not define the data: only a manifest shows that an output exists, and which run made it. A line that was
cut short by a kill is ignored. The kernel keeps the file locked while the run lives.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, fields
from enum import StrEnum
from typing import Any, BinaryIO

from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.exceptions import SET_ASIDE_CODE
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.op_codes import shown_tables
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import Cut, ReportSection, TableBlock, said
from mutator.rules.truth_table import records_deleted
from mutator.workflow.many_tables.shared_feed import SharedFeed
from mutator.workflow.many_tables.tables_file import ListedTable, sharing

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
    if resume and not os.path.exists(path):  # a record without a run is not made
        _parsed(path, b"")
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


# Exit codes by priority: faults that need an operator come before those that only need another run.
_TELLING = (70, 4, 3, 2, 5, SET_ASIDE_CODE)
_AGAIN = 5
_WAITING = 5  # files that the text names
_COLUMNS = (
    ("rows", "output rows"),
    ("inserted", "feed inserted"),
    ("updated", "feed updated"),
    ("deleted", "feed deleted"),
)


class TableState(StrEnum):
    """The fate of a table, in the order of a summary."""

    DONE = "done"
    BEFORE = "done before"  # by the run that this one resumes
    FAILED = "failed"
    DEADLINE = "deadline"  # stopped: its time, or that of the run, was over
    STOPPED = "stopped"  # from outside, or with Spark
    LEFT = "left"  # it did not stop in time, and the process ended; a resumed run finds out
    NOT_BEGUN = "not begun"


@dataclass(frozen=True)
class TableResult:
    """The result of one table."""

    table: str
    state: TableState
    seconds: float | None = None  # None: it did not begin
    code: int = 0  # exit code that a run of this table alone would have had
    error: str | None = None
    kind: str | None = None  # error kind, from the catalogue
    run: str | None = None  # its run ID
    version: int | None = None  # new version of a base; None if there was nothing to merge
    report: Mapping[str, Any] | None = None  # of its merge
    set_aside: int = 0  # feed files of a base that cannot be merged
    warnings: Sequence[str] = ()  # of a run of a base, beside those of its report
    takes: str | None = None  # the table whose messages it takes

    @property
    def is_done(self) -> bool:
        """Whether the table needs no other run."""
        return self.state in (TableState.DONE, TableState.BEFORE)

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of its merge; empty without one."""
        return self.report["counts"] if self.report is not None else {}

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> TableResult:
        """Return a result from its JSON object. Raises KeyError, TypeError or ValueError."""
        known = {part.name for part in fields(cls)}
        members = {name: value for name, value in found.items() if name in known}
        return cls(**members | {"state": TableState(members["state"])})


@dataclass(frozen=True)
class Summary(PrintedReport):
    """The results of all tables of a run."""

    run: str
    tables: str  # path of the tables file
    resumes: str | None  # the run that is resumed
    at_once: int
    deadline: int | None  # seconds, for all
    results: tuple[TableResult, ...]  # in the order of the file
    seconds: float
    warnings: tuple[str, ...] = ()
    stopped: int | None = None  # the signal that stopped the run
    feeds: tuple[SharedFeed, ...] = ()
    other_tables: Mapping[str, int] = field(default_factory=dict)  # rows of feeds that no table takes, by table

    @property
    def undone(self) -> tuple[str, ...]:
        """The tables that need another run."""
        return tuple(one.table for one in self.results if not one.is_done)

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings of the run, and those of each table that it merged."""
        done = [one for one in self.results if one.state == TableState.DONE]
        texts = ((one.table, [*(one.report or {}).get("warnings", ()), *one.warnings]) for one in done)
        return (*self.warnings, *(f"{table}: {text}" for table, found in texts for text in found))

    @property
    def exit_code(self) -> int:
        """128 plus the signal that stopped the run; else the code of highest priority of the tables."""
        if self.stopped is not None:
            return 128 + self.stopped
        codes = {one.code or _AGAIN for one in self.results if not one.is_done}
        codes |= {one.code for one in self.results if one.state == TableState.DONE}
        return next((code for code in _TELLING if code in codes), 0)

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON, with an object for each table."""
        found = super().members()
        results = found.pop("results")
        totals = {"states": self._states(), "counts": self._counts(), "undone": self.undone}
        return {**found, "exit_code": self.exit_code, "totals": totals, "results": results}

    def sections(self) -> Iterable[ReportSection]:
        """Return a table with a row for each table, the totals, and what is left."""
        columns = [("table", ""), ("state", ""), *((name, "n") for name, _ in _COLUMNS), ("time", "n"), ("", "")]
        rows = [*map(_cells, self.results), ("total", "", *_numbers(self._counts()), _time(self.seconds), "")]
        resumes = f", which resumes {self.resumes}" if self.resumes else ""
        states = ", ".join(f"{count:,} {state}" for state, count in self._states().items())
        return (
            said(f"run {self.run} of {self.tables}{resumes}", ""),
            ReportSection(blocks=[TableBlock(columns, [Cut(rows)])]),
            said("", f"{counted(len(self.results), 'table')}: {states}", *self._shared(), *self._left()),
        )

    def _shared(self) -> Iterator[str]:
        for one in self.feeds:
            if one.given:
                yield f"{counted(len(one.given), 'feed file')} of {one.directory} given to {', '.join(one.tables)}"
            yield from (f"{one.directory}: {name} {why}" for name, why in one.waiting[:_WAITING])
            if len(one.waiting) > _WAITING:
                yield f"{one.directory}: {len(one.waiting) - _WAITING:,} more wait"
        if self.other_tables:
            yield f"rows of tables that {self.tables} does not take: {shown_tables(self.other_tables)}"

    def _left(self) -> Iterator[str]:
        occupied = [one.table for one in self.results if one.kind == "output.exists"]
        others = [name for name in self.undone if name not in occupied]
        if occupied:
            yield (
                f"their outputs exist already: {', '.join(occupied)}; move these away, or name others in the tables "
                "file, and run again with --resume (which skips tables whose outputs an earlier run made)"
            )
        if others:
            yield f"left undone: {', '.join(others)}; run again with --resume"

    def _states(self) -> dict[str, int]:
        found = Counter(one.state for one in self.results)
        return {state: found[state] for state in TableState if found[state]}

    def _counts(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for one in self.results:
            if one.state == TableState.DONE:
                total.update(one.counts)
        return dict(total)


def not_listed(tables: Sequence[ListedTable], results: Mapping[str, TableResult]) -> dict[str, int]:
    """Return how many rows of feeds are of tables that no listed table takes, by their names.

    Each run counts those that it does not take. Tables that share a feed may have merged other files of it.
    """
    found: Counter[str] = Counter()
    for group in sharing(tables).values():
        ended = [results[table.name] for table in group if table.name in results]
        taken = {one.takes for one in ended} | {table.config.rows.ops.table for table in group}
        most: dict[str, int] = {}
        for one in ended:
            if one.state == TableState.DONE:
                for name, rows in (one.report or {}).get("other_tables", {}).items():
                    most[name] = max(rows, most.get(name, 0))
        found.update({name: rows for name, rows in most.items() if name not in taken})
    return dict(found)


def _cells(one: TableResult) -> tuple[str, ...]:
    first, *more = (one.error or "").split("\n")
    remark = f"{first} {more[0].strip()}" if first.endswith(":") and more else first  # a heading names no file
    if one.state == TableState.DONE and not one.counts.get("feed rows"):
        remark = "nothing to merge"
    if one.state == TableState.DONE and one.set_aside:
        remark = f"{counted(one.set_aside, 'feed file')} set aside"
    return (one.table, one.state, *_numbers(one.counts), _time(one.seconds), remark)


def _time(seconds: float | None) -> str:
    return f"{f'{seconds:.1f} s' if seconds is not None else '':>8}"


def _numbers(counts: Mapping[str, int]) -> Sequence[str]:
    numbers = [records_deleted(counts) if name == "feed deleted" else counts[name] for _, name in _COLUMNS if counts]
    return [f"{number:,}" for number in numbers] or [""] * len(_COLUMNS)
