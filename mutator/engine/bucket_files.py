"""The files of a group of buckets, written side by side by either engine: data, sequences of rows, tombstones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.commit.staged_file import StagedFile
from mutator.dataset.manifest import DataFile, SideFile
from mutator.dataset.side_columns import TombstoneWriter, write_sequences
from mutator.engine.tally import Tally
from mutator.engine.task_files import create, file_name
from mutator.errors.failpoints import failpoint
from mutator.formats.blocks.contract import Hashes
from mutator.formats.content import Writer
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints

__all__ = ["Files"]


class Files:
    """What a task writes, a file a bucket; an empty bucket has none."""

    def __init__(self, plan: Plan, staging: str | None, unit: MergeUnit, attempt: int, stack: ExitStack) -> None:
        self._plan, self._unit = plan, unit
        self._data = [_Data(plan, staging, unit, number, attempt, stack) for number in unit.numbers]
        self._tombstones = [_Tombstones(plan, staging, unit, number, attempt, stack) for number in unit.numbers]

    def write(self, rows: Any, count: int, hashes: Hashes | None, sequences: Ints | None) -> None:
        """Take the next rows, and how many they are.

        hashes: needed where there are several buckets, or filters of keys. sequences: needed where order comes from
        file names.
        """
        if len(self._data) == 1:
            self._data[0].write(rows, count, sequences, hashes)
            return
        assert hashes is not None
        for file in self._data:
            chosen = np.flatnonzero(hashes % np.uint64(self._unit.buckets or 1) == np.uint64(file.number))
            if len(chosen):
                own = None if sequences is None else sequences[chosen]
                file.write(rows.take(pa.array(chosen)), len(chosen), own, hashes[chosen])

    def insert(self, table: Any) -> None:
        """Take inserted rows with their hashes and order values."""
        sequences = table.column("order").to_numpy() if self._plan.by_file_name else None
        rows = table.column("row").combine_chunks()
        self.write(rows, table.num_rows, table.column("hash").to_numpy(), sequences)

    def bury(self, table: Any) -> None:
        """Take tombstones, sorted by key; with their hashes where there are several buckets."""
        if len(self._tombstones) == 1:
            self._tombstones[0].write(table)
            return
        hashes = table.column("hash").to_numpy()
        for file in self._tombstones:
            chosen = np.flatnonzero(hashes % np.uint64(self._unit.buckets or 1) == np.uint64(file.number))
            if len(chosen):
                file.write(table.take(pa.array(chosen)))

    def finish(self, inserted: Iterator[Any], tombstones: Iterator[Any], tally: Tally) -> None:
        """Write inserted rows and tombstones, and close all files."""
        for table in inserted:
            self.insert(table)
        for table in tombstones:
            self.bury(table)
        self.close()
        tally.counts["output rows"] += self.rows
        tally.counts["tombstones out"] += self.tombstones

    def close(self) -> None:
        """Write what is left, and make all files visible."""
        for data in self._data:
            data.close()
        for tombstones in self._tombstones:
            tombstones.close()

    @property
    def rows(self) -> int:
        """How many rows were written, counted in what was written."""
        return sum(file.rows for file in self._data)

    @property
    def tombstones(self) -> int:
        """How many tombstones were written."""
        return sum(file.rows for file in self._tombstones)

    def hashes(self) -> dict[str, Hashes]:
        """Return the key hashes of what was written to each file, where they were given."""
        found: dict[str, Hashes] = {}
        for file in self._data:
            found |= {part.path: _joined(file.hashes) for part in file.parts if isinstance(part, DataFile)}
        for one in self._tombstones:
            found |= {part.path: _joined(one.hashes) for part in one.parts}
        return found

    def receipts(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return what was written: data files, and files beside them."""
        data = [asdict(part) for file in self._data for part in file.parts if isinstance(part, DataFile)]
        beside = [asdict(part) for file in self._data for part in file.parts if isinstance(part, SideFile)]
        return data, beside + [asdict(part) for file in self._tombstones for part in file.parts]


def _joined(hashes: Sequence[Hashes]) -> Hashes:
    return np.concatenate([*hashes, np.zeros(0, np.uint64)])


class _Data:
    """One data file, and the file with the sequences of its rows."""

    def __init__(
        self, plan: Plan, staging: str | None, unit: MergeUnit, number: int, attempt: int, stack: ExitStack
    ) -> None:
        self.number, self.parts = number, list[DataFile | SideFile]()
        self._said: dict[str, Any] = {"bucket": None if unit.buckets is None else number, **unit.described()}
        self._plan, self._staging, self._attempt = plan, staging, attempt
        self._name = unit.prefix + file_name(plan, number, attempt)
        self._suffix = plan.block_type.suffix(plan.rows.output)
        self._stack = stack.enter_context(ExitStack())
        self._writer: Writer | None = None
        self._stream: StagedFile | None = None
        self._sequences: list[Ints] = []
        self.hashes: list[Hashes] = []
        self.rows = 0

    def write(self, rows: Any, count: int, sequences: Ints | None, hashes: Hashes | None) -> None:
        if not count:
            return
        if hashes is not None:
            self.hashes.append(hashes)
        if self._staging is None:
            self.rows += count
            return
        if self._writer is None:
            self._stream = self._stack.enter_context(
                create(
                    self._plan,
                    self._staging,
                    self._name + self._suffix,
                    self._path if self._plan.by_file_name else None,
                )
            )
            failpoint("task.data.opened", self._attempt)
            chunk = self._plan.chunks.written if self._plan.by_file_name else None
            stream: Any = self._stream
            self._writer = self._plan.block_type.writer(stream, self._plan.rows.output, chunk)
            self._stack.callback(self._writer.close)
        self._writer.write(rows)
        if self._plan.by_file_name:
            assert sequences is not None
            self._sequences.append(sequences)

    def _path(self) -> str:
        newest = max((int(part.max()) for part in self._sequences if len(part)), default=-1)
        return f"{self._name}_{newest}{self._suffix}" if newest >= 0 else self._name + self._suffix

    def close(self) -> None:
        if self._writer is None or self._stream is None or self._staging is None:
            return
        self._stack.close()
        self.rows = self._writer.rows
        failpoint("task.data.written", self._attempt)
        order = None
        if self._plan.by_file_name:
            order = f"_mutator/order/{self._stream.path}.parquet"
            with create(self._plan, self._staging, order) as side:
                write_sequences(side, np.concatenate(self._sequences), self._writer.rows_by_chunk)  # type: ignore[arg-type]
            self.parts.append(side.side_file("order", self.rows, **self._said))
            failpoint("task.order.written", self._attempt)
        self.parts.append(self._stream.data_file(self.rows, order=order, **self._said))


class _Tombstones:
    """One file of tombstones."""

    def __init__(
        self, plan: Plan, staging: str | None, unit: MergeUnit, number: int, attempt: int, stack: ExitStack
    ) -> None:
        self.number, self.parts = number, list[SideFile]()
        self._said: dict[str, Any] = {"bucket": None if unit.buckets is None else number, **unit.described()}
        self._plan, self._staging, self._attempt = plan, staging, attempt
        self._name = f"_mutator/tombstones/{unit.prefix}{file_name(plan, number, attempt)}.parquet"
        self._stack = stack.enter_context(ExitStack())
        self._writer: TombstoneWriter | None = None
        self._stream: StagedFile | None = None
        self.hashes: list[Hashes] = []
        self.rows = 0

    def write(self, table: Any) -> None:
        self.rows += table.num_rows
        if "hash" in table.column_names:
            self.hashes.append(table.column("hash").to_numpy())
        if self._staging is None or not table.num_rows:
            return
        if self._writer is None:
            self._stream = self._stack.enter_context(create(self._plan, self._staging, self._name))
            self._writer = TombstoneWriter(self._stream, self._plan.key_width)  # type: ignore[arg-type]
            self._stack.callback(self._writer.close)
        self._writer.write(table)

    def close(self) -> None:
        if self._writer is None or self._stream is None:
            return
        self._stack.close()
        failpoint("task.tombstones.written", self._attempt)
        self.parts.append(self._stream.side_file("tombstones", self.rows, **self._said))
