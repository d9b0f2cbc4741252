"""A Hive table that changes in one step: the metastore is the commit point.

Files that readers see are never overwritten. ``INSERT OVERWRITE`` writes into a shadow, an external table with places
of its own; then one transaction of the metastore points the table, or all touched partitions at once, at these places.
Before it nobody sees anything, after it everybody sees all of it, on any storage: nothing is renamed. Places that the
table has left stay for readers at work, until the next run retires them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from mutator.bridge.hive.insert import insert_overwrite
from mutator.bridge.hive.live_table import LiveTable
from mutator.bridge.hive.metastore import Entry, is_hidden
from mutator.bridge.hive.staged_table import Move, Staged, is_any_in, is_in, matched, partition_values
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.rules.file_names import first_few

__all__ = ["HiveTable"]

MARK = ".mutator-"  # in the place of a table without partitions
HIDDEN = "_mutator"  # the directory of places of partitions, which MSCK REPAIR TABLE leaves out
EMPTY = "_empty"


class HiveTable(LiveTable):
    """A table that can be changed in one step."""

    # --- a change

    def stage(self, frame: DataFrame, run: str, partitions: Sequence[Mapping[str, str | None]] | None) -> Staged:
        """Write the new rows of the whole table, or of some partitions; nobody sees them yet.

        partitions: those that are replaced, with values as the metastore spells them.
        """
        if (partitions is None) == bool(self.partition_fields):
            raise error("bug", what=f"{self.name}: partitions are named for a table with partitions, and only there")
        self.discard(run)
        with self._metastore.faults(self.name):
            entry = self._entry()
            root, shadow = self._root(entry, run), self._shadow(run)
            self._metastore.create_table(self._shadow_entry(entry, shadow, root))
            failpoint("hive.shadow.created")
            kinds = {field: self.schema.field(field).type for field in self.partition_fields}
            wanted = [{field: one[field] or None for field in self.partition_fields} for one in partitions or ()]
            static = bool(partitions is None or wanted) and insert_overwrite(frame, self._quoted(shadow), kinds, wanted)
            failpoint("hive.written")
            written = {} if static and self._is_empty(shadow) else self._places_of(shadow) if wanted else {}
            rows = 0
            if written or partitions is None:
                self._spark.catalog.refreshTable(self._quoted(shadow))
                rows = self._spark.table(self._quoted(shadow)).count()
            # Now and not after the commit: a metastore may be set to remove the files of every table that is dropped.
            self._metastore.drop_table(self._database, shadow)
            failpoint("hive.shadow.dropped")
            if partitions is None:
                moves = [Move("", self._metastore.location(entry), root)]
                self._metastore.make(root)
            else:
                moves = matched(wanted, written, self._places(), kinds, f"{root}/{EMPTY}")
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
        """Point the table at the new places, in one step, and remove what could come back by its name alone."""
        with self._metastore.faults(self.name):
            places = self._places()
            if not _has_moved(staged, places):
                self._check_unchanged(staged, places)
                entry = self._entry()
                if entry.stats().isDefined():
                    self._metastore.forget_table_statistics(self._database, self._table)
                    failpoint("hive.statistics.removed")
                self._create_partitions(entry, staged, places)
                try:
                    self._switch(entry, staged)
                except Exception as fault:
                    if not self._has_happened(staged, fault):
                        raise
            failpoint("hive.switched")
            self._tidy(staged)
            self._spark.catalog.refreshTable(self._quoted(self._table))

    def is_committed(self, record: Staged | Mapping[str, Any]) -> bool:
        """Tell whether the table has moved to what was staged."""
        staged = _staged(record)
        with self._metastore.faults(self.name):
            return _has_moved(staged, self._places())

    def retire(self, record: Staged | Mapping[str, Any]) -> None:
        """Remove the places that a commit left, but for those that the table holds again."""
        staged = _staged(record)
        with self._metastore.faults(self.name):
            self._tidy(staged)
            live = self._places().values()
            for place in staged.retired:
                self._retire(place, live, staged)
            if not is_any_in(live, staged.root):  # all that it wrote has been replaced, or it wrote no row
                self._metastore.remove(staged.root)

    def discard(self, run: str) -> None:
        """Remove what a run staged and did not commit. Raises StateError where the table holds any of it."""
        with self._metastore.faults(self.name):
            root = self._root(self._entry(), run)
            below = {name: place for name, place in self._places().items() if is_in(place, root)}
            # A new partition has an empty place until the commit: with a file in it, it is somebody else's.
            held = [
                place
                for place in below.values()
                if not is_in(place, f"{root}/{EMPTY}") or self._metastore.listed(place)
            ]
            if held:
                raise error("hive.live", table=self.name, path=held[0])
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

    def _check_unchanged(self, staged: Staged, places: Mapping[str, str]) -> None:
        for move in staged.moves:
            place = places.get(move.partition)
            if place != move.old and place != _empty(staged.root, move.partition):
                raise error("hive.changed", table=self.name, what=move.partition or "its place")

    def _create_partitions(self, entry: Entry, staged: Staged, places: Mapping[str, str]) -> None:
        """Add the partitions that are new, without a row: the switch can only change what is there."""
        store = self._metastore
        missing = [move.partition for move in staged.moves if move.old is None and move.partition not in places]
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
        """Commit: one request to the metastore, which does it in one transaction."""
        store = self._metastore
        counts: dict[str, list[int]] = {}
        for file in staged.files:
            counts.setdefault(file.partition, []).append(file.bytes)
        truth = {
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
                    properties=store.without_statistics(entry.properties(), truth[""]),
                    ignoredProperties=store.without_statistics(entry.ignoredProperties()),
                    stats=store.option(None),
                )
            )
            return
        targets = {move.partition: move.new for move in staged.moves}
        changed = [
            store.copy(
                one,
                # The table's format, for a partition may be older than that.
                storage=store.at(entry.storage(), targets[name]),
                parameters=store.without_statistics(one.parameters(), truth[name]),
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
        """Find out after a fault of the switch: its answer alone may have been lost, or may still come."""
        why = str(fault).split("\n\tat ")[0][:500]
        try:
            happened = self.is_committed(staged)
        except MutatorError:
            raise error("hive.uncertain", table=self.name, why=why) from None
        if not happened and re.search("TTransport|Socket|[Tt]imed? ?out", str(fault)):
            raise error("hive.uncertain", table=self.name, why=why) from None
        return happened

    def _tidy(self, staged: Staged) -> None:
        """Remove what a name alone would bring back, and drop partitions without rows.

        ``MSCK REPAIR TABLE`` would add a dropped partition again whose directory is there, and a managed table that is
        dropped and created anew would find the old files.
        """
        if self.partition_fields and not any(move.emptied for move in staged.moves):
            return
        places = self._places()
        if not self.partition_fields:
            old = staged.moves[0].old
            if self.managed and old and MARK not in old.rpartition("/")[2] and not is_any_in(places.values(), old):
                self._remove(old, staged)
                failpoint("hive.old.removed")
            return
        location = self._metastore.location(self._entry())
        emptied = [move for move in staged.moves if move.emptied and places.get(move.partition) == move.new]
        for move in emptied:
            if move.old == f"{location}/{move.partition}":
                self._remove(move.old, staged)
                failpoint("hive.old.removed")
        unused = [move.partition for move in emptied if not self._metastore.listed(move.new)]
        if unused:
            self._metastore.drop_partitions(self._database, self._table, [partition_values(name) for name in unused])
            failpoint("hive.partitions.dropped")

    # --- places

    def _retire(self, place: str, live: Iterable[str], staged: Staged) -> None:
        """Remove a place, and the directory of its run when nothing of that is live.

        Raises StateError where it has files that it had not when its rows were taken over: somebody still writes there.
        """
        if is_any_in(live, place):
            return
        others = self._others(place, staged)
        if others:
            raise error("table.left", path=place, files=first_few([one.rpartition("/")[2] for one in others]))
        self._remove(place, staged)
        run = re.match(rf"(.*/{HIDDEN}/[^/]+)/", place)
        if run and not is_any_in(live, run[1]):
            self._metastore.remove(run[1])
        failpoint("hive.retire.removed")

    def _others(self, place: str, staged: Staged) -> list[str]:
        """Return the data files in a place that were not those of the table."""
        known = {(one.path, one.bytes, one.modified) for one in staged.left}
        return [
            path
            for path, size, modified, is_directory in self._metastore.listed(place)
            if not is_directory and not is_hidden(path) and (path, size, modified) not in known
        ]

    def _remove(self, place: str, staged: Staged) -> None:
        """Remove a place: all of it if it is ours, else its files, for what else is there is not ours.

        One that somebody has written to since stays for ``retire`` to tell of.
        """
        if self._others(place, staged):
            return
        if f"/{HIDDEN}/" in place or MARK in place.rpartition("/")[2]:
            self._metastore.remove(place)
            return
        listed = self._metastore.listed(place)
        for path, _, _, is_directory in listed:
            if not is_directory:
                self._metastore.remove(path)
        if listed and not self._metastore.listed(place):
            self._metastore.remove(place)

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


def _staged(record: Staged | Mapping[str, Any]) -> Staged:
    return record if isinstance(record, Staged) else Staged.of(record)


def _has_moved(staged: Staged, places: Mapping[str, str]) -> bool:
    """Tell whether all places are the new ones; a partition without rows may have been dropped since."""
    return all(
        places.get(move.partition) in ((None, move.new) if move.emptied else (move.new,)) for move in staged.moves
    )
