"""The history of a base: a table that applies what the base merged, of the rooms ``workflow`` and ``table``.

Each run of the base is a transaction of one application, so a command that was killed goes on. The base is the truth,
and the table can be made again of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mutator.errors import MutatorError, error
from mutator.errors.display import command, counted

if TYPE_CHECKING:
    from mutator.config import Config
    from mutator.config.settings import LimitSpec
    from mutator.table.apply import OpenRunner
    from mutator.table.table import Table
    from mutator.workflow.directory.replay import Archive, ArchivedRun

_APPLICATION = "mutator history of a base"
PLACE = "history"  # of the table, in the base

Tell = Callable[[Sequence[str]], None]


def create_from_base(
    table: str,
    settings: Mapping[str, Any],
    config: Config,
    base: str,
    buckets: int | None,
    open_runner: OpenRunner,
    warn: Tell,
) -> None:
    """Create a table with the history of a base: of what it began with, and of its archived feed files.

    Where some of these are gone, the history begins with the records as they are now, and has what is left of others. A
    call that was killed goes on if it is repeated. settings: of the table, and ``settings_of_base``. config: of these.
    """
    from mutator.dataset.directory import is_table
    from mutator.table.new_table import new_table
    from mutator.table.table import Table
    from mutator.workflow.directory import open_base
    from mutator.workflow.directory.replay import archive_of

    archive = archive_of(open_base(base))
    if not is_table(table):
        dataset = archive.given if archive.is_whole else archive.master
        new_table(table, settings, config, dataset, buckets, open_runner, warn)
    warn(_lost(archive))
    catch_up(Table(table), archive, open_runner)


def settings_of_base(base: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, and those of a base that a user has not set."""
    from mutator.workflow.directory.explain import recorded_settings_of

    return {**recorded_settings_of(base, settings), **settings}


def _lost(archive: Archive) -> list[str]:
    """Return warnings of what a history lacks."""
    if archive.is_whole:
        return []
    gone = [one for one in archive.runs if one.why is not None]
    what = ["what the base began with"] * archive.given_is_lost
    what += (
        [f"the feed files of {counted(len(gone), 'version')}, of which {gone[0].number} is the first"] if gone else []
    )
    why = f" ({gone[0].why})" if gone else ""
    return [f"the history lacks {' and '.join(what)}{why}; the records as they are now are complete"]


def follow(base: str, config: Config, open_runner: OpenRunner) -> list[str]:
    """Bring the history of a base up to its newest version; return warnings. config: of the base.

    The first call creates the table.
    """
    from mutator.config import parse
    from mutator.dataset.directory import is_table
    from mutator.table.table import Table
    from mutator.workflow.directory import open_base
    from mutator.workflow.directory.replay import archive_of

    opened, warnings = open_base(base), list[str]()
    path = opened.at(PLACE)
    try:
        if not is_table(path):
            if not archive_of(opened).runs:
                return []
            own = {name: value for name, value in config.given.items() if name.startswith("history")}
            whole = settings_of_base(base, own)
            create_from_base(path, whole, parse(whole), base, None, open_runner, warnings.extend)
            return warnings
        table = Table(path)
        archive = archive_of(opened, table.snapshot.state.transactions.get(_APPLICATION, 0))
        catch_up(table, archive, open_runner, needs_all=True)
    except MutatorError as fault:
        what = f"the history of the base is out of date: {fault.message}"
        return [*warnings, f"{what}; the next run brings it up to date"]
    return warnings


def catch_up(table: Table, archive: Archive, open_runner: OpenRunner, *, needs_all: bool = False) -> None:
    """Apply the runs of a base that a table lacks, and undo those that the base undid.

    needs_all: raise StateError for a run whose feed files are gone, in place of leaving it out.
    """
    numbers, last = {one.number for one in archive.runs}, table.snapshot.state.transactions.get(_APPLICATION, 0)
    if last and last not in numbers:
        common = max((number for number in numbers if number < last), default=0)
        table.restore(_version_at(table, common))
        last = common
    for one in archive.runs:
        if one.number <= last:
            continue
        if one.why is None:
            _apply(table, one, open_runner)
        elif needs_all:
            again = f"remove the table {table.path}, and make it again of what is left"
            why = f"version {one.number} cannot be applied: {one.why}"
            raise error("base.version", path=table.path, why=why, others=again)


def _version_at(table: Table, number: int) -> int:
    """Return the last version of a table that has the run of a version of its base, and no later one. 0: none has."""
    from mutator.dataset.versions.log import TableLog

    found, first = None, None
    for one in TableLog(table.path).following(0):
        if one.transaction is not None and one.transaction[0] == _APPLICATION:
            first = first or one.number
            if one.transaction[1] <= number and number:
                found = one.number
    return found if found is not None else (first or 1) - 1


def _apply(table: Table, run: ArchivedRun, open_runner: OpenRunner) -> None:
    from mutator.table.recorded import config_of_version

    config = config_of_version(table.snapshot, {**(run.settings or {})})
    try:
        table.apply(
            [*run.paths],
            config=replace(config, limits=_accepting(config), inputs=replace(config.inputs, consumed_files="merge")),
            txn=(_APPLICATION, run.number),
            compact_after=True,
            open_runner=open_runner,
        )
    except MutatorError as fault:
        why = f"version {run.number} cannot be applied to {table.path}: {fault.message}"
        raise error(
            "base.version", path=table.path, why=why, others=f"see {command('table', 'log', table.path)}"
        ) from None


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
