"""A versioned table, as an object: what the commands ``mutator table …`` do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mutator.config import Config, parse
from mutator.config.definitions import DEFAULT_OF_FIELD, SHORT, published
from mutator.config.reader import completed
from mutator.config.sources import shown, suggestion
from mutator.dataset.versions.snapshot import Snapshot, open_snapshot, refreshed
from mutator.engine.runner import Runner
from mutator.errors import error
from mutator.pipeline import runners
from mutator.pipeline.arguments import setting_names
from mutator.pipeline.master_settings import recorded_settings as recorded_of_master
from mutator.pipeline.master_settings import settings_of_manifest
from mutator.plan.runner_choice import RunnerChoice
from mutator.storage import located
from mutator.table.apply import OpenRunner, apply_feed, manifest_of
from mutator.table.changes import changes_of
from mutator.table.conditions import Where
from mutator.table.create import create_empty
from mutator.table.description import Description, VersionEntry, description_of, versions_of
from mutator.table.export import ExportReport, export
from mutator.table.find import Finder, RecordVersion, as_dict
from mutator.table.report import ApplyReport, report_of
from mutator.table.scan import scan_batches, schema_of
from mutator.table.take_over import create_of
from mutator.table.verify import TableVerification, verify_table
from mutator.table.version_times import version_as_of

if TYPE_CHECKING:
    from pyspark import SparkContext

SHORT_OF = {published(name): name for name in SHORT}
CALL = "mutator.Table"
SOURCE = "in the table"  # of settings that nobody set


def spark_context() -> AbstractContextManager[SparkContext]:
    """Return the running Spark context, or a new one."""
    from mutator.engine.spark.session import spark_context as opened

    return opened(CALL)


@contextmanager
def run_here(size: int) -> Iterator[tuple[Runner, RunnerChoice]]:
    """Yield the runner that suits a number of bytes to read."""
    choice = runners.choice_for("auto", size)
    with runners.open_runner(choice, spark_context) as runner:
        yield runner, choice


class Table:
    """A versioned table. ``version`` is the newest one that this object knows; ``refresh`` finds newer ones.

    >>> table = Table.create("products", {"key": "id", "order_by": "updated_at"})    # doctest: +SKIP
    >>> table.apply("incr").counts["feed inserted"]                          # doctest: +SKIP
    30
    """

    def __init__(self, path: str) -> None:
        """Open a table. Raises ConfigError where the path has none."""
        storage, found = located(str(path))
        self._snapshot = open_snapshot(storage.resolve(found))
        self._found: tuple[int, Finder] | None = None  # the last one that was used, and its version

    @classmethod
    def create(
        cls,
        path: str,
        settings: Mapping[str, Any],
        *,
        dataset: str | None = None,
        buckets: int | None = None,
        open_runner: OpenRunner = run_here,
    ) -> Table:
        """Create a table. settings: of its rows, such as key and order_by.

        dataset: whose rows it begins with; by default it is empty. buckets: of the table, or of each partition.
        """
        if dataset is None:
            create_empty(str(path), recorded(settings), buckets=buckets)
            return cls(path)
        whole = {**settings, **recorded_of_master(str(dataset), settings)}
        create_of(str(path), parse(whole, CALL), recorded(whole), str(dataset), buckets, open_runner)
        return cls(path)

    @property
    def path(self) -> str:
        """The full path."""
        return self._snapshot.table

    @property
    def version(self) -> int:
        """The number of the newest version that this object knows."""
        return self._snapshot.version.number

    @property
    def schema(self) -> Any:
        """The pa.Schema of its rows."""
        return schema_of(self._snapshot)

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that this object knows."""
        return self._snapshot

    def refresh(self) -> Table:
        """Find the versions that were committed since; return the table."""
        self._snapshot = refreshed(self._snapshot)
        return self

    def apply(
        self,
        feed: str | Sequence[str],
        *,
        config: Config | None = None,
        dry_run: bool = False,
        open_runner: OpenRunner = run_here,
        **settings: Any,
    ) -> ApplyReport:
        """Merge a feed into a new version; return the report.

        feed: files, directories or patterns. config, settings: those that the table does not have.
        """
        paths = [feed] if isinstance(feed, str) else list(feed)
        self.refresh()
        own = config if config is not None else self.config_of(settings)
        applied = apply_feed(self._snapshot, own, paths, open_runner, dry_run=dry_run)
        if not dry_run:
            self._snapshot = applied.snapshot
        return report_of(applied, paths, dry_run=dry_run)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        version: int | None = None,
        as_of: datetime | str | None = None,
    ) -> Iterator[Any]:
        """Return an iterator over the rows of a version, as pa.RecordBatches.

        columns: the wanted ones, by default all. where: a filter, as text such as ``price > 5 and note is null``, or a
        (column, operator, literal) for each condition. version, as_of: as for ``at``.
        """
        return scan_batches(self.at(version, as_of), columns, where)

    def get(self, key: Any, version: int | None = None, *, partition: str | None = None) -> Any:
        """Return the record of a key as a dict; None without one.

        key: the value of the key, or a sequence of the values of its fields. partition: directory. Where keys are
        unique only within a partition, and none is given, the result is a list of the records of all partitions.
        """
        found = [as_dict(row) for row in self.records(key, version, partition)]
        if self._finder(version).by_partition and partition is None:
            return found
        return found[0] if found else None

    def records(self, key: Any, version: int | None = None, partition: str | None = None) -> list[Any]:
        """Return the records of a key, each a pa.Table of one row; arguments as for ``get``."""
        return self._finder(version).records(key, partition)

    def history(self, key: Any, version: int | None = None, partition: str | None = None) -> list[RecordVersion]:
        """Return the versions of the record of a key that are still there, oldest first; arguments as for ``get``."""
        return self._finder(version).history(key, partition)

    def log(self) -> Iterator[VersionEntry]:
        """Return an iterator over the versions, oldest first."""
        return versions_of(self._snapshot)

    def describe(self) -> Description:
        """Return the key, columns, sizes and other facts of the newest version."""
        return description_of(self._snapshot)

    def _finder(self, version: int | None) -> Finder:
        """Return the finder of a version; that of the last call is kept, with the pages that it has read."""
        number = self.version if version is None else version
        if self._found is None or self._found[0] != number:
            self._found = number, Finder(self.at(version))
        return self._found[1]

    def changes(self, from_version: int, to_version: int | None = None, net: bool = False) -> Any:
        """Return a pa.RecordBatchReader of the changes of the versions after ``from_version`` up to ``to_version``.

        to_version: by default the newest. net: at most one change of each record. The fields ``_change_type``,
        ``_commit_version`` and ``_commit_timestamp`` come before those of the rows.
        """
        return changes_of(self.path, from_version, self.at(to_version), net=net)

    def export(self, directory: str, *, version: int | None = None, open_runner: OpenRunner = run_here) -> ExportReport:
        """Write a version as a dataset that ``mutator run`` can continue from; return the report.

        directory: a new path, or an earlier export of this table, of which only changed buckets are rewritten.
        """
        snapshot = self.at(version)
        return export(snapshot, config_of_snapshot(snapshot), str(directory), open_runner)

    def verify(self, *, repair: bool = False, open_runner: OpenRunner = run_here) -> TableVerification:
        """Compare every file with the log; return the differences.

        repair: make damaged key indexes, checkpoints and the hint again.
        """
        return verify_table(self.path, config_of_snapshot, open_runner, repair=repair)

    def at(self, version: int | None = None, as_of: datetime | str | None = None) -> Snapshot:
        """Return the snapshot of a version, by default the newest that this object knows.

        as_of: a time, in UTC if it has no zone; the newest version that was committed at or before it. Raises
        ConfigError if there is no such version.
        """
        if as_of is not None:
            if version is not None:
                what = "version and as_of are both given"
                raise error("argument.both", call="mutator.Table", what=what, cure="give one of them")
            version = version_as_of(self._snapshot, as_of)
        if version is None or version == self.version:
            return self._snapshot
        return open_snapshot(self.path, version)

    def config_of(self, settings: Mapping[str, Any]) -> Config:
        """Return the configuration of an apply with some settings: the others are those of the table."""
        given = by_key(settings)
        return completed(given, recorded_settings(self._snapshot, given), CALL, source=SOURCE)


def by_key(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a call by their keys in files. settings: by the names of arguments; None is not given.

    Raises ConfigError for an unknown argument.
    """
    known = setting_names()
    for name in settings.keys() - {"default"}:
        if name not in known:
            raise error("argument.unknown", call=CALL, argument=name, near=suggestion(name, known))
    defaults = {f"{DEFAULT_OF_FIELD}{field}": value for field, value in (settings.get("default") or {}).items()}
    own = {known[name]: value for name, value in settings.items() if name in known and value is not None}
    return {**own, **defaults}


def config_of_snapshot(snapshot: Snapshot) -> Config:
    """Return the configuration of a table, with no settings of a user."""
    return completed({}, recorded_settings(snapshot, {}), "mutator.Table", source=SOURCE)


def recorded(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as version 0 of a table records them, by their short names. Raises ConfigError for wrong ones."""
    parse(settings, CALL)
    return {
        SHORT_OF.get(published(key), published(key)): shown(value) for key, value in settings.items() if shown(value)
    }


def recorded_settings(snapshot: Snapshot, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table that a user has not set. settings: those of the user."""
    given = {published(key) for key, value in settings.items() if shown(value)}
    known = manifest_of(snapshot)
    own = {key: value for key, value in snapshot.state.settings.items() if published(key) not in given}
    found = {} if known is None else settings_of_manifest(known, {**own, **settings})
    return {**{name: value for name, value in found.items() if published(name) not in map(published, own)}, **own}
