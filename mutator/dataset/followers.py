"""Followers: files that are made of the newest version of a place, for programs that do not know its log.

``follow`` is called where each version appears to readers: for a base by ``workflow.directory.versions.publish``, for a
table by ``table.commit.hinted``. What a follower writes is never the truth. A process may be killed before the call,
and a follower may fail, which is a warning: the place is as good, and the next call makes up for it. On a base this is
the next command; on a table, the next commit of a version with rows or tags.

To add one, write a module with a function, and name it in a list below.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mutator.config.sources import shown
from mutator.errors import MutatorError
from mutator.errors.display import without_secrets

if TYPE_CHECKING:
    from mutator.dataset.commits import Commit
    from mutator.dataset.file_entry import FileEntry
    from mutator.dataset.versions.masks import Masks

_TRIES = 5
_log = logging.getLogger(__name__)


class Newest(NamedTuple):
    """The newest version of a place."""

    commit: Commit
    directory: str  # path, to which those of the files are relative
    files: Iterable[FileEntry]  # with rows of records
    masks: Masks | None = None  # of a table: which of their rows are hidden


class Followed(NamedTuple):
    """A place that has a new version."""

    path: str  # of the base or the table
    given: str  # the same, as the user spells it
    settings: Mapping[str, Any]  # of the run or of the table, by published names
    newest: Callable[[], Newest | None]  # None: no version has a dataset

    def asks_for(self, key: str) -> bool:
        """Return whether a setting is true."""
        return shown(self.settings.get(key, "")).strip().lower() == "true"


# Makes its files of the newest version, if the place is to have them; returns whether it has changed them.
Follower = Callable[[Followed], bool]


def _symlinks(place: Followed) -> bool:
    from mutator.dataset.symlinks import follow_with_symlinks

    return follow_with_symlinks(place)


OF_BASES: tuple[Follower, ...] = (_symlinks,)
OF_TABLES: tuple[Follower, ...] = ()


def follow(followers: Iterable[Follower], place: Followed) -> None:
    """Call the followers of a place after a commit.

    A follower is called until it changes nothing: a process that was paused must not leave the files of an older
    version. Where another process follows as well, both go on until they see the same version.
    """
    for follower in followers:
        try:
            for _ in range(_TRIES):
                if not follower(place):
                    break
        except MutatorError as fault:
            where = without_secrets(place.given or place.path)
            _log.warning("%s: its files for other programs are not those of its newest version: %s", where, fault)
