"""What a dataset holds of a key: its record or its tombstone, of each partition where the key has one.

Only the files of the key's bucket are read, and of a partitioned dataset only those whose filters admit the key.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.partition_index import form_of
from mutator.dataset.state import State
from mutator.engine.blocks.tombstone_columns import with_each
from mutator.engine.split_content import Damage
from mutator.errors import MutatorError
from mutator.formats.content import Reject
from mutator.pipeline.explain.explained_feed import shown_content, shown_row
from mutator.pipeline.explain.key import WantedKey
from mutator.pipeline.explain.key_decisions import NOTHING, Held
from mutator.pipeline.explain.key_rows import KeyRow, rows_of_key
from mutator.pipeline.verify_rows import FileFilters, reading_of_dataset
from mutator.plan.inspect.managed import dataset_sources
from mutator.plan.inspect.source import Source
from mutator.plan.reading import Reading
from mutator.plan.rows.format_choice import stored_row_plan
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.splits import Input
from mutator.rules.last_wins import LAST_WINS
from mutator.rules.order_values import lowest_order, order_parser, precedence
from mutator.rules.register import Register
from mutator.storage import storage_for

ByPartition = Mapping[str | None, Held]  # by the directory of the scope in which the key is unique; None: the dataset


def held_in(path: str, known: State, wanted: WantedKey, register: Register = LAST_WINS) -> ByPartition:
    """Return what a managed dataset holds of a key; nothing is left out. Raises the error of a damaged file.

    register: says what is kept beside rows and tombstones.
    """
    data, beside = dataset_sources(path, known)
    chosen = [source for source in (*data, *beside) if _admits(known, source, wanted)]
    plan = reading_of_dataset(path, known, _paths_with_filters(path, chosen), register.side_columns)
    plan = replace(plan, buries_rows=register.buries_rows)
    filters, forms = FileFilters(), dict[int, RowPlan]()
    found: dict[str | None, Held] = {}
    try:
        for number, one in enumerate(plan.inputs):
            if filters.excluded(one, wanted.hashes, wanted.columns[0])[0]:
                continue
            held = (
                _tombstone(plan, one, wanted)
                if one.side == "tombstones"
                else _record(known, plan, number, wanted, forms)
            )
            if held is not None:
                found[held.partition if known.key_scope == "partition" else None] = held
    except Damage as fault:
        raise _error_of(fault) from None
    return found or {None: NOTHING}


def held_in_unmanaged(plan: Reading, wanted: WantedKey) -> ByPartition:
    """Return what a master without a manifest holds: the row of the key with the highest precedence.

    plan: as ``feed_reading`` returns it. Raises the error of a damaged file.
    """
    best: tuple[tuple[object, ...], Held] | None = None
    rows = 0
    try:
        for number, one in enumerate(plan.inputs):
            if one.side != "master":
                continue
            for row in _rows(plan, number, wanted):
                place = precedence(row.order, row.sequence, one.rank, row.offset, row.row)
                rows += 1
                if best is None or place > best[0]:
                    best = place, _held(plan, one, row, None)
    except Damage as fault:
        raise _error_of(fault) from None
    return {None: NOTHING if best is None else replace(best[1], duplicates=rows - 1)}


def _error_of(fault: Damage) -> MutatorError:
    return fault.fault.error


def _admits(known: State, source: Source, wanted: WantedKey) -> bool:
    """Return whether the key can be in a file, by the number of its bucket."""
    part = source.part
    buckets = part and (part.buckets or known.bucket_count)
    if part is None or not buckets or part.bucket is None:
        return True
    return bool(wanted.hashes[0] % np.uint64(buckets) == np.uint64(part.bucket))


def _paths_with_filters(path: str, sources: Sequence[Source]) -> set[str]:
    """Return the full paths of files and of the packs with the filters of their keys."""
    parts: list[FileEntry] = [source.part for source in sources if source.part is not None]
    packs = {part.filter for part in parts if part.filter is not None}
    return {source.path for source in sources} | {posixpath.join(path, pack) for pack in packs}


def _record(known: State, plan: Reading, number: int, wanted: WantedKey, forms: dict[int, RowPlan]) -> Held | None:
    part = plan.inputs[number].source.part
    assert part is not None
    if part.form not in forms:
        forms[part.form] = stored_row_plan(replace(known, spec={**known.spec, **form_of(known.spec, part.form)}))
    one = replace(plan.inputs[number], layout="master")
    inputs = (*plan.inputs[:number], one, *plan.inputs[number + 1 :])
    plan = replace(plan, rows=forms[part.form], inputs=inputs)
    directory = part.directory if known.is_partitioned else None
    return next((_held(plan, one, row, directory) for row in _rows(plan, number, wanted)), None)


def _rows(plan: Reading, number: int, wanted: WantedKey) -> Iterator[KeyRow]:
    for row in rows_of_key(plan, number, wanted):
        if not isinstance(row, Reject):
            yield row


def _held(plan: Reading, one: Input, row: KeyRow, directory: str | None) -> Held:
    return Held("record", row.order, shown_row(plan, one, row), row.content, row.form, row.sides, directory)


def _tombstone(plan: Reading, one: Input, wanted: WantedKey) -> Held | None:
    part = one.source.part
    assert part is not None
    directory = part.directory if part.buckets is not None else None
    order_type = plan.rows.order_type
    with storage_for(one.source.path).open(one.source.path) as stream:
        try:
            for (key, order, committed), beside in with_each(plan, stream):
                if key == wanted.values:
                    value = lowest_order(order_type) if order is None else order_parser(order_type)(order)
                    content, sides = (beside[0], beside[1:]) if any(beside) else (b"", ())
                    row = shown_content(plan.rows, content) if content else b""
                    return Held("tombstone", value, row, content, "", sides, directory, committed)
        except (pa.ArrowException, OSError, ValueError, LookupError) as fault:
            from mutator.engine.split_content import damaged

            raise damaged(one, fault) from None
    return None
