"""Which partitions of a table a merge has changed: digests of the rows before and after, by partition.

The digest of some rows is how many they are and the sum of their 64-bit hashes: it does not depend on their order, nor
on the files that they are in, so that those of a text copy are sums of those of its files; and a file that was carried
over, by name and checksum, has the same as before.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mutator.bridge.contract import Partition
from mutator.bridge.rows_by_partition import parted
from mutator.bridge.tasks import Piece
from mutator.dataset.file_content import FileContent
from mutator.engine.each import Each, checked, guarded
from mutator.formats.files.escaped import Unescaped
from mutator.formats.files.line_scan import Table, chunks
from mutator.rules.byte_columns import PAD, ByteColumn
from mutator.rules.key_hash import hash_columns

__all__ = ["Digests", "changed_partitions", "digests_of"]

Digest = tuple[int, int]  # rows, sum of hashes
Digests = dict[str, list[tuple[list[str | None], int, int]]]  # name and checksum of a file -> partition, rows, sum


def digests_of(
    each: Each, pieces: Sequence[Piece], partition_fields: Sequence[str], known: Mapping[str, Any]
) -> Digests:
    """Return the digests of text files; those that are known already are not read."""
    new = [one for one in pieces if _name(one) not in known]
    found = checked(each(new, partial(_digest, tuple(partition_fields))))
    made = {_name(piece): digest for piece, digest in zip(new, found, strict=True)}
    return {name: made[name] if name in made else known[name] for name in map(_name, pieces)}


def changed_partitions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Partition]:
    """Return the partitions whose rows are not the same any more, those that came and went among them."""
    one, other = _total(before), _total(after)
    return sorted((key for key in one.keys() | other.keys() if one.get(key) != other.get(key)), key=_sortable)


def _name(piece: Piece) -> str:
    return f"{posixpath.basename(piece.path)} {piece.checksum}"


def _sortable(partition: Partition) -> tuple[tuple[bool, str], ...]:
    return tuple((value is not None, value or "") for value in partition)


def _total(digests: Mapping[str, Any]) -> dict[Partition, Digest]:
    total: dict[Partition, Digest] = {}
    for parts in digests.values():
        for values, rows, hashes in parts:
            before = total.get(tuple(values), (0, 0))
            total[tuple(values)] = (before[0] + rows, (before[1] + hashes) % 2**64)
    return {key: digest for key, digest in total.items() if digest[0]}


def _digest(fields: tuple[str, ...], piece: Piece, number: int, attempt: int) -> Any:
    return guarded(_digested, fields, piece)


def _digested(fields: tuple[str, ...], piece: Piece) -> list[tuple[list[str | None], int, int]]:
    places = [piece.schema.get_field_index(name) for name in fields]
    found: dict[Partition, Digest] = {}
    content = FileContent(piece.path, piece.bytes, piece.window, checksum=piece.checksum)
    for _, chunk in chunks(content.blocks(), b"\n", 0, None):
        data = np.frombuffer(chunk + PAD, np.uint8)
        table = Table.of(data, piece.dialect.delimiter[0], len(piece.schema))
        hashes = hash_columns([ByteColumn(data, table.starts, table.ends)])
        values, rows_of_all = Unescaped.of(data, table), np.arange(len(table))
        columns = [values.column(rows_of_all, place) for place in places]
        for partition, rows in parted(columns):
            count, total = found.get(partition, (0, 0))
            found[partition] = (count + len(rows), (total + int(hashes[rows].sum(dtype=np.uint64))) % 2**64)
    return [
        (list(partition), *digest) for partition, digest in sorted(found.items(), key=lambda one: _sortable(one[0]))
    ]
