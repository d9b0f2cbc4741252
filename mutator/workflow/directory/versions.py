"""The datasets of versions: publish the latest as the master, back up the old ones, remove those that are too old.

Any process can repeat every step, at any time, even two at once. A dataset is moved by way of a name that only one
process knows, so a process that was paused halfway finds nothing when it goes on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mutator.config import Config
from mutator.dataset.commits import Arrived, Commit, FeedFile
from mutator.dataset.directory import read_manifest
from mutator.dataset.followers import Followed, Follower, Newest, follow, follow_with_symlinks
from mutator.dataset.version_log import NONE, UNCHANGED, Log
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.master_settings import adopts, chained_settings
from mutator.pipeline.version_list import VersionEntry, column, merged_files
from mutator.pipeline.version_point import VersionPoint, newest_of, point_of
from mutator.storage import entries_of
from mutator.workflow.directory.bad_files import COUNT
from mutator.workflow.directory.cures import lost_master, notes
from mutator.workflow.directory.lock import journals
from mutator.workflow.directory.paths import Base, given_master, master_of, open_base, probe_dataset, run_of

FOLLOWERS: tuple[Follower, ...] = (follow_with_symlinks,)  # of bases; to add one, write a module with a function


def _feed_files(one: KeptVersion) -> Mapping[str, Any]:
    aside = one.counts.get(COUNT)
    return {"feed files": f"{len(one.feed):,} (+{aside:,} set aside)" if aside else merged_files(one)}


def _dataset(one: KeptVersion) -> Mapping[str, Any]:
    where = "as before" if one.kind in UNCHANGED else one.path or "removed"
    is_noted = one.damaged and one.kind not in UNCHANGED
    return {"dataset": f"{where} (its manifest is damaged)" if is_noted else where}


@dataclass(frozen=True, kw_only=True)
class KeptVersion(VersionEntry):
    """A version of a base, and the path of its dataset."""

    feed: Sequence[FeedFile] = column(lambda one: one.feed, _feed_files)
    records: int = column(lambda one: one.records, lambda one: {"records": one.records if one.dataset else None})
    id: str = column(lambda one: one.id)  # of the entry in the log
    dataset: str | None = column(lambda one: one.dataset)  # commit ID of its manifest
    claimed: Sequence[Arrived] = column(lambda one: one.claimed)
    path: str | None = column()  # None: the dataset was removed
    damaged: bool = column(shown=_dataset)  # the manifest of the dataset cannot be read

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        found = super().members()
        return {"number": found.pop("version"), "rows": found.pop("records"), **found}


def dataset_of(place: str, number: int | None) -> str:
    """Return the path of the dataset of a version. number: None for the latest; 0 for the master before the first.

    Raises ConfigError where it is not kept any more.
    """
    base = open_base(place)
    log = Log(base.path)
    latest = log.latest()
    if number is None or number == latest.number:
        return master_of(base, latest)
    if number == 0:
        return given_master(base, log)
    version = log.read(number) if number in log.numbers() else NONE
    if version.dataset is not None and version.dataset == latest.dataset:
        return master_of(base, latest)
    found = base.find(version.dataset) if version.dataset is not None else None
    if found is None:
        kept = [one.number for one in log.all() if one.dataset is not None and _is_kept(base, one, latest)]
        kept = [0, *kept] if base.storage.stat(given_master(base, log)) is not None else kept
        what = f"version with a dataset that is still there; those are {', '.join(map(str, kept))}"
        raise error("path.missing", path=f"{place}@{number}", what=what)
    return found.path


def chained_settings_of(place: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with which the next run of a base goes on; see ``chained_settings``.

    They are those of the newest version, even if it is not the master yet. Raises StateError if its dataset is nowhere,
    unless the settings adopt what is there.
    """
    base = open_base(place)
    return {} if adopts(settings) else chained_settings(_newest_dataset(base, Log(base.path)), settings)


def _newest_dataset(base: Base, log: Log) -> str:
    """Return the path of the dataset of the newest version, which may not be the master yet. Raises StateError."""
    for _ in range(_TRIES):
        version = log.latest()  # each time: another process may publish a newer one
        found = None if version.dataset is None else base.find(version.dataset)
        if found is not None:
            return found.path
        master = master_of(base, version)
        if version.dataset is None or probe_dataset(base.storage, master).commit == version.dataset:
            return master
    raise lost_master(base, log, version)


def _is_kept(base: Base, version: Commit, latest: Commit) -> bool:
    return version.dataset is not None and (version.dataset == latest.dataset or base.find(version.dataset) is not None)


def newest_points(base: str) -> tuple[VersionPoint | None, VersionPoint | None]:
    """Return the newest version of a base, and the newest one that merged something; None without one.

    base: full path. Raises StateError for a damaged log.
    """
    log = Log(base)
    numbers = log.numbers()
    versions = (log.read(number) for number in reversed(numbers))
    return newest_of((point_of(version, None) for version in versions), "run")


def latest_points(path: str, most: int) -> tuple[list[VersionPoint], int]:
    """Return the newest versions of a base that can be read, oldest first, and the number of all.

    path: of the base, as the user gives it. Datasets that are kept have a size.
    """
    base = open_base(path)
    log = Log(base.path)
    with suppress(MutatorError):  # a listing that cannot be trusted is one of the problems of a status
        numbers = log.numbers()
        sizes = _sizes(base)
        points = []
        for number in numbers[-most:]:
            with suppress(MutatorError):
                version = log.read(number)
                points.append(point_of(version, sizes.get(version.dataset or "")))
        return points, len(numbers)
    return [], 0


def _sizes(base: Base) -> dict[str, int]:
    """Return the bytes of each dataset that is kept, by its commit ID."""
    found = {}
    for dataset in (*base.datasets(), probe_dataset(base.storage, base.master)):
        with suppress(MutatorError):
            manifest = read_manifest(base.storage, dataset.path)
            if manifest is not None:
                found[manifest.commit.id] = sum(part.bytes for part in manifest.files)
    return found


_TRIES = 5
REMOVING = ".removing-"


def publish(base: Base, log: Log, config: Config) -> tuple[str, list[str]]:
    """Make the latest version's dataset the master; return how, and the warnings of followers.

    How: "exchange", "two renames", "rename", "log" or "done". config: of the command. Raises StateError if the dataset
    is missing. Each version of a base comes here: by its run, or by the next command.
    """
    how = _publish(base, log) if base.storage.renames else "log"  # where nothing is moved, readers follow the log
    return how, follow(FOLLOWERS, Followed(base.path, base.given, config, partial(_newest, base, log)))


def _publish(base: Base, log: Log) -> str:
    how = "done"
    for _ in range(_TRIES):
        version = log.latest()  # each time: a process that was paused must not publish an older version
        if version.dataset is None or probe_dataset(base.storage, base.master).commit == version.dataset:
            return how
        found = base.find(version.dataset)
        failpoint("publish.found")
        # A dataset in backup/ under this version or a newer one was the master and was replaced, so a newer version
        # exists. Under an older version it is being restored.
        if found is None or (found.backup is not None and found.backup >= version.number):
            continue
        passage = base.passage(version.run)
        with suppress(FileExistsError), suppressed("storage.missing"):  # another process may have put a master there
            base.storage.rename_new(found.path, passage)
            failpoint("publish.passage")
            how = _put(base, passage, version)
    version = log.latest()
    if version.dataset is None or probe_dataset(base.storage, base.master).commit == version.dataset:
        return how
    raise lost_master(base, log, version)


def _newest(base: Base, log: Log) -> Newest | None:
    version = log.latest()
    if version.dataset is None:
        return None
    known = read_manifest(base.storage, master_of(base, version))
    if known is None:
        raise lost_master(base, log, version)
    return Newest(master_of(base, version), known.files)


def _put(base: Base, passage: str, version: Commit) -> str:
    """Exchange the master for the dataset at ``passage``; return how."""
    storage = base.storage
    if storage.remove_directory(base.master):  # it was empty or missing
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
    """Move former masters from output/ to backup/<version>; return their versions."""
    if not base.storage.renames:
        return []
    moved = []
    for entry in entries_of(base.at("output")):
        if entry.type != "directory" or entry.name.startswith("."):
            continue
        found = probe_dataset(base.storage, entry.path)
        version = log.newest_of(found.commit) if found.commit is not None else None
        # The latest is read last: a version found before that is not the latest now has been replaced.
        if found.foreign or (found.commit is not None and found.commit == log.latest().dataset):
            continue
        number = version.number if version is not None else None
        if number is None:  # the given master has no version; the first published version moved it here
            first = log.first_run()
            number = first.number - 1 if first is not None and first.run == run_of(entry.name) else None
        if number is not None and _keep(base, entry.path, number):
            moved.append(number)
    return moved


def _keep(base: Base, path: str, number: int) -> bool:
    base.storage.make_directory(base.at("backup"))
    # If the target exists, the dataset was the master before and has a backup; it stays here and is reported.
    with suppress(FileExistsError), suppressed("storage.missing"):
        base.storage.rename_new(path, base.at("backup", str(number)))
        failpoint("archive.master")
        return True
    return False


def set_aside(base: Base, run: str) -> tuple[str, ...]:
    """Return the paths of directories in output/ that a run replaced as the master and did not back up."""
    if not base.storage.renames:
        return ()
    return tuple(base.shown(entry.path) for entry in entries_of(base.at("output")) if run_of(entry.name) == run)


def prune(base: Base, log: Log, keep: int) -> list[int]:
    """Remove all but the newest backups; return the versions of those removed. keep: number of backups to keep.

    While a file is known to be damaged, nothing is removed: a backup may have its last whole copy.
    A backup gets a hidden name first, so that none is ever visible in part.
    """
    if notes(base):
        return []
    storage, backup = base.storage, base.at("backup")
    if not storage.renames:
        return _prune_outputs(base, log, keep)
    numbers = sorted(
        (int(one.name) for one in entries_of(backup) if one.type == "directory" and one.name.isdecimal()), reverse=True
    )
    removed = []
    for number in numbers[keep:]:
        hidden = hide(base, f"{backup}/{number}")
        if hidden is None:
            continue
        failpoint("archive.pruned")
        if probe_dataset(storage, hidden).commit == log.latest().dataset:  # it is being restored
            storage.rename_new(hidden, base.passage(log.latest().run))
            continue
        removed.append(number)
    remove_hidden(base)
    return removed


def hide(base: Base, path: str) -> str | None:
    """Give a directory that will be removed a hidden name; return its path. None: another process has done so."""
    directory = path.rpartition("/")[0]
    hidden = f"{directory}/{REMOVING}{uuid.uuid4().hex[:12]}"
    with suppressed("storage.missing"):
        base.storage.rename_new(path, hidden)
        return hidden
    return None


def remove_hidden(base: Base) -> None:
    """Remove the directories that any process has hidden."""
    for directory in ("backup", "output", "changes"):
        for entry in entries_of(base.at(directory)):
            if entry.name.startswith(REMOVING):
                base.storage.remove(entry.path)
                failpoint("archive.removed")


def _prune_outputs(base: Base, log: Log, keep: int) -> list[int]:
    """Do the same on a storage where datasets stay at the paths where their runs wrote them.

    A process that is paused here must not remove a dataset that was restored meanwhile. So it first marks the dataset,
    then looks for a restore. A restore first writes its journal, then looks for the mark.
    """
    removed = []
    for dataset, version in _old(log, keep).items():
        path, mark, mine = base.at(version.path or ""), _mark(base, dataset), False
        if version.path is None or base.storage.stat(path) is None:
            base.storage.remove(mark)
            continue
        with suppressed("storage.exists"):  # another process was killed here, or removes it as well
            with base.storage.create_new(mark):
                pass
            mine = True
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
    """Return whether a dataset is being removed."""
    return not base.storage.renames and base.storage.stat(_mark(base, dataset)) is not None


def _mark(base: Base, dataset: str) -> str:
    return base.at("_mutator", "going", dataset)


def _old(log: Log, keep: int) -> dict[str, Commit]:
    """Return the datasets that are too old by the present log, each with its newest version."""
    known: dict[str, Commit] = {}
    for version in log.all():
        if version.dataset is not None:
            known.pop(version.dataset, None)  # a restored dataset counts from its restore
            known[version.dataset] = version
    return dict(list(known.items())[: max(len(known) - keep - 1, 0)])
