"""Verify a table: its log, files, key indexes, masks, keys, counts and checkpoints; make again what is derived."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from mutator.dataset.versions.bookmarks import damaged_bookmarks
from mutator.errors import MutatorError, error
from mutator.errors.display import command, counted, printable
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.sections import ReportSection, said
from mutator.pipeline.verify import Difference, PlaceVerification, tombstones_in_words
from mutator.table.apply import OpenRunner
from mutator.table.clean_removal import StrayFiles, stray_files
from mutator.table.verify_file import put_back
from mutator.table.verify_history import HistoryOfTable
from mutator.table.verify_log import Walk
from mutator.table.verify_rows import RowsOfTable


@dataclass(frozen=True)
class TableVerification(PlaceVerification):
    """A table compared with its log, and what was made again."""

    table: str
    version: int  # the newest that could be read
    files: int
    records: int
    tombstones: int
    waiting: int  # tombstones that patches wait beside; 0 where the rows cannot be compared
    differences: tuple[Difference, ...]
    repaired: tuple[str, ...] = ()
    stray: StrayFiles | None = None  # None: the log cannot be read, so it is unknown which files it names

    @property
    def path(self) -> str:  # type: ignore[override]
        """The path of the table."""
        return self.table

    def size(self) -> str:
        """Return the version, and its number of files, records and tombstones."""
        size = counted(self.files, "file"), counted(self.records, "record")
        return f", version {self.version}: {', '.join(size)}, {tombstones_in_words(self.tombstones, self.waiting)}"

    def same(self) -> str:
        """Return what was compared."""
        return "as its log says: files, checksums, key indexes, hidden rows, one row per key, counts, checkpoints"

    def sections(self) -> Iterator[ReportSection]:
        """Yield what was repaired, the size, the differences or what was compared, and stray files."""
        yield said(*(f"repaired: {one}" for one in self.repaired))
        yield from super().sections()
        yield said(*([] if self.stray is None or not self.stray.files else [printable(self.stray.text())]))


_STARTS = 10  # times that a verification begins, because files that it needs are cleaned meanwhile


def verify_table(path: str, config_of: Any, open_runner: OpenRunner, *, repair: bool = False) -> TableVerification:
    """Compare a table with its log. repair: make key indexes, checkpoints and the hint again where they are damaged.

    path: full path. config_of: returns the Config of a snapshot. Raises ConfigError where there is no table, StateError
    if cleanings always remove files of the newest version before their keys are compared.
    """
    for _ in range(_STARTS):
        walk = _walked(path)
        differences, rebuilt, waiting, is_complete = _of_rows(walk, config_of, open_runner)
        if differences or is_complete:
            break
    else:
        raise error("table.outrun.verify", path=path)
    differences, files, repaired = [*walk.differences, *differences], len(walk.files), list[str]()
    differences += _of_bookmarks(path)
    if repair:
        differences, repaired = put_back(path, differences, rebuilt)
    now = walk
    if walk.whole and walk.derived() and walk.is_cleaned_since():
        now = _walked(path)  # the derived files that the first walk saw may be of files that are gone
    derived = now.derived() if now.whole else []
    if repair and derived and not now.differences:
        repaired += now.write_derived(derived)
        derived = []
    differences += derived
    version = None if walk.snapshot is None else walk.snapshot.version
    numbers = (0, 0, 0) if version is None else (version.number, version.records, version.tombstones)
    stray = stray_files(path, walk.named | now.named) if walk.whole else None
    return TableVerification(path, numbers[0], files, *numbers[1:], waiting, tuple(differences), tuple(repaired), stray)


def _of_bookmarks(table: str) -> Iterator[Difference]:
    for fault in damaged_bookmarks(table):
        name, path = fault.fields["name"], posixpath.relpath(fault.fields["path"], table)
        again = command("table", "bookmark", table, name)
        yield Difference("it cannot be read", path, f"set it again: {again}, or remove it: {again} --remove")


def _walked(path: str) -> Walk:
    """Return a walk that has read the log; it begins again where versions were cleaned while it read."""
    for _ in range(_STARTS):
        walk = Walk(path)
        walk.read_log()
        if not (walk.differences and walk.is_cleaned_since()):
            break
    return walk


def _of_rows(
    walk: Walk, config_of: Any, open_runner: OpenRunner
) -> tuple[list[Difference], dict[str, bytes], int, bool]:
    """Compare the files of a walk and their rows with the log.

    Return (differences, key indexes that were made again by path, tombstones that patches wait beside, whether all keys
    could be compared). A verification may take longer than the grace of a cleaning: the differences of files that no
    version has any more are left out.
    """
    if walk.snapshot is None or not walk.snapshot.state.spec:
        return [], {}, 0, True
    done = RowsOfTable(walk, config_of(walk.snapshot), open_runner)
    differences, rebuilt = done.differences(), done.rebuilt
    if walk.snapshot.has_history and not differences:
        try:
            differences = [*HistoryOfTable(walk.snapshot, open_runner).differences()]
        except MutatorError:
            if walk.is_cleaned_since():
                return [], {}, done.waiting, False
            raise
    if not (differences and walk.is_cleaned_since()):
        return differences, rebuilt, done.waiting, True
    now = _walked(walk.table)
    gone = [file for path, file in walk.files.items() if path not in now.files] if now.whole else []
    paths = {part.path for file in gone for part in file.stored()}
    left = [one for one in differences if one.file not in paths]
    live = set(walk.snapshot.files.column("path").to_pylist())
    newest = {part.path for file in gone if file.path in live for part in file.stored()}
    is_complete = not any(one.file in newest for one in differences)
    rebuilt = {path: content for path, content in rebuilt.items() if path not in paths}
    return left, rebuilt, done.waiting, is_complete
