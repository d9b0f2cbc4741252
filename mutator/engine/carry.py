"""Files of the master that no mutation concerns: they become the output's, too, without being read."""

from __future__ import annotations

from pyarrow import ArrowException

from mutator.checksum import ChunkedChecksum, chunk_of
from mutator.engine.blockmerge import merge_tombstones
from mutator.engine.content import Damage
from mutator.engine.unitmerge import UnitTask
from mutator.errors import MutatorError
from mutator.failpoint import failpoint
from mutator.formats.parquet_columns import oldest_tombstone
from mutator.inputs import Input
from mutator.storage import blocks, same_storage, storage_for

__all__ = ["Carrier", "link_or_copy"]


class Carrier:
    """Takes the files of buckets without mutations as they are; only tombstones that expire are written anew."""

    def __init__(self, task: UnitTask, staging: str | None, attempt: int) -> None:
        self._task, self._staging, self._attempt = task, staging, attempt

    def carry_over(self) -> None:
        """Make all files of a task the output's, too."""
        task = self._task
        for index in dict.fromkeys(split.input for split in task.data):
            self._carry(index)
        if any(self._expires(task.plan.inputs[split.input]) for split in task.buried):
            merge_tombstones(task.plan, None, task.tombstones(), task.output)
            task.close()
            return
        for index in dict.fromkeys(split.input for split in task.buried):
            self._carry(index)

    def _expires(self, one: Input) -> bool:
        before = self._task.plan.expire_before
        if before is None:
            return False
        try:
            with storage_for(one.source.path).open(one.source.path) as stream:
                return oldest_tombstone(stream) < before
        except (ArrowException, OSError, AttributeError, LookupError, ValueError):
            return True  # whatever is wrong with it is found when it is read

    def _carry(self, index: int) -> None:
        task, one = self._task, self._task.plan.inputs[index]
        source, part = one.source, one.source.part
        assert part is not None
        task.carried.append(index)
        task.kept.append(part)
        counts = task.tally.counts
        if one.side == "tombstones":
            counts["tombstones in"] += part.rows
            counts["tombstones out"] += part.rows
        else:
            counts["master kept"] += part.rows
            counts["output rows"] += part.rows
        if self._staging is None:
            return
        link_or_copy(source.path, f"{self._staging}/{part.path}", part.checksum)
        if source.order_part is not None and source.order_path is not None:
            task.kept.append(source.order_part)
            target = f"{self._staging}/{source.order_part.path}"
            link_or_copy(source.order_path, target, source.order_part.checksum)
        failpoint("task.carried", self._attempt)


def link_or_copy(source: str, target: str, checksum: str) -> None:
    """Make a file of the master one of the output, too; raises Damage where a copy shows that it is not as it was."""
    storage = storage_for(target)
    try:
        if same_storage(source, target) and storage.link_new(source, target):
            return
    except FileExistsError:
        return  # an earlier attempt of this task did it
    state = ChunkedChecksum(chunk_of(checksum) or 1 << 62)
    try:
        with storage_for(source).open(source) as stream, storage.create_new(target) as copy:
            for block in blocks(stream):
                state.update(block)
                copy.write(block)
            if state.text() != checksum:
                why = f"its checksum is {state.text()} and should be {checksum}"
                raise Damage("manifest.damage", {"path": source, "why": why})
    except MutatorError:
        if storage.look(target) is None:  # else another attempt of this task has made a whole copy meanwhile
            raise
