"""Create a table: version 0 has settings and no rows, version 1 the rows of a dataset."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import Snapshot, add_hint, open_snapshot
from mutator.dataset.versions.version import TableVersion
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.rules.file_names import new_run_id
from mutator.rules.key_hash import HASH_NAME
from mutator.storage import located_to_write

BUCKETS = 8  # of a table without partitions; a partition of another has one


def create_empty(path: str, settings: Mapping[str, str], *, buckets: int | None = None) -> Snapshot:
    """Create a table without rows; return its version 0.

    path: must not exist. settings: of the rows that are to come, by published names. buckets: of the table, or of each
    of its partitions.
    """
    storage, path = located_to_write(path)
    if storage.stat(path) is not None and storage.entries(path):
        raise error("table.exists", path=path)
    now = time.time()
    first = TableVersion(
        number=0,
        id=uuid.uuid4().hex,
        action="create",
        run=new_run_id(now),
        committed=datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
        as_of=0,
        spec=None,
        buckets=buckets or default_buckets(settings),
        hash=HASH_NAME,
        horizon=None,
        snapshot=None,
        records=0,
        tombstones=0,
        settings=dict(settings),
    )
    storage.exclusive(path)  # tested before the log depends on it
    log = TableLog(path)
    if not log.commit(first):
        raise error("table.exists", path=path)
    failpoint("table.created")
    snapshot = open_snapshot(path, 0)
    add_hint(log, snapshot, None)
    return snapshot


def default_buckets(settings: Mapping[str, str]) -> int:
    """Return the number of buckets of a table, or of each of its partitions, if nobody gives one."""
    return 1 if "partitioned.by" in settings else BUCKETS
