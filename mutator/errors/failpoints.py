"""Named points between two steps that touch storage, where a test can make the process fail.

``MUTATOR_FAILPOINT=publish.renamed`` kills the process (SIGKILL, as the kernel or an operator would) when it gets
there; ``storage.linked:3`` when it gets there for the third time; ``task.data.written:raise`` raises instead, once, in
the first attempt of each task, as a lost executor would. Without the variable a point costs one look-up.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "MUTATOR_FAILPOINT"
PASSED: list[str] = []  # while the variable is set

# In the order in which a run passes them; the tests walk this list.
FAILPOINTS = (
    "stage.swept",
    "stage.created",
    "task.started",
    "task.data.opened",
    "storage.written",
    "storage.linked",
    "task.data.written",
    "task.order.written",
    "task.tombstones.written",
    "task.carried",
    "task.rejected.written",
    "stage.merged",
    "stage.verified",
    "stage.files.moved",
    "stage.litter.removed",
    "stage.manifest.written",
    "stage.success.written",
    "publish.renamed",
    "publish.done",
)

# Of a partitioned master, between ``stage.created`` and ``stage.merged``.
PARTITION_FAILPOINTS = (
    "merge.touched",
    "merge.directories",
    "task.filters.written",
    "carry.linked",
    "carry.done",
    "carry.copied",
    "merge.packs.joined",
)

# Where a storage cannot hold a directory for a process.
REMOTE_FAILPOINTS = ("stage.announced", "publish.symlinks", "archive.marked", "commit.settled")

# Those of the workflow, around those of the run that it does.
WORKFLOW_FAILPOINTS = (
    "lock.created",
    "lock.cleared",
    "recover.published",
    "recover.done",
    "publish.found",
    "publish.passage",
    "publish.empty.removed",
    "publish.first.rename",
    "publish.master",
    "claim.journaled",
    "claim.directory",
    "claim.moved",
    "claim.marker",
    "claim.control",
    "claim.control.left",
    "claim.done",
    "merge.done",
    "verify.done",
    "commit.begin",
    "commit.done",
    "publish.version.done",
    "archive.master",
    "archive.directory",
    "archive.moved",
    "archive.working.removed",
    "archive.pruned",
    "archive.removed",
    "archive.done",
    "return.aside",
    "return.moved",
    "return.marker",
    "return.control",
    "return.directory",
    "return.done",
    "recover.abandoning",
    "recover.abandoned",
    "recover.returned",
    "recover.listed",
    "recover.output.hidden",
    "recover.output.removed",
    "recover.swept",
    "recover.ended",
    "restore.journaled",
    "restore.committed",
)

# Those of a table, of staging, commit, and cleaning up.
HIVE_FAILPOINTS = (
    "hive.shadow.created",
    "hive.written",
    "hive.shadow.dropped",
    "hive.staged",
    "hive.statistics.removed",
    "hive.partitions.created",
    "hive.switched",
    "hive.old.removed",
    "hive.partitions.dropped",
    "hive.retire.removed",
    "hive.discard.partitions",
    "hive.discard.shadow",
    "hive.discard.removed",
)


def failpoint(name: str, attempt: int = 0) -> None:
    """Fail here if the environment says so; ``attempt`` is the number of the task's attempt, 0 for the first."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    PASSED.append(name)
    point, _, action = wanted.partition(":")
    if point != name or attempt:
        return
    if action == "raise":
        raise OSError(f"failpoint {name}")
    if not action or PASSED.count(name) == int(action):
        os.kill(os.getpid(), signal.SIGKILL)
