"""The outcome of a run and the status of a base: values, as text for a terminal and as JSON.

A note in a base: the table that its feed files go into. Without it, a command could take them for another target.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from mutator.dataset import checksummed_json
from mutator.dataset.checksummed_json import json_members
from mutator.dataset.commit.process import Owner
from mutator.dataset.directory import is_table
from mutator.errors import error
from mutator.errors.display import command, counted
from mutator.errors.exceptions import SET_ASIDE_CODE
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.base_report import listed_feed
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, listed, said
from mutator.rules import file_names
from mutator.storage import located, read_if_exists
from mutator.workflow.directory.bad_files import FailedFile
from mutator.workflow.directory.failed_run import FailedRun
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator target"
_BESIDE = "table"  # directory of the table in a base, unless another one is given


def target_path(base: Base, given: str | None = None) -> str | None:
    """Return the path of the table that is the target of a base; None if its target is a master.

    given: by the user, for a base without a note, or after the table has moved. Raises StateError for another one, and
    if the table is not where the note says.
    """
    noted = _noted(base)
    if given is None:
        if noted is not None and not is_table(noted):
            raise error("base.target.lost", path=base.given, target=noted, note=_path(base))
        return noted or (base.at(_BESIDE) if is_table(base.at(_BESIDE)) else None)
    storage, path = located(given)
    path = storage.resolve(path)
    if noted not in (None, path) and is_table(str(noted)):
        raise error("base.target", path=base.given, target=noted, given=given, note=_path(base))
    return path


def note_target(base: Base, table: str) -> None:
    """Note the table of a base. A table in the base may move with it."""
    if _noted(base) != table:
        own = base.at("")
        members = {"inside": table.startswith(own), "table": table.removeprefix(own)}
        base.storage.replace(_path(base), checksummed_json.dump(_FORMAT, 1, members))


def _noted(base: Base) -> str | None:
    data = read_if_exists(_path(base))
    if data is None:
        return None
    try:
        members = checksummed_json.parse(data, _FORMAT, 1)
        return base.at(members["table"]) if members["inside"] else str(members["table"])
    except (KeyError, TypeError, ValueError):
        raise error("base.target.damaged", path=_path(base)) from None


def _path(base: Base) -> str:
    return base.at("_mutator", "target.json")


UNSEEN = "cannot be seen, see below"
_MODES = {
    "exchange": "in one atomic exchange",
    "two renames": "in two renames (this file system has no exchange: for a moment there was no master)",
    "rename": "in one rename (there was no master before)",
    "log": "by its log entry (this storage has no renames)",
    "done": "already, by another process",
}
_OF_A_MASTER = ("mode", "aside", "damaged", "out_of_date", "restored")
_OF_A_TABLE = ("table", "compactions", "compaction_fault")


@dataclass(frozen=True, kw_only=True)
class RunOutcome(PrintedReport):
    """The outcome of a run or restore."""

    base: str
    run: str
    version: int | None  # None: there was nothing to merge
    claimed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # claimed files that were merged before
    rewritten: tuple[str, ...] = ()  # claimed files that were rewritten after they were merged, and are back in incr/
    waiting: tuple[tuple[str, str], ...] = ()  # feed files that were not claimed, and why
    stuck: tuple[tuple[str, str], ...] = ()  # those of them that cannot be moved
    failed_files: tuple[FailedFile, ...] = ()  # claimed files that were set aside, because they cannot be merged
    recovered: tuple[str, ...] = ()  # actions that finished or undid earlier runs
    report: Any = None  # of the merge; None without one
    stopped: int | None = None  # signal that arrived when it was too late to stop
    # Of a master:
    mode: str = ""  # how the version became the master
    aside: tuple[str, ...] = ()  # paths of former masters that are not the dataset of a version, or damaged
    damaged: tuple[str, ...] = ()  # names of files of old datasets known to be damaged: no backup was removed
    out_of_date: tuple[str, ...] = ()  # files for other programs: why each follower has failed
    restored: int | None = None  # the version that was restored
    # Of a table:
    table: str | None = None  # its path
    compactions: tuple[Any, ...] = ()  # reports of those that followed, while no feed file waited
    compaction_fault: str | None = None  # why one of them failed

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        others = _OF_A_MASTER if self.table is not None else _OF_A_TABLE
        return {name: value for name, value in super().members().items() if name not in others}

    def json_line(self) -> str:
        """Return the JSON document in one line."""
        return json.dumps(self.members())

    @property
    def exit_code(self) -> int:
        """Exit code of the command, unless a signal ends it."""
        return SET_ASIDE_CODE if self.failed_files else 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of a run that succeeded."""
        which = "an earlier version" if self.version is None else f"version {self.version}"
        how = "failed" if self.stopped is None else "is not complete"
        return (
            *(["a signal came too late to stop this run: all of it is done"] if self.stopped is not None else []),
            *(f"{name} is not merged: it {why}" for name, why in self.stuck),
            *self._set_aside(),
            *(f"{name} was rewritten after {which} had its content, and is back in incr/" for name in self.rewritten),
            *(
                f"the directory that was the master is now {path}: move it away, unless "
                f"{command('workflow', 'status', self.base)} names a repair"
                for path in self.aside
            ),
            *(
                f"no old backup was removed, because {path} of an earlier master is damaged: "
                f"{command('verify', self.base)} names the directory; put the file back from a copy on another disk, "
                "or remove the directory"
                for path in self.damaged
            ),
            *self.out_of_date,
            *([f"the compaction after it {how}: {self.compaction_fault}"] if self.compaction_fault is not None else []),
        )

    @property
    def is_upkeep(self) -> bool:
        """Whether nothing happened but compactions."""
        has_run = self.version is not None or self.claimed or self.recovered
        return not has_run and (bool(self.compactions) or self.compaction_fault is not None)

    def _set_aside(self) -> list[str]:
        if not self.failed_files:
            return []
        names = file_names.first_few([one.name for one in self.failed_files])
        how = f"{command('workflow', 'status', self.base)} says why, and how to merge them"
        return [f"{counted(len(self.failed_files), 'feed file')} set aside, not merged: {names}; {how}"]

    def sections(self) -> Iterator[ReportSection]:
        """Yield the sections of the run, and of the compactions that followed."""
        yield from () if self.is_upkeep else self._of_run()
        for report in self.compactions:
            yield from report.sections()

    def _of_run(self) -> Iterator[ReportSection]:
        """Yield what was recovered, the merge, the version that it made, and the feed files that are in no version."""
        yield said(*(f"recovered: {action}" for action in self.recovered))
        if self.report is not None:
            yield from self.report.sections()
        yield said(*self._made())
        yield said(*listed("skipped, merged before", self.skipped if self.report is None else ()))
        yield said(*listed("set aside", [one.said for one in self.failed_files]))
        yield said(*listed("not claimed", [f"{name}: {why}" for name, why in self.waiting]))

    def _made(self) -> list[str]:
        """Return lines on the version that the run made."""
        if self.version is None:
            merged_before = f": {counted(len(self.skipped), 'feed file')} merged before" if self.skipped else ""
            return [f"nothing to merge{merged_before}"]
        if self.table is not None:  # the report has it, unless a signal came before it
            return [] if self.report is not None else [f"version {self.version} of {self.table}"]
        again = f" is version {self.restored} again; it" if self.restored is not None else ""
        return [f"version {self.version}{again} became the master {_MODES.get(self.mode, self.mode)}"]


class SeenTarget(ABC):
    """What can be seen of the target of a base. None in its members: it cannot be seen, and a problem says why."""

    @abstractmethod
    def members(self) -> dict[str, Any]:
        """Return members of the JSON."""

    @abstractmethod
    def section(self) -> ReportSection:
        """Return the section on the target and its version."""


@dataclass(frozen=True, kw_only=True)
class BaseStatus(PrintedReport):
    """The status of a base: its run, its target, and the feed files that wait."""

    base: str
    target: SeenTarget
    running: Owner | None  # the process at work now
    ready: tuple[str, ...] | None  # None: they cannot be seen, and a problem says why
    waiting: tuple[tuple[str, str], ...] | None
    recovered: tuple[str, ...]
    problems: tuple[str, ...]
    failed: FailedRun | None  # the last run, if it failed
    failed_files: tuple[FailedFile, ...]  # feed files that were set aside

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        found = asdict(self, dict_factory=json_members)
        del found["target"]
        return found | self.target.members()

    def sections(self) -> Iterable[ReportSection]:
        """Return the state of the base, that of its target, the feed, and problems."""
        state = "needs attention, see below" if self.problems else "idle"
        if (who := self.running) is not None:
            state = f"at work: {who.run}, process {who.process} on {who.host}, since {who.since}"
        return (
            said(f"base     {self.base}", f"state    {state}"),
            self.target.section(),
            _feed(self.ready, self.waiting, self.failed),
            _set_aside(self.failed_files),
            said(*(f"recovered: {action}" for action in self.recovered)),
            said(*(f"problem: {problem}" for problem in self.problems)),
        )


def _feed(
    ready: Sequence[str] | None, waiting: Sequence[tuple[str, str]] | None, failed: FailedRun | None
) -> ReportSection:
    """Return the section on the feed files of a base. None: they cannot be seen."""
    if ready is None or waiting is None:
        return said(f"feed     {UNSEEN}")
    again = failed.feed if failed is not None else ()
    tried = [_tried(names, again) for names in (ready, [name for name, _ in waiting])]
    head = f"feed     {counted(len(ready), 'file')} ready{tried[0]}, {len(waiting):,} waiting{tried[1]}"
    return said(head, *listed_feed(ready, waiting, again))


def _set_aside(files: Sequence[FailedFile]) -> ReportSection:
    """Return the section on the feed files that were set aside."""
    again = [one.path for one in files if one.merged]
    left = len(files) - len(again)
    lines = [f"failed   {counted(left, 'file')} set aside, see below"] if left else []
    return said(*lines, *listed("set aside, and merged since it was delivered again; remove it", again))


def _tried(names: Sequence[str], failed: Sequence[str]) -> str:
    count = len(set(names).intersection(failed))
    return f" ({count:,} of them failed in the last run)" if count else ""
