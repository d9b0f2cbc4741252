"""Find the feed files of a run, and compare their names and content with those that were merged before."""

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from operator import attrgetter, methodcaller

from mutator.config.settings import InputSpec, OperationSpec, OrderSpec
from mutator.dataset import checksum
from mutator.dataset.commits import FeedFile
from mutator.dataset.directory import check_no_base, check_no_table
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.parts import argument, place, setting
from mutator.plan.inspect import control_files
from mutator.plan.inspect.source import Source
from mutator.rules import file_names, sequence_gaps
from mutator.storage import Entry, Storage, storage_for

_LINK = "symbolic link"
_DATE = re.compile(r"\d{2,14}(?:[-_]\d{2,6})*")
_COPY = "copy the data into a plain file"


def feed_entries(paths: Sequence[str], control_suffix: str | None) -> tuple[dict[str, Entry], tuple[str, ...]]:
    """Return the feed files that full paths name, by path, without their control files, and the paths of others.

    The others have hidden names, or names of unfinished files. Raises ConfigError, and DataError for a control file
    without its feed file.
    """
    entries, ignored = visible(entry for path in paths for entry in _find(path))
    found: dict[str, Entry] = {}
    links = [entry for entry in entries if entry.type == _LINK and control_suffix is None]
    directories = [one for path in paths if links and "://" not in path for one in _directories_of(path)]
    for entry in entries:
        if entry.type != _LINK or not links:
            found.setdefault(entry.path, entry)  # a path that is matched twice is read once
    # A file that is in the feed itself keeps its name; of several links to another one, the first name counts.
    for entry in sorted(links, key=lambda entry: (os.fsencode(entry.name), os.fsencode(entry.path))):
        target = _target(entry, directories)
        found.setdefault(target.path, target)
    for entry in found.values():
        check_entry(entry)
    return (found if control_suffix is None else control_files.set_apart(control_suffix, paths, found)), ignored


def _target(link: Entry, directories: Sequence[str]) -> Entry:
    """Return the file that a symbolic link leads to, under the name of the link. Raises ConfigError.

    directories: those that the user has named; beside them, the link may lead to files below its own.
    """
    found = storage_for(link.path).target(link.path)
    if found is None:
        cure = "remove it, or have its target delivered"
        raise error("path.link", path=link.path, where="to a file that does not exist, or to itself", cure=cure)
    if found.type != "file":
        cure = f"name the target as a {argument('--feed')} of its own" if found.type == "directory" else _COPY
        raise error("path.link", path=link.path, where=f"to a {found.type}", cure=cure)
    allowed = (*directories, posixpath.dirname(link.path))
    if not any(found.path.startswith(f"{directory.rstrip('/')}/") for directory in allowed):
        where = f"to {place(found.path)}, which is not below a directory that {argument('--feed')} names"
        cure = f"name {place(posixpath.dirname(found.path))}, or the file there, with {argument('--feed')}, too"
        raise error("path.link", path=link.path, where=where, cure=cure)
    return found._replace(name=link.name)


def _directories_of(path: str) -> list[str]:
    """Return the directories that a path or its pattern names, and those of the files that it names."""
    named = _named(storage_for(path), path)
    return [entry.path if entry.type == "directory" else posixpath.dirname(entry.path) for entry in named]


def _named(storage: Storage, path: str) -> list[Entry]:
    """Return the entry at a path, or the matches of a pattern."""
    path = storage.resolve(path)
    entry = storage.stat(path)
    if entry is not None:
        return [entry]
    # A match may be a link to a directory, and one file must not have two paths.
    return [storage.stat(storage.resolve(match.path)) or match for match in storage.glob(path)]


def _find(path: str) -> Sequence[Entry]:
    """Return the entries that a path names: those below a directory, one visible file, or the matches of a pattern."""
    storage = storage_for(path)
    path = storage.resolve(path)
    entry = storage.stat(path)
    if entry is None:
        matches = _named(storage, path)
        if not matches:
            raise error("path.missing", path=path, what="feed file or directory")
        found = [_find(match.path) if match.type == "directory" else [match] for match in matches]
        return [part for parts in found for part in parts]
    if entry.type == "directory":
        entries = entries_below(storage, path, dates=True)
        check_no_base(storage, path, entries)
        check_no_table(path)
        return entries
    if file_names.is_hidden(entry.name):
        raise error("path.hidden", path=path, what="a hidden name (_x, .x or x_$folder$)", role="feed")
    if file_names.is_unfinished(entry.name):
        raise error("path.hidden", path=path, what="the name of an unfinished file", role="feed")
    return [entry]


def entries_below(storage: Storage, directory: str, *, dates: bool = False) -> list[Entry]:
    """Return the entries of a directory, and those below its partition directories, such as ``store_id=12``.

    dates: and those below directories of digits, such as ``2026/01/31``, in which programs put files by their time.
    """
    found: list[Entry] = []
    for entry in storage.entries(directory):
        is_part = "=" in entry.name or (dates and _DATE.fullmatch(entry.name) is not None)
        is_read = entry.type == "directory" and is_part and not file_names.is_hidden(entry.name)
        found += entries_below(storage, entry.path, dates=dates) if is_read else [entry]
    return found


def visible(entries: Iterable[Entry]) -> tuple[list[Entry], tuple[str, ...]]:
    """Return the entries to read, and the paths of those with hidden names or with names of unfinished files."""
    read, ignored = [], []
    for entry in entries:
        if file_names.is_hidden(entry.name) or file_names.is_unfinished(entry.name):
            ignored.append(entry.path)
        else:
            read.append(entry)
    return read, tuple(ignored)


def check_entry(entry: Entry, directory_cure: str = f"name it as a {argument('--feed')} of its own") -> None:
    """Raise ConfigError for an entry that is not a plain file with a printable name."""
    if entry.type != "file":
        cure = directory_cure if entry.type == "directory" else _COPY
        raise error("path.kind", path=entry.path, what=entry.type, cure=cure)
    if file_names.has_control(entry.name):
        raise error("path.name", path=entry.path)


def split_consumed(
    order: OrderSpec, inputs: InputSpec, operation: OperationSpec, known: State | None, found: Sequence[Source]
) -> tuple[tuple[Source, ...], tuple[Source, ...], tuple[str, ...]]:
    """Return the feed files to merge, those that an earlier run has merged, and notes.

    Raises DataError for a name that was merged before with other content, unless it may be reused.
    """
    if known is None or operation.full or operation.overwrites or inputs.consumed_files == "merge":
        return tuple(found), (), ()
    names, before = {source.merged_as for source in found}, dict[str, list[FeedFile]]()
    for part in [part for part in known.feed if part.name in names]:
        before.setdefault(part.name, []).append(part)
    fresh, consumed, reused = [], [], []
    for source in found:
        same_name = [] if source.is_table else before.get(source.merged_as, [])
        same_size = [part for part in same_name if part.bytes == source.bytes]
        if any(checksum.difference(source.path, part.checksum) is None for part in same_size):
            consumed.append(source)
            continue
        fresh.append(source)
        if same_name:
            _check_reuse(order, inputs, source, same_name[-1])
            reused.append(source.merged_as)
    if not reused:
        return tuple(fresh), tuple(consumed), ()
    was, new = ("was", "it is merged as a new file") if len(reused) == 1 else ("were", "they are merged as new files")
    note = f"{file_names.first_few(reused)} {was} merged before with other content; {new}"
    return tuple(fresh), tuple(consumed), (note,)


def _check_reuse(order: OrderSpec, inputs: InputSpec, source: Source, before: FeedFile) -> None:
    if (inputs.reused_names or ("fail" if order.by_file_name else "accept")) == "fail":
        why = (
            ", and order comes from file names"
            if inputs.reused_names is None
            else f", and {setting('reused.names=fail')}"
        )
        raise error("feed.reused", path=source.path, before=before.bytes, after=source.bytes, why=why)


def sequence_notes(
    order: OrderSpec, inputs: InputSpec, known: State | None, fresh: Sequence[Source], master: Iterable[Source]
) -> tuple[str, ...]:
    """Return notes on feed files that are late and on sequences that are missing. master: its files.

    Raises DataError where the configuration forbids them.
    """
    named = map(attrgetter("name"), known.feed if known else ())
    # Without calls from Python, because a table has merged many files.
    merged = [name for *_, name in map(methodcaller("rpartition", "/"), named)]
    before = [number for number in map(order.sequence_of, merged) if number is not None]
    new = [source.sequence for source in fresh if source.sequence is not None]
    notes = []
    own = _master_sequences(known, master) if order.by_file_name else []
    late = sequence_gaps.late([*before, *own], new) if order.by_file_name else ()
    if late:
        shown = file_names.first_few([place(source.name) for source in fresh if source.sequence in late])
        if inputs.late_files == "fail":
            raise error("feed.late", paths=shown, last=max([*before, *own]))
        notes.append(f"late: {shown}: older than what was merged before (sequence {max([*before, *own])})")
    counts = inputs.sequence_gaps != "ignore" and (order.pattern is None or order.pattern.counts)
    missing = sequence_gaps.gaps(before, new, own) if counts else []
    if missing and inputs.sequence_gaps == "fail":
        raise error("feed.gaps", gaps=sequence_gaps.gaps_text(missing))
    if missing and (inputs.sequence_gaps == "report" or sequence_gaps.counts_files(before, new, missing)):
        found = sequence_gaps.gaps_text(missing)
        notes.append(
            f"gaps: these sequences have not arrived: {found}; if none is missing, set "
            f"{setting('sequence.gaps=ignore')}"
        )
    return tuple(notes)


def _master_sequences(known: State | None, master: Iterable[Source]) -> list[int]:
    """Return the sequences of the master's files: the highest sequence of a row in each, in a managed master."""
    names = [source.name for source in master] if known is None else [part.path for part in known.files]
    found = (file_names.sequence(file_names.base_name(name)) for name in names)
    return [number for number in found if number is not None]
