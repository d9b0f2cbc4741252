"""The records of a difference, from the changed rows of a comparison: counts, changed fields, the first records."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.errors.display import counted, printable
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.changed_rows import ROW
from mutator.formats.values.python_values import python_rows
from mutator.frames.change_feed import change_batches, schema_of_changes
from mutator.pipeline.reports.printed import WarningReport
from mutator.pipeline.reports.sections import ReportSection, said
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags
from mutator.rules.changes import AFTER, BEFORE, CHANGE, CHANGES, DELETE, FIELD_NAMES, INSERT
from mutator.rules.typed_values import unequal

_LONG = 60  # characters of a value that are shown


@dataclass(frozen=True)
class Diff(WarningReport):
    """The difference of two datasets. ``print`` shows what ``mutator diff`` prints."""

    old: str
    new: str
    counts: Mapping[str, int]  # "added", "removed", "changed", "moved"
    # field -> number of changed records that differ in it, without those that moved
    fields: Mapping[str, int] = field(default_factory=dict)
    key: tuple[str, ...] = ()  # names of the fields of the record ID
    added: Sequence[Mapping[str, Any]] = ()  # the first records
    removed: Sequence[Mapping[str, Any]] = ()
    changed: Sequence[Mapping[str, Any]] = ()  # "key" and "changes": field -> [old value, new value]
    fields_added: tuple[str, ...] = ()  # that only the new dataset has
    fields_removed: tuple[str, ...] = ()  # that only the old one has; they are not compared
    skipped: int = 0  # files of the old dataset that were not read, because the new one has their content
    warnings: tuple[str, ...] = ()  # what to know of the comparison

    @property
    def is_empty(self) -> bool:
        """Whether both have the same records."""
        return not any((*self.counts.values(), self.fields_added, self.fields_removed))

    def members(self) -> dict[str, Any]:
        """Return the members of a JSON object."""
        counts = {name: self.counts.get(name, 0) for name in ("added", "removed", "changed", "moved")}
        return {name: value for name, value in {**vars(self), "counts": counts}.items() if name != "warnings"}

    def json(self) -> str:
        """Return the difference as a JSON document; values that JSON lacks are text."""
        return json.dumps(_json(self.members()), indent=1, ensure_ascii=False, allow_nan=False)

    def sections(self) -> Iterable[ReportSection]:
        """Return a summary, then the first records."""
        n = Counter(self.counts)
        shown = [f"{counted(n['added'], 'record')} added", f"{n['removed']:,} removed", f"{n['changed']:,} changed"]
        lines = [", ".join(shown) + (f", {n['moved']:,} of them moved to another partition" if n["moved"] else "")]
        if not any(n.values()):
            lines = ["no differences" if self.is_empty else "no differences in the fields that both have"]
        lines += [f"  {name} differs in {counted(count, 'record')}" for name, count in self.fields.items()]
        lines += ["  fields of records that moved are not counted"] if n["moved"] else []
        lines += [f"  {name} is a field of {self.new} alone" for name in self.fields_added]
        lines += [f"  {name} is a field of {self.old} alone, and not compared" for name in self.fields_removed]
        if self.skipped:
            lines.append(f"{counted(self.skipped, 'file')} with equal checksums not read")
        return (
            said(*lines),
            _listed("added", [line for one in self.added for line in _record(one, self.key)]),
            _listed("removed", [line for one in self.removed for line in _record(one, self.key)]),
            _listed("changed", [line for one in self.changed for line in _changed(one)]),
        )


def _listed(title: str, lines: Sequence[str]) -> ReportSection:
    return said(*(["", f"{title}:", *lines] if lines else []))


def _record(one: Mapping[str, Any], key: Sequence[str]) -> Iterator[str]:
    yield f"  {_named({name: one[name] for name in key if name in one})}"
    for name, value in one.items():
        if name not in key:
            yield f"    {printable(name)}: {_shown(value)}"


def _changed(one: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {_named(one['key'])}"
    for name, (before, after) in one["changes"].items():
        yield f"    {printable(name)}: {_shown(before)} => {_shown(after)}"


def _named(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{printable(name)}: {_shown(value)}" for name, value in key.items())


def _shown(value: Any) -> str:
    text = printable(_text(value) if isinstance(value, bytes) else "NULL" if value is None else str(value))
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def _json(value: Any) -> Any:
    """Return a value as JSON has it, at any depth. Infinite and NaN are text, with the names of other commands."""
    if isinstance(value, Mapping):
        return {name: _json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, str | int | float) else _text(value)


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def read_diff(
    old: str, new: str, plan: Plan, directory: str, files: Sequence[FileEntry], counts: Mapping[str, int], rows: int
) -> Diff:
    """Return the difference that files of changed rows have. rows: number of records of each kind to return."""
    key = key_fields(plan)
    found = _Records(key, rows, can_pair=bool(key) or not counts.get("moved in"))
    for part in files:
        schema = schema_of_changes(directory, part)
        found.read(change_batches(directory, [part], schema))
    found.pair_moved()
    n = found.counts
    return Diff(
        old,
        new,
        {
            "added": n[INSERT],
            "removed": n[DELETE],
            "changed": n[AFTER],
            "moved": counts.get("moved in", 0),
        },
        dict(sorted(found.fields.items(), key=lambda item: (-item[1], item[0]))),
        found.key,
        found.shown[INSERT],
        found.shown[DELETE],
        found.changed,
    )


def key_fields(plan: Plan) -> tuple[str, ...]:
    """Return the names of the key's columns in changed rows; none if rows have no columns."""
    spec = plan.rows.spec["key"]
    if "fields" in spec:
        return tuple(spec["fields"])
    assert plan.changes is not None
    return tuple(plan.changes.names[ordinal] for ordinal in spec["ordinals"]) if plan.changes.names else ()


class _Records:
    """Collects changed rows, batch by batch."""

    def __init__(self, key: tuple[str, ...], rows: int, *, can_pair: bool) -> None:
        """can_pair: it is certain which rows, before and after, are of one record."""
        self.key, self._rows, self._can_pair = key, rows, can_pair
        self.counts: Counter[int] = Counter()
        self.fields: Counter[str] = Counter()
        self.shown: dict[int, list[dict[str, Any]]] = {INSERT: [], DELETE: []}
        self.changed: list[dict[str, Any]] = []
        self._alone: dict[int, list[dict[str, Any]]] = {BEFORE: [], AFTER: []}  # of records that moved

    def read(self, batches: Iterator[Any]) -> None:
        """Add the rows of a file."""
        waiting = None  # a last row whose other half may begin the next batch
        for batch in batches:
            table = pa.Table.from_batches([batch])
            if waiting is not None:
                table = pa.concat_tables([waiting, table]).combine_chunks()
            kinds = _kinds(table)
            if len(kinds) and kinds[-1] == BEFORE:
                waiting, table, kinds = table.slice(len(kinds) - 1), table.slice(0, len(kinds) - 1), kinds[:-1]
            else:
                waiting = None
            self._add(table, kinds)
        if waiting is not None:
            self._add(waiting, _kinds(waiting))

    def _add(self, table: Any, kinds: Any) -> None:
        for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
            self.counts[int(kind)] += int(count)
        for kind, shown in self.shown.items():
            left = self._rows - len(shown)
            shown += _values(table, np.flatnonzero(kinds == kind)[: max(left, 0)])
        firsts = np.flatnonzero((kinds[:-1] == BEFORE) & (kinds[1:] == AFTER))
        names = [name for name in table.column_names if name not in FIELD_NAMES]
        before, after = table.take(pa.array(firsts)), table.take(pa.array(firsts + 1))
        # A row whose other half is in another partition may be beside a row of another record.
        same = np.full(len(firsts), self._can_pair)
        for name in self.key:
            same &= ~_differ(before, after, name)
        alone = np.ones(len(kinds), np.bool_)
        alone[firsts[same]] = alone[firsts[same] + 1] = False
        for kind, rows in self._alone.items():
            left = self._rows - len(rows)
            rows += _values(table, np.flatnonzero(alone & (kinds == kind))[: max(left, 0)])
        before, after = before.filter(pa.array(same)), after.filter(pa.array(same))
        for name in names:
            differing = int(_differ(before, after, name).sum())
            if differing:
                self.fields[name] += differing
        count = min(max(self._rows - len(self.changed), 0), before.num_rows)
        self.changed += [
            self._pair(*pair) for pair in zip(_values(before, range(count)), _values(after, range(count)), strict=True)
        ]

    def pair_moved(self) -> None:
        """Show the records that moved to another partition, as far as both of their rows are among the first."""
        before = {self._key_of(row): row for row in self._alone[BEFORE] if self._can_pair}
        for row in self._alone[AFTER]:
            old = before.get(self._key_of(row))
            if old is not None and len(self.changed) < self._rows:
                self.changed.append(self._pair(old, row))

    def _key_of(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(repr(row.get(name)) for name in self.key)

    def _pair(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        changes = {name: [before[name], value] for name, value in after.items() if repr(before[name]) != repr(value)}
        return {"key": {name: after[name] for name in self.key}, "changes": changes}


def _kinds(table: Any) -> Any:
    return pc.index_in(table.column(CHANGE).combine_chunks(), value_set=pa.array(CHANGES)).to_numpy()


def _differ(before: Any, after: Any, name: str) -> Flags:
    return unequal(before.column(name).combine_chunks(), after.column(name).combine_chunks())


def _values(table: Any, rows: Any) -> list[dict[str, Any]]:
    """Return rows as Python values, without the fields of a change, and without ``_row`` where columns suffice."""
    chosen = table.take(pa.array(np.asarray(rows, np.int64))).drop_columns(list(FIELD_NAMES)).combine_chunks()
    found = [row for batch in chosen.to_batches() for row in python_rows(batch)]
    return [{name: value for name, value in row.items() if name != ROW or value is not None} for row in found]
