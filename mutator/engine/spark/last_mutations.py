"""The last mutation of each key, for any RDD of Python objects: the records engine's MapReduce without its files.

>>> last_mutations(sc.parallelize([("a", 1, "x"), ("a", 2, "y"), ("b", 1, "z")]),
...                key=lambda m: m[0], precedence=lambda m: m[1]).collect()        # doctest: +SKIP
[('a', 2, 'y'), ('b', 1, 'z')]
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from functools import partial
from itertools import groupby
from numbers import Number
from typing import Any

from pyspark import RDD

from mutator.engine.spark.jvm_start import use_own_python
from mutator.errors import error
from mutator.rules.key_hash import murmur64a


def last_mutations(
    rdd: RDD[Any],
    key: Callable[[Any], Any],
    precedence: Callable[[Any], Any],
    is_delete: Callable[[Any], bool] | None = None,
    partitions: int | None = None,
) -> RDD[Any]:
    """Return the last mutation of each key, without those that are deletes.

    The result is that of grouping the RDD by key and selecting the ``max`` of each group by precedence, but only one
    mutation of a key is in memory at a time.

    key: a comparable value of None, bool, int, float, Decimal, str, bytes, date, datetime, or a tuple of them.
    precedence: a comparable value, the higher wins; it should be a total order. Where two mutations of a key have the
    same, the one with the greater ``repr`` wins, so that the result does not depend on arrival (for objects whose
    ``repr`` shows their content).
    is_delete: returns whether a mutation removes its key; None if no mutation does. partitions: None for as many as
    the RDD has.

    The result is sorted by key within each partition.
    """
    if partitions is not None and partitions < 1:
        raise error("usage", what=f"partitions is {partitions}; it must be 1 or more, or None")
    use_own_python(rdd.context)
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
