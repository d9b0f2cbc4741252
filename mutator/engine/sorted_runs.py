"""Elements in files, as sorted runs: a sort that may exceed memory, and the shuffle of a runner on this machine.

A run is a sequence of elements sorted by their first part, in batches: the keys of a batch, then its values, which are
read only when an element of the batch is reached. So a merge of many runs has the keys of one batch of each in memory,
but the values of large elements one at a time.
"""

import heapq
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter
from typing import Any, BinaryIO, NamedTuple

from mutator.engine.scratch import scratch_directory

_BATCH = 1 << 9  # elements
_BATCH_BYTES = 1 << 20
_HEADER = 16  # bytes: the length of the keys, then that of the values

_KEY = itemgetter(0)


class SortedRun(NamedTuple):
    """The part of a file that has one run."""

    path: str
    start: int
    end: int


class _Batch:
    """The values of a batch, read when the first is needed."""

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self._part = (descriptor, size, start)
        self._values: list[Any] | None = None

    def value(self, index: int) -> Any:
        if self._values is None:
            self._values = pickle.loads(_read(*self._part))
        value, self._values[index] = self._values[index], None  # the reader alone decides how long it lives
        return value


def write_run(stream: BinaryIO, elements: list[Any]) -> SortedRun:
    """Sort elements and append them to a file."""
    elements.sort(key=_KEY)
    start = stream.tell()
    for batch in _batches(elements):
        keys = pickle.dumps([key for key, _ in batch], 5)
        head = stream.tell()
        stream.write(bytes(_HEADER) + keys)
        first = stream.tell()
        pickle.dump([value for _, value in batch], stream, 5)  # without a copy of large values in memory
        end = stream.tell()
        stream.seek(head)
        stream.write(len(keys).to_bytes(8, "little") + (end - first).to_bytes(8, "little"))
        stream.seek(end)
    return SortedRun(stream.name, start, stream.tell())


def merged(runs: Sequence[SortedRun]) -> Iterator[Any]:
    """Yield the elements of all runs, sorted."""
    with ExitStack() as stack:
        files: dict[str, int] = {}
        for run in runs:
            if run.path not in files:
                files[run.path] = os.open(run.path, os.O_RDONLY)
                stack.callback(os.close, files[run.path])
        streams = [_keys(files[run.path], run) for run in runs]
        for key, batch, index in streams[0] if len(streams) == 1 else heapq.merge(*streams, key=_KEY):
            yield key, batch.value(index)


def sorted_elements(elements: Iterable[Any], most: int) -> Iterator[Any]:
    """Yield elements sorted by their first part; those beyond a number of bytes wait in files."""
    with ExitStack() as stack:
        waiting: list[Any] = []
        size = 0
        stream: BinaryIO | None = None
        runs: list[SortedRun] = []
        for element in elements:
            waiting.append(element)
            size += size_of(element)
            if size > most:
                if stream is None:
                    path = os.path.join(scratch_directory(stack), "runs")
                    stream = stack.enter_context(open(path, "xb"))
                runs.append(write_run(stream, waiting))
                waiting, size = [], 0
        waiting.sort(key=_KEY)
        if stream is not None:
            stream.flush()
        yield from heapq.merge(merged(runs), waiting, key=_KEY) if runs else waiting


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes in memory.

    >>> size_of((1, b"abc"))
    139
    """
    if isinstance(value, bytes):
        return len(value) + 40
    if isinstance(value, tuple):
        return 56 + sum(map(size_of, value))
    return int(getattr(value, "nbytes", 0)) + 40


def _batches(elements: Sequence[Any]) -> Iterator[Sequence[Any]]:
    start = size = 0
    for end, element in enumerate(elements, 1):
        own = size_of(element)
        if own > _BATCH_BYTES and start < end - 1:  # a large value lives no longer than it is read
            yield elements[start : end - 1]
            start, size = end - 1, 0
        size += own
        if end - start == _BATCH or size > _BATCH_BYTES:
            yield elements[start:end]
            start, size = end, 0
    if start < len(elements):
        yield elements[start:]


def _keys(descriptor: int, run: SortedRun) -> Iterator[tuple[Any, _Batch, int]]:
    at = run.start
    while at < run.end:
        header = _read(descriptor, _HEADER, at)
        keys, values = int.from_bytes(header[:8], "little"), int.from_bytes(header[8:], "little")
        at += _HEADER
        batch = _Batch(descriptor, at + keys, values)
        for index, key in enumerate(pickle.loads(_read(descriptor, keys, at))):
            yield key, batch, index
        at += keys + values


def _read(descriptor: int, size: int, start: int) -> bytes:
    parts = []
    while size:
        part = os.pread(descriptor, size, start)  # at most 2 GiB at once
        if not part:
            raise EOFError("a file of sorted runs ends too early")
        parts.append(part)
        size, start = size - len(part), start + len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
