"""What a run has written for a Hive table and where, as it is logged before the table is pointed at it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from mutator.bridge.contract import TableFile, files_of
from mutator.errors import error
from mutator.rules.partition_paths import DEFAULT, directory_of, values_of

__all__ = [
    "Move",
    "Staged",
    "canonical",
    "is_any_in",
    "is_in",
    "matched",
    "partition_name",
    "partition_values",
]


@dataclass(frozen=True)
class Move:
    """A partition, or the table where its name is empty, that gets another place."""

    partition: str
    old: str | None  # a new partition has none
    new: str
    emptied: bool = False  # it has no rows any more, and is dropped when it has moved


@dataclass(frozen=True)
class Staged:
    """All that a run is going to change about a table."""

    table: str
    run: str
    root: str  # all that the run wrote lies in here
    moves: tuple[Move, ...]
    files: tuple[TableFile, ...]  # those of the new places, as the table will have them
    rows: int = 0  # how many were written
    left: tuple[TableFile, ...] = ()  # those of the old places: what else is there was written by somebody else

    @property
    def retired(self) -> tuple[str, ...]:
        """Return the places that the table leaves."""
        return tuple(move.old for move in self.moves if move.old is not None)

    def record(self) -> dict[str, Any]:
        """Return the same as a value for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Staged:
        """Return what a record says.

        >>> staged = Staged("db.t", "r", "file:/t.mutator-r", (Move("", "file:/t", "file:/t.mutator-r"),), ())
        >>> Staged.of(staged.record()) == staged
        True
        """
        moves = tuple(Move(**move) for move in record["moves"])
        files, left = files_of(record["files"]), files_of(record["left"])
        return cls(record["table"], record["run"], record["root"], moves, files, record["rows"], left)


def partition_name(values: Mapping[str, str | None]) -> str:
    """Return the name of a partition, as its directory has it.

    >>> partition_name({"dt": "2026/01", "store": None})
    'dt=2026%2F01/store=__HIVE_DEFAULT_PARTITION__'
    """
    return directory_of(tuple(values), tuple(values.values()))


def partition_values(name: str) -> dict[str, str | None]:
    """Return the values that a partition's name stands for.

    >>> partition_values("dt=2026%2F01/store=__HIVE_DEFAULT_PARTITION__")
    {'dt': '2026/01', 'store': None}
    """
    return dict(values_of(name))


def matched(
    wanted: Sequence[Mapping[str, str | None]],
    written: Mapping[str, str],
    there: Mapping[str, str],
    kinds: Mapping[str, pa.DataType],
    empty: str,
) -> list[Move]:
    """Return how partitions get their places: by value, for the metastore may spell a number in several ways.

    wanted: what is replaced. written, there: the places of the new rows, and of the table. empty: where places
    without rows are made.

    >>> kinds = {"n": pa.int32()}
    >>> matched([{"n": "7"}, {"n": "8"}], {"n=7": "new/n=7"}, {"n=07": "a", "n=8": "b"}, kinds, "empty")
    [Move(partition='n=07', old='a', new='new/n=7', emptied=False), \
Move(partition='n=8', old='b', new='empty/n=8', emptied=True)]
    """

    def key(values: Mapping[str, str | None]) -> tuple[str, ...]:
        return tuple(canonical(values[field] or DEFAULT, kind) for field, kind in kinds.items())

    spellings: dict[tuple[str, ...], list[str]] = {}
    for name in there:
        spellings.setdefault(key(partition_values(name)), []).append(name)
    new = {key(partition_values(name)): (name, place) for name, place in written.items()}
    moves: list[Move] = []
    for one in dict.fromkeys(map(key, wanted)):
        names = spellings.get(one, [])
        if one in new:
            name, place = new.pop(one)
            target = names[0] if names else name
            moves.append(Move(target, there.get(target), place))
            names = names[1:]
        moves += [Move(name, there[name], f"{empty}/{name}", emptied=True) for name in names]
    if new:
        raise error("bug", what=f"there are rows of {next(iter(new.values()))[0]}, which is not to be replaced")
    return sorted(moves, key=lambda move: move.partition)


def canonical(value: str, kind: pa.DataType) -> str:
    """Return the one spelling of a partition value.

    >>> canonical("007", pa.int32()), canonical("007", pa.string()), canonical("2.5", pa.decimal128(5, 2))
    ('7', '007', '2.50')
    """
    if pa.types.is_integer(kind) and re.fullmatch(r"[+-]?\d+", value, re.ASCII):
        return str(int(value))
    if pa.types.is_decimal(kind) and re.fullmatch(r"[+-]?\d+(\.\d+)?", value, re.ASCII):
        return f"{Decimal(value):.{kind.scale}f}"
    return value.lower() if pa.types.is_boolean(kind) else value


def is_in(place: str, root: str) -> bool:
    """Tell whether a place is another one, or in that.

    >>> is_in("file:/t/dt=1", "file:/t"), is_in("file:/t2", "file:/t")
    (True, False)
    """
    return f"{place}/".startswith(f"{root.rstrip('/')}/")


def is_any_in(places: Iterable[str], root: str) -> bool:
    """Tell whether one of the places is another one, or in that."""
    return any(is_in(place, root) for place in places)
