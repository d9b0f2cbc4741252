"""Applies of upserts, patches and deletes to a versioned table, compared with the model after each."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.stored_rows import taken_rows, taken_tombstones
from mutator.rules.field_orders import FIELD_ORDERS, column_of_orders
from mutator.rules.merge_functions import parse_choice
from mutator.rules.merged_fields import MergedField, Merging
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.patch_model import RECORD, TOMBSTONE, WAITING, Kept, Mutation, Place
from tests.support.patch_runs import COUNTED, LOWEST, Form, as_met, beside, model_functions, own_entries
from tests.support.small_runs import known
from tests.support.versioned import left_of, open_runner

Rows = dict[str, Any]  # key -> (order value, values, order values of the fields, of merge functions)
NO_FUNCTIONS: Mapping[str, str] = {}
CSV = Form("table", {"key": "id", "order_by": "at", "order_type": "long", "op": "op", "unset.value": "~"}, header=True)
SETTINGS = {**CSV.settings, "header": "true", "truncate.op.code": "T", **NO_LIMITS}
BY_PARTITION = {"partitioned.by": "id", "key.scope": "partition"}
MOVING = {"partitioned.by": "p", "key.scope": "table"}  # patches move records, but only in a table


def side_columns(functions: Mapping[str, str]) -> tuple[Any, ...]:
    """Return what is kept beside records. functions: of fields of text."""
    choices = {name: parse_choice(functions[name]) for name in model_functions(functions)}
    merging = Merging(
        tuple(MergedField(0, name, one.function, one.type or pa.string()) for name, one in choices.items()), "long"
    )
    return (column_of_orders("long"), *(merging.side_columns if choices else ()))


def of_functions(functions: Mapping[str, str], sides: dict[str, Any]) -> Any:
    """Return what is kept for merge functions: the last delete, and entries."""
    found = {name: sides.get(f"entries.{name}") for name in model_functions(functions)}
    return sides.get("cleared"), {
        name: None if own is None else tuple((one["order"], plain(one["value"])) for one in own)
        for name, own in found.items()
    }


def plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def of_row(
    fields: Sequence[str], row: dict[str, Any], sides: dict[str, Any], functions: Mapping[str, str] = NO_FUNCTIONS
) -> Any:
    """Return a record as the model has it."""
    order = int(row["at"])
    own = {one["field"]: one["order"] for one in sides.get(FIELD_ORDERS) or ()}
    orders = tuple(own.get(name, order) for name in fields)
    return order, tuple(row[name] for name in fields), orders, *of_functions(functions, sides)


def rows_of(snapshot: Snapshot, fields: Sequence[str], functions: Mapping[str, str] = NO_FUNCTIONS) -> Rows:
    """Return the records of a version, with the order values of their fields."""
    live, found = LiveRows(snapshot), Rows()
    for file in snapshot.of_role(DATA):
        positions = np.setdiff1d(np.arange(file.rows), snapshot.masks.hidden(file.path))
        parts = taken_rows(snapshot.table, file, file.rows, positions, live.forms.schema(file.form).names)
        own = live.sides(file, positions, side_columns(functions)).to_pylist()
        has_values = any(any(value is not None for value in one.values()) for one in own)
        assert file.sides is None or has_values or len(own) < file.rows, "a side file has values"
        for row, sides in zip((row for part in parts for row in part.to_pylist()), own, strict=True):
            assert row["id"] not in found
            found[row["id"]] = of_row(fields, {**dict.fromkeys(fields), **row}, sides, functions)
    return found


def waiting_in(snapshot: Snapshot, fields: Sequence[str], functions: Mapping[str, str] = NO_FUNCTIONS) -> Rows:
    """Return what waits in a version: the order value of the last delete, the fields, and their order values.

    Then what merge functions have, and the highest order value, which is that of the last patch.
    """
    found = Rows()
    for file in snapshot.of_role(TOMBSTONES):
        positions = np.setdiff1d(np.arange(file.rows), snapshot.masks.hidden(file.path))
        for one in taken_tombstones(snapshot.table, file, file.rows, positions).to_pylist():
            if one.get("waiting") is None:
                continue
            row = one["waiting"]
            order = None if one["order"] == LOWEST else int(one["order"])
            own = {entry["field"]: entry["order"] for entry in one[FIELD_ORDERS]}
            orders = tuple(own.get(name, order) for name in fields)
            entries = of_functions(functions, one)[1]
            newest = max(entry["order"] for entry in one[FIELD_ORDERS] if entry["order"] is not None)
            found[one["key_0"].decode()] = order, tuple(row[name] for name in fields), orders, entries, newest
    return found


def rows_in(directory: Path, fields: Sequence[str], functions: Mapping[str, str] = NO_FUNCTIONS) -> Rows:
    """Return the records of an exported directory, read without the package."""
    found = Rows()
    for part in known(directory).files:
        rows = pq.ParquetFile(directory / part.path).read().to_pylist()
        kept = beside(None if part.order is None else directory / part.order, len(rows))
        found |= {row["id"]: of_row(fields, row, own, functions) for row, own in zip(rows, kept, strict=True)}
    return found


@dataclass
class VersionedTable:
    """A table, from version to version, and the model."""

    work: Path
    fields: Sequence[str]
    more: dict[str, str] = field(default_factory=dict)
    unknown: str = "insert"
    functions: Mapping[str, str] = field(default_factory=dict)  # field -> merge function, and type
    seen: dict[int, Rows] = field(default_factory=dict)  # rows by version
    feeds: int = 0

    def __post_init__(self) -> None:
        self.model = Place(self.fields, self.unknown, order_in_row=True, functions=model_functions(self.functions))
        self.more = {**self.more, "patch.unknown": self.unknown}
        self.more |= {f"field.merge.{name}": text for name, text in self.functions.items()}
        self.table = Table.create(str(self.work / "table"), {**SETTINGS, **self.more})
        self.seen[self.table.version] = {}

    @property
    def expected(self) -> Rows:
        """The rows that the model has."""
        return {
            key: (kept.order, self.texts(kept), kept.orders, kept.cleared, self.entries(kept))
            for key, kept in self.model.all(RECORD).items()
        }

    def texts(self, kept: Kept) -> tuple[Any, ...]:
        return tuple(None if value is None else CSV.text_of(value) for value in kept.values)

    def entries(self, kept: Kept) -> dict[str, Any]:
        return own_entries(self.fields, self.model.functions, kept)

    def feed(self, rows: Sequence[Mutation], rng: random.Random) -> list[str]:
        """Write a feed; return its files."""
        self.feeds += 1
        directory = self.work / f"feed{self.feeds}"
        CSV.put(directory, self.fields, rows, rng.randint(0, len(rows)))
        # An equal file of the same name would be skipped.
        renamed = [path.rename(directory / f"{path.stem}_{self.feeds}.csv") for path in sorted(directory.iterdir())]
        return [str(path) for path in renamed if len(path.read_text().splitlines()) > 1]

    def apply(self, files: Sequence[str]) -> Any:
        """Apply files in this process."""
        return Table(self.table.path).apply(files, open_runner=open_runner)

    def run(self, rows: Sequence[Mutation], rng: random.Random) -> None:
        """Apply a feed; check all that it leaves."""
        report = self.apply(self.feed(rows, rng))
        counts = self.model.run(rows)
        found = {name: report.counts.get(f"feed {name}", 0) for name in COUNTED}
        assert {name: report.counts.get(name, 0) for name in ("revived", "waited")} == {
            name: self.model.notes[name] for name in ("revived", "waited")
        }
        assert {**found, "out of order": report.counts.get("out of order", 0)} == {
            name: counts[name] for name in {*COUNTED, "out of order"}
        }
        self.check()

    def check(self) -> None:
        """Compare rows, order values of fields and tombstones with the model."""
        self.table.refresh()
        snapshot = self.table.snapshot
        assert rows_of(snapshot, self.fields, self.functions) == self.expected
        buried = {key[0].decode(): int(order) for key, order in left_of(snapshot, {}, width=1).tombstones}
        floor = max((one.mutation.order for one in self.model.truncates), default=0)
        kept_rows = waiting_in(snapshot, self.fields, self.functions)
        waiting = {
            key: as_met(self.model, deleted, values, orders, entries)
            for key, (deleted, values, orders, entries, newest) in kept_rows.items()
            if newest >= floor  # it covers the others
        }
        assert waiting == {
            key: as_met(self.model, kept.deleted, kept.values, kept.orders, dict(kept.entries))
            for key, kept in self.model.all(WAITING).items()
        }
        assert {key: order for key, order in buried.items() if key not in kept_rows and order > floor} == {
            key: kept.order for key, kept in self.model.all(TOMBSTONE).items()
        }
        self.seen[self.table.version] = self.expected

    def check_versions(self) -> None:
        """Check that each version still has its rows, that changes lead from each to the next, and all files."""
        shown = {number: {key: row[1] for key, row in rows.items()} for number, rows in self.seen.items()}
        numbers = sorted(shown)
        for number in numbers:
            assert rows_of(self.table.at(number), self.fields, self.functions) == self.seen[number]
        for start, end in itertools.pairwise(numbers):
            state = dict(shown[start])
            for row in (row for batch in self.table.changes(start, end) for row in batch.to_pylist()):
                values = tuple(row[name] for name in self.fields)
                if row["_change_type"] in ("delete", "update_preimage"):
                    assert state.pop(row["id"]) == values
                else:
                    state[row["id"]] = values
            assert state == shown[end]
        verified = self.table.verify(open_runner=open_runner)
        covered = verified.waiting - len(self.model.all(WAITING))  # until a compaction
        assert verified.problems == ()
        assert covered == 0 or (covered > 0 and self.model.truncates)

    def compact(self) -> None:
        """Rewrite all files; this changes no rows."""
        self.table.refresh()
        self.table.compact(everything=True)
        self.check()

    def replace_and_restore(self, rng: random.Random) -> None:
        """Replace all records by one that sets all its fields, and go back."""
        version, name = self.table.version, rng.choice("abcd")
        new = dict.fromkeys(self.fields, "9")
        row = Mutation("U", name, 4, new)
        files = self.feed([row], rng)
        self.table.insert_overwrite_table(files)
        at = dict.fromkeys(self.fields, 4)
        functions = self.model.functions
        cleared = 4 if functions else None  # what is older counts no more
        nothing_beside = (4, (*new.values(),), (*at.values(),), cleared, dict.fromkeys(functions))
        assert rows_of(self.table.snapshot, self.fields, self.functions) == {name: nothing_beside}
        assert functions or all(file.sides is None for file in self.table.snapshot.of_role(DATA))
        self.seen[self.table.version] = {name: nothing_beside}
        self.table.restore(version)
        self.check()

    def export_and_take_over(self, rows: Sequence[Mutation], rng: random.Random) -> None:
        """Export the table, merge a feed into the directory, and begin a table again with that."""
        exported, merged = self.work / f"exported{self.feeds}", self.work / f"merged{self.feeds}"
        self.table.export(exported, partition_columns="file", open_runner=open_runner)
        assert rows_in(exported, self.fields, self.functions) == self.expected
        assert local_engine.verify(str(exported)).differences == ()
        places: Any = {"master": str(exported), "feed": self.feed(rows, rng), "output": str(merged)}
        more = {**self.more, **({"partition.columns": "file"} if "partitioned.by" in self.more else {})}
        local_engine.mutate({**SETTINGS, **more, "consumed.files": "merge"}, **places)
        self.model.run(rows)
        assert rows_in(merged, self.fields, self.functions) == self.expected
        path = self.work / f"again{self.feeds}"
        self.table = Table.create(str(path), {**SETTINGS, **self.more}, dataset=str(merged))
        self.seen = {}
        self.check()
