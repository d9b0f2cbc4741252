"""Named points between two steps that touch storage, where a test can make the process fail.

``MUTATOR_FAILPOINT=publish.renamed`` kills the process (SIGKILL, as the kernel or an operator would) when it gets
there; ``task.data.written:raise`` raises instead, once, in the first attempt of each task, as a lost executor would.
Without the variable a point costs one look-up.
"""

from __future__ import annotations

import os
import signal

__all__ = ["FAILPOINTS", "failpoint"]

VARIABLE = "MUTATOR_FAILPOINT"

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
    "publish.synced",
    "publish.renamed",
    "publish.done",
)


def failpoint(name: str, attempt: int = 0) -> None:
    """Fail here if the environment says so; ``attempt`` is the number of the task's attempt, 0 for the first."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    point, _, action = wanted.partition(":")
    if point != name or attempt:
        return
    if action == "raise":
        raise OSError(f"failpoint {name}")
    os.kill(os.getpid(), signal.SIGKILL)
