"""The directory where the partitions of an output are made, and the record that lets a stopped loop resume."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mutator.dataset.commit.staging import SUCCESS
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.storage import Storage
from mutator.workflow.partitions.pairs import differing_inputs
from mutator.workflow.partitions.report import PartitionRun
from mutator.workflow.partitions.runs_record import read_record, record_content, record_path


class WorkDirectory:
    """The directory where partitions are made, claimed by this process, until they are published as the output."""

    def __init__(self, storage: Storage, output: str, inputs: Mapping[str, Any]) -> None:
        above, name = posixpath.split(output)
        self.path = posixpath.join(above, f".{name}.partitions") if storage.renames else output
        self._storage, self._output, self._inputs = storage, output, inputs
        self._record = record_path(self.path)
        self._claim: object | None = None

    def __enter__(self) -> WorkDirectory:
        storage = self._storage
        exists = storage.stat(self._output) is not None
        begun = None if exists and storage.renames else self._read()
        if exists and (begun is None or begun["partitions"] is not None):
            raise error("output.exists", path=self._output)
        storage.make_directory(self.path)
        if storage.holds:
            self._claim = storage.hold(self.path)
            if self._claim is None:
                raise error("output.busy", path=self._output, staging=self.path)
        if begun is None:
            with storage.create_new(self._record) as stream:
                stream.write(record_content(self._inputs, None))
        elif begun["inputs"] != self._inputs:
            what = differing_inputs(begun["inputs"], self._inputs)
            raise error("partition.resume", path=self._output, place=self.path, what=what)
        failpoint("runs.begun")
        return self

    def __exit__(self, *_: object) -> None:
        self._claim = None

    def _read(self) -> dict[str, Any] | None:
        try:
            return read_record(self.path)
        except ValueError as fault:
            raise error("partition.resume", path=self._output, place=self.path, what=f"record ({fault})") from None

    def publish(self, done: Sequence[PartitionRun]) -> None:
        """Publish all partitions as the output, with a record of their runs."""
        storage = self._storage
        runs = [{**asdict(one), "counts": dict(one.counts)} for one in done]
        success = posixpath.join(self.path, SUCCESS)
        if storage.stat(success) is None:
            with storage.create_new(success):
                pass
        failpoint("runs.success")
        storage.replace(self._record, record_content(self._inputs, runs))
        failpoint("runs.recorded")
        if storage.renames:
            try:
                storage.rename_new(self.path, self._output)
            except FileExistsError:
                raise error("output.exists", path=self._output) from None
        failpoint("runs.published")
