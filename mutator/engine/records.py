"""The records engine: MapReduce as in the textbook, one Python tuple a record.

    map      split -> ((bucket, key, side, precedence), value)
    shuffle  repartitionAndSortWithinPartitions: by bucket, then by key, side and precedence
    reduce   walk each key's run, keep the last, meet the master

``last_mutations`` is the same for any RDD of Python objects.

>>> last_mutations(sc.parallelize([("a", 1, "x"), ("a", 2, "y"), ("b", 1, "z")]),
...                key=lambda m: m[0], precedence=lambda m: m[1]).collect()        # doctest: +SKIP
[('a', 2, 'y'), ('b', 1, 'z')]
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from itertools import groupby
from numbers import Number
from operator import itemgetter
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import RDD, SparkContext, TaskContext
from pyspark.errors import PySparkException
from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer
from pyspark.shuffle import ExternalSorter

from mutator.engine.read import Element, read_task
from mutator.engine.write import Row, Sorter, write_bucket, write_ledger
from mutator.errors import MutatorError, error
from mutator.interrupt import check_signals
from mutator.keyhash import murmur64a
from mutator.plan import Plan, Split

__all__ = ["last_mutations", "merge", "on_partitions", "spark_faults"]


def merge(sc: SparkContext, plan: Plan, staging: str | None) -> list[dict[str, Any]]:
    """Run the merge of a plan on Spark; return the receipts of its buckets and, last, of its ledger.

    staging: directory that the files go to, None for a dry run.
    """
    sort = partial(_sort_by_place, _sort_memory(sc))
    return on_partitions(sc, plan, partial(_write_bucket, staging, sort), partial(_write_ledger, staging))


def on_partitions(
    sc: SparkContext,
    plan: Plan,
    on_bucket: Callable[[Plan, int, Iterator[Element]], dict[str, Any]],
    on_ledger: Callable[[Plan, Iterator[Element]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Read a plan's inputs, shuffle them, and apply a function to each sorted bucket and one to the ledger."""
    if not plan.tasks:
        # Nothing to read: no shuffle is needed to find nothing.
        return [on_ledger(plan, iter(()))]
    shared = sc.broadcast(plan)
    try:
        return (
            # [split, ...]
            sc.parallelize(plan.tasks, len(plan.tasks))
            # -> ((bucket, key, side, precedence), value), ...
            .mapPartitions(partial(_map, shared))
            # -> the same, in the partition of their bucket, sorted
            .repartitionAndSortWithinPartitions(plan.buckets + 1, _bucket)
            # -> receipt
            .mapPartitionsWithIndex(partial(_reduce, shared, on_bucket, on_ledger))
            .collect()
        )
    finally:
        with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
            shared.unpersist()


@contextmanager
def spark_faults(sc: SparkContext) -> Iterator[None]:
    """Turn what Spark raises inside of the ``with`` block into errors of the catalogue."""
    try:
        yield
    except (Py4JError, PySparkException, OSError, EOFError) as fault:
        check_signals()  # one that came meanwhile looks like a fault, too
        raise (error("spark.lost", why=type(fault).__name__) if _is_gone(sc) else _task_error(fault)) from None


def _is_gone(sc: SparkContext) -> bool:
    try:
        sc._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]  # the cheapest question to a JVM
    except (Py4JError, OSError, AttributeError):
        return True
    return False


def _task_error(fault: Exception) -> MutatorError:
    """Say why Spark gave up: an exception loses its class on the way from a worker, and its text is left."""
    text = str(fault.java_exception) if isinstance(fault, Py4JJavaError) else str(fault)
    why = next((line for line in text.splitlines() if line.startswith("mutator.errors.")), text.split("\n\tat ")[0])
    return error("task", why=re.sub(r"^mutator\.errors\.\w+: ", "", why)[-2000:])


def last_mutations(
    rdd: RDD[Any],
    key: Callable[[Any], Any],
    precedence: Callable[[Any], Any],
    is_delete: Callable[[Any], bool] | None = None,
    partitions: int | None = None,
) -> RDD[Any]:
    """Return the last mutation of each key, without those that are deletes.

    The slow program that means the same groups the RDD by key and takes the ``max`` of each group by precedence; this
    one holds one mutation a key in memory.

    key: a comparable value of None, bool, int, float, Decimal, str, bytes, date, datetime, or a tuple of them.
    precedence: a comparable value, the higher wins; it should be a total order. Where two mutations of a key have the
    same, the one with the greater ``repr`` wins, so that the result does not depend on arrival (for objects whose
    ``repr`` shows their content).
    is_delete: tells which mutations remove their key; None for none. partitions: None for as many as the RDD has.

    The result is sorted by key within each partition.
    """
    if partitions is not None and partitions < 1:
        raise error("usage", what=f"partitions is {partitions}; it must be 1 or more, or None")
    count = max(rdd.getNumPartitions(), 1) if partitions is None else partitions
    return (
        # mutation, ...
        rdd.map(partial(_keyed, key, precedence))
        # -> ((key, precedence), mutation), ...: in the partition of the key alone, sorted by key and precedence
        .repartitionAndSortWithinPartitions(count, partial(_partition_of_key, count))
        # -> the last mutation of each key
        .mapPartitions(partial(_keep_last, is_delete), preservesPartitioning=True)
    )


def _keyed(key: Callable[[Any], Any], precedence: Callable[[Any], Any], mutation: Any) -> tuple[Any, Any]:
    return (key(mutation), precedence(mutation)), mutation


def _partition_of_key(count: int, sort_key: tuple[Any, Any]) -> int:
    return murmur64a(_canonical(sort_key[0])) % count


def _keep_last(is_delete: Callable[[Any], bool] | None, pairs: Iterable[Any]) -> Iterator[Any]:
    for _, group in groupby(pairs, key=_key_of_pair):
        last = last_precedence = None
        found = False
        for (_, precedence), mutation in group:
            if found and precedence == last_precedence and repr(mutation) < repr(last):
                continue
            found, last, last_precedence = True, mutation, precedence
        if is_delete is None or not is_delete(last):
            yield last


def _key_of_pair(pair: Any) -> Any:
    return pair[0][0]


def _canonical(value: Any) -> bytes:
    """Write a key so that equal keys have equal bytes, in every process (Python's own hash of text is seeded)."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, tuple):
        parts = [_canonical(part) for part in value]
        return b"t" + b"".join(b"%d:%s" % (len(part), part) for part in parts)
    if value is None:
        return b"n"
    if isinstance(value, Number):
        if value != value:
            raise error("usage", what="a key is NaN, which equals nothing; map it to another value")
        return b"i%d" % hash(value)  # not seeded, and equal for 1, 1.0, True and Decimal(1), as == is
    if isinstance(value, datetime):
        return b"d" + (value if value.tzinfo is None else value.astimezone(UTC)).isoformat().encode()
    if isinstance(value, date):
        return b"d" + value.isoformat().encode()
    raise error(
        "usage",
        what=f"a key of type {type(value).__name__} has no canonical bytes; make it of None, numbers, str, bytes, "
        "dates and tuples of these",
    )


def _map(shared: Any, tasks: Iterable[tuple[Split, ...]]) -> Iterator[Element]:
    for splits in tasks:
        yield from read_task(shared.value, splits)


def _bucket(sort_key: tuple[Any, ...]) -> int:
    bucket: int = sort_key[0]
    return bucket


def _reduce(
    shared: Any,
    on_bucket: Callable[[Plan, int, Iterator[Element]], dict[str, Any]],
    on_ledger: Callable[[Plan, Iterator[Element]], dict[str, Any]],
    index: int,
    elements: Iterator[Element],
) -> Iterator[dict[str, Any]]:
    plan: Plan = shared.value
    yield on_ledger(plan, elements) if index == plan.ledger else on_bucket(plan, index, elements)


def _write_bucket(
    staging: str | None, sort: Sorter, plan: Plan, bucket: int, elements: Iterable[Element]
) -> dict[str, Any]:
    return write_bucket(plan, staging, bucket, _attempt(), elements, sort)


def _write_ledger(staging: str | None, plan: Plan, elements: Iterable[Element]) -> dict[str, Any]:
    return write_ledger(plan, staging, _attempt(), elements)


def _attempt() -> int:
    """Return 0 for the first attempt of a task, and a number that no other attempt has for every further one."""
    context = TaskContext.get()
    return 0 if context is None or context.attemptNumber() == 0 else context.taskAttemptId()


def _sort_by_place(memory: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Sort rows by their place in the file, with Spark's own sorter, which spills to disk."""
    batches = AutoBatchedSerializer(CPickleSerializer())  # type: ignore[no-untyped-call]  # pyspark leaves it untyped
    sorter: Any = ExternalSorter(memory, batches)
    return iter(sorter.sorted(rows, key=itemgetter(0)))


def _sort_memory(sc: SparkContext) -> int:
    """Return the MB of a Python worker's memory that a sort may fill, as Spark's own shuffle counts it."""
    text = sc.getConf().get("spark.python.worker.memory", "512m").lower()
    units = {"g": 1024.0, "m": 1.0, "k": 1 / 1024, "t": 1048576.0}
    return max(1, int(float(text[:-1]) * units[text[-1]] * 0.9)) if text[-1] in units else 460
