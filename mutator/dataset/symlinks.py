"""The list of the files of a master for readers that do not know the log: symlink tables of Hive and Trino.

It is for storages without renames, where each version has a path of its own. Once it exists, each version updates it.
"""

from __future__ import annotations

import posixpath

from mutator.dataset.followers import Followed
from mutator.errors.failpoints import failpoint
from mutator.storage import read_if_exists, storage_for

_PATH = "_symlink_format_manifest/manifest"


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
