"""What runs that were killed have left, and the text copy that belongs to the table as it is."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mutator.bridge.contract import Table, TableFile
from mutator.bridge.importing import text_copy
from mutator.bridge.state_log import Entry, State
from mutator.dataset.manifest import DIRECTORY, FeedFile
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.rules.file_names import first_few, is_run_id
from mutator.storage import Storage, blocks, entries_of

__all__ = ["Place", "consumed", "fields_of", "settled", "tidy"]


@dataclass(frozen=True)
class Place:
    """The base of a text copy, held by this run."""

    base: str
    given: str  # as the user calls it
    run: str
    storage: Storage
    state: State

    def at(self, name: str) -> str:
        """Return the path of a directory of text."""
        return posixpath.join(self.base, name)


def settled(table: Table, place: Place) -> tuple[Entry | None, str]:
    """Return the entry that counts, after what killed runs have left is removed; or None, and why there is none."""
    entries, files = place.state.entries(), table.files()
    others = {one.table for one in entries} - {table.name}
    if others:
        raise error("table.other", path=place.base, other=min(others), table=table.name)
    found = next((one for one in entries if one.files == files), None)
    failpoint("bridge.settle.found")
    for one, own in _own_files(entries):
        # What the run that exported the table has begun since is not what it has committed.
        if found is not None and one.run == found.run and one.number <= found.number:
            continue
        if one.staged is not None and own & set(files):
            table.retire(one.staged)  # it was committed, and somebody else has changed the table since
        elif one.files != files:
            table.discard(one.run)
    if found is not None and found.staged is not None:
        table.retire(found.staged)
    failpoint("bridge.settle.retired")
    if found is None:
        return None, _why(entries, files)
    tidy(place, found)
    if found.fields != fields_of(table):
        return None, "its fields have changed"
    try:
        _, known = text_copy(place.at(found.text))
    except MutatorError as fault:
        if fault.kind not in ("path.missing", "storage.missing"):
            raise
        return None, "its text copy is gone"
    return (found, "") if known.commit == found.dataset else (None, "its text copy is another one")


def fields_of(table: Table) -> tuple[str, ...]:
    """Return what an entry says of the fields of a table."""
    return tuple(f"{one.name} {one.type}" for one in table.schema)


def _own_files(entries: Sequence[Entry]) -> Iterator[tuple[Entry, set[TableFile]]]:
    """Yield each entry, and the files that no older one names: a table that has one of them was changed by its run.

    The others were carried over, and the table had them before.
    """
    for at, one in enumerate(entries):
        yield one, set(one.files or ()).difference(*(older.files or () for older in entries[at + 1 :]))


def tidy(place: Place, kept: Entry) -> None:
    """Remove all entries but one, and all text but its own; rows that were set aside stay, below the base."""
    for one in place.state.entries():
        if one.number != kept.number:
            place.state.remove(one)
    failpoint("bridge.tidied")
    for there in entries_of(place.base):
        if _is_text(there.name) and there.name != kept.text:
            _keep_rejected(place, there.path)
            place.storage.remove(there.path)


def _keep_rejected(place: Place, text: str) -> None:
    """Move the files of rejected rows out of a directory of text: their feed files are merged, and nobody else has
    them."""
    rejected = posixpath.join(place.base, DIRECTORY, "rejected")
    for one in entries_of(posixpath.join(text, DIRECTORY, "rejected")):
        target = posixpath.join(rejected, one.name)
        if one.type != "file" or place.storage.stat(target) is not None:
            continue
        place.storage.make_directory(rejected)
        if place.storage.renames:
            place.storage.rename_new(one.path, target)
            continue
        with place.storage.open(one.path) as source, place.storage.create_new(target) as stream:
            for block in blocks(source):
                stream.write(block)


def _is_text(name: str) -> bool:
    """Tell whether a run made this: text-<run>, export-<run>, or a place where it was staged, .text-<run>.…"""
    kind, _, rest = name.removeprefix(".").partition("-")
    return kind in ("text", "export") and is_run_id(rest.split(".")[0])


def _why(entries: Sequence[Entry], files: Sequence[TableFile]) -> str:
    """Say why a table is exported."""
    last = next((one for one in entries if one.files is not None), None)
    if last is None:
        return "there was no text copy yet"
    names = sorted({posixpath.basename(one.path) for one in set(last.files or ()) ^ set(files)})
    return f"somebody else has changed the table: {first_few(names, 2)}"


def consumed(place: Place, entries: Sequence[Entry], files: Sequence[TableFile]) -> tuple[FeedFile, ...]:
    """Return the feed files that had been merged before somebody else changed the table.

    They are in it as long as it has a file that was written with them. Where it has none, it may be one of before, and
    merging them again changes nothing that is newer.
    """
    for one in entries:
        if one.files is None or not any(one.changed_by in file.path for file in files):
            continue
        if not one.changed_by and not set(one.files) & set(files):
            continue
        try:
            return text_copy(place.at(one.text))[1].feed
        except MutatorError:  # it is needed no more for anything else
            return ()
    return ()
