"""The events of a table with history: each mutation that it ever got, in files that no later version changes.

An event file has the rows of mutations as they would be written, by bucket, key and precedence; its key index has their
order values. What is not in a row is beside it: whether it is a delete, and the fields that it leaves unset.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import EVENTS
from mutator.dataset.versions.key_index import encoded_keys
from mutator.engine.blocks.fold import fold_in_place, fold_parts
from mutator.engine.blocks.mutations import Mutations
from mutator.engine.blocks.tombstone_columns import at_as_of
from mutator.engine.versions.apart import together
from mutator.engine.versions.delta_files import Delta, DeltaWriter, unit_order
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints

BESIDE = (pa.field("delete", pa.bool_()), pa.field("unset", pa.binary()))  # columns beside events


class EventKeeper:
    """Writes the events of a task before they are folded to winners."""

    def __init__(self, plan: Plan, writer: DeltaWriter) -> None:
        """Write nothing yet."""
        self._by_partition, self._is_partitioned = plan.rows.partitioning.by_partition, plan.is_partitioned
        self._writer = writer

    def folded(self, plan: Plan, parts: list[Mutations]) -> Mutations:
        """Keep some mutations, and return the winners among them."""
        events = fold_parts(plan, parts)
        if len(events):
            self._keep(plan, together(events) if self._by_partition else events)
        return fold_in_place(plan, [events])

    def _keep(self, plan: Plan, events: Mutations) -> None:
        events = at_as_of(plan, events)
        names, codes = self._partitions(events)
        buckets = self._writer.buckets.of_rows(names, codes, events.hashes)
        order = unit_order(names, codes, buckets, events.keys)
        index = pa.array(order)
        deletes = pa.array(events.deletes[order], mask=~events.deletes[order])
        sides = [deletes, events.unset.take(index).cast(pa.binary())]
        delta = Delta(
            names,
            codes[order],
            events.written.take(index),
            events.hashes[order],
            encoded_keys([column.take(index) for column in events.keys]),
            events.orders.take(index),
            sides=pa.StructArray.from_arrays(sides, fields=list(BESIDE)),
        )
        self._writer.write(EVENTS, delta)

    def _partitions(self, events: Mutations) -> tuple[Sequence[str | None], Ints]:
        """Return directories, and the number of that of each event: only where they are a part of the key."""
        if not self._by_partition:
            return ["" if self._is_partitioned else None], np.zeros(len(events), np.int64)
        column = events.directories.cast(pa.string()).dictionary_encode()
        return column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.int64)
