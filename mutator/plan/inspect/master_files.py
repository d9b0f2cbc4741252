"""Find the files of a master that has no manifest, or whose manifest is set aside because the master is adopted."""

import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mutator.config.settings import InputSpec, RowSpec
from mutator.dataset import manifest
from mutator.dataset.directory import check_no_base, is_straggler, read_manifest
from mutator.errors import MutatorError, error
from mutator.errors.parts import argument, setting
from mutator.formats.files import lines
from mutator.plan.inspect.feed_files import check_entry, entries_below, visible
from mutator.plan.inspect.first_rows import with_few_heads
from mutator.plan.inspect.probe import format_of_name, probe_file
from mutator.plan.inspect.source import Source
from mutator.rules import file_names
from mutator.rules.encodings import UTF8
from mutator.rules.partition_paths import values_above
from mutator.storage import Entry, Storage

# The cure for a directory in a master.
_NO_TREE = "a master's files lie in its directory, or in those of partitions, as in store_id=12/: move its files up"


def unmanaged_sources(
    rows: RowSpec, inputs: InputSpec, storage: Storage, master: str, *, named: bool
) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """Return the files of a master, by name, and the paths of hidden files.

    named: fields have names in this run. Raises ConfigError for a master without bytes, unless it may be empty.
    """
    entry = storage.stat(master)
    if entry is None:
        if not inputs.allow_empty_master:
            raise error("master.missing", path=master)
        return (), ()
    entries: list[Entry] = [entry]
    hidden: tuple[str, ...] = ()
    if entry.type == "directory":
        in_directories = bool(rows.key.partitions)
        entries, hidden = visible(entries_below(storage, master) if in_directories else storage.entries(master))
    for path in hidden:
        if not file_names.is_hidden(posixpath.basename(path)):
            raise error("path.hidden", path=path, what="the name of an unfinished file", role="master")
    own = masters_below(master, hidden)
    if own and not inputs.master_adopt:
        names = [directory.removeprefix(f"{master}/") for directory in own]
        raise error("partition.masters", path=master, partitions=file_names.first_few(names))
    if any(is_straggler(storage, part.name) for part in entries):  # of an adopted master, whose manifest has its files
        paths = {directory: _paths_in_manifest(storage, directory) for directory in (*own, master)}
        entries = [part for part in entries if not is_straggler(storage, part.name) or _is_kept(paths, master, part)]
    check_no_base(storage, master, entries)
    for part in entries:
        is_tree = part.type == "directory" and "=" in part.name and not rows.key.partitions
        check_entry(part, _tree(storage, part.path) if is_tree else _NO_TREE)
    if not inputs.allow_empty_master and not any(part.bytes for part in entries):
        raise error("master.empty.files" if entries else "master.empty", path=master)
    # As between rows of one ID, the file name decides before the directory (by which the entries are sorted).
    entries.sort(key=lambda part: (os.fsencode(part.name), os.fsencode(part.path)))
    # Prefix and pattern are of the names of feed files alone.
    rows = replace(rows, ops=replace(rows.ops, delete_prefix=None, delete_pattern=None))
    found = (
        probe_file(_in_own_encoding(rows, part), storage, part, inputs.master_format, named=named, of_master=True)
        for part in entries
    )
    return tuple(map(_as_written, with_few_heads(found))), hidden


def _tree(storage: Storage, directory: str) -> str:
    """Return the cure for a partition's directory in a master without partitions."""
    below, _ = visible(entries_below(storage, directory))
    named = [one for one in below if format_of_name(one.name, named=True) is not None]  # text has ordinals
    names = ",".join(name for name, _ in values_above(named[0].path)) if named else ""
    fields = argument(f" (--partitioned-by {names or 'FIELDS'})")
    return f"if it is a partition's, say by which fields with {setting('partitioned.by')}{fields}"


def _in_own_encoding(rows: RowSpec, entry: Entry) -> RowSpec:
    """Return how a file of a master is read: one that a run wrote is UTF-8, unless the user says otherwise."""
    own = UTF8 if file_names.is_data_file(entry.name) else rows.text.encoding
    return replace(rows, text=replace(rows.text, encoding=rows.text.master_encoding or own))


def _as_written(source: Source) -> Source:
    """Return a text file that a run wrote as it is: without headers or a byte order mark, and with LF alone."""
    if file_names.is_data_file(source.name) and source.file_format == "text":
        return replace(source, ending=lines.EXACT_LF, bom=False, header_end=0, header=())
    return source


def masters_below(master: str, hidden: Sequence[str]) -> list[str]:
    """Return the partition directories that are masters of their own. hidden: the hidden paths below ``master``."""
    directories = [posixpath.dirname(path) for path in hidden if posixpath.basename(path) == manifest.DIRECTORY]
    return sorted(directory for directory in directories if directory != master)


def _is_kept(paths: Mapping[str, set[str]], master: str, entry: Entry) -> bool:
    """Return whether a file that a run wrote belongs to an adopted master: its manifest names it or names no file.

    paths: those that the manifest of each directory names.
    """
    directory = posixpath.dirname(entry.path)
    directory = directory if directory in paths else master
    return not paths[directory] or entry.path.removeprefix(f"{directory}/") in paths[directory]


def _paths_in_manifest(storage: Storage, master: str) -> set[str]:
    """Return the paths that a manifest names; none if it cannot be read, which is a reason to adopt a master."""
    try:
        known = read_manifest(storage, master)
    except MutatorError:
        return set()
    return {part.path for part in known.parts()} if known is not None else set()
