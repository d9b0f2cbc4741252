"""Look at what is there before anything is planned: names, sizes, first bytes and rows, and the master's manifest.

This is the edge of ``plan``: all reading that the plan needs happens here, on the driver, and no file is read further
than its first row or line end (or, for a feed file that may have been consumed already or has a control file, to its
end).
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from mutator import checksum, control, manifest, naming, sequences
from mutator.config import Config
from mutator.errors import MutatorError, error
from mutator.formats import text
from mutator.formats.kinds import KINDS
from mutator.formats.tabular import Look
from mutator.look import Source, look_inside, read_schema
from mutator.manifest import Manifest
from mutator.storage import Entry, Storage, absolute, blocks, storage_for, writable_storage_for

__all__ = [
    "Source",
    "Survey",
    "dataset_sources",
    "differing_parts",
    "feed_entries",
    "is_straggler",
    "look_at",
    "read_manifest",
]


@dataclass(frozen=True)
class Survey:
    """All that the plan needs to know of the inputs."""

    master: tuple[Source, ...]
    manifest: Manifest | None
    master_path: str
    feed: tuple[Source, ...]
    feed_paths: tuple[str, ...]
    tombstones: tuple[Source, ...] = ()
    consumed: tuple[Source, ...] = ()  # feed files that an earlier run has merged
    ignored: tuple[str, ...] = ()  # names that start with _ or .
    notes: tuple[str, ...] = ()
    dataset_look: Look | None = None  # of all files of a managed master whose fields have names
    output_schema: tuple[str, Look] | None = None  # that the user wants, and where it stands
    places: tuple[str, ...] = ()  # names of the fields of a feed row, in their order, where the master says them


def look_at(config: Config, master: str, feed: Sequence[str]) -> Survey:
    """Find the files of a run and look at each.

    Raises ConfigError, DataError, StorageError or StateError, naming the path.
    """
    master = absolute(master)
    storage = writable_storage_for(master)
    master = storage.resolve(master)
    paths = tuple(absolute(path) for path in feed)
    ignored: list[str] = []
    known = None if config.master_adopt else read_manifest(storage, master)
    tombstones: tuple[Source, ...] = ()
    if known is not None:
        sources, tombstones = _managed(storage, master, known)
    else:
        sources = _unmanaged(config, storage, master, ignored, named=_calls_by_name(config))
    feed_files = feed_entries(config, paths, ignored)
    for path in feed_files:
        if path == master or posixpath.dirname(path) == master:
            raise error("path.roles", path=path, roles="master and feed")
    named = _calls_by_name(config) or (known is not None and "fields" in known.spec["key"])
    dataset = _dataset_look(known, master) if known is not None else None
    places = _feed_places(config, known, dataset)
    found = _look_at_feed(config, feed_files, named, places)
    if not named and any(one.kind != "text" for one in (*sources, *found)):
        found = _look_at_feed(config, feed_files, True, places)
        if known is None:
            sources = _unmanaged(config, storage, master, [], named=True)
    _check_kinds("feed", found)
    _check_kinds("master", sources)
    fresh, consumed, notes = _split_consumed(config, known, found)
    if config.control_suffix is not None:
        control.check(config.control_suffix, fresh)
    notes += _sequence_notes(config, known, fresh)
    if known is None and any(naming.is_data_file(one.name) for one in sources):
        what = "is adopted" if config.master_adopt else f"was written by mutator and has lost its {manifest.DIRECTORY}/"
        notes = (*notes, f"the master {what}: its tombstones, row sequences and merged feed files are forgotten")
    wanted = read_schema(config.output_schema) if config.output_schema is not None else None
    return Survey(
        sources, known, master, fresh, paths, tombstones, consumed, tuple(ignored), notes, dataset, wanted, places
    )


def feed_entries(config: Config, paths: Sequence[str], ignored: list[str]) -> dict[str, Entry]:
    """Find the feed files that full paths name, by path; control files are none. ignored: gets those that are hidden.

    Raises ConfigError, and DataError for a control file whose feed file is not there.
    """
    found: dict[str, Entry] = {}
    for path in paths:
        for entry in _find(path, ignored, "feed"):
            found.setdefault(entry.path, entry)  # a path that is matched twice is read once
    for entry in found.values():
        _check_entry(entry)
    return found if config.control_suffix is None else control.set_apart(config.control_suffix, paths, found)


def read_manifest(storage: Storage, directory: str) -> Manifest | None:
    """Read the manifest of a directory; None for a directory that this program did not write."""
    path = posixpath.join(directory, manifest.PATH)
    if storage.look(path) is None:
        if storage.look(posixpath.join(directory, manifest.DIRECTORY)) is not None:
            raise error("manifest.damaged", path=path, why="it is missing beside the rest of its directory")
        return None
    with storage.open(path) as stream:
        return manifest.parse(b"".join(blocks(stream)), path)


def _find(path: str, ignored: list[str], what: str) -> list[Entry]:
    """Return the regular files that a path names: a directory's, one file, or those that a pattern matches."""
    storage = storage_for(path)
    path = storage.resolve(path)
    entry = storage.look(path)
    if entry is None:
        # Directories may be links here as well, and one file must not come by two names.
        found = [storage.look(storage.resolve(one.path)) or one for one in storage.glob(path)]
        if not found:
            raise error("path.missing", path=path, what=f"{what} file or directory")
        nested = [
            one
            for match in found
            for one in (_find(match.path, ignored, what) if match.kind == "directory" else [match])
        ]
        return _visible(nested, ignored)
    if entry.kind == "directory":
        return _visible(storage.entries(path), ignored)
    if naming.is_hidden(entry.name):
        raise error("path.hidden", path=path)
    return [entry]


def _visible(entries: Iterable[Entry], ignored: list[str]) -> list[Entry]:
    kept = []
    for entry in entries:
        if naming.is_hidden(entry.name):
            ignored.append(entry.path)
        else:
            kept.append(entry)
    return kept


def _check_entry(entry: Entry) -> None:
    if entry.kind != "file":
        nested = "name it as a --feed of its own" if entry.kind == "directory" else "copy the data into a plain file"
        raise error("path.kind", path=entry.path, what=entry.kind, cure=nested)
    if naming.has_control(entry.name):
        raise error("path.name", path=entry.path)


def _calls_by_name(config: Config) -> bool:
    """Tell whether the configuration knows names of fields, or formats that have some."""
    fields = (*config.id_fields, config.order_field, config.op_field)
    formats = {config.master_format, config.feed_format, config.output_format} - {None, "text"}
    return any(isinstance(one, str) for one in fields) or bool(formats or config.output_schema or config.defaults)


def _look_at_feed(config: Config, files: Mapping[str, Entry], named: bool, places: tuple[str, ...]) -> list[Source]:
    form = config.feed_format
    return [
        look_inside(config, storage_for(path), entry, form, named=named, places=places) for path, entry in files.items()
    ]


def _feed_places(config: Config, known: Manifest | None, dataset: Look | None) -> tuple[str, ...]:
    """Return the names of the fields of a feed row where the master is escaped text, which has them in its manifest.

    The op code, if its place is configured, stands there, and no master row has it.
    """
    if known is None or dataset is None or known.spec["format"] != "escaped":
        return ()
    names = list(dataset.schema.names)
    if isinstance(config.op_field, int) and known.spec["op code"] is None and config.op_field <= len(names):
        op = "op_code"
        while op in names:
            op += "_"
        names.insert(config.op_field, op)
    return tuple(names)


def _unmanaged(config: Config, storage: Storage, master: str, ignored: list[str], *, named: bool) -> tuple[Source, ...]:
    entry = storage.look(master)
    if entry is None:
        if not config.allow_empty_master:
            raise error("master.missing", path=master)
        return ()
    entries = _visible(storage.entries(master), ignored) if entry.kind == "directory" else [entry]
    if any(is_straggler(storage, one.name) for one in entries):  # adopted: what its manifest names are its rows
        kept = _named(storage, master)
        entries = [one for one in entries if not kept or one.name in kept or not is_straggler(storage, one.name)]
    # An adopted master has its own bookkeeping below a hidden name, which says nothing about the rows.
    for one in entries:
        _check_entry(one)
    found = tuple(look_inside(config, storage, one, config.master_format, named=named) for one in entries)
    # What this program wrote, and is adopted now, has no headers and no marks, and its lines end at LF alone.
    return tuple(
        replace(one, ending=text.EXACT_LF, bom=False, header_end=0)
        if naming.is_data_file(one.name) and one.kind == "text"
        else one
        for one in found
    )


def _named(storage: Storage, master: str) -> set[str]:
    """Return the files that a manifest names; none where it cannot be read, which is why the master is adopted."""
    try:
        known = read_manifest(storage, master)
    except MutatorError:
        return set()
    return {part.path for part in known.parts()} if known is not None else set()


def _managed(storage: Storage, master: str, known: Manifest) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Hold the directory against its manifest; return the data files and the tombstone files."""
    named = {part.path for part in known.parts()}
    problems = differing_parts(storage, master, known)
    for entry in storage.entries(master):
        if not naming.is_hidden(entry.name) and entry.name not in named and not is_straggler(storage, entry.name):
            problems.append(f"{entry.name} is not one of its files")
    if problems:
        raise error("manifest.files", path=master, what=naming.some(problems))
    return dataset_sources(master, known)


def is_straggler(storage: Storage, name: str) -> bool:
    """Tell whether a file that no manifest names is of a task that ended after its run did, or was killed.

    It is no part of the dataset, and no fault of it either. That can only be where files are written where they stay;
    elsewhere such a task finds no directory.
    """
    return not storage.renames and naming.has_run_id(name)


def differing_parts(storage: Storage, directory: str, known: Manifest) -> list[str]:
    """Say which files of a manifest are missing, or have another size."""
    problems = []
    for part in sorted(known.parts(), key=lambda part: part.path):
        entry = storage.look(posixpath.join(directory, part.path))
        if entry is None:
            problems.append(f"{part.path} is missing")
        elif entry.kind != "file" or entry.bytes != part.bytes:
            problems.append(f"{part.path} has {entry.bytes} bytes and should have {part.bytes}")
    return problems


def dataset_sources(path: str, known: Manifest) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Return the data files and the tombstone files that a manifest names."""
    beside = {part.path: part for part in known.beside}
    look = _dataset_look(known, path)
    kind = known.spec["format"]
    data = tuple(
        Source(
            path=posixpath.join(path, part.path),
            name=naming.base_name(part.path),
            bytes=part.bytes,
            sequence=naming.sequence(naming.base_name(part.path)),
            ending=text.EXACT_LF,
            order_path=posixpath.join(path, part.order) if part.order else None,
            order_checksum=beside[part.order].checksum if part.order else None,
            checksum=part.checksum,
            bucket=part.bucket,
            part=part,
            order_part=beside[part.order] if part.order else None,
            kind=kind,
            look=look,
            header_end=0 if look is None else look.header_end,
        )
        for part in sorted(known.files, key=lambda part: os.fsencode(part.path))
    )
    tombstones = tuple(
        Source(
            path=posixpath.join(path, part.path),
            name=naming.base_name(part.path),
            bytes=part.bytes,
            checksum=part.checksum,
            bucket=part.bucket,
            part=part,
        )
        for part in known.beside
        if part.kind == "tombstones"
    )
    return data, tombstones


def _check_kinds(side: str, sources: Iterable[Source]) -> None:
    """Raise DataError where files of a side are of several kinds: one of them is not meant to be there."""
    kinds: dict[str, list[str]] = {}
    for source in sources:
        kinds.setdefault(source.kind, []).append(source.path)
    if len(kinds) > 1:
        counts = ", ".join(f"{len(paths)} {kind}" for kind, paths in sorted(kinds.items()))
        fewest = min(kinds.values(), key=len)[0]
        raise error(
            "format",
            path=fewest,
            what=f"the {side} has files of several formats ({counts})",
            cure=f"take out what is not meant, or set {side}.format",
        )


def _dataset_look(known: Manifest, path: str) -> Look | None:
    """Return what a manifest says of the fields of its files; None for text."""
    spec = known.spec
    if "fields" not in spec["key"]:
        return None
    try:
        return KINDS[spec["format"]].stored(spec)
    except (KeyError, ValueError, pa.ArrowException) as fault:
        raise error("manifest.damaged", path=path, why=f"its schema cannot be read: {fault}") from None


def _split_consumed(
    config: Config, known: Manifest | None, found: Sequence[Source]
) -> tuple[tuple[Source, ...], tuple[Source, ...], tuple[str, ...]]:
    """Part the feed files that an earlier run has merged from the others."""
    if known is None or config.full or config.consumed_files == "merge":
        return tuple(found), (), ()
    before: dict[str, list[manifest.FeedFile]] = {}
    for part in known.feed:
        before.setdefault(part.name, []).append(part)
    fresh, consumed, notes = [], [], []
    for source in found:
        same_name = before.get(source.name, [])
        if any(part.bytes == source.bytes and _checksum_is(source, part.checksum) for part in same_name):
            consumed.append(source)
            continue
        fresh.append(source)
        if not same_name:
            continue
        accept = config.reused_names or ("fail" if config.by_file_name else "accept")
        if accept == "fail":
            why = ", and order comes from file names" if config.reused_names is None else ", and reused.names=fail"
            sizes = {"before": same_name[-1].bytes, "after": source.bytes}
            raise error("feed.reused", path=source.path, **sizes, why=why)
        notes.append(f"{source.name} was consumed before with another content; it is merged as a new file")
    return tuple(fresh), tuple(consumed), tuple(notes)


def _sequence_notes(config: Config, known: Manifest | None, fresh: Sequence[Source]) -> tuple[str, ...]:
    """Say which files come late, and which have not come; raises DataError where that must not be."""
    before = [number for part in (known.feed if known else ()) if (number := naming.sequence(part.name)) is not None]
    new = [one.sequence for one in fresh if one.sequence is not None]
    notes = []
    late = sequences.late(before, new) if config.by_file_name else ()
    if late:
        names = [one.name for one in fresh if one.sequence in late]
        shown = naming.some(names)
        if config.late_files == "fail":
            raise error("feed.late", paths=shown, last=max(before))
        notes.append(f"late: {shown}: older than what was merged before (sequence {max(before)})")
    missing = sequences.gaps(before, new) if config.sequence_gaps != "ignore" else []
    if missing and config.sequence_gaps == "fail":
        raise error("feed.gaps", gaps=sequences.gaps_text(missing))
    if missing and (config.sequence_gaps == "report" or sequences.counts_files(before, new, missing)):
        notes.append(f"gaps: these sequences have not arrived: {sequences.gaps_text(missing)}")
    return tuple(notes)


def _checksum_is(source: Source, expected: str) -> bool:
    with storage_for(source.path).open(source.path) as stream:
        return checksum.of_blocks(blocks(stream), checksum.chunk_of(expected)) == expected
