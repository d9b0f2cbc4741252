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
from functools import partial

from mutator.config import Config
from mutator.dataset import checksum, manifest
from mutator.dataset.directory import check_files, is_straggler, read_manifest
from mutator.dataset.manifest import Manifest
from mutator.dataset.partition_index import Files, by_partition, is_partitioned
from mutator.errors import MutatorError, error
from mutator.formats.files import lines
from mutator.formats.files.contract import FileSchema
from mutator.plan.inspect import control_files
from mutator.plan.inspect.managed import dataset_schema, dataset_sources, forms_of
from mutator.plan.inspect.probe import Source, probe_file, read_schema
from mutator.rules import file_names, sequence_gaps
from mutator.storage import Entry, Storage, absolute, blocks, storage_for, writable_storage_for

__all__ = ["Source", "Survey", "feed_entries", "survey_inputs"]

# What to do about a directory in a master.
_TREE = "if it is a partition's, say by which fields: --partitioned-by FIELDS, or partitioned.by=FIELDS"
_NO_TREE = "a master's files lie in its directory, or in those of partitions, as in store_id=12/: move its files up"


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
    dataset_schema: FileSchema | None = None  # of all files of a managed master whose fields have names
    output_schema: tuple[str, FileSchema] | None = None  # that the user wants, and where it stands
    places: tuple[str, ...] = ()  # names of the fields of a feed row, in their order, where the master says them
    partitions: Mapping[str, Files] | None = None  # of a partitioned master; ``master`` has a file of each form alone


def survey_inputs(config: Config, master: str, feed: Sequence[str]) -> Survey:
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
    partitions = by_partition(known) if known is not None and is_partitioned(known) else None
    if known is not None and partitions is not None:
        sources = forms_of(master, known)  # its files are looked at while Spark reads the feed (``engine.carry``)
    elif known is not None:
        sources, tombstones = _managed(storage, master, known)
    else:
        sources = _unmanaged(config, storage, master, ignored, named=_calls_by_name(config))
    own = _masters_below(master, ignored) if known is None else []
    feed_files = feed_entries(config, paths, ignored)
    for path in feed_files:
        if path == master or posixpath.dirname(path) == master:
            raise error("path.roles", path=path, roles="master and feed")
    named = _calls_by_name(config) or (known is not None and "fields" in known.spec["key"])
    dataset = dataset_schema(known, master) if known is not None else None
    places = _feed_places(config, known, dataset)
    found = _look_at_feed(config, feed_files, named, places)
    if not named and any(one.kind != "text" for one in (*sources, *found)):
        found = _look_at_feed(config, feed_files, True, places)
        if known is None:
            sources = _unmanaged(config, storage, master, [], named=True)
    _check_kinds("feed", found)
    if partitions is None:
        _check_kinds("master", sources)
    fresh, consumed, notes = _split_consumed(config, known, found)
    if config.control_suffix is not None:
        control_files.check(config.control_suffix, fresh)
    notes += _sequence_notes(config, known, fresh)
    if own:
        what = f"its {len(own):,} partitions with manifests of their own"
        forgotten = f"the tombstones, row sequences and merged feed files of {what} are forgotten"
        notes = (*notes, f"the master is adopted: {forgotten}")
    elif known is None and any(file_names.is_data_file(one.name) for one in sources):
        what = "is adopted" if config.master_adopt else f"was written by mutator and has lost its {manifest.DIRECTORY}/"
        notes = (*notes, f"the master {what}: its tombstones, row sequences and merged feed files are forgotten")
    wanted = read_schema(config.output_schema) if config.output_schema is not None else None
    return Survey(
        sources,
        known,
        master,
        fresh,
        paths,
        tombstones,
        consumed,
        tuple(ignored),
        notes,
        dataset,
        wanted,
        places,
        partitions,
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
    return found if config.control_suffix is None else control_files.set_apart(config.control_suffix, paths, found)


def _find(path: str, ignored: list[str], what: str) -> list[Entry]:
    """Return the regular files that a path names: a directory's, one file, or those that a pattern matches."""
    storage = storage_for(path)
    path = storage.resolve(path)
    entry = storage.stat(path)
    if entry is None:
        # Directories may be links here as well, and one file must not come by two names.
        found = [storage.stat(storage.resolve(one.path)) or one for one in storage.glob(path)]
        if not found:
            raise error("path.missing", path=path, what=f"{what} file or directory")
        nested = [
            one
            for match in found
            for one in (_find(match.path, ignored, what) if match.type == "directory" else [match])
        ]
        return _visible(nested, ignored)
    if entry.type == "directory":
        return _visible(storage.entries(path), ignored)
    if file_names.is_hidden(entry.name):
        raise error("path.hidden", path=path)
    return [entry]


def _visible(entries: Iterable[Entry], ignored: list[str]) -> list[Entry]:
    kept = []
    for entry in entries:
        if file_names.is_hidden(entry.name):
            ignored.append(entry.path)
        else:
            kept.append(entry)
    return kept


def _check_entry(entry: Entry, nested: str = "name it as a --feed of its own") -> None:
    """Raise ConfigError for what is no plain file. nested: what to do about a directory."""
    if entry.type != "file":
        cure = nested if entry.type == "directory" else "copy the data into a plain file"
        raise error("path.kind", path=entry.path, what=entry.type, cure=cure)
    if file_names.has_control(entry.name):
        raise error("path.name", path=entry.path)


def _calls_by_name(config: Config) -> bool:
    """Tell whether the configuration knows names of fields, or formats that have some."""
    fields = (*config.id_fields, config.order_field, config.op_field)
    formats = {config.master_format, config.feed_format, config.output_format} - {None, "text"}
    return any(isinstance(one, str) for one in fields) or bool(formats or config.output_schema or config.defaults)


def _look_at_feed(config: Config, files: Mapping[str, Entry], named: bool, places: tuple[str, ...]) -> list[Source]:
    form = config.feed_format
    return [
        probe_file(config, storage_for(path), entry, form, named=named, places=places) for path, entry in files.items()
    ]


def _feed_places(config: Config, known: Manifest | None, dataset: FileSchema | None) -> tuple[str, ...]:
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
    entry = storage.stat(master)
    if entry is None:
        if not config.allow_empty_master:
            raise error("master.missing", path=master)
        return ()
    below = partial(_below, storage, ignored) if config.partitioned_by else storage.entries
    entries = _visible(below(master), ignored) if entry.type == "directory" else [entry]
    own = _masters_below(master, ignored)
    if own and not config.master_adopt:
        names = [one.removeprefix(f"{master}/") for one in own]
        raise error("partition.masters", path=master, partitions=file_names.some(names))
    if any(is_straggler(storage, one.name) for one in entries):  # adopted: what its manifest names are its rows
        named_by = {directory: _named(storage, directory) for directory in (*own, master)}
        entries = [one for one in entries if not is_straggler(storage, one.name) or _is_kept(named_by, master, one)]
    # An adopted master has its own bookkeeping below a hidden name, which says nothing about the rows.
    for one in entries:
        _check_entry(one, _TREE if "=" in one.name and not config.partitioned_by else _NO_TREE)
    # Names of files decide before those of directories, as between rows of one ID (which ``entries`` is sorted by).
    entries.sort(key=lambda one: (os.fsencode(one.name), os.fsencode(one.path)))
    found = tuple(probe_file(config, storage, one, config.master_format, named=named) for one in entries)
    # What this program wrote, and is adopted now, has no headers and no marks, and its lines end at LF alone.
    return tuple(
        replace(one, ending=lines.EXACT_LF, bom=False, header_end=0)
        if file_names.is_data_file(one.name) and one.kind == "text"
        else one
        for one in found
    )


def _below(storage: Storage, ignored: list[str], directory: str) -> list[Entry]:
    """Return what is in a directory and in the directories of partitions below it."""
    found = []
    for entry in storage.entries(directory):
        if entry.type == "directory" and not file_names.is_hidden(entry.name) and "=" in entry.name:
            found += _visible(_below(storage, ignored, entry.path), ignored)
        else:
            found.append(entry)
    return found


def _masters_below(master: str, ignored: Sequence[str]) -> list[str]:
    """Return the partition directories of a master that a run has written as masters of their own.

    ignored: the hidden names that were found in it.
    """
    held = [posixpath.dirname(path) for path in ignored if posixpath.basename(path) == manifest.DIRECTORY]
    return sorted(directory for directory in held if directory != master)


def _is_kept(named_by: Mapping[str, set[str]], master: str, one: Entry) -> bool:
    """Tell whether a file that a run has written is one of an adopted master: nobody denies it that has a say."""
    directory = posixpath.dirname(one.path)
    directory = directory if directory in named_by else master
    return not named_by[directory] or one.path.removeprefix(f"{directory}/") in named_by[directory]


def _named(storage: Storage, master: str) -> set[str]:
    """Return the files that a manifest names; none where it cannot be read, which is why the master is adopted."""
    try:
        known = read_manifest(storage, master)
    except MutatorError:
        return set()
    return {part.path for part in known.parts()} if known is not None else set()


def _managed(storage: Storage, master: str, known: Manifest) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Hold the directory against its manifest; return the data files and the tombstone files."""
    check_files(storage, master, known.parts(), storage.entries(master))
    return dataset_sources(master, known)


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
    before = [
        number for part in (known.feed if known else ()) if (number := file_names.sequence(part.name)) is not None
    ]
    new = [one.sequence for one in fresh if one.sequence is not None]
    notes = []
    late = sequence_gaps.late(before, new) if config.by_file_name else ()
    if late:
        names = [one.name for one in fresh if one.sequence in late]
        shown = file_names.some(names)
        if config.late_files == "fail":
            raise error("feed.late", paths=shown, last=max(before))
        notes.append(f"late: {shown}: older than what was merged before (sequence {max(before)})")
    missing = sequence_gaps.gaps(before, new) if config.sequence_gaps != "ignore" else []
    if missing and config.sequence_gaps == "fail":
        raise error("feed.gaps", gaps=sequence_gaps.gaps_text(missing))
    if missing and (config.sequence_gaps == "report" or sequence_gaps.counts_files(before, new, missing)):
        notes.append(f"gaps: these sequences have not arrived: {sequence_gaps.gaps_text(missing)}")
    return tuple(notes)


def _checksum_is(source: Source, expected: str) -> bool:
    with storage_for(source.path).open(source.path) as stream:
        return checksum.of_blocks(blocks(stream), checksum.chunk_of(expected)) == expected
