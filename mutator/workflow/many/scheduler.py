"""A bounded number of tables at once, the largest first, in one Spark application.

Threads of the driver take one table after the other and do with it what ``mutator run`` or ``mutator workflow run``
does. The main thread starts Spark when the first of them needs it, watches the deadlines and the signals, and writes
down what became of each table.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from mutator.dataset.commit.staging import published
from mutator.errors import MutatorError, error
from mutator.errors.interrupts import Interrupted
from mutator.pipeline.merge import carry_out, prepare
from mutator.rules.file_names import new_run_id
from mutator.storage import absolute, storage_for
from mutator.workflow import directory
from mutator.workflow.many.attempt import Attempt, Stopped
from mutator.workflow.many.event_log import Past, Record, recording
from mutator.workflow.many.largest_first import largest_first
from mutator.workflow.many.summary import BEFORE, DEADLINE, DONE, FAILED, LEFT, NOT_BEGUN, STOPPED, Result, Summary
from mutator.workflow.many.tables_file import Table, Tables

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["run"]

_AGAIN = 0.2  # seconds until a table that was told to stop is told so again
_FATAL = ("spark.missing", "spark.connect", "spark.lost")  # no other table would do better

Tell = Callable[[Result, int, int], None]  # a table's result, how many have ended, and of how many


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
    """Merge the tables of a tables file; what goes wrong with one of them is in its result.

    spark: returns the Spark context; called once, from this thread, when it is needed. only: names of tables.
    resume: leave out what the run before has done. at_once, deadline (seconds): in the place of those of the file.
    tell: is called from this thread whenever a table has ended.

    Raises ConfigError, StorageError or StateError where no table could be begun.
    """
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise error("many.threads")
    at_once = at_once or tables.at_once or min(16, max(4, 2 * (os.cpu_count() or 1)))
    deadline = tables.deadline if deadline is None else deadline
    chosen = tables.tables if only is None else tables.only(only)
    name = new_run_id(time.time())
    with recording(tables.record, name, resume) as record:
        application = _Application(spark, record, engine, deadline, tell)
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
    )


class _Application:
    """The tables of one run, and what becomes of them."""

    def __init__(
        self, spark: Callable[[], SparkContext], record: Record, engine: str, deadline: int | None, tell: Tell
    ) -> None:
        self.began = time.monotonic()
        self.signal: int | None = None
        self.warnings: tuple[str, ...] = ()
        self._until = None if deadline is None else self.began + deadline
        self._spark, self._record, self._engine, self._tell = spark, record, engine, tell
        self._sc: Future[SparkContext] = Future()
        self._wanted = threading.Lock()  # taken, for good, by the first table that needs Spark
        self._taking = threading.Lock()  # a table waits, or is under way
        self._waiting: deque[Table] = deque()
        self._going: dict[str, Attempt] = {}
        self._results: dict[str, Result] = {}
        self._total = 0
        self._events: queue.SimpleQueue[Result | None] = queue.SimpleQueue()  # None: Spark is needed

    def run(self, tables: Sequence[Table], at_once: int) -> dict[str, Result]:
        """Do all tables that are left to do; return the result of each."""
        self._total = len(tables)
        try:
            self._waiting.extend(largest_first(tables, at_once))
            for number in range(min(at_once, len(tables))):
                # Daemons: one that hangs in a system call cannot keep the process alive.
                threading.Thread(target=self._work, args=(f"mutator-{number}",), daemon=True).start()
            self._watch()
        except KeyboardInterrupt as stop:
            self._stop_all(stop)
        for table in tables:
            if table.name not in self._results:
                state = LEFT if table.name in self._going else NOT_BEGUN
                self._end(Result(table.name, state))
        return self._results

    def _work(self, pool: str) -> None:
        """Take one table after the other."""
        while (attempt := self._take(pool)) is not None:
            result = self._result_of(attempt)
            if result.kind in _FATAL:
                self._begin_no_more()
            if result.state != BEFORE:
                result = replace(result, seconds=round(attempt.seconds, 3))
            self._events.put(result)

    def _begin_no_more(self) -> None:
        with self._taking:
            self._waiting.clear()

    def _take(self, pool: str) -> Attempt | None:
        with self._taking:
            if not self._waiting:
                return None
            table = self._waiting.popleft()
            attempt = Attempt(table, new_run_id(time.time()), pool, self._until, self._context)
            self._going[table.name] = attempt
            return attempt

    def _result_of(self, attempt: Attempt) -> Result:
        name = attempt.table.name
        try:
            return self._merged(attempt)
        except (Stopped, Interrupted):
            return Result(name, STOPPED)
        except MutatorError as fault:
            state = DEADLINE if fault.kind == "many.deadline" else FAILED
            return Result(name, state, code=fault.exit_code, error=str(fault), kind=fault.kind, run=attempt.run)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the other tables go on
            why = error("bug", what=f"{type(fault).__name__}: {fault}\n{traceback.format_exc()}")
            return Result(name, FAILED, code=why.exit_code, error=str(why), kind=why.kind, run=attempt.run)

    def _merged(self, attempt: Attempt) -> Result:
        table = attempt.table
        attempt.check()
        before = done_before(table, self._record.past)
        if before is not None:
            return before
        if table.base is not None:
            self._record.begun(table.name, table.base, None)
            merge = directory.merge_by(table.config, attempt.merge_on, self._engine)
            done = directory.run(table.base, table.config, merge, sleep=attempt.sleep)
            report = None if done.report is None else asdict(done.report)
            return Result(table.name, DONE, run=done.run, version=done.version, report=report)
        prepared = prepare(table.config, table.master, table.feed, table.output, run=attempt.run, engine=self._engine)
        self._record.begun(table.name, table.output, attempt.run)
        _, made = carry_out(prepared, attempt.merge_on)
        return Result(table.name, DONE, run=attempt.run, report=asdict(made))

    def _context(self) -> SparkContext:
        """Return Spark, which the main thread starts: only there are signals kept off meanwhile."""
        if self._wanted.acquire(blocking=False):
            self._events.put(None)
        return self._sc.result()

    def _watch(self) -> None:
        """Wait until no table is under way or waits."""
        while self._is_left():
            event: Any = ...
            with suppress(queue.Empty):
                event = self._events.get(timeout=self._patience())
            if event is None:
                self._start_spark()
            elif isinstance(event, Result):
                self._end(event)
            self._look_at_deadlines()

    def _is_left(self) -> bool:
        with self._taking:
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

    def _end(self, result: Result) -> None:
        """Write down what became of a table."""
        self._results[result.table] = result
        attempt = self._going.get(result.table)
        if attempt is not None:
            try:
                self._record.ended(result, attempt.table.base or attempt.table.output)
            except MutatorError as fault:  # a resumed run asks the manifest, and a base knows what it has merged
                self.warnings = (str(fault),)
        self._tell(result, len(self._results), self._total)

    def _under_way(self) -> list[Attempt]:
        return [attempt for name, attempt in list(self._going.items()) if name not in self._results]

    def _patience(self) -> float | None:
        """Return the seconds until there is something to do even if nothing happens."""
        under_way = self._under_way()
        if any(one.is_told_to_stop for one in under_way):
            return _AGAIN
        moments = [one.until - time.monotonic() for one in under_way if one.until is not None]
        if self._waiting:
            moments.append(1.0)  # a table that is begun meanwhile may have an earlier one
        return max(0.0, min(moments)) if moments else None

    def _look_at_deadlines(self) -> None:
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            self._begin_no_more()
        for one in self._under_way():
            if one.is_told_to_stop or (one.until is not None and now >= one.until):
                one.stop(DEADLINE)

    def _stop_all(self, stop: KeyboardInterrupt) -> None:
        """Begin nothing more, and wait for what is being published; a second signal is not waited for."""
        self.signal = stop.number if isinstance(stop, Interrupted) else Interrupted().number
        self._begin_no_more()
        if not self._sc.done():
            self._sc.set_exception(Stopped())
        with suppress(KeyboardInterrupt):
            while going := self._under_way():
                for one in going:
                    one.stop(STOPPED)
                with suppress(queue.Empty):
                    event = self._events.get(timeout=_AGAIN)
                    if event is not None:
                        self._end(event)


def done_before(table: Table, past: Past) -> Result | None:
    """Return the result of a table that an earlier run has done, None where it has not.

    Of an output the manifest says which run made it: it may have been published just before a kill.
    """
    place = table.base or table.output
    result = past.ended.get((table.name, place))
    if table.base is None:
        began = past.began.get((table.name, place), set())
        path = absolute(place)
        storage = storage_for(path)
        try:
            there = published(storage, storage.resolve(path)) if began else None
        except MutatorError:
            return None  # the run will say what is there
        if there is None or there.run not in began:
            return None
        if result is None or not result.is_done:
            result = Result(table.name, DONE, run=there.run)
    elif result is None or not result.is_done:
        return None
    return replace(result, state=BEFORE)
