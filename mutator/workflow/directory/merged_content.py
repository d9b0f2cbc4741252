"""Claimed feed files compared with what was merged: a writer may go on after the claim, and leave the size as it is."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import cache

from mutator.dataset import checksum, checksummed_json
from mutator.dataset.commits import FeedFile
from mutator.dataset.directory import read_manifest
from mutator.dataset.version_log import Log
from mutator.errors import suppressed
from mutator.errors.parts import place
from mutator.storage import Entry, read_if_exists
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator rewritten files"
_NOTE = "_rewritten.json"  # in archive/<run>; a feed file never has a hidden name

Stamp = tuple[int, float, float, str]
IsMerged = Callable[[Entry], bool]


def stamp(entry: Entry) -> Stamp:
    """Return the properties of a file that show most changes of its content without reading it.

    >>> stamp(Entry("incr/a", "a", 3, "file", modified=7.0, written=5.0))
    (3, 5.0, 7.0, '')
    """
    return entry.bytes, entry.last_write, entry.modified, entry.tag


def is_as_written(entry: Entry, before: Stamp) -> bool:
    """Return whether a file has the size and the last write that it had: a hard link of another base is no write.

    >>> is_as_written(Entry("incr/a", "a", 3, "file", modified=8.0, written=5.0), (3, 5.0, 7.0, ""))
    True
    """
    size, last_write, _, tag = before
    return (entry.bytes, entry.last_write, entry.tag) == (size, last_write, tag)


def merged_content(base: Base, log: Log, run: str) -> IsMerged:
    """Return a function that reads a file a run has claimed, and returns whether a version has its content.

    A file that the run merged must have the content that this run read. Any other was merged by an earlier run: of this
    base, by its log, or of ``mutator run`` that made the given master, by the manifest.
    """
    merged_before = cache(lambda: _merged_before(base))  # most runs do not need it

    def is_merged(entry: Entry) -> bool:
        expected: set[str] = set()
        for number in reversed(log.numbers()):
            version = log.read(number)
            found = {part.checksum for part in version.feed if part.name == entry.name}
            if found and version.run == run:
                expected = found
                break
            expected |= found
        else:
            expected |= merged_before()[entry.name]
        return has_content(entry, expected)

    return is_merged


def has_content(entry: Entry, checksums: Collection[str]) -> bool:
    """Return whether a file has a content with one of some checksums; True if another process has just moved it."""
    with suppressed("storage.missing"):
        return any(checksum.difference(entry.path, text) is None for text in sorted(checksums))
    return True


def _merged_before(base: Base) -> Mapping[str, set[str]]:
    """Return the checksums of the merged feed files that the manifests of the base list, by name."""
    found = defaultdict[str, set[str]](set)
    for path in (base.master, *(dataset.path for dataset in base.datasets())):
        with suppressed("manifest.damaged", "manifest.newer", "storage.missing"):
            known = read_manifest(base.storage, path)
            for part in known.feed if known is not None else ():
                found[part.name].add(part.checksum)
    return found


def note_rewritten(base: Base, run: str, names: Collection[str]) -> None:
    """Note in archive/<run> which merged feed files are not there, because they were rewritten and went back."""
    members = {"names": sorted({*rewritten_files(base, run), *names})}
    base.storage.replace(base.at("archive", run, _NOTE), checksummed_json.dump(_FORMAT, 1, members))


def rewritten_files(base: Base, run: str) -> frozenset[str]:
    """Return the names that ``note_rewritten`` has noted for a run; a damaged note has none."""
    data = read_if_exists(base.at("archive", run, _NOTE))
    try:
        return frozenset[str]() if data is None else frozenset(checksummed_json.parse(data, _FORMAT, 1)["names"])
    except (KeyError, TypeError, ValueError):
        return frozenset()


def merged_file(base: Base, run: str, part: FeedFile) -> tuple[str | None, str | None]:
    """Return the path of a feed file that a run merged, or None and why it cannot be read."""
    directories = (("archive", run), ("working", run)) if base.storage.renames else (("incr",),)
    for directory in directories:
        path = base.at(*directory, part.name)
        entry = base.storage.stat(path)
        if entry is None:
            continue
        if entry.bytes != part.bytes:
            return None, f"{place(path)} has {entry.bytes:,} bytes now, and had {part.bytes:,}"
        return path, None
    if part.name in rewritten_files(base, run):
        return None, "it was rewritten after it was merged, and went back to incr/"
    return None, f"it is not in {'archive' if base.storage.renames else 'incr'}/ any more"
