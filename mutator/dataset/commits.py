"""A commit: what one version says of a place. A log has an entry for each, and a state is the fold of all of them.

A commit names the files that it adds and removes, the rows that it hides, the feed files that it merged, and counts.
Small files can be in the entry of a table's log itself (``content``), so that a small version is one object.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mutator.config.feed_settings import keeps_history
from mutator.dataset.file_entry import OF_HISTORY, FileEntry
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.absences import Absence, Part
from mutator.rules.epochs import EPOCHS

ABANDON, COMPACT, CLEAN, RESTORE, TAG = "abandon", "compact", "clean", "restore", "tag"  # actions
OVERWRITE, OVERWRITE_TABLE = "insert_overwrite", "insert_overwrite_table"  # actions, as write.operation names them
RUN = "run"  # action of a run that makes a dataset
REORDER = "order"  # action of a base: the dataset has the rows of the one before, in another order


class Action(NamedTuple):
    """What holds for all versions of a table that have an action."""

    has_rows: bool = True  # False: they have the files of the one before, and change no row
    removes: bool = False  # they may remove files
    overwrites: bool = False
    # They need no file that a cleaning may name: one that was planned before them may follow.
    before_cleaning: bool = False


# Of a table. To add one, add a line. A program that knows more of them writes a newer format.
ACTIONS: Mapping[str, Action] = {
    "create": Action(),
    "apply": Action(before_cleaning=True),
    ABANDON: Action(has_rows=False, before_cleaning=True),
    COMPACT: Action(removes=True, before_cleaning=True),
    CLEAN: Action(has_rows=False),
    RESTORE: Action(removes=True),
    TAG: Action(has_rows=False),
    OVERWRITE: Action(removes=True, overwrites=True, before_cleaning=True),
    OVERWRITE_TABLE: Action(removes=True, overwrites=True, before_cleaning=True),
}
OVERWRITES = tuple(name for name, one in ACTIONS.items() if one.overwrites)
WITHOUT_ROWS = tuple(name for name, one in ACTIONS.items() if not one.has_rows)
_REMOVES = tuple(name for name, one in ACTIONS.items() if one.removes)


@dataclass(frozen=True)
class FeedFile:
    """A feed file that was merged."""

    name: str
    bytes: int
    checksum: str
    committed: str


@dataclass(frozen=True)
class Arrived:
    """A feed file as it was when a run claimed it."""

    name: str
    bytes: int
    modified: float
    tag: str = ""


@dataclass(frozen=True)
class Claim:
    """The feed files that a run of a workflow claimed before it applied them."""

    run: str  # of the workflow
    files: tuple[Arrived, ...]


@dataclass(frozen=True)
class Left:
    """Which versions are left."""

    earliest: int = 0  # versions below it are gone, but for those of ``bases``
    # Version -> name of the checkpoint that it begins with: ``earliest``, and the tagged versions below it.
    bases: Mapping[int, str] = field(default_factory=dict)
    # (version that is gone, path) of files that name withdrawn rows: a history needs them as long as it finds the rows.
    kept: tuple[tuple[int, str], ...] = ()

    def has(self, number: int) -> bool:
        """Return whether a version that existed is still there."""
        return number >= self.earliest or number in self.bases


@dataclass(frozen=True)
class Cleaned:
    """The part of a commit that a cleaning writes."""

    left: Left
    before: Left  # what was left before it
    named: FileEntry  # the list of the files
    files: int  # that the list names
    bytes: int  # of these
    done: tuple[int, ...] = ()  # earlier cleanings whose files are removed, or are named again


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What a restore brings back; of a table, beside files, all that an earlier version says of rows and feeds."""

    version: int  # the earlier one
    spec: Mapping[str, Any] | None = None
    forms: tuple[int, ...] = ()  # of files, by the versions that they began with, which the table had had up to then
    feed: tuple[FeedFile, ...] = ()  # files that were known to be merged
    transactions: Mapping[str, int] = field(default_factory=dict)
    added: tuple[int, ...] = ()  # by which version each of the files of the restore was added first
    masks: FileEntry | None = None  # which rows are hidden or touched, as in a checkpoint, of all files; None: no rows


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A version of a place. A manifest has that of its dataset. Order values are text in the format of their type."""

    number: int  # in the log; 0 in a manifest, which does not say it
    id: str  # of this entry alone: shows whose entry was created if the answer is lost
    # create | apply | abandon: it only says which runs are given up | compact: it has the rows of the version before,
    # in other files | tag: it only adds and removes tags | insert_overwrite, insert_overwrite_table: it replaces
    # partitions, or everything | clean: it names files to be removed | restore: it has the rows of an earlier version.
    # Of a base: run | restore | abandoned: the run can no longer commit, and changed nothing | settled: every feed file
    # of the run had been merged before. In JSON its name is "kind".
    action: str
    run: str
    committed: str  # ISO 8601, UTC
    parent: str | None = None  # ID of the version before; None for version 0
    horizon: str | None = None  # highest order value of any expired tombstone; "" for the lowest value
    floor: str | None = None  # highest order value of a truncate: a key that is not known counts as deleted at it
    snapshot: str | None = None  # highest order value of the last full snapshot of everything
    parts: tuple[Part, ...] = ()  # the same of the last snapshots of parts of the records
    records: int = 0  # live after this version
    counts: Mapping[str, int] = field(default_factory=dict)
    feed: tuple[FeedFile, ...] = ()  # merged by this version
    claim: Claim | None = None  # of the run of a workflow that made this version
    restored: Restored | None = None
    # Of a base, whose datasets have manifests.
    dataset: str | None = None  # commit ID of the manifest; None: the master that existed before the first run
    path: str | None = None  # where the run wrote the dataset, relative to the base
    # Of a table.
    as_of: int = 0  # version that the decisions of this commit were made against
    spec: Mapping[str, Any] | None = None  # None: that of the version before, or none at all before the first rows
    buckets: int = 0
    hash: str = ""
    tombstones: int = 0
    # Of version 0, for the rows that are to come; of one that merged a feed, those by which its files were read and
    # merged, since releases that record them: texts, and lists of texts and numbers.
    settings: Mapping[str, Any] = field(default_factory=dict)
    feed_since: str | None = None  # feed files that were merged earlier than this time are forgotten
    files: tuple[FileEntry, ...] = ()  # added
    removed: tuple[str, ...] = ()  # paths of files that are no longer live
    index: tuple[FileEntry, ...] = ()  # the version index: rows that this version hides or touches
    withdrawn: tuple[FileEntry, ...] = ()  # rows of ``files`` and of ``index`` that do not hold: ``hidden_rows``
    rejected: tuple[FileEntry, ...] = ()
    transaction: tuple[str, int] | None = None  # application, and number of its transaction
    given_up: tuple[str, ...] = ()  # runs that no later version may be of, because they count as dead
    tags: Mapping[str, int] = field(default_factory=dict)  # that it adds or moves: name -> version that it protects
    untagged: tuple[str, ...] = ()  # names of tags that it removes
    cleaned: Cleaned | None = None
    compacted: int | None = None  # the newest version before this one that may have removed files
    lost: int = 0  # records that an overwrite has replaced, although their keys were not known
    defaults: str | None = None  # of the fields that ``spec`` adds, for earlier rows: ``state.defaults_text``
    seconds: float = 0.0
    # That it merged, or took over with tombstones: commit time of the tombstones that it left, and highest order value
    absences: tuple[Absence, ...] = ()
    truncates: tuple[str, ...] = ()  # of a table with history: order values of all truncates so far, ascending

    @property
    def has_newest_members(self) -> bool:
        """Whether it has members that only the newest format version has."""
        if any(file.role in OF_HISTORY for file in self.files) or keeps_history(self.settings):
            return True
        return self.floor is not None or bool(self.parts or self.truncates) or EPOCHS in (self.spec or ())

    @property
    def snapshots(self) -> tuple[Part, ...]:
        """The last snapshots: those of parts, and the one of everything, which has no conditions."""
        return (*self.parts, *([] if self.snapshot is None else [((), self.snapshot)]))

    @property
    def last_replacement(self) -> int | None:
        """The newest version up to this one that may have removed files."""
        return self.number if self.action in _REMOVES else self.compacted

    def next(self, action: str, *, run: str, committed: str, **members: Any) -> Commit:
        """Return the version after this one that has its rows. committed: ISO 8601, UTC. members: others that it has.

        Without others it has no files, and says nothing of older rows.
        """
        values: dict[str, Any] = {
            "number": self.number + 1,
            "id": uuid.uuid4().hex,
            "action": action,
            "run": run,
            "committed": committed,
            "dataset": self.dataset,
            "path": self.path,
            "as_of": self.number,
            "buckets": self.buckets,
            "hash": self.hash,
            "horizon": self.horizon,
            "floor": self.floor,
            "snapshot": self.snapshot,
            "parts": self.parts,
            "truncates": self.truncates,
            "records": self.records,
            "tombstones": self.tombstones,
            "parent": self.id,
            "compacted": self.last_replacement,
        }
        return Commit(**{**values, **members})

    @property
    def claimed(self) -> tuple[Arrived, ...]:
        """The feed files that its run claimed."""
        return () if self.claim is None else self.claim.files

    @property
    def listed(self) -> int:
        """Number of extents and removed files in its entry. Feed files do not count: a checkpoint has them, too."""
        return sum(len(file.extents) for file in self.files) + len(self.removed)

    def stored(self) -> Iterator[FileEntry]:
        """Yield every file that the version added, those in the entry too."""
        for file in self.files:
            yield from file.stored()
        yield from self.index
        yield from self.withdrawn
        yield from self.rejected
        if self.restored is not None and self.restored.masks is not None:
            yield self.restored.masks


def time_text(milliseconds: int) -> str:
    """Return a time since 1970 as a commit has it: ISO 8601 text in UTC.

    >>> time_text(1_000)
    '1970-01-01T00:00:01.000+00:00'
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def next_time(clock: float, before: Commit | None) -> int:
    """Return the commit time of the version after ``before``, in milliseconds since 1970.

    clock: seconds since 1970. Where the clock is not later than the commit time of ``before``, the result is one
    millisecond later than that. So each version has a time of its own, and the times increase along the log.
    """
    now = int(clock * 1000)
    return now if before is None else max(now, round(datetime.fromisoformat(before.committed).timestamp() * 1000) + 1)
