"""The check of files that runs take over unread: which are due, and which has waited longest.

Each run checks the files whose check is oldest, as many as have a fraction of the dataset's bytes. A file that is not
checked was in front of others that were, or was written since, so each file is checked within 1/fraction runs.
"""

from operator import attrgetter

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import Manifest

_TAKEN_OVER = ("tombstones", "order", "filters")  # roles of side files that may be taken over


def due_files(known: Manifest, fraction: float) -> frozenset[str]:
    """Return the paths of the files that the next run checks: the oldest check first, ties by path.

    They depend on the manifest alone. fraction: of the dataset's bytes, from 0 to 1.
    """
    files = _files(known)
    left = fraction * sum(part.bytes for part in files)
    groups: dict[str, list[FileEntry]] = {}
    for part in files:
        groups.setdefault(part.checked or "", []).append(part)
    due = set[str]()
    for checked in sorted(groups):
        for part in sorted(groups[checked], key=attrgetter("path")):
            if left <= 0:
                return frozenset(due)
            due.add(part.path)
            left -= part.bytes
    return frozenset(due)


def oldest_check(known: Manifest) -> FileEntry | None:
    """Return the file that was checked longest ago, or never; None if the dataset has no files."""
    return min(_files(known), key=lambda part: (part.checked or "", part.path), default=None)


def may_be_taken_over(part: FileEntry) -> bool:
    """Return whether the next run may take a file over; side files of other roles are written anew or left out."""
    return part.is_data or part.role in _TAKEN_OVER


def _files(known: Manifest) -> list[FileEntry]:
    return [part for part in known.parts() if may_be_taken_over(part)]
