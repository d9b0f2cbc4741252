"""A versioned table, as an object: what the commands ``mutator table …`` do."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mutator.config import Config
from mutator.config.audience import PYTHON
from mutator.config.reader import SOURCE
from mutator.dataset.commits import OVERWRITE, OVERWRITE_TABLE
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import said_to
from mutator.formats.values.python_values import python_rows
from mutator.frames.dataset import Dataset
from mutator.pipeline.arguments import (
    CallSettings,
    config_of_place,
    feed_of,
    flag,
    named,
    one_of,
    scratch_of,
    settings_by_key,
    wrong,
)
from mutator.rules.conditions import Where
from mutator.rules.version_names import Version
from mutator.table.apply import OpenRunner, apply_feed
from mutator.table.arguments import checks_names, filter_in, names_in, number_in, path_in, transaction_in, version_in
from mutator.table.changes import changes_of
from mutator.table.description import Description, TableVersionEntry, description_of, versions_of
from mutator.table.export import PARTITION_COLUMNS, ExportReport, export
from mutator.table.export_history import export_history
from mutator.table.find import Finder, RecordVersion
from mutator.table.history import History
from mutator.table.history_settings import check_has_history, wants_versions
from mutator.table.memory_feed import apply_parts
from mutator.table.new_table import new_table, with_settings_of
from mutator.table.outlived import reading, with_what_is_left
from mutator.table.recorded import CALL, config_of_apply, config_of_snapshot, with_operation
from mutator.table.report import ApplyReport, report_of
from mutator.table.rows import Rows
from mutator.table.runners import run_here, run_on
from mutator.table.scan import scan_batches, schema_of
from mutator.table.tags import number_of
from mutator.table.upkeep import KeptTable

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from mutator.pipeline.python_merge import PathLike
    from mutator.pipeline.python_merge import Table as Frame

_OF_CREATE = ("path", "settings", "dataset", "buckets", "default")
_OF_APPLY = ("feed", "config", "scratch", "dry_run", "txn", "compact_after", "default")
_DATASET = "a Dataset, the path of one, or None for an empty table, to which apply() adds rows in memory"


@checks_names
class Table(KeptTable):
    """A versioned table: it takes mutations without touching existing data, and keeps every version.

    ``version`` is the newest one that this object knows; ``refresh`` finds newer ones.

    >>> table = Table.create("products", {"key": "id", "order_by": "updated_at"})    # doctest: +SKIP
    >>> table.apply("incr").counts["feed inserted"]                          # doctest: +SKIP
    30
    """

    @classmethod
    def create(
        cls,
        path: PathLike,
        settings: Mapping[str, Any] | None = None,
        *,
        dataset: PathLike | Dataset | None = None,
        buckets: int | None = None,
        open_runner: OpenRunner = run_here,
        **others: object,
    ) -> Table:
        """Create a table, and open it. Raises ConfigError for wrong settings, and where the path has anything.

        settings: of its rows, by their names in files, such as ``{"key": "id"}``; others: by the names of arguments,
        such as ``order_by="changed"``. dataset: whose rows it begins with, a path or a Dataset; by default it is empty.
        buckets: of the table, or of each partition. Warnings of the merge of a dataset are those of ``warnings``.
        """
        with named(f"{CALL}.create()"):
            path = path_in("path", path, "the path of a new directory")
            if isinstance(dataset, Dataset):
                dataset = dataset.path
            if dataset is not None:
                dataset = path_in("dataset", dataset, _DATASET)
            if settings is not None and not isinstance(settings, Mapping):
                raise wrong("settings", settings, "a mapping of settings, {'key': 'id', 'order_by': 'changed'}")
            number_in("buckets", buckets, "a number from 1, or None", first=1)
            given = {**(settings or {}), **settings_by_key(others, _OF_CREATE)}
            whole = with_settings_of(dataset, given)
            config = config_of_place(CallSettings(whole, f"{CALL}.create()"), {}, SOURCE)
        with said_to(PYTHON.writers):
            found = list[str]()
            new_table(path, whole, config, dataset, buckets, open_runner, found.extend)
        for text in found:
            warnings.warn(text, stacklevel=2)
        return cls(path)

    def apply(
        self,
        feed: PathLike | Frame | Sequence[PathLike | Frame],
        *,
        config: Config | None = None,
        scratch: PathLike | None = None,
        dry_run: bool = False,
        txn: tuple[str, int] | None = None,
        compact_after: bool = False,
        open_runner: OpenRunner | None = None,
        **settings: object,
    ) -> ApplyReport:
        """Merge a feed into a new version; return the report.

        feed: files, directories or patterns, tables, or a list of these; a table is a DataFrame of pandas, Polars or
        Spark, or anything with ``__arrow_c_stream__``. settings: by the names of arguments, of this apply alone; the
        others are those of the table. config: all of them. scratch: a directory that Spark's workers share with this
        process, for tables in memory. dry_run: count, and write nothing. txn: the name of an application and a number
        that rises from one of its applies to the next; an apply with a number that is not higher than the last one
        merges nothing. compact_after: then compact the buckets that need it; if that fails, the report warns of it.
        Raises the errors of the catalogue; then there is no new version.
        """
        return self._merged("apply", feed, config, scratch, dry_run, txn, compact_after, open_runner, settings)

    def insert_overwrite(
        self,
        data: PathLike | Frame | Sequence[PathLike | Frame],
        *,
        config: Config | None = None,
        scratch: PathLike | None = None,
        dry_run: bool = False,
        txn: tuple[str, int] | None = None,
        open_runner: OpenRunner | None = None,
        **settings: object,
    ) -> ApplyReport:
        """Replace the partitions of the winners of data, in a new version; return the report.

        A table without partitions is replaced as a whole. Data without rows change nothing. All arguments are as for
        ``apply``. replace_damaged=True: also rows whose files are damaged, and whose keys are not known.
        """
        return self._merged(OVERWRITE, data, config, scratch, dry_run, txn, False, open_runner, settings)

    def insert_overwrite_table(
        self,
        data: PathLike | Frame | Sequence[PathLike | Frame],
        *,
        config: Config | None = None,
        scratch: PathLike | None = None,
        dry_run: bool = False,
        txn: tuple[str, int] | None = None,
        open_runner: OpenRunner | None = None,
        **settings: object,
    ) -> ApplyReport:
        """Replace all rows by data, in a new version; return the report.

        Arguments are as for ``insert_overwrite``. allow_empty_feed=True: data without rows delete all records.
        """
        return self._merged(OVERWRITE_TABLE, data, config, scratch, dry_run, txn, False, open_runner, settings)

    def _merged(
        self,
        operation: str,
        feed: Any,
        config: Config | None,
        scratch: PathLike | None,
        dry_run: bool,
        txn: tuple[str, int] | None,
        compact_after: bool,
        open_runner: OpenRunner | None,
        settings: Mapping[str, object],
    ) -> ApplyReport:
        """Merge a feed as ``apply`` and the others do. operation: the name of the method."""
        call = f"{CALL}.{operation}()"
        with named(call):
            parts, shared = feed_of(feed), scratch_of(scratch)
            flag("dry_run", dry_run)
            flag("compact_after", compact_after)
            transaction_in("txn", txn)
            own = settings_by_key(settings, _OF_APPLY)
            if config is not None and not isinstance(config, Config):
                raise wrong("config", config, "a Config, or None for the settings of the table")
            if config is not None and own:
                what = f"config is a Config already, and {next(iter(settings))} is given, too"
                raise error("argument.both", call=call, what=what, cure="give one of them")
            if operation != "apply":
                own = with_operation(own, config, operation)
        self.refresh()
        if config is None:
            config = config_of_apply(self._snapshot, own, operation)
        elif all(part.path is not None and part.dataset is None for part in parts):
            paths = [str(part.path) for part in parts]
            runner = open_runner or run_here
            applied = apply_feed(self._snapshot, config, paths, runner, dry_run=dry_run, transaction=txn)
            self._snapshot = self._snapshot if dry_run else applied.snapshot
            report = report_of(applied, paths, dry_run=dry_run)
            return self._compacted(report, runner) if compact_after else report
        snapshot, report = apply_parts(
            self._snapshot,
            config,
            parts,
            lambda wanted: open_runner or run_on(wanted),
            shared=shared,
            dry_run=dry_run,
            transaction=txn,
        )
        self._snapshot = self._snapshot if dry_run else snapshot
        return self._compacted(report, open_runner or run_here) if compact_after else report

    def _compacted(self, report: ApplyReport, open_runner: OpenRunner) -> ApplyReport:
        """Compact after an apply; return its report with that of the compaction."""
        if not report.is_new or report.dry_run:
            return report
        try:
            found = self.compact(open_runner=open_runner)
        except MutatorError as fault:
            return replace(report, warnings=(*report.warnings, f"the compaction after it failed: {fault}"))
        return replace(report, compaction=found if found.is_new else None)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        version: Version | None = None,
        as_of: datetime | str | None = None,
        valid_at: object = None,
        current: bool = False,
    ) -> Rows:
        """Return the rows of a version: an iterator over pa.RecordBatches, or by ``to_arrow()``, ``to_pandas()`` etc.

        columns: the wanted ones, by default all. where: a filter, as text such as ``price > 5 and note is null``, or a
        (column, operator, literal) for each condition. version, as_of: as for ``at``. Of a table with history, the rows
        are all versions of records; valid_at: only those that held at this order value; current: the records now.
        """
        with named(f"{CALL}.scan()"):
            names_in("columns", columns)
            filter_in("where", where)
            flag("current", current)
        snapshot = self.at(version, as_of)
        if wants_versions(snapshot, valid_at, current=current):
            history = History(snapshot)
            return Rows(history.schema_of(columns), history.batches(columns, where, valid_at))
        return Rows(schema_of(snapshot, columns), scan_batches(snapshot, columns, where))

    def dataframe(
        self, spark: SparkSession, *, version: Version | None = None, as_of: datetime | str | None = None
    ) -> DataFrame:
        """Return the rows of a version as a Spark DataFrame, whose files Spark reads itself.

        version, as_of: as for ``at``. Spark verifies no checksums. Raises ConfigError for a type that Spark lacks.
        """
        from mutator.table.spark_source.frame import data_frame

        snapshot = self.at(version, as_of)
        with reading(snapshot):
            return data_frame(snapshot, spark)

    def rdd(
        self,
        spark: SparkSession | SparkContext,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        version: Version | None = None,
        as_of: datetime | str | None = None,
        partitions: int | None = None,
        history: bool = False,
        valid_at: object = None,
    ) -> RDD[Any]:
        """Return the rows of a version as an RDD of pa.RecordBatches, which Spark's workers read as a scan does.

        columns, where, version, as_of: as for ``scan``. partitions: the most; by default one for 32 MiB of the version,
        and at least as many as there are cores, or two. Only row groups are divided, so small tables have fewer. Of a
        table with history, these are the records now; history: all their versions; valid_at: those that held then.
        """
        with named(f"{CALL}.rdd()"):
            names_in("columns", columns)
            filter_in("where", where)
            number_in("partitions", partitions, "a number from 1, or None", first=1)
            flag("history", history)
        from mutator.table.spark_source.batches import rdd_of_batches

        snapshot = self.at(version, as_of)
        return rdd_of_batches(snapshot, spark, columns, where, partitions, history=history, valid_at=valid_at)

    def get(
        self,
        key: Any,
        *,
        version: Version | None = None,
        partition: str | None = None,
        history: bool = False,
        valid_at: object = None,
    ) -> Any:
        """Return the record of a key as a dict; None without one.

        key: the value of the key, or a sequence of the values of its fields. partition: directory. Where keys are
        unique only within a partition, and none is given, the result is a list of the records of all partitions. Of a
        table with history; history: all versions of the record, a list, oldest first; valid_at: as for ``scan``.
        """
        with named(f"{CALL}.get()"):
            flag("history", history)
        if history or valid_at is not None:
            found = python_rows(self.versions(key, version=version, partition=partition, valid_at=valid_at))
            return [*found] if history or self._finder(version).by_partition else next(iter(found), None)
        found = [one for row in self.records(key, version=version, partition=partition) for one in python_rows(row)]
        if self._finder(version).by_partition and partition is None:
            return found
        return found[0] if found else None

    def versions(
        self, key: Any, *, version: Version | None = None, partition: str | None = None, valid_at: object = None
    ) -> Any:
        """Return the versions of the record of a key, of a table with history, a pa.Table; arguments as for ``get``."""
        snapshot = self.at(version)
        check_has_history(snapshot)
        return History(snapshot).of_key(key, valid_at, partition)

    def records(self, key: Any, *, version: Version | None = None, partition: str | None = None) -> list[Any]:
        """Return the records of a key, each a pa.Table of one row; arguments as for ``get``."""
        finder = self._finder(version)
        with reading(finder.snapshot):
            return finder.records(key, partition)

    def history(self, key: Any, *, version: Version | None = None, partition: str | None = None) -> list[RecordVersion]:
        """Return the versions of the record of a key that are still there, oldest first; arguments as for ``get``."""
        finder = self._finder(version)
        with reading(finder.snapshot):
            return with_what_is_left(finder.snapshot, lambda _: finder.history(key, partition))

    def log(self) -> Iterator[TableVersionEntry]:
        """Return an iterator over the versions, oldest first."""
        return versions_of(self._snapshot)

    def describe(self) -> Description:
        """Return the key, columns, sizes and other facts of the newest version."""
        return description_of(self._snapshot)

    def _finder(self, version: Version | None) -> Finder:
        """Return the finder of a version; that of the last call is kept, with the pages that it has read."""
        number = self.version if version is None else number_of(self._snapshot, version)
        if self._found is None or self._found[0] != number:
            self._found = number, Finder(self.at(version))
        return self._found[1]

    def changes(self, from_version: Version, to_version: Version | None = None, *, net: bool = False) -> Rows:
        """Return the changes of the versions after ``from_version`` up to ``to_version``, as ``scan`` returns rows.

        to_version: by default the newest. net: at most one change of each record. The fields ``_change_type``,
        ``_commit_version`` and ``_commit_timestamp`` come before those of the rows.
        """
        with named(f"{CALL}.changes()"):
            flag("net", net)
            if from_version is None:
                raise wrong("from_version", from_version, "the number of a version, or a tag")
            for name, number in (("from_version", from_version), ("to_version", to_version)):
                version_in(name, number)
        start = number_of(self._snapshot, from_version)
        return changes_of(self.path, start, self.at(to_version), net=net)

    def export(
        self,
        directory: PathLike,
        *,
        version: Version | None = None,
        partition_columns: str | None = None,
        history: bool = False,
        open_runner: OpenRunner = run_here,
    ) -> ExportReport:
        """Write a version as a dataset that ``mutator run`` can continue from; return the report.

        directory: a new path, or an earlier export of this table, of which only changed buckets are rewritten.
        partition_columns: where the files have the partition fields, ``path`` or ``file``; by default as in the earlier
        export, else ``path``. history: of a table with history, all versions of records, for other programs.
        """
        with named(f"{CALL}.export()"):
            output = path_in("directory", directory, "the path of a new directory, or of an earlier export")
            if partition_columns is not None:
                one_of("partition_columns", partition_columns, PARTITION_COLUMNS)
            flag("history", history)
        snapshot = self.at(version)
        with reading(snapshot), said_to(PYTHON.writers):
            if history:
                return export_history(snapshot, output, open_runner)
            return export(snapshot, config_of_snapshot(snapshot), output, open_runner, partition_columns)
