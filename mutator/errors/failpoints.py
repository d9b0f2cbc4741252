"""Named points between two steps that touch storage, where a test can make the process fail.

``MUTATOR_FAILPOINT=publish.renamed`` kills the process (SIGKILL, as the kernel or an operator would) when it gets
there; ``storage.linked:3`` when it gets there for the third time; ``task.data.written:raise`` raises instead, once, in
the first attempt of each task, as a lost executor would. Without the variable a point costs one look-up.
"""

import os
import signal

from mutator.errors.display import nearest_word
from mutator.errors.exceptions import error

VARIABLE = "MUTATOR_FAILPOINT"
PASSED: list[str] = []  # while the variable is set
NONE = "none"  # the value that only records the points that are passed
NAMES = frozenset(
    [
        "apply.data.written",
        "apply.decided.again",
        "apply.hidden.written",
        "apply.keys.written",
        "apply.tombstones.written",
        "apply.events.written",
        "compact.closed.written",
        "archive.directory",
        "archive.done",
        "archive.failed.directory",
        "archive.failed.moved",
        "archive.marked",
        "archive.master",
        "archive.moved",
        "archive.pruned",
        "archive.removed",
        "archive.rewritten",
        "archive.working.removed",
        "bridge.begun",
        "bridge.committed",
        "bridge.exported",
        "bridge.file.written",
        "bridge.files.moved",
        "bridge.merged",
        "bridge.noted",
        "bridge.settle.found",
        "bridge.settle.retired",
        "bridge.staged",
        "bridge.table.created",
        "bridge.table.exchanged",
        "bridge.table.written",
        "bridge.tidied",
        "carry.copied",
        "carry.done",
        "carry.linked",
        "changes.hidden",
        "changes.kept",
        "changes.linked",
        "changes.removed",
        "claim.control",
        "claim.control.left",
        "claim.directory",
        "claim.done",
        "claim.journaled",
        "claim.marker",
        "claim.moved",
        "clean.archived",
        "clean.base.written",
        "clean.begun",
        "clean.committed",
        "clean.entry.removed",
        "clean.file.removed",
        "clean.list.removed",
        "clean.list.written",
        "commit.begin",
        "commit.done",
        "commit.settled",
        "compact.data.written",
        "compact.keys.written",
        "compact.tombstones.written",
        "failed.directory",
        "failed.forgotten",
        "failed.noted",
        "hive.discard.partitions",
        "hive.discard.removed",
        "hive.discard.shadow",
        "hive.old.removed",
        "hive.partitions.created",
        "hive.partitions.dropped",
        "hive.retire.removed",
        "hive.shadow.created",
        "hive.shadow.dropped",
        "hive.staged",
        "hive.statistics.removed",
        "hive.switched",
        "hive.written",
        "lock.cleared",
        "lock.created",
        "many.claimed",
        "many.given",
        "many.removed",
        "many.synced",
        "merge.bad",
        "merge.bad.noted",
        "merge.directories",
        "merge.done",
        "merge.packs.joined",
        "merge.touched",
        "order.committed",
        "order.journaled",
        "publish.done",
        "publish.empty.removed",
        "publish.first.rename",
        "publish.found",
        "publish.master",
        "publish.passage",
        "publish.renamed",
        "publish.symlinks",
        "publish.version.done",
        "recover.abandoned",
        "recover.abandoning",
        "recover.done",
        "recover.ended",
        "recover.listed",
        "recover.output.hidden",
        "recover.output.removed",
        "recover.published",
        "recover.returned",
        "recover.filters.removed",
        "recover.swept",
        "repair.copy",
        "repair.index.written",
        "repair.manifest",
        "restore.committed",
        "restore.journaled",
        "return.aside",
        "return.control",
        "return.directory",
        "return.done",
        "return.marker",
        "return.moved",
        "runs.begun",
        "runs.linked",
        "runs.partition.done",
        "runs.published",
        "runs.recorded",
        "runs.success",
        "split.part.written",
        "stage.announced",
        "stage.copy.written",
        "stage.created",
        "stage.files.moved",
        "stage.litter.removed",
        "stage.manifest.written",
        "stage.merged",
        "stage.success.written",
        "stage.swept",
        "stage.verified",
        "storage.linked",
        "storage.written",
        "table.bookmark.removed",
        "table.bookmark.written",
        "table.checkpoint.removed",
        "table.checkpoint.written",
        "table.commit",
        "table.committed",
        "table.created",
        "table.given.up",
        "table.giving.up",
        "table.hint.written",
        "table.hinted",
        "table.linked",
        "table.placed",
        "task.carried",
        "task.changes.opened",
        "task.changes.written",
        "task.data.opened",
        "task.data.written",
        "task.filters.written",
        "task.order.written",
        "task.feed.filters.written",
        "task.rejected.written",
        "task.started",
        "task.tombstones.written",
        "verify.done",
    ]
)


def failpoint(name: str, attempt: int = 0) -> None:
    """Fail here if the environment says so. attempt: number of the task's attempt, 0 for the first.

    Raises ConfigError if the variable is malformed, or names no failpoint.
    """
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    PASSED.append(name)
    point, _, action = wanted.partition(":")
    if not (action in ("", "raise") or (action.isascii() and action.isdigit())):
        what = f"'{action}' is not an action; write NAME, NAME:raise, or NAME:N for the Nth time"
        raise error("config", where=f"{VARIABLE}={wanted}", faults=what)
    if point not in NAMES and point != NONE:
        near = nearest_word(point, NAMES)
        what = f"there is no failpoint '{point}'{f'; did you mean {near}?' if near else ''}"
        raise error("config", where=f"{VARIABLE}={wanted}", faults=what)
    if point != name or attempt:
        return
    if action == "raise":
        raise OSError(f"failpoint {name}")
    if not action or PASSED.count(name) == int(action):
        os.kill(os.getpid(), signal.SIGKILL)
