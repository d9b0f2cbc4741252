"""Which dataset is the master: publishing a version, keeping the old ones, removing those that are too old.

Every step here can be done again by anybody, at any time, by two processes at once. A dataset that moves is first given
a name that only one process knows, so that a process which was paused halfway finds nothing when it wakes up.
"""

from __future__ import annotations

from collections.abc import Sequence

from mutator.errors import MutatorError, error
from mutator.failpoint import failpoint
from mutator.log import Log, Version, datasets
from mutator.storage import entries_of
from mutator.workflow.base import Base, look_at_dataset, run_of

__all__ = ["back_up", "master_of", "prune", "publish"]

_TRIES = 5
_REMOVING = ".removing-"


def master_of(base: Base, version: Version) -> str:
    """Return the path of a version's dataset, for as long as the version is the latest."""
    if base.storage.renames or version.path is None:
        return base.master
    return base.at(version.path)


def publish(base: Base, version: Version) -> str:
    """Make the latest version's dataset the master; return how: "exchange", "two renames", "rename", "log", "done".

    Raises StateError where the dataset is nowhere.
    """
    if not base.storage.renames:
        return "log"  # readers go by it
    if version.dataset is None:
        return "done"
    for _ in range(_TRIES):
        if look_at_dataset(base.storage, base.master).commit == version.dataset:
            return "done"
        found = base.find(version.dataset)
        failpoint("publish.found")
        if found is None:
            continue  # another process has it under way
        passage = base.passage(version.run)
        try:
            base.storage.rename_new(found.path, passage)
            failpoint("publish.passage")
            return _put(base, passage, version)
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                raise
        except FileExistsError:  # another process has put a master there
            continue
    raise error("base.master", path=base.master, version=version.number, dataset=version.dataset)


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
    latest = log.latest()
    committed: Sequence[Version] | None = None
    moved = []
    for entry in entries_of(base.at("output")):
        if entry.kind != "directory" or entry.name.startswith("."):
            continue
        found = look_at_dataset(base.storage, entry.path)
        if found.foreign or (found.commit == latest.dataset and found.commit is not None):
            continue
        committed = log.all() if committed is None else committed
        number = datasets(committed).get(found.commit or "")
        # What was given before the first run is in no version; it lies here because a run was published.
        if number is None and run_of(entry.name) in {one.run for one in committed if one.dataset is not None}:
            number = max((one.number for one in committed if one.dataset is None), default=0)
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
        (int(one.name) for one in entries_of(backup) if one.kind == "directory" and one.name.isdecimal()), reverse=True
    )
    removed = []
    for number in numbers[keep:]:
        hidden = f"{backup}/{_REMOVING}{base.passage(str(number)).rpartition('/')[2]}"
        try:
            storage.rename_new(f"{backup}/{number}", hidden)
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                raise
            continue
        failpoint("archive.pruned")
        removed.append(number)
    for one in entries_of(backup):
        if one.name.startswith(_REMOVING):
            storage.remove(one.path)
            failpoint("archive.removed")
    return removed


def _prune_outputs(base: Base, log: Log, keep: int) -> list[int]:
    """Do the same where datasets stay where their runs have put them."""
    known = datasets(log.all())
    order = sorted(known, key=lambda commit: known[commit], reverse=True)
    old = set(order[keep + 1 :])
    removed = []
    for version in log.all():
        if version.dataset in old and version.path is not None and base.storage.look(base.at(version.path)) is not None:
            base.storage.remove(base.at(version.path))
            failpoint("archive.removed")
            removed.append(version.number)
    return removed
