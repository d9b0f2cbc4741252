"""What the cleanings of a table say: which versions are left, and which files they name to be removed.

A cleaning is a version. It names files in a list of its own, ``_mutator/table/cleaned/…``, because there may be a
million of them; they are removed later, and the list last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Reasons for which a file is named.
REPLACED = "replaced"  # a version has removed it, and all versions that had it are gone; its key index, too
GONE = "version gone"  # its version is gone: version index, rejected rows
CHECKPOINT = "checkpoint"  # of a version that is gone
STRAY = "no version"  # of a run that made no version, and is given up
NAMED = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),  # relative to the table
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("last", pa.int64()),  # the last version that needed it; null: none did
    ]
)


@dataclass(frozen=True)
class NamedFiles:
    """A list of files to be removed, which is a file itself. path: relative to the table."""

    path: str
    bytes: int  # of the list
    checksum: str


@dataclass(frozen=True)
class Left:
    """Which versions are left."""

    earliest: int = 0  # versions below it are gone, but for those of ``bases``
    # Version -> name of the checkpoint that it begins with: ``earliest``, and the tagged versions below it.
    bases: Mapping[int, str] = field(default_factory=dict)
    # (version that is gone, path) of files that name withdrawn rows: a history needs them as long as it finds the rows.
    kept: tuple[tuple[int, str], ...] = ()

    def has(self, number: int) -> bool:
        """Return whether a version that existed is still there."""
        return number >= self.earliest or number in self.bases


@dataclass(frozen=True)
class Cleaned:
    """What a cleaning says."""

    left: Left
    before: Left  # what was left before it
    named: NamedFiles
    files: int  # that it names
    bytes: int  # of these
    done: tuple[int, ...] = ()  # earlier cleanings whose files are removed, or are named again


@dataclass(frozen=True)
class Waiting:
    """Files that a cleaning has named, and that may not have been removed yet."""

    committed: str  # time of the cleaning, ISO 8601
    earliest: int  # version after it
    before: Left
    named: NamedFiles
    files: int


@dataclass(frozen=True)
class Cleaning:
    """What all cleanings up to a version say."""

    left: Left = field(default_factory=Left)
    waiting: Mapping[int, Waiting] = field(default_factory=dict)  # cleaning -> files that it names

    @property
    def earliest(self) -> int:
        """The earliest version without a gap after it."""
        return self.left.earliest

    def after(self, number: int, committed: str, cleaned: Cleaned) -> Cleaning:
        """Return what holds after another cleaning. number, committed: of its version."""
        waiting = {earlier: one for earlier, one in self.waiting.items() if earlier not in cleaned.done}
        own = Waiting(committed, cleaned.left.earliest, cleaned.before, cleaned.named, cleaned.files)
        return Cleaning(cleaned.left, {**waiting, number: own})


def cleaned_members(cleaned: Cleaned) -> dict[str, Any]:
    """Return what a cleaning says as the members of a JSON document."""
    left, before = _left_members(cleaned.left), _left_members(cleaned.before)
    return {**vars(cleaned), "left": left, "before": before, "named": vars(cleaned.named)}


def cleaned_of(members: Mapping[str, Any]) -> Cleaned:
    """Undo ``cleaned_members``. Raises KeyError, TypeError or ValueError for other members."""
    found = Cleaned(**members)
    left, before = _left_of(members["left"]), _left_of(members["before"])
    return replace(found, left=left, before=before, named=NamedFiles(**members["named"]), done=tuple(found.done))


def cleaning_members(cleaning: Cleaning) -> dict[str, Any]:
    """Return what all cleanings say as the members of a JSON document."""
    waiting = [
        {"cleaning": number, **vars(one), "before": _left_members(one.before), "named": vars(one.named)}
        for number, one in cleaning.waiting.items()
    ]
    return {"left": _left_members(cleaning.left), "waiting": waiting}


def cleaning_of(members: Mapping[str, Any]) -> Cleaning:
    """Undo ``cleaning_members``. Raises KeyError, TypeError or ValueError for other members."""
    waiting = {}
    for one in members["waiting"]:
        number, before, named = one.pop("cleaning"), _left_of(one["before"]), NamedFiles(**one["named"])
        waiting[number] = Waiting(**{**one, "before": before, "named": named})
    return Cleaning(_left_of(members["left"]), waiting)


def _left_members(left: Left) -> dict[str, Any]:
    return {**vars(left), "bases": [[number, name] for number, name in sorted(left.bases.items())]}


def _left_of(members: Mapping[str, Any]) -> Left:
    kept = tuple((number, path) for number, path in members["kept"])
    return Left(members["earliest"], dict(members["bases"]), kept)


def written_list(files: Any) -> bytes:
    """Return the bytes of a list of named files. files: pa.Table of ``NAMED``."""
    sink = pa.BufferOutputStream()
    pq.write_table(files, sink, compression="zstd", use_dictionary=["reason", "last"])
    return bytes(sink.getvalue())


def read_list(content: bytes) -> Any:
    """Return the named files of a list, a pa.Table of ``NAMED``. Raises ValueError for other bytes."""
    try:
        return pq.ParquetFile(pa.BufferReader(content)).read(NAMED.names).cast(NAMED)
    except (pa.ArrowException, OSError, KeyError) as fault:
        raise ValueError(str(fault)) from None
