"""One version of a table, as an entry of its log: the files that it adds and removes, and what it hides.

Small files can be in the entry itself (``content``), so that a small version is one object. A stored file is known by
its path in either case.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mutator.dataset.file_entry import DATA, INDEX, TOMBSTONES, Extent, FileEntry, is_safe
from mutator.dataset.manifest import FeedFile
from mutator.dataset.version_log import Arrived
from mutator.dataset.versions.cleaned import Cleaned, cleaned_members, cleaned_of
from mutator.rules.absences import Absence

_STORED = ("index", "withdrawn", "rejected")  # members that are lists of files
_CONTENT = ("path", "bytes", "checksum", "content")  # members of a file
ABANDON, COMPACT, CLEAN, RESTORE, TAG = "abandon", "compact", "clean", "restore", "tag"  # actions
OVERWRITE, OVERWRITE_TABLE = "insert_overwrite", "insert_overwrite_table"  # actions, as write.operation names them
OVERWRITES = (OVERWRITE, OVERWRITE_TABLE)
_REPLACES = (COMPACT, RESTORE, *OVERWRITES)  # actions that remove files
# A program that knows more of them writes a newer format.
_ACTIONS = ("create", "apply", ABANDON, COMPACT, CLEAN, RESTORE, TAG, *OVERWRITES)


@dataclass(frozen=True)
class Claim:
    """The feed files that a run of a workflow claimed before it applied them."""

    run: str  # of the workflow
    files: tuple[Arrived, ...]


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What a restore brings back beside files: all that an earlier version says of rows and feeds."""

    version: int  # the earlier one
    spec: Mapping[str, Any] | None
    forms: tuple[int, ...]  # of files, by the versions that they began with, which the table had had up to then
    feed: tuple[FeedFile, ...]  # files that were known to be merged
    transactions: Mapping[str, int]
    added: tuple[int, ...]  # by which version each of the files of the restore was added first
    masks: FileEntry | None  # which rows are hidden or touched, as in a checkpoint, of all files; None: no rows


@dataclass(frozen=True, kw_only=True)
class TableVersion:
    """A version of a table. Order values are text in the format of their type."""

    number: int
    id: str  # of this entry alone: shows whose entry was created if the answer is lost
    # create | apply | abandon: it only says which runs are given up | compact: it has the rows of the version before,
    # in other files | tag: it only adds and removes tags | insert_overwrite, insert_overwrite_table: it replaces
    # partitions, or everything | clean: it names files to be removed | restore: it has the rows of an earlier version.
    # In JSON its name is "kind".
    action: str
    run: str
    committed: str  # ISO 8601, UTC
    as_of: int  # version that the decisions of this commit were made against
    spec: Mapping[str, Any] | None  # None: that of the version before, or none at all before the first rows
    buckets: int
    hash: str
    horizon: str | None
    snapshot: str | None
    records: int  # live after this version
    tombstones: int
    # Of version 0, for the rows that are to come; of one that merged a feed, those by which its files were read and
    # merged, since releases that record them: texts, and lists of texts and numbers.
    settings: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    feed: tuple[FeedFile, ...] = ()  # merged by this version
    feed_since: str | None = None  # feed files that were merged earlier than this time are forgotten
    files: tuple[FileEntry, ...] = ()  # added
    removed: tuple[str, ...] = ()  # paths of files that are no longer live
    index: tuple[FileEntry, ...] = ()  # the version index: rows that this version hides or touches
    withdrawn: tuple[FileEntry, ...] = ()  # rows of ``files`` and of ``index`` that do not hold: ``hidden_rows``
    rejected: tuple[FileEntry, ...] = ()
    transaction: tuple[str, int] | None = None  # application, and number of its transaction
    claim: Claim | None = None  # of the run of a workflow that made this version
    given_up: tuple[str, ...] = ()  # runs that no later version may be of, because they count as dead
    tags: Mapping[str, int] = field(default_factory=dict)  # that it adds or moves: name -> version that it protects
    untagged: tuple[str, ...] = ()  # names of tags that it removes
    cleaned: Cleaned | None = None
    restored: Restored | None = None
    parent: str | None = None  # ID of the version before; None for version 0
    compacted: int | None = None  # the newest version before this one that may have removed files
    lost: int = 0  # records that an overwrite has replaced, although their keys were not known
    defaults: str | None = None  # of the fields that ``spec`` adds, for earlier rows: ``checkpoint.defaults_text``
    seconds: float = 0.0
    # That it merged, or took over with tombstones: commit time of the tombstones that it left, and highest order value
    absences: tuple[Absence, ...] = ()

    @property
    def last_replacement(self) -> int | None:
        """The newest version up to this one that may have removed files."""
        return self.number if self.action in _REPLACES else self.compacted

    def next(self, action: str, *, run: str, committed: str, **members: Any) -> TableVersion:
        """Return the version after this one that has its rows. committed: ISO 8601, UTC. members: others that it has.

        Without others it has no files, and says nothing of older rows.
        """
        values: dict[str, Any] = {
            "number": self.number + 1,
            "id": uuid.uuid4().hex,
            "action": action,
            "run": run,
            "committed": committed,
            "as_of": self.number,
            "spec": None,
            "buckets": self.buckets,
            "hash": self.hash,
            "horizon": self.horizon,
            "snapshot": self.snapshot,
            "records": self.records,
            "tombstones": self.tombstones,
            "parent": self.id,
            "compacted": self.last_replacement,
        }
        return TableVersion(**{**values, **members})

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


def members_of(version: TableVersion) -> dict[str, Any]:
    """Return a version as the members of a JSON document."""
    members = dict(vars(version))
    members["kind"] = members.pop("action")
    members["feed"] = [vars(file) for file in version.feed]
    members["files"] = [_file_members(file, version.buckets) for file in version.files]
    for name in _STORED:
        members[name] = [_stored_members(one) for one in members[name]]
    if version.cleaned is not None:
        members["cleaned"] = cleaned_members(version.cleaned)
    if version.claim is not None:
        members["claim"] = {"run": version.claim.run, "files": [vars(file) for file in version.claim.files]}
    if version.restored is not None:
        masks, feed = version.restored.masks, version.restored.feed
        own = {"masks": None if masks is None else _stored_members(masks), "feed": [vars(file) for file in feed]}
        members["restored"] = {**vars(version.restored), **own}
    return members


def version_of(members: dict[str, Any]) -> TableVersion:
    """Return the version of a JSON document. Raises KeyError, TypeError or ValueError for other members."""
    members["action"] = members.pop("kind")
    if members["action"] not in _ACTIONS:
        raise ValueError(f"its kind is {members['action']}")
    members["feed"] = tuple(FeedFile(**file) for file in members["feed"])
    members["files"] = tuple(_file_of(file, members["buckets"]) for file in members["files"])
    for name in _STORED:
        members[name] = tuple(map(_stored_of, members[name]))
    members["removed"] = tuple(members["removed"])
    members["absences"] = tuple((int(time), str(high)) for time, high in members["absences"])
    if members["transaction"] is not None:
        application, number = members["transaction"]
        members["transaction"] = (application, number)
    if members["claim"] is not None:
        claim = members["claim"]
        members["claim"] = Claim(claim["run"], tuple(Arrived(**file) for file in claim["files"]))
    if members["cleaned"] is not None:
        members["cleaned"] = cleaned_of(members["cleaned"])
    if members["restored"] is not None:
        members["restored"] = _restored_of(members["restored"])
        if len(members["restored"].added) != len(members["files"]):
            raise ValueError("it does not say by which version each of its files was added")
    for name in ("given_up", "untagged"):
        members[name] = tuple(members[name])
    version = TableVersion(**members)
    for one in version.stored():
        if not is_safe(one.path):
            raise ValueError(f"it names a file outside of the directory: {one.path}")
    return version


def _stored_members(one: FileEntry) -> dict[str, Any]:
    return {name: value for name in _CONTENT if (value := getattr(one, name)) is not None}


def _stored_of(members: Mapping[str, Any]) -> FileEntry:
    return FileEntry(role=INDEX, **members)


def _restored_of(members: dict[str, Any]) -> Restored:
    masks = None if members["masks"] is None else _stored_of(members["masks"])
    feed = tuple(FeedFile(**file) for file in members["feed"])
    numbers = {name: tuple(members[name]) for name in ("forms", "added")}
    return Restored(**{**members, **numbers, "feed": feed, "masks": masks})


def _file_members(file: FileEntry, buckets: int) -> dict[str, Any]:
    """Return a file as members. buckets: of an extent that does not say how many."""
    return {
        "role": file.role,
        "rows": file.rows,
        "data": _stored_members(file),
        "index": _stored_members(file.keys),
        # A packed file has very many extents, so their members have no names.
        "extents": [
            [one.partition, one.bucket, one.rows, one.high, *([one.buckets] if one.buckets != buckets else [])]
            for one in file.extents
        ],
        "schema": file.form,
    }


def _file_of(members: dict[str, Any], buckets: int) -> FileEntry:
    extents = tuple(
        Extent(partition=partition, bucket=bucket, rows=rows, high=high, buckets=own[0] if own else buckets)
        for partition, bucket, rows, high, *own in members["extents"]
    )
    file = FileEntry(
        **members["data"],
        role=members["role"],
        rows=members["rows"],
        form=members["schema"],
        extents=extents,
        index=_stored_of(members["index"]),
    )
    if sum(one.rows for one in extents) != file.rows or file.role not in (DATA, TOMBSTONES):
        raise ValueError(f"its description of {file.path} contradicts itself")
    return file
