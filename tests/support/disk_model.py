"""The possible states of a disk after a power failure: recorded calls of ``LocalStorage`` are replayed in part.

A file's content is safe after an fsync of the file; a name in a directory is safe after an fsync of that directory (for
a rename, of the target's directory); a whole tree is safe after ``sync_all``. An unsafe change may be missing or
present, independently of other changes; unsafe content may be missing, whole, or cut off. A rename happens whole or not
at all, as on a journaling file system.
"""

from __future__ import annotations

import builtins
import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutator.storage import local, local_directories

Change = tuple[str, ...]


class Recorder:
    """The calls that change a directory tree, in their order."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.calls: list[tuple[Any, ...]] = []

    def _path(self, path: Any) -> str:
        return os.path.relpath(os.fsdecode(path), self.root)

    @contextmanager
    def recording(self, monkeypatch: Any) -> Iterator[None]:
        recorder, real = self, os

        class Os:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def link(self, source: str, target: str, **more: Any) -> None:
                real.link(source, target, **more)
                recorder.calls.append(("link", recorder._path(source), recorder._path(target)))

            def unlink(self, path: str) -> None:
                real.unlink(path)
                recorder.calls.append(("unlink", recorder._path(path)))

            def mkdir(self, path: str) -> None:
                real.mkdir(path)
                recorder.calls.append(("mkdir", recorder._path(path)))

            def rmdir(self, path: str) -> None:
                real.rmdir(path)
                recorder.calls.append(("rmdir", recorder._path(path)))

            def rename(self, source: str, target: str) -> None:
                real.rename(source, target)
                recorder.calls.append(("rename", recorder._path(source), recorder._path(target)))

            def replace(self, source: str, target: str) -> None:
                real.replace(source, target)
                recorder.calls.append(("rename", recorder._path(source), recorder._path(target)))

            def fsync(self, handle: int) -> None:
                path = recorder._path(real.readlink(f"/proc/self/fd/{handle}"))
                recorder.calls.append(("fsync", path, site()))

        class Shutil:
            def rmtree(self, path: str) -> None:
                for directory, directories, files in os.walk(path, topdown=False):
                    for name in files:
                        recorder.calls.append(("unlink", recorder._path(os.path.join(directory, name))))
                    recorder.calls.extend(("rmdir", recorder._path(os.path.join(directory, d))) for d in directories)
                recorder.calls.append(("rmdir", recorder._path(path)))
                shutil.rmtree(path)

        def create(path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
            stream = builtins.open(path, mode, *more, **options)  # noqa: SIM115  # who asked for it closes it
            if "x" in mode:
                recorder.calls.append(("create", recorder._path(path)))
                write = stream.write

                class Stream:
                    def write(self, data: bytes) -> int:
                        recorder.calls.append(("write", recorder._path(path), bytes(data)))
                        return write(data)

                    def __getattr__(self, name: str) -> Any:
                        return getattr(stream, name)

                    def __enter__(self) -> Any:
                        return self

                    def __exit__(self, *_: object) -> None:
                        stream.close()

                return Stream()
            return stream

        def sync_all(_: Any, path: str) -> None:
            step = sys._getframe(1).f_code.co_name
            recorder.calls.append(("sync_all", recorder._path(path), f"sync_all, {step}"))

        rename = local_directories._renameat2

        def renameat2(source: str, target: str, how: int) -> bool:
            done = rename(source, target, how)
            if done:
                kind = "exchange" if how == local_directories._RENAME_EXCHANGE else "rename"
                recorder.calls.append((kind, recorder._path(source), recorder._path(target)))
            return done

        with monkeypatch.context() as patch:
            patch.setattr(local, "os", Os())
            patch.setattr(local_directories, "os", Os())
            patch.setattr(local_directories, "os", Os())
            patch.setattr(local_directories, "shutil", Shutil())
            patch.setattr(local, "open", create, raising=False)
            patch.setattr(local_directories, "_renameat2", renameat2)
            patch.setattr(local.LocalStorage, "sync_all", sync_all)
            yield


def site() -> str:
    """Return the storage operation that asks for an fsync, and whether it syncs a file or a directory."""
    frame = sys._getframe(2)
    of = "file"
    while frame.f_code.co_name in ("_fsync", "_sync_change"):
        frame, of = frame.f_back, "directory"  # type: ignore[assignment]
    return f"{frame.f_code.co_name}, {of}"


@dataclass
class File:
    content: bytes = b""
    safe: bytes = b""


@dataclass
class Disk:
    """Names and contents as the running system sees them, and the parts that are safe."""

    names: dict[str, File | None] = field(default_factory=dict)  # None: a directory
    kept: dict[str, File | None] = field(default_factory=dict)
    # the directory that a change belongs to, the change, the file that it adds
    pending: list[tuple[str, Change, File | None]] = field(default_factory=list)

    def apply(self, call: tuple[Any, ...], without: str | None) -> None:
        name, path, *more = call
        if name == "write":
            file = self.names[path]
            assert file is not None
            file.content += more[0]
        elif name == "fsync":
            if more[0] != without:
                self._fsync(path)
        elif name == "sync_all":
            if more[0] != without:
                for one in [one for one in self.names if is_in(one, path)]:
                    self._fsync(one)
        elif name == "create":
            self.names[path] = File()
            self.pending.append((parent(path), ("add", path), self.names[path]))
        elif name == "mkdir":
            self.names[path] = None
            self.pending.append((parent(path), ("add", path), None))
        elif name == "link":
            self.names[more[0]] = self.names[path]
            self.pending.append((parent(more[0]), ("add", more[0]), self.names[path]))
        elif name in ("unlink", "rmdir"):
            del self.names[path]
            self.pending.append((parent(path), ("remove", path), None))
        else:
            change(self.names, (name, path, more[0]), None)
            self.pending.append((parent(more[0]), (name, path, more[0]), None))

    def _fsync(self, path: str) -> None:
        file = self.names.get(path)
        if file is not None:
            file.safe = file.content
            return
        left = []
        for directory, what, payload in self.pending:
            if directory == path or (what[0] == "exchange" and parent(what[1]) == path):
                change(self.kept, what, payload)
            else:
                left.append((directory, what, payload))
        self.pending = left

    def after_a_crash(self, rng: random.Random) -> dict[str, bytes | None]:
        """Return one of the trees that may exist when the power is back."""
        names = dict(self.kept)
        for _, what, payload in self.pending:
            if rng.random() < 0.5:
                change(names, what, payload)
        found: dict[str, bytes | None] = {".": None}
        for path, file in sorted(names.items()):
            if names.get(parent(path), b"") is not None and parent(path) != ".":
                continue  # its directory does not exist
            if file is None:
                found[path] = None
            elif file.safe == file.content or rng.random() < 0.3:
                found[path] = file.content
            else:
                found[path] = file.content[: rng.randint(len(file.safe), len(file.content))]
        return found


def change(names: dict[str, File | None], what: Change, payload: File | None) -> None:
    """Apply a change to a tree, if the entries that it needs exist."""
    if what[0] == "add":
        names[what[1]] = payload
    elif what[0] == "remove":
        for path in [path for path in names if path == what[1] or path.startswith(what[1] + "/")]:
            del names[path]
    elif what[1] in names:
        moves = {what[1]: what[2]} | ({what[2]: what[1]} if what[0] == "exchange" else {})
        if what[0] == "exchange" and what[2] not in names:
            return
        moved = {}
        for path in list(names):
            for source, target in moves.items():
                if path == source or path.startswith(source + "/"):
                    moved[target + path[len(source) :]] = names.pop(path)
        names.update(moved)


def is_in(path: str, directory: str) -> bool:
    """Return whether a path is a directory or below it."""
    return directory == "." or path == directory or path.startswith(directory + "/")


def parent(path: str) -> str:
    return os.path.dirname(path) or "."


def disk_of(root: Path) -> Disk:
    """Return a disk with a safe tree on it."""
    disk = Disk()
    for path in sorted(root.rglob("*")):
        content = None if path.is_dir() else path.read_bytes()
        disk.names[str(path.relative_to(root))] = None if content is None else File(content, content)
    disk.kept = dict(disk.names)
    return disk
