"""Changed rows in a directory of their own, which outlives the dataset that they are a part of.

The files are those of the dataset, linked or copied. ``_mutator.json`` comes last: a directory without it is not whole.
It names the files and the run; its name is hidden, so that other programs read the files alone.
"""

import posixpath
from typing import Any

from mutator.dataset import checksum, checksummed_json
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import side_files, side_members
from mutator.dataset.state import State
from mutator.engine.blocks.carry import carry_file
from mutator.engine.split_content import Damage
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.parts import place
from mutator.errors.quick_dataclass import dataclass
from mutator.frames.change_feed import change_files, readable_name
from mutator.rules import file_names
from mutator.storage import entries_of, located_to_write, read_if_exists, storage_for

RECORD = "_mutator.json"
_FORMAT, _VERSION = "mutator changes", 1


@dataclass(frozen=True)
class KeptChanges:
    """The changed rows of one run."""

    number: int | None  # version of a workflow
    run: str
    dataset: str  # commit ID of the dataset that the run made
    parent: str | None  # commit ID of the dataset that it changed
    committed: str
    files: tuple[FileEntry, ...]


def keep_changes(dataset: str, known: State, directory: str, number: int | None = None) -> None:
    """Link or copy the changed rows of a dataset into a directory. number: version of a workflow.

    It can be repeated after a kill, and by two processes at once. Raises StateError for a damaged file.
    """
    storage, record = storage_for(directory), posixpath.join(directory, RECORD)
    if storage.stat(record) is not None:
        return
    storage.make_directory(directory)
    files = []
    for part in change_files(known):
        name = readable_name(part)
        try:
            carry_file(posixpath.join(dataset, part.path), posixpath.join(directory, name), part.checksum)
        except Damage as fault:
            raise fault.fault.error from None
        failpoint("changes.linked")
        files.append({**side_members(part), "path": name})
    members = {"number": number, "run": known.commit.run, "dataset": known.commit.id, "parent": known.commit.parent}
    made = checksummed_json.dump(_FORMAT, _VERSION, {**members, "committed": known.commit.committed, "files": files})
    with suppressed("storage.exists"), storage.create_new(record) as stream:
        stream.write(made)
    failpoint("changes.kept")


def check_free(directory: str, known: State) -> None:
    """Raise StateError for a directory with more than changed rows of a dataset, which a killed run may have left."""
    kept = read_kept_changes(directory)
    names = {readable_name(part) for part in change_files(known)}
    others = (one.name for one in entries_of(directory) if not (file_names.is_hidden(one.name) or one.name in names))
    if kept.dataset != known.commit.id if kept is not None else any(others):
        raise error("output.exists", path=directory)


def put_changes(output: str, made: State, directory: str) -> None:
    """Put the changed rows of an output that is published into a directory of their own.

    Raises StorageError that says how to put them there later.
    """
    try:
        keep_changes(output, made, directory)
    except MutatorError as fault:
        raise error("changes.later", path=directory, output=output, why=fault) from None


def changes_at(path: str) -> tuple[str, list[FileEntry]]:
    """Return the directory and the files of the changed rows of a dataset, or of a directory that has them alone.

    Raises ConfigError where nothing was kept, StateError for damage.
    """
    storage, path = located_to_write(path)
    kept = read_kept_changes(path)
    if kept is not None:
        return path, list(kept.files)
    if storage.stat(path) is None and storage.renames:
        raise error("path.missing", path=path, what="directory")
    known = read_manifest(storage, path)
    if known is None or not known.changes:
        raise error("changes.none", path=path)
    return path, change_files(known)


def differing_changes(directory: str) -> list[str]:
    """Return how the files of a directory of changed rows differ from its record, a sentence for each that does.

    A directory without a record is of a run that was killed, which the next command finishes.
    """
    try:
        kept = read_kept_changes(directory)
    except MutatorError as fault:
        return [fault.message]
    problems = []
    for part in () if kept is None else kept.files:
        path = posixpath.join(directory, part.path)
        try:
            what = checksum.difference(path, part.checksum)
        except MutatorError as fault:
            what = fault.message
        if what is not None:
            problems.append(f"{place(path)}: {what}; restore it from a copy")
    return problems


def read_kept_changes(directory: str) -> KeptChanges | None:
    """Return the record of a directory of changed rows; None if it has none. Raises StateError if it is damaged."""
    path = posixpath.join(directory, RECORD)
    content = read_if_exists(path)
    if content is None:
        return None
    try:
        members: dict[str, Any] = checksummed_json.parse(content, _FORMAT, _VERSION)
        return KeptChanges(**{**members, "files": side_files(members["files"])})
    except (KeyError, TypeError, ValueError) as fault:
        raise error("changes.damaged", path=path, why=fault) from None
