"""The record of a change of a Hive table, logged before the table's locations are changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from mutator.bridge.contract import BridgeFile, files_of
from mutator.errors import error
from mutator.rules.partition_paths import DEFAULT, values_of


@dataclass(frozen=True)
class Move:
    """A new location of a partition, or of the table if the name is empty."""

    partition: str
    old: str | None  # None: the partition is new
    new: str
    emptied: bool = False  # it has no rows, and is dropped after the commit


@dataclass(frozen=True)
class Staged:
    """The change that a run will make to a table."""

    table: str
    run: str
    root: str  # directory of everything that the run wrote
    moves: tuple[Move, ...]
    files: tuple[BridgeFile, ...]  # those of the new locations
    rows: int = 0  # number of rows written
    left: tuple[BridgeFile, ...] = ()  # those of the old locations; other files there were written by other programs

    @property
    def retired(self) -> tuple[str, ...]:
        """Return the locations that the commit replaces."""
        return tuple(move.old for move in self.moves if move.old is not None)

    def record(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Staged:
        """Return the change that a record describes.

        >>> staged = Staged("db.t", "r", "file:/t.mutator-r", (Move("", "file:/t", "file:/t.mutator-r"),), ())
        >>> Staged.of(staged.record()) == staged
        True
        """
        moves = tuple(Move(**move) for move in record["moves"])
        files, left = files_of(record["files"]), files_of(record["left"])
        return cls(record["table"], record["run"], record["root"], moves, files, record["rows"], left)


def partition_values(name: str) -> dict[str, str | None]:
    """Return the values of a partition's name.

    >>> partition_values("dt=2026%2F01/store=__HIVE_DEFAULT_PARTITION__")
    {'dt': '2026/01', 'store': None}
    """
    return dict(values_of(name))


def matched(
    wanted: Sequence[Mapping[str, str | None]],
    written: Mapping[str, str],
    there: Mapping[str, str],
    data_types: Mapping[str, pa.DataType],
    empty: str,
) -> list[Move]:
    """Return the moves of partitions, matched by value: the metastore may spell a number in several ways.

    wanted: values of the partitions to replace. written, there: locations of the new rows, and of the table, by
    partition name. data_types: of the partition fields. empty: directory for locations without rows.

    >>> data_types = {"n": pa.int32()}
    >>> matched([{"n": "7"}, {"n": "8"}], {"n=7": "new/n=7"}, {"n=07": "a", "n=8": "b"}, data_types, "empty")
    [Move(partition='n=07', old='a', new='new/n=7', emptied=False), \
Move(partition='n=8', old='b', new='empty/n=8', emptied=True)]
    """

    def key(values: Mapping[str, str | None]) -> tuple[str, ...]:
        return tuple(canonical(values[field] or DEFAULT, data_type) for field, data_type in data_types.items())

    spellings: dict[tuple[str, ...], list[str]] = {}
    for name in there:
        spellings.setdefault(key(partition_values(name)), []).append(name)
    new = {key(partition_values(name)): (name, location) for name, location in written.items()}
    moves: list[Move] = []
    for one in dict.fromkeys(map(key, wanted)):
        names = spellings.get(one, [])
        if one in new:
            name, location = new.pop(one)
            target = names[0] if names else name
            moves.append(Move(target, there.get(target), location))
            names = names[1:]
        moves += [Move(name, there[name], f"{empty}/{name}", emptied=True) for name in names]
    if new:
        raise error("bug", what=f"there are rows of {next(iter(new.values()))[0]}, which is not to be replaced")
    return sorted(moves, key=lambda move: move.partition)


def canonical(value: str, data_type: pa.DataType) -> str:
    """Return the canonical spelling of a partition value.

    >>> canonical("007", pa.int32()), canonical("007", pa.string()), canonical("2.5", pa.decimal128(5, 2))
    ('7', '007', '2.50')
    """
    if pa.types.is_integer(data_type) and re.fullmatch(r"[+-]?\d+", value, re.ASCII):
        return str(int(value))
    if pa.types.is_decimal(data_type) and re.fullmatch(r"[+-]?\d+(\.\d+)?", value, re.ASCII):
        return f"{Decimal(value):.{data_type.scale}f}"
    return value.lower() if pa.types.is_boolean(data_type) else value


def is_in(location: str, root: str) -> bool:
    """Return whether a location is another one, or is inside it.

    >>> is_in("file:/t/dt=1", "file:/t"), is_in("file:/t2", "file:/t")
    (True, False)
    """
    return f"{location}/".startswith(f"{root.rstrip('/')}/")


def is_any_in(locations: Iterable[str], root: str) -> bool:
    """Return whether any of the locations is another one, or is inside it."""
    return any(is_in(location, root) for location in locations)
