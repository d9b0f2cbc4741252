"""The first rows of files by field: what all rules of a proposal look at, with the fields of master and feed numbered
or named alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from mutator.errors.quick_dataclass import dataclass
from mutator.plan.inspect.source import Source
from mutator.plan.proposal.choices import Value

Values = list[bytes | None]


@dataclass(frozen=True)
class SampleTable:
    """The first rows of one file. Fields are names, or ordinals as text, those of a master as in the feed."""

    file: str  # base name
    columns: Mapping[str, Values]
    count: int
    sequence: int | None = None  # of the file name
    directory: str = ""  # of its partition, such as day=2026-01-31
    order_types: Mapping[str, str | None] = field(default_factory=dict)  # of fields with data types
    others: int = 0  # rows that were left out: their width is not that of most rows
    source: Source | None = None  # the file

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields, in order."""
        return tuple(self.columns)


@dataclass(frozen=True)
class SampleRows:
    """The first rows of several files. A row without a field has None there."""

    fields: tuple[str, ...]
    columns: Mapping[str, Values]
    count: int

    @classmethod
    def of(cls, tables: Iterable[SampleTable]) -> SampleRows:
        """Join tables.

        >>> SampleRows.of([SampleTable("a", {"0": [b"x"]}, 1), SampleTable("b", {"0": [b"y"]}, 1)]).columns
        {'0': [b'x', b'y']}
        """
        found = list(tables)
        fields = tuple(dict.fromkeys(name for table in found for name in table.columns))
        columns: dict[str, Values] = {name: [] for name in fields}
        for table in found:
            for name in fields:
                columns[name] += table.columns.get(name) or [None] * table.count
        return cls(fields, columns, sum(table.count for table in found))

    def keys(self, fields: Sequence[str]) -> list[tuple[bytes | None, ...]]:
        """Return the values of some fields, row by row; no rows if a field is missing."""
        if not all(name in self.columns for name in fields):
            return []
        return list(zip(*(self.columns[name] for name in fields), strict=True))


@dataclass(frozen=True)
class Inputs:
    """The first rows of master and feed, with fields numbered or named alike."""

    master: tuple[SampleTable, ...]
    feed: tuple[SampleTable, ...]  # whole rows
    ids_alone: tuple[SampleTable, ...] = ()  # feed files whose rows are narrower than those of the other files
    has_master: bool = True
    named: bool = False  # fields have names


@dataclass(frozen=True)
class Layout:
    """The first rows, with the fields of a master numbered as in the feed, once the op code field is known."""

    master: tuple[SampleTable, ...]
    feed: tuple[SampleTable, ...]
    narrow: tuple[SampleTable, ...]  # feed files with fewer fields than the others
    widths: tuple[int, int]  # of whole rows of master and feed
    names: tuple[str, ...]  # of the feed's fields, where positions have names
    by_position: bool  # fields are ordinals
    is_named: bool  # all formats of the run have NULL and names

    @classmethod
    def of(
        cls, master: Sequence[SampleTable], feed: Sequence[SampleTable], names: tuple[str, ...], *, is_named: bool
    ) -> Layout:
        """Return the layout of the first rows of all files."""
        by_position = all(name.isdigit() for table in (*master, *feed) for name in table.fields)
        if not by_position:
            whole = tuple(table for table in feed if table.columns)
            return cls(tuple(master), whole, (), (0, 0), names, by_position=False, is_named=is_named)
        master_width, feed_width = _width(master), _width(feed)
        most = max(feed_width, master_width)
        if feed_width < master_width and len({len(table.fields) for table in feed if table.count}) > 1:
            feed_width = max(len(table.fields) for table in feed)
        narrow = [table for table in feed if 0 < len(table.fields) < most]
        own = [table for table in feed if table not in narrow and table.columns]
        if not own:  # all feed files have IDs alone
            own, feed_width = [], master_width
        widths = master_width, feed_width
        return cls(tuple(master), tuple(own), tuple(narrow), widths, names, by_position=True, is_named=is_named)

    def inputs(self, op: str | None, *, has_master: bool) -> Inputs:
        """Return the first rows with the fields of a master numbered as in the feed. op: the op code field."""
        master_width, feed_width = self.widths
        master = self.master
        if op is not None and self.by_position and master_width == feed_width - 1:
            master = tuple(_renumbered(table, int(op)) for table in master)
        return Inputs(master, self.feed, self.narrow, has_master, named=not self.by_position)

    def label(self, field: str) -> Value:
        """Return a field as a setting has it."""
        if not self.by_position:
            # Settings have commas between names, and take digits for an ordinal.
            fields = list(SampleRows.of(self.feed or self.master).fields)
            return fields.index(field) if ("," in field or field.isdigit()) and field in fields else field
        return self.names[int(field)] if int(field) < len(self.names) else int(field)

    def field(self, label: Any) -> str:
        """Return the field that a setting names."""
        text = str(label)
        if not self.by_position and text.isdigit():
            fields = SampleRows.of(self.feed or self.master).fields
            return fields[int(text)] if text not in fields and int(text) < len(fields) else text
        return str(self.names.index(text)) if self.by_position and text in self.names else text


def _width(tables: Sequence[SampleTable]) -> int:
    widths: Counter[int] = Counter()
    for table in tables:
        widths[len(table.fields)] += table.count
    return widths.most_common(1)[0][0] if widths else 0


def _renumbered(table: SampleTable, op: int) -> SampleTable:
    """Return a table of a master without the op code, its fields numbered as in the feed."""
    columns = {str(int(name) + (int(name) >= op)): values for name, values in table.columns.items()}
    return replace(table, columns=columns)
