"""Read a dataset back and compare it with its manifest.

The comparison covers the files with their sizes, rows and checksums, the sequences of the rows, the bucket and the
partition of each row, and the keys: one row for each, no tombstone beside it, and none that its filter lacks.
"""

from __future__ import annotations

import logging
import posixpath
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from mutator.dataset import checksum, manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import is_straggler, read_manifest, repair
from mutator.dataset.manifest import CHANGES
from mutator.dataset.side_columns import count_waiting
from mutator.dataset.state import State
from mutator.engine.receipts import Fault, LedgerReceipt, MergeReceipt
from mutator.engine.runner import Runner, each_on
from mutator.engine.split_content import checksum_of
from mutator.engine.tasks import read_tasks
from mutator.errors import MutatorError, error
from mutator.errors.display import command, counted, key_text, printable
from mutator.errors.parts import plain
from mutator.errors.quick_dataclass import dataclass
from mutator.frames.change_feed import change_files, difference_of_changes
from mutator.pipeline.accounting import sum_of_receipts
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, said
from mutator.pipeline.verify_rows import check_keys, key_reader, reading_of_dataset
from mutator.plan.reading import Reading
from mutator.storage import Storage, located_to_write, read_file, read_if_exists, storage_for, walk
from mutator.storage.progress import expected

_log = logging.getLogger(__name__)
_RESTORE = "restore it from a copy on another disk"


class Difference(NamedTuple):
    """A difference between a dataset and its manifest."""

    what: str
    file: str | None = None  # relative to the dataset; None: of no single file
    cure: str | None = None

    def __str__(self) -> str:
        return self.what if self.file is None else f"{self.file}: {self.what}"

    def text(self, directory: str) -> str:
        """Return a line with the full path and the cure. directory: of the dataset."""
        where = "" if self.file is None else f"{directory.rstrip('/')}/"
        return f"{where}{self}{f'; {self.cure}' if self.cure else ''}"


class PlaceVerification(PrintedReport):
    """The size of a place, and its differences from its own record. A dataclass with ``differences``."""

    path: str
    differences: tuple[Difference, ...]

    @abstractmethod
    def size(self) -> str:
        """Return the size in words."""

    @abstractmethod
    def same(self) -> str:
        """Return what was compared, for a place without differences."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The differences, with paths relative to the place."""
        return tuple(map(str, self.differences))

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        differences = [difference._asdict() for difference in self.differences]
        return {**super().members(), "differences": differences, "whole": not self.problems}

    def sections(self) -> Iterator[ReportSection]:
        """Yield the size, and the differences or what was compared."""
        yield said(f"{self.path}{self.size()}")
        yield said(*([f"differs: {printable(one.text(self.path))}" for one in self.differences] or [self.same()]))


def tombstones_in_words(tombstones: int, waiting: int) -> str:
    """Return the number of tombstones, and how many of them patches wait beside.

    >>> tombstones_in_words(1, 0), tombstones_in_words(3, 2)
    ('1 tombstone', '3 tombstones (2 of patches that wait)')
    """
    return counted(tombstones, "tombstone") + (f" ({waiting:,} of patches that wait)" if waiting else "")


@dataclass(frozen=True)
class Verification(PlaceVerification):
    """A dataset compared with its manifest."""

    path: str
    files: int
    rows: int
    tombstones: int
    bytes: int
    differences: tuple[Difference, ...]
    filters: bool = False  # its files have filters of their keys
    waiting: int = 0  # tombstones with a row that waits beside them; not counted where there are differences
    keyed: bool = True  # False: it was exported or imported, and no run has set its key

    def size(self) -> str:
        """Return the number of data files, rows, bytes and tombstones."""
        size = counted(self.files, "data file"), counted(self.rows, "row"), counted(self.bytes, "byte")
        return f": {', '.join(size)}, {tombstones_in_words(self.tombstones, self.waiting)}"

    def same(self) -> str:
        """Return what was compared."""
        compared = "files, sizes, rows, checksums, one row per key" if self.keyed else "files, sizes, checksums"
        return f"as its manifest says: {compared}{', filters of keys' if self.filters else ''}"


def verify(runner: Runner, path: str) -> Verification:
    """Compare a dataset with its manifest.

    Raises ConfigError where there is no manifest, StateError where it is damaged.
    """
    given = path
    storage, path = located_to_write(path)
    if storage.stat(path) is None:
        raise error("path.missing", path=path, what="directory")
    known = read_manifest(storage, path)
    if known is None:
        raise error(
            "path.missing", path=f"{path}/{manifest.PATH}", what="manifest: the directory was not written by mutator"
        )
    problems, readable = _files(path, known)
    _log.info("compared the names and sizes of %s in %s", counted(len(known.parts()), "file"), given)
    compared = _checksums if known.is_without_key else differences_of_rows
    with expected(sum(part.bytes for part in known.files)):
        problems += compared(runner, path, known, readable)
    if all(posixpath.join(path, part.path) in readable for part in change_files(known)):
        what = difference_of_changes(path, known)
        problems += [Difference(what, f"_mutator/{CHANGES}")] if what is not None else []
    _log.info("read %s of %s", counted(len(readable), "file"), given)
    return Verification(
        path=given,
        files=len(known.files),
        rows=known.commit.records,
        tombstones=known.commit.tombstones,
        bytes=sum(part.bytes for part in known.files),
        differences=tuple(problems),
        filters=any(part.role == "filters" for part in known.beside),
        waiting=0 if problems else _waiting(storage, path, known),
        keyed=not known.is_without_key,
    )


def _waiting(storage: Storage, path: str, known: State) -> int:
    """Return the number of tombstones with a row that waits beside them."""
    found = 0
    for part in known.beside:
        if part.role == "tombstones":
            with storage.open(posixpath.join(path, part.path)) as stream:
                found += count_waiting(stream)
    return found


def repair_dataset(path: str) -> tuple[list[str], list[str]]:
    """Put the manifest of a dataset back from its copy; return what was done, and what was not and why."""
    storage, path = located_to_write(path)
    try:
        return list(map(plain, filter(None, [repair(storage, path)]))), []
    except MutatorError as fault:
        return [], [str(fault)]


def _files(path: str, known: State) -> tuple[list[Difference], set[str]]:
    """Compare names and sizes; return the problems and the paths of the files that can be read."""
    storage = storage_for(path)
    found = {posixpath.relpath(entry.path, path): (entry.type, entry.bytes) for entry in walk(path)}
    problems, readable = list[Difference](), set()
    for name, size in sorted((part.path, part.bytes) for part in known.parts()):
        entry_type, bytes_ = found.pop(name, (None, None))
        if entry_type is None:
            problems.append(Difference("is missing", name, _RESTORE))
        elif entry_type != "file":
            problems.append(Difference(f"is a {entry_type}, not a file", name, _RESTORE))
        elif bytes_ != size:
            problems.append(Difference(f"has {bytes_} bytes and should have {size}", name, _RESTORE))
        else:
            readable.add(posixpath.join(path, name))
    problems += _copy_problems(storage, path, known.copy)
    others = sorted(found.keys() - {manifest.PATH, known.copy, SUCCESS})
    foreign = [name for name in others if not is_straggler(storage, name)]
    problems += [Difference("is not in the manifest", name, "move it away") for name in foreign]
    if SUCCESS not in found:
        problems.append(Difference("is missing", SUCCESS, "create it, without content"))
    elif found[SUCCESS] != ("file", 0):
        problems.append(Difference("is not empty", SUCCESS, "replace it by an empty file"))
    data_files = {part.path for part in known.files}
    for part in known.beside:
        full_path = posixpath.join(path, part.path)
        # The checksums of data and tombstones are compared while their rows are read.
        if part.role == "tombstones" or part.path in data_files or full_path not in readable:
            continue
        difference = checksum.difference(full_path, part.checksum)
        if difference is not None:
            problems.append(Difference(difference, part.path, _RESTORE))
            readable.discard(full_path)
    return problems, readable


def _copy_problems(storage: Storage, path: str, copy: str | None) -> list[Difference]:
    """Compare the copy of the manifest with it. copy: its path in the dataset; earlier datasets have none."""
    if copy is None:
        return []
    found = read_if_exists(posixpath.join(path, copy))
    if found == read_file(posixpath.join(path, manifest.PATH)):
        return []
    what = "is missing" if found is None else "differs from the manifest, which is whole"
    return [Difference(what, copy, f"write it anew: {command('verify', '--repair', path)}")]


def _checksums(runner: Runner, path: str, known: State, readable: set[str]) -> list[Difference]:
    """Compare the checksums of files whose rows have no key yet."""
    parts = [(posixpath.join(path, part.path), part.checksum) for part in known.files]
    found = each_on(runner)([part for part in parts if part[0] in readable], _checksum_task)
    return [Difference(problem, posixpath.relpath(name, path), _RESTORE) for name, problem in found if problem]


def _checksum_task(part: tuple[str, str], number: int, attempt: int) -> tuple[str, str | None]:
    try:
        return part[0], checksum.difference(*part)
    except MutatorError as fault:
        return part[0], str(fault)


def differences_of_rows(runner: Runner, path: str, known: State, readable: set[str]) -> list[Difference]:
    """Read all rows; compare their number, checksums, buckets, partitions and keys."""
    plan = reading_of_dataset(path, known, readable)
    with runner.shared(plan) as shared:
        *groups, ledger = (
            # [split, ...]
            runner.tasks(plan.tasks)
            # -> ((group, …), value), ...
            .map(partial(read_tasks, key_reader(known)), shared)
            # -> the same, in their group, sorted
            .grouped(plan.groups + 1)
            # -> MergeReceipt; of the last group, LedgerReceipt
            .map(_check_keys, shared)
            .collect()
        )
    problems = _contents(path, plan, known, ledger)
    counts, samples = sum_of_receipts(groups)
    for name, count in sorted(counts.items()):
        noun, _, rest = name.partition(" ")
        problems.append(
            Difference(f"{counted(count, noun)} {rest}, for example {'; '.join(map(key_text, samples[name]))}")
        )
    return problems


def _check_keys(plan: Reading, group: int, attempt: int, elements: Iterable[Any]) -> list[MergeReceipt | LedgerReceipt]:
    return [check_keys(plan, group, elements)]


def _contents(path: str, plan: Reading, known: State, ledger: LedgerReceipt) -> list[Difference]:
    """Compare the receipts of the files that were read with the manifest."""
    problems = list[Difference]()
    damaged = set()
    for fault in sorted(ledger.damage, key=lambda fault: (fault.path, str(fault.error))):
        problems.append(_damage(path, fault))
        damaged.add(fault.path)
    rows = {posixpath.join(path, part.path): part.rows for part in known.parts()}
    for index, part in enumerate(plan.inputs):
        source = part.source
        if source.path in damaged:
            continue
        name = posixpath.relpath(source.path, path)
        found = checksum_of(plan, index, ledger.splits)
        if found != source.checksum:
            what = f"its checksum is {found} and should be {source.checksum}"
            problems.append(Difference(what, name, _RESTORE))
        of_file = [receipt for (number, _), receipt in ledger.splits.items() if number == index]
        count, rejected = sum(one.rows for one in of_file), sum(one.rejected for one in of_file)
        if count != rows[source.path]:
            what = f"has {counted(count, 'row')} and should have {rows[source.path]:,}"
            problems.append(Difference(what, name, _RESTORE))
        if rejected:
            what = f"has {counted(rejected, 'row')} that cannot be read as records"
            problems.append(Difference(what, name, _RESTORE))
    for rejects in ledger.rejects.values():
        problems += [
            Difference(f"{position}: {reason}", posixpath.relpath(file, path))
            for file, _, _, position, reason, _ in rejects
        ]
    return problems


def _damage(path: str, fault: Fault) -> Difference:
    """Return the difference of a file that a task could not read."""
    text = str(fault.error)
    if fault.error.kind == "manifest.damage" and fault.path.startswith(f"{path}/"):
        return Difference(fault.error.why, posixpath.relpath(fault.path, path), _RESTORE)
    return Difference(text)
