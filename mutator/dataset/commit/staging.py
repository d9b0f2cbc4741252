"""Staging: where a run writes before its output is visible, and how other runs see that it is at work.

On a local disk a run stages in a hidden directory beside the output, which the kernel keeps locked while the process
lives. Elsewhere a run first announces itself in a hidden file beside the output, and then looks for other
announcements: of two runs at the same time each sees the other, and at least one gives way. If the announced process
has ended on this machine, its files are litter. Any other announcement stops the run, because that process may still
be at work.

A staged file is counted and checksummed while it is written.
"""

import io
import posixpath
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from mutator.dataset import manifest, split_record
from mutator.dataset.checksum import ChunkedChecksum
from mutator.dataset.commit.process import Owner
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_entry import DATA, FileEntry
from mutator.dataset.split_record import SplitRecord
from mutator.dataset.state import State
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Entry, Storage, entries_of, read_file, read_if_exists, storage_for, walk

Record = State | SplitRecord

SUCCESS = "_SUCCESS"
_SUFFIX = ".json"
_LONG = 3600.0  # seconds after which an unfinished file without its final name is litter
_here: set[str] = set()  # IDs of owners in this process that are at work
WORK = "work"  # where tasks write if files can be moved; removed before anything becomes visible


@contextmanager
def staging(storage: Storage, output: str, run: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a directory that only this process writes to, and the paths of litter that was removed.

    On a storage without renames it is the output itself. At the end its remaining files are removed, unless it is
    unknown whether the output was published. Raises StateError if another run is at work.
    """
    if storage.holds:
        litter = sweep(output)
        failpoint("stage.swept")
        with _held(storage, output, run) as staged:
            yield staged, litter
        return
    mine = _name(output, run) + _SUFFIX
    staged = _name(output, run) if storage.renames else output
    storage.exclusive(output)  # tested before the manifest depends on it
    owner = Owner.this_process(run, 0)
    _here.add(owner.id)
    try:
        with storage.create_new(mine) as stream:
            stream.write(owner.dump())
        failpoint("stage.announced")
        litter = _sweep_announced(storage, output, mine)
        failpoint("stage.swept")
    except MutatorError:
        _here.discard(owner.id)
        with suppress(MutatorError):  # the first fault is the one to report
            storage.remove(mine)
        raise
    try:
        yield staged, litter
    except MutatorError as fault:
        if fault.kind != "publish.uncertain":  # otherwise the next run finds out
            _end(storage, output, staged, mine)
        raise
    except BaseException:
        _end(storage, output, staged, mine)
        raise
    else:
        with suppress(MutatorError):  # it is published, as the next run will see
            storage.remove(mine)
    finally:
        _here.discard(owner.id)


def sweep(output: str) -> tuple[str, ...]:
    """Remove the litter of killed runs beside an output; return its paths. Raises StateError if a run is alive."""
    storage = storage_for(output)
    if not storage.holds:
        return _sweep_announced(storage, output, None)
    removed = []
    for one in _beside(output):
        if one.type != "directory":
            continue
        claim = storage.hold(one.path)
        if claim is None:
            if storage.stat(one.path) is not None:
                raise error("output.busy", path=output, staging=one.path)
            continue
        storage.remove(one.path)
        removed.append(one.path)
    return tuple(removed)


def discard(output: str) -> None:
    """Remove the litter of a run that can never publish; a paused run removes its own when it goes on."""
    storage = storage_for(output)
    if storage.holds:
        with suppressed("output.busy"):
            sweep(output)
        return
    for one in _beside(output):
        storage.remove(one.path)


def announcements(output: str) -> list[str]:
    """Return the paths of the announcements of runs that are at work on an output."""
    return [one.path for one in _beside(output) if one.type == "file" and not _is_begun(one)]


def clear(storage: Storage, output: str, known: Record | None) -> None:
    """Remove files of runs from an output that its record does not name; foreign files are left alone."""
    named = {part.path for part in known.parts()} | {record_path(known), SUCCESS} if known is not None else set()
    if isinstance(known, State) and known.copy is not None:
        named.add(known.copy)
    for path in [*(one.path for one in walk(output)), *storage.unfinished(output)]:
        name = posixpath.relpath(path, output)
        ours = name == SUCCESS or name.startswith(manifest.DIRECTORY + "/") or file_names.is_data_file(name)
        ours = ours or "=" in name.partition("/")[0]  # in a partition, where files may have any name
        if name not in named and ours:
            storage.remove(path)


def published(storage: Storage, output: str) -> Record | None:
    """Return an output's manifest, or record of a split feed; None without one. Raises StateError if damaged."""
    if has_manifest(storage, output):
        return read_manifest(storage, output)
    path = posixpath.join(output, split_record.PATH)
    if storage.stat(path) is None:
        return None
    return split_record.parse(read_file(path), path)


def record_path(known: Record) -> str:
    """Return the path, within an output, of its manifest or record."""
    return split_record.PATH if isinstance(known, SplitRecord) else manifest.PATH


def has_manifest(storage: Storage, output: str) -> bool:
    """Return whether an output has a manifest, damaged or not."""
    return storage.stat(posixpath.join(output, manifest.PATH)) is not None


def _end(storage: Storage, output: str, staged: str, mine: str) -> None:
    """Remove unpublished files, and only then the announcement that shows whose they are."""
    _remove(storage, output, staged)
    storage.remove(mine)


def _remove(storage: Storage, output: str, staged: str) -> None:
    if staged != output:
        storage.remove(staged)
    else:
        clear(storage, output, published(storage, output))


def _sweep_announced(storage: Storage, output: str, mine: str | None) -> tuple[str, ...]:
    ended = []
    for one in _beside(output):
        path = one.path
        if _is_begun(one) and time.time() - one.modified > _LONG:
            storage.remove(path)
        if _is_begun(one) or one.type != "file" or path == mine:
            continue
        content = read_if_exists(path)
        if content is None:
            continue  # the run has just ended
        owner = Owner.parse(content)
        if owner is None or not (owner.has_ended() or (owner.is_this_process() and owner.id not in _here)):
            raise error("output.busy", path=output, staging=path)
        ended.append(path)
    removed = []
    for path in ended:
        staged = path.removesuffix(_SUFFIX) if storage.renames else output
        if storage.stat(staged) is not None or storage.unfinished(staged):
            _remove(storage, output, staged)
            removed.append(staged)
        storage.remove(path)
    return tuple(removed)


def _name(output: str, run: str) -> str:
    """Return the path of a run's staging directory beside its output; with ``_SUFFIX`` that of its announcement."""
    directory, name = posixpath.split(output)
    return posixpath.join(directory, f".{name}.mutator-{run}")


def _beside(output: str) -> list[Entry]:
    """Return the entries of runs beside an output: staging directories, and announcements, finished or not."""
    prefix = posixpath.basename(_name(output, ""))
    found = [one for one in entries_of(posixpath.dirname(output)) if one.name.startswith((prefix, "." + prefix))]
    return [one for one in found if _is_begun(one) or _has_run(one, one.name.removeprefix(prefix))]


def _has_run(one: Entry, rest: str) -> bool:
    """Return whether ``rest`` is a run ID: an output's own name may look like another output's staging directory."""
    return "." not in rest if one.type == "directory" else file_names.is_run_id(rest.removesuffix(_SUFFIX))


def _is_begun(one: Entry) -> bool:
    """Return whether a file is still being written: until it is whole it has a hidden name of its own."""
    return one.name.startswith("..")


@contextmanager
def _held(storage: Storage, output: str, run: str) -> Iterator[str]:
    staged = _name(output, run)
    claim = None
    try:
        for _ in range(10):  # until it is locked, another run may remove the new directory as litter
            storage.make_directory(staged)
            claim = storage.hold(staged)
            if claim is not None:
                break
        if claim is None:
            raise error("output.busy", path=output, staging=staged)
        yield staged
    finally:
        storage.remove(staged)  # after publishing it no longer exists
        del claim


def output_directory(staging: str) -> str:
    """Return the directory whose content becomes the output, given the one that tasks write to."""
    return staging.removesuffix(f"/{WORK}") if storage_for(staging).renames else staging


class StagedFile(io.RawIOBase):
    """A writable stream that counts and checksums its bytes, and describes the file for a manifest or a log.

    The storage flushes and closes the underlying stream.
    """

    def __init__(self, stream: BinaryIO, path: str, chunk: int) -> None:
        """Write to a stream. path: relative to the staging directory. chunk: bytes of a checksum chunk."""
        super().__init__()
        self._stream = stream
        self.path = path
        self.checksum = ChunkedChecksum(chunk)
        self.bytes = 0

    def write(self, data: Any) -> int:
        """Write bytes; return their number."""
        self._stream.write(data)
        self.checksum.update(data)
        self.bytes += len(data)
        return len(data)

    def entry(self, rows: int, role: str = DATA, **members: Any) -> FileEntry:
        """Return the entry of this file. members: others that it has."""
        text = self.checksum.text()
        return FileEntry(path=self.path, role=role, rows=rows, bytes=self.bytes, checksum=text, **members)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.bytes

    def writable(self) -> bool:
        """Return True: the stream can be written to."""
        return True
