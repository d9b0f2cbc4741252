"""The rows of Parquet files that a version does not hide, as DataFrames of which Spark reads the files itself.

Hidden rows are known by their positions: ``_metadata.row_index``, which Spark has for Parquet. The bits of 16 words say
which of 1,024 successive rows, a block, are hidden. A broadcast anti-join removes these. Its key is a whole number, the
fastest kind: the number of the block, and the size of the file, or, for further files of the same size, a hash of the
path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from pyspark.sql import DataFrame, SparkSession, functions, types

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Ints
from mutator.table.spark_source.arrow_frames import frame_of_arrow

Read = Callable[[Sequence[str]], DataFrame]  # returns the rows of files; their paths as Hadoop knows them
_ROW, _ROW_KEY, _KEY, _WORDS = "mutator row", "mutator row key", "mutator key", "mutator words"  # columns
_WIDTH, _ROWS = 16, 10  # words of a block; bits of a position for the row in it
_BLOCKS = types.StructType(
    [
        types.StructField(_KEY, types.LongType()),
        types.StructField(_WORDS, types.ArrayType(types.LongType(), containsNull=False)),
    ]
)
_PLACES = 28  # bits of a key for the number of the block; the others are for the file
_BY_SIZE, _BY_PATH = "_metadata.file_size", "xxhash64(_metadata.file_path)"
_SEED = 42  # of Spark's xxhash64
_UNSIGNED = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class MaskedFile:
    """A file and the ascending positions of its hidden rows. path: as Hadoop knows it."""

    path: str
    bytes: int
    hidden: Ints


def live_rows(spark: SparkSession, files: Sequence[MaskedFile], read: Read) -> Iterator[DataFrame]:
    """Yield the rows of files but for the hidden ones."""
    first, *others = _with_own_keys((_key(file.bytes), file) for file in files)
    rows = read([file.path for file in first.values()])
    # A storage that encrypts files may know them by other sizes than the log; the rows would not be found as hidden.
    if _bytes_of(rows) == sum(file.bytes for file in first.values()):
        yield _without_hidden(spark, rows, first, _BY_SIZE)
        files = [file for group in others for file in group.values()]
    uris = _uris(spark, [file.path for file in files])
    keys = (_key(xxhash.xxh64_intdigest(uri.encode(), _SEED)) for uri in uris)
    for group in _with_own_keys(zip(keys, files, strict=True)):
        yield _without_hidden(spark, read([file.path for file in group.values()]), group, _BY_PATH)


def _key(number: int) -> int:
    """Return the key of the first block of a file, by a number of the file."""
    return number << _PLACES & _UNSIGNED


def _with_own_keys(files: Iterable[tuple[int, MaskedFile]]) -> list[dict[int, MaskedFile]]:
    """Return files by their keys; a file goes into the first mapping in which no other has its key."""
    found: list[dict[int, MaskedFile]] = []
    for key, file in files:
        group = next((group for group in found if key not in group), None)
        if group is None:
            found.append(group := {})
        group[key] = file
    return found


def _without_hidden(spark: SparkSession, rows: DataFrame, files: Mapping[int, MaskedFile], number: str) -> DataFrame:
    """Return the rows of files but for the hidden ones. files: by key. number: of the file of a row, for Spark."""
    keys, words = map(np.concatenate, zip(*(_blocks(key, file.hidden) for key, file in files.items()), strict=True))
    starts = pa.array(np.arange(0, len(words) + 1, _WIDTH, dtype=np.int32))
    hidden = pa.table({_KEY: keys, _WORDS: pa.ListArray.from_arrays(starts, pa.array(words))})
    key = functions.expr(f"shiftleft({number}, {_PLACES}) | shiftright(_metadata.row_index, {_ROWS})")
    # Spark 3.5 cannot resolve ``_metadata`` in the condition of a join.
    placed = rows.withColumns({_ROW_KEY: key, _ROW: functions.col("_metadata.row_index")})
    word = f"get(`{_WORDS}`, CAST(shiftright(`{_ROW}`, 6) & {_WIDTH - 1} AS INT))"
    is_hidden = f"`{_ROW_KEY}` = `{_KEY}` AND (shiftright({word}, CAST(`{_ROW}` & 63 AS INT)) & 1) = 1"
    blocks = functions.broadcast(frame_of_arrow(spark, [hidden], _BLOCKS))
    # The words of a block stay on the side of the blocks: an anti-join adds them to no row.
    return placed.join(blocks, functions.expr(is_hidden), "left_anti").drop(_ROW_KEY, _ROW)


def _blocks(key: int, hidden: Ints) -> tuple[Ints, Ints]:
    """Return the keys of the blocks of a file that have hidden rows, and the words of these blocks.

    >>> keys, words = _blocks(256, np.array([1, 3, 64, 5000]))
    >>> keys.tolist(), words[:2].tolist(), np.flatnonzero(words).tolist()
    ([256, 260], [10, 1], [0, 1, 30])
    """
    numbers, starts = np.unique(hidden >> 6, return_index=True)
    bits = np.uint64(1) << (hidden & 63).astype(np.uint64)
    found, blocks = np.unique(numbers // _WIDTH, return_inverse=True)
    words = np.zeros(len(found) * _WIDTH, np.uint64)
    if len(bits):
        words[blocks * _WIDTH + numbers % _WIDTH] = np.bitwise_or.reduceat(bits, starts)
    return (found.astype(np.uint64) | np.uint64(key)).view(np.int64), words.view(np.int64)


def _bytes_of(rows: DataFrame) -> int:
    """Return the bytes of the files of a DataFrame, as its storage says."""
    relation: Any = rows._jdf.queryExecution().analyzed()
    return int(relation.relation().location().sizeInBytes())


def _uris(spark: SparkSession, paths: Sequence[str]) -> Iterator[str]:
    """Yield paths of one file system as ``_metadata.file_path`` has them."""
    of_hadoop: Any = spark.sparkContext._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
    files = None
    for path in paths:
        plain = of_hadoop(path)
        files = files or plain.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        yield str(of_hadoop(files.makeQualified(plain).toString()).toUri().toString())
