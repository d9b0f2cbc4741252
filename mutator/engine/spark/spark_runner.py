"""The runner on Spark: elements are those of an RDD, a shuffle is ``repartitionAndSortWithinPartitions``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import RDD, Accumulator, AccumulatorParam, SparkContext, StorageLevel, TaskContext

from mutator.engine.runner import Element, Shared, Work
from mutator.engine.scratch import scratch_directory
from mutator.engine.spark.jvm_log import spark_faults
from mutator.errors.exceptions import packed
from mutator.errors.quick_dataclass import dataclass
from mutator.storage import progress
from mutator.storage.progress import Counts

# Into which tasks count what they have read: a directory of this machine, or an accumulator. None: nobody looks.
Counting = str | Accumulator[Counts] | None

_CODEC = "zstd"
_LONG = 1 << 14  # bytes; shorter values stay as they are


@dataclass(frozen=True)
class SparkElements:
    """Elements of an RDD."""

    rdd: RDD[Any]
    counting: Counting

    def map(self, work: Work, shared: Shared | None = None) -> SparkElements:
        """Return the elements that a function makes of those of each task."""
        return replace(self, rdd=self.rdd.mapPartitionsWithIndex(partial(_mapped, work, shared, self.counting)))

    def grouped(self, count: int) -> SparkElements:
        """Return ``((group, …), value)`` with a task for each group, sorted by the first part."""
        if self.rdd.context.getConf().get("spark.shuffle.compress", "true").strip().lower() == "false":
            return replace(self, rdd=_sorted(self.rdd, count))
        # ((group, …), value), ... -> the same, with compressed values
        compressed = self.rdd.mapPartitions(_compressed)
        # -> the same, in their group, sorted -> with values as they were
        return replace(self, rdd=_sorted(compressed, count).mapPartitions(_restored))

    @contextmanager
    def kept(self) -> Iterator[SparkElements]:
        """Keep the elements on disk for the time of the ``with`` block, so that they are computed once.

        In memory, before Spark checks for free memory, it puts so many large elements into its heap that it overflows.
        """
        kept = self.rdd.persist(StorageLevel.DISK_ONLY)
        try:
            yield replace(self, rdd=kept)
        finally:
            with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
                kept.unpersist()

    def reading(self, bytes_: int | None) -> SparkElements:
        """Return the same elements: Spark has started."""
        return self

    def collect(self) -> list[Any]:
        """Compute the elements; return them in the order of their tasks."""
        with spark_faults(self.rdd.context):
            return self.rdd.collect()


@dataclass(frozen=True)
class SparkRunner:
    """Carries out steps on Spark."""

    sc: SparkContext
    counting: Counting = None

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time, at least 1."""
        return self.sc.defaultParallelism

    def tasks(self, tasks: Sequence[Any]) -> SparkElements:
        """Return elements with a task for each, which has it as its only element."""
        return SparkElements(self.sc.parallelize(list(tasks), max(len(tasks), 1)), self.counting)

    @contextmanager
    def shared(self, value: Any) -> Iterator[Shared]:
        """Broadcast a value for the time of the ``with`` block."""
        with spark_faults(self.sc):
            shared = self.sc.broadcast(value)
        try:
            yield shared
        finally:
            with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
                shared.unpersist()


class _CountsParam(AccumulatorParam[Counts]):
    def zero(self, value: Counts) -> Counts:
        return Counts()

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802  # Spark's name
        return value1.plus(value2)


@contextmanager
def opened(sc: SparkContext) -> Iterator[SparkRunner]:
    """Yield the runner on a Spark context. If anybody looks, tasks add what they read to the progress of this process.

    Workers of this machine do so while a task runs, those of a cluster at its end.
    """
    with ExitStack() as stack:
        counting: Counting = None
        if progress.is_shown() and str(sc.master).startswith("local"):
            counting = scratch_directory(stack)
            stack.enter_context(progress.followed(partial(progress.counted_in, counting)))
        elif progress.is_shown():
            accumulator = counting = sc.accumulator(Counts(), _CountsParam())
            stack.enter_context(progress.followed(lambda: accumulator.value))
        yield SparkRunner(sc, counting)


def _mapped(
    work: Work, shared: Shared | None, counting: Counting, number: int, elements: Iterator[Any]
) -> Iterable[Any]:
    if isinstance(counting, str):
        progress.count_into(counting)
    else:
        progress.taken()  # what earlier tasks of this worker have left
    with packed():
        yield from work(None if shared is None else shared.value, number, attempt(), elements)
    if counting is not None and not isinstance(counting, str):
        counting.add(progress.taken())
    # A worker that does not read its whole input ends, and the next task waits for a new one.
    for _ in elements:
        pass


def _sorted(elements: RDD[Any], count: int) -> RDD[Any]:
    return elements.repartitionAndSortWithinPartitions(count, _group_of)


@dataclass(frozen=True)
class _Compressed:
    size: int
    content: bytes


def _compressed(elements: Iterable[Element]) -> Iterator[Element]:
    """Compress the long bytes in values, before the JVM serializes, compresses and copies them.

    Spark's LZ4 leaves 82 % of the bytes of text rows, zstd of level 1 leaves 42 %.
    """
    codec = pa.Codec(_CODEC, compression_level=1)

    def smaller(part: Any) -> Any:
        is_long = type(part) is bytes and len(part) >= _LONG
        return _Compressed(len(part), codec.compress(part, asbytes=True)) if is_long else part

    return _with_parts(elements, smaller)


def _restored(elements: Iterable[Element]) -> Iterator[Element]:
    codec = pa.Codec(_CODEC)

    def whole(part: Any) -> Any:
        return codec.decompress(part.content, part.size, asbytes=True) if type(part) is _Compressed else part

    return _with_parts(elements, whole)


def _with_parts(elements: Iterable[Element], change: Callable[[Any], Any]) -> Iterator[Element]:
    """Yield elements after a change of each value, or of each part of a value that is a tuple."""
    for key, value in elements:
        if key[1]:  # one record: there are too many to look at each part
            yield key, value
        else:
            yield key, tuple(map(change, value)) if type(value) is tuple else change(value)


def _group_of(sort_key: tuple[Any, ...]) -> int:
    group: int = sort_key[0]
    return group


def attempt() -> int:
    """Return 0 for the first attempt of a task, and a number that no other attempt has for every further one."""
    context = TaskContext.get()
    return 0 if context is None or context.attemptNumber() == 0 else context.taskAttemptId()
