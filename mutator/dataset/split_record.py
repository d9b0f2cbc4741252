"""The record of a split feed, ``_mutator/partition.json``: the parts of each feed file, with row counts.

A directory without it is not yet a split feed, as a directory without a manifest is not yet a dataset. It ends with a
checksum, too.
"""

from typing import Any

from mutator.dataset import checksummed_json
from mutator.dataset.commits import RUN, Commit
from mutator.dataset.file_entry import FileEntry, unsafe_path
from mutator.dataset.manifest import side_files, side_members
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass

FORMAT_VERSION = 1
PATH = "_mutator/partition.json"
_PART = ("path", "rows", "bytes", "checksum")  # members of a part


@dataclass(frozen=True)
class SplitFile:
    """One feed file that was split."""

    source: str
    name: str  # also of each of its parts
    bytes: int
    checksum: str
    rows: int  # the rows of its parts and the rejected rows
    rejected: int
    ignored: int  # blank lines and headers
    parts: tuple[FileEntry, ...]  # its rows of each partition: files of the same name in their directories


@dataclass(frozen=True)
class SplitRecord:
    """The files of a split feed and their origin."""

    commit: Commit  # that made it
    by: str  # as ``partition_fields.text_of`` writes it
    files: tuple[SplitFile, ...]
    beside: tuple[FileEntry, ...]  # rejected rows

    def parts(self) -> tuple[FileEntry, ...]:
        """Return every file of the split feed but the record itself."""
        return (*self.split_parts(), *self.beside)

    def rows_by_partition(self) -> dict[str, int]:
        """Return the number of rows in each partition, by directory."""
        found: dict[str, int] = {}
        for part in self.split_parts():
            found[part.directory] = found.get(part.directory, 0) + part.rows
        return dict(sorted(found.items()))

    def split_parts(self) -> tuple[FileEntry, ...]:
        """Return the files in the directories of partitions."""
        return tuple(part for file in self.files for part in file.parts)


def dump(record: SplitRecord) -> bytes:
    """Return a record as JSON that ends with a checksum."""
    commit = record.commit
    members: dict[str, Any] = {"commit": commit.id, "run": commit.run, "committed": commit.committed, "by": record.by}
    members["files"] = [
        {**vars(file), "parts": [{name: getattr(part, name) for name in _PART} for part in file.parts]}
        for file in record.files
    ]
    members["beside"] = [side_members(part) for part in record.beside]
    return checksummed_json.dump("mutator split feed", FORMAT_VERSION, members)


def parse(data: bytes, path: str) -> SplitRecord:
    """Parse a record. Raises StateError if it is damaged or newer than this program."""
    try:
        document: dict[str, Any] = checksummed_json.parse(data, "mutator split feed", FORMAT_VERSION)
        document["files"] = tuple(
            SplitFile(**{**file, "parts": tuple(FileEntry(**part) for part in file["parts"])})
            for file in document["files"]
        )
        document["beside"] = side_files(document["beside"])
        own = {name: document.pop(name) for name in ("run", "committed")}
        record = SplitRecord(Commit(number=0, id=document.pop("commit"), action=RUN, **own), **document)
    except checksummed_json.Newer as fault:
        raise error("split.damaged", path=path, why=f"its format has version {fault.version}") from None
    except (TypeError, ValueError, KeyError) as fault:
        raise error("split.damaged", path=path, why=fault) from None
    unsafe = unsafe_path([part.path for part in record.parts()])
    if unsafe is not None:
        raise error("split.damaged", path=path, why=f"it names a file outside of the directory: {unsafe}")
    return record
