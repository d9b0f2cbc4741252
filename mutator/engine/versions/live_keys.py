"""What a table has of some keys, for what changes of keys carry (``engine.carried``)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mutator.dataset.file_entry import DATA, TOMBSTONES
from mutator.dataset.versions.key_index import encoded_keys
from mutator.dataset.versions.merged_keys import PartitionCodes
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.blocks.tombstone_columns import waiting_rows, with_beside
from mutator.engine.carried import WantedKeys
from mutator.engine.receipts import Key
from mutator.engine.versions.key_search import Search
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.met_rows import MetRows
from mutator.engine.versions.stored_rows import taken_tombstones
from mutator.plan.run_plan import Plan
from mutator.rules.order_columns import to_value
from mutator.rules.register import RECORD, TOMBSTONE, Old


def held_in_snapshot(snapshot: Snapshot, plan: Plan, wanted: WantedKeys) -> dict[Key, Old]:
    """Return what a version of a table has of some keys, which are unique in the table."""
    live, names = LiveRows(snapshot), list(zip(*(column.to_pylist() for column in wanted.columns), strict=True))
    order_type = plan.rows.order_type
    search = Search(
        live,
        wanted.hashes,
        encoded_keys(wanted.columns),
        PartitionCodes(),
        None,
        order_type,
        keeps_orders=plan.keeps_orders,
    )
    found = dict[Key, Old]()
    for role, read in ((DATA, _records), (TOMBSTONES, _tombstones)):
        for met in search.met(role):
            every = np.arange(len(met.numbers))
            orders = [to_value(order_type, one) for one in met.orders(plan, every).to_pylist()]
            for number, order, row in zip(met.numbers.tolist(), orders, read(plan, live, met), strict=True):
                found[names[number]] = Old(RECORD if role == DATA else TOMBSTONE, order, *row)
    return found


def _records(plan: Plan, live: LiveRows, met: MetRows) -> Iterator[tuple[bytes, tuple[object, ...]]]:
    """Yield the content of each record, and the values of the register's side columns."""
    for file, own in met.by_file(np.arange(len(met.numbers))):
        positions = met.positions[own]
        block = live.rows(file, positions, met.entries[own], plan.rows.layouts["master"])
        sides = live.sides(file, positions, plan.side_columns)
        contents = plan.block_type.contents(block.written()).to_pylist()
        yield from zip(contents, zip(*(column.to_pylist() for column in sides.flatten()), strict=True), strict=True)


def _tombstones(plan: Plan, live: LiveRows, met: MetRows) -> Iterator[tuple[()] | tuple[bytes, tuple[object, ...]]]:
    """Yield what waits beside each tombstone: nothing, or a row and the values of its side columns."""
    for file, own in met.by_file(np.arange(len(met.numbers))):
        table = taken_tombstones(live.snapshot.table, file, file.rows, met.positions[own])
        if not plan.beside_tombstones:
            yield from ((),) * len(own)
            continue
        table = with_beside(plan, table)
        rows, _ = waiting_rows(plan, table)
        waits, kept = rows.is_valid().to_pylist(), [table.column(one.name).to_pylist() for one in plan.side_columns]
        contents = iter(plan.block_type.contents(rows.drop_null()).to_pylist())
        for number, is_valid in enumerate(waits):
            yield (next(contents), tuple(column[number] for column in kept)) if is_valid else ()
