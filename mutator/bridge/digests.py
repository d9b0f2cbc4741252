"""Find the partitions that a merge changed, by digests of their rows before and after.

A digest is the number of rows and the sum of their 64-bit hashes. It depends neither on the order of the rows nor on
their files, so the digests of a text copy are the sums of those of its files. A file that was carried over, with the
same name and checksum, keeps its digests.
"""

import posixpath
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mutator.bridge.contract import Partition
from mutator.bridge.write import split_by_partition
from mutator.dataset.file_content import FileContent
from mutator.engine.each import Each, checked, guarded
from mutator.formats.content import Window
from mutator.formats.files.escaped import Unescaped
from mutator.formats.files.line_scan import LineTable
from mutator.formats.files.lines import chunks
from mutator.frames.file_rows import FileRange
from mutator.rules.byte_columns import PAD, ByteColumn
from mutator.rules.key_hash import hash_columns

Digest = tuple[int, int]  # rows, sum of hashes
Digests = dict[str, list[tuple[list[str | None], int, int]]]  # name and checksum of a file -> partition, rows, sum


def digests_of(
    each: Each, ranges: Sequence[FileRange], partition_fields: Sequence[str], known: Mapping[str, Any]
) -> Digests:
    """Return the digests of text files; files with known digests are not read."""
    new = [one for one in ranges if _name(one) not in known]
    found = checked(each(new, partial(_digest, tuple(partition_fields))))
    made = {_name(file_range): digest for file_range, digest in zip(new, found, strict=True)}
    return {name: made[name] if name in made else known[name] for name in map(_name, ranges)}


def changed_partitions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Partition]:
    """Return the partitions whose rows differ, including new and removed ones."""
    old, new = _total(before), _total(after)
    return sorted((key for key in old.keys() | new.keys() if old.get(key) != new.get(key)), key=_sortable)


def _name(file_range: FileRange) -> str:
    return f"{posixpath.basename(file_range.path)} {file_range.checksum}"


def _sortable(partition: Partition) -> tuple[tuple[bool, str], ...]:
    return tuple((value is not None, value or "") for value in partition)


def _total(digests: Mapping[str, Any]) -> dict[Partition, Digest]:
    total: dict[Partition, Digest] = {}
    for parts in digests.values():
        for values, rows, hashes in parts:
            before = total.get(tuple(values), (0, 0))
            total[tuple(values)] = (before[0] + rows, (before[1] + hashes) % 2**64)
    return {key: digest for key, digest in total.items() if digest[0]}


def _digest(fields: tuple[str, ...], file_range: FileRange, number: int, attempt: int) -> Any:
    return guarded(_digested, fields, file_range)


def _digested(fields: tuple[str, ...], file_range: FileRange) -> list[tuple[list[str | None], int, int]]:
    positions = [file_range.schema.get_field_index(name) for name in fields]
    found: dict[Partition, Digest] = {}
    content = FileContent(file_range.path, file_range.bytes, file_range.window, checksum=file_range.checksum)
    for _, chunk in chunks(content.blocks(), Window()):
        data = np.frombuffer(chunk + PAD, np.uint8)
        table = LineTable.of(data, file_range.dialect.delimiter[0], len(file_range.schema))
        hashes = hash_columns([ByteColumn(data, table.starts, table.ends)])
        values, rows_of_all = Unescaped.of(data, table), np.arange(len(table))
        columns = [values.column(rows_of_all, position) for position in positions]
        for partition, rows in split_by_partition(columns):
            count, total = found.get(partition, (0, 0))
            found[partition] = (count + len(rows), (total + int(hashes[rows].sum(dtype=np.uint64))) % 2**64)
    return [
        (list(partition), *digest) for partition, digest in sorted(found.items(), key=lambda one: _sortable(one[0]))
    ]
