"""A checkpoint of a table: everything that the entries of its log up to a version say, so that they need not be read.

    <20 digits>-<digest>.parquet         the live files as columns; in its metadata, the state as sealed JSON
    <20 digits>-<digest>.masks.parquet   for each file with hidden or touched rows, which these are
    <20 digits>-<digest>.pack            the contents that entries since the last checkpoint have, one after the other

A digest is that of the file's bytes, so a checkpoint verifies itself. All three can be made again from the log.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.dataset import checksum, checksummed_json
from mutator.dataset.file_entry import INDEX, Extent, FileEntry, is_packed
from mutator.dataset.gc_pause import paused
from mutator.dataset.manifest import FeedFile
from mutator.dataset.partition_index import earlier_forms, form_of
from mutator.dataset.versions.bucket_counts import BucketCounts
from mutator.dataset.versions.cleaned import Cleaning, cleaning_members, cleaning_of
from mutator.dataset.versions.known_feed import KnownFeed
from mutator.dataset.versions.version import Restored, TableVersion, members_of, version_of
from mutator.rules.absences import Absence
from mutator.rules.byte_columns import Ints

_FORMAT, _FORMAT_VERSION = "mutator table checkpoint", 6
_STATE = b"mutator.state"
_BATCH = 256  # files that are converted at a time
DEFAULTS = "defaults"  # in the form of files: ``TableVersion.defaults`` of the version that it began with
_EXTENT = pa.struct(
    [
        pa.field("partition", pa.string()),
        pa.field("bucket", pa.int32()),
        pa.field("rows", pa.int64()),
        pa.field("high", pa.string()),
        pa.field("buckets", pa.int32()),
    ]
)
CONTENTS = ("content", "index_content")  # fields of ``FILES`` that name packs, or have the contents of log entries
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
        pa.field("extents", pa.list_(_EXTENT)),
    ]
)
_MASKS = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("hidden", pa.list_(pa.uint32())),
        pa.field("touched", pa.list_(pa.uint32())),
        pa.field("orders", pa.list_(pa.large_binary())),
    ]
)


@dataclass(frozen=True)
class State:
    """What a table knows at a version, apart from its files and masks."""

    version: TableVersion  # without its files
    spec: Mapping[str, Any] | None  # the present specification; None before the first rows
    schemas: Mapping[int, Mapping[str, Any]] = field(
        default_factory=dict
    )  # version -> form that its files began with; negative: of a dataset that it took over
    known: KnownFeed = field(default_factory=KnownFeed)
    settings: Mapping[str, Any] = field(default_factory=dict)  # of version 0
    transactions: Mapping[str, int] = field(default_factory=dict)  # application -> number of its last one
    tags: Mapping[str, int] = field(default_factory=dict)  # name -> version that it protects
    larger: Mapping[str | None, int] = field(default_factory=dict)  # of ``BucketCounts``
    cleaning: Cleaning = field(default_factory=Cleaning)
    # Those of ``schemas`` that began in versions which a restore undid: only files of such versions have them.
    undone: frozenset[int] = frozenset()
    absences: tuple[Absence, ...] = ()  # of all versions: a restore may bring any tombstone back

    @property
    def buckets(self) -> BucketCounts:
        """The numbers of buckets that the next files are written with."""
        return BucketCounts(self.version.buckets, self.larger)

    @property
    def feed(self) -> tuple[FeedFile, ...]:
        """The feed files that are known to be merged."""
        return self.known.files

    @property
    def schema(self) -> int:
        """The version that the present form of files began with."""
        return max(self.forms, default=0)

    @property
    def forms(self) -> tuple[int, ...]:
        """The versions that the forms of files began with, without those that were undone, ascending."""
        return tuple(sorted(self.schemas.keys() - self.undone))

    def schema_after(self, spec: Mapping[str, Any], number: int) -> int:
        """Return the version that the form of files began with that a specification has. number: if it is a new one."""
        present = {name: value for name, value in self.schemas.get(self.schema, {}).items() if name != DEFAULTS}
        return self.schema if self.schemas and present == form_of(spec) else number

    def after(self, version: TableVersion) -> State:
        """Return the state after the next version."""
        if version.restored is not None:
            return self._restored(version, version.restored)
        spec, schemas = self.spec, self.schemas
        if version.spec is not None:
            spec = version.spec
            if self.schema_after(spec, version.number) == version.number:
                added = {} if version.defaults is None else {DEFAULTS: version.defaults}
                schemas = {**schemas, **earlier_forms(spec), version.number: {**form_of(spec), **added}}
        known = self.known.after(version.feed_since or "", version.feed)
        transactions = self.transactions
        if version.transaction is not None:
            application, number = version.transaction
            transactions = {**transactions, application: number}
        tags = self.tags
        if version.tags or version.untagged:
            tags = {**{name: number for name, number in tags.items() if name not in version.untagged}, **version.tags}
        larger = self.buckets.after(extent for file in version.files for extent in file.extents).larger
        cleaning = self.cleaning
        if version.cleaned is not None:
            cleaning = cleaning.after(version.number, version.committed, version.cleaned)
        absences = (*self.absences, *version.absences)
        return State(
            _bare(version),
            spec,
            schemas,
            known,
            self.settings,
            transactions,
            tags,
            larger,
            cleaning,
            self.undone,
            absences,
        )

    def _restored(self, version: TableVersion, restored: Restored) -> State:
        """Return the state after a restore: that of the earlier version, with the tags of the newest one."""
        return replace(
            self,
            version=_bare(version),
            spec=restored.spec,
            known=KnownFeed(restored.feed),
            transactions=restored.transactions,
            undone=frozenset(self.schemas.keys() - set(restored.forms)),
        )

    def has_applied(self, transaction: tuple[str, int] | None) -> bool:
        """Return whether a version has a transaction, or a later one of its application."""
        return transaction is not None and self.transactions.get(transaction[0], -1) >= transaction[1]


def first_state(version: TableVersion) -> State:
    """Return the state of version 0 of a table."""
    return State(_bare(version), None, settings=version.settings)


def _bare(version: TableVersion) -> TableVersion:
    nothing: Any = {"files": (), "removed": (), "index": (), "withdrawn": (), "rejected": (), "feed": ()}
    return replace(
        version, **nothing, claim=None, given_up=(), tags={}, untagged=(), cleaned=None, restored=None, absences=()
    )


def defaults_text(defaults: Mapping[str, Any]) -> str | None:
    """Return the values that earlier rows have in new fields, as base 64 of an Arrow stream; None for no values.

    defaults: field to a pa.Array of one value.
    """
    if not defaults:
        return None
    sink = pa.BufferOutputStream()
    table = pa.table(dict(defaults))
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def defaults_of(text: str | None) -> dict[str, Any]:
    """Undo ``defaults_text``. Raises ValueError for other text."""
    if text is None:
        return {}
    try:
        table = pa.ipc.open_stream(base64.b64decode(text, validate=True)).read_all()
    except (pa.ArrowException, OSError) as fault:
        raise ValueError(str(fault)) from None
    return {name: table.column(name).combine_chunks() for name in table.column_names}


@paused()
def file_columns(files: Iterable[FileEntry], version: int, added: Sequence[int] = ()) -> Any:
    """Return files as a pa.Table with the columns of ``FILES``. version: that added them; or each of ``added`` one."""
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
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(FILES)
    return pa.table([pa.array(column, one.type) for column, one in zip(columns, FILES, strict=True)], schema=FILES)


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
    begin = 0
    for end, (path, role, rows, form, _, size, digest, content, *index) in zip(
        ends, zip(*(column.to_pylist() for column in columns.columns[:-1]), strict=True), strict=True
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
            index=_index_of(*index),
            content=inline,
            packed=packed,
        )
        begin = end


def _index_of(path: str, size: int, checksum: str, content: str | None) -> FileEntry:
    inline, packed = _content_of(content)
    return FileEntry(path=path, role=INDEX, bytes=size, checksum=checksum, content=inline, packed=packed)


def _content_of(content: str | None) -> tuple[str | None, str | None]:
    """Return the bytes of a file as text, and the name of the pack that has them."""
    return (None, content) if is_packed(content) else (content, None)


def written_files(columns: Any, state: State, masks: str | None) -> bytes:
    """Return the content of the first file of a checkpoint. masks: name of the second one."""
    members = {
        "state": members_of(state.version),
        "spec": state.spec,
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
    sealed = checksummed_json.dump(_FORMAT, _FORMAT_VERSION, members)
    return _parquet(columns.replace_schema_metadata({_STATE: sealed}), ["role"])


def read_files(content: bytes) -> tuple[Any, State, str | None]:
    """Return the columns of the live files, the state, and the name of the file of masks.

    Raises ValueError for other bytes, ``checksummed_json.Newer`` for those of a newer program.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read()
        members = checksummed_json.parse((table.schema.metadata or {})[_STATE], _FORMAT, _FORMAT_VERSION)
        known = KnownFeed(tuple(FeedFile(**file) for file in members["feed"]))
        state = State(
            version_of(members["state"]),
            members["spec"],
            dict(members["schemas"]),
            known,
            members["settings"],
            members["transactions"],
            members["tags"],
            dict(members["buckets"]),
            cleaning_of(members["cleaning"]),
            frozenset(members["undone"]),
            tuple((int(time), str(high)) for time, high in members["absences"]),
        )
        # Chunks would share their buffers, and each would be sent to the tasks with all of them.
        return table.select(FILES.names).combine_chunks().cast(FILES), state, members["masks"]
    except (pa.ArrowException, OSError, KeyError, TypeError) as fault:
        raise ValueError(str(fault)) from None


def read_contents(content: bytes) -> Any:
    """Return the columns ``CONTENTS`` of the live files. Raises ValueError for other bytes."""
    try:
        return pq.ParquetFile(pa.BufferReader(content)).read(list(CONTENTS)).select(list(CONTENTS))
    except (pa.ArrowException, OSError, KeyError) as fault:
        raise ValueError(str(fault)) from None


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
