"""The contract of followers: files that are made of the newest version of a base, for programs without its log.

``workflow.directory.versions`` has the list of followers, and calls ``follow`` with it in ``publish``, which each
version of a base passes. (Each version of a table passes ``table.commit.hinted``; nothing follows it yet.) The files of
a follower are never the truth. A process may be killed before the call, and a follower may fail, which is a warning:
the base is as good, and the next command makes up for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from mutator.errors import MutatorError
from mutator.errors.parts import place

if TYPE_CHECKING:
    from mutator.config import Config
    from mutator.dataset.file_entry import FileEntry

_TRIES = 5


class Newest(NamedTuple):
    """The newest version of a base."""

    directory: str  # path, to which those of the files are relative
    files: Iterable[FileEntry]  # with rows of records


class Followed(NamedTuple):
    """A base that has a new version."""

    path: str
    given: str  # the same, as the user spells it
    config: Config  # of the command
    newest: Callable[[], Newest | None]  # None: no version has a dataset


# Makes its files of the newest version, if the base is to have them; returns whether it has changed them.
Follower = Callable[[Followed], bool]


def follow(followers: Iterable[Follower], base: Followed) -> list[str]:
    """Call the followers of a base after a commit; return warnings, with marked paths.

    A follower is called until it changes nothing: a process that was paused must not leave the files of an older
    version. Where another process follows as well, both go on until they see the same version.
    """
    warnings = []
    for follower in followers:
        try:
            for _ in range(_TRIES):
                if not follower(base):
                    break
        except MutatorError as fault:
            what = f"the files for other programs are out of date: {fault.message}; the next command writes them"
            warnings.append(f"{place(base.path)}: {what}")
    return warnings
