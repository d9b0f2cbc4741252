"""The rows of a partitioned dataset against its manifest: each in the partition and bucket that it says, each ID once.

Files of earlier forms are read as what they are. Of each row only its key, as columns, goes through the shuffle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.manifest import Manifest, SideFile
from mutator.dataset.partition_index import EARLIER, by_partition, form_of, is_partitioned
from mutator.engine.blocks.mutations import groups_of_keys
from mutator.engine.blocks.read import batches, grouped, rejected, table_bytes, tombstones
from mutator.engine.ledger import write_ledger
from mutator.engine.receipts import LedgerReceipt, MergeReceipt
from mutator.engine.split_content import checked, receipt_of, tombstones_receipt
from mutator.plan.inspect.managed import file_source, tombstone_source
from mutator.plan.rows.schema_rows import stored_schema_row_plan
from mutator.plan.run_plan import SAMPLES, Plan, plan_of_dataset
from mutator.plan.splits import Input, Split, packed_tasks, splits_of
from mutator.rules.byte_columns import Ints
from mutator.rules.order_values import NO_SEQUENCE

__all__ = ["check_partition", "plan_of_partitions", "read_keys"]

_ROW, _BURIED, _MISPLACED = 0, 1, 2
_WRONG = "records stand in the file of another partition or bucket"


def plan_of_partitions(path: str, known: Manifest, readable: set[str]) -> tuple[Plan, Mapping[str, str]]:
    """Return the plan that reads a partitioned dataset back, and the format of each of its layouts.

    readable: full paths of the files that can be read.
    """
    assert is_partitioned(known)
    plan = plan_of_dataset(known, (), ())
    layouts, formats = {"master": plan.rows.layouts["master"]}, {"master": plan.rows.block_type}
    for number in range(len(known.spec.get(EARLIER, ()))):
        shape = stored_schema_row_plan(replace(known, spec={**known.spec, **form_of(known.spec, number)}))
        layouts[f"master {number}"], formats[f"master {number}"] = shape.layouts["master"], shape.block_type
    inputs = []
    for files in by_partition(known).values():
        orders: dict[str, SideFile] = {one.path: one for one in files.orders}
        for side in files.tombstones:
            inputs.append(Input(tombstone_source(path, side), "tombstones", "master", 0, NO_SEQUENCE))
        for part in files.data:
            source = file_source(path, known.spec, part, orders.get(part.order or ""))
            layout = "master" if part.form is None else f"master {part.form}"
            inputs.append(Input(replace(source, file_schema=None), "master", layout, 0, NO_SEQUENCE))
    inputs = [one for one in inputs if one.source.path in readable]
    groups = max(2, sum(one.source.bytes for one in inputs) >> 26)
    tasks = packed_tasks(inputs, splits_of(inputs, plan.chunks.master, plan.chunks.master), plan.chunks.master)
    rows = replace(plan.rows, layouts=layouts)
    return replace(plan, inputs=tuple(inputs), tasks=tasks, rows=rows, groups=groups), formats


def read_keys(formats: Mapping[str, str], scope: str, plan: Plan, splits: Iterable[Split]) -> Iterator[Any]:
    """Read splits to tables of keys, for the shuffle; what is no record goes to the ledger. scope: of a key."""
    return checked(plan, splits, partial(_read, formats, scope, plan))


def _read(formats: Mapping[str, str], scope: str, plan: Plan, split: Split, one: Input) -> Iterator[Any]:
    plan = replace(plan, rows=replace(plan.rows, block_type=formats[one.layout]))
    part = one.source.part
    assert part is not None
    place = (split.input, split.number)
    if one.side == "tombstones":
        receipt = tombstones_receipt(plan, split, one)
        directory = part.path.removeprefix("_mutator/tombstones/").rpartition("/")[0]
        for number, table in enumerate(tombstones(plan, split, one)):
            keys = [table.column(name).combine_chunks() for name in table.column_names if name.startswith("key_")]
            kinds = np.full(table.num_rows, _BURIED)
            said = directory if scope == "partition" else ""
            yield from _sent(plan, (*place, number), table.column("hash").to_numpy(), keys, kinds, said)
        yield receipt_of(plan, split, receipt)
        return
    directory, form, layout = part.path.rpartition("/")[0], plan.block_type, plan.rows.layouts[one.layout]
    for number, (batch, receipt) in enumerate(batches(plan, split, one, trusted=False)):
        yield from rejected(plan, split, one, batch, receipt)
        block = batch.block
        if len(block):
            hashes, placed = block.hashes(), form.partitions(block.written(), layout)
            right = np.array([name == directory for name in placed.names], np.bool_)[placed.codes]
            right &= hashes % np.uint64(part.buckets or 1) == np.uint64(part.bucket or 0)
            kinds = np.where(right, _ROW, _MISPLACED)
            said = directory if scope == "partition" else ""
            yield from _sent(plan, (*place, number), hashes, block.keys(None), kinds, said)
    yield receipt_of(plan, split, receipt)


def _sent(
    plan: Plan, place: tuple[int, ...], hashes: Any, keys: list[Any], kinds: Ints, directory: str
) -> Iterator[Any]:
    order, pieces = grouped(hashes, plan.groups)
    columns = {f"key_{number}": column for number, column in enumerate(keys)}
    table = pa.table({"hash": pa.array(hashes), "kind": pa.array(kinds), **columns}).take(pa.array(order))
    scope = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(order), np.int32)), pa.array([directory]))
    table = table.append_column("key_scope", scope.cast(pa.string()))
    for group, start, end in pieces:
        yield (group, (), 0, place), table_bytes(table.slice(start, end - start))


def check_partition(shared: Plan, partition: int, elements: Iterable[Any]) -> MergeReceipt | LedgerReceipt:
    """Find the keys of a group that are not as they should be; collect the ledger."""
    if partition == shared.ledger:
        return write_ledger(shared, None, 0, elements)
    counts: Counter[str] = Counter()
    samples: dict[str, list[Any]] = {}
    tables = [pa.ipc.open_stream(value).read_all() for _, value in elements]
    if not tables:
        return MergeReceipt()
    table = pa.concat_tables(tables).combine_chunks()
    table = table.take(pa.array(np.argsort(table.column("hash").to_numpy(), kind="stable")))
    names = [name for name in table.column_names if name.startswith("key_")]
    keys = [table.column(name).combine_chunks() for name in names]
    number = groups_of_keys(table.column("hash").to_numpy(), keys)
    kinds = table.column("kind").to_numpy()
    rows = np.bincount(number, kinds != _BURIED).astype(np.int64)
    buried = np.bincount(number, kinds == _BURIED).astype(np.int64)
    first = np.zeros(len(rows), np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]

    def note(name: str, found: Any) -> None:
        if len(found):
            counts[name] += len(found)
            chosen = pa.array(found[:SAMPLES])
            shown = [column.take(chosen).to_pylist() for column in keys[: names.index("key_scope")]]
            samples[name] = list(zip(*shown, strict=True))

    note(_WRONG, np.flatnonzero(kinds == _MISPLACED))
    note("keys have more than one row", first[rows > 1])
    note("keys have both a row and a tombstone", first[(rows > 0) & (buried > 0)])
    note("keys have more than one tombstone", first[buried > 1])
    return MergeReceipt(counts=dict(counts), samples=samples)
