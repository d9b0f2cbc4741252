"""The contract of followers: files that are made of the newest version of a base, for programs without its log.

``workflow.directory.versions`` has the list of followers, and calls ``follow`` with it in ``publish``, which each
version of a base passes. (Each version of a table passes ``table.commit.hinted``; nothing follows it yet.) The files of
a follower are never the truth. A process may be killed before the call, and a follower may fail, which is a warning:
the base is as good, and the next command makes up for it. One is here: the list of the files of a master
for symlink tables of Hive and Trino, on storages without renames, where each version has a path of its own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from mutator.errors import MutatorError
from mutator.errors.failpoints import failpoint
from mutator.errors.parts import place
from mutator.storage import read_if_exists, storage_for

if TYPE_CHECKING:
    from mutator.config import Config
    from mutator.dataset.file_entry import FileEntry

_PATH = "_symlink_format_manifest/manifest"
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


def follow_with_symlinks(base: Followed) -> bool:
    """List the files of the newest version of a base, if it has a list or is to have one; return whether it changed."""
    storage, path = storage_for(base.path), posixpath.join(base.path, _PATH)
    if storage.renames:
        return False
    before = read_if_exists(path)
    if before is None and not base.config.output.symlink_manifest:
        return False
    newest = base.newest()
    if newest is None:
        return False
    # Readers may know only one spelling of the scheme: that of the existing list, or else that of the base.
    scheme = (before or b"").partition(b"://")[0].decode() or base.given.partition("://")[0]
    directory = f"{scheme}://{newest.directory.partition('://')[2]}"
    lines = "".join(f"{directory}/{file.path}\n" for file in newest.files).encode("utf-8", "surrogateescape")
    if lines == before:
        return False
    storage.replace(path, lines)
    failpoint("publish.symlinks")
    return True
