"""The state of a master: its version, and how it differs from its manifest and log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mutator.dataset.commits import Commit
from mutator.dataset.directory import differing_parts, oldest_check, read_manifest
from mutator.dataset.version_log import NONE, UNCHANGED, Log, members_of
from mutator.errors import MutatorError, StateError
from mutator.errors.display import command, counted
from mutator.errors.parts import place
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.sections import ReportSection, said
from mutator.rules import file_names
from mutator.workflow.directory.cures import forget_repaired, has_whole_copy, lost_master, master_faults
from mutator.workflow.directory.paths import Base, master_of
from mutator.workflow.directory.results import UNSEEN, SeenTarget

if TYPE_CHECKING:
    from mutator.workflow.directory.view import View

_ENDS = {"abandoned": "did not commit", "settled": "found nothing new"}


@dataclass(frozen=True)
class SeenMaster(SeenTarget):
    """What can be seen of a master."""

    version: Commit | None  # the latest
    made: Commit | None  # the one that made or restored the master
    master: str | None
    oldest_check: tuple[str, str | None] | None  # file of the master that was checked longest ago, and when

    def members(self) -> dict[str, Any]:
        """Return members of the JSON."""
        versions = {"version": self.version, "made": self.made}
        known = {name: None if one is None else members_of(one) for name, one in versions.items()}
        return {**known, "master": self.master, "oldest_check": self.oldest_check}

    def section(self) -> ReportSection:
        """Return the section on the master and its version."""
        made, latest = self.made, self.version
        version = UNSEEN
        if made is not None and latest is not None:
            version = f"{made.number}, {counted(made.records, 'row')}, {made.action}, {made.committed}"
            version = version if made.number else "none yet: the master is the given one"
        lines = [f"version  {version}"]
        if latest is not None and latest.action in UNCHANGED:
            lines.append(f"         version {latest.number} only says that run {latest.run} {_ENDS[latest.action]}")
        lines.append(f"master   {self.master or UNSEEN}")
        if self.oldest_check is not None:
            path, checked = self.oldest_check
            lines.append(f"checked  longest ago: {checked or 'never'}, {path}")
        return said(*lines)


def state_of(view: View, log: Log, *, recovered: bool) -> SeenMaster:
    """Return what can be seen of a master, and add its problems to the view."""
    base = view.base
    versions = _versions(view, log)
    latest = versions[-1] if versions else None
    master = base.master if base.storage.renames else None if latest is None else master_of(base, latest)
    if recovered:
        view.see(lambda: forget_repaired(base))
    if master is not None:
        view.see(lambda: _check_master(view, log, master, latest))
    if recovered:  # else it may have left a version's dataset in output/
        view.see(lambda: _check_outputs(view, log))
    return SeenMaster(
        version=latest,
        made=None if versions is None else _made(versions),
        master=None if master is None else base.shown(master),
        oldest_check=None if master is None else _oldest_check(base, master),
    )


def _versions(view: View, log: Log) -> list[Commit] | None:
    """Return the versions that can be read, oldest first, from ``NONE``; None if the newest cannot be read."""
    found = view.see(log.readable)
    if found is None:
        return None
    versions, faults, newest = found
    for fault in faults:
        view.add(fault.message)
    versions.insert(0, NONE)
    return versions if versions[-1].number == newest else None


def _check_master(view: View, log: Log, master: str, latest: Commit | None) -> None:
    """Add a problem for each difference between the master and its manifest, and if it is not the latest version.

    latest: None if the log does not show it.
    """
    base = view.base
    try:
        known = read_manifest(base.storage, master)
    except StateError as fault:
        # The cures of the version's own dataset depend on the log.
        view.add((lost_master(base, log, latest) if latest is not None and latest.dataset else fault).message)
        return
    if latest is None or log.readable()[1]:
        problems = differing_parts(base.storage, master, known.parts()) if known is not None else []
        if problems:
            view.add(f"{place(master)}: {file_names.first_few(problems)}")
    elif latest.dataset is not None and (known is None or known.commit.id != latest.dataset):
        if not base.storage.renames:  # else the recovery has reported it
            view.add(lost_master(base, log, latest).message)
    else:
        for problem in master_faults(base, log):
            view.add(problem.message)


def _check_outputs(view: View, log: Log) -> None:
    """Add a problem for each dataset in output/ that does not belong there."""
    base = view.base
    outputs = [dataset.path for dataset in base.datasets() if dataset.path.startswith(base.at("output/"))]
    made, faults, _ = log.readable()
    if faults:
        return  # they are problems already, and an entry that cannot be read may name a dataset
    known = {base.at(version.path) for version in made if version.path and not base.storage.renames}
    committed = {version.dataset for version in made if version.dataset is not None}
    for path in outputs:
        if has_whole_copy(base, path, committed):
            cure = command("verify", "--repair", base.given)
            view.add(f"{place(path)}: its manifest is damaged; put it back: {cure}")
        elif path not in known:
            view.add(f"{place(path)}: does not belong to any version of this base; move it away")


def _oldest_check(base: Base, master: str) -> tuple[str, str | None] | None:
    """Return the file of the master that was checked longest ago, and when; None if the manifest cannot be read."""
    with suppress(MutatorError):  # it is one of the problems
        manifest = read_manifest(base.storage, master)
        part = oldest_check(manifest) if manifest is not None else None
        return (part.path, part.checked) if part is not None else None
    return None


def _made(versions: Sequence[Commit]) -> Commit:
    """Return the version that made or restored the master. versions: oldest first."""
    dataset = versions[-1].dataset
    made = (one for one in reversed(versions) if one.action not in UNCHANGED and one.dataset == dataset)
    return next(made, NONE)
