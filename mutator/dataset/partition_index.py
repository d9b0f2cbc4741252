"""The partitions of a master and their files.

A partition is identified by its directory, relative to the dataset: ``store_id=12/create_date=2026-01-31``. Its
tombstones and side files are in directories of the same name below ``_mutator/``. If a record ID is unique in the
whole table, tombstones of records that never were in a partition have the directory "".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.gc_pause import paused
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.partition_fields import PartitionField, parse_fields

SPEC = "partitions"  # in the specification of a manifest
EARLIER = "earlier"  # earlier forms of files that were not rewritten since
IN_PATH = "in path"  # fields that the files have in the names of their directories alone
_FORM = ("format", "schema", IN_PATH, "csv", "escaped")  # members of a specification that describe the files


@dataclass(frozen=True)
class Files:
    """The files of a partition."""

    data: tuple[FileEntry, ...] = ()
    tombstones: tuple[FileEntry, ...] = ()
    orders: tuple[FileEntry, ...] = ()  # the sequences of its rows

    @property
    def parts(self) -> tuple[FileEntry, ...]:
        """All files."""
        return (*self.data, *self.tombstones, *self.orders)

    @property
    def buckets(self) -> int | None:
        """The number of buckets; None if no file of the partition has it."""
        return next((part.buckets for part in self.parts), None)

    @property
    def bytes(self) -> int:
        """The bytes of its data files."""
        return sum(part.bytes for part in self.data)


def stored_fields(spec: Mapping[str, Any]) -> tuple[PartitionField, ...]:
    """Return the partition fields of a dataset; their sources are fields of the stored rows. Empty if unpartitioned."""
    return parse_fields(spec[SPEC]["by"]) if SPEC in spec else ()


@paused()
def by_partition(parts: Iterable[FileEntry]) -> dict[str, Files]:
    """Return the files of each partition, by its directory, in the given order. parts: of a dataset."""
    found: dict[str, tuple[list[FileEntry], list[FileEntry], list[FileEntry]]] = {}
    for part in parts:
        group = {DATA: 0, TOMBSTONES: 1, "order": 2}.get(part.role)
        if group is not None:
            found.setdefault(part.directory, ([], [], []))[group].append(part)
    return {directory: Files(*map(tuple, found[directory])) for directory in sorted(found)}


def form_of(spec: Mapping[str, Any], form: int = 0) -> dict[str, Any]:
    """Return the members of a specification that describe the files of a form, as a ``FileEntry`` has its number."""
    members = spec[EARLIER][-1 - form] if form else spec
    return {name: members[name] for name in _FORM if name in members}


def earlier_forms(spec: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the earlier forms of a specification by their numbers, which are below 0."""
    return {-1 - index: form_of(spec, -1 - index) for index in range(len(spec.get(EARLIER, ())))}
