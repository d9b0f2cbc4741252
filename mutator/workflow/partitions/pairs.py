"""Pair the partition directories of a master with those of a split feed, and identify their content.

The record of the runs of partitions, ``_partition_runs.json``: it resumes a stopped loop, and stays in the output.

There it names every partition, so a master that lacks one of them is recognized.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from mutator.config.settings import Config, InputSpec
from mutator.dataset import checksummed_json, manifest, split_record
from mutator.dataset.directory import check_no_base, check_no_table, differing_parts, read_manifest, unrecorded_files
from mutator.dataset.split_record import SplitRecord
from mutator.errors import MutatorError, error
from mutator.errors.display import without_secrets
from mutator.rules import file_names
from mutator.rules.partition_fields import PartitionField, parse_fields
from mutator.rules.partition_paths import directory_of, values_of
from mutator.storage import read_if_exists, storage_for, walk

_NAME, _FORMAT, _VERSION = "_partition_runs.json", "mutator partition runs", 1


def record_path(directory: str) -> str:
    """Return the path of the record in a directory of partitions."""
    return posixpath.join(directory, _NAME)


def read_record(directory: str) -> dict[str, Any] | None:
    """Return the record in a directory; None if it has none. Raises ValueError if it is damaged or newer."""
    data = read_if_exists(record_path(directory))
    return None if data is None else checksummed_json.parse(data, _FORMAT, _VERSION)


def record_content(inputs: Mapping[str, Any], runs: Sequence[Mapping[str, Any]] | None) -> bytes:
    """Return a record as JSON. runs: of all partitions; None as long as some are missing."""
    return checksummed_json.dump(_FORMAT, _VERSION, {"inputs": dict(inputs), "partitions": runs})


def check_partitions(master: str, directories: Collection[str]) -> None:
    """Raise StateError if a master that a loop wrote lacks a partition.

    directories: those of its partitions, in canonical spelling.
    """
    try:
        record = read_record(master)
        made = canonical(run["directory"] for run in (record or {}).get("partitions") or ())
    except (ValueError, KeyError, TypeError) as fault:
        raise error("partition.record", path=record_path(master), why=fault) from None
    if lost := made - set(directories):
        raise lost_partitions(master, lost, "mutator partition-runs", _NAME)


def canonical(directories: Iterable[str]) -> set[str]:
    """Return the directories of partitions in canonical spelling. Raises ValueError."""
    found = map(values_of, directories)
    return {directory_of([name for name, _ in values], [value for _, value in values]) for values in found}


def lost_partitions(master: str, lost: Collection[str], writer: str, record: str) -> MutatorError:
    """Return the error of a master without partitions that it had. record: the file that names them."""
    return error(
        "partition.lost", path=master, partitions=file_names.first_few(sorted(lost)), writer=writer, record=record
    )


Pair = tuple[str | None, str | None]  # directories of a partition in master and feed; None: it has none there


def pairs_of(inputs: InputSpec, master: str, feed: str) -> dict[str, Pair]:
    """Return the directories of each partition in master and feed; the keys are directories of the output.

    Raises MutatorError if a directory is missing, damaged, or not partitioned as the other.
    """
    if storage_for(feed).stat(feed) is None:
        raise error("path.missing", path=feed, what="split feed")
    check_no_table(feed)
    _check_record(feed)
    if storage_for(master).stat(master) is None:
        if not inputs.allow_empty_master:
            raise error("master.missing", path=master)
        old: dict[str, str] = {}
    else:
        old = _leaves(master)
    new = _leaves(feed)
    by: dict[tuple[str, ...], str] = {}  # names of partition fields -> a directory with these
    for root, leaves in ((master, old), (feed, new)):
        for directory in leaves.values():
            by.setdefault(tuple(name for name, _ in values_of(directory)), posixpath.join(root, directory))
    if len(by) > 1:
        (names, path), (others, other) = list(by.items())[:2]
        what = f"is a partition by {', '.join(names)}, and {other} one by {', '.join(others)}"
        raise error("partition.tree", path=path, what=what)
    check_partitions(master, old)
    _check_split_master(master, old)
    if not old and not inputs.allow_empty_master and not _is_recorded(master):
        raise error("master.empty", path=master)
    found: dict[str, Pair] = {}
    for key in sorted({*old, *new}):
        spelled = old.get(key) or new[key]
        own = posixpath.join(master, old[key]) if key in old else None
        found[spelled] = (own, posixpath.join(feed, new[key]) if key in new else None)
    return found


def _leaves(root: str) -> dict[str, str]:
    """Return the partition directories below a directory: canonical path -> path as it is spelled there."""
    found: dict[str, str] = {}
    storage = storage_for(root)

    def walk_into(steps: tuple[str, ...]) -> None:
        path = posixpath.join(root, *steps)
        entries = [one for one in storage.entries(path) if not file_names.is_hidden(one.name)]
        inner = [one for one in entries if one.type == "directory" and "=" in one.name]
        if not steps:
            check_no_base(storage, root, entries)
        if not steps and not inner and not entries:
            return
        if steps and not inner:
            directory = "/".join(steps)
            try:
                values = values_of(directory)
            except ValueError as fault:
                raise error("partition.tree", path=path, what=fault) from None
            key = directory_of([name for name, _ in values], [value for _, value in values])
            if key in found:
                raise error("partition.tree", path=path, what=f"is the partition that {found[key]} is")
            found[key] = directory
            return
        for one in entries:
            if one not in inner:
                raise error("partition.tree", path=one.path, what="is beside partition directories, but is not one")
            walk_into((*steps, one.name))

    walk_into(())
    return found


def _check_record(feed: str) -> None:
    """Raise StateError if the files of a split feed differ from its record."""
    record = _record_of(feed)
    if record is None:
        return
    storage, parts, listed = storage_for(feed), record.split_parts(), list(walk(feed))
    if differ := differing_parts(storage, feed, parts, listed):
        raise error("split.files", path=feed, what=file_names.first_few(differ))
    if more := unrecorded_files(storage, feed, parts, listed):
        raise error("split.unrecorded", path=feed, names=file_names.first_few(more))


def _check_split_master(master: str, directories: Collection[str]) -> None:
    """Raise StateError if a master that ``mutator partition`` split lacks a partition."""
    record = _record_of(master)
    if record is not None and (lost := canonical(part.directory for part in record.split_parts()) - set(directories)):
        raise lost_partitions(master, lost, "mutator partition", split_record.PATH)


def _is_recorded(master: str) -> bool:
    """Return whether a master has a record of its partitions, which may be none."""
    paths = (record_path(master), posixpath.join(master, split_record.PATH))
    return any(storage_for(master).stat(path) is not None for path in paths)


def _record_of(feed: str) -> SplitRecord | None:
    """Return the record of a split feed; None for one that another program has split."""
    path = posixpath.join(feed, split_record.PATH)
    data = read_if_exists(path)
    return None if data is None else split_record.parse(data, path)


def fields_of(feed: str, pairs: Mapping[str, Pair]) -> tuple[tuple[str, ...], tuple[PartitionField, ...]]:
    """Return the names of the fields of partition directories, and how a split feed made them, empty if unknown."""
    record = _record_of(feed)
    names = next((tuple(name for name, _ in values_of(directory)) for directory in pairs), ())
    return names, () if record is None else parse_fields(record.by)


def inputs_of(config: Config, master: str, feed: str, pairs: Mapping[str, Pair]) -> dict[str, Any]:
    """Return the inputs of a loop as JSON values, which must be the same when it is resumed."""
    record = _record_of(feed)
    content = {without_secrets(path): _content(path) for pair in pairs.values() for path in pair if path is not None}
    paths = {"master": without_secrets(master), "feed": without_secrets(feed)}
    settings = {"as published": config.rows.ops.as_published, **config.given}
    shown = {name: repr(value) for name, value in settings.items()}
    return {**paths, "split": record and record.commit.id, "config": shown, "content": content}


def _content(directory: str) -> Any:
    """Return what identifies the content of a directory: the commit of its manifest, or a listing."""
    storage = storage_for(directory)
    if storage.stat(posixpath.join(directory, manifest.PATH)) is not None:
        known = read_manifest(storage, directory)
        return known.commit.id if known is not None else None
    # A link to a file, such as that of a backup, changes ``modified`` on some storages, but never ``written``.
    files = [one for one in storage.entries(directory) if not file_names.is_hidden(one.name)]
    return sorted([one.name, one.bytes, one.last_write, one.tag] for one in files)


def differing_inputs(begun: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the names of the inputs that differ from those that a loop was begun with."""
    names = sorted(name for name, value in now.items() if begun.get(name) != value)
    if names != ["content"]:
        return " and ".join(name for name in names if name != "content")
    before, there = begun.get("content", {}), now["content"]
    paths = sorted(path for path in {*before, *there} if before.get(path) != there.get(path))
    return f"content of {file_names.first_few(paths)}"
