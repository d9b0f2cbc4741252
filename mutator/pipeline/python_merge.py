"""Merge from Python, without a session and without files: tables in memory are inputs, and the result is one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from mutator.config import Config
from mutator.config.audience import PYTHON
from mutator.errors import error
from mutator.errors.exceptions import said_to
from mutator.errors.quick_dataclass import dataclass
from mutator.frames.recognize import is_connect
from mutator.frames.scratch import Scratch
from mutator.pipeline import arguments
from mutator.pipeline.arguments import CALL, GivenArguments
from mutator.pipeline.merge import carry_out, prepare, with_tables
from mutator.pipeline.report import Report
from mutator.pipeline.runners import Engine, engine_on
from mutator.pipeline.tables_in_memory import (
    Names,
    all_written,
    check_feed,
    empty_readers,
    runner_without_session,
    without_rows,
    write_given,
)
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.runner_choice import RUNNERS
from mutator.plan.strategy import ENGINES
from mutator.rules.known_formats import FORMATS
from mutator.storage import shared_places, storage_for

if TYPE_CHECKING:
    import pandas as pd
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_IN_MEMORY = "in memory"


class ArrowStream(Protocol):
    """A table that any library can read: of Polars, Arrow, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of Arrow's C interface."""


# Texts, because the libraries are optional.
Table: TypeAlias = "pd.DataFrame | DataFrame | ArrowStream"
PathLike: TypeAlias = "str | os.PathLike[str]"
Field: TypeAlias = str | int


def merge(
    *,
    master: PathLike | Table | Sequence[Table],
    feed: PathLike | Table | Sequence[PathLike | Table],
    output: PathLike | None = None,
    key: Field | Sequence[Field] | None = None,
    order_by: Field | Sequence[Field] | None = None,
    order_type: str | None = None,
    op: Field | None = None,
    delete_codes: str | Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | int | None = None,
    config: Config | Mapping[str, Any] | PathLike | None = None,
    session: SparkSession | SparkContext | None = None,
    runner: str | None = None,
    engine: str = "auto",
    scratch: PathLike | None = None,
    dry_run: bool = False,
    **settings: object,
) -> Report:
    """Merge a feed of inserts, updates and deletes into a master; return the report, which hands out the result.

    master: a directory, a table, or a list of tables. feed: files, directories or patterns, tables, or a list of these.
    A table is a DataFrame of pandas, Polars or Spark, or anything with ``__arrow_c_stream__``. output: a path that must
    not exist; without it the result lives as long as the report. key: the field or fields of the record ID. order_by:
    the field whose highest value wins; without it, order comes from file names. order_type: long, decimal, timestamp or
    string. op: the field with the op code; delete_codes: its values that are deletes. config: a file or a mapping of
    settings; **settings: all others by name, ``reject_policy="quarantine"``. session: merge on
    this Spark session; else runner ("auto", "local" or "spark") decides, as for ``mutator run``. scratch: a directory
    that Spark's workers share with this process, where they run on other machines. dry_run: count, and write nothing.

    Raises the errors of the catalogue (``mutator.MutatorError``); then no output is visible and no input has changed.

    >>> report = merge(master=customers, feed=changes, key="id", order_by="updated_at")       # doctest: +SKIP
    >>> report.counts["feed inserted"], report.result.to_pandas()                             # doctest: +SKIP
    """
    given = {
        "key": key,
        "order_by": order_by,
        "order_type": order_type,
        "op": op,
        "delete_codes": delete_codes,
        "delimiter": delimiter,
        "header": header,
    }
    if runner is not None:
        given["runner"] = arguments.one_of("runner", runner, RUNNERS)
    masters, feeds = arguments.master_of(master), arguments.feed_of(feed)
    target = arguments.path_of("output", output, "the path of a new directory, or None for a result in memory")
    shared = arguments.scratch_of(scratch)
    arguments.one_of("engine", engine, ENGINES)
    arguments.flag("dry_run", dry_run)
    checked = arguments.config_of(config, {**given, **settings}, masters[0].path)
    check_feed(checked.rows, checked.inputs, feeds)
    call = _Call(checked, given, masters, feeds, target, shared, engine, dry_run)
    wanted, context = _spark(call, session)
    with call.scratch() as temporary:
        return _merged(call, temporary, engine_on(wanted, context))


@dataclass(frozen=True)
class _Call:
    """The checked arguments of a call."""

    config: Config
    given: Mapping[str, Any]  # the common settings by name; None: not given
    masters: Sequence[GivenArguments]
    feeds: Sequence[GivenArguments]
    target: str | None  # None: the result stays in memory
    shared: str | None  # a directory that Spark's workers share
    engine: str
    dry_run: bool

    @property
    def parts(self) -> Sequence[GivenArguments]:
        """Return all inputs."""
        return (*self.masters, *self.feeds)

    @property
    def tables(self) -> Sequence[GivenArguments]:
        """Return the inputs in memory."""
        return [part for part in self.parts if part.path is None]

    @property
    def has_files(self) -> bool:
        """Return whether the merge needs temporary files."""
        return bool(self.tables) or self.target is None

    def scratch(self) -> AbstractContextManager[Scratch | None]:
        """Open the directory of temporary files; None if the merge needs none."""
        return Scratch(self.shared) if self.has_files else nullcontext()


def _merged(call: _Call, temporary: Scratch | None, engine: Engine) -> Report:
    """Carry out a merge; return its report, with the names of tables."""
    config = call.config.read_by(replace(PYTHON, paths=Names(temporary, call.parts)))
    with said_to(config.wording.audience.writers):
        master_path, master_tables = _written(call.masters, temporary, "master")
        _check_master(call.masters, master_tables)
        paths, feed_tables = all_written(call.feeds, temporary)
        path = call.target or f"{temporary.path if temporary else ''}/result"
        tables = (*master_tables, *feed_tables)
        prepared = prepare(config, master_path, paths, path, engine=call.engine, tables=tables)
        _, report = carry_out(prepared, engine, dry_run=call.dry_run)
        if temporary is not None and call.target is None and not call.dry_run:
            temporary.keep_only(path)
    warnings = (*report.warnings, *_unused(call), *empty_readers(call.feeds, feed_tables))
    report = with_tables(prepared, replace(report, warnings=warnings), temporary if call.target is None else None)
    return _named(report, call.masters, call.feeds, call.target)


def _unused(call: _Call) -> Iterator[str]:
    """Yield a warning for arguments without effect."""
    given = call.given
    written = call.config.output.format
    is_text = written is not None and FORMATS[written].delimited
    names = [] if is_text or given["delimiter"] is None else ["delimiter"]
    names += [] if given["header"] is None else ["header"]
    if names and len(call.tables) == len(call.parts):
        yield f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} ignored: all inputs are tables"
    if call.shared is not None and not call.has_files:
        yield "scratch is ignored: all inputs and the output are paths, so there are no temporary files"


def _check_master(parts: Sequence[GivenArguments], tables: Sequence[TableInput]) -> None:
    """Raise DataError for a reader without a row: merging into nothing would silently lose the master."""
    for label in without_rows(parts, tables):
        what = "has no rows, as a reader has that something else has read"
        cure = "give a new reader; if the master is empty, give reader.schema.empty_table()"
        raise error("table.rows", table=label, what=what, cure=cure)


def _written(parts: Sequence[GivenArguments], temporary: Scratch | None, label: str) -> tuple[str, list[TableInput]]:
    """Return the path of a master, and its tables if it is in memory."""
    first = parts[0]
    if first.path is not None:
        return first.path, []
    assert temporary is not None
    if len(parts) == 1:
        table = write_given(first, f"{temporary.path}/{first.label}")
        return table.path, [table]
    directory = f"{temporary.path}/{label}"
    storage_for(directory).make_directory(directory)
    tables = [write_given(one, f"{directory}/{one.label}") for one in parts]
    return directory, tables


# --- where the tasks run


def _spark(call: _Call, session: Any) -> tuple[str, Callable[[], AbstractContextManager[SparkContext]]]:
    """Return the runner that is wanted, and a function that opens the Spark context.

    Raises ConfigError for an unusable session, and where Spark's workers would not see the temporary files.
    """
    if session is not None:
        return _given_session(call, session)
    wanted = runner_without_session(call.config.effort.runner, call.tables, call.has_files, call.shared)
    return wanted, _own_context


def _given_session(call: _Call, session: Any) -> tuple[str, Callable[[], AbstractContextManager[SparkContext]]]:
    if not type(session).__module__.startswith("pyspark."):
        raise arguments.wrong("session", session, "a SparkSession or a SparkContext, or None")
    if call.config.effort.runner == "local":
        what = "session is given, and the runner is local"
        raise error("argument.both", call=CALL, what=what, cure="leave out one of them")
    if is_connect(session):
        raise error("spark.connect.merge")
    from mutator.engine.spark.frames import context_of, runs_elsewhere
    from mutator.engine.spark.jvm_start import use_own_python

    sc = context_of(session, CALL)
    if call.has_files and call.shared is None and runs_elsewhere(sc):
        label = call.tables[0].label if call.tables else "the result in memory"
        raise error("table.shared", table=label, shared=shared_places())
    use_own_python(sc)
    return "spark", lambda: nullcontext(sc)


def _own_context() -> AbstractContextManager[SparkContext]:
    from mutator.engine.spark.session import spark_context

    return spark_context(CALL)


def _named(
    report: Report, masters: Sequence[GivenArguments], feeds: Sequence[GivenArguments], target: str | None
) -> Report:
    """Return a report with the names of tables."""
    label = masters[0].label if len(masters) == 1 else f"{len(masters)} tables"
    return replace(
        report,
        written=None if report.dry_run else report.result,
        master=label,
        feed=tuple(one.label for one in feeds),
        output=_IN_MEMORY if target is None else report.output,
        rejected_file=None if target is None else report.rejected_file,
        changes=None if target is None else report.changes,
    )
