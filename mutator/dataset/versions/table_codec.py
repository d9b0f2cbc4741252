"""Entries of a table's log as the members of JSON documents, and back; and the lists of files that cleanings name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mutator.dataset.commits import (
    ACTIONS,
    Arrived,
    Claim,
    Cleaned,
    Commit,
    FeedFile,
    Left,
    Restored,
)
from mutator.dataset.file_entry import INDEX, WITH_ROWS, Extent, FileEntry, unsafe_path
from mutator.dataset.state import Cleaning, Waiting
from mutator.rules.absences import parts_of

# Members of an entry, all of which it has, in their order; ``kind`` follows, and those that an entry may lack.
_MEMBERS = (
    *("number", "id", "run", "committed", "as_of", "spec", "buckets", "hash", "horizon", "snapshot", "records"),
    *("tombstones", "settings", "counts", "feed", "feed_since", "files", "removed", "index", "withdrawn", "rejected"),
    *("transaction", "claim", "given_up", "tags", "untagged", "cleaned", "restored", "parent", "compacted", "lost"),
    *("defaults", "seconds", "absences"),
)
_RARE = ("parts", "truncates")  # lists that an entry lacks if they are empty
_STORED = ("index", "withdrawn", "rejected")  # members that are lists of files
_CONTENT = ("path", "bytes", "checksum", "content")  # members of a file
# Reasons for which a file is named.
REPLACED = "replaced"  # a version has removed it, and all versions that had it are gone; its key index, too
GONE = "version gone"  # its version is gone: version index, rejected rows
CHECKPOINT = "checkpoint"  # of a version that is gone
STRAY = "no version"  # of a run that made no version, and is given up
NAMED = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),  # relative to the table
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("last", pa.int64()),  # the last version that needed it; null: none did
    ]
)


def members_of(version: Commit) -> dict[str, Any]:
    """Return a version as the members of a JSON document."""
    members: dict[str, Any] = {name: getattr(version, name) for name in _MEMBERS}
    members["kind"] = version.action
    members |= {} if version.floor is None else {"floor": version.floor}
    members |= {name: found for name in _RARE if (found := getattr(version, name))}
    members["feed"] = [vars(file) for file in version.feed]
    members["files"] = [_file_members(file, version.buckets) for file in version.files]
    for name in _STORED:
        members[name] = [_stored_members(one) for one in members[name]]
    if version.cleaned is not None:
        members["cleaned"] = _cleaned_members(version.cleaned)
    if version.claim is not None:
        members["claim"] = {"run": version.claim.run, "files": [vars(file) for file in version.claim.files]}
    if version.restored is not None:
        masks, feed = version.restored.masks, version.restored.feed
        own = {"masks": None if masks is None else _stored_members(masks), "feed": [vars(file) for file in feed]}
        members["restored"] = {**vars(version.restored), **own}
    return members


def version_of(members: dict[str, Any]) -> Commit:
    """Return the version of a JSON document. Raises KeyError, TypeError or ValueError for other members."""
    members["action"] = members.pop("kind")
    members.setdefault("floor", None)
    members["parts"] = parts_of(members.pop("parts", ()))
    members["truncates"] = tuple(members.pop("truncates", ()))
    if members.keys() != {*_MEMBERS, *_RARE, "floor", "action"}:
        raise ValueError("its members are not those of this format")
    if members["action"] not in ACTIONS:
        raise ValueError(f"its kind is {members['action']}")
    members["feed"] = tuple(FeedFile(**file) for file in members["feed"])
    members["files"] = tuple(_file_of(file, members["buckets"]) for file in members["files"])
    for name in _STORED:
        role = "rejected" if name == "rejected" else INDEX
        members[name] = tuple(_stored_of(one, role) for one in members[name])
    members["removed"] = tuple(members["removed"])
    members["absences"] = tuple((int(time), str(high)) for time, high in members["absences"])
    if members["transaction"] is not None:
        application, number = members["transaction"]
        members["transaction"] = (application, number)
    if members["claim"] is not None:
        claim = members["claim"]
        members["claim"] = Claim(claim["run"], tuple(Arrived(**file) for file in claim["files"]))
    if members["cleaned"] is not None:
        members["cleaned"] = _cleaned_of(members["cleaned"])
    if members["restored"] is not None:
        members["restored"] = _restored_of(members["restored"])
        if len(members["restored"].added) != len(members["files"]):
            raise ValueError("it does not say by which version each of its files was added")
    for name in ("given_up", "untagged"):
        members[name] = tuple(members[name])
    version = Commit(**members)
    unsafe = unsafe_path([one.path for one in version.stored()])
    if unsafe is not None:
        raise ValueError(f"it names a file outside of the directory: {unsafe}")
    return version


def _stored_members(one: FileEntry) -> dict[str, Any]:
    return {name: value for name in _CONTENT if (value := getattr(one, name)) is not None}


def _stored_of(members: Mapping[str, Any], role: str = INDEX) -> FileEntry:
    return FileEntry(role=role, **members)


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
        **({} if file.sides is None else {"sides": _stored_members(file.sides)}),
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
        sides=_stored_of(members["sides"]) if "sides" in members else None,
    )
    if sum(one.rows for one in extents) != file.rows or file.role not in WITH_ROWS:
        raise ValueError(f"its description of {file.path} contradicts itself")
    return file


def _cleaned_members(cleaned: Cleaned) -> dict[str, Any]:
    """Return what a cleaning says as the members of a JSON document."""
    left, before = _left_members(cleaned.left), _left_members(cleaned.before)
    return {**vars(cleaned), "left": left, "before": before, "named": _stored_members(cleaned.named)}


def _cleaned_of(members: Mapping[str, Any]) -> Cleaned:
    """Undo ``_cleaned_members``. Raises KeyError, TypeError or ValueError for other members."""
    left, before = _left_of(members["left"]), _left_of(members["before"])
    named, done = _stored_of(members["named"]), tuple(members["done"])
    return Cleaned(**{**members, "left": left, "before": before, "named": named, "done": done})


def cleaning_members(cleaning: Cleaning) -> dict[str, Any]:
    """Return what all cleanings say as the members of a JSON document."""
    waiting = [
        {"cleaning": number, **vars(one), "before": _left_members(one.before), "named": _stored_members(one.named)}
        for number, one in cleaning.waiting.items()
    ]
    return {"left": _left_members(cleaning.left), "waiting": waiting}


def cleaning_of(members: Mapping[str, Any]) -> Cleaning:
    """Undo ``cleaning_members``. Raises KeyError, TypeError or ValueError for other members."""
    waiting = {}
    for one in members["waiting"]:
        number, before, named = one.pop("cleaning"), _left_of(one["before"]), _stored_of(one["named"])
        waiting[number] = Waiting(**{**one, "before": before, "named": named})
    return Cleaning(_left_of(members["left"]), waiting)


def _left_members(left: Left) -> dict[str, Any]:
    return {**vars(left), "bases": [[number, name] for number, name in sorted(left.bases.items())]}


def _left_of(members: Mapping[str, Any]) -> Left:
    kept = tuple((number, path) for number, path in members["kept"])
    return Left(members["earliest"], dict(members["bases"]), kept)


def written_list(files: Any) -> bytes:
    """Return the bytes of a list of named files. files: pa.Table of ``NAMED``."""
    sink = pa.BufferOutputStream()
    pq.write_table(files, sink, compression="zstd", use_dictionary=["reason", "last"])
    return bytes(sink.getvalue())


def read_list(content: bytes) -> Any:
    """Return the named files of a list, a pa.Table of ``NAMED``. Raises ValueError for other bytes."""
    try:
        return pq.ParquetFile(pa.BufferReader(content)).read(NAMED.names).cast(NAMED)
    except (pa.ArrowException, OSError, KeyError) as fault:
        raise ValueError(str(fault)) from None
