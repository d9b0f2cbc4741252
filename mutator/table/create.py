"""Create a table: version 0 has settings and no rows, version 1 the rows of a dataset."""

from __future__ import annotations

import posixpath
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mutator.dataset.commits import Commit, time_text
from mutator.dataset.directory import in_place_of_a_table, is_table
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.opening import add_hint, open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.rules.file_names import new_run_id
from mutator.rules.key_hash import HASH_NAME
from mutator.storage import Storage, located_to_write, storage_for

WORK = "work"  # directory in that of the log, in which a dataset is merged before a table begins with it
BUCKETS = 8  # of a table without partitions; a partition of another has one


def create_empty(path: str, settings: Mapping[str, Any], *, buckets: int | None = None) -> Snapshot:
    """Create a table without rows; return its version 0.

    path: must not exist, or be empty, or what a killed call left. settings: of the rows that are to come, by published
    names. buckets: of the table, or of each of its partitions.
    """
    _, path = located_to_write(path)
    check_free(path)
    return commit_first(path, first_version(settings, buckets or default_buckets(settings)))


def check_free(path: str) -> None:
    """Raise ConfigError unless a table can be created at a path."""
    if not _is_free(storage_for(path), path):
        raise error("table.exists", path=path, cure=in_place_of_a_table(path))
    for parent in _parents(path):
        if _seems_a_table(parent):
            raise error("table.inside", path=path, table=parent)


def first_version(settings: Mapping[str, Any], buckets: int) -> Commit:
    """Return a new version 0, which is not committed yet."""
    now = time.time()
    return Commit(
        number=0,
        id=uuid.uuid4().hex,
        action="create",
        run=new_run_id(now),
        committed=time_text(int(now * 1000)),
        as_of=0,
        spec=None,
        buckets=buckets,
        hash=HASH_NAME,
        horizon=None,
        snapshot=None,
        records=0,
        tombstones=0,
        settings=dict(settings),
    )


def commit_first(path: str, first: Commit) -> Snapshot:
    """Commit version 0; return its snapshot. Raises ConfigError if another call was faster."""
    storage_for(path).exclusive(path)  # tested before the log depends on it
    log = TableLog(path)
    if not log.commit(first):
        raise error("table.exists", path=path, cure=in_place_of_a_table(path))
    failpoint("table.created")
    snapshot = open_snapshot(path, 0)
    with suppress(MutatorError):  # of the hint, without which a table is as good
        add_hint(log, snapshot, None, 0)
    return snapshot


def _is_free(storage: Storage, path: str) -> bool:
    """Return whether a path has nothing but directories that a failed or killed call made for the log and its work."""
    for name in (*DIRECTORY.split("/"), "log"):
        if storage.stat(path) is None:
            return True
        if any(entry.name not in (name, WORK if name == "log" else name) for entry in storage.entries(path)):
            return False
        path = posixpath.join(path, name)
    return storage.stat(path) is None or all(entry.name.startswith(".") for entry in storage.entries(path))


def _seems_a_table(path: str) -> bool:
    """Return whether a directory has a table, as far as it can be read."""
    with suppress(MutatorError):
        return is_table(path)
    return False


def _parents(path: str) -> list[str]:
    """Return the directories above a path, the nearest first."""
    scheme, separator, rest = path.rpartition("://")
    names = rest.split("/")
    above = ("/".join(names[:count]) for count in range(len(names) - 1, 0, -1))
    return [scheme + separator + name for name in above if name]


def default_buckets(settings: Mapping[str, str]) -> int:
    """Return the number of buckets of a table, or of each of its partitions, if nobody gives one."""
    return 1 if "partitioned.by" in settings else BUCKETS
