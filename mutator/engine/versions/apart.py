"""Mutations whose record ID is unique only within its partition: the partition becomes a part of the key."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mutator.engine.blocks.mutations import Columns, Mutations
from mutator.engine.blocks.read_blocks import Feed
from mutator.rules.byte_columns import ByteColumn
from mutator.rules.key_hash import Hashes, hash_columns


def apart(found: Mutations) -> Mutations:
    """Return mutations with their partitions as the first value of their keys."""
    names = found.directories.cast(pa.string())
    return replace(found, hashes=found.hashes ^ salts_of(names), keys=(names.cast(pa.large_binary()), *found.keys))


def together(found: Mutations) -> Mutations:
    """Undo ``apart``; the mutations stay in the order of the hashes that they had."""
    return replace(found, hashes=found.hashes ^ salts_of(found.keys[0]), keys=found.keys[1:])


def salts_of(names: Any) -> Hashes:
    """Return what the hashes of keys that have a partition as their first value differ by. names: of partitions."""
    return hash_columns([ByteColumn.of_array(names.cast(pa.large_binary()))])


class ApartFeed(Feed):
    """The mutations of a task, folded by partition and ID."""

    def compared(self, columns: Columns, parts: Sequence[Mutations]) -> Columns:
        """Return columns whose keys have the partition as their first value."""
        return Columns([apart(part) for part in parts])
