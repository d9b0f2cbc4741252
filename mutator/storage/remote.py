"""Feed files that smart_open can read: http, ftp, sftp, Google Cloud Storage, Azure.

Nothing can be written or listed there, so each file must be named. Credentials are those that smart_open's transports
find. Messages never show passwords and signatures from an address.
"""

import os
import posixpath
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from mutator.errors import MutatorError, error, suppressed
from mutator.errors.display import without_secrets
from mutator.storage.contract import Entry, Storage
from mutator.storage.stream import BLOCK, ReadStream

# scheme -> smart_open's name for the packages that it needs
SCHEMES = {
    "http": "http",
    "https": "http",
    "ftp": "",
    "ftps": "",
    "sftp": "ssh",
    "ssh": "ssh",
    "scp": "ssh",
    "gs": "gcs",
    "azure": "azure",
    "webhdfs": "webhdfs",
}
_SECONDS = 60  # without a byte from the server


class RemoteStorage(Storage):
    """The reading part of the storage contract."""

    writes = False
    renames = False

    def with_suffix(self, path: str, suffix: str) -> str:
        """Return a path with a suffix added to the name of its file; the query of a web address stays at its end."""
        if not path.startswith(("http://", "https://")):
            return path + suffix
        address, mark, query = path.partition("?")
        return f"{address}{suffix}{mark}{query}"

    def stat(self, path: str) -> Entry | None:
        """Return the file at a path; None if it does not exist. If the server gives no size, the bytes are counted."""
        if not _name(path):
            raise error("usage", what=f"{path}: nothing can be listed here; name each feed file by itself")
        stream = None
        with suppressed("storage.missing"):
            stream = self.open(path)
        if stream is None:
            return None
        with stream:
            return Entry(path, _name(path), _size(stream), "file")

    def resolve(self, path: str) -> str:
        """Return the path as it is."""
        return path

    def entries(self, path: str) -> list[Entry]:
        """Raise StorageError: nothing can be listed."""
        raise error("storage", path=path, why="nothing can be listed here; name each file by itself")

    def walk(self, path: str) -> Iterator[Entry]:
        """Raise StorageError: nothing can be listed."""
        return iter(self.entries(path))

    def glob(self, pattern: str) -> list[Entry]:
        """Return nothing: nothing can be listed."""
        return []

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open a file for reading from an offset in bytes."""
        return cast(BinaryIO, _Remote(path, offset))

    def _refuse(self, *arguments: Any, **_: Any) -> Any:
        """Raise ConfigError: nothing is written."""
        path = str(arguments[0])
        raise error("usage", what=f"{path}: {path.partition('://')[0]}:// can only be read, file by file")

    exclusive = create_new = link_new = sync = sync_all = make_directory = make_directories = _refuse
    remove = remove_directory = rename_new = swap = replace = hold = check_writable = _refuse


class _Remote(ReadStream):
    """A file being read by smart_open. Every exception of its transport becomes an OSError with one line of text."""

    def __init__(self, path: str, offset: int) -> None:
        super().__init__()
        self.name, self._path = without_secrets(path), path
        try:
            self._stream = _opened(path)
            if offset and not self._is_at(offset):
                self._stream.close()
                self._stream = _opened(path)
                while offset and (data := self._stream.read(min(offset, BLOCK))):
                    offset -= len(data)
        except MutatorError:
            raise
        except Exception as fault:  # noqa: BLE001  # each transport has its own exceptions
            kind = "storage.missing" if _is_missing(fault) else "storage.service"
            raise error(kind, path=self.name, why=self._why(fault)) from None

    def seekable(self) -> bool:
        """Return whether the server supports ranges."""
        return bool(self._stream.seekable())

    def tell(self) -> int:
        """Return the position."""
        return int(self._stream.tell())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another position."""
        return int(self._guarded(self._stream.seek, offset, whence))

    def read(self, size: int | None = -1) -> bytes:
        """Read at most ``size`` bytes; the rest of the file if it is None or negative."""
        return bytes(self._guarded(self._stream.read, -1 if size is None else size))

    def close(self) -> None:
        """Close the connection."""
        if not self.closed and hasattr(self, "_stream"):
            self._guarded(self._stream.close)
        super().close()

    def _is_at(self, offset: int) -> bool:
        """Go to a position; False if the server does not support ranges."""
        try:
            return bool(self._stream.seekable()) and self._stream.seek(offset) == offset
        except OSError:
            return False

    def _guarded(self, act: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return act(*arguments)
        except Exception as fault:  # noqa: BLE001  # each transport has its own exceptions
            raise OSError(self._why(fault)) from None

    def _why(self, fault: Exception) -> str:
        text = " ".join(str(fault).split()) or type(fault).__name__
        parts = urlsplit(self._path)
        for secret in (parts.query if parts.scheme in ("http", "https") else "", parts.password):
            text = text.replace(secret, "***") if secret else text  # not only within an address
        return without_secrets(text)


def _opened(path: str) -> Any:
    import smart_open
    from smart_open.transport import SUPPORTED_SCHEMES

    scheme = path.partition("://")[0].lower()
    if scheme not in SUPPORTED_SCHEMES:
        raise error("path.transport", path=path, scheme=scheme, extra=SCHEMES[scheme])
    patience = {"timeout": _SECONDS} if scheme in ("http", "https") else {}
    return smart_open.open(path, "rb", compression="disable", transport_params=patience)


def _size(stream: BinaryIO) -> int:
    if stream.seekable():
        try:
            return stream.seek(0, os.SEEK_END)
        except OSError:
            stream.seek(0)
    size = 0
    while data := stream.read(BLOCK):
        size += len(data)
    return size


def _name(path: str) -> str:
    """Return the base name of an address."""
    scheme, _, rest = path.partition("://")
    if scheme in ("http", "https"):
        return unquote(posixpath.basename(urlsplit(path).path))
    return posixpath.basename(rest)


def _is_missing(fault: Exception) -> bool:
    answer = getattr(fault, "response", None)
    codes = (getattr(fault, "code", None), getattr(fault, "status_code", None), getattr(answer, "status_code", None))
    return isinstance(fault, FileNotFoundError) or 404 in codes
