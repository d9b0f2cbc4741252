"""Read the rows of a dataset back and check them: each in its partition, bucket and filter, and one row for each ID.

Rows are read as blocks, each file in the form that it was written in. Only their keys go through the shuffle, as
columns. A layout that blocks do not support (a regex delimiter) is read row by row; its keys become columns, too.

Compare the filters of keys with the keys of their files: runs do not look for a key where a filter excludes it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.filter_packs import KeyFilter, read_row_group, row_groups
from mutator.dataset.partition_index import SPEC, earlier_forms
from mutator.dataset.state import State
from mutator.engine.blocks.mutations import key_columns, key_names, partitions_of, table_of_columns
from mutator.engine.blocks.read_blocks import batches, grouped, rejected, table_bytes, tombstones
from mutator.engine.ledger import write_ledger
from mutator.engine.receipts import LedgerReceipt, MergeReceipt
from mutator.engine.records.read_records import read_task
from mutator.engine.split_content import RowSides, check_tombstones, damage, read_splits, receipt_of
from mutator.plan.inspect.managed import dataset_sources
from mutator.plan.inspect.source import Source
from mutator.plan.reading import SAMPLES, Chunks, Reading
from mutator.plan.rows.format_choice import stored_row_plan
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split, numbered, packed_tasks, splits_of
from mutator.rules.bloom_filter import may_contain
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.key_hash import hash_columns
from mutator.rules.last_wins import groups_of_keys
from mutator.rules.order_columns import flags
from mutator.storage import storage_for


class FileFilters:
    """The filters of the files that a task reads. Files that were written together have theirs in one row group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, int]] = {}  # path of a pack -> path of a file -> number of its row group
        self._read: tuple[str, int] | None = None
        self._filters: dict[str, KeyFilter] = {}  # of the row group that was read last

    def excluded(self, file: Input, hashes: Any, first: Any) -> Flags:
        """Return a bool array: whether the filter of a file, or its bounds, exclude each key.

        hashes: of the keys. first: pa.Array of the first ID value of each key. Raises Damage where a pack cannot be
        read.
        """
        part = file.source.part
        if part is None or part.filter is None:
            return np.zeros(len(hashes), np.bool_)
        pack = posixpath.join(file.source.path.removesuffix(f"/{part.path}"), part.filter)
        try:
            found = self._of(pack, part.path)
        except (pa.ArrowException, OSError, ValueError, LookupError) as fault:
            raise damage(pack, f"a pack of filters: {fault}") from None
        if found is None:  # a run stops that looks for a key in this file
            return np.ones(len(hashes), np.bool_)
        excluded = ~may_contain(found.words, hashes) | flags(pc.less(first, pa.scalar(found.low, first.type)))
        if found.high is not None:
            excluded |= flags(pc.greater(first, pa.scalar(found.high, first.type)))
        return excluded

    def _of(self, pack: str, path: str) -> KeyFilter | None:
        if pack not in self._groups:
            with storage_for(pack).open(pack) as stream:
                self._groups[pack] = row_groups(stream)
        number = self._groups[pack].get(path)
        if number is None:
            return None
        if self._read != (pack, number):
            with storage_for(pack).open(pack) as stream:
                self._filters = {found.path: found for found in read_row_group(stream, number)}
            self._read = pack, number
        return self._filters.get(path)


_TOMBSTONE, _MISPLACED, _UNFILTERED = 1, 2, 4  # bits of the state of a key; 0: a row where it belongs
_CHUNK = 64 << 20
_ROWS = 1 << 16  # of a table of keys that were read row by row

# Reads the splits of a task to the elements of the shuffle.
KeyReader = Callable[[Plan, Iterable[Split]], Iterator[Any]]


def reading_of_dataset(path: str, known: State, readable: set[str], side_columns: tuple[Any, ...] = ()) -> Reading:
    """Return the reading of a whole dataset.

    readable: full paths of the files that can be read. side_columns: of a register, that are read beside each row.
    """
    data, beside = (
        [_without_unreadable_filter(path, readable, source) for source in side if source.path in readable]
        for side in dataset_sources(path, known)
    )
    rows = stored_row_plan(known)
    forms = {source.path: _layout(source.part) for source in data}
    inputs = numbered(beside, data, (), replace(rows, layout_of=forms))
    groups = known.bucket_count or max(2, sum(source.bytes for source in data) // _CHUNK)
    return Reading(
        run=known.commit.run,
        rows=rows,
        inputs=inputs,
        tasks=packed_tasks(inputs, splits_of(inputs, _CHUNK, _CHUNK), _CHUNK),
        groups=groups,
        by_file_name=rows.spec["order"]["by"] == "file name",
        side_columns=side_columns,
        chunks=Chunks(_CHUNK, _CHUNK, _CHUNK),
        rejects={"master": 0},
        master_buckets=known.bucket_count,
    )


def _without_unreadable_filter(path: str, readable: set[str], source: Source) -> Source:
    """Return a source without its filter if the pack cannot be read, which is a problem of its own."""
    if source.part is None or source.part.filter is None or f"{path}/{source.part.filter}" in readable:
        return source
    return replace(source, part=replace(source.part, filter=None))


def _layout(part: FileEntry | None) -> str:
    return f"master {part.form}" if part is not None and part.form else "master"


def key_reader(known: State) -> KeyReader:
    """Return the function that reads splits to tables of keys, and everything that is not a record to the ledger."""
    forms = {"master": stored_row_plan(known)}
    for number, form in earlier_forms(known.spec).items():
        forms[f"master {number}"] = stored_row_plan(replace(known, spec={**known.spec, **form}))
    return partial(_read_task, forms, known.spec.get(SPEC, {}).get("scope"))


def _read_task(
    forms: Mapping[str, RowPlan], scope: str | None, plan: Reading, splits: Iterable[Split]
) -> Iterator[Any]:
    filters = FileFilters()

    def read(split: Split, one: Input) -> Iterator[Any]:
        form = forms[one.layout]
        layouts = {**form.layouts, one.layout: form.layouts["master"]}
        of_form = replace(plan, rows=replace(form, layouts=layouts))
        if one.side == "tombstones":
            return _read_tombstones(of_form, scope, filters, split, one)
        if of_form.block_type.unsupported(form.layouts["master"]):
            return _read_rows(of_form, split, one)
        return _read_blocks(of_form, scope, filters, split, one)

    return read_splits(plan, splits, read)


def _read_tombstones(plan: Reading, scope: str | None, filters: FileFilters, split: Split, one: Input) -> Iterator[Any]:
    receipt = check_tombstones(plan, split, one)
    assert one.source.part is not None
    directory = one.source.part.directory
    for number, table in enumerate(tombstones(plan, split, one)):
        hashes, keys, within = table.column("hash").to_numpy(), key_columns(table), directory
        states = _TOMBSTONE + np.where(_in_bucket(plan, one, hashes), 0, _MISPLACED)
        states += np.where(filters.excluded(one, hashes, keys[0]), _UNFILTERED, 0)
        yield from _elements(plan, split, number, hashes, keys, states, within if scope == "partition" else "")
    yield receipt_of(plan, split, receipt)


def _read_blocks(plan: Reading, scope: str | None, filters: FileFilters, split: Split, one: Input) -> Iterator[Any]:
    part = one.source.part
    assert part is not None
    directory = part.directory
    sides = RowSides(plan, split, one)
    for number, (batch, receipt) in enumerate(batches(plan, split, one, trusted=False)):
        yield from rejected(plan, split, one, batch, receipt)
        block = batch.block
        sides.of(batch)
        if len(block):
            hashes = block.hashes()
            right = _in_bucket(plan, one, hashes)
            if scope is not None:
                placed = partitions_of(plan, block)
                right &= np.array([name == directory for name in placed.names], np.bool_)[placed.codes]
            keys, within = block.keys(None), directory if scope == "partition" else ""
            states = np.where(right, 0, _MISPLACED) + np.where(filters.excluded(one, hashes, keys[0]), _UNFILTERED, 0)
            yield from _elements(plan, split, number, hashes, keys, states, within)
    sides.end()
    yield receipt_of(plan, split, receipt)


def _read_rows(plan: Reading, split: Split, one: Input) -> Iterator[Any]:
    """Read a split of a dataset without partitions row by row."""
    others: list[Any] = []

    def keys() -> Iterator[tuple[bytes, ...]]:
        for element in read_task(plan, [split]):
            if element[0][0] == plan.ledger:
                others.append(element)
            else:
                yield element[0][1]

    found = keys()
    for number, some in enumerate(iter(lambda: list(islice(found, _ROWS)), [])):
        columns = [pa.array(values, pa.large_binary()) for values in zip(*some, strict=True)]
        hashes = hash_columns([ByteColumn.of_array(column) for column in columns])
        states = np.where(_in_bucket(plan, one, hashes), 0, _MISPLACED)
        yield from _elements(plan, split, number, hashes, columns, states, "")
    yield from others


def _in_bucket(plan: Reading, one: Input, hashes: Any) -> Any:
    """Return a bool array: whether each key belongs to the bucket of its file."""
    part = one.source.part
    assert part is not None
    if plan.master_buckets is not None and part.bucket is None:
        return np.zeros(len(hashes), np.bool_)
    return hashes % np.uint64(plan.master_buckets or part.buckets or 1) == np.uint64(part.bucket or 0)


def _elements(
    plan: Reading, split: Split, number: int, hashes: Any, keys: list[Any], states: Ints, within: str
) -> Iterator[Any]:
    """Yield the tables of keys for each group. within: the partition in which an ID is unique, "" for all of them."""
    order, pieces = grouped(hashes, plan.groups)
    columns = {"hash": hashes, "state": states, **dict(zip(key_names(len(keys)), keys, strict=True))}
    table = table_of_columns(columns).take(pa.array(order))
    scope = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(order), np.int32)), pa.array([within]))
    table = table.append_column("key_scope", scope.cast(pa.large_string()))
    for group, start, end in pieces:
        yield (group, (), 0, (split.input, split.number, number)), table_bytes(table.slice(start, end - start))


def check_keys(plan: Reading, partition: int, elements: Iterable[Any]) -> MergeReceipt | LedgerReceipt:
    """Count the faults of a group's keys, with the smallest keys of each fault; or write the ledger."""
    if partition == plan.ledger:
        return write_ledger(plan, None, 0, elements)
    tables, lacking = list[Any](), dict[int, list[Any]]()  # keys that the filter of a file lacks, by its number
    for (_, _, _, (number, *_)), value in elements:
        table = pa.ipc.open_stream(value).read_all()
        tables.append(table)
        unfiltered = np.flatnonzero(table.column("state").to_numpy() & _UNFILTERED)
        if len(unfiltered):
            lacking.setdefault(number, []).append(table.take(pa.array(unfiltered)))
    if not tables:
        return MergeReceipt()
    table = pa.concat_tables(tables).combine_chunks()
    table = table.take(pa.array(np.argsort(table.column("hash").to_numpy(), kind="stable")))
    number = groups_of_keys(table.column("hash").to_numpy(), key_columns(table))
    states = table.column("state").to_numpy()
    removed = np.bincount(number, states & _TOMBSTONE).astype(np.int64)
    rows = np.bincount(number).astype(np.int64) - removed
    first = np.zeros(len(rows), np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    where = "bucket" if plan.master_buckets is not None else "partition or bucket"
    misplaced = states & (_MISPLACED | _TOMBSTONE)
    faults = {
        f"record in the file of another {where}": np.flatnonzero(misplaced == _MISPLACED),
        "tombstone in the file of another bucket": np.flatnonzero(misplaced == _MISPLACED | _TOMBSTONE),
        "key with more than one row": first[rows > 1],
        "key with both a row and a tombstone": first[(rows > 0) & (removed > 0)],
        "key with more than one tombstone": first[removed > 1],
    }
    found = {fault: table.take(pa.array(positions)) for fault, positions in faults.items() if len(positions)}
    for file, parts in lacking.items():
        part = plan.inputs[file].source.part
        assert part is not None
        found[f"key of {part.path} missing from its filter in {part.filter}"] = pa.concat_tables(parts)
    counts = {fault: keys.num_rows for fault, keys in found.items()}
    return MergeReceipt(counts=counts, samples={fault: _smallest(keys) for fault, keys in found.items()})


def _smallest(keys: Any) -> list[tuple[bytes, ...]]:
    """Return the smallest keys of a pa.Table of elements."""
    keys = keys.drop_columns(["hash", "state", "key_scope"])
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return list(zip(*keys.take(order[:SAMPLES]).to_pydict().values(), strict=True))
