"""A checkpoint of a table: everything that the entries of its log up to a version say, so that they need not be read.

    <20 digits>-<digest>.parquet         the live files as columns; in its metadata, the state as sealed JSON
    <20 digits>-<digest>.masks.parquet   for each file with hidden or touched rows, which these are
    <20 digits>-<digest>.pack            the contents that entries since the last checkpoint have, one after the other

A digest is that of the file's bytes, so a checkpoint verifies itself. All three can be made again from the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.config.feed_settings import keeps_history
from mutator.dataset import checksum, checksummed_json
from mutator.dataset.commits import FeedFile
from mutator.dataset.file_entry import INDEX, Extent, FileEntry, is_packed
from mutator.dataset.gc_pause import paused
from mutator.dataset.state import KnownFeed, State
from mutator.dataset.versions.table_codec import cleaning_members, cleaning_of, members_of, version_of
from mutator.rules.byte_columns import Ints
from mutator.rules.epochs import EPOCHS

BASE = ".base"  # in the names of bases: a writer that knows nothing of the cleaning does not remove them
CHECKPOINT = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.files")
MASKS = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.masks")
_ANY = re.compile(rf"([0-9]{{20}})-([0-9a-f]{{32}})(\.[^.]+\{BASE})?\.files")
_OF_BASE = re.compile(rf"([0-9]{{20}})-[0-9a-f]{{32}}(\.[^.]+)\{BASE}\.(?:files|masks)")
_FORMAT, _FORMAT_VERSION = "mutator table checkpoint", 7
_OLDEST = 6  # written where the commit has no newest members
_STATE = b"mutator.state"
_BATCH = 256  # files that are converted at a time
_EXTENT = pa.struct(
    [
        pa.field("partition", pa.string()),
        pa.field("bucket", pa.int32()),
        pa.field("rows", pa.int64()),
        pa.field("high", pa.string()),
        pa.field("buckets", pa.int32()),
    ]
)
# The fields of ``FILES`` with the paths and sizes of data files, key indexes and side files, and with their contents:
# these name packs, or have the contents of log entries.
STORED = (
    ("path", "bytes", "content"),
    ("index_path", "index_bytes", "index_content"),
    ("sides_path", "sides_bytes", "sides_content"),
)
CONTENTS = tuple(content for _, _, content in STORED)
FILES = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("role", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("schema", pa.int64()),
        pa.field("version", pa.int64()),  # that added the file
        pa.field("bytes", pa.int64()),
        pa.field("checksum", pa.string()),
        pa.field("content", pa.string()),  # in base 64, or where a pack has it
        pa.field("index_path", pa.string()),
        pa.field("index_bytes", pa.int64()),
        pa.field("index_checksum", pa.string()),
        pa.field("index_content", pa.string()),
        pa.field("sides_path", pa.string()),
        pa.field("sides_bytes", pa.int64()),
        pa.field("sides_checksum", pa.string()),
        pa.field("sides_content", pa.string()),
        pa.field("extents", pa.list_(_EXTENT)),
    ]
)
_OF_SIDES = tuple(name for name in FILES.names if name.startswith("sides_"))  # checkpoints without side files lack them
_MASKS = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("hidden", pa.list_(pa.uint32())),
        pa.field("touched", pa.list_(pa.uint32())),
        pa.field("orders", pa.list_(pa.large_binary())),
    ]
)


@paused()
def file_columns(files: Iterable[FileEntry], version: int, added: Sequence[int] = ()) -> Any:
    """Return files as a pa.Table with the columns of ``FILES``. version: that added them; or each of ``added`` one."""
    files = list(files)
    rows = [
        (
            file.path,
            file.role,
            file.rows,
            file.form,
            number,
            file.bytes,
            file.checksum,
            file.packed or file.content,
            index.path,
            index.bytes,
            index.checksum,
            index.packed or index.content,
            [vars(one) for one in file.extents],
        )
        for file, number in zip(files, added or repeat(version), strict=bool(added))
        for index in (file.keys,)
    ]
    fields = [one for one in FILES if one.name not in _OF_SIDES]
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    *arrays, extents = (pa.array(column, one.type) for column, one in zip(columns, fields, strict=True))
    return pa.table([*arrays, *_of_sides([file.sides for file in files]), extents], schema=FILES)


def _of_sides(sides: Sequence[FileEntry | None]) -> list[Any]:
    """Return the columns ``_OF_SIDES``: in a table without side files, NULLs that are made at once."""
    types = [FILES.field(name).type for name in _OF_SIDES]
    if not any(sides):
        return [pa.nulls(len(sides), one) for one in types]
    rows = (
        (None,) * 4 if one is None else (one.path, one.bytes, one.checksum, one.packed or one.content) for one in sides
    )
    return [pa.array(column, one) for column, one in zip(zip(*rows, strict=True), types, strict=True)]


def files_of(columns: Any, rows: Ints) -> Iterator[FileEntry]:
    """Yield some of the files of a pa.Table of ``FILES``, in much less time than one by one.

    rows: int64 array; it takes least time if they are ascending.
    """
    for start in range(0, len(rows), _BATCH):
        wanted = rows[start : start + _BATCH]
        first, last = int(wanted.min()), int(wanted.max())
        near = columns.slice(first, last + 1 - first)  # if there are several chunks, Arrow copies them all
        yield from _files_of(near.take(pa.array(wanted - first)))


def _files_of(columns: Any) -> Iterator[FileEntry]:
    lists = columns.column("extents").combine_chunks()
    members = zip(*(column.to_pylist() for column in lists.flatten().flatten()), strict=True)
    extents = [
        Extent(partition=partition, bucket=bucket, rows=rows, high=high, buckets=buckets)
        for partition, bucket, rows, high, buckets in members
    ]
    ends = np.cumsum(pc.list_value_length(lists).to_numpy()).tolist()
    texts: list[Any] = [column.to_pylist() for column in columns.columns[: -1 - len(_OF_SIDES)]]
    sides: Any = repeat(None)
    if columns.column("sides_path").null_count < columns.num_rows:
        parts = zip(*(columns.column(name).to_pylist() for name in _OF_SIDES), strict=True)
        sides = [None if path is None else _stored_of(path, *rest) for path, *rest in parts]
    begin = 0
    for end, own, (path, role, rows, form, _, size, digest, content, *index) in zip(
        ends, sides, zip(*texts, strict=True), strict=False
    ):
        inline, packed = _content_of(content)
        yield FileEntry(
            path=path,
            role=role,
            rows=rows,
            bytes=size,
            checksum=digest,
            form=form,
            extents=tuple(extents[begin:end]),
            index=_stored_of(*index),
            sides=own,
            content=inline,
            packed=packed,
        )
        begin = end


def _stored_of(path: str, size: int, checksum: str, content: str | None) -> FileEntry:
    inline, packed = _content_of(content)
    return FileEntry(path=path, role=INDEX, bytes=size, checksum=checksum, content=inline, packed=packed)


def _content_of(content: str | None) -> tuple[str | None, str | None]:
    """Return the bytes of a file as text, and the name of the pack that has them."""
    return (None, content) if is_packed(content) else (content, None)


def written_files(columns: Any, state: State, masks: str | None) -> bytes:
    """Return the content of the first file of a checkpoint. masks: name of the second one."""
    members = {
        "state": members_of(state.commit),
        "spec": state.spec or None,  # null before the first rows
        "schemas": [[number, form] for number, form in sorted(state.schemas.items())],
        "feed": [vars(file) for file in state.feed],
        "settings": dict(state.settings),
        "transactions": dict(state.transactions),
        "tags": dict(state.tags),
        "buckets": [[partition, count] for partition, count in state.larger.items()],
        "cleaning": cleaning_members(state.cleaning),
        "undone": sorted(state.undone),
        "absences": state.absences,
        "masks": masks,
    }
    is_newest = state.commit.has_newest_members or EPOCHS in state.spec or keeps_history(state.settings)
    version = _FORMAT_VERSION if is_newest else _OLDEST
    sealed = checksummed_json.dump(_FORMAT, version, members)
    if columns.column("sides_path").null_count == columns.num_rows:
        columns = columns.drop_columns(list(_OF_SIDES))
    return _parquet(columns.replace_schema_metadata({_STATE: sealed}), ["role"])


def read_files(content: bytes) -> tuple[Any, State, str | None]:
    """Return the columns of the live files, the state, and the name of the file of masks.

    Raises ValueError for other bytes, ``checksummed_json.Newer`` for those of a newer program.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read()
        sealed = (table.schema.metadata or {})[_STATE]
        members = checksummed_json.parse(sealed, _FORMAT, _FORMAT_VERSION, oldest=_OLDEST)
        state = State(
            commit=version_of(members["state"]),
            spec=members["spec"] or {},
            known=KnownFeed(tuple(FeedFile(**file) for file in members["feed"])),
            absences=tuple((int(time), str(high)) for time, high in members["absences"]),
            schemas=dict(members["schemas"]),
            **{name: members[name] for name in ("settings", "transactions", "tags")},
            larger=dict(members["buckets"]),
            cleaning=cleaning_of(members["cleaning"]),
            undone=frozenset(members["undone"]),
        )
        # Chunks would share their buffers, and each would be sent to the tasks with all of them.
        return _with_sides(table, FILES.names).combine_chunks().cast(FILES), state, members["masks"]
    except (pa.ArrowException, OSError, KeyError, TypeError) as fault:
        raise ValueError(str(fault)) from None


def read_contents(content: bytes) -> Any:
    """Return the columns ``CONTENTS`` of the live files. Raises ValueError for other bytes."""
    try:
        return _with_sides(pq.ParquetFile(pa.BufferReader(content)).read(list(CONTENTS)), CONTENTS)
    except (pa.ArrowException, OSError, KeyError) as fault:
        raise ValueError(str(fault)) from None


def _with_sides(table: Any, names: Sequence[str]) -> Any:
    """Return some columns of ``FILES``, those of side files as NULLs if they were left out."""
    for name in _OF_SIDES:
        if name in names and name not in table.column_names:
            table = table.append_column(FILES.field(name), pa.nulls(table.num_rows, FILES.field(name).type))
    return table.select(list(names))


def written_masks(masks: Sequence[tuple[str, Ints, Ints, Any]]) -> bytes:
    """Return the content of the file of masks.

    masks: (path, positions of hidden rows, positions of touched rows, order values of these as text) of each file.
    """
    paths = pa.array([path for path, _, _, _ in masks], pa.string())
    columns = [
        paths,
        _listed_numbers([hidden for _, hidden, _, _ in masks]),
        _listed_numbers([touched for _, _, touched, _ in masks]),
        _listed([orders for _, _, _, orders in masks]),
    ]
    return _parquet(pa.table(columns, schema=_MASKS), False)


def read_masks(content: bytes) -> dict[str, tuple[Ints, Ints, Any]]:
    """Return (hidden rows, touched rows, order values of these) of each file that has any. Raises ValueError."""
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read(_MASKS.names).cast(_MASKS).combine_chunks()
    except (pa.ArrowException, OSError, KeyError) as fault:
        raise ValueError(str(fault)) from None
    lists = [table.column(name).combine_chunks() for name in _MASKS.names[1:]]
    found = {}
    for row, path in enumerate(table.column("path").to_pylist()):
        hidden, touched, orders = (column[row].values for column in lists)
        found[path] = (hidden.to_numpy().astype(np.int64), touched.to_numpy().astype(np.int64), orders)
    return found


def digest_of(content: bytes) -> str:
    """Return the part of a checkpoint's name that verifies its bytes."""
    return checksum.digest(content).hex()


def _listed_numbers(parts: Sequence[Ints]) -> Any:
    values = np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.uint32)
    return pa.ListArray.from_arrays(_offsets(parts), pa.array(values))


def _listed(parts: Sequence[Any]) -> Any:
    return pa.ListArray.from_arrays(_offsets(parts), pa.concat_arrays([pa.array([], pa.large_binary()), *parts]))


def _offsets(parts: Sequence[Any]) -> Any:
    return pa.array(np.concatenate(([0], np.cumsum([len(part) for part in parts], dtype=np.int64))).astype(np.int32))


def _parquet(table: Any, dictionary: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionary, write_statistics=False)
    return bytes(sink.getvalue())


def version_of_checkpoint(name: str) -> int:
    """Return the version of a checkpoint, which its name begins with; -1 for another name."""
    match = _ANY.fullmatch(name)
    return int(match[1]) if match else -1


def is_base(name: str) -> bool:
    """Return whether a checkpoint is one that the log begins with, by its name."""
    match = _ANY.fullmatch(name)
    return match is not None and match[3] is not None


def owner_of_base(name: str) -> str | None:
    """Return what the names of the files of one base have in common: its version and run; None for other files."""
    match = _OF_BASE.fullmatch(name)
    return match[1] + match[2] if match else None


def is_kept(number: int, newest: int) -> bool:
    """Return whether the checkpoint of a version is kept once there is one of a newer version.

    It is kept for twice as many versions as the largest power of two that divides its number. So there are two for each
    power of two, and to open an earlier version, fewer entries are read than twice the number of versions since, or
    than twice the number between two checkpoints.

    >>> [number for number in range(0, 1001, 8) if is_kept(number, 1000)]
    [512, 768, 896, 960, 976, 992, 1000]
    """
    return number >= newest or newest - number < 2 * (number & -number)
