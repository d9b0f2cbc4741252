"""What the bridge asks of a table in another storage format: files that it finds, and a step that replaces them.

A table is never written to where it lies. ``stage`` writes new files somewhere else, and says where; ``commit`` makes
them the table's in one step, so that every reader sees the old table or the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Batches", "Partition", "Table", "TableFile", "Work", "files_of"]

Partition = tuple[str | None, ...]  # a value for each partition field, as text; None is NULL
Batches = Iterator[Any]  # of pa.RecordBatch
Work = Callable[[Batches, int, int], dict[str, Any]]  # (rows, number of the task, attempt) -> receipt


@dataclass(frozen=True, order=True)
class TableFile:
    """A data file of a table, as it lies there."""

    partition: str  # "dt=2026-01-31/store=7", escaped as Hive does; "" where there are none
    path: str
    bytes: int
    modified: int  # milliseconds since 1970, UTC


def files_of(found: Sequence[Mapping[str, Any]]) -> tuple[TableFile, ...]:
    """Read the files of a record."""
    return tuple(sorted(TableFile(**one) for one in found))


class Table(Protocol):
    """A table, wherever it is."""

    name: str  # the one spelling of it
    given: str  # as the user calls it
    kind: str  # of its files: a key of ``formats.kinds.FILE_FORMATS``
    schema: Any  # pa.Schema, the partition fields last
    partition_fields: tuple[str, ...]

    def adopt(self, schema: Any) -> None:
        """Take the schema of rows that will be staged. Raises DataError where the table cannot have it."""

    def files(self) -> tuple[TableFile, ...]:
        """Return all live files: the state of the table."""

    def check_replaceable(self) -> None:
        """Raise ConfigError where the table cannot be replaced in one step."""

    def export(self, work: Work) -> list[dict[str, Any]]:
        """Apply a function, in tasks, to batches of all rows; return what it returned. Its schema is ``schema``."""

    def stage(
        self, pieces: Sequence[Any], read: Callable[[Any], Batches], run: str, partitions: Sequence[Partition] | None
    ) -> Mapping[str, Any]:
        """Write rows where no reader sees them; return a record of it, for JSON.

        pieces, read: what a task reads, and how. partitions: those that are replaced; rows of others are passed over,
        and one without rows is gone then. None: the whole table. The record's ``files`` are what ``files`` returns once
        it is committed, its ``rows`` how many were written.
        """

    def commit(self, record: Mapping[str, Any]) -> None:
        """Make what was staged the table's, in one step."""

    def discard(self, run: str) -> None:
        """Remove what a run has staged, and what it has begun to; nothing that the table has now."""

    def retire(self, record: Mapping[str, Any]) -> None:
        """Remove the files that a commit has replaced, unless the table has them again."""
