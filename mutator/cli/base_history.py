"""The history of a base: a table to which the runs of the base are applied.

Each run is a transaction of one application, so a command that was killed goes on. A tag of the table says which base
it is of, and with which version of the base it began: 0 where the archive has everything, so that it began with the
first master. The base is the truth, and the table can be made again from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from mutator.errors import MutatorError, StorageError, error
from mutator.errors.display import command, counted
from mutator.errors.parts import setting

if TYPE_CHECKING:
    from mutator.config import Config
    from mutator.config.settings import LimitSpec
    from mutator.table.apply import OpenRunner
    from mutator.table.table import Table
    from mutator.workflow.directory.replay import Archive, ArchivedRun

_APPLICATION = "mutator history of a base"
PLACE = "history"  # of the table, in the base
_MARK = re.compile(r"base-(?P<origin>.+)-(?P<began>[0-9]+)")

Tell = Callable[[Sequence[str]], None]


class _Began(NamedTuple):
    """The beginning of a history."""

    origin: str  # the first run of its base
    number: int  # of the version of the base whose records were the first ones; 0: those before its first run
    version: int  # of the table, that had these


def create_from_base(
    path: str,
    settings: Mapping[str, Any],
    config: Config,
    base: str,
    buckets: int | None,
    open_runner: OpenRunner,
    warn: Tell,
) -> None:
    """Create a table with the history of a base: with the master that it began with, and its archived feed files.

    Where some of these are gone, the table begins with the present records, and gets the runs whose feed files are
    left. A call that was killed goes on if it is repeated. settings: of the table, and ``settings_of_base``. config: of
    these. Raises StateError where the path has another table.
    """
    from mutator.dataset.directory import is_table
    from mutator.dataset.version_log import Log
    from mutator.table.new_table import new_table
    from mutator.table.table import Table
    from mutator.workflow.directory import open_base
    from mutator.workflow.directory.replay import archive_of

    archive = archive_of(open_base(base))
    began = _began(Table(path)) if is_table(path) else None
    if began is None:
        number, dataset = (0, archive.given) if archive.is_whole else (archive.newest, archive.master)
        new_table(path, settings, config, dataset, buckets, open_runner, warn, resumes=archive.is_whole)
        if not archive.is_whole and Log(open_base(base).path).latest().number != number:
            _again(Table(path), "a run merged other files while it was made")
        Table(path).tag(f"base-{archive.origin}-{number}")
    if not archive.is_whole:
        warn(_lost(archive))
    catch_up(Table(path), archive, open_runner)


def settings_of_base(base: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, and those of a base that a user has not set."""
    from mutator.workflow.directory.explain import recorded_settings_of

    return {**recorded_settings_of(base, settings), **settings}


def _lost(archive: Archive) -> list[str]:
    """Return a warning that names the lost parts of a history."""
    gone, what = [one for one in archive.runs if one.why is not None], list[str]()
    if archive.adopted:
        what.append(f"the versions before {archive.adopted}, which adopted another master")
    elif archive.given_is_lost:
        what.append("the first master of the base")
    if gone:
        first = f"of which {gone[0].number} is the first ({gone[0].why})"
        what.append(f"the feed files of {counted(len(gone), 'version')}, {first}")
    return [f"the history lacks {' and '.join(what)}; the present records are complete"]


class BaseHistory:
    """The history that a base keeps beside its master."""

    def __init__(self, base: str, open_runner: Callable[[Config], OpenRunner]) -> None:
        """Read nothing yet."""
        self._base, self._open_runner = base, open_runner
        self._newest: int | None = None  # version of the base that the history has

    def follow(self, config: Config) -> list[str]:
        """Bring the history up to the newest version of the base; return warnings. config: of the base.

        The first call creates the table. The caller holds the lock of the base.
        """
        warnings = list[str]()
        try:
            self._follow(config, warnings.extend)
        except Exception as fault:  # noqa: BLE001  # the run of the base has succeeded
            is_known = isinstance(fault, MutatorError)
            text = fault.message if isinstance(fault, MutatorError) else f"{type(fault).__name__}: {fault}"
            tail = "; the next run brings it up to date" if isinstance(fault, StorageError) or not is_known else ""
            warnings.append(f"the history of the base is out of date: {text}{tail}")
        return warnings

    def _follow(self, config: Config, warn: Tell) -> None:
        from mutator.config import parse
        from mutator.dataset.directory import is_table
        from mutator.dataset.version_log import Log
        from mutator.storage import storage_for
        from mutator.table.table import Table
        from mutator.workflow.directory import open_base
        from mutator.workflow.directory.replay import archive_of

        opened = open_base(self._base)
        path, log = opened.at(PLACE), Log(opened.path)
        newest = log.latest().number
        if newest == self._newest or log.first_run() is None:
            return
        own = {name: value for name, value in config.given.items() if name.startswith("history")}
        runner = self._open_runner(config)
        if is_table(path) and _began(Table(path)) is not None:
            _check_settings(Table(path), own)
            catch_up(Table(path), archive_of(opened), runner)
        elif not is_table(path) and storage_for(path).stat(path) is not None:
            cure = "remove it, or move it to another place"
            raise error("table.history", why=f"{opened.shown(path)} is not the history of this base", cure=cure)
        else:
            whole = settings_of_base(self._base, own)
            create_from_base(path, whole, parse(whole), self._base, None, runner, warn)
        self._newest = newest


def _check_settings(table: Table, given: Mapping[str, Any]) -> None:
    """Raise StateError for settings of a history that are others than those of the table."""
    from mutator.config.sources import shown
    from mutator.table.prepare import OF_HISTORY

    known = table.snapshot.state.settings
    for name in OF_HISTORY:
        if shown(given.get(name, "")) != shown(known.get(name, "")):
            _again(table, f"{setting(name)} was '{shown(known.get(name, ''))}' when the history began")


def _began(table: Table) -> _Began | None:
    """Return the beginning of the history of a base; None for another table, and for one that is not whole."""
    found = ((_MARK.fullmatch(tag), version) for tag, version in table.tags().items())
    marks = (_Began(mark["origin"], int(mark["began"]), version) for mark, version in found if mark is not None)
    return next(marks, None)


def catch_up(table: Table, archive: Archive, open_runner: OpenRunner) -> None:
    """Apply the runs of a base that a table lacks, and undo those that the base undid.

    Raises StateError for the table of another base, and where it has to be made again.
    """
    began = _began(table)
    if began is None or began.origin != archive.origin:
        _again(table, "it is not the history of this base")
    numbers, last = {one.number for one in archive.runs}, table.snapshot.state.transactions.get(_APPLICATION, 0)
    if not numbers.issuperset(archive.counting_at(began.number)):
        _again(table, f"the base was restored to a version before {began.number}, with which the history began")
    if began.number < archive.adopted:
        _again(table, f"the base adopted another master in version {archive.adopted}")
    if last and last not in numbers:
        version, last = _common(table, numbers, began)
        try:
            table.restore(version)
        except MutatorError as fault:
            _again(table, f"version {version} of it, which the base went back to, cannot be restored: {fault.message}")
    for one in archive.runs:
        if one.number > last and one.why is None:
            _apply(table, one, open_runner)
        elif one.number > max(last, began.number):
            _again(table, f"version {one.number} of the base cannot be applied: {one.why}")


def _again(table: Table, why: str) -> NoReturn:
    raise error("base.version", path=table.path, why=why, others="remove this table, and make it again from the base")


def _common(table: Table, numbers: Set[int], began: _Began) -> tuple[int, int]:
    """Return the newest version of a table that has only runs that count, and the last of them; 0: it has none."""
    from mutator.dataset.versions.log import TableLog

    found = began.version, 0
    for one in TableLog(table.path).following(began.version):
        if one.transaction is not None and one.transaction[0] == _APPLICATION and one.transaction[1] in numbers:
            found = one.number, one.transaction[1]
    return found


def _apply(table: Table, run: ArchivedRun, open_runner: OpenRunner) -> None:
    from mutator.dataset.checksum import difference
    from mutator.table.recorded import config_of_version

    if other := next((path for path, text in run.files if difference(path, text) is not None), None):
        _again(table, f"{other} has other content than version {run.number} of the base merged")
    config = config_of_version(table.snapshot, run.settings)
    inputs = replace(config.inputs, consumed_files="merge")
    try:
        table.apply(
            [path for path, _ in run.files],
            config=replace(config, limits=_accepting(config), inputs=inputs),
            txn=(_APPLICATION, run.number),
            compact_after=True,
            open_runner=open_runner,
        )
    except MutatorError as fault:
        if isinstance(fault, StorageError):
            raise
        why = f"version {run.number} of the base cannot be applied: {fault.message}"
        log = f"see the table so far with: {command('table', 'log', table.path)}"
        raise error("base.version", path=table.path, why=why, others=log) from None


def _accepting(config: Config) -> LimitSpec:
    """Return the limits of a run that the base has accepted."""
    return replace(
        config.limits,
        allow_empty_feed=True,
        allow_older_snapshot=True,
        reject_policy="quarantine",
        reject_limit=1 << 62,
        max_reject_fraction=1.0,
        max_duplicate_fraction=1.0,
        max_delete_fraction=1.0,
        max_absence_fraction=1.0,
        before_horizon="insert",
    )
