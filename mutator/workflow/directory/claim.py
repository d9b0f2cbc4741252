"""Moving feed files: to working/ when a run claims them, back if it fails, to archive/ once they are merged.

Those that are set aside go to failed/ (``bad_files``), as the others go to archive/.

A control file goes wherever its feed file goes, into archive/ as well. It must never vouch for another feed file of the
same name, so it is moved out of incr/ before its feed file, and back into it after.

On a storage without renames nothing moves: the log says which feed files were merged, and which control files vouched
for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from mutator.dataset.commits import Arrived
from mutator.errors import MutatorError, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.storage.contract import CERTAIN
from mutator.workflow.directory.arrivals import RETURNED, Arrivals, ReadyFile, arrived
from mutator.workflow.directory.merged_content import IsMerged, note_rewritten
from mutator.workflow.directory.paths import FAILED, Base

_MARKER = ".marker."  # prefix of a ready marker in working/<run>
# An empty directory in working/<run>, named with the suffix of the control files there. Another command, perhaps with
# another configuration, may put the files back, and must know which control file belongs to which feed file.
_CONTROLS = ".controls"
_MARKERS = ".markers"  # the same for the ready markers


def claim(base: Base, run: str, found: Arrivals) -> tuple[list[Arrived], dict[str, MutatorError]]:
    """Move feed files to working/<run>; return those that were moved, and why others, by name, cannot be moved.

    Another run has claimed any that are gone.
    """
    if not base.storage.renames:
        return [arrived(ready.feed) for ready in found.ready], {}
    directory = base.at("working", run)
    base.storage.make_directory(directory)
    failpoint("claim.directory")
    if found.control_suffix is not None:
        base.storage.make_directory(f"{directory}/{_CONTROLS}{found.control_suffix}")
    if any(ready.marker is not None for ready in found.ready):
        base.storage.make_directory(f"{directory}/{_MARKERS}{found.ready_suffix}")
    claimed, stuck = [], {}
    for ready in found.ready:
        try:
            if _claim_file(base, directory, ready):
                claimed.append(arrived(ready.feed))
                failpoint("claim.moved")
        except MutatorError as fault:
            if fault.kind not in CERTAIN:  # it may have been moved all the same
                raise
            stuck[ready.feed.name] = fault
    return claimed, stuck


def _claim_file(base: Base, directory: str, ready: ReadyFile) -> bool:
    """Move a feed file with its control file and ready marker; return whether it was still there.

    If it is not, or cannot be moved, the other two go back. After any other fault it may be in working/ all the same,
    and the end of the run puts all three back.
    """
    entry, marker, control = ready.feed, ready.marker, ready.control
    moved: list[tuple[str, str]] = []  # (from, to)
    done = False
    try:
        if control is not None:  # first, for the same reason as a marker
            moved.append((control.path, f"{directory}/{control.name}"))
            if not _move(base, *moved[-1]):
                return False
            failpoint("claim.control")
        if marker is not None:  # first, so that it cannot stay behind and vouch for the next file of this name
            moved.append((marker, f"{directory}/{_MARKER}{file_names.base_name(marker)}"))
            _move(base, *moved[-1])
            failpoint("claim.marker")
        done = _move(base, entry.path, f"{directory}/{entry.name}")
    except MutatorError as fault:
        if fault.kind in CERTAIN:
            _move_back(base, moved)
        raise
    if not done:
        _move_back(base, moved)
    return done


def _move_back(base: Base, moved: Iterable[tuple[str, str]]) -> None:
    for source, target in moved:
        _move(base, target, source)


def is_own(name: str) -> bool:
    """Return whether an entry of working/<run> is a ready marker, or a directory made by ``claim``."""
    return name.startswith((_MARKER, _CONTROLS, _MARKERS))


@dataclass(frozen=True)
class _Suffixes:
    """The suffixes of the files that vouch for the feed files in working/<run>; None if the run has none."""

    control: str | None
    marker: str | None

    @classmethod
    def of(cls, working: Sequence[Entry]) -> _Suffixes:
        """Return those that ``claim`` has noted."""
        notes = ([one.name for one in working if one.name.startswith(prefix)] for prefix in (_CONTROLS, _MARKERS))
        controls, markers = notes
        return cls(
            controls[0].removeprefix(_CONTROLS) if controls else None,
            markers[0].removeprefix(_MARKERS) if markers else None,
        )

    def notes(self) -> list[str]:
        """Return the names of the directories that note them."""
        pairs = ((_CONTROLS, self.control), (_MARKERS, self.marker))
        return [f"{prefix}{suffix}" for prefix, suffix in pairs if suffix is not None]

    def feed_of(self, name: str) -> str | None:
        """Return the name of the feed file of a control file or ready marker in working/<run>; None for others."""
        if name.startswith(_MARKER):
            return file_names.feed_name(name.removeprefix(_MARKER), self.marker) if self.marker else None
        return file_names.feed_name(name, self.control) if self.control else None


class WorkingFile(NamedTuple):
    """A file in working/<run>."""

    entry: Entry
    name: str  # that it had in incr/
    feed: str  # the name of its feed file: its own, or that of which it is a control file or ready marker


def in_order(base: Base, run: str) -> list[WorkingFile]:
    """Return the files in working/<run>, in an order in which they may appear in incr/ of another base.

    A feed file comes after its control file, and before its ready marker.
    """
    everything = entries_of(base.at("working", run))
    suffixes = _Suffixes.of(everything)
    found = []
    for entry in everything:
        if entry.type != "directory":
            feed = suffixes.feed_of(entry.name)
            place = 1 if feed is None else 2 if entry.name.startswith(_MARKER) else 0
            found.append((place, WorkingFile(entry, entry.name.removeprefix(_MARKER), feed or entry.name)))
    return [file for _, file in sorted(found)]


def is_half_claimed(base: Base, run: str) -> bool:
    """Return whether a claim was killed that had moved a control file or ready marker, and not yet its feed file."""
    files = in_order(base, run)
    return bool({file.feed for file in files} - {file.name for file in files if file.name == file.feed})


def are_incomplete(base: Base, run: str) -> set[str]:
    """Return the feed files in working/<run> without the control file or ready marker that came with them."""
    found = Counter(file.feed for file in in_order(base, run))
    beside = len(_Suffixes.of(entries_of(base.at("working", run))).notes())
    return {feed for feed, files in found.items() if files <= beside}


def leave(base: Base, run: str) -> None:
    """Remove working/<run>, unless a file is left in it."""
    directory = base.at("working", run)
    _leave(base, directory, _Suffixes.of(entries_of(directory)))


def give_back(base: Base, run: str) -> list[str]:
    """Move the feed files of a run that did not commit back to incr/; return their names.

    A file goes to a directory beside them, with its control file and ready marker, if a newer file has its name or the
    name of its control file.
    """
    names = []
    directory, aside = base.at("working", run), base.at("incr", f"{RETURNED}{run}")
    everything = entries_of(directory)
    suffixes = _Suffixes.of(everything)
    here = [entry for entry in everything if entry.type != "directory"]
    for entry in here:
        if entry.name.startswith(_MARKER) or suffixes.feed_of(entry.name):
            continue
        # Beside the control file of a newer feed file it would be compared with that.
        control = suffixes.control
        free = control is None or base.storage.stat(base.at("incr", entry.name + control)) is None
        if free and _move(base, entry.path, base.at("incr", entry.name)):
            names.append(entry.name)
        elif base.storage.stat(entry.path) is not None:
            base.storage.make_directory(aside)
            failpoint("return.aside")
            if _move(base, entry.path, f"{aside}/{entry.name}"):
                names.append(entry.name)
        failpoint("return.moved")
    for entry in here:  # a control file follows its feed file
        feed = suffixes.feed_of(entry.name)
        if feed and not entry.name.startswith(_MARKER):
            beside = base.storage.stat(f"{aside}/{feed}") is not None
            gone = not beside and _move(base, entry.path, base.at("incr", entry.name))
            if not gone and base.storage.stat(entry.path) is not None:
                base.storage.make_directory(aside)
                _move(base, entry.path, f"{aside}/{entry.name}")
            failpoint("return.control")
    for entry in here:
        name = entry.name.removeprefix(_MARKER)
        if name != entry.name:  # a ready marker follows its feed file
            feed = suffixes.feed_of(entry.name)
            beside = feed is not None and base.storage.stat(f"{aside}/{feed}") is not None
            _move(base, entry.path, f"{aside}/{name}" if beside else base.at("incr", name))
            failpoint("return.marker")
    _leave(base, directory, suffixes)
    failpoint("return.directory")
    return names


def archive(base: Base, run: str, is_merged: IsMerged, is_bad: IsMerged) -> tuple[list[str], list[str]]:
    """Move the feed files of a run that committed to archive/<run>, and those to be set aside to failed/<run>.

    Return the names of the archived files. A file that was rewritten goes back to incr/ with its control file, because
    no version has its content. The names of these files are the second list. is_merged: returns whether a version has
    the content of a feed file. is_bad: returns whether a feed file is to be set aside, with its present content.
    """
    names = []
    directory, target, failed = base.at("working", run), base.at("archive", run), base.at(FAILED, run)
    everything = entries_of(directory)
    suffixes = _Suffixes.of(everything)
    here = [entry for entry in everything if entry.type != "directory"]
    feed = [entry for entry in here if not entry.name.startswith(_MARKER) and not suffixes.feed_of(entry.name)]
    bad = {entry.name for entry in feed if is_bad(entry)}
    rewritten = {entry.name for entry in feed if entry.name not in bad and not is_merged(entry)}
    if rewritten:
        base.storage.make_directory(target)
        note_rewritten(base, run, rewritten)
        failpoint("archive.rewritten")
    if bad:
        base.storage.make_directory(failed)
        failpoint("archive.failed.directory")
    for entry in sorted(here, key=lambda one: suffixes.feed_of(one.name) is None):  # a feed file shows where these go
        if bad & {entry.name, suffixes.feed_of(entry.name)}:
            _move(base, entry.path, f"{failed}/{entry.name.removeprefix(_MARKER)}")
            failpoint("archive.failed.moved")
    for entry in here:
        beside = suffixes.feed_of(entry.name)
        if bad & {entry.name, beside}:
            continue
        if entry.name.startswith(_MARKER):  # also that of a rewritten file: its writer makes another one
            base.storage.remove(entry.path)
        elif not rewritten & {entry.name, beside}:
            base.storage.make_directory(target)
            failpoint("archive.directory")
            if _move(base, entry.path, f"{target}/{entry.name}") and not beside:
                names.append(entry.name)
            failpoint("archive.moved")
    returned = give_back(base, run) if rewritten else []
    _leave(base, directory, suffixes)
    failpoint("archive.working.removed")
    for entry in entries_of(base.at("incr")):
        if entry.name.startswith(RETURNED):
            base.storage.remove_directory(entry.path)  # unless a file is left in it
    return names, returned


def _leave(base: Base, directory: str, suffixes: _Suffixes) -> None:
    """Remove working/<run>, unless a file is left in it."""
    notes = [f"{directory}/{name}" for name in suffixes.notes()]
    for note in notes:
        base.storage.remove_directory(note)
        failpoint("claim.control.left")
    if not base.storage.remove_directory(directory):  # a paused run has gone on
        for note in notes:
            base.storage.make_directory(note)


def _move(base: Base, source: str, target: str) -> bool:
    """Rename a file; False if it is gone or the target exists."""
    with suppress(FileExistsError), suppressed("storage.missing"):
        base.storage.rename_new(source, target)
        return True
    return False
