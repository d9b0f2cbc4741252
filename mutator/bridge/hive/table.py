"""A Hive table that changes in one step: the metastore is the commit point.

Files that readers see are never overwritten. ``INSERT OVERWRITE`` writes into a shadow, an external table with its own
locations; then one transaction of the metastore changes the location of the table, or of all touched partitions, to
these. Readers see nothing of it before, and all of it after, on any storage: nothing is renamed. The files of the old
locations stay for running readers until the next run retires them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame

from mutator.bridge.hive.live_table import LiveTable
from mutator.bridge.hive.metastore import Entry, is_hidden
from mutator.bridge.hive.staged_table import Move, Staged, insert_overwrite, is_any_in, is_in, matched, partition_values
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.rules.file_names import first_few

MARK = ".mutator-"  # in the location of a table without partitions
HIDDEN = "_mutator"  # directory of the locations of partitions; MSCK REPAIR TABLE skips it
EMPTY = "_empty"


class HiveTable(LiveTable):
    """A table that can be changed in one step."""

    # --- a change

    def stage(self, frame: DataFrame, run: str, partitions: Sequence[Mapping[str, str | None]] | None) -> Staged:
        """Write the new rows of the whole table, or of some partitions, where no reader sees them.

        partitions: the ones to replace, with values as the metastore spells them.
        """
        if (partitions is None) == bool(self.partition_fields):
            raise error("bug", what=f"{self.name}: partitions are named for a table with partitions, and only there")
        self.discard(run)
        with self._metastore.faults(self.name):
            entry = self._entry()
            root, shadow = self._root(entry, run), self._shadow(run)
            self._metastore.create_table(self._shadow_entry(entry, shadow, root))
            failpoint("hive.shadow.created")
            data_types = {field: self.schema.field(field).type for field in self.partition_fields}
            wanted = [{field: one[field] or None for field in self.partition_fields} for one in partitions or ()]
            static = bool(partitions is None or wanted) and insert_overwrite(
                frame, self._quoted(shadow), data_types, wanted
            )
            failpoint("hive.written")
            written = {} if static and self._is_empty(shadow) else self._locations_of(shadow) if wanted else {}
            rows = 0
            if written or partitions is None:
                self._spark.catalog.refreshTable(self._quoted(shadow))
                rows = self._spark.table(self._quoted(shadow)).count()
            # Before the commit: a metastore may be configured to remove the files of every dropped table.
            self._metastore.drop_table(self._database, shadow)
            failpoint("hive.shadow.dropped")
            if partitions is None:
                moves = [Move("", self._metastore.location(entry), root)]
                self._metastore.make(root)
            else:
                moves = matched(wanted, written, self._locations(), data_types, f"{root}/{EMPTY}")
            for move in moves:
                if move.emptied or move.old is None:
                    self._metastore.make(_empty(root, move.partition))
            failpoint("hive.staged")
            files = self._files({move.new: move.partition for move in moves})
            lost = {move.partition for move in moves if partitions and not move.emptied} - {
                one.partition for one in files
            }
            if lost:
                raise error("receipt", path=root, why=f"no file of {min(lost)} is there")
            left = self._files({move.old: move.partition for move in moves if move.old is not None})
            return Staged(self.name, run, root, tuple(moves), files, rows, left)

    def commit(self, staged: Staged) -> None:
        """Change the locations in one step; then remove old files that could become live again by their path."""
        with self._metastore.faults(self.name):
            locations = self._locations()
            if not _has_moved(staged, locations):
                self._check_unchanged(staged, locations)
                entry = self._entry()
                if entry.stats().isDefined():
                    self._metastore.forget_table_statistics(self._database, self._table)
                    failpoint("hive.statistics.removed")
                self._create_partitions(entry, staged, locations)
                try:
                    self._switch(entry, staged)
                except Exception as fault:
                    if not self._has_happened(staged, fault):
                        raise
            failpoint("hive.switched")
            self._remove_reachable(staged)
            self._spark.catalog.refreshTable(self._quoted(self._table))

    def is_committed(self, staged: Staged) -> bool:
        """Return whether the table has the staged locations."""
        with self._metastore.faults(self.name):
            return _has_moved(staged, self._locations())

    def retire(self, staged: Staged) -> None:
        """Remove the locations that a commit replaced, except those that are live again."""
        with self._metastore.faults(self.name):
            self._remove_reachable(staged)
            live = self._locations().values()
            for location in staged.retired:
                self._retire(location, live, staged)
            if not is_any_in(live, staged.root):  # all files of the run are replaced, or it wrote none
                self._metastore.remove(staged.root)

    def discard(self, run: str) -> None:
        """Remove the files that a run staged. Raises StateError if the table has any of them."""
        with self._metastore.faults(self.name):
            root = self._root(self._entry(), run)
            below = {name: location for name, location in self._locations().items() if is_in(location, root)}
            # A new partition has an empty location until the commit; a file in it was written by another program.
            live = [
                location
                for location in below.values()
                if not is_in(location, f"{root}/{EMPTY}") or self._metastore.listed(location)
            ]
            if live:
                raise error("hive.live", table=self.name, path=live[0])
            if below:
                self._metastore.drop_partitions(self._database, self._table, [partition_values(name) for name in below])
            failpoint("hive.discard.partitions")
            self._metastore.drop_table(self._database, self._shadow(run))
            failpoint("hive.discard.shadow")
            self._metastore.remove(root)
            failpoint("hive.discard.removed")

    # --- steps of stage

    def _shadow_entry(self, entry: Entry, shadow: str, root: str) -> Entry:
        store = self._metastore
        return store.copy(
            entry,
            identifier=store.identifier(self._database, shadow),
            tableType=store.external(),
            storage=store.at(entry.storage(), root),
            properties=store.without_statistics(entry.properties(), {"external.table.purge": "false"}),
            ignoredProperties=store.map({}),
            stats=store.option(None),
        )

    def _is_empty(self, shadow: str) -> bool:
        self._spark.catalog.refreshTable(self._quoted(shadow))
        return not self._spark.table(self._quoted(shadow)).take(1)

    # --- steps of commit

    def _check_unchanged(self, staged: Staged, locations: Mapping[str, str]) -> None:
        for move in staged.moves:
            location = locations.get(move.partition)
            if location != move.old and location != _empty(staged.root, move.partition):
                raise error("hive.changed", table=self.name, what=move.partition or "its place")

    def _create_partitions(self, entry: Entry, staged: Staged, locations: Mapping[str, str]) -> None:
        """Add the new partitions, without a row: the switch can only change existing ones."""
        store = self._metastore
        missing = [move.partition for move in staged.moves if move.old is None and move.partition not in locations]
        if missing:
            entries = [
                store.partition(
                    partition_values(name), store.at(entry.storage(), _empty(staged.root, name)), store.map({})
                )
                for name in missing
            ]
            store.create_partitions(self._database, self._table, entries)
            failpoint("hive.partitions.created")

    def _switch(self, entry: Entry, staged: Staged) -> None:
        """Change all locations by one request to the metastore, which is one transaction."""
        store = self._metastore
        counts: dict[str, list[int]] = {}
        for file in staged.files:
            counts.setdefault(file.partition, []).append(file.bytes)
        statistics = {
            move.partition: {
                "numFiles": str(len(counts.get(move.partition, ()))),
                "totalSize": str(sum(counts.get(move.partition, ()))),
            }
            for move in staged.moves
        }
        if not self.partition_fields:
            store.alter_table(
                store.copy(
                    entry,
                    storage=store.at(entry.storage(), staged.moves[0].new),
                    properties=store.without_statistics(entry.properties(), statistics[""]),
                    ignoredProperties=store.without_statistics(entry.ignoredProperties()),
                    stats=store.option(None),
                )
            )
            return
        targets = {move.partition: move.new for move in staged.moves}
        changed = [
            store.copy(
                one,
                # The table's format: that of an old partition may differ.
                storage=store.at(entry.storage(), targets[name]),
                parameters=store.without_statistics(one.parameters(), statistics[name]),
                stats=store.option(None),
            )
            for one in store.partitions(self._database, self._table)
            if (name := self._name(one)) in targets
        ]
        if len(changed) < len(targets):
            raise error("hive.changed", table=self.name, what="its partitions")
        if changed:
            store.alter_partitions(self._database, self._table, changed)

    def _has_happened(self, staged: Staged, fault: Exception) -> bool:
        """Return whether a switch that raised was done: its answer may have been lost."""
        why = str(fault).split("\n\tat ")[0][:500]
        try:
            happened = self.is_committed(staged)
        except MutatorError:
            raise error("hive.uncertain", table=self.name, why=why) from None
        if not happened and re.search("TTransport|Socket|[Tt]imed? ?out", str(fault)):
            raise error("hive.uncertain", table=self.name, why=why) from None
        return happened

    def _remove_reachable(self, staged: Staged) -> None:
        """Remove old files that could become live again by their path, and drop partitions without rows.

        ``MSCK REPAIR TABLE`` adds a dropped partition again if its directory exists, and a managed table that is
        dropped and created again finds old files at its location.
        """
        if self.partition_fields and not any(move.emptied for move in staged.moves):
            return
        locations = self._locations()
        if not self.partition_fields:
            old = staged.moves[0].old
            if self.managed and old and MARK not in old.rpartition("/")[2] and not is_any_in(locations.values(), old):
                self._remove(old, staged)
                failpoint("hive.old.removed")
            return
        location = self._metastore.location(self._entry())
        emptied = [move for move in staged.moves if move.emptied and locations.get(move.partition) == move.new]
        for move in emptied:
            if move.old == f"{location}/{move.partition}":
                self._remove(move.old, staged)
                failpoint("hive.old.removed")
        unused = [move.partition for move in emptied if not self._metastore.listed(move.new)]
        if unused:
            self._metastore.drop_partitions(self._database, self._table, [partition_values(name) for name in unused])
            failpoint("hive.partitions.dropped")

    # --- locations

    def _retire(self, location: str, live: Iterable[str], staged: Staged) -> None:
        """Remove a location, and the directory of its run if nothing in it is live.

        Raises StateError if it has new files: another program still writes there.
        """
        if is_any_in(live, location):
            return
        others = self._others(location, staged)
        if others:
            raise error("table.left", path=location, files=first_few([one.rpartition("/")[2] for one in others]))
        self._remove(location, staged)
        run = re.match(rf"(.*/{HIDDEN}/[^/]+)/", location)
        if run and not is_any_in(live, run[1]):
            self._metastore.remove(run[1])
        failpoint("hive.retire.removed")

    def _others(self, location: str, staged: Staged) -> list[str]:
        """Return the data files in a location that were not in the table."""
        known = {(one.path, one.bytes, one.modified) for one in staged.left}
        return [
            path
            for path, size, modified, is_directory in self._metastore.listed(location)
            if not is_directory and not is_hidden(path) and (path, size, modified) not in known
        ]

    def _remove(self, location: str, staged: Staged) -> None:
        """Remove a location: the whole directory if mutator made it, else only its files.

        A location with new files stays, and ``retire`` reports it.
        """
        if self._others(location, staged):
            return
        if f"/{HIDDEN}/" in location or MARK in location.rpartition("/")[2]:
            self._metastore.remove(location)
            return
        listed = self._metastore.listed(location)
        for path, _, _, is_directory in listed:
            if not is_directory:
                self._metastore.remove(path)
        if listed and not self._metastore.listed(location):
            self._metastore.remove(location)

    def _root(self, entry: Entry, run: str) -> str:
        location = self._metastore.location(entry)
        if self.partition_fields:
            return f"{location}/{HIDDEN}/{run}"
        parent, _, name = location.rpartition("/")
        return f"{parent}/{name.partition(MARK)[0]}{MARK}{run}"

    def _shadow(self, run: str) -> str:
        return "mutator_" + re.sub(r"\W", "_", run.lower(), flags=re.ASCII)


def _empty(root: str, partition: str) -> str:
    return f"{root}/{EMPTY}/{partition}"


def _has_moved(staged: Staged, locations: Mapping[str, str]) -> bool:
    """Return whether all locations are the new ones; a partition without rows may have been dropped since."""
    return all(
        locations.get(move.partition) in ((None, move.new) if move.emptied else (move.new,)) for move in staged.moves
    )
