"""A table that is a directory of ORC, Parquet or Avro files; its commit is the exchange of two directories."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from mutator.bridge.contract import Batches, BridgeFile, Partition, StagedRows, Work, files_of
from mutator.bridge.table_files import ProbedFile, list_files, milliseconds, probe_files, united
from mutator.bridge.text_dataset import make_state, output_dialect, spec_of, target_of
from mutator.bridge.write import seal, write_table
from mutator.dataset import manifest
from mutator.dataset.checksum import of_file
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_content import FileContent
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import State
from mutator.engine.each import Each, checked, guarded
from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.errors.exceptions import suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.frames.file_rows import FileRange, read_range
from mutator.rules.file_names import first_few, is_hidden
from mutator.storage import link_or_copy, located_to_write, storage_for, walk

_WORK = posixpath.join(manifest.DIRECTORY, "work")  # where tasks write
_PROBED_AT_ONCE = 1 << 10  # files that a task probes


@dataclass(frozen=True)
class StagedDirectory:
    """A directory that will take the place of the table's."""

    place: str  # its path
    files: tuple[BridgeFile, ...]  # those of the table once it is committed
    rows: int  # number of rows written
    before: tuple[BridgeFile, ...]  # those of the table when it was staged

    def record(self) -> dict[str, Any]:
        """Return the directory as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> StagedDirectory:
        """Return the directory that a record describes.

        >>> staged = StagedDirectory("/t.new", (BridgeFile("", "/t/1.orc", 3, 0),), 1, ())
        >>> StagedDirectory.of(staged.record()) == staged
        True
        """
        return cls(record["place"], files_of(record["files"]), record["rows"], files_of(record["before"]))


class PathTable:
    """The table at a path; implements ``contract.Table``."""

    def __init__(self, path: str, each: Each, codec: str | None = None) -> None:
        """List and probe the files. Raises ConfigError, DataError, StateError.

        codec: of written files, as in ``output.codec``.
        """
        self._codec = codec
        self.given, self._each = without_secrets(path), each
        self._storage, self._path = located_to_write(path)
        self.name = self._path
        self._known = read_manifest(self._storage, self._path)
        self._seen = tuple(list_files(self._storage, self._path))
        steps = [self._seen[at : at + _PROBED_AT_ONCE] for at in range(0, len(self._seen), _PROBED_AT_ONCE)]
        probed = checked(each(steps, _probe)) if len(steps) > 1 else [probe_files(one) for one in steps]
        self._probed = [one for part in probed for one in part]
        if self._known is not None and self._is_as(self._known, self._seen):
            spec = self._known.spec
            self.schema, self.format = FILE_FORMATS[spec["format"]].stored(spec).schema, spec["format"]
            self.partition_fields = tuple(spec.get("partitioned by", ()))
            parts = {part.path: part for part in self._known.files}
            for number, one in enumerate(self._probed):
                part = parts[posixpath.relpath(one.file.path, self._path)]
                self._probed[number] = replace(one, checksum=part.checksum, rows=part.rows)
            return
        if not self._seen:
            what = "has no data files, so that nothing says which fields it has"
            raise error("table.place", path=self._path, why=what, cure="write one, if it has no rows")
        formats = sorted({one.format for one in self._probed})
        if len(formats) > 1:
            what = f"the table has files of several formats ({', '.join(formats)})"
            raise error("format", path=self._path, what=what, cure="remove the files that do not belong")
        self.format = formats[0]
        self.schema, self.partition_fields = united(self._probed, self._path)

    def _is_as(self, known: State, files: Sequence[BridgeFile]) -> bool:
        """Return whether the files are those of the manifest; other programs that write to the table do not update it.

        A file that is newer than the manifest is another file even if it has the same size: the manifest came last.
        """
        entry = self._storage.stat(posixpath.join(self._path, manifest.PATH))
        if entry is None or any(one.modified > milliseconds(entry) for one in files):
            return False
        there = {(posixpath.relpath(one.path, self._path), one.bytes) for one in files}
        return there == {(part.path, part.bytes) for part in known.files}

    def adopt(self, schema: Any) -> None:
        """Adopt another schema, as files of this format store it; all files will be rewritten."""
        self.schema = output_dialect(schema, self.format)[0]

    def files(self) -> tuple[BridgeFile, ...]:
        """Return the files that are there now."""
        return tuple(list_files(self._storage, self._path))

    def check_replaceable(self) -> None:
        """Raise ConfigError if directories cannot be swapped here, or if the table is a master of mutator."""
        # Swapping a directory with itself changes nothing, and shows whether the storage can swap at all.
        if not (self._storage.renames and self._storage.swap(self._path, self._path)):
            why = "here no directory can take the place of another in one step, so that a kill could leave no table"
            cure = "use a table of the metastore, or import to a new directory"
            raise error("table.place", path=self._path, why=why, cure=cure)
        if self._known is not None and self._known.spec["key"].get("fields") != []:
            why = "is a master of mutator itself"
            raise error("table.place", path=self._path, why=why, cure="merge into it with mutator run")
        output_dialect(self.schema, self.format, codec=self._codec)

    def _check_seen(self) -> None:
        if self.files() != self._seen:
            raise error("table.changed", table=self._path, what="was looked at")

    def export(self, work: Work) -> list[Any]:
        """Apply a function to the rows of each range of the files."""
        self._check_seen()
        ranges = [file_range for file in self._probed for file_range in file.ranges()]
        return self._each(ranges, partial(_export, work, self.schema))

    def stage(
        self,
        ranges: Sequence[FileRange],
        read: Callable[[FileRange], Batches],
        run: str,
        partitions: Sequence[Partition] | None,
    ) -> StagedRows:
        """Write a new directory beside the table; files of unchanged partitions are linked or copied."""
        self._check_seen()
        staged = self._staging(run)
        self._storage.make_directory(staged)
        failpoint("bridge.table.created")
        stored, dialect = output_dialect(self.schema, self.format)
        staying = [] if partitions is None else self._staying(set(partitions))
        carried = checked(self._each(staying, partial(_carry, staged, self._path)))
        # Files of failed attempts stay in there, and are removed with it.
        work = posixpath.join(staged, _WORK)
        self._storage.make_directory(work)
        target = target_of(work, self.format, self.schema, self.partition_fields, run, self._codec)
        made = write_table(self._each, target, ranges, read, partitions)
        for directory in sorted({posixpath.dirname(one.path) for one in made}):
            self._storage.make_directory(posixpath.join(staged, directory).rstrip("/"))
        for one in made:
            self._storage.rename_new(posixpath.join(work, one.path), posixpath.join(staged, one.path))
        self._storage.remove(work)
        failpoint("bridge.files.moved")
        self._copy_foreign(self._path, staged)
        spec = spec_of(self.format, stored, dialect, self.partition_fields)
        for directory in sorted({posixpath.dirname(one.path) for one in walk(staged)}):
            self._storage.sync(directory)
        seal(self._storage, staged, make_state(run, spec, [*carried, *made]))
        failpoint("bridge.table.written")
        files = tuple(
            replace(one, path=posixpath.join(self._path, posixpath.relpath(one.path, staged)))
            for one in list_files(self._storage, staged)
        )
        rows = sum(one.rows for one in made)
        return StagedRows(tuple(sorted(files)), rows, StagedDirectory(staged, files, rows, self._seen).record())

    def _copy_foreign(self, directory: str, target: str) -> None:
        """Link or copy the files in the table's directories that are not its data: other programs own them."""
        for entry in self._storage.entries(directory):
            name = posixpath.join(target, entry.name)
            if entry.type == "directory" and entry.path != posixpath.join(self._path, manifest.DIRECTORY):
                self._copy_foreign(entry.path, name)
            # Checksums (.crc) that Spark writes beside a file go with the file.
            elif entry.type == "file" and _is_foreign(entry.path, self._path) and entry.name != SUCCESS:
                self._storage.make_directory(target)
                link_or_copy(entry.path, name)

    def _staging(self, run: str) -> str:
        directory, name = posixpath.split(self._path)
        return posixpath.join(directory, f".{name}.bridge-{run}")

    def _staying(self, gone: set[Partition]) -> list[ProbedFile]:
        return [one for one in self._probed if tuple(value for _, value in one.file.values) not in gone]

    def commit(self, record: Mapping[str, Any]) -> None:
        """Swap the staged directory with the table's."""
        staged = StagedDirectory.of(record)
        if not self._storage.swap(staged.place, self._path):
            self._storage.remove(staged.place)
            why = "its file system cannot exchange two directories in one step, so that a kill could leave no table"
            cure = "use a table of the metastore, or import to a new directory"
            raise error("table.place", path=self._path, why=why, cure=cure)
        failpoint("bridge.table.exchanged")
        before, there = self._replaced(staged)
        if before != there:  # written to since the last check: swap back
            self._storage.swap(staged.place, self._path)
            raise error("table.changed", table=self._path, what="was replaced")

    def _replaced(self, staged: StagedDirectory) -> tuple[set[Any], set[Any]]:
        """Return the files of the directory that was the table: those known when it was staged, and those there now."""
        if self._storage.stat(staged.place) is None:
            return set(), set()

        def state(files: Sequence[BridgeFile], root: str) -> set[Any]:
            return {(posixpath.relpath(one.path, root), one.bytes, one.modified) for one in files}

        there = list_files(self._storage, staged.place)
        return state(staged.before, self._path), state(there, staged.place)

    def discard(self, run: str) -> None:
        """Remove the directory that was staged."""
        self._storage.remove(self._staging(run))

    def retire(self, record: Mapping[str, Any]) -> None:
        """Remove the directory that was the table; raises StateError if it has new files."""
        staged = StagedDirectory.of(record)
        before, there = self._replaced(staged)
        if there - before:
            others = sorted(name for name, _, _ in there - before)
            raise error("table.left", path=staged.place, files=first_few(others))
        self._storage.remove(staged.place)


def _is_foreign(path: str, root: str) -> bool:
    """Return whether a file is hidden from readers of a table, or is in a hidden directory."""
    names = posixpath.relpath(path, root).split("/")
    return any(map(is_hidden, names)) and not names[-1].endswith(".crc")


def _probe(files: Sequence[BridgeFile], number: int, attempt: int) -> Any:
    return guarded(probe_files, files)


def _export(work: Work, schema: Any, file_range: FileRange, number: int, attempt: int) -> Any:
    return guarded(lambda: work(read_range(file_range, schema), number, attempt))


def _carry(staged: str, path: str, one: ProbedFile, number: int, attempt: int) -> Any:
    return guarded(_carried, staged, path, one)


def _carried(staged: str, path: str, one: ProbedFile) -> FileEntry:
    """Link or copy a file into the staged directory; return its entry for the manifest."""
    storage, name = storage_for(staged), posixpath.relpath(one.file.path, path)
    target = posixpath.join(staged, name)
    storage.make_directory(posixpath.dirname(target))
    with suppressed("storage.exists"):  # another attempt made the same, complete file
        link_or_copy(one.file.path, target)
    content = FileContent(one.file.path, one.file.bytes)
    digest = one.checksum
    if digest is None:
        digest = of_file(target, None)
    rows = one.rows if one.rows is not None else FILE_FORMATS[one.format].count(content, Dialect())
    partition = dict(one.file.values)
    return FileEntry(path=name, bucket=None, rows=rows, bytes=one.file.bytes, checksum=digest, partition=partition)
