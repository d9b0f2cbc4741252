"""What keeps a table fast, small and sound: compactions, tags, and its verification."""

from __future__ import annotations

from mutator.pipeline.arguments import flag, named, settings_by_key, wrong
from mutator.rules.version_names import Version
from mutator.table.apply import OpenRunner
from mutator.table.arguments import filter_in, name_in, number_in, version_in
from mutator.table.compact import compact_table
from mutator.table.compact_choice import MOST_FILES, MOST_HIDDEN, Need
from mutator.table.compact_report import CompactionReport, report_of_compaction
from mutator.table.conditions import Where
from mutator.table.open_table import OpenTable
from mutator.table.recorded import CALL, config_of_apply, config_of_snapshot
from mutator.table.runners import run_here
from mutator.table.tags import in_order, number_of, tagged, untagged
from mutator.table.verification import TableVerification
from mutator.table.verify import verify_table


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
        dry_run: bool = False,
        open_runner: OpenRunner = run_here,
    ) -> CompactionReport:
        """Write the rows of buckets that need it into base files, in a new version with the same rows.

        A bucket needs it if it has rows in more than ``files`` data files or tombstone files, if more than the part
        ``hidden`` of its rows is hidden, or if tombstones have expired. everything: all buckets in which
        anything changes. where: conditions on the columns of partition fields; only the partitions that may have such
        rows. tombstone_retention: a duration such as ``30d`` after which tombstones expire; by default that of the
        table. dry_run: count, and write nothing. Raises the errors of the catalogue; then there is no new version.
        """
        with named(f"{CALL}.compact()"):
            flag("everything", everything)
            flag("dry_run", dry_run)
            number_in("files", files, "a number from 1", first=1)
            if isinstance(hidden, bool) or not isinstance(hidden, int | float) or not 0 <= hidden <= 1:
                raise wrong("hidden", hidden, "a number from 0 to 1")
            filter_in("where", where)
            own = settings_by_key({"tombstone_retention": tombstone_retention}, ())
        self.refresh()
        need = Need(everything, files, hidden, where)
        config = config_of_apply(self._snapshot, own, "compact")
        done = compact_table(self._snapshot, config, need, open_runner, dry_run=dry_run)
        self._snapshot = done.snapshot
        return report_of_compaction(done, dry_run=dry_run)

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
