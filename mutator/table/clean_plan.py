"""What a cleaning keeps and names: the versions that stay, and the files that none of them needs, also of dead runs."""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commits import COMPACT, WITHOUT_ROWS, Commit, Left
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import Waiting
from mutator.dataset.versions.checkpoint import STORED, owner_of_base
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.opening import snapshot_of
from mutator.dataset.versions.packs import needed_packs, packs_of
from mutator.dataset.versions.snapshot import Snapshot
from mutator.dataset.versions.table_codec import CHECKPOINT, GONE, NAMED, REPLACED, STRAY
from mutator.errors import suppressed
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.truth_table import RARE
from mutator.storage import entries_of
from mutator.table.clean_removal import DeadRuns, dead_runs, mark_of, named_files
from mutator.table.version_times import time_of

VERSIONS, SECONDS = 10, 7 * 86_400  # that are kept by default
_CHANGES = (
    "feed inserted",
    "feed updated",
    "feed deleted",
    "master deleted by absence",
    "master truncated",
)  # counts of an apply
_SAME_ROWS = (*WITHOUT_ROWS, COMPACT)  # kinds of versions that have the rows of the one before
# The owner is the path of the data or tombstone file that a file belongs to: its own path, or that of its key index.
_OWNED = pa.schema([("owner", pa.string()), ("path", pa.string()), ("bytes", pa.int64())])
_LAST = pa.schema([("owner", pa.string()), ("last", pa.int64())])


@dataclass(frozen=True)
class Retention:
    """How many versions are kept: those that either of the two limits keeps; None for no such limit.

    The newest version is always kept.
    """

    versions: int | None = VERSIONS  # the last ones with different rows
    seconds: float | None = SECONDS  # since a version was superseded by the next one

    def earliest(self, log: TableLog, newest: Commit, known: int, now: float) -> int:
        """Return the number of the earliest version that is kept. known: the earliest one that there is.

        now: seconds since 1970. Raises StateError if an entry is missing or damaged.
        """
        found = newest.number
        if self.versions is not None:
            found = min(found, self._by_number(log, newest, known))
        if self.seconds is not None:
            superseded = range(known + 1, newest.number + 1)
            limit = now - self.seconds
            young = bisect_right(superseded, limit, key=lambda number: time_of(log.read(number).committed).timestamp())
            found = min(found, known + young)
        return max(found, known)

    def _by_number(self, log: TableLog, newest: Commit, known: int) -> int:
        """Return the number of the earliest version that is needed for the rows of the last versions that changed any.

        Of the versions with the same rows, those since the last compaction are enough. So the same versions are kept
        when only cleanings and tags were committed since.
        """
        version, left = newest, (self.versions or 1) - 1
        while version.number > known and (left or version.action in WITHOUT_ROWS):
            left -= changes_rows(version)
            version = log.read(version.number - 1)
        return version.number


def first_with_rows(log: TableLog, number: int) -> int:
    """Return the first of the versions up to one that have the same rows. Raises StateError if an entry is missing."""
    while not changes_rows(log.read(number)):
        number -= 1
    return number


def changes_rows(version: Commit) -> bool:
    """Return whether a version may have other rows, or other fields, than the one before."""
    if version.action == "apply" and version.spec is None:
        return any(version.counts.get(name, name not in RARE) for name in _CHANGES)
    return version.action not in _SAME_ROWS


@dataclass(frozen=True)
class CleanPlan:
    """The members of the commit of a cleaning."""

    before: Left
    earliest: int
    tagged: tuple[int, ...]  # earlier versions that stay
    versions: int  # whose rows no version that is left has
    files: Any  # pa.Table of ``NAMED``
    runs: tuple[str, ...]  # that are given up
    kept: tuple[tuple[int, str], ...]

    @property
    def is_due(self) -> bool:
        """Whether there is anything to clean: not only the checkpoint that the log begins with, and a few entries."""
        return self.versions > 0 or bool(self.runs) or bool((_of(self.files, CHECKPOINT) == 0).any())

    @property
    def bytes(self) -> int:
        """The size of the files."""
        return pc.sum(self.files.column("bytes")).as_py() or 0


def plan_of(
    snapshot: Snapshot,
    before: Left,
    waiting: Iterable[Waiting],
    earliest: int,
    tagged: Sequence[int],
    written_before: float,
) -> CleanPlan:
    """Return what to clean so that a version becomes the earliest one.

    snapshot: the newest one. before: what is left so far. waiting: whose files stay named. tagged: earlier versions
    that stay. written_before: in seconds since 1970; runs without a version whose files are all older count as dead.
    Raises StateError if a log entry or a checkpoint is lost or damaged.
    """
    search = _Search(snapshot, before, earliest, tagged)
    search.read()
    search.add_waiting(waiting)
    strays = dead_runs(snapshot.table, search.known(), written_before)
    files = pa.concat_tables([search.named(), _strays(strays)])
    return CleanPlan(before, earliest, tuple(tagged), search.versions, files, strays.runs, tuple(search.kept))


class _Search:
    """The files that the versions of a table name, and those of them that no version needs."""

    def __init__(self, snapshot: Snapshot, before: Left, earliest: int, tagged: Sequence[int]) -> None:
        self._snapshot, self._before, self._earliest, self._tagged = snapshot, before, earliest, tagged
        self._table, self._log = snapshot.table, TableLog(snapshot.table)
        self.versions = 0  # whose rows no version that is left has
        self.kept: list[tuple[int, str]] = []
        self._owned: list[Any] = []  # of the versions that go: pa.Tables of ``_OWNED``
        self._needed: list[Any] = []  # paths of data and tombstone files, pa.Arrays
        self._last: list[Any] = []  # pa.Tables of ``_LAST``
        self._of_versions: list[tuple[str, int, str, int]] = []  # named files without rows, as ``NAMED``
        self._names: list[Any] = []  # paths of further files that are not strays, pa.Arrays
        self._packs: set[str] = set()

    def read(self) -> None:
        """Read the log, and the checkpoints of the earliest version and of tagged ones."""
        start, earliest = self._before.earliest, self._earliest
        for number in sorted({earliest, *self._tagged}):
            is_newest = number == self._snapshot.version.number
            self._need(self._snapshot if is_newest else snapshot_of(self._table, number))
        gone = {start, *self._before.bases} - {earliest, *self._tagged} if earliest > start else set(self._before.bases)
        for number in sorted(gone - {earliest, *self._tagged}):
            self._let_go(snapshot_of(self._table, number))
        changed = list[int]()  # versions after the earliest one so far that changed rows
        for version in self._log.after(start - 1, self._snapshot.version.number):
            self._follow(version, start)
            changed += [version.number] if version.number > start and changes_rows(version) else []
        self.versions = self._without_rows(changed)
        self._keep_withdrawn()
        self._checkpoints()

    def add_waiting(self, waiting: Iterable[Waiting]) -> None:
        """Note files that are named already."""
        for one in waiting:
            self._add_names([one.named.path, mark_of(one)])
            named = named_files(self._table, one)
            if named is not None:
                self._names.append(named.column("path"))

    def _need(self, snapshot: Snapshot) -> None:
        """Keep the files of a version."""
        self._needed.append(snapshot.files.column("path"))
        self._names.append(owned_by(snapshot.files).column("path"))
        self._packs |= packs_of(snapshot.files)

    def _let_go(self, snapshot: Snapshot) -> None:
        """Name the files of a version, unless other versions need them."""
        owned = owned_by(snapshot.files)
        self._owned.append(owned)
        number = snapshot.version.number
        if number != self._before.earliest:  # else the versions that follow it removed the files
            owners = pc.unique(owned.column("owner"))
            self._last.append(pa.table([owners, pa.repeat(pa.scalar(number), len(owners))], schema=_LAST))

    def _follow(self, version: Commit, start: int) -> None:
        """Go on to a version, from the one that was the earliest so far, to the newest one."""
        number, earliest = version.number, self._earliest
        owners = pa.array([file.path for file in version.files], pa.string())
        if start < number <= earliest:
            parts = [(file.path, part) for file in version.files for part in file.stored()]
            self._owned.append(_owned(parts))
            last = pa.repeat(pa.scalar(number - 1), len(version.removed))
            self._last.append(pa.table([pa.array(version.removed, pa.string()), last], schema=_LAST))
            masks = () if version.restored is None or version.restored.masks is None else (version.restored.masks,)
            self._name((*version.index, *masks), number)
            self.kept += [(number, one.path) for one in version.withdrawn if one.is_apart]
        else:
            if number > earliest:
                self._needed.append(owners)
            self._add_names(one.path for one in version.stored() if one.is_apart)
        if start <= number < earliest:
            self._name(version.rejected, number)
        else:
            self._add_names(one.path for one in version.rejected)

    def _without_rows(self, changed: Sequence[int]) -> int:
        """Return how many versions with rows of their own go. Versions with the same rows count as one.

        changed: the versions after the earliest one so far that changed rows, ascending.
        """
        before = self._before
        has_earlier = any(number < before.earliest for number in before.bases)  # perhaps with the rows of the earliest
        first = self._first_with_rows(before.earliest) if has_earlier else before.earliest

        def first_of(number: int) -> int:
            if number < before.earliest:
                return self._first_with_rows(number)
            return (first, *changed)[bisect_right(changed, number)]

        kept = {first_of(number) for number in (self._earliest, *self._tagged)}
        there = {first_of(number) for number in (before.earliest, *before.bases)}
        return len((there | {number for number in changed if number <= self._earliest}) - kept)

    def _first_with_rows(self, number: int) -> int:
        """Return the first version with the same rows; the version itself where the archive is damaged."""
        with suppressed("table.log.archive"):
            return first_with_rows(self._log, number)
        return number

    def _name(self, files: Iterable[FileEntry], number: int) -> None:
        self._of_versions += [(one.path, one.bytes, GONE, number) for one in files if one.is_apart]

    def _add_names(self, paths: Iterable[str]) -> None:
        self._names.append(pa.array(list(paths), pa.string()))

    def _keep_withdrawn(self) -> None:
        """Name the files of withdrawn rows whose versions have no rows any more; keep the others."""
        kept, needed = [*self._before.kept, *self.kept], self.needed()
        self.kept = []
        versions = dict[int, Commit]()
        for number in {number for number, _ in kept}:
            with suppressed("table.log.archive"):  # the files stay where it is unknown what the version had
                versions[number] = self._log.read(number)
        for number, path in kept:
            version = versions.get(number)
            own = pa.array([] if version is None else [file.path for file in version.files], pa.string())
            if version is None or pc.any(pc.is_in(own, value_set=needed)).as_py():
                self.kept.append((number, path))
                self._add_names([path])
            else:
                self._name([one for one in version.withdrawn if one.path == path], number)

    def _checkpoints(self) -> None:
        """Name the checkpoints of versions that are gone, and the packs that only these name."""
        stay, bases = {self._earliest, *self._tagged}, set(map(owner_of_base, self._before.bases.values()))
        found = list(entries_of(posixpath.join(self._table, DIRECTORY, "checkpoints")))
        kept = {number: name for number, name in self._before.bases.items() if number in stay}
        self._packs |= needed_packs(self._log, Left(self._earliest, kept))
        for entry in found:
            digits, name = entry.name[:20], entry.name
            if not digits.isdecimal():
                continue
            number, owner = int(digits), owner_of_base(name)
            if owner is None:
                is_pack_of_base = number in stay and name.endswith(".pack")
                is_left = number >= self._earliest or is_pack_of_base or name in self._packs
            elif owner in bases:
                is_left = number in stay
            else:  # another cleaning is writing it just now, or was outrun
                is_left = number >= self._before.earliest
            if not is_left:
                self._of_versions.append((f"{DIRECTORY}/checkpoints/{name}", entry.bytes, CHECKPOINT, number))

    def needed(self) -> Any:
        """Return the paths of the data and tombstone files that the versions that are left need."""
        return pa.chunked_array([*_chunks(self._needed), pa.array([], pa.string())])

    def named(self) -> Any:
        """Return the files that no version needs any more, a pa.Table of ``NAMED``."""
        owned = pa.concat_tables([*self._owned, _owned([])])
        owned = owned.filter(pc.invert(pc.is_in(owned.column("owner"), value_set=self.needed())))
        lasts = pa.concat_tables([*self._last, _LAST.empty_table()]).group_by("owner").aggregate([("last", "max")])
        at = pc.index_in(owned.column("owner"), value_set=lasts.column("owner"))
        last = lasts.column("last_max").take(at)
        reason = pa.repeat(pa.scalar(REPLACED), len(owned))
        replaced = pa.table([owned.column("path"), owned.column("bytes"), reason, last], schema=NAMED)
        replaced = replaced.filter(pc.is_valid(last)).group_by(["path", "bytes", "reason"]).aggregate([("last", "max")])
        replaced = replaced.rename_columns(["path", "bytes", "reason", "last"]).cast(NAMED)
        return pa.concat_tables([replaced, _rows(self._of_versions)])

    def known(self) -> Any:
        """Return the paths of all files that are not strays, a pa.ChunkedArray."""
        own = [table.column("path") for table in self._owned]
        of_versions = pa.array([path for path, *_ in self._of_versions], pa.string())
        return pa.chunked_array([*_chunks([*own, *self._names]), of_versions])


def owned_by(columns: Any) -> Any:
    """Return the files at paths of their own that live files consist of, a pa.Table of ``_OWNED``.

    columns: pa.Table of ``checkpoint.FILES``.
    """
    parts = []
    for path, size, content in STORED:
        apart = columns.select(["path", path, size] if path != "path" else ["path", size])
        is_there = pc.is_valid(columns.column(path))
        apart = apart.filter(pc.and_(is_there, pc.is_null(columns.column(content))))
        parts.append(pa.table([apart.column("path"), apart.column(path), apart.column(size)], schema=_OWNED))
    return pa.concat_tables(parts)


def _owned(parts: Iterable[tuple[str, FileEntry]]) -> Any:
    rows = [(owner, one.path, one.bytes) for owner, one in parts if one.is_apart]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table([pa.array(column, one.type) for column, one in zip(columns, _OWNED, strict=True)], schema=_OWNED)


def _rows(rows: Sequence[tuple[str, int, str, int]]) -> Any:
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.table([pa.array(column, one.type) for column, one in zip(columns, NAMED, strict=True)], schema=NAMED)


def _strays(found: DeadRuns) -> Any:
    count = len(found.paths)
    columns = [pa.array(found.paths, pa.string()), pa.array(found.bytes, pa.int64())]
    return pa.table([*columns, pa.repeat(pa.scalar(STRAY), count), pa.nulls(count, pa.int64())], schema=NAMED)


def _chunks(arrays: Iterable[Any]) -> list[Any]:
    return [chunk for one in arrays for chunk in (one.chunks if isinstance(one, pa.ChunkedArray) else [one])]


def _of(files: Any, reason: str) -> Any:
    return pc.equal(files.column("reason"), reason).to_numpy().astype(np.int8)
