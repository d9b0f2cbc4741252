"""Compare a whole base with its log: every entry, every kept dataset, every merged feed file. Repair its manifests."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from mutator.dataset import checksum
from mutator.dataset.commits import Commit, FeedFile
from mutator.dataset.directory import read_manifest, repair
from mutator.dataset.version_log import NONE, Log
from mutator.errors import MutatorError, StorageError, error
from mutator.errors.display import command, counted
from mutator.errors.parts import place
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.sections import ReportSection, said
from mutator.pipeline.verify import Difference, PlaceVerification, Verification
from mutator.rules import file_names
from mutator.storage import entries_of
from mutator.workflow.directory.changed_rows import kept_problems
from mutator.workflow.directory.cures import lost_master, note
from mutator.workflow.directory.lock import locked
from mutator.workflow.directory.master_target import has_old_datasets
from mutator.workflow.directory.merged_content import rewritten_files
from mutator.workflow.directory.paths import Base, master_of, open_base, probe_dataset

_LOCK_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class BaseVerification(PlaceVerification):
    """A base compared with its log, and each of its datasets with its manifest."""

    path: str
    versions: int
    datasets: tuple[Verification, ...]
    feed_files: int  # merged feed files in archive/
    feed_removed: int  # merged feed files whose directory in archive/ is gone or empty
    differences: tuple[Difference, ...]  # from the log
    in_use: tuple[str, ...] | None = None  # paths of the master and of the newest version's dataset; None: unknown

    @property
    def problems(self) -> tuple[str, ...]:
        """All differences."""
        return (*super().problems, *(problem for one in self.datasets for problem in one.problems))

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        found = {**super().members(), "datasets": [one.members() for one in self.datasets]}
        return {name: value for name, value in found.items() if name != "in_use"}

    def size(self) -> str:
        """Return the number of versions and of merged feed files."""
        archived = f"{counted(self.feed_files, 'merged feed file')} in archive/"
        removed = f"; {self.feed_removed:,} more {'was' if self.feed_removed == 1 else 'were'} removed from there"
        return f": {counted(self.versions, 'version')}, {archived}{removed if self.feed_removed else ''}"

    def same(self) -> str:
        """Return what was compared."""
        return f"as its log says: entries, master{', archived feed files' if self.feed_files else ''}"

    def sections(self) -> Iterator[ReportSection]:
        """Yield the size, the differences from the log or what was compared, each dataset, and cures."""
        yield from super().sections()
        for one in self.datasets:
            yield from one.sections()
        yield said(*self._cures())

    def _cures(self) -> list[str]:
        """Return a line for each dataset that differs. No dataset is removed that is in use, or may be."""
        lines = []
        for one in self.datasets:
            if one.differences and self.in_use is not None and one.path not in self.in_use:
                lines.append(f"cures  of {one.path}: as above, or remove the directory, if it need not be restored")
            elif one.differences:
                status = command("workflow", "status", self.path)
                lines.append(f"cures  of {one.path}: those that {status} names")
        return lines


def verify_base(path: str, verify: Callable[[str], Verification]) -> BaseVerification:
    """Compare a base with its log; nothing is changed, but damaged files are noted for ``status``.

    Damage of one file does not keep the others from being compared. verify: verifies the dataset at a path.
    """
    base = open_base(path)
    log = Log(base.path)
    versions, faults, newest = log.readable()
    problems = [fault.message for fault in faults]
    if not newest and has_old_datasets(base):
        problems.append(error("base.log", path=base.path).message)
    # Which dataset is the master, the newest entry decides: an older one proves nothing about it.
    latest = versions[-1] if versions else NONE
    is_known = latest.number == newest
    found, unreadable = _datasets(base, latest, versions)
    of_master = _master_problems(base, log, latest) if is_known and latest.dataset is not None else []
    if of_master:  # with the cures that work on this base
        unreadable.pop(master_of(base, latest), None)
    problems += [*unreadable.values(), *of_master]
    merged = [(version.run, feed) for version in versions for feed in version.feed]
    archived = archived_files(base, merged)
    problems += archive_problems(base, archived)
    problems += kept_problems(base)
    if not faults:  # else the damaged entry may name the run
        problems += _unknown_runs(base, versions, found)
    verified = tuple(map(verify, found))
    for one in verified:
        _note_damage(base, one)
    shown = tuple(Difference(base.said(problem)) for problem in problems)
    in_use = _in_use(base, latest) if is_known else None
    removed = len(merged) - len(archived)
    return BaseVerification(path, len(versions), verified, len(archived), removed, shown, in_use)


def archived_files(base: Base, merged: Sequence[tuple[str, FeedFile]]) -> list[tuple[str, FeedFile]]:
    """Return merged feed files but for those of runs whose files were removed from archive/, which is allowed.

    merged: each with its run.
    """
    emptied = _emptied(base, {run for run, _ in merged})
    return [(run, feed) for run, feed in merged if run not in emptied]


def archive_problems(base: Base, archived: Iterable[tuple[str, FeedFile]]) -> list[str]:
    """Return the faults of feed files in archive/."""
    found = (_feed_file(base, run, feed.name, feed.bytes, feed.checksum) for run, feed in archived)
    return [one for one in found if one is not None]


def _in_use(base: Base, latest: Commit) -> tuple[str, ...]:
    """Return the path of the master, and that of its next dataset, if a version has been committed meanwhile."""
    later = base.find(latest.dataset) if latest.dataset is not None else None
    return (master_of(base, latest), *([later.path] if later is not None else []))


def _note_damage(base: Base, found: Verification) -> None:
    """Note the damaged files of a dataset, if the base can be written to."""
    names = {difference.file for difference in found.differences}
    known = read_manifest(base.storage, found.path) if names else None
    with suppress(StorageError):
        for part in known.parts() if known is not None else ():
            if part.path in names:
                note(base, part)


def _datasets(base: Base, latest: Commit, versions: Sequence[Commit]) -> tuple[list[str], dict[str, str]]:
    """Return the paths of the datasets whose manifests can be read, and the errors of the others, by path."""
    committed = {version.dataset for version in versions}
    found, problems = list[str](), dict[str, str]()
    for path in dict.fromkeys((master_of(base, latest), base.master, *(one.path for one in base.datasets()))):
        is_output = path.startswith(base.at("output/"))  # a run that is under way has one, too
        try:
            known = read_manifest(base.storage, path)
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                problems[path] = fault.message
            continue
        if known is not None and (known.commit.id in committed or not is_output):
            found.append(path)
    return found, problems


def _unknown_runs(base: Base, versions: Sequence[Commit], datasets: Sequence[str]) -> list[str]:
    """Return a problem for each run in archive/ that merged feed files, as it seems, and that no log entry names.

    A run whose feed files were all merged before has no log entry, either. datasets: with lists of merged feed files.
    """
    if not base.storage.renames:
        return []
    manifests = [read_manifest(base.storage, path) for path in datasets]
    lists = [version.feed for version in versions] + [known.feed for known in manifests if known is not None]
    merged = {(feed.name, feed.bytes) for feeds in lists for feed in feeds}
    problems = []
    for run in entries_of(base.at("archive")):
        if file_names.is_run_id(run.name) and run.name not in {version.run for version in versions}:
            files = list(entries_of(run.path))
            if files and not any((file.name, file.bytes) in merged for file in files):
                problems.append(
                    f"{place(run.path)}: no log entry names this run, so the log may lack its newest entries; put them "
                    "back from a copy of the base, or move the feed files to incr/ to merge them again"
                )
    return problems


def _master_problems(base: Base, log: Log, latest: Commit) -> list[str]:
    master = master_of(base, latest)
    if probe_dataset(base.storage, master).commit == latest.dataset:
        return []
    if base.find(str(latest.dataset)) is not None:
        what = f"is not the dataset of version {latest.number} yet; the next command on this base makes it so"
        return [f"{place(master)}: {what}"]
    return [lost_master(base, log, latest).message]


def repair_base(path: str) -> tuple[list[str], list[str]]:
    """Put the damaged manifests of a base back from their copies; return what was done, and what was not and why.

    A copy must be that of a dataset that the log names. Raises StateError if another process is at work.
    """
    base = open_base(path)
    with locked(base, "verify --repair", _LOCK_TIMEOUT):
        versions, *_ = Log(base.path).readable()
        committed = {version.dataset for version in versions if version.dataset is not None}
        first = next((version for version in versions if version.dataset is not None), None)
        # The log does not name the dataset of the given master.
        given = base.at("backup", str(first.number - 1)) if first and base.storage.renames else base.master
        done, problems = list[str](), list[str]()
        for directory in dict.fromkeys((base.master, *(one.path for one in base.datasets()))):
            try:
                commits = None if not committed or directory == given else committed
                done += filter(None, [repair(base.storage, directory, commits)])
            except MutatorError as fault:
                problems.append(fault.message)
        return [base.said(text) for text in done], [base.said(text) for text in problems]


def _emptied(base: Base, runs: Iterable[str]) -> set[str]:
    """Return the runs whose feed files were removed from archive/, which is allowed. None where files stay in place."""
    if not base.storage.renames:
        return set()
    return {run for run in runs if not entries_of(base.at("archive", run))}


def _feed_file(base: Base, run: str, name: str, size: int, expected: str) -> str | None:
    """Return the fault of an archived feed file, or None. It may have gone back."""
    if not base.storage.renames:
        return None  # they stay where they were delivered, and belong to others
    directory = base.at("archive", run)
    path = f"{directory}/{name}"
    entry, shown = base.storage.stat(path), place(path)
    if entry is None:
        return None if name in rewritten_files(base, run) else f"{shown}: is missing"
    if entry.bytes != size:
        return f"{shown}: has {counted(entry.bytes, 'byte')} and should have {size:,}"
    try:
        difference = checksum.difference(path, expected)
    except MutatorError as fault:
        return fault.message
    return difference and f"{shown}: {difference}"
