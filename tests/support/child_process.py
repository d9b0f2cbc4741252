"""Functions run in a child process that a failpoint may kill."""

import json
import os
import signal
import time
from collections import Counter
from contextlib import suppress

from mutator.errors import failpoints


def in_child(act, point="none"):
    """Call a function in a child process; return (signal or 0, the failpoints that it passed)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.environ[failpoints.VARIABLE] = point
        failpoints.PASSED.clear()
        code = 1
        with suppress(BaseException):
            act()
            code = 0
        os.write(writer, json.dumps([code, failpoints.PASSED]).encode())
        os._exit(code)
    os.close(writer)
    _, how = os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read()
    if os.WIFSIGNALED(how):
        return os.WTERMSIG(how), []
    code, passed = json.loads(answer)
    assert code == 0, "the child failed"
    return 0, passed


def killed_after(act, seconds):
    """Call a function in a child process that is killed after some seconds; return whether it had ended before."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            act()
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return not os.WIFSIGNALED(os.waitpid(child, 0)[1])


def points(passed):
    """Yield a name for each passage of a failpoint: storage.linked:1, storage.linked:2."""
    seen = Counter()
    for name in passed:
        seen[name] += 1
        yield f"{name}:{seen[name]}"
