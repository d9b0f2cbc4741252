"""The first rows of files by field: what all rules of a proposal look at."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
    def of(cls, tables: Iterable[SampleTable]) -> "SampleRows":
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


def present(values: Iterable[bytes | None]) -> list[bytes]:
    """Return the values that are neither NULL nor empty.

    >>> present([None, b"", b"a"])
    [b'a']
    """
    return [value for value in values if value]
