"""Which dataset is the master: publishing a version, keeping the old ones, removing those that are too old.

Every step here can be done again by anybody, at any time, by two processes at once. A dataset that moves is first given
a name that only one process knows, so that a process which was paused halfway finds nothing when it wakes up.
"""

from __future__ import annotations

import uuid

from mutator.dataset.directory import read_manifest
from mutator.dataset.version_log import Log, Version
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.storage import entries_of, read_if_exists
from mutator.workflow.directory.base import Base, probe_dataset, run_of
from mutator.workflow.directory.journal import journals

__all__ = ["back_up", "hide", "is_going", "master_of", "prune", "publish", "remove_hidden", "write_symlinks"]

_TRIES = 5
_REMOVING = ".removing-"


def master_of(base: Base, version: Version) -> str:
    """Return the path of a version's dataset, for as long as the version is the latest."""
    if base.storage.renames or version.path is None:
        return base.master
    return base.at(version.path)


def publish(base: Base, log: Log) -> str:
    """Make the latest version's dataset the master; return how: "exchange", "two renames", "rename", "log", "done".

    Raises StateError where the dataset is nowhere.
    """
    if not base.storage.renames:
        if base.storage.stat(_symlinks(base)) is not None:
            write_symlinks(base, log)
        return "log"  # readers go by it
    how = "done"
    for _ in range(_TRIES):
        version = log.latest()  # anew each time: whoever was paused here must not bring an older one back
        if version.dataset is None or probe_dataset(base.storage, base.master).commit == version.dataset:
            return how
        found = base.find(version.dataset)
        failpoint("publish.found")
        # A dataset in backup/ under this very version was the master, and was replaced: there is a newer version. An
        # older one's comes from there when it is restored.
        if found is None or (found.backup is not None and found.backup >= version.number):
            continue
        passage = base.passage(version.run)
        try:
            base.storage.rename_new(found.path, passage)
            failpoint("publish.passage")
            how = _put(base, passage, version)
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                raise
        except FileExistsError:  # another process has put a master there
            continue
    version = log.latest()
    if version.dataset is None or probe_dataset(base.storage, base.master).commit == version.dataset:
        return how
    raise error("base.master", path=base.master, version=version.number, dataset=version.dataset)


def write_symlinks(base: Base, log: Log) -> None:
    """Name the files of the master for readers that know no log, as Hive's and Trino's symlink tables have it.

    Once it is there it is kept as the log is, by every run and recovery.
    """
    path = _symlinks(base)
    for _ in range(_TRIES):
        version = log.latest()
        if version.dataset is None:
            return
        known = read_manifest(base.storage, master_of(base, version))
        if known is None:
            raise error("base.master", path=base.master, version=version.number, dataset=version.dataset)
        before = read_if_exists(path) or b""
        # Its readers may know one spelling of the scheme: that of the list which is there, else that of the base.
        scheme = before.partition(b"://")[0].decode() or base.given.partition("://")[0]
        place = f"{scheme}://{master_of(base, version).partition('://')[2]}"
        lines = "".join(f"{place}/{part.path}\n" for part in known.files).encode("utf-8", "surrogateescape")
        if lines == before:
            return
        base.storage.replace(path, lines)
        failpoint("publish.symlinks")
    # Somebody else publishes as well, and goes on until both see the same.


def _symlinks(base: Base) -> str:
    return base.at("_symlink_format_manifest", "manifest")


def _put(base: Base, passage: str, version: Version) -> str:
    """Exchange the master for what lies under a name of our own."""
    storage = base.storage
    if storage.remove_directory(base.master):  # it was empty, or not there
        failpoint("publish.empty.removed")
        storage.rename_new(passage, base.master)
        failpoint("publish.master")
        return "rename"
    if storage.swap(passage, base.master):
        failpoint("publish.master")
        return "exchange"
    storage.rename_new(base.master, base.passage(version.run))
    failpoint("publish.first.rename")
    storage.rename_new(passage, base.master)
    failpoint("publish.master")
    return "two renames"


def back_up(base: Base, log: Log) -> list[int]:
    """Move datasets that were the master from output/ to backup/<version>; return their versions."""
    if not base.storage.renames:
        return []
    moved = []
    for entry in entries_of(base.at("output")):
        if entry.type != "directory" or entry.name.startswith("."):
            continue
        found = probe_dataset(base.storage, entry.path)
        version = log.newest_of(found.commit) if found.commit is not None else None
        # The latest is read last: a version that was found before, and is not the latest now, has been replaced.
        if found.foreign or (found.commit is not None and found.commit == log.latest().dataset):
            continue
        number = version.number if version is not None else None
        if number is None:  # what was given is in no version; the first one that was published has put it here
            first = log.first_run()
            number = first.number - 1 if first is not None and first.run == run_of(entry.name) else None
        if number is not None and _keep(base, entry.path, number):
            moved.append(number)
    return moved


def _keep(base: Base, path: str, number: int) -> bool:
    base.storage.make_directory(base.at("backup"))
    try:
        base.storage.rename_new(path, base.at("backup", str(number)))
    except FileExistsError:
        return False  # of an earlier time when this was the master; it stays where it is, and is reported
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
        return False
    failpoint("archive.master")
    return True


def prune(base: Base, log: Log, keep: int) -> list[int]:
    """Remove backups but the newest ones; return their versions.

    A backup gets a hidden name first, so that none is ever there in part.
    """
    storage, backup = base.storage, base.at("backup")
    if not storage.renames:
        return _prune_outputs(base, log, keep)
    numbers = sorted(
        (int(one.name) for one in entries_of(backup) if one.type == "directory" and one.name.isdecimal()), reverse=True
    )
    removed = []
    for number in numbers[keep:]:
        try:
            hidden = hide(base, f"{backup}/{number}")
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                raise
            continue
        failpoint("archive.pruned")
        if probe_dataset(storage, hidden).commit == log.latest().dataset:  # it is being restored just now
            storage.rename_new(hidden, base.passage(log.latest().run))
            continue
        removed.append(number)
    remove_hidden(base)
    return removed


def hide(base: Base, path: str) -> str:
    """Give a directory that is to be removed a hidden name; return its path."""
    directory = path.rpartition("/")[0]
    hidden = f"{directory}/{_REMOVING}{uuid.uuid4().hex[:12]}"
    base.storage.rename_new(path, hidden)
    return hidden


def remove_hidden(base: Base) -> None:
    """Remove what got a hidden name for it, by whomever."""
    for place in ("backup", "output"):
        for one in entries_of(base.at(place)):
            if one.name.startswith(_REMOVING):
                base.storage.remove(one.path)
                failpoint("archive.removed")


def _prune_outputs(base: Base, log: Log, keep: int) -> list[int]:
    """Do the same where datasets stay where their runs have put them.

    Whoever is paused here must not remove, when it wakes up, what was restored meanwhile. So it first marks the
    dataset, and then looks for a restore; a restore is first in its journal, and then looks for the mark.
    """
    removed = []
    for dataset, version in _old(log, keep).items():
        path, mark, mine = base.at(version.path or ""), _mark(base, dataset), True
        if version.path is None or base.storage.stat(path) is None:
            base.storage.remove(mark)
            continue
        try:
            with base.storage.create_new(mark):
                pass
        except MutatorError as fault:
            if fault.kind != "storage.exists":
                raise
            mine = False  # somebody was killed here, or is at it as well
        failpoint("archive.marked")
        if dataset in _old(log, keep) and not any(one.action == "restore" for one in journals(base)):
            base.storage.remove(path)
            failpoint("archive.removed")
            removed.append(version.number)
        elif not mine:
            continue
        base.storage.remove(mark)
    return removed


def is_going(base: Base, dataset: str) -> bool:
    """Tell whether somebody removes a dataset just now."""
    return not base.storage.renames and base.storage.stat(_mark(base, dataset)) is not None


def _mark(base: Base, dataset: str) -> str:
    return base.at("_mutator", "going", dataset)


def _old(log: Log, keep: int) -> dict[str, Version]:
    """Return the datasets that are too old, by what the log says now, each with a version of it."""
    known: dict[str, Version] = {}
    for version in log.all():
        if version.dataset is not None:
            known.pop(version.dataset, None)  # one that came back counts from then on
            known[version.dataset] = version
    return dict(list(known.items())[: max(len(known) - keep - 1, 0)])
