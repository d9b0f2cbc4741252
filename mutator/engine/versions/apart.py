"""Mutations whose record ID is unique only within its partition: the partition becomes a part of the key."""

from dataclasses import replace

import pyarrow as pa

from mutator.engine.blocks.mutations import Mutations, fold_parts
from mutator.engine.blocks.read import Feed
from mutator.rules.byte_columns import ByteColumn
from mutator.rules.key_hash import hash_columns


def apart(found: Mutations) -> Mutations:
    """Return mutations with their partitions as the first value of their keys."""
    names = found.directories.cast(pa.string()).cast(pa.large_binary())
    salts = hash_columns([ByteColumn.of_array(names)])
    return replace(found, hashes=found.hashes ^ salts, keys=(names, *found.keys))


def together(found: Mutations) -> Mutations:
    """Undo ``apart``; the mutations stay in the order of the hashes that they had."""
    salts = hash_columns([ByteColumn.of_array(found.keys[0])])
    return replace(found, hashes=found.hashes ^ salts, keys=found.keys[1:])


class ApartFeed(Feed):
    """The mutations of a task, folded by partition and ID."""

    def folded(self, parts: list[Mutations]) -> Mutations:
        """Fold mutations; the list is emptied."""
        whole = [apart(part) for part in parts]
        parts.clear()
        return together(fold_parts(self.plan, whole))
