"""Local disks, and everything mounted like one, through ``os`` alone.

Hadoop's local file system is not used: its exclusive creation lets two writers win, and its rename nests directories.
The durable order is: write, fsync the file, link it to its name, fsync the directory.
"""

import contextlib
import errno
import glob
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.errors.parts import place
from mutator.storage import local_directories
from mutator.storage.contract import Entry, Storage, directories_below
from mutator.storage.local_directories import NO_LINKS, exchange, link_new, rename_noreplace

_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
}
# The kernel's answers that mean that nothing was changed; after any other one, such as EIO, that is not certain.
_KINDS: dict[int | None, str] = {
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "storage.missing"),  # ENOTDIR: a file is where a directory should be
    errno.EEXIST: "storage.exists",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "storage.full"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "storage.refused"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "storage.handles"),
}
_ABANDONED = 3600  # seconds after which a hidden file has no writer any more
_FEW = 8  # up to so many directories are made durable one by one


class LocalStorage(Storage):
    """The storage contract on a local file system."""

    renames = True
    holds = True

    def dataset_name(self, path: str) -> tuple[str, str]:
        """Return the namespace and the name of a dataset, as OpenLineage spells them."""
        return "file", path

    def hadoop_address(self, path: str) -> str:
        """Return the address by which Hadoop knows a path."""
        return f"file://{path}"

    def exclusive(self, path: str) -> bool:
        """Return True: the kernel creates files exclusively."""
        return True

    def stat(self, path: str) -> Entry | None:
        """Return the entry at a path; None if nothing is there."""
        with _translated(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return _entry(path, os.lstat(path))
        return None

    def resolve(self, path: str) -> str:
        """Return the one spelling of a path: links to directories are followed, a link to a file is not."""
        if os.path.isdir(path):
            return os.path.realpath(path)
        return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))

    def target(self, path: str) -> Entry | None:
        """Return the entry that a symbolic link leads to; None if nothing is there, or only the link itself."""
        with contextlib.suppress(OSError):
            return self.stat(os.path.realpath(path, strict=True))
        return None

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name. Links are not followed."""
        with _translated(path), os.scandir(path) as found:
            entries = []
            for one in found:
                with contextlib.suppress(FileNotFoundError):  # it was there when the directory was read
                    entries.append(_entry(one.path, one.stat(follow_symlinks=False)))
        return sorted(entries, key=lambda entry: os.fsencode(entry.name))

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield every entry below a directory except directories. Links are not followed."""
        waiting = [path]
        while waiting:
            directory, entries = waiting.pop(), []
            gone = () if directory == path else (FileNotFoundError,)  # it was there when the one above it was read
            with contextlib.suppress(*gone), _translated(directory, *gone), os.scandir(directory) as found:
                for one in found:
                    if one.is_dir(follow_symlinks=False):  # known without asking: trees have many of them
                        waiting.append(one.path)
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        entries.append(_entry(one.path, one.stat(follow_symlinks=False)))
            yield from entries

    def glob(self, pattern: str) -> list[Entry]:
        """Return the entries that match a pattern, sorted by path; ``*`` does not match hidden names."""
        found = (self.stat(path) for path in sorted(glob.glob(pattern), key=os.fsencode))
        return [entry for entry in found if entry]

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open a regular file for reading from an offset; links and special files are refused."""
        with _translated(path):
            # Not blocking: a FIFO that has replaced a file must be an error, not an endless wait.
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise OSError(errno.EINVAL, "not a regular file")
            stream = open(path, "rb", buffering=0, opener=lambda *_: handle)  # noqa: SIM115  # messages need its name
            if offset:
                stream.seek(offset)
        return stream

    def mapped(self, path: str) -> Any:
        """Return the bytes of a file, mapped into memory, as a buffer; no descriptor stays open for it."""
        import pyarrow as pa  # ``mmap`` keeps a descriptor for as long as the bytes are mapped

        with self.open(path), _translated(path), pa.memory_map(os.fsencode(path)) as file:
            return file.read_buffer()

    def native(self, path: str) -> Any:
        """Open a file as a pa.NativeFile, which threads can read at the same time."""
        import pyarrow as pa

        with _translated(path):
            return pa.OSFile(path, "rb")

    @contextmanager
    def create_new(self, path: str, final: Callable[[], str] | None = None) -> Iterator[BinaryIO]:
        """Create a file that must not exist: it appears when the block ends, whole and durable."""
        try:
            with _scratch(path) as scratch:
                with open(scratch, "xb", buffering=1 << 20) as stream:
                    yield stream
                    stream.flush()
                    os.fsync(stream.fileno())
                failpoint("storage.written")
                path = path if final is None else final()
                try:
                    os.link(scratch, path)
                except FileExistsError:
                    if os.stat(scratch).st_nlink < 2:  # else NFS made the link, lost the answer, and asked again
                        raise
                except OSError as fault:
                    if fault.errno not in NO_LINKS:
                        raise
                    rename_noreplace(scratch, path)
                failpoint("storage.linked")
                _sync_change(os.path.dirname(path))
        except OSError as fault:
            raise _write_error(path, fault) from None

    def link_new(self, source: str, target: str) -> bool:
        """Give a file a second path, which must not exist; False if the file system has no hard links."""
        with _translated(target, FileExistsError, fault_of=_write_error):
            return link_new(source, target)

    def sync(self, path: str) -> None:
        """Make the entries of a directory durable; it may be missing."""
        with _translated(path), contextlib.suppress(FileNotFoundError):
            _fsync(path)

    def make_directory(self, path: str, within: str = "") -> None:
        """Create a directory and its parents durably; it may exist. within: a parent that must exist."""
        missing, above = [], path
        while not os.path.lexists(above):
            missing.append(above)
            above = os.path.dirname(above)
        if within:  # which another process may remove meanwhile
            missing = [one for one in reversed(directories_below(path, within)) if not os.path.lexists(one)]
        with _translated(path, fault_of=_write_error):
            for directory in reversed(missing):
                with contextlib.suppress(FileExistsError):  # another process creates it as well
                    os.mkdir(directory)
                _sync_change(os.path.dirname(directory))
            if os.path.lexists(path) and not os.path.isdir(path):  # it may also be removed by now
                raise NotADirectoryError(errno.ENOTDIR, f"{above} is in the way and is not a directory", path)

    def make_directories(self, paths: Sequence[str]) -> None:
        """Create directories and their parents; if they are many, ``sync_all`` must make them durable."""
        if len(paths) <= _FEW:
            super().make_directories(paths)
            return
        try:
            local_directories.make_many(paths)
        except OSError as fault:
            raise _write_error(fault.filename or paths[0], fault) from None

    def sync_all(self, path: str) -> None:
        """Make everything below a directory durable."""
        with _translated(path):
            local_directories.sync_tree(path)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it; it may be missing."""
        entry = self.stat(path)
        if entry is None:
            return
        with _translated(path, fault_of=_write_error), contextlib.suppress(FileNotFoundError):
            if entry.type == "directory":
                local_directories.remove_tree(path)
            else:
                os.unlink(path)

    def rename_new(self, source: str, target: str) -> None:
        """Move a file or directory to a path that must not exist, in one step, durably. Raises FileExistsError."""
        with _translated(target, FileExistsError, fault_of=_write_error):
            try:
                rename_noreplace(source, target)
            except OSError as fault:
                if fault.errno != errno.EXDEV:
                    raise
                raise error("storage.mount", path=source, other=os.path.dirname(target)) from None
            _sync_change(os.path.dirname(target))

    def swap(self, one: str, other: str) -> bool:
        """Exchange two directories in one step, durably; False if the file system cannot, and nothing was changed.

        ``one`` gets the group and the permissions of ``other``.
        """
        with _translated(other):
            status = os.stat(other)
            with contextlib.suppress(PermissionError):  # this user is not in that group
                os.chown(one, -1, status.st_gid)
            os.chmod(one, stat.S_IMODE(status.st_mode))
            if not exchange(one, other):
                return False
            for directory in {os.path.dirname(one), os.path.dirname(other)}:
                _sync_change(directory)
        return True

    def remove_directory(self, path: str) -> bool:
        """Remove a directory if it is empty, and return True; False if it is not. It may be missing."""
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
        """Write a small file, which may exist: readers see either the old content or the new."""
        with _translated(path, fault_of=_write_error), _scratch(path) as scratch:
            with open(scratch, "xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(scratch, path)
            _sync_change(os.path.dirname(path))

    def check_writable(self, path: str) -> None:
        """Raise StorageError if the nearest existing parent of a path is not a directory, or is not writable."""
        above = os.path.dirname(path)
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        code = errno.EACCES if os.path.isdir(above) else errno.ENOTDIR
        if code == errno.ENOTDIR or not os.access(above, os.W_OK | os.X_OK):
            raise _storage_error(path, OSError(code, f"{os.strerror(code)}: {place(above)}"))

    def hold(self, path: str) -> object | None:
        """Lock a directory for as long as the returned object lives; None if another process has locked it."""
        with _translated(path):
            return local_directories.lock(path)


def _fsync(directory: str) -> None:
    with local_directories.opened(directory) as handle:
        os.fsync(handle)


def _sync_change(directory: str) -> None:
    """Make a change in a directory durable. Raises StorageError of a kind that leaves it open whether it was made."""
    try:
        _fsync(directory)
    except OSError as fault:
        why = f"a change there was made, but may not be durable: {fault.strerror or fault}"
        raise error("storage", path=directory, why=why) from None


@contextmanager
def _scratch(path: str) -> Iterator[str]:
    """Yield a hidden path beside a file, for its content while it is written; at the end, nothing is there."""
    directory, name = os.path.split(path)
    scratch = os.path.join(directory, _scratch_name(name, uuid.uuid4().hex))
    try:
        yield scratch
    finally:
        if os.path.lexists(scratch):
            os.unlink(scratch)


def _scratch_name(name: str, ending: str) -> str:
    """Return the name of a hidden file beside a file. ending: what makes it unique, of 32 hexadecimal digits."""
    begin = os.fsdecode(os.fsencode(name)[:100])  # a name is at most 255 bytes
    return f".{begin}.{ending}"


def remove_leftovers(path: str) -> None:
    """Remove the hidden files that writers of a file left when they were killed, an hour ago or earlier.

    One that cannot be removed stays; another process may remove it at the same time.
    """
    directory, name = os.path.split(path)
    begin = _scratch_name(name, "")
    entries: list[os.DirEntry[str]] = []
    with contextlib.suppress(OSError):  # of a directory that cannot be listed
        entries = list(os.scandir(directory))
    for found in entries:
        if found.name.startswith(begin) and re.fullmatch("[0-9a-f]{32}", found.name.removeprefix(begin)):
            with contextlib.suppress(OSError):
                if time.time() - found.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                    os.unlink(found.path)


def _entry(path: str, status: os.stat_result) -> Entry:
    entry_type = _TYPES.get(stat.S_IFMT(status.st_mode), "device")
    return Entry(path, path.rpartition("/")[2], status.st_size, entry_type, status.st_ctime, written=status.st_mtime)


def _storage_error(path: str, fault: OSError) -> Exception:
    return error(_KINDS.get(fault.errno, "storage"), path=path, why=fault.strerror or str(fault))


def _write_error(path: str, fault: OSError) -> Exception:
    """Return the error of a change, which names the directory that refuses it: its entries have temporary names."""
    if _KINDS.get(fault.errno) == "storage.refused":
        above = os.path.dirname(path)
        while above and not os.path.lexists(above):
            above = os.path.dirname(above)
        if not os.access(above or ".", os.W_OK | os.X_OK):
            return error(
                "storage.refused", path=above or ".", why=f"{fault.strerror}: this directory cannot be changed"
            )
    return _storage_error(path, fault)


@contextmanager
def _translated(
    path: str, *passing: type[OSError], fault_of: Callable[[str, OSError], Exception] = _storage_error
) -> Iterator[None]:
    """Raise an OSError of the block as a StorageError, except for those that pass. fault_of: returns that error."""
    try:
        yield
    except passing:
        raise
    except OSError as fault:
        raise fault_of(path, fault) from None
