"""Merge from Python, without a session and without files: tables in memory are inputs, and the result is one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from mutator.config import Config
from mutator.config.argument_names import as_arguments
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import rebuilt
from mutator.formats.files.registry import FILE_FORMATS
from mutator.frames.recognize import READER, SPARK
from mutator.frames.scratch import Scratch
from mutator.frames.write import valueless_columns, write_table
from mutator.pipeline import arguments
from mutator.pipeline.arguments import CALL, Given
from mutator.pipeline.merge import carry_out, prepare, with_tables
from mutator.pipeline.report import Report
from mutator.pipeline.runners import Engine, engine_on
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.runner_choice import RUNNERS
from mutator.plan.strategy import ENGINES
from mutator.storage import storage_for

if TYPE_CHECKING:
    import pandas as pd
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_IN_MEMORY = "in memory"
# Fields of errors that have texts of the user.
_DATA = {"path", "paths", "other", "other_path", "table", "rows", "record", "records", "before", "now", "samples"}


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
    order_by: Field | None = None,
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
    _check_feed(checked, feeds)
    call = _Call(checked, given, masters, feeds, target, shared, engine, dry_run)
    wanted, context = _spark(call, session)
    with call.scratch() as temporary:
        return _merged(call, temporary, engine_on(wanted, context))


@dataclass(frozen=True)
class _Call:
    """The checked arguments of a call."""

    config: Config
    given: Mapping[str, Any]  # the common settings by name; None: not given
    masters: Sequence[Given]
    feeds: Sequence[Given]
    target: str | None  # None: the result stays in memory
    shared: str | None  # a directory that Spark's workers share
    engine: str
    dry_run: bool

    @property
    def parts(self) -> Sequence[Given]:
        """Return all inputs."""
        return (*self.masters, *self.feeds)

    @property
    def tables(self) -> Sequence[Given]:
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
    names = _Names(temporary, call.parts)
    with names.in_errors():
        master_path, master_tables = _written(call.masters, temporary, "master")
        _check_master(call.masters, master_tables)
        paths, feed_tables = _all_written(call.feeds, temporary)
        path = call.target or f"{temporary.path if temporary else ''}/result"
        tables = (*master_tables, *feed_tables)
        prepared = prepare(call.config, master_path, paths, path, engine=call.engine, tables=tables)
        _, report = carry_out(prepared, engine, dry_run=call.dry_run)
        if temporary is not None and call.target is None and not call.dry_run:
            temporary.keep_only(path)
    warnings = (*report.warnings, *_unused(call), *_empty_readers(call.feeds, feed_tables))
    report = with_tables(prepared, replace(report, warnings=warnings), temporary if call.target is None else None)
    return names.in_report(report, call.masters, call.feeds, call.target)


def _check_feed(config: Config, parts: Sequence[Given]) -> None:
    """Raise ConfigError for a table in a feed that is ordered by file names, and for a dataset of other settings."""
    for one in parts:
        if one.path is None and config.by_file_name:
            raise error("table.sequence", table=one.label)
        if one.dataset is not None:
            one.dataset.check_as_feed(config, one.label.rpartition("/")[0])


def _unused(call: _Call) -> Iterator[str]:
    """Yield a warning for arguments without effect."""
    given = call.given
    written = call.config.output_format
    is_text = written is not None and not FILE_FORMATS[written].typed
    names = [] if is_text or given["delimiter"] is None else ["delimiter"]
    names += [] if given["header"] is None else ["header"]
    if names and len(call.tables) == len(call.parts):
        yield f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} ignored: all inputs are tables"
    if call.shared is not None and not call.has_files:
        yield "scratch is ignored: all inputs and the output are paths, so there are no temporary files"


def _check_master(parts: Sequence[Given], tables: Sequence[TableInput]) -> None:
    """Raise DataError for a reader without a row: merging into nothing would silently lose the master."""
    for label in _without_rows(parts, tables):
        what = "has no rows, as a reader has that something else has read"
        cure = "give a new reader; if the master is empty, give reader.schema.empty_table()"
        raise error("table.rows", table=label, what=what, cure=cure)


def _empty_readers(parts: Sequence[Given], tables: Sequence[TableInput]) -> Iterator[str]:
    for label in _without_rows(parts, tables):
        yield f"{label} has no rows; a reader has each row only once, so nothing else may read it before the merge"


def _without_rows(parts: Sequence[Given], tables: Sequence[TableInput]) -> Iterator[str]:
    """Yield the labels of readers without a row. tables: of the parts that are tables, in their order."""
    given = [part for part in parts if part.path is None]
    return (part.label for part, table in zip(given, tables, strict=True) if part.kind == READER and table.rows == 0)


def _written(parts: Sequence[Given], temporary: Scratch | None, label: str) -> tuple[str, list[TableInput]]:
    """Return the path of a master, and its tables if it is in memory."""
    first = parts[0]
    if first.path is not None:
        return first.path, []
    assert temporary is not None
    if len(parts) == 1:
        table = _write(first, f"{temporary.path}/{first.label}")
        return table.path, [table]
    directory = f"{temporary.path}/{label}"
    storage_for(directory).make_directory(directory)
    tables = [_write(one, f"{directory}/{one.label}") for one in parts]
    return directory, tables


def _all_written(parts: Sequence[Given], temporary: Scratch | None) -> tuple[list[str], list[TableInput]]:
    """Return the paths of a feed, and the tables among its parts."""
    paths, tables = [], []
    for one in parts:
        if one.path is None:
            assert temporary is not None
            tables.append(_write(one, f"{temporary.path}/{one.label}"))
        paths.append(tables[-1].path if one.path is None else one.path)
    return paths, tables


def _write(one: Given, path: str) -> TableInput:
    if one.kind != SPARK:
        return write_table(path, one.table, one.kind, one.label)
    from mutator.engine.spark.frames import write_frame

    write_frame(one.table, path, one.label)
    return TableInput(path, valueless=valueless_columns(path))


# --- where the tasks run


def _spark(call: _Call, session: Any) -> tuple[str, Callable[[], AbstractContextManager[SparkContext]]]:
    """Return the runner that is wanted, and a function that opens the Spark context.

    Raises ConfigError for an unusable session, and where Spark's workers would not see the temporary files.
    """
    frames = [one for one in call.tables if one.kind == SPARK]
    if session is not None:
        return _given_session(call, session)
    wanted = call.config.runner
    active = None
    if "pyspark" in sys.modules:
        from mutator.engine.spark.frames import active_context, runs_elsewhere

        active = active_context()
        if active is not None and runs_elsewhere(active) and call.has_files and call.shared is None:
            if frames or wanted == "spark":
                raise error("table.shared", table=frames[0].label if frames else "the result in memory")
            wanted = "local"  # where the tables are
    return wanted, _own_context


def _given_session(call: _Call, session: Any) -> tuple[str, Callable[[], AbstractContextManager[SparkContext]]]:
    if not type(session).__module__.startswith("pyspark."):
        raise arguments.wrong("session", session, "a SparkSession or a SparkContext, or None")
    if call.config.runner == "local":
        what = "session is given, and the runner is local"
        raise error("argument.both", call=CALL, what=what, cure="leave out one of them")
    from mutator.engine.spark.frames import context_of, runs_elsewhere
    from mutator.engine.spark.worker_python import use_own_python

    sc = context_of(session, CALL)
    if call.has_files and call.shared is None and runs_elsewhere(sc):
        raise error("table.shared", table=call.tables[0].label if call.tables else "the result in memory")
    use_own_python(sc)
    return "spark", lambda: nullcontext(sc)


def _own_context() -> AbstractContextManager[SparkContext]:
    from mutator.engine.spark.session import spark_context

    return spark_context(CALL)


# --- names of tables instead of temporary paths


class _Names:
    """Replace the paths of temporary files in messages and reports."""

    def __init__(self, temporary: Scratch | None, parts: Sequence[Given]) -> None:
        self._datasets = [(one.path, one.label) for one in parts if one.path is not None and one.path != one.label]
        self._temporary = None if temporary is None else temporary.path
        self._frames = [one.label for one in parts if one.kind == SPARK]  # each is a directory of files

    def __call__(self, value: Any) -> Any:
        """Return a text, or a structure of texts, without the temporary paths."""
        if isinstance(value, str):
            for path, label in self._datasets:
                # another path may begin with this one
                value = re.sub(rf"{re.escape(path)}(?![\w-]|\.\w)", label.replace("\\", r"\\"), value)
            value = value.replace(f"{self._temporary}/", "") if self._temporary else value
            for label in self._frames:
                value = re.sub(rf"{re.escape(label)}/part-[\w.-]+\.parquet", label.replace("\\", r"\\"), value)
            return value
        if isinstance(value, tuple | list):
            return type(value)(map(self, value))
        return {name: self(part) for name, part in value.items()} if isinstance(value, Mapping) else value

    @contextmanager
    def in_errors(self) -> Iterator[None]:
        """Replace paths and settings in the errors that are raised inside of the ``with`` block."""
        try:
            yield
        except MutatorError as fault:
            fields = self(fault.fields)
            text = as_arguments(self(str(fault)), (fields[name] for name in _DATA & fields.keys()))
            raise rebuilt(fault.kind, text, fields) from None

    def in_report(self, report: Report, masters: Sequence[Given], feeds: Sequence[Given], target: str | None) -> Report:
        """Return a report with the names of tables."""
        label = masters[0].label if len(masters) == 1 else f"{len(masters)} tables"
        return replace(
            report,
            written=None if report.dry_run else report.result,
            master=label,
            feed=tuple(one.label for one in feeds),
            output=_IN_MEMORY if target is None else report.output,
            rejected_file=None if target is None else report.rejected_file,
            notes=tuple(map(as_arguments, self(report.notes))),
            warnings=tuple(map(as_arguments, self(report.warnings))),
            ignored=self(report.ignored),
            reason=as_arguments(self(report.reason)),
        )
