"""Named points between two steps that touch storage, where a test can make the process fail.

``MUTATOR_FAILPOINT=publish.renamed`` kills the process (SIGKILL, as the kernel or an operator would) when it gets
there; ``storage.linked:3`` when it gets there for the third time; ``task.data.written:raise`` raises instead, once, in
the first attempt of each task, as a lost executor would. Without the variable a point costs one look-up.
"""

import os
import signal

from mutator.errors.exceptions import error

VARIABLE = "MUTATOR_FAILPOINT"
PASSED: list[str] = []  # while the variable is set


def failpoint(name: str, attempt: int = 0) -> None:
    """Fail here if the environment says so. attempt: number of the task's attempt, 0 for the first.

    Raises ConfigError if the variable is malformed.
    """
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    PASSED.append(name)
    point, _, action = wanted.partition(":")
    if not (action in ("", "raise") or (action.isascii() and action.isdigit())):
        what = f"'{action}' is not an action; write NAME, NAME:raise, or NAME:N for the Nth time"
        raise error("config", where=f"{VARIABLE}={wanted}", faults=what)
    if point != name or attempt:
        return
    if action == "raise":
        raise OSError(f"failpoint {name}")
    if not action or PASSED.count(name) == int(action):
        os.kill(os.getpid(), signal.SIGKILL)
