"""A dataset that this program wrote: its directory compared with its manifest, which its copy puts back.

Each run checks the unread files whose check is oldest, as many as have a fraction of the dataset's bytes. A file that
is not checked was in front of others that were, or was written since, so each is checked within 1/fraction runs.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter

from mutator.dataset import manifest, split_record
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import State
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.failpoints import failpoint
from mutator.errors.parts import place, word
from mutator.rules import file_names
from mutator.storage import Entry, Storage, entries_of, read_file, read_if_exists, storage_for

_TAKEN_OVER = ("tombstones", "order", "filters")  # roles of side files that may be taken over
_OF_BASE = (f"{manifest.DIRECTORY}/log", "incr", "master")  # a base has one of them, also before its first version
_DIRECTORIES_OF_BASE = ("incr", "master", "table", "archive")
_COPY = re.compile(r"manifest-(.+)\.json")  # its name without the directory


def is_table(path: str) -> bool:
    """Return whether a directory has a versioned table."""
    return storage_for(path).stat(posixpath.join(path, manifest.TABLE)) is not None


def is_base(path: str) -> bool:
    """Return whether a directory is the base of a workflow, also before its first version, and no dataset or table."""
    storage = storage_for(path)
    if storage.stat(posixpath.join(path, manifest.PATH)) is not None or is_table(path):
        return False
    return any(storage.stat(posixpath.join(path, name)) is not None for name in _OF_BASE)


def read_manifest(storage: Storage, directory: str) -> State | None:
    """Return the state of a dataset; None if the directory has no manifest, like an unmanaged master or a split feed.

    Raises ConfigError for a versioned table and for the base of a workflow, StateError for a manifest that is damaged.
    """
    path = posixpath.join(directory, manifest.PATH)
    if storage.stat(path) is None:
        if is_table(directory):
            raise error("path.table", path=directory)
        split = storage.stat(posixpath.join(directory, split_record.PATH)) is not None
        if not split and storage.stat(posixpath.join(directory, manifest.DIRECTORY)) is not None:
            if is_base(directory):
                raise base_error(storage, directory)
            raise _damaged(storage, directory, "it is missing beside the rest of its directory")
        return None
    try:
        return _parsed(read_file(path), path)
    except MutatorError as fault:
        if fault.kind != "manifest.damaged":
            raise
        raise _damaged(storage, directory, fault.fields["why"]) from None


@lru_cache(maxsize=1)
def _parsed(data: bytes, path: str) -> State:
    """Parse a manifest: once for the settings of a run and for the run itself."""
    return manifest.parse(data, path)


def base_error(storage: Storage, base: str) -> MutatorError:
    """Return the error of the base of a workflow in place of a dataset, with the path of its master or table."""
    named = f"the dataset of its newest version, in {place(posixpath.join(base, 'output'))}"
    if storage.renames:
        paths = {what: posixpath.join(base, what) for what in ("master", "table")}
        found = [f"its {what}, {place(path)}" for what, path in paths.items() if storage.stat(path) is not None]
        named = found[0] if found else "the table that its feed files go into"
    return error("path.base", path=base, named=named)


def not_a_table(path: str) -> str:
    """Return the cure where a path is not the table that a command needs: by what is there."""
    storage = storage_for(path)
    there = storage.stat(path)
    if there is not None and there.type == "file":
        return "it is a file; name the directory of a table"
    entries = [entry for entry in entries_of(path) if not entry.name.startswith(".")]
    if not entries:
        return f"check the path, or make one with: mutator table create {word(place(path))} (in Python: Table.create)"
    if is_base(path):
        return f"it is the base of a workflow: merge feed files with: mutator workflow run {word(place(path))}"
    return (
        f"it has other files: take a master over into a new table with: mutator table create NEW --dataset "
        f"{word(place(path))} (in Python: Table.create with dataset), or go on merging into it with mutator run (in "
        "Python: mutator.merge)"
    )


def in_place_of_a_table(path: str) -> str:
    """Return the cure where something is at the path of a new table."""
    if is_table(path):
        return (
            f"name a new directory, or merge into the table with: mutator table apply {word(place(path))} --feed FEED "
            "(in Python: Table.apply)"
        )
    return (
        "name a new directory; if this one is a master, its records are taken over with: mutator table create NEW "
        f"--dataset {word(place(path))} (in Python: Table.create with dataset)"
    )


def check_no_base(storage: Storage, directory: str, entries: Iterable[Entry]) -> None:
    """Raise ConfigError if the entries of a directory are those of the base of a workflow."""
    names = {one.name for one in entries if one.type == "directory"}
    # A directory of feed files may have one of these names.
    if len(names.intersection(_DIRECTORIES_OF_BASE)) > 1 and is_base(directory):
        raise base_error(storage, directory)


def check_no_table(directory: str) -> None:
    """Raise ConfigError if a directory of feed files is a versioned table."""
    if is_table(directory):
        raise error("feed.table", path=directory)


def _damaged(storage: Storage, directory: str, why: str) -> MutatorError:
    """Return the error of a damaged manifest, with the command that puts it back where its copy is whole."""
    path = posixpath.join(directory, manifest.PATH)
    try:
        whole_copy(storage, directory)
    except MutatorError:
        return manifest.damaged(path, why)
    return manifest.damaged(path, why, f"put it back from its copy: mutator verify --repair {word(place(directory))}")


def whole_copy(storage: Storage, directory: str, commits: Collection[str] | None = None) -> State:
    """Return the manifest that the copies of a damaged one prove.

    commits: IDs of the datasets that the directory may be, by a log; None without a log. Raises StateError of the kind
    ``manifest.lost`` where no copy is whole, several are, or a file of the dataset is missing.
    """
    if commits is None and not storage.renames and storage.stat(posixpath.join(directory, manifest.PATH)) is None:
        raise error("manifest.lost", path=directory, why="it has no manifest, so its run may not have committed it")
    copies = _copies(directory)
    found = [copy for copy in copies if commits is None or copy.commit.id in commits]
    if len(found) != 1:
        none = "the log does not name the dataset of its copy" if copies else "it has no whole copy of its manifest"
        why = "it has several copies of manifests" if found else none
        raise error("manifest.lost", path=directory, why=why)
    problems = differing_parts(storage, directory, found[0].parts())
    if problems:
        raise error("manifest.lost", path=directory, why=file_names.first_few(problems))
    return found[0]


def _copies(directory: str) -> list[State]:
    found = []
    for entry in entries_of(posixpath.join(directory, manifest.DIRECTORY)):
        if entry.type != "file" or not _COPY.fullmatch(entry.name):
            continue
        try:
            known = manifest.parse(read_file(entry.path), entry.path)
        except MutatorError:
            continue  # it proves nothing
        if known.copy == f"{manifest.DIRECTORY}/{entry.name}":
            found.append(known)
    return found


def check_files(
    storage: Storage,
    master: str,
    parts: Sequence[FileEntry],
    listed: Iterable[Entry],
    lost: Collection[str] = (),
) -> None:
    """Raise StateError if the files of a directory differ from its manifest.

    listed: entries of the directory. lost: paths of files that may be missing or have another size.
    """
    problems = differing_files(storage, master, parts, listed, lost)
    if problems:
        raise error("manifest.files", path=master, what=file_names.first_few(problems))


def differing_files(
    storage: Storage,
    directory: str,
    parts: Sequence[FileEntry],
    listed: Iterable[Entry],
    lost: Collection[str] = (),
) -> list[str]:
    """Return how the files of a directory differ from its manifest. listed, lost: as for ``check_files``."""
    listed = list(listed)
    problems = differing_parts(storage, directory, [part for part in parts if part.path not in lost], listed)
    return problems + [
        f"{path} is not one of its files" for path in unrecorded_files(storage, directory, parts, listed)
    ]


def unrecorded_files(
    storage: Storage, directory: str, parts: Sequence[FileEntry], listed: Iterable[Entry]
) -> list[str]:
    """Return the paths of visible files that a directory has and its manifest or record does not list."""
    named = {part.path for part in parts}
    return sorted(
        path
        for path, entry in _by_path(directory, listed).items()
        if path not in named
        and not any(map(file_names.is_hidden, path.split("/")))
        and not is_straggler(storage, entry.name)
    )


def _by_path(directory: str, entries: Iterable[Entry]) -> dict[str, Entry]:
    return {entry.path.removeprefix(f"{directory}/"): entry for entry in entries}


def differing_parts(
    storage: Storage, directory: str, parts: Sequence[FileEntry], listed: Iterable[Entry] = ()
) -> list[str]:
    """Return which files of a manifest or record are missing or have another size.

    listed: entries that were listed before. Other files are looked up one by one.
    """
    there = _by_path(directory, listed)
    problems = []
    for part in sorted(parts, key=lambda part: part.path):
        entry = there.get(part.path) or storage.stat(posixpath.join(directory, part.path))
        if entry is None:
            problems.append(f"{part.path} is missing")
        elif entry.type != "file" or entry.bytes != part.bytes:
            problems.append(f"{part.path} has {counted(entry.bytes, 'byte')} and should have {part.bytes:,}")
    return problems


def is_straggler(storage: Storage, name: str) -> bool:
    """Return whether a file that no manifest names may come from a task that ended after its run, or was killed.

    Such a file is neither part of the dataset nor a fault. It is only possible on a storage without renames, where
    tasks write files to their final paths.
    """
    return not storage.renames and file_names.has_run_id(name)


def due_files(known: State, fraction: float) -> frozenset[str]:
    """Return the paths of the files that the next run checks: the oldest check first, ties by path.

    They depend on the manifest alone. fraction: of the dataset's bytes, from 0 to 1.
    """
    files = _files(known)
    left = fraction * sum(part.bytes for part in files)
    groups: dict[str, list[FileEntry]] = {}
    for part in files:
        groups.setdefault(part.checked or "", []).append(part)
    due = set[str]()
    for checked in sorted(groups):
        for part in sorted(groups[checked], key=attrgetter("path")):
            if left <= 0:
                return frozenset(due)
            due.add(part.path)
            left -= part.bytes
    return frozenset(due)


def oldest_check(known: State) -> FileEntry | None:
    """Return the file that was checked longest ago, or never; None if the dataset has no files."""
    return min(_files(known), key=lambda part: (part.checked or "", part.path), default=None)


def may_be_taken_over(part: FileEntry) -> bool:
    """Return whether the next run may take a file over; side files of other roles are written anew or left out."""
    return part.is_data or part.role in _TAKEN_OVER


def _files(known: State) -> list[FileEntry]:
    return [part for part in known.parts() if may_be_taken_over(part)]


def repair(storage: Storage, directory: str, commits: Collection[str] | None = None) -> str | None:
    """Make the manifest of a dataset and its copy whole again; return a sentence, None if both were whole.

    Nothing is guessed: the copy has the manifest's bytes, with a checksum of themselves and the path of the copy, and
    every file that it names must be there with its size. Only one file is written, in one step, so a kill leaves the
    directory as it was or repaired. commits: as for ``whole_copy``, which raises the errors.
    """
    path = posixpath.join(directory, manifest.PATH)
    try:
        known = read_manifest(storage, directory)
    except MutatorError as fault:
        if fault.kind != "manifest.damaged":
            raise
        known = whole_copy(storage, directory, commits)
        assert known.copy is not None
        storage.replace(path, read_file(posixpath.join(directory, known.copy)))
        failpoint("repair.manifest")
        return f"{place(path)} is its copy {known.copy} again"
    if known is None or known.copy is None:
        return None
    data, copy = read_file(path), posixpath.join(directory, known.copy)
    if read_if_exists(copy) == data:
        return None
    storage.replace(copy, data)
    failpoint("repair.copy")
    return f"{place(copy)} is a copy of the manifest again"
