"""The elements between the two steps of a partitioned merge: tables whose rows have their partitions.

    (FEED, sizes, table)        mutations, each perhaps the winner of several
    (ARRIVED, sizes, table)     records that are inserted, because they or their tombstones were in other partitions
    (ROWS, sizes, table)        rows of a master that is not partitioned yet, each with its position
    (TOMBSTONES, sizes, table)  tombstones
    (LEDGER, {}, element)       everything else (``engine.split_content``)

The first step does not know yet which units there are, so a row has the directory of its partition; in the second each
has the number of its unit. A table is Arrow IPC, and sizes are the bytes of its rows, by directory.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.engine.blocks.mutations import (
    Mutations,
    directory_column,
    key_names,
    table_of_columns,
    table_of_mutations,
)
from mutator.engine.blocks.read_blocks import table_bytes
from mutator.engine.blocks.spool import Ahead, SortedSpool
from mutator.engine.receipts import Fault
from mutator.engine.split_content import DAMAGE
from mutator.errors import error
from mutator.errors.parts import place
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.run_plan import Plan
from mutator.rules import file_names
from mutator.rules.byte_columns import Ints

FEED, ARRIVED, ROWS, TOMBSTONES, LEDGER = range(5)
Route = tuple[int, dict[str, int], Any]

_SORTED = {FEED: ["unit"], ARRIVED: ["unit"], ROWS: ["unit", "input", "position"], TOMBSTONES: ["unit"]}


def routed(section: int, table: Any, directories: Any) -> Route:
    """Return the route of a table. directories: of the partitions of its rows, a pa.DictionaryArray."""
    codes, names = directories.indices.to_numpy(), directories.dictionary.to_pylist()
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(names))
    used = np.flatnonzero(counts).tolist()
    rows = next((table.column(name) for name in ("written", "row") if name in table.column_names), table)
    each = rows.nbytes // max(table.num_rows, 1) + 1  # bytes of a row as written, without its key and order value
    sizes = {names[code]: int(counts[code]) * each for code in used}
    new_codes = np.cumsum(counts > 0) - 1  # without the names that no row has
    column = directory_column(new_codes[codes[order]], [names[code] for code in used])
    return section, sizes, table_bytes(table.take(pa.array(order)).append_column("directory", column))


def routed_mutations(found: Mutations) -> Route:
    """Return the route of mutations."""
    table = table_of_mutations(found).drop_columns(["directories"])
    return routed(FEED, table, found.directories)


def rows_table(rows: Any, inputs: Ints, positions: Ints, hashes: Hashes, sides: Any) -> Any:
    """Return a pa.Table of rows, whose order is that of input and position."""
    columns = {"row": rows, "input": inputs, "position": positions, "hash": hashes, "sides": sides}
    return table_of_columns(columns)


def spread(
    plan: Plan, tasks: Sequence[Sequence[int]], number: int, routes: Iterable[Route]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the elements of the second shuffle: ((task, (), section, position), table with units), and the ledger's.

    tasks: the units of each. number: of the partition that the routes come from.
    """
    first: dict[str, int] = {}
    for index, unit in enumerate(plan.units):
        first.setdefault(unit.partition or "", index)
    task_of = np.zeros(len(plan.units), np.int64)
    for task, units in enumerate(tasks):
        task_of[list(units)] = task
    for count, (section, _, value) in enumerate(routes):
        if section == LEDGER:
            (_, *key), fact = value
            yield (len(tasks), *key), fact
            continue
        table = pa.ipc.open_stream(value).read_all()
        column = table.column("directory").combine_chunks()
        names = column.dictionary.to_pylist()
        strange = sorted(set(names) - set(first))
        if strange:  # an executor was lost with its routes, and the files they are computed from again have changed
            paths = file_names.first_few([place(one.source.path) for one in plan.inputs if one.side == "feed"])
            changed = error("changed.between", paths=paths, partition=plan.shown.directory(strange[0]))
            yield (len(tasks), (), DAMAGE, (number, count)), Fault(paths, changed)
            continue
        starts = np.array([first[name] for name in names], np.int64)
        groups = np.array([plan.units[start].groups for start in starts], np.uint64)
        codes = column.indices.to_numpy()
        hashes = table.column("hashes" if section == FEED else "hash").to_numpy()
        units = starts[codes] + (hashes % groups[codes]).view(np.int64)
        order = np.argsort(task_of[units], kind="stable")
        table = table.drop_columns(["directory"]).append_column("unit", pa.array(units)).take(pa.array(order))
        found = task_of[units[order]]
        begins = np.flatnonzero(np.diff(found, prepend=-1))
        for begin, end in zip(begins, [*begins[1:], len(found)], strict=True):
            yield (int(found[begin]), (), section, (number, count)), table_bytes(table.slice(begin, end - begin))


class ByUnit:
    """The tables of a section that arrived at a task, unit by unit; units are asked for in ascending order."""

    def __init__(self, plan: Plan, section: int, stack: ExitStack) -> None:
        # Tombstones are written as they come, and a file of them is sorted by key.
        keys = key_names(plan.key_width) if section == TOMBSTONES else []
        self._spool = SortedSpool([*_SORTED[section], *keys], plan.set_aside, stack)
        self._ahead: Ahead | None = None

    def append(self, table: Any) -> None:
        """Add a table."""
        self._spool.append(table)

    def of(self, unit: int) -> Iterator[Any]:
        """Yield the tables of a unit."""
        if self._ahead is None:
            self._ahead = Ahead(self._spool.tables(), "unit")
        for table in self._ahead.until(unit + 1):
            begin = int(np.searchsorted(table.column("unit").to_numpy(), unit))  # a damaged unit may be read in part
            if begin < table.num_rows:
                yield table.slice(begin)
