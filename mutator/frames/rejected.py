"""The rejected rows of a run: the first ones for people, and all of them as tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mutator.frames.dataset import to_pandas, to_polars
from mutator.storage import located, read_file

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from mutator.frames.scratch import Scratch

SCHEMA = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("row", pa.binary(), nullable=False),
    ]
)
_LINE = re.compile(rb"(?s)(.*?)\t(\d+)\t(\d+)\t(.*?)\t(.*)")


class Rejects(dict[str, list[Mapping[str, Any]]]):
    """The rejected rows of a run: ``rejects["feed"]`` and ``rejects["master"]`` have the first ones.

    The tables have all of them, with the columns file, offset, line, reason and row (the bytes of the row; JSON where
    the file is not text). A dry run writes no file of rejects: its tables have only the first ones, with escapes for
    bytes that are not UTF-8.
    """

    def __init__(
        self,
        first: Mapping[str, list[Mapping[str, Any]]] | Iterable[tuple[str, list[Mapping[str, Any]]]] = (),
        path: str | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        """first: side to its first rejected rows. path: of the file with all of them, if there is one."""
        super().__init__(first)
        self.path, self._scratch = path, scratch

    def to_arrow(self) -> pa.Table:
        """Return the rejected rows as a pa.Table."""
        return pa.Table.from_pylist(list(self._rows()), SCHEMA)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rejected rows as a list of mappings of column names to Python values."""
        return list(self._rows())

    def to_pandas(self) -> pd.DataFrame:
        """Return the rejected rows as a pandas DataFrame. Raises ConfigError where pandas is not installed."""
        return to_pandas(self.to_arrow(), "to_pandas()")

    def to_polars(self) -> pl.DataFrame:
        """Return the rejected rows as a Polars DataFrame. Raises ConfigError where Polars is not installed."""
        return to_polars(self.to_arrow(), "to_polars()")

    def to_spark(self, session: SparkSession) -> DataFrame:
        """Return the rejected rows as a Spark DataFrame."""
        from mutator.engine.spark.frames import frame_of_table

        return frame_of_table(session, self.to_arrow())

    def _rows(self) -> Iterator[dict[str, Any]]:
        if self.path is None:
            for rows in self.values():
                for one in rows:
                    known = {name: one[name] for name in ("offset", "line", "reason")}
                    yield {**known, "file": one["path"], "row": one["row"].encode("utf-8", "surrogateescape")}
            return
        yield from parsed_rows(read_file(located(self.path)[1]))


def parsed_rows(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of rejected rows, with the columns of ``SCHEMA``."""
    for path, offset, number, reason, row in _lines(content):
        yield {
            "file": path.decode("utf-8", "backslashreplace"),
            "offset": int(offset),
            "line": int(number),
            "reason": reason.decode("utf-8", "backslashreplace"),
            "row": row,
        }


def _lines(content: bytes) -> Iterator[tuple[bytes, ...]]:
    """Yield the parts of each line; a row of CSV may have line feeds within quotes."""
    found: list[bytes] = []
    for line in content.removesuffix(b"\n").split(b"\n"):
        if _LINE.match(line) is None and found:
            found[-1] += b"\n" + line
        else:
            found.append(line)
    for line in found:
        parts = _LINE.fullmatch(line)
        if parts is not None:
            yield parts.groups()
