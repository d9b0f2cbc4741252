"""The use that both engines make of Spark: the shuffle between two plain functions, and the meaning of its faults."""

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext, TaskContext
from pyspark.errors import PySparkException

from mutator.engine.ledger import write_ledger
from mutator.engine.receipts import LedgerReceipt, MergeReceipt, Receipts
from mutator.engine.spark.jvm_log import name_of_log
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import from_traceback
from mutator.errors.interrupts import check_signals
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Split

_TRACEBACK = "Traceback (most recent call last):"
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
Element = tuple[tuple[Any, ...], Any]  # ((partition, …), value): the first part is the sort key


def on_partitions(
    sc: SparkContext,
    shared: Any,
    tasks: tuple[tuple[Split, ...], ...],
    partitions: int,
    read: Callable[[Plan, tuple[Split, ...]], Iterator[Element]],
    reduce: Callable[[Plan, int, Iterator[Element]], Any],
) -> list[Any]:
    """Read tasks, shuffle what they yield, and apply a function to each sorted partition.

    shared: the broadcast plan. read: yields ``((partition, …), value)``. Returns one value for each partition.
    """
    return (
        # [split, ...]
        sc.parallelize(tasks, max(len(tasks), 1))
        # -> ((partition, …), value), ...
        .mapPartitions(partial(read_tasks, shared, read))
        # -> the same, in their partition, sorted
        .repartitionAndSortWithinPartitions(partitions, partition_of)
        # -> what reduce returned, one value for each partition
        .mapPartitionsWithIndex(partial(_reduce, shared, reduce))
        .collect()
    )


def each_on(sc: SparkContext) -> Callable[[Sequence[Any], Callable[[Any, int, int], Any]], list[Any]]:
    """Return a function that applies another, on Spark, to tasks, their numbers and attempts, in their order."""

    def each(tasks: Sequence[Any], work: Callable[[Any, int, int], Any]) -> list[Any]:
        if not tasks:
            return []
        numbered = list(enumerate(tasks))
        with spark_faults(sc):
            # (number, task) -> an element of the result
            return sc.parallelize(numbered, len(numbered)).map(partial(_numbered, work)).collect()

    return each


def _numbered(work: Callable[[Any, int, int], Any], task: tuple[int, Any]) -> Any:
    return work(task[1], task[0], attempt())


@contextmanager
def shared_with(sc: SparkContext, value: Any) -> Iterator[Any]:
    """Broadcast a value for the time of the ``with`` block."""
    shared = sc.broadcast(value)
    try:
        yield shared
    finally:
        with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
            shared.unpersist()


@contextmanager
def spark_faults(sc: SparkContext) -> Iterator[None]:
    """Turn exceptions that Spark raises inside of the ``with`` block into errors of the catalogue."""
    try:
        yield
    except (Py4JError, PySparkException, OSError, EOFError) as fault:
        check_signals()  # a signal that came during the call looks like a fault, too
        if _is_gone(sc):
            raise error("spark.lost", why=type(fault).__name__, log=name_of_log()) from None
        raise _task_error(sc, fault) from None


def _is_gone(sc: SparkContext) -> bool:
    try:
        sc._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]  # the cheapest question to a JVM
    except (Py4JError, OSError, AttributeError):
        return True
    return False


def _task_error(sc: SparkContext, fault: Exception) -> MutatorError:
    """Return why Spark gave up: on the way from a worker an exception loses its class, but not its text."""
    text = str(fault.java_exception) if isinstance(fault, Py4JJavaError) else str(fault)
    if "No module named 'pandas'" in text:
        return error("hive.pandas", where="a worker of Spark")
    if missing := _NO_MODULE.search(text):
        return error("spark.python", python=sc.pythonExec, missing=missing[1], own=sys.executable)
    return from_traceback(text) or error("task", why=_cause(text), log=name_of_log())


def _cause(text: str) -> str:
    """Return the first line of a fault of Spark, and the last line of the Python traceback in it.

    >>> _cause("Job aborted: Traceback (most recent call last):\\n  File …\\nOSError: disk\\n\\n\\tat a.b(c.java:1)")
    'Job aborted: OSError: disk'
    """
    lines = [line.strip()[:1000] for line in text.split("\n\tat ")[0].splitlines() if line.strip()]
    if len(lines) < 2:
        return "".join(lines)
    first = lines[0].removesuffix(_TRACEBACK)
    return f"{first}{'' if first != lines[0] else '; '}{lines[-1]}"


def attempt() -> int:
    """Return 0 for the first attempt of a task, and a number that no other attempt has for every further one."""
    context = TaskContext.get()
    return 0 if context is None or context.attemptNumber() == 0 else context.taskAttemptId()


def merge_groups(
    sc: SparkContext,
    plan: Plan,
    staging: str | None,
    read: Callable[[Plan, tuple[Split, ...]], Iterator[Element]],
    write: Callable[[Plan, str | None, int, int, Iterator[Element]], MergeReceipt],
) -> Receipts:
    """Read the tasks of a plan, and write each group of buckets and the ledger; return all receipts."""
    with shared_with(sc, plan) as shared:
        reduce = partial(_write, write, staging)
        *merges, ledger = on_partitions(sc, shared, plan.tasks, plan.groups + 1, read, reduce)
    return Receipts(tuple(merges), ledger)


def _write(
    write: Callable[..., MergeReceipt], staging: str | None, plan: Plan, partition: int, elements: Iterator[Element]
) -> MergeReceipt | LedgerReceipt:
    if partition == plan.ledger:
        return write_ledger(plan, staging, attempt(), elements)
    return write(plan, staging, partition, attempt(), elements)


def read_tasks(
    shared: Any, read: Callable[[Plan, tuple[Split, ...]], Iterator[Any]], tasks: Iterable[tuple[Split, ...]]
) -> Iterator[Any]:
    """Yield the elements that a function reads for some tasks. shared: the broadcast plan."""
    for splits in tasks:
        yield from read(shared.value, splits)


def partition_of(sort_key: tuple[Any, ...]) -> int:
    """Return the partition of a sort key: its first part."""
    partition: int = sort_key[0]
    return partition


def _reduce(
    shared: Any,
    reduce: Callable[[Plan, int, Iterator[Element]], Any],
    index: int,
    elements: Iterator[Element],
) -> Iterator[Any]:
    yield reduce(shared.value, index, elements)
