"""Storage in a dictionary, of three types, which can fail, lose answers and die at any call.

posix: can rename, and can exchange two directories. hdfs: can rename, but not exchange. s3: can do neither; files are
created exclusively, and removed; a directory exists as long as it contains a file.
"""

from __future__ import annotations

import io
import posixpath
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mutator.errors import error
from mutator.storage import contract, registry
from mutator.storage.contract import Entry, directories_below, walked

KINDS = ("posix", "hdfs", "s3")


class Killed(BaseException):
    """The process died here: nothing that it does afterwards has an effect."""


class ModelStorage:
    def __init__(self, storage_type: str) -> None:
        self.storage_type = storage_type
        self.renames = storage_type != "s3"
        self.holds = storage_type == "posix"
        self.empty_directories = self.renames
        self.begun: set[str] = set()  # files whose writers died
        self.tree: dict[str, bytes | None] = {}  # path -> content, None for a directory
        self.times: dict[str, float] = {}
        self.clock = 1000.0
        self.calls = 0
        self.log: list[str] = []
        self.fault: Callable[[int, str], str | None] = lambda number, name: None
        self.dead = False
        self._step = threading.RLock()

    def service(self, path: str) -> str:
        return ""

    # --- faults

    @contextmanager
    def _call(self, name: str, path: str) -> Iterator[None]:
        if self.dead:
            raise Killed
        number, self.calls = self.calls, self.calls + 1
        self.log.append(f"{name} {path}")
        do = self.fault(number, name)
        if do == "kill":
            self.dead = True
            raise Killed
        if do is not None and do != "lost":
            raise error("storage", path=path, why=do)
        with self._step:  # all or nothing, even with concurrent threads
            yield
        if do == "lost":
            raise error("storage", path=path, why="timeout")

    # --- the contract

    waits = False
    writes = True
    dataset_name, with_suffix = contract.Storage.dataset_name, contract.Storage.with_suffix

    def stat(self, path: str) -> Entry | None:
        with self._call("stat", path):
            return self._entry(path)

    def resolve(self, path: str) -> str:
        return path

    def entries(self, path: str) -> list[Entry]:
        with self._call("entries", path):
            if self.renames and path not in self.tree:
                raise error("storage.missing", path=path, why="no such directory")
            names = {one[len(path) + 1 :].split("/")[0] for one in self.tree if one.startswith(path + "/")}
            found = (self._entry(f"{path}/{name}") for name in sorted(names))
            return [entry for entry in found if entry]

    def walk(self, path: str) -> Iterator[Entry]:
        return walked(self.entries, path)

    def glob(self, pattern: str) -> list[Entry]:
        return contract.matches(pattern, self.entries, self.stat)

    def open(self, path: str, offset: int = 0) -> io.BytesIO:
        with self._call("open", path):
            content = self.tree.get(path)
            if content is None:
                raise error("storage.missing", path=path, why="no such file")
            stream = io.BytesIO(content)
            stream.seek(offset)
            return stream

    def mapped(self, path: str) -> None:
        return None

    def native(self, path: str) -> None:
        """Open no file: only a real one can be read by Arrow alone."""

    @contextmanager
    def create_new(self, path: str, final: Callable[[], str] | None = None) -> Iterator[io.BytesIO]:
        stream = io.BytesIO()
        yield stream
        if self.storage_type == "s3" and "/part-" in path:  # a large file is an upload until it is completed or aborted
            self.begun.add(path)
        with self._call("create_new", path):
            self.begun.discard(path)
            path = final() if final is not None else path
            if path in self.tree:
                raise error("storage.exists", path=path, why="it exists")
            if self.renames and self.tree.get(posixpath.dirname(path), b"") is not None:
                raise error("storage.missing", path=path, why="its directory does not exist")
            self._put(path, stream.getvalue())

    def exclusive(self, path: str) -> bool:
        return True

    def replace(self, path: str, content: bytes) -> None:
        with self._call("replace", path):
            self._put(path, content)

    def unfinished(self, path: str) -> list[str]:
        with self._call("unfinished", path):
            return sorted(one for one in self.begun if one == path or one.startswith(path + "/"))

    def link_new(self, source: str, target: str) -> bool:
        return False

    def make_directory(self, path: str, within: str = "") -> None:
        with self._call("make_directory", path):
            path = path.rstrip("/")
            below = directories_below(path, within) if self.renames and within else []
            if below and within.rstrip("/") not in self.tree:
                raise error("storage", path=path, why="No such file or directory")
            path = below[-1] if below else path
            while self.renames and path not in self.tree and "://" in path.rstrip("/"):
                self._put(path, None)
                path = posixpath.dirname(path)

    def make_directories(self, paths) -> None:
        for path in paths:
            self.make_directory(path)

    def sync_all(self, path: str) -> None:
        with self._call("sync_all", path):
            pass

    def remove(self, path: str) -> None:
        with self._call("remove", path):
            for one in [one for one in self.tree if one == path or one.startswith(path + "/")]:
                del self.tree[one]
            self.begun = {one for one in self.begun if one != path and not one.startswith(path + "/")}

    def remove_directory(self, path: str) -> bool:
        with self._call("remove_directory", path):
            if any(one.startswith(path + "/") for one in self.tree):
                return False
            if self.tree.get(path) is None:
                self.tree.pop(path, None)
                return True
            return False

    def sync(self, path: str) -> None:
        with self._call("sync", path):
            pass

    def rename_new(self, source: str, target: str) -> None:
        assert self.renames
        with self._call("rename_new", f"{source} {target}"):
            if source not in self.tree:
                raise error("storage.missing", path=target, why="no such file or directory")
            if target in self.tree:
                raise FileExistsError(target)
            if posixpath.dirname(target) not in self.tree:
                raise error("storage.missing", path=target, why="no such file or directory")
            self._rename({source: target})

    def swap(self, one: str, other: str) -> bool:
        if self.storage_type != "posix":
            return False
        with self._call("swap", f"{one} {other}"):
            if one not in self.tree or other not in self.tree:
                raise error("storage.missing", path=one, why="no such directory")
            self._rename({one: other, other: one})
            return True

    def hold(self, path: str) -> object | None:
        with self._call("hold", path):
            return object() if path in self.tree else None

    # --- the internal state

    def _entry(self, path: str) -> Entry | None:
        name = posixpath.basename(path)
        if path in self.tree:
            content = self.tree[path]
            size, entry_type = (0, "directory") if content is None else (len(content), "file")
            return Entry(path, name, size, entry_type, self.times[path])
        if any(one.startswith(path + "/") for one in self.tree):
            return Entry(path, name, 0, "directory", 0.0)
        return None

    def _put(self, path: str, content: bytes | None) -> None:
        self.clock += 1
        self.tree[path], self.times[path] = content, self.clock

    def _rename(self, names: dict[str, str]) -> None:
        moved = {}
        for path in list(self.tree):
            for source, target in names.items():
                if path == source or path.startswith(source + "/"):
                    moved[target + path[len(source) :]] = (self.tree.pop(path), self.times[path])
        for path, (content, time) in moved.items():
            self.tree[path], self.times[path] = content, time


@contextmanager
def mounted(storage: ModelStorage) -> Iterator[str]:
    """Register a storage as the backend of ``model://``; return the path of a base on it."""
    registry.BACKENDS["model"] = lambda: storage
    try:
        yield "model://base"
    finally:
        del registry.BACKENDS["model"]
