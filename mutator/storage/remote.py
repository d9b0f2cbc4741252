"""Feed files wherever smart_open opens them: http, ftp, sftp, Google Cloud Storage, Azure. They are only read.

Nothing can be listed there, so each file is named by itself. Credentials are those that smart_open's own transports
find; passwords and signatures in an address are left out of messages.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from mutator.errors import MutatorError, error
from mutator.errors.redact import without_secrets
from mutator.storage.entry import Entry
from mutator.storage.stream import ReadStream

__all__ = ["SCHEMES", "RemoteStorage"]

# scheme -> what smart_open calls the packages that it needs
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
_BLOCK = 1 << 20
_SECONDS = 60  # without a byte


class RemoteStorage:
    """The reading part of the storage contract."""

    renames = False
    holds = False

    def stat(self, path: str) -> Entry | None:
        """Return the file at a path, or None. Its size is what the server says, or is counted where it says nothing."""
        if not _name(path):
            raise error("usage", what=f"{path}: nothing can be listed here; name each feed file by itself")
        try:
            stream = self.open(path)
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                raise
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
        """Open a file for reading at an offset."""
        return cast(BinaryIO, _Remote(path, offset))

    def unfinished(self, path: str) -> list[str]:
        """Return nothing."""
        return []

    def _refuse(self, *arguments: Any, **_: Any) -> Any:
        """Raise ConfigError: nothing is written."""
        path = str(arguments[0])
        raise error("path.readonly", path=path, scheme=path.partition("://")[0])

    exclusive = create_new = link_new = sync = sync_all = make_directory = make_directories = _refuse
    remove = remove_directory = rename_new = swap = replace = hold = _refuse


class _Remote(ReadStream):
    """A file that smart_open reads; whatever its transport raises is an OSError with a text of one line."""

    def __init__(self, path: str, offset: int) -> None:
        super().__init__()
        self.name, self._path = without_secrets(path), path
        try:
            self._stream = _opened(path)
            if offset and not self._is_at(offset):
                self._stream.close()
                self._stream = _opened(path)
                while offset and (data := self._stream.read(min(offset, _BLOCK))):
                    offset -= len(data)
        except MutatorError:
            raise
        except Exception as fault:  # noqa: BLE001  # each transport has errors of its own
            kind = "storage.missing" if _is_missing(fault) else "storage.service"
            raise error(kind, path=self.name, why=self._why(fault)) from None

    def seekable(self) -> bool:
        """Tell whether it has places."""
        return bool(self._stream.seekable())

    def tell(self) -> int:
        """Return the place that is read next."""
        return int(self._stream.tell())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another place."""
        return int(self._guarded(self._stream.seek, offset, whence))

    def read(self, size: int | None = -1) -> bytes:
        """Read at most so many bytes; all that are left without a number."""
        return bytes(self._guarded(self._stream.read, -1 if size is None else size))

    def close(self) -> None:
        """Close the connection."""
        if not self.closed and hasattr(self, "_stream"):
            self._guarded(self._stream.close)
        super().close()

    def _is_at(self, offset: int) -> bool:
        """Go to a place; False where the server knows no ranges."""
        try:
            return bool(self._stream.seekable()) and self._stream.seek(offset) == offset
        except OSError:
            return False

    def _guarded(self, act: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return act(*arguments)
        except Exception as fault:  # noqa: BLE001  # each transport has errors of its own
            raise OSError(self._why(fault)) from None

    def _why(self, fault: Exception) -> str:
        text = " ".join(str(fault).split()) or type(fault).__name__
        parts = urlsplit(self._path)
        for secret in (parts.query if parts.scheme in ("http", "https") else "", parts.password):
            text = text.replace(secret, "***") if secret else text  # not always within an address
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
    while data := stream.read(_BLOCK):
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
