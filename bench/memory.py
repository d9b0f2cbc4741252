"""The memory of a tree of processes, sampled from /proc.

Only anonymous memory (``RssAnon``) counts: heaps, but no mapped files. Otherwise input files on a memory file system
would count for contenders that map them, but not for those that read them.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

__all__ = ["Sampler"]

PERIOD = 0.1
TREE_EVERY = 5  # samples between two searches for new processes, which cost more than a sample
PROC = Path("/proc")


class Sampler:
    """Sample the tree below a process until the context is left; ``tree`` and ``worker`` are the peaks, in bytes.

    ``worker`` is the largest single Python worker of Spark.
    """

    def __init__(self, root: int) -> None:
        self.tree = 0
        self.worker = 0
        self._root = root
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        for number in itertools.count():
            if number % TREE_EVERY == 0:
                tree = {pid: _is_worker(pid) for pid in _tree(self._root)}
            memory = {pid: _anonymous(pid) for pid in tree}
            self.tree = max(self.tree, sum(memory.values()))
            self.worker = max([self.worker, *(memory[pid] for pid in tree if tree[pid])])
            if self._done.wait(PERIOD):
                return


def _tree(root: int) -> list[int]:
    """Return the ids of a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def _parent(entry: Path) -> int | None:
    try:
        # a program name may contain blanks and brackets; state and parent follow the last bracket
        return int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):  # it has ended
        return None


def _anonymous(pid: int) -> int:
    try:
        for line in (PROC / str(pid) / "status").read_bytes().splitlines():
            if line.startswith(b"RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:  # it has ended
        pass
    return 0


def _is_worker(pid: int) -> bool:
    """Return whether a process is one of Spark's Python workers, which are forks of its daemon or of ours."""
    try:
        # whole arguments, because an argument of the JVM contains the module's name, too
        arguments = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        return b"pyspark.daemon" in arguments or b"mutator.engine.spark.daemon" in arguments
    except OSError:
        return False
