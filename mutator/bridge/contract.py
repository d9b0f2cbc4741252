"""The contract between the bridge and a table in another storage format.

The live files of a table are never overwritten. ``stage`` writes new files elsewhere; ``commit`` makes them the table's
in one step, so every reader sees either the old table or the new one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.partition_paths import values_of

Partition = tuple[str | None, ...]  # a value for each partition field, as text; None is NULL
Batches = Iterator[Any]  # of pa.RecordBatch
Work = Callable[[Batches, int, int], dict[str, Any]]  # (rows, number of the task, attempt) -> result


@dataclass(frozen=True, order=True)
class BridgeFile:
    """A live data file of a table."""

    partition: str  # "dt=2026-01-31/store=7", escaped as Hive does; "" for a table without partitions
    path: str
    bytes: int
    modified: int  # milliseconds since 1970, UTC

    @property
    def values(self) -> tuple[tuple[str, str | None], ...]:
        """The partition fields and their values, as text; None is NULL."""
        return values_of(self.partition) if self.partition else ()


@dataclass(frozen=True)
class StagedRows:
    """The rows that were written where no reader sees them, as ``Table.stage`` returns them."""

    files: tuple[BridgeFile, ...]  # of the table once it is committed, sorted
    rows: int  # number of rows written
    record: Mapping[str, Any]  # JSON values, for ``commit`` and ``retire``


def files_of(found: Sequence[Mapping[str, Any]]) -> tuple[BridgeFile, ...]:
    """Return the files of a record, as ``asdict`` made them."""
    return tuple(sorted(BridgeFile(**one) for one in found))


class BridgeTable(Protocol):
    """A table of a file system or a metastore."""

    name: str  # canonical path or name
    given: str  # as the user spells it
    format: str  # of its files: a key of FILE_FORMATS
    schema: Any  # pa.Schema, the partition fields last
    partition_fields: tuple[str, ...]

    def adopt(self, schema: Any) -> None:
        """Adopt the schema of rows that will be staged. Raises MutatorError if the table cannot have it."""

    def files(self) -> tuple[BridgeFile, ...]:
        """Return all live files: the state of the table."""

    def check_replaceable(self) -> None:
        """Raise ConfigError if the table cannot be replaced in one step."""

    def export(self, work: Work) -> list[dict[str, Any]]:
        """Apply a function to all rows, in tasks; return its results. The batches have the table's schema."""

    def stage(
        self, ranges: Sequence[Any], read: Callable[[Any], Batches], run: str, partitions: Sequence[Partition] | None
    ) -> StagedRows:
        """Write rows where no reader sees them.

        ranges, read: a task's input, and its reader. partitions: the ones to replace; rows of others are left out, and
        a partition without rows is removed. None: the whole table.
        """

    def commit(self, record: Mapping[str, Any]) -> None:
        """Make the staged files the table's, in one step."""

    def discard(self, run: str) -> None:
        """Remove the files that a run staged or began to stage; live files stay."""

    def retire(self, record: Mapping[str, Any]) -> None:
        """Remove the files that a commit replaced, unless they are live again."""
