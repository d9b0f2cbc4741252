"""The cures of a damaged master: each is checked on this base before a message names it.

Notes of damaged files, written by a run or ``verify`` that reads one.

Until the file is repaired, ``status`` shows it, no run merges into a master that has it, and no backup is removed.

A note names a file and its checksum, so it applies to every dataset that has the file. Whether the file is still
damaged is not noted: the file is read again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict

from mutator.dataset import checksum, checksummed_json
from mutator.dataset.commits import REORDER, Commit
from mutator.dataset.directory import differing_files, differing_parts, read_manifest, whole_copy
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import State
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError, error
from mutator.errors.display import command
from mutator.errors.parts import place
from mutator.errors.quick_dataclass import dataclass
from mutator.rules import file_names
from mutator.storage import entries_of, read_if_exists, walk
from mutator.workflow.directory.paths import Base, given_master, master_of, probe_dataset

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
        return "it is missing" if fault.kind == "storage.missing" else fault.message


def damaged_parts(base: Base, directory: str, known: State) -> list[tuple[FileEntry, str]]:
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


_ADOPTION = (
    "use the rows of the files that are there, without the rows of missing files, tombstones, order values beside rows "
    "and the list of merged feed files (one that is delivered again is merged again): run with -D master.adopt=true "
    "and the other settings as before, once feed files have arrived"
)
_COPIED = 3  # files whose copies a message names


def lost_master(base: Base, log: Log, version: Commit) -> MutatorError:
    """Return the error that the dataset of a version is nowhere, with every cure that works here."""
    master = master_of(base, version)
    cures = []
    try:
        known = read_manifest(base.storage, master)
        why = "it has no manifest" if known is None else f"it is the dataset {known.commit.id}"
        archived = known is not None and base.storage.stat(base.at("archive", known.commit.run)) is not None
        if known is not None and archived and log.newest_of(known.commit.id) is None:
            why += ", which a run of this base has made, and no log entry names: the newest log entry is missing"
            cures.append("put the log entry back from a copy of the base")
    except MutatorError as fault:
        what = fault.fields.get("why")
        why = f"its manifest is damaged ({what})" if what is not None else "its manifest cannot be read"
    damaged = (dataset.path for dataset in base.datasets() if dataset.foreign)
    if any(has_whole_copy(base, path, {str(version.dataset)}) for path in (master, *damaged)):
        cures.append(f"put its manifest back from its copy: {command('verify', '--repair', base.given)}")
    cures += [*_restore(base, log), *_adoption(base, master), *new_base(base, log)]
    return error(
        "base.master",
        path=master,
        version=version.number,
        dataset=version.dataset,
        why=why,
        cures="".join(f"; or {cure}" for cure in cures),
    )


def master_faults(base: Base, log: Log) -> list[MutatorError]:
    """Return what differs between the master and its manifest, each error with every cure that works here.

    Only files that were found damaged are read. A master that is not the latest version's dataset has none of these.
    """
    latest = log.latest()
    master = master_of(base, latest)
    known = read_manifest(base.storage, master)
    if known is None or latest.dataset not in (None, known.commit.id):
        return []
    visible = walk(master) if known.is_partitioned else entries_of(master)
    problems = differing_files(base.storage, master, known.parts(), visible)
    differing = [part for part in known.parts() if differing_parts(base.storage, master, [part])] if problems else []
    faults = [_differing_master(base, log, differing, problems)] if problems else []
    damaged = damaged_parts(base, master, known)
    return [*faults, *(_damaged_file(base, log, part, why) for part, why in damaged if part not in differing)]


def explained(base: Base, log: Log, fault: MutatorError) -> MutatorError:
    """Return the error of a run: that of a damaged master, which is noted, with the cures that work on this base."""
    master = master_of(base, log.latest())
    path = fault.fields.get("path")
    if fault.kind not in ("manifest.files", "manifest.damage") or not f"{path}/".startswith(f"{master}/"):
        return fault
    known = read_manifest(base.storage, master)
    damaged = [part for part in known.parts() if path == f"{master}/{part.path}"] if known else []
    if known is not None and damaged:
        note(base, damaged[0])
    return next(iter(master_faults(base, log)), fault)


def _differing_master(base: Base, log: Log, parts: Sequence[FileEntry], problems: Sequence[str]) -> MutatorError:
    """Return the error of missing and other files. parts: those that differ. problems: what differs, in words."""
    master = master_of(base, log.latest())
    strays = "move the files that the manifest does not name out of the directory"
    cures = [strays]
    if parts:
        cures = [*_whole_files(base, master, parts), _from_copy(base, master, parts), *_restore(base, log)]
        if all(base.storage.stat(posixpath.join(master, part.path)) is None for part in parts):  # else with damage
            first = f"{strays}, then " if len(problems) > len(parts) else ""
            cures += [first + cure for cure in _adoption(base, master)]
        cures += new_base(base, log)
    what = file_names.first_few(problems)
    return error("base.files", path=master, what=what, cures="; or ".join(cures))


def _damaged_file(base: Base, log: Log, part: FileEntry, why: str) -> MutatorError:
    master = master_of(base, log.latest())
    cures = [
        *_whole_files(base, master, [part]),
        _from_copy(base, master, [part]),
        *_restore(base, log),
        *new_base(base, log),
    ]
    return error("base.damage", path=posixpath.join(master, part.path), why=why, cures="; or ".join(cures))


def _from_copy(base: Base, master: str, parts: Sequence[FileEntry]) -> str:
    cure = f"put the file{'' if len(parts) == 1 else 's'} back from a copy on another disk"
    if all(base.storage.stat(posixpath.join(master, part.path)) is None for part in parts):
        return cure
    return f"{cure}, because a file in backup/ may be a hard link of the same file, with the same damage"


def _whole_files(base: Base, master: str, parts: Sequence[FileEntry]) -> list[str]:
    """Return the advice to copy the files of other datasets that have the content of files of the master.

    It is only given where each file has such a copy.
    """
    paths = [dataset.path for dataset in base.datasets() if dataset.commit is not None]
    others = [(path, read_manifest(base.storage, path)) for path in paths]
    found = []
    for part in parts:
        whole = [path for path, known in others if known is not None and _is_part_whole(path, known, part)]
        if not whole:
            return []
        found.append(f"{place(f'{whole[-1]}/{part.path}')} to {place(f'{master}/{part.path}')}")
    return [f"copy {file_names.first_few(found, _COPIED)}"]


def _is_part_whole(path: str, known: State, wanted: FileEntry) -> bool:
    """Return whether a dataset has a file, with its content."""
    named = any((part.path, part.checksum) == (wanted.path, wanted.checksum) for part in known.parts())
    return named and difference(path, wanted) is None


def has_whole_copy(base: Base, path: str, commits: Collection[str]) -> bool:
    """Return whether ``verify --repair`` can put the damaged manifest of a dataset back. commits: its possible IDs."""
    with suppress(MutatorError):
        known = probe_dataset(base.storage, path)
        return known.foreign and whole_copy(base.storage, path, commits) is not None
    return False


def restorable(base: Base, log: Log) -> list[int]:
    """Return the versions whose datasets are in output/ or backup/ with all their files, the newest first."""
    found = {given_master(base, log): 0}
    for dataset in base.datasets():
        version = log.newest_of(dataset.commit) if dataset.commit is not None else None
        if version is not None:
            found[dataset.path] = version.number
    found.pop(master_of(base, log.latest()), None)
    return sorted((number for path, number in found.items() if _is_whole(base, path)), reverse=True)


def _is_whole(base: Base, path: str) -> bool:
    """Return whether a dataset has a manifest, and every file that it names; files that were found damaged are read."""
    with suppress(MutatorError):
        known = read_manifest(base.storage, path)
        return (
            known is not None
            and not differing_parts(base.storage, path, known.parts())
            and not damaged_parts(base, path, known)
        )
    return False


def _restore(base: Base, log: Log) -> list[str]:
    return [
        f"make version {number} the master, without the rows of later runs: "
        + command("workflow", "restore", base.given, "--to", str(number))
        for number in restorable(base, log)[:1]
    ]


def _adoption(base: Base, master: str) -> list[str]:
    """Return the advice to adopt the files of the master, unless it has none, or damaged ones would be adopted."""
    if notes(base) or all(file_names.is_hidden(entry.name) for entry in entries_of(master)):
        return []
    return [_ADOPTION]


def new_base(base: Base, log: Log) -> list[str]:
    """Return the advice to merge everything again, if the given master and all merged feed files are still there."""
    versions, first, given = log.all(), log.first_run(), given_master(base, log)
    feed = [(version.run, part) for version in versions for part in version.feed]
    names = [part.name for _, part in feed]
    if not base.storage.renames or first is None or len(set(names)) < len(names):
        return []
    if any(version.action in ("restore", REORDER) for version in versions):
        return []  # the master does not have every merged file, or not in the order in which a new one would have it
    entries = [(base.storage.stat(base.at("archive", run, part.name)), part) for run, part in feed]
    if any(entry is None or entry.bytes != part.bytes for entry, part in entries):
        return []
    copies = "and copies of the feed files in archive/*/ in its incr/, which merges them all again"
    if base.storage.stat(given) is None:
        if first.counts.get("master rows", 0):
            return []
        return [f"start a new base without a master (allow.empty.master=true) {copies}"]
    with suppress(MutatorError):
        if read_manifest(base.storage, given) is None:
            return [f"start a new base with a copy of {place(given)} as its master/ {copies}"]
    return []
