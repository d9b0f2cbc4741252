"""The key that a user gives, as the rows of a dataset have it: canonical bytes and their hash."""

import csv
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.values.convert import typed_value
from mutator.rules.byte_columns import ByteColumn
from mutator.rules.first_values import FirstValues
from mutator.rules.key_hash import Hashes, hash_columns
from mutator.rules.typed_values import canonical

Key = Any  # the value of the key, or a sequence of the values of its fields


@dataclass(frozen=True)
class WantedKey:
    """A key. columns: a pa.Array of large_binary with one element for each field: the canonical bytes of its value."""

    columns: tuple[Any, ...]
    types: tuple[Any, ...] = ()  # pa.DataTypes of the fields; (): they are text

    @cached_property
    def values(self) -> tuple[bytes, ...]:
        """The canonical bytes of each value."""
        return tuple(column[0].as_py() for column in self.columns)

    @cached_property
    def hashes(self) -> Hashes:
        """The hash, as uint64 of one element."""
        return hash_columns([ByteColumn.of_array(column) for column in self.columns])

    @cached_property
    def firsts(self) -> FirstValues:
        """The first value, as blocks of rows look for it."""
        return FirstValues(self.columns[:1])


def typed_key(key: Key, names: Sequence[str], types: Sequence[Any], path: str, what: str) -> WantedKey:
    """Return a key, typed as the fields of a schema.

    names, types: of the key fields; types are pa.DataTypes. path, what: of the dataset, for messages. Raises
    ConfigError.
    """
    columns = []
    for name, value, data_type in zip(names, key_values(key, names, path, what), types, strict=True):
        scalar, why = typed_value(value, data_type)
        if why is not None:
            why = "is no value" if value is None else why
            raise error("table.key.value", path=path, value=repr(value), name=name, why=why, type=data_type)
        columns.append(canonical(pa.repeat(scalar, 1)))
    return WantedKey(tuple(columns), tuple(types))


def key_values(key: Key, names: Sequence[str], path: str, what: str) -> Sequence[Any]:
    """Return the value of each key field. Text for several fields is split at commas, as CSV. Raises ConfigError."""
    width = len(names)
    values = list(key) if isinstance(key, list | tuple) else [key]
    if len(values) == 1 and width > 1 and isinstance(values[0], str):
        values = next(csv.reader([values[0]]), [])
    if len(values) != width:
        found = f"{len(values)} value{'' if len(values) == 1 else 's'}"
        raise error("table.key", path=path, key=repr(key), found=found, what=what, width=width, names=", ".join(names))
    return values
