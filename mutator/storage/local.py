"""Local disks (and whatever is mounted like one), through ``os`` alone.

Hadoop's local file system is not used: its exclusive creation lets two writers win, and its rename nests directories.
The durable order is: write, fsync the file, link it to its name, fsync the directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.storage.entry import Entry
from mutator.storage.local_rename import NO_LINKS, exchange, rename_noreplace

__all__ = ["LocalStorage"]

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
}
_FEW = 8  # directories that are made durable one by one


class LocalStorage:
    """The storage contract on a local file system."""

    renames = True
    holds = True

    def exclusive(self, path: str) -> bool:
        """Tell whether a file is created exclusively: the kernel sees to that."""
        return True

    def stat(self, path: str) -> Entry | None:
        """Return what is at a path, or None."""
        try:
            return _entry(path, os.lstat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as fault:
            raise _storage_error(path, fault) from None

    def resolve(self, path: str) -> str:
        """Return the one spelling of a path: links to directories are followed, a link to a file is not."""
        if os.path.isdir(path):
            return os.path.realpath(path)
        return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, by name; links are not followed."""
        try:
            with os.scandir(path) as found:
                entries = []
                for one in found:
                    with contextlib.suppress(FileNotFoundError):  # it was there when the directory was read
                        entries.append(_entry(one.path, one.stat(follow_symlinks=False)))
        except OSError as fault:
            raise _storage_error(path, fault) from None
        return sorted(entries, key=lambda entry: os.fsencode(entry.name))

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield everything below a directory that is none itself, in no order; links are not followed."""
        waiting = [path]
        while waiting:
            directory = waiting.pop()
            try:
                with os.scandir(directory) as found:
                    entries = []
                    for one in found:
                        if one.is_dir(follow_symlinks=False):  # known without asking: trees have many of them
                            waiting.append(one.path)
                            continue
                        with contextlib.suppress(FileNotFoundError):
                            entries.append(_entry(one.path, one.stat(follow_symlinks=False)))
            except OSError as fault:
                raise _storage_error(directory, fault) from None
            yield from entries

    def glob(self, pattern: str) -> list[Entry]:
        """Return the entries that match a pattern, by path; ``*`` does not match hidden names."""
        found = (self.stat(path) for path in sorted(glob.glob(pattern), key=os.fsencode))
        return [entry for entry in found if entry]

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open a file for reading at an offset; a link or a special file is refused."""
        try:
            # Not blocking, so that a FIFO which took the place of a file is an error and no endless wait.
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise OSError(errno.EINVAL, "not a regular file")
            stream = open(path, "rb", buffering=0, opener=lambda *_: handle)  # noqa: SIM115  # messages need its name
            if offset:
                stream.seek(offset)
        except OSError as fault:
            raise _storage_error(path, fault) from None
        return stream

    @contextmanager
    def create_new(self, path: str, final: Callable[[], str] | None = None) -> Iterator[BinaryIO]:
        """Create a file that must not exist: visible only when whole and durable, aborted by an exception."""
        scratch = _scratch_of(path)
        try:
            with open(scratch, "xb", buffering=1 << 20) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            failpoint("storage.written")
            path = path if final is None else final()
            try:
                os.link(scratch, path)
            except OSError as fault:
                if fault.errno not in NO_LINKS:
                    raise
                rename_noreplace(scratch, path)
            failpoint("storage.linked")
            self._sync_one(os.path.dirname(path))
        except OSError as fault:
            raise _storage_error(path, fault) from None
        finally:
            if os.path.lexists(scratch):
                os.unlink(scratch)

    def link_new(self, source: str, target: str) -> bool:
        """Make a file appear at a second path that must not exist; False where the file system has no hard links."""
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError as fault:
            if fault.errno in NO_LINKS:
                return False
            raise _storage_error(target, fault) from None
        return True

    def sync(self, path: str) -> None:
        """Make the entries of a directory durable, whoever has made them; one that is not there is fine."""
        try:
            self._sync_one(path)
        except FileNotFoundError:
            pass
        except OSError as fault:
            raise _storage_error(path, fault) from None

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, durably; one that exists is fine."""
        missing, above = [], path
        while not os.path.lexists(above):
            missing.append(above)
            above = os.path.dirname(above)
        try:
            for directory in reversed(missing):
                with contextlib.suppress(FileExistsError):  # somebody else makes it as well
                    os.mkdir(directory)
                self._sync_one(os.path.dirname(directory))
            if os.path.lexists(path) and not os.path.isdir(path):  # it may also have been removed by now
                raise NotADirectoryError(errno.ENOTDIR, f"{above} is in the way and is no directory", path)
        except OSError as fault:
            raise _storage_error(path, fault) from None

    def make_directories(self, paths: Sequence[str]) -> None:
        """Create directories and their parents; ``sync_all`` makes them durable where they are many."""
        if len(paths) <= _FEW:
            for path in paths:
                self.make_directory(path)
            return
        try:
            made: set[str] = set()
            for path in paths:
                missing = []
                while path not in made:
                    missing.append(path)
                    try:
                        os.mkdir(path)
                    except FileExistsError:
                        break
                    except FileNotFoundError:
                        path = os.path.dirname(path)
                        continue
                    break
                for one in reversed(missing[:-1]):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(one)
                made.update(missing)
        except OSError as fault:
            raise _storage_error(path, fault) from None

    def sync_all(self, path: str) -> None:
        """Make all that is in a directory durable, however deep: in one call, for it may be much."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
                if syncfs is None or syncfs(handle) != 0:
                    os.sync()
            finally:
                os.close(handle)
        except OSError as fault:
            raise _storage_error(path, fault) from None

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; one that is not there is fine."""
        entry = self.stat(path)
        if entry is None:
            return
        try:
            if entry.type != "directory":
                os.unlink(path)
                return
            for attempt in range(20):
                try:
                    shutil.rmtree(path)
                    return
                except FileNotFoundError:
                    pass  # somebody else removes it as well
                except OSError as fault:
                    # A worker of a killed run may still be writing into it, for as long as its JVM takes to die.
                    if fault.errno not in (errno.ENOTEMPTY, errno.EBUSY) or attempt == 19:
                        raise
                if not os.path.lexists(path):
                    return
                time.sleep(0.1)
        except FileNotFoundError:
            return
        except OSError as fault:
            raise _storage_error(path, fault) from None

    def rename_new(self, source: str, target: str) -> None:
        """Move a file or directory to a name that must not exist, in one step, durably. Raises FileExistsError."""
        try:
            rename_noreplace(source, target)
            self._sync_one(os.path.dirname(target))
        except FileExistsError:
            raise
        except OSError as fault:
            raise _storage_error(target, fault) from None

    def swap(self, one: str, other: str) -> bool:
        """Exchange two directories in one step, durably; False where the file system cannot, and nothing was done.

        What takes the other's place may be read and written by whom that may.
        """
        try:
            status = os.stat(other)
            with contextlib.suppress(PermissionError):  # of a group that this user is not in
                os.chown(one, -1, status.st_gid)
            os.chmod(one, stat.S_IMODE(status.st_mode))
            if not exchange(one, other):
                return False
            for directory in {os.path.dirname(one), os.path.dirname(other)}:
                self._sync_one(directory)
        except OSError as fault:
            raise _storage_error(other, fault) from None
        return True

    def remove_directory(self, path: str) -> bool:
        """Remove a directory if nothing is in it; False where something is. One that is not there is fine."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError as fault:
            if fault.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                return False
            raise _storage_error(path, fault) from None
        return True

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file, in the place of one that may be there."""
        scratch = _scratch_of(path)
        try:
            with open(scratch, "xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(scratch, path)
            self._sync_one(os.path.dirname(path))
        except OSError as fault:
            raise _storage_error(path, fault) from None
        finally:
            if os.path.lexists(scratch):
                os.unlink(scratch)

    def unfinished(self, path: str) -> list[str]:
        """Return nothing: what a killed writer leaves has a hidden name, and is in every listing."""
        return []

    def hold(self, path: str) -> object | None:
        """Take a directory for as long as the returned object lives; None if another process has it.

        The kernel gives the claim back when its process ends, however it ends.
        """
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise _storage_error(path, fault) from None
        claim = _Claim(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held it before may have removed or moved the directory just now.
            there, held = os.stat(path), os.fstat(handle)
        except (BlockingIOError, FileNotFoundError):
            return None
        except OSError as fault:
            raise _storage_error(path, fault) from None
        return claim if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino) else None

    def _sync_one(self, directory: str) -> None:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _Claim:
    """An open, locked directory; closing it gives the claim back."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __del__(self) -> None:
        os.close(self._handle)


def _scratch_of(path: str) -> str:
    """Return a hidden name beside a file for as long as it is written."""
    directory, name = os.path.split(path)
    begin = os.fsdecode(os.fsencode(name)[:100])  # a name is at most 255 bytes
    return os.path.join(directory, f".{begin}.{uuid.uuid4().hex}")


def _entry(path: str, status: os.stat_result) -> Entry:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "device")
    return Entry(path, path.rpartition("/")[2], status.st_size, kind, status.st_ctime, written=status.st_mtime)


def _storage_error(path: str, fault: OSError) -> Exception:
    if isinstance(fault, MutatorError):
        return fault
    kinds = {FileNotFoundError: "storage.missing", FileExistsError: "storage.exists"}
    return error(kinds.get(type(fault), "storage"), path=path, why=fault.strerror or str(fault))
