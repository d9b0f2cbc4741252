"""What keeps a table fast, small and sound: compactions, cleanings, tags, and its verification."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from mutator.dataset.versions.bookmarks import Bookmark, bookmarks_of, remove_bookmark
from mutator.dataset.versions.opening import check_version, open_snapshot, refreshed
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error, suppressed
from mutator.errors.display import counted, without_secrets
from mutator.pipeline.arguments import flag, named, settings_by_key, wrong
from mutator.pipeline.reordered import NO_OTHER_ORDER, OrderChange
from mutator.rules.conditions import Where
from mutator.rules.version_names import Version
from mutator.storage import located
from mutator.table.apply import OpenRunner
from mutator.table.arguments import (
    age_in,
    checks_names,
    duration_in,
    filter_in,
    name_in,
    number_in,
    path_in,
    version_in,
)
from mutator.table.clean import DEAD, GRACE, CleaningReport, Cleanup, clean_table, report_of_cleaning
from mutator.table.clean_plan import Retention
from mutator.table.compact import CompactionReport, compact_table, report_of_compaction
from mutator.table.compact_choice import MOST_FILES, MOST_HIDDEN, Need
from mutator.table.find import Finder
from mutator.table.reader_place import bookmarked, changes_since, known_bookmark
from mutator.table.recorded import CALL, config_of_apply, config_of_snapshot
from mutator.table.reorder import reorder_table
from mutator.table.restore import RestoreReport, report_of_restore, restore_table
from mutator.table.rows import Rows
from mutator.table.runners import run_here
from mutator.table.scan import schema_of
from mutator.table.tags import in_order, number_of, tagged, untagged
from mutator.table.verify import TableVerification, verify_table
from mutator.table.version_times import version_as_of

if TYPE_CHECKING:
    from mutator.pipeline.python_merge import PathLike


@checks_names
class OpenTable:
    """A table at the newest version that was known when it was opened or refreshed."""

    def __init__(self, path: PathLike) -> None:
        """Open a table. Raises ConfigError where the path has none."""
        with named(f"{CALL}()"):
            storage, found = located(path_in("path", path, "the path of a table"))
        self._snapshot = open_snapshot(storage.resolve(found))
        self._found: tuple[int, Finder] | None = None  # the last one that was used, and its version

    def __repr__(self) -> str:
        records = counted(self._snapshot.version.records, "record")
        return f"<mutator.Table {without_secrets(self.path)}: version {self.version:,}, {records}>"

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

    def refresh(self) -> Self:
        """Find the versions that were committed since; return the table."""
        self._snapshot = refreshed(self._snapshot)
        return self

    def at(self, version: Version | None = None, as_of: datetime | str | None = None) -> Snapshot:
        """Return the snapshot of a version, by its number or a tag; by default the newest that this object knows.

        as_of: a time, in UTC if it has no zone; the newest version that was committed at or before it. Raises
        ConfigError if there is no such version.
        """
        with named(CALL):
            version_in("version", version)
            if not (as_of is None or isinstance(as_of, str | datetime)):
                raise wrong("as_of", as_of, "a datetime, or text in ISO 8601")
        if as_of is not None:
            if version is not None:
                what = "version and as_of are both given"
                raise error("argument.both", call=CALL, what=what, cure="give one of them")
            version = version_as_of(self._snapshot, as_of)
        number = self.version if version is None else number_of(self._snapshot, version)
        if 0 <= number <= self.version:
            check_version(self._snapshot, number)
        return self._snapshot if number == self.version else open_snapshot(self.path, number)


@checks_names
class KeptTable(OpenTable):
    """An open table, and what keeps it."""

    def compact(
        self,
        *,
        everything: bool = False,
        files: int = MOST_FILES,
        hidden: float = MOST_HIDDEN,
        where: Where = None,
        tombstone_retention: str | None = None,
        bucket_bytes: str | int | None = None,
        dry_run: bool = False,
        open_runner: OpenRunner = run_here,
    ) -> CompactionReport:
        """Write the rows of buckets that need it into base files, in a new version with the same rows.

        A bucket needs it if it has rows in more than ``files`` data files or tombstone files, if more than the part
        ``hidden`` of its rows is hidden, if tombstones have expired, or if its data are more than twice
        ``bucket_bytes``, by default the ``bucket.bytes`` of the table: then it is split. everything: all buckets in
        which anything changes. where: conditions on the columns of partition fields; only the partitions that may have
        such rows. tombstone_retention: a duration such as ``30d`` after which tombstones expire; by default that of the
        table. dry_run: count, and write nothing. Raises the errors of the catalogue; then there is no new version.
        """
        with named(f"{CALL}.compact()"):
            flag("everything", everything)
            flag("dry_run", dry_run)
            number_in("files", files, "a number from 1", first=1)
            if isinstance(hidden, bool) or not isinstance(hidden, int | float) or not 0 <= hidden <= 1:
                raise wrong("hidden", hidden, "a number from 0 to 1")
            filter_in("where", where)
            own = settings_by_key({"tombstone_retention": tombstone_retention, "bucket_bytes": bucket_bytes}, ())
        self.refresh()
        need = Need(everything, files, hidden, where)
        config = config_of_apply(self._snapshot, own, "compact")
        done = compact_table(self._snapshot, config, need, open_runner, dry_run=dry_run)
        self._snapshot = done.snapshot
        return report_of_compaction(done, dry_run=dry_run)

    def clean(
        self,
        *,
        keep_versions: int | None = None,
        older_than: str | None = None,
        grace: str = GRACE,
        dead_after: str = DEAD,
        dry_run: bool = False,
    ) -> CleaningReport:
        """Name the files that no version needs any more, in a new version, and remove those named a ``grace`` ago.

        keep_versions: the last ones with different rows are kept. older_than: a duration; only versions that were
        superseded longer ago are not kept. If both are given, a version is kept that either of them keeps; if none is,
        10 versions and 7d. Versions with tags and bookmarks are kept, too. dead_after: since its last file was written;
        a run without a version then counts as dead, and its files are named, too. dry_run: only return what would be
        named. Raises the errors of the catalogue; the next cleaning goes on.
        """
        with named(f"{CALL}.clean()"):
            number_in("keep_versions", keep_versions, "a number from 1, or None", first=1)
            flag("dry_run", dry_run)
            age = None if older_than is None else age_in("older_than", older_than)
            seconds = age_in("grace", grace)
            dead = age_in("dead_after", dead_after)
        self.refresh()
        both = keep_versions is None and age is None
        retention = Retention() if both else Retention(keep_versions, age)
        done = clean_table(self._snapshot, Cleanup(retention, seconds, dead), dry_run=dry_run)
        self._snapshot = done.snapshot
        return report_of_cleaning(done, seconds, dry_run=dry_run)

    def restore(self, version: Version, *, dry_run: bool = False) -> RestoreReport:
        """Bring an earlier version back, as a new version with its rows, deletes and merged feeds; return the report.

        No data are written, and the versions since stay readable. version: its number, or a tag. dry_run: count, and
        write nothing. Raises ConfigError if the version does not exist.
        """
        with named(f"{CALL}.restore()"):
            version_in("version", version)
            if version is None:
                raise wrong("version", version, "the number of a version, or a tag")
            flag("dry_run", dry_run)
        self.refresh()
        done = restore_table(self._snapshot, number_of(self._snapshot, version), dry_run=dry_run)
        self._snapshot = self._snapshot if dry_run else done.snapshot
        return report_of_restore(done, dry_run=dry_run)

    def reorder(
        self,
        order_by: str | Sequence[str],
        *,
        order_type: str | Sequence[str] | None = None,
        null_order: str | None = None,
        order_keep: bool | None = None,
        dry_run: bool = False,
        open_runner: OpenRunner = run_here,
    ) -> OrderChange:
        """Give the table another order, in a new version with the same rows; return the report.

        The rows take the values of the fields ``order_by``. With ``order_keep=False`` these are fields of the feed
        alone, and the rows are older than every mutation. Deletes are forgotten. The other arguments are settings.
        dry_run: count, and write nothing. Raises the errors of the catalogue; then there is no new version.
        """
        with named(f"{CALL}.reorder()"):
            flag("dry_run", dry_run)
            given = {"order_type": order_type, "null_order": null_order, "order_keep": order_keep}
            own = settings_by_key({"order_by": order_by, **given}, ())
        self.refresh()
        config = config_of_apply(self._snapshot, {**NO_OTHER_ORDER, **own}, "reorder")
        self._snapshot, report = reorder_table(self._snapshot, config, open_runner, dry_run=dry_run)
        return report

    def bookmark(self, name: str, version: Version | None = None, *, expires: str | None = None) -> Bookmark:
        """Set or move the bookmark of a reader, which keeps the versions from its own on until it expires; return it.

        version: up to which the reader has read, its number or a tag; by default the newest. expires: a duration since
        it was last moved, such as ``12h``; by default as before, of a new bookmark ``7d``. Raises ConfigError if the
        version does not exist.
        """
        with named(f"{CALL}.bookmark()"):
            name_in("name", name)
            version_in("version", version)
            lasts = duration_in("expires", expires)
        self.refresh()
        number = self.version if version is None else number_of(self._snapshot, version)
        return bookmarked(self._snapshot, name, number, lasts)

    def bookmarks(self) -> list[Bookmark]:
        """Return the bookmarks, by name, also those that have expired. Raises StateError for a damaged one."""
        return bookmarks_of(self.path)

    def remove_bookmark(self, name: str) -> None:
        """Remove a bookmark, also a damaged one. Raises ConfigError if there is none."""
        with named(f"{CALL}.remove_bookmark()"):
            name_in("name", name)
        with suppressed("table.bookmark.damaged"):
            known_bookmark(self.path, name)
        remove_bookmark(self.path, name)

    def changes_since(
        self, bookmark: str, to_version: Version | None = None, *, net: bool = False
    ) -> AbstractContextManager[Rows]:
        """Return the changes since a bookmark, for a ``with`` block; to_version, net: as for ``changes``.

        When the block ends, the bookmark moves to the last version, if all changes were read and the block raised
        nothing. So a reader that fails reads the same changes again.
        """
        with named(f"{CALL}.changes_since()"):
            name_in("bookmark", bookmark)
            version_in("to_version", to_version)
            flag("net", net)
        return changes_since(self._snapshot, bookmark, to_version, net=net)

    def verify(self, *, repair: bool = False, open_runner: OpenRunner = run_here) -> TableVerification:
        """Compare every file with the log; return the differences.

        repair: make damaged key indexes, checkpoints and the hint again.
        """
        with named(f"{CALL}.verify()"):
            flag("repair", repair)
        return verify_table(self.path, config_of_snapshot, open_runner, repair=repair)

    def tag(self, name: str, version: Version | None = None, *, move: bool = False) -> None:
        """Give a version a name, which is a version of its own; the version is not cleaned as long as it has one.

        version: its number, or another tag; by default the newest. move: another version may have the name, and loses
        it. Raises ConfigError if the version does not exist, StateError if another version has the name.
        """
        with named(f"{CALL}.tag()"):
            name_in("name", name)
            version_in("version", version)
            flag("move", move)
        self.refresh()
        number = self.version if version is None else number_of(self._snapshot, version)
        self._snapshot = tagged(self._snapshot, name, number, move=move)

    def untag(self, name: str) -> None:
        """Remove a tag, which is a version of its own. Raises ConfigError if the table lacks it."""
        with named(f"{CALL}.untag()"):
            name_in("name", name)
        self.refresh()
        self._snapshot = untagged(self._snapshot, name)

    def tags(self) -> dict[str, int]:
        """Return the versions that have tags, by these, in the order of the versions."""
        return in_order(self._snapshot.state.tags)
