"""The version that an apply commits: made of its result, stamped, and with large contents in files of their own."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mutator.dataset.commits import Commit, next_time, time_text
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import defaults_text
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.apply_task import WrittenRows
from mutator.errors.failpoints import failpoint
from mutator.pipeline.accounting import Result
from mutator.pipeline.next_state import members_of_merge
from mutator.plan.inspect.managed import stored_schema
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.order_values import order_text, order_value
from mutator.storage import storage_for
from mutator.table.overwrite import Replacement


def version_of_result(
    snapshot: Snapshot,
    plan: Plan,
    result: Result,
    written: Sequence[WrittenRows],
    as_of: int,
    seconds: float,
    replaced: Replacement | None = None,
) -> Commit:
    """Return the version that follows a snapshot.

    as_of: the version that the decisions were made against. replaced: by an overwrite.
    """
    before = snapshot.version
    index = tuple(one.index for one in written if one.index is not None)
    if replaced is not None:
        index += replaced.index
    rejected = [side for side in result.beside if side.role == "rejected"]
    return before.next(
        plan.operation,
        **members_of_merge(plan, before, result, time_text(next_time(time.time(), before))),
        as_of=as_of,
        spec=_spec_of(snapshot, plan),
        files=tuple(file for one in written for file in one.files),
        removed=() if replaced is None else replaced.removed,
        index=index,
        rejected=tuple(rejected),
        seconds=round(seconds, 3),
        defaults=_defaults_of(snapshot, plan),
        lost=0 if replaced is None else replaced.lost,
        absences=((plan.now, order_text(plan.rows.order_type, result.highest) or ""),) if plan.register.full else (),
        truncates=_truncates_of(plan, before, result),
    )


def _truncates_of(plan: Plan, before: Commit, result: Result) -> tuple[str, ...]:
    """Return the order values of all truncates up to the version after another one; nothing without history."""
    if not (plan.keeps_events and result.truncates):
        return before.truncates
    order_type = plan.rows.order_type
    known = {order_value(order_type, one) for one in before.truncates}
    return tuple(order_text(order_type, one) or "" for one in sorted(known | result.truncates))


def _defaults_of(snapshot: Snapshot, plan: Reading) -> str | None:
    """Return the values that the rows of earlier files have in the fields that an apply adds; None for no values."""
    known = snapshot.state.spec
    if not known:
        return None
    names = set(stored_schema(known, snapshot.table).schema.names)
    defaults = plan.rows.layouts["master"].defaults
    return defaults_text({name: value for name, value in defaults.items() if name not in names})


def _spec_of(snapshot: Snapshot, plan: Reading) -> dict[str, Any] | None:
    """Return the specification that an apply begins; None if it is the present one."""
    return None if plan.rows.spec == snapshot.state.spec else plan.rows.spec


def placed(table: str, version: Commit, most: int, new: list[str]) -> Commit:
    """Write the files that are too large for the log entry; return the version that names them.

    most: bytes of all files that an entry may have. new: to which the path of each file is added before it is written.
    """
    inline = [one for one in version.stored() if one.content is not None]
    if sum(one.bytes for one in inline) <= most:
        return version

    def apart(one: FileEntry) -> FileEntry:
        return placed_file(table, one, new)

    files = tuple(file.with_each(apart) for file in version.files)
    index, withdrawn = tuple(map(apart, version.index)), tuple(map(apart, version.withdrawn))
    return replace(version, files=files, index=index, withdrawn=withdrawn)


def placed_file(table: str, one: FileEntry, new: list[str]) -> FileEntry:
    """Write a file whose bytes are to be in the log entry; return it without these. Another file stays as it is.

    new: to which its path is added before it is written.
    """
    content = one.inline
    if content is None:
        return one
    new.append(one.path)
    storage, path = storage_for(table), posixpath.join(table, one.path)
    storage.make_directory(posixpath.dirname(path))
    with storage.create_new(path) as stream:
        stream.write(content)
    failpoint("table.placed")
    return replace(one, content=None)
