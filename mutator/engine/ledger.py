"""The ledger, a partition of its own in the shuffle: receipts of splits, rejected rows, damage."""

import posixpath
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.feed_filters import FileFilter, FilterWriter
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.filter_paths import filter_path
from mutator.engine.receipts import Fault, LedgerReceipt, MergeReceipt, Receipts, RejectSample, SplitReceipt
from mutator.engine.split_content import DAMAGE, FILTER, RECEIPT, TALLY, checksum_of
from mutator.engine.task_files import create
from mutator.errors.display import without_secrets
from mutator.errors.failpoints import failpoint
from mutator.plan.reading import SAMPLES, Reading
from mutator.rules.encodings import readable, restored
from mutator.storage import storage_for

_FILES = 10_000  # samples, at most


def write_ledger(plan: Reading, staging: str | None, attempt: int, elements: Iterable[Any]) -> LedgerReceipt:
    """Collect the elements of the ledger, and write the rejected rows.

    elements: sorted. staging: directory of the file of rejected rows, None for a dry run.
    """
    splits: dict[tuple[int, int], SplitReceipt] = {}
    damage: list[Fault] = []
    tallies: list[MergeReceipt] = []
    with ExitStack() as stack:
        suffix = f"-{attempt}" if attempt else ""
        rejects, filters = _Rejects(plan, staging, suffix, stack), _Filters(plan, staging, attempt, stack)
        for (_, _, content, number), value in elements:
            if content == RECEIPT:
                splits[number] = SplitReceipt(*value)
            elif content == DAMAGE:
                damage.append(value)
            elif content == TALLY:
                tallies.append(value)
                damage += value.damage
            elif content == FILTER:
                filters.add(number[0], value)
            else:
                rejects.add_read(splits, number, value)
        filters.end(splits)
    if rejects.stream is not None:
        failpoint("task.rejected.written", attempt)
    if plan.filters is not None:
        failpoint("task.feed.filters.written", attempt)
    return LedgerReceipt(
        splits=splits,
        rejects=rejects.samples,
        rejected=rejects.rows,
        damage=tuple(damage),
        tallies=tuple(tallies),
        beside=() if rejects.stream is None else (rejects.stream.entry(rejects.rows, "rejected"),),
    )


def with_rejects(plan: Reading, staging: str | None, receipts: Receipts) -> Receipts:
    """Return receipts whose ledger also has the rows that the register rejected, after those that the readers rejected.

    The driver writes the file again: merges reject while the ledger is written.
    """
    ledger = receipts.ledger
    found = sorted(one for receipt in (*receipts.merges, *ledger.tallies) for one in receipt.rejects)
    if not found:
        return receipts
    before = next((one for one in ledger.beside if one.role == "rejected"), None)
    with ExitStack() as stack:
        rejects = _Rejects(plan, staging, "-all", stack)
        rejects.begin(ledger, before)
        for index, offset, reason, row in found:
            rejects.add(index, offset, 0, reason, row)
    beside = tuple(one for one in ledger.beside if one is not before)
    if rejects.stream is not None:
        beside = (*beside, rejects.stream.entry(rejects.rows, "rejected"))
        if before is not None:
            storage_for(f"{staging}").remove(f"{staging}/{before.path}")
    ledger = replace(ledger, rejects=rejects.samples, decided=len(found), beside=beside)
    return replace(receipts, ledger=ledger)


def rejected_line(path: str, offset: int, line: int, reason: str, row: bytes) -> bytes:
    """Return the line of a rejected row in the file of rejected rows."""
    path = path.replace("\t", "\\t").replace("\n", "\\n")  # a directory's name may contain them
    return f"{path}\t{offset}\t{line}\t{reason}\t".encode("utf-8", "surrogateescape") + row + b"\n"


class _Rejects:
    """The file of rejected rows, created with its first row, and the samples for the report."""

    def __init__(self, plan: Reading, staging: str | None, suffix: str, stack: ExitStack) -> None:
        self._plan, self._staging, self._stack = plan, staging, stack
        self._path = f"_mutator/rejected/rejected-{plan.run}{suffix}.tsv"
        self._lines_before: dict[tuple[int, int], int] = {}
        self._files: set[str] = set()  # paths of inputs with a rejected row
        self.samples: dict[str, list[RejectSample]] = {}
        self.stream: StagedFile | None = None
        self.rows = 0

    def begin(self, ledger: LedgerReceipt, file: FileEntry | None) -> None:
        """Begin with the rejected rows of a ledger. file: that has them; None without any, and in a dry run."""
        self.samples = {side: list(samples) for side, samples in ledger.rejects.items()}
        self._files = {one.path for one in self.samples.get("feed", ())}
        if file is not None:
            path = f"{self._staging}/{file.path}"
            with storage_for(path).open(path) as stream:
                shutil.copyfileobj(stream, self._opened())
            self.rows = file.rows

    def add_read(
        self,
        receipts: dict[tuple[int, int], SplitReceipt],
        position: tuple[int, int],
        reject: tuple[int, int, str, bytes],
    ) -> None:
        """Add a row that reading rejected. position: (input, offset). reject: (split, line in it, reason, row)."""
        (index, offset), (split, line, reason, row) = position, reject
        # All receipts come before the first reject, so the lines of the splits before this one are known.
        if (index, split) not in self._lines_before:
            before = (receipts[index, number].lines for number in range(split) if (index, number) in receipts)
            self._lines_before[index, split] = sum(before)
        self.add(index, offset, line + self._lines_before[index, split], reason, row)

    def add(self, index: int, offset: int, line: int, reason: str, row: bytes) -> None:
        """Add a rejected row. index: of its input. line: 0 if it is not known."""
        source, side = self._plan.inputs[index].source, self._plan.inputs[index].side
        self.rows += 1
        path = without_secrets(source.shown_path)
        samples = self.samples.setdefault(side, [])
        is_first, stops = path not in self._files, side == "feed" and not self._plan.rejects[side]
        self._files.add(path)
        # Of a feed that cannot be merged, one of each file: a workflow goes on without these files.
        if len(samples) < SAMPLES or (is_first and stops and len(samples) < _FILES):
            shown = readable(row[:200], source.encoding)
            samples.append(RejectSample(path, offset, line, source.position(offset, line), reason, shown))
        if self._staging is not None:
            self._opened().write(rejected_line(path, offset, line, reason, restored(row, source.encoding)))

    def _opened(self) -> StagedFile:
        """Return the file, which is created when it is needed."""
        assert self._staging is not None
        if self.stream is None:
            directory = posixpath.dirname(f"{self._staging}/{self._path}")
            storage_for(self._staging).make_directory(directory, within=self._staging)
            self.stream = self._stack.enter_context(create(self._plan, self._staging, self._path))
        return self.stream


class _Filters:
    """The file with the filters of the feed's keys, created with its first filter."""

    def __init__(self, plan: Reading, staging: str | None, attempt: int, stack: ExitStack) -> None:
        self._plan, self._attempt, self._stack = plan, attempt, stack
        self._target = None if staging is None else plan.filters
        self._parts: dict[int, list[tuple[int, int]]] = {}
        self._writer: FilterWriter | None = None

    def add(self, index: int, words: bytes) -> None:
        """Write the filter of a part of an input."""
        if self._target is None:
            return
        if self._writer is None:
            path = filter_path(self._target.directory, self._plan.run, self._attempt)
            storage = storage_for(path)
            storage.make_directory(self._target.directory)
            self._writer = FilterWriter(self._stack.enter_context(storage.create_new(path)))
        self._parts.setdefault(index, []).append(self._writer.add(words))

    def end(self, splits: Mapping[tuple[int, int], SplitReceipt]) -> None:
        """Write which feed files the filters are of. splits: the receipts of all splits that were read."""
        if self._writer is None or self._target is None:
            return
        rejected = Counter[int]()
        for (index, _), receipt in splits.items():
            rejected[index] += receipt.rejected
        files = []
        for index, one in enumerate(self._plan.inputs):
            if one.side == "feed" and (index, 0) in splits:
                text = checksum_of(self._plan, index, splits)
                parts = self._parts.get(index, [])
                files.append(FileFilter(one.source.merged_as, one.source.bytes, text, rejected[index], parts))
        self._writer.close(files, self._target.settings)
