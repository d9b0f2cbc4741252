"""Compare datasets and tables from Python: what ``mutator diff`` does, with an object as its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mutator.cli.diff_commands import dataset_at, recorded_for_feed, recorded_in
from mutator.config import Config
from mutator.config.audience import PYTHON
from mutator.errors.display import one_line
from mutator.errors.exceptions import said_to
from mutator.errors.parts import plain
from mutator.frames.scratch import Scratch
from mutator.pipeline import arguments
from mutator.pipeline.arguments import CallSettings, GivenArguments
from mutator.pipeline.diff.compare import LENIENT, OVERWRITE, compare, compare_feed
from mutator.pipeline.diff.records import Diff
from mutator.pipeline.runners import Engine, engine_on
from mutator.pipeline.tables_in_memory import (
    Names,
    all_written,
    check_feed,
    runner_without_session,
    write_given,
)
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.runner_choice import RUNNERS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark import SparkContext

    from mutator.engine.receipts import Receipts
    from mutator.pipeline.python_merge import Field, PathLike, Table
    from mutator.plan.run_plan import Plan

CALL = "mutator.diff()"


def diff(
    old: PathLike | Table,
    new: PathLike | Table | None = None,
    /,
    *,
    feed: PathLike | Table | Sequence[PathLike | Table] | None = None,
    rows: int = 10,
    key: Field | Sequence[Field] | None = None,
    order_by: Field | Sequence[Field] | None = None,
    order_type: str | None = None,
    op: Field | None = None,
    delete_codes: str | Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | int | None = None,
    config: Config | Mapping[str, Any] | PathLike | None = None,
    runner: str | None = None,
    scratch: PathLike | None = None,
    **settings: object,
) -> Diff:
    """Return which records two datasets do not have in common: added, removed, changed.

    old, new: paths, versions of a base or of a versioned table (``"base@5"``), tables, or Datasets. feed: in place of
    new; what merging it would change. rows: how many records of each kind the result has. key: the field or fields of
    the record ID, unless a dataset has recorded them. The other arguments are those of ``merge``. Nothing is written
    but temporary files.

    Raises the errors of the catalogue (``mutator.MutatorError``).

    >>> print(diff("old", "new", key="id"))                                                  # doctest: +SKIP
    1 record added, 1 removed, 1 changed
    """
    named = {
        "key": key,
        "order_by": order_by,
        "order_type": order_type,
        "op": op,
        "delete_codes": delete_codes,
        "delimiter": delimiter,
        "header": header,
        "runner": runner,
    }
    with arguments.named(CALL):
        if (new is None) != (feed is not None):
            raise arguments.wrong("new", new, "what old is compared with, or None beside feed")
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise arguments.wrong("rows", rows, "a number from 0")
        if runner is not None:
            arguments.one_of("runner", runner, RUNNERS)
        given = arguments.settings_of_call(config, {**named, **settings})
        before = arguments.input_of("old", old)
        after = [arguments.input_of("new", new)] if feed is None else arguments.feed_of(feed)
        with Scratch(arguments.scratch_of(scratch)) as temporary:
            return _compared(given, before, after, temporary, is_feed=feed is not None, rows=rows, shared=scratch)


def _compared(
    call: CallSettings,
    before: GivenArguments,
    after: Sequence[GivenArguments],
    temporary: Scratch,
    *,
    is_feed: bool,
    rows: int,
    shared: PathLike | None,
) -> Diff:
    parts = [before, *after]
    audience = replace(PYTHON, paths=Names(temporary, parts))
    with said_to(audience.writers), ExitStack() as stack:
        compared = [before] if is_feed else parts
        at_path = [None if one.path is None else dataset_at(one.path, stack) for one in compared]
        at = [
            replace(one, path=None if place is None else place.path)
            for one, place in zip(compared, at_path, strict=True)
        ]
        at += after if is_feed else []
        extra = LENIENT if is_feed else {**LENIENT, **OVERWRITE}
        places = [place for place in at_path if place is not None]
        call = replace(call, values={**call.values, **extra})
        recorded = recorded_for_feed(places[0], call.values) if is_feed and places else recorded_in(places, call.values)
        config = arguments.config_of_place(call, recorded, "in the manifest")
        config = config.read_by(audience)
        tables = [one for one in at if one.path is None]
        has_shared = None if shared is None else str(shared)
        wanted = runner_without_session(config.effort.runner, tables, True, has_shared)
        warnings = [*config.wording.warnings]
        merge = _warned(engine_on(wanted, _context), warnings)
        old, found = _path(at[0], temporary, "old")
        how: dict[str, Any] = {"rows": rows, "scratch": temporary.path}
        if is_feed:
            check_feed(config.rows, config.inputs, at[1:])
            paths, of_feed = all_written(at[1:], temporary)
            made = compare_feed(config, old, paths, merge, tables=(*found, *of_feed), **how)
        else:
            new, of_new = _path(at[1], temporary, "new")
            made = compare(config, old, new, merge, tables=(*found, *of_new), **how)
    texts = tuple(dict.fromkeys(one_line(plain(audience(text))) for text in warnings))
    return replace(made, old=before.label, new=", ".join(one.label for one in after), warnings=texts)


def _path(one: GivenArguments, temporary: Scratch, name: str) -> tuple[str, list[TableInput]]:
    """Return the path of an input, and its table if it is in memory."""
    if one.path is not None:
        return one.path, []
    table = write_given(one, f"{temporary.path}/{one.label}")
    return table.path, [table]


def _warned(engine: Engine, warnings: list[str]) -> Engine:
    """Return an engine that adds the warnings of its plan to a list."""

    def merge(plan: Plan, staging: str | None) -> Receipts:
        warnings.extend(plan.warnings)
        return engine(plan, staging)

    return merge


def _context() -> AbstractContextManager[SparkContext]:
    from mutator.engine.spark.session import spark_context

    return spark_context(CALL)
