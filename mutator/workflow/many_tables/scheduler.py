"""A bounded number of tables at once, the largest first, in processes of this machine or in one Spark application.

Threads of the driver merge one table after the other, like ``mutator run`` or ``mutator workflow run``. The main thread
starts Spark when the first of them needs it, watches deadlines and signals, and notes the result of each table.

The order of tables: largest first, because a large table that begins last would end long after the others.
"""

from __future__ import annotations

import logging
import os
import posixpath
import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from mutator.dataset.commit.staging import published
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError, error
from mutator.errors.display import command, counted
from mutator.errors.interrupts import Interrupted
from mutator.pipeline.merge import carry_out, prepare
from mutator.pipeline.runners import shared_workers
from mutator.rules.file_names import is_hidden, new_run_id
from mutator.storage import located
from mutator.storage.progress import expected
from mutator.workflow import directory
from mutator.workflow.directory.paths import master_of, open_base
from mutator.workflow.directory.results import target_path
from mutator.workflow.many_tables.attempt import Attempt, Stopped
from mutator.workflow.many_tables.shared_feed import give_all
from mutator.workflow.many_tables.summary import (
    EventRecord,
    Past,
    Summary,
    TableResult,
    TableState,
    not_listed,
    recording,
)
from mutator.workflow.many_tables.tables_file import ListedTable, Tables, with_shared_feed

if TYPE_CHECKING:
    from pyspark import SparkContext

    from mutator.engine.local.processes import Processes


def sizes_of(tables: Sequence[ListedTable], at_once: int) -> dict[str, int]:
    """Return the bytes of master and feed of each table, by its name.

    at_once: number of tables that are listed together, because listing a remote storage is mostly waiting.
    """
    with ThreadPoolExecutor(at_once) as threads:
        return dict(zip((table.name for table in tables), threads.map(bytes_of, tables), strict=True))


def largest_first(tables: Sequence[ListedTable], sizes: Mapping[str, int]) -> list[ListedTable]:
    """Return tables by their bytes, largest first; equally large ones by name."""
    return sorted(tables, key=lambda table: (-sizes[table.name], table.name))


def bytes_of(table: ListedTable) -> int:
    """Return the bytes of a table's master and feed, as listed; 0 for missing paths.

    This is only an estimate, and faults are left for the run to report.
    """
    paths: tuple[str, ...] = (table.master, *table.feed)
    if table.base is not None:
        paths = (_master_of(table.base), posixpath.join(table.base, "incr"))
    return sum(map(_bytes_at, paths))


def _master_of(given: str) -> str:
    try:
        base = open_base(given)
        return master_of(base, Log(base.path).latest())
    except MutatorError:
        return posixpath.join(given, "master")


def _bytes_at(path: str) -> int:
    """Return the bytes of all files below a path, those of partitions included, but not of hidden ones."""
    try:
        storage, path = located(path)
        entry = storage.stat(path)
        if entry is not None and entry.type == "directory":
            files = ((one.path[len(path) + 1 :], one) for one in storage.walk(path))
        else:
            files = ((one.name, one) for one in (storage.glob(path) if entry is None else [entry]))
        return sum(one.bytes for name, one in files if one.type == "file" and not any(map(is_hidden, name.split("/"))))
    except MutatorError:
        return 0  # the run reports the fault


_log = logging.getLogger(__name__)
_AGAIN = 0.2  # seconds until a table that is stopping is stopped again
_QUIET = "feed.rows.none"
_FATAL = ("spark.missing", "spark.connect.merge", "spark.lost")  # every other table would fail as well

Tell = Callable[[TableResult, int, int], None]  # a table's result, number of ended tables, number of all tables


def run(
    tables: Tables,
    spark: Callable[[], SparkContext],
    *,
    only: Sequence[str] | None = None,
    resume: bool = False,
    at_once: int | None = None,
    deadline: int | None = None,
    engine: str = "auto",
    tell: Tell = lambda result, ended, total: None,
) -> Summary:
    """Merge the tables of a tables file. The fault of a table is in its result.

    spark: returns the Spark context; called once, from this thread, when it is needed. only: names of tables.
    resume: leave out tables that the run before has merged. at_once, deadline (seconds): override those of the file.
    tell: called from this thread when a table has ended.

    Raises ConfigError, StorageError or StateError if no table could begin.
    """
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise error("many.threads")
    at_once = at_once or tables.at_once or min(16, max(4, 2 * (os.cpu_count() or 1)))
    deadline = tables.deadline if deadline is None else deadline
    chosen = tables.tables if only is None else tables.only(only)
    name = new_run_id(time.time())
    _log.info("merging %s, %d at the same time, run %s", counted(len(chosen), "table"), at_once, name)
    with recording(tables.record, name, resume) as record:
        feeds = give_all(tables.tables)  # to all that share them, so that no file goes before a table has it
        application = _Application(spark, record, engine, deadline, tell)
        application.quiet = with_shared_feed(tables.tables)
        results = application.run(chosen, at_once)
    return Summary(
        run=name,
        tables=tables.path,
        resumes=record.past.run,
        at_once=at_once,
        deadline=deadline,
        results=tuple(results[table.name] for table in chosen),
        seconds=round(time.monotonic() - application.began, 3),
        warnings=application.warnings,
        stopped=application.signal,
        feeds=feeds,
        other_tables=not_listed(tables.tables, results),
    )


class _Event(Enum):
    """Why a thread wakes the main thread."""

    TABLE_ENDED = auto()
    SPARK_WANTED = auto()


class _Application:
    """The tables of one run and their results."""

    def __init__(
        self, spark: Callable[[], SparkContext], record: EventRecord, engine: str, deadline: int | None, tell: Tell
    ) -> None:
        self.began = time.monotonic()
        self.signal: int | None = None
        self.warnings: tuple[str, ...] = ()
        self.quiet = frozenset[str]()  # tables that may have no messages yet
        self._until = None if deadline is None else self.began + deadline
        self._spark, self._record, self._engine, self._tell = spark, record, engine, tell
        self._workers: Processes | None = None  # that merge on this machine; None for this process
        self._sc: Future[SparkContext] = Future()
        self._wanted = threading.Lock()  # acquired, for good, by the first table that needs Spark
        self._choosing = threading.Lock()  # guards the waiting tables and those under way
        self._waiting: deque[ListedTable] = deque()
        self._going: dict[str, Attempt] = {}
        self._results: dict[str, TableResult] = {}
        self._total = 0
        self._ended: list[TableResult] = []  # by the threads of the tables
        # What wakes the main thread. It looks into ``_ended`` itself, because a signal may come between taking an event
        # and acting on it.
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()

    def run(self, tables: Sequence[ListedTable], at_once: int) -> dict[str, TableResult]:
        """Merge all tables that are not done; return the result of each."""
        self._total = len(tables)
        with ExitStack() as stack:
            try:
                sizes = sizes_of(tables, at_once)
                stack.enter_context(expected(sum(sizes.values())))
                self._workers = stack.enter_context(shared_workers(sum(sizes.values())))
                self._waiting.extend(largest_first(tables, sizes))
                for number in range(min(at_once, len(tables))):
                    # Daemons: one that hangs in a system call cannot keep the process alive.
                    threading.Thread(target=self._work, args=(f"mutator-{number}",), daemon=True).start()
                self._watch()
            except KeyboardInterrupt as stop:
                self._stop_all(stop)
        for table in tables:
            if table.name not in self._results:
                state = TableState.LEFT if table.name in self._going else TableState.NOT_BEGUN
                self._end(TableResult(table.name, state))
        return self._results

    def _work(self, pool: str) -> None:
        """Merge one table after the other."""
        while (attempt := self._next(pool)) is not None:
            result = self._result_of(attempt)
            if result.kind in _FATAL:
                self._begin_no_more()
            if result.state != TableState.BEFORE:
                result = replace(result, seconds=round(attempt.seconds, 3))
            self._ended.append(result)
            self._events.put(_Event.TABLE_ENDED)

    def _begin_no_more(self) -> None:
        with self._choosing:
            self._waiting.clear()

    def _next(self, pool: str) -> Attempt | None:
        with self._choosing:
            if not self._waiting:
                return None
            table = self._waiting.popleft()
            run = new_run_id(time.time())
            attempt = Attempt(table, run, pool, self._until, self._context, self._workers)
            self._going[table.name] = attempt
            return attempt

    def _result_of(self, attempt: Attempt) -> TableResult:
        name = attempt.table.name
        try:
            return self._merged(attempt)
        except (Stopped, Interrupted):
            return TableResult(name, TableState.STOPPED)
        except MutatorError as fault:
            if fault.kind == _QUIET and name in self.quiet:
                base = attempt.table.base
                waits = "its master is as before" if base is None else f"the feed files wait in {base}/incr"
                return TableResult(name, TableState.DONE, run=attempt.run, warnings=(f"{fault}; {waits}",))
            state = TableState.DEADLINE if fault.kind == "many.deadline" else TableState.FAILED
            return TableResult(name, state, code=fault.exit_code, error=str(fault), kind=fault.kind, run=attempt.run)
        except Exception as fault:  # noqa: BLE001  # the other tables go on
            why = error("bug", what=f"{type(fault).__name__}: {fault}\n{traceback.format_exc()}")
            return TableResult(
                name, TableState.FAILED, code=why.exit_code, error=str(why), kind=why.kind, run=attempt.run
            )

    def _merged(self, attempt: Attempt) -> TableResult:
        table = attempt.table
        attempt.check()
        before = done_before(table, self._record.past)
        if before is not None:
            return before
        config = table.config if table.chained is None else table.chained()
        if table.base is not None:
            self._record.begun(table.name, table.base, None)
            merge = directory.merge_by(config, attempt.merge_on, self._engine)
            base = open_base(table.base)
            if (other := target_path(base)) is not None:
                what = f"its feed files go into the table {other}, and run-many merges into masters"
                cure = command("workflow", "run", table.base)
                raise error("config", where=f"tables.{table.name}.base", faults=f"{what}; run it with: {cure}")
            target = directory.MasterTarget(base, config, merge)
            done = directory.run(target, sleep=attempt.sleep)
            report = None if done.report is None else asdict(done.report)
            return TableResult(
                table.name,
                TableState.DONE,
                code=done.exit_code,
                run=done.run,
                version=done.version,
                report=report,
                set_aside=len(done.failed_files),
                warnings=done.warnings,
                takes=config.rows.ops.table,
            )
        prepared = prepare(config, table.master, table.feed, table.output, run=attempt.run, engine=self._engine)
        self._record.begun(table.name, table.output, attempt.run)
        _, made = carry_out(prepared, attempt.merge_on)
        takes = config.rows.ops.table
        return TableResult(table.name, TableState.DONE, run=attempt.run, report=asdict(made), takes=takes)

    def _context(self) -> SparkContext:
        """Return Spark, started by the main thread: only there can signals be deferred."""
        if self._wanted.acquire(blocking=False):
            self._events.put(_Event.SPARK_WANTED)
        return self._sc.result()

    def _watch(self) -> None:
        """Wait until no table is under way or waits."""
        while self._is_left():
            with suppress(queue.Empty):
                if self._events.get(timeout=self._patience()) is _Event.SPARK_WANTED:
                    self._start_spark()
            self._note_ended()
            self._check_deadlines()

    def _note_ended(self) -> None:
        for result in list(self._ended):
            if result.table not in self._results:
                self._end(result)

    def _is_left(self) -> bool:
        with self._choosing:
            return bool(self._waiting or self._under_way())

    def _start_spark(self) -> None:
        began = time.monotonic()
        try:
            sc = self._spark()
            for one in self._under_way():
                one.forgive(time.monotonic() - began)
            mode = sc.getConf().get("spark.scheduler.mode", "FIFO")
            if mode != "FAIR":
                why = f"spark.scheduler.mode is {mode}, where a large table keeps all others waiting; set it to FAIR"
                self.warnings += (why,)
            self._sc.set_result(sc)
        except MutatorError as fault:
            self._sc.set_exception(fault)
        except BaseException:
            self._sc.set_exception(Stopped())
            raise

    def _end(self, result: TableResult) -> None:
        """Note the result of a table."""
        self._results[result.table] = result
        attempt = self._going.get(result.table)
        if attempt is not None:
            try:
                self._record.ended(result, attempt.table.base or attempt.table.output)
            except MutatorError as fault:  # a resumed run reads the manifest, or the log of the base, instead
                self.warnings += (str(fault),)
        self._tell(result, len(self._results), self._total)

    def _under_way(self) -> list[Attempt]:
        return [attempt for name, attempt in list(self._going.items()) if name not in self._results]

    def _patience(self) -> float | None:
        """Return the seconds until a deadline or another stop is due; None without one."""
        under_way = self._under_way()
        if any(one.is_stopping for one in under_way):
            return _AGAIN
        moments = [one.until - time.monotonic() for one in under_way if one.until is not None]
        if self._waiting:
            moments.append(1.0)  # a table that begins meanwhile may have an earlier deadline
        return max(0.0, min(moments)) if moments else None

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            self._begin_no_more()
        for one in self._under_way():
            if one.is_stopping or (one.until is not None and now >= one.until):
                one.stop(TableState.DEADLINE)

    def _stop_all(self, stop: KeyboardInterrupt) -> None:
        """Begin no more tables, and wait for those being published; a second signal ends the wait."""
        self.signal = stop.number if isinstance(stop, Interrupted) else Interrupted().number
        self._begin_no_more()
        if not self._sc.done():
            self._sc.set_exception(Stopped())
        with suppress(KeyboardInterrupt):
            while going := self._under_way():
                for one in going:
                    one.stop(TableState.STOPPED)
                with suppress(queue.Empty):
                    self._events.get(timeout=_AGAIN)
                self._note_ended()
        if self._workers is not None and self._under_way():
            self._workers.kill()


def done_before(table: ListedTable, past: Past) -> TableResult | None:
    """Return the result of a table that an earlier run has merged; None if none has.

    The manifest of an output shows which run made it, even if it was published just before a kill.
    """
    place = table.base or table.output
    result = past.ended.get((table.name, place))
    if table.base is None:
        began = past.began.get((table.name, place), set())
        try:
            there = published(*located(place)) if began else None
        except MutatorError:
            return None  # the run reports the fault
        if there is None or there.commit.run not in began:
            return None
        if result is None or not result.is_done:
            result = TableResult(table.name, TableState.DONE, run=there.commit.run)
    elif result is None or not result.is_done:
        return None
    return replace(result, state=TableState.BEFORE)
