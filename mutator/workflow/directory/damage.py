"""Notes of damaged files, written by a run or ``verify`` that reads one.

Until the file is repaired, ``status`` shows it, no run merges into a master that has it, and no backup is removed.

A note names a file and its checksum, so it applies to every dataset that has the file. Whether the file is still
damaged is not noted: the file is read again.
"""

import posixpath
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from mutator.dataset import checksum, checksummed_json
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import Manifest
from mutator.errors import MutatorError
from mutator.storage import read_if_exists
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator damage"


@dataclass(frozen=True)
class DamagedFile:
    """A file of a dataset that was found without its content. Its path is relative to the dataset."""

    path: str
    checksum: str  # as it should be


def note(base: Base, part: FileEntry) -> None:
    """Note that a file of a dataset is damaged."""
    before = notes(base)
    if not any((one.path, one.checksum) == (part.path, part.checksum) for one in before):
        _write(base, (*before, DamagedFile(part.path, part.checksum)))


def notes(base: Base) -> tuple[DamagedFile, ...]:
    """Return the files that were found damaged; a note that is damaged itself has none."""
    data = read_if_exists(_path(base))
    try:
        files = [] if data is None else checksummed_json.parse(data, _FORMAT, 1)["files"]
        return tuple(DamagedFile(**file) for file in files)
    except (KeyError, TypeError, ValueError):
        return ()


def difference(directory: str, part: FileEntry) -> str | None:
    """Return how a file of a dataset differs from its checksum; None if it does not."""
    try:
        return checksum.difference(posixpath.join(directory, part.path), part.checksum)
    except MutatorError as fault:
        return "it is missing" if fault.kind == "storage.missing" else str(fault)


def damaged_parts(base: Base, directory: str, known: Manifest) -> list[tuple[FileEntry, str]]:
    """Return the files of a dataset that were found damaged, and that still are, each with its difference."""
    noted = {(one.path, one.checksum) for one in notes(base)}
    parts = [part for part in known.parts() if (part.path, part.checksum) in noted]
    return [(part, why) for part in parts if (why := difference(directory, part)) is not None]


def forget_repaired(base: Base) -> None:
    """Read the noted files, and forget those that no dataset of the base has with damage any more.

    If a manifest cannot be read, nothing is forgotten: it may name any of them.
    """
    before = notes(base)
    if not before:
        return
    try:
        paths = (base.master, *(dataset.path for dataset in base.datasets()))
        left = {(part.path, part.checksum) for path in paths for part in _damaged_at(base, path)}
    except MutatorError:
        return
    after = tuple(one for one in before if (one.path, one.checksum) in left)
    if after != before:
        _write(base, after)


def _damaged_at(base: Base, path: str) -> list[FileEntry]:
    known = read_manifest(base.storage, path)
    return [part for part, _ in damaged_parts(base, path, known)] if known is not None else []


def _write(base: Base, files: Iterable[DamagedFile]) -> None:
    members = [asdict(file) for file in files]
    if members:
        base.storage.replace(_path(base), checksummed_json.dump(_FORMAT, 1, {"files": members}))
    else:
        base.storage.remove(_path(base))


def _path(base: Base) -> str:
    return base.at("_mutator", "damage.json")
