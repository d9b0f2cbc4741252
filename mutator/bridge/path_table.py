"""A table that is a directory of ORC, Parquet or Avro files; its commit is the exchange of two directories."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from operator import attrgetter
from typing import Any

from mutator.bridge.contract import Batches, Partition, TableFile, Work, files_of
from mutator.bridge.table_files import Found, found_files, milliseconds, probe_files, united
from mutator.bridge.tasks import Piece, read_piece
from mutator.bridge.text_dataset import make_manifest, output_dialect, spec_of
from mutator.bridge.write import seal, write_table
from mutator.dataset import manifest
from mutator.dataset.checksum import of_blocks
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_content import FileContent
from mutator.dataset.manifest import DataFile, Manifest
from mutator.engine.each import Each, checked, guarded
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.errors.redact import without_secrets
from mutator.formats.files.contract import Dialect
from mutator.formats.files.registry import FILE_FORMATS
from mutator.rules.file_names import first_few, is_hidden
from mutator.rules.partition_paths import values_of
from mutator.storage import Storage, absolute, blocks, storage_for, walk, writable_storage_for

__all__ = ["PathTable"]

_WORK = posixpath.join(manifest.DIRECTORY, "work")  # where tasks write
_TASKS = 1 << 10  # files that a task looks into


class PathTable:
    """The table at a path; the contract is ``table.Table``."""

    def __init__(self, path: str, each: Each, codec: str | None = None) -> None:
        """Look at what is there. Raises ConfigError, DataError, StateError.

        codec: of files that are written, as ``output.codec`` has it.
        """
        self._codec = codec
        self.given, path = without_secrets(path), absolute(path)
        self._storage, self._each = writable_storage_for(path), each
        self.name = self._path = self._storage.resolve(path)
        self._known = read_manifest(self._storage, self._path)
        self._seen = tuple(found_files(self._storage, self._path))
        steps = [self._seen[at : at + _TASKS] for at in range(0, len(self._seen), _TASKS)]
        looked = checked(each(steps, _look)) if len(steps) > 1 else [probe_files(one) for one in steps]
        self._found = [one for part in looked for one in part]
        if self._known is not None and self._is_as(self._known, self._seen):
            spec = self._known.spec
            self.schema, self.kind = FILE_FORMATS[spec["format"]].stored(spec).schema, spec["format"]
            self.partition_fields = tuple(spec.get("partitioned by", ()))
            parts = {part.path: part for part in self._known.files}
            for number, one in enumerate(self._found):
                part = parts[posixpath.relpath(one.file.path, self._path)]
                self._found[number] = replace(one, checksum=part.checksum, rows=part.rows)
            return
        if not self._seen:
            what = "has no data files, so that nothing says which fields it has"
            raise error("table.place", path=self._path, why=what, cure="write one, if it has no rows")
        kinds = sorted({one.kind for one in self._found})
        if len(kinds) > 1:
            what = f"the table has files of several formats ({', '.join(kinds)})"
            raise error("format", path=self._path, what=what, cure="take out what is not meant")
        self.kind = kinds[0]
        self.schema, self.partition_fields = united(self._found, self._path)

    def _is_as(self, known: Manifest, files: Sequence[TableFile]) -> bool:
        """Tell whether the files are those of the manifest; a table that others write to may have lost its meaning.

        One that was written after the manifest, which came last, is another file, even if it has the same size.
        """
        entry = self._storage.stat(posixpath.join(self._path, manifest.PATH))
        if entry is None or any(one.modified > milliseconds(entry) for one in files):
            return False
        there = {(posixpath.relpath(one.path, self._path), one.bytes) for one in files}
        return there == {(part.path, part.bytes) for part in known.files}

    def adopt(self, schema: Any) -> None:
        """Take another schema, as files of this kind hold it; all files are written anew then."""
        self.schema = output_dialect(schema, self.kind)[0]

    def files(self) -> tuple[TableFile, ...]:
        """Return the files as they lie there now."""
        return tuple(found_files(self._storage, self._path))

    def check_replaceable(self) -> None:
        """Raise ConfigError where directories cannot be exchanged, or this one is a master of ours."""
        # Of a directory with itself, which changes nothing: some storages can exchange none at all.
        if not (self._storage.renames and self._storage.swap(self._path, self._path)):
            why = "here no directory can take the place of another in one step, so that a kill could leave no table"
            cure = "use a table of the metastore, or import to a new directory"
            raise error("table.place", path=self._path, why=why, cure=cure)
        if self._known is not None and self._known.spec["key"].get("fields") != []:
            why = "is a master of mutator itself"
            raise error("table.place", path=self._path, why=why, cure="merge into it with mutator run")
        old = next((one.file.path for one in self._found if one.int96), None)
        if old is not None:
            why = "has timestamps as INT96, which Spark reads in its time zone, and no new file would have"
            cure = "use the table of the metastore, or have Spark write it with parquet.outputTimestampType set to "
            raise error("table.place", path=old, why=why, cure=cure + "TIMESTAMP_MICROS")
        output_dialect(self.schema, self.kind, codec=self._codec)

    def _check_seen(self) -> None:
        if self.files() != self._seen:
            raise error("table.changed", table=self._path, what="was looked at")

    def export(self, work: Work) -> list[Any]:
        """Apply a function to the rows of each piece of the files."""
        self._check_seen()
        pieces = [piece for one in self._found for piece in one.pieces()]
        return self._each(pieces, partial(_export, work, self.schema))

    def stage(
        self,
        pieces: Sequence[Piece],
        read: Callable[[Piece], Batches],
        run: str,
        partitions: Sequence[Partition] | None,
    ) -> Mapping[str, Any]:
        """Write a whole directory beside the table; files of partitions that stay are linked, or copied."""
        self._check_seen()
        place = self._place(run)
        self._storage.make_directory(place)
        failpoint("bridge.table.created")
        held, dialect = output_dialect(self.schema, self.kind)
        staying = [] if partitions is None else self._staying(set(partitions))
        carried = checked(self._each(staying, partial(_carry, place, self._path)))
        # What attempts that do not count have written stays in there, and goes with it.
        work = posixpath.join(place, _WORK)
        self._storage.make_directory(work)
        made = write_table(
            self._each,
            work,
            self.schema,
            self.kind,
            self.partition_fields,
            pieces,
            read,
            run,
            partitions,
            codec=self._codec,
        )
        for directory in sorted({posixpath.dirname(one.path) for one in made}):
            self._storage.make_directory(posixpath.join(place, directory).rstrip("/"))
        for one in made:
            self._storage.rename_new(posixpath.join(work, one.path), posixpath.join(place, one.path))
        self._storage.remove(work)
        failpoint("bridge.files.moved")
        self._take_along(self._path, place)
        written = sorted([*carried, *made], key=attrgetter("path"))
        spec = spec_of(self.kind, held, dialect, self.partition_fields)
        for directory in sorted({posixpath.dirname(one.path) for one in walk(place)}):
            self._storage.sync(directory)
        seal(self._storage, place, make_manifest(run, spec, written, ()))
        failpoint("bridge.table.written")
        files = [asdict(one) for one in found_files(self._storage, place)]
        for members in files:
            members["path"] = posixpath.join(self._path, posixpath.relpath(members["path"], place))
        rows = sum(one.rows for one in made)
        return {"place": place, "files": files, "rows": rows, "before": [asdict(one) for one in self._seen]}

    def _take_along(self, directory: str, target: str) -> None:
        """Take over what is no part of the table and lies in its directories: it is not ours to remove."""
        for entry in self._storage.entries(directory):
            name = posixpath.join(target, entry.name)
            if entry.type == "directory" and entry.path != posixpath.join(self._path, manifest.DIRECTORY):
                self._take_along(entry.path, name)
            # What Spark writes beside a file goes with the file.
            elif entry.type == "file" and _is_strange(entry.path, self._path) and entry.name != SUCCESS:
                self._storage.make_directory(target)
                if not self._storage.link_new(entry.path, name):
                    _copy(self._storage, entry.path, name)

    def _place(self, run: str) -> str:
        directory, name = posixpath.split(self._path)
        return posixpath.join(directory, f".{name}.bridge-{run}")

    def _staying(self, gone: set[Partition]) -> list[Found]:
        def partition(one: Found) -> Partition:
            return tuple(value for _, value in values_of(one.file.partition))

        return [one for one in self._found if partition(one) not in gone]

    def commit(self, record: Mapping[str, Any]) -> None:
        """Exchange the directories."""
        if not self._storage.swap(record["place"], self._path):
            self._storage.remove(record["place"])
            why = "its file system cannot exchange two directories in one step, so that a kill could leave no table"
            cure = "use a table of the metastore, or import to a new directory"
            raise error("table.place", path=self._path, why=why, cure=cure)
        failpoint("bridge.table.exchanged")
        if self._others(record) or self._missing(record):  # at the very last moment: it goes back as it was
            self._storage.swap(record["place"], self._path)
            raise error("table.changed", table=self._path, what="was replaced")

    def _replaced(self, record: Mapping[str, Any]) -> tuple[set[Any], set[Any]]:
        """Return the files of the directory that was the table: as they were known, and as they are."""
        if self._storage.stat(record["place"]) is None:
            return set(), set()

        def state(files: Sequence[TableFile], root: str) -> set[Any]:
            return {(posixpath.relpath(one.path, root), one.bytes, one.modified) for one in files}

        there = found_files(self._storage, record["place"])
        return state(files_of(record["before"]), self._path), state(there, record["place"])

    def _others(self, record: Mapping[str, Any]) -> list[str]:
        before, there = self._replaced(record)
        return sorted(name for name, _, _ in there - before)

    def _missing(self, record: Mapping[str, Any]) -> bool:
        before, there = self._replaced(record)
        return not before <= there

    def discard(self, run: str) -> None:
        """Remove the directory that was staged."""
        self._storage.remove(self._place(run))

    def retire(self, record: Mapping[str, Any]) -> None:
        """Remove the directory that was the table; raises StateError where somebody has written to it since."""
        others = self._others(record)
        if others:
            raise error("table.left", path=record["place"], files=first_few(others))
        self._storage.remove(record["place"])


def _is_strange(path: str, root: str) -> bool:
    """Tell whether a file is hidden from readers of a table, or in a directory that is."""
    names = posixpath.relpath(path, root).split("/")
    return any(map(is_hidden, names)) and not names[-1].endswith(".crc")


def _look(files: Sequence[TableFile], number: int, attempt: int) -> Any:
    return guarded(probe_files, files)


def _export(work: Work, schema: Any, piece: Piece, number: int, attempt: int) -> Any:
    return guarded(lambda: work(read_piece(piece, schema), number, attempt))


def _copy(storage: Storage, path: str, target: str) -> None:
    try:
        with storage.open(path) as source, storage.create_new(target) as stream:
            for block in blocks(source):
                stream.write(block)
    except MutatorError as fault:
        if fault.kind != "storage.exists":
            raise
        raise FileExistsError(target) from None


def _carry(place: str, path: str, one: Found, number: int, attempt: int) -> Any:
    return guarded(_carried, place, path, one)


def _carried(place: str, path: str, one: Found) -> DataFile:
    """Take a file over, and return what the manifest says of it."""
    storage, name = storage_for(place), posixpath.relpath(one.file.path, path)
    target = posixpath.join(place, name)
    storage.make_directory(posixpath.dirname(target))
    with suppress(FileExistsError):  # where another attempt has done it: it is the same file, and whole
        if not storage.link_new(one.file.path, target):
            _copy(storage, one.file.path, target)
    content = FileContent(one.file.path, one.file.bytes)
    digest = one.checksum
    if digest is None:
        with storage.open(target) as stream:
            digest = of_blocks(blocks(stream), None)
    rows = one.rows if one.rows is not None else FILE_FORMATS[one.kind].count(content, Dialect())
    partition = dict(values_of(one.file.partition))
    return DataFile(path=name, bucket=None, rows=rows, bytes=one.file.bytes, checksum=digest, partition=partition)
