"""Streams of S3 objects: a download in ranges, and an upload in parts."""

import contextlib
import io
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import IO, Any

from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.storage.s3_client import Address, client, code_of, faults, service_errors, storage_error
from mutator.storage.stream import ReadStream, spill_directory

# Bytes asked for at once after a seek, twice as many each time, because most reads after a seek are short.
_FIRST_RANGE, _RANGE = 4 << 20, 32 << 20
_PART = 8 << 20  # bytes; at most 10,000 parts make an object, so 80 GB
_SENDERS = 8  # parts that a process sends at once, in all its uploads together
_TRIES = 5
_TOKEN = "mutator-id"  # metadata that shows which upload made an object


class _Replaced(OSError):
    """The object was replaced while it was read."""


class Download(ReadStream):
    """An object being read: one request for everything after the offset, and after a seek one for each range.

    If the connection breaks, the rest is requested again. An object that is replaced meanwhile is an error, so all
    bytes belong to the same content.
    """

    def __init__(self, address: Address, offset: int = 0) -> None:
        super().__init__()
        self.name = address.path
        self._address, self._client = address, client(address.path)
        self._body: Any = None
        self._position, self._end = offset, 0  # the end of the current range
        self._range: int | None = None  # None: everything after the position
        self._tag: str | None = None
        self._size = -1
        self._ask()

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another position; the request is made by the next read."""
        position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if position != self._position:
            self._drop()
            self._position, self._range = max(position, 0), _FIRST_RANGE
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Read at most ``size`` bytes; the rest of the object if it is None or negative."""
        if size is None or size < 0:
            parts = []
            while part := self.read(_RANGE):
                parts.append(part)
            return b"".join(parts)
        if size == 0 or self._position >= self._size:
            return b""
        for attempt in range(_TRIES):
            try:
                if self._body is None:
                    self._ask()
                data: bytes = self._body.read(min(size, self._end - self._position))
                if data:
                    break
                raise OSError("the connection was closed early")
            except _Replaced:
                raise
            except MutatorError as fault:
                raise OSError(str(fault)) from None
            except _broken() as fault:
                self._drop()
                if attempt == _TRIES - 1:
                    raise OSError(str(fault)) from None
                time.sleep(0.1 * 2**attempt)
        self._position += len(data)
        if self._position == self._end:
            self._body = None  # read to its end, so the connection can be reused
            self._range = None if self._range is None else min(2 * self._range, _RANGE)
        return data

    def close(self) -> None:
        """Drop the bytes that were requested and not read."""
        self._drop()
        super().close()

    def _ask(self) -> None:
        """Request the bytes after the position."""
        condition = {} if self._tag is None else {"IfMatch": self._tag}
        last = "" if self._range is None else self._position + self._range - 1
        if self._position or self._range is not None:  # an empty object has no ranges
            condition["Range"] = f"bytes={self._position}-{last}"
        try:
            answer = self._client.get_object(**self._address.where, **condition)
        except service_errors() as fault:
            code = code_of(fault)
            if code in ("416", "InvalidRange"):  # the position is past the end
                with faults(self.name):
                    self._size = self._client.head_object(**self._address.where)["ContentLength"]
                return
            if code in ("412", "PreconditionFailed"):
                raise _Replaced("it was replaced while it was read") from None
            raise storage_error(self.name, fault) from None
        if "Range" in condition and "ContentRange" not in answer:
            raise error("storage.service", path=self.name, why="the service does not support ranges of objects")
        self._body, self._tag = answer["Body"], answer["ETag"]
        self._size = int(answer.get("ContentRange", f"/{answer['ContentLength']}").rpartition("/")[2])
        self._end = self._position + answer["ContentLength"]

    def _drop(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            with contextlib.suppress(*_broken()):
                body.close()


class Upload(io.RawIOBase):
    """An object being written; it appears when ``finish`` is called.

    A small object is sent in one request, a large one in parts while it is written. An upload has its key from the
    beginning, so if the key is known only at the end, the content waits in a temporary file.
    """

    def __init__(self, address: Address, *, key_known: bool, conditional: bool) -> None:
        super().__init__()
        self._address, self._client, self._conditional = address, client(address.path), conditional
        self._metadata = {_TOKEN: uuid.uuid4().hex}
        self._buffer = bytearray()
        self._spool: IO[bytes] | None = None
        if not key_known:
            self._spool = tempfile.SpooledTemporaryFile(_PART, dir=spill_directory())  # noqa: SIM115  # closed with the upload
        self._upload: str | None = None
        self._parts: list[Future[dict[str, Any]]] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Add bytes to the object."""
        view = memoryview(data).cast("B")
        if self._spool is not None:
            return self._spool.write(view)
        self._buffer += view
        while len(self._buffer) > _PART:
            self._send(bytes(memoryview(self._buffer)[:_PART]))
            del self._buffer[:_PART]
        return len(view)

    def finish(self, address: Address) -> None:
        """Make the object appear at an address where none exists. Raises StorageError."""
        self._address = address
        if self._spool is not None:
            self._spool.seek(0)
            while part := self._spool.read(_PART):
                if self._buffer:
                    self._send(bytes(self._buffer))
                self._buffer = bytearray(part)
        if self._upload is None:
            failpoint("storage.written")
            self._create(self._client.put_object, Body=bytes(self._buffer), Metadata=self._metadata)
        else:
            self._send(bytes(self._buffer))
            parts = [{**part.result(), "PartNumber": number} for number, part in enumerate(self._parts, 1)]
            failpoint("storage.written")
            complete = self._client.complete_multipart_upload
            self._create(complete, UploadId=self._upload, MultipartUpload={"Parts": parts})
        self._upload = None
        failpoint("storage.linked")

    def abort(self) -> None:
        """Remove the parts that were sent, if the service can be reached."""
        wait(self._parts)  # a part that arrives after the abort would stay
        if self._upload is not None:
            with contextlib.suppress(*service_errors()):
                self._client.abort_multipart_upload(**self._address.where, UploadId=self._upload)

    def close(self) -> None:
        """Remove the temporary file."""
        if self._spool is not None:
            self._spool.close()
        super().close()

    def _send(self, part: bytes) -> None:
        if self._upload is None:
            # As boto3's own transfers do, unless configured otherwise: the service then checks each part.
            wanted = self._client.meta.config.request_checksum_calculation == "when_supported"
            checksum = {"ChecksumAlgorithm": "CRC32"} if wanted else {}
            begun = self._client.create_multipart_upload(**self._address.where, Metadata=self._metadata, **checksum)
            self._upload = begun["UploadId"]
        for done in self._parts:
            if done.done():
                done.result()  # raises a fault of a part early
        senders = _senders_of(os.getpid())
        senders.free.acquire()
        try:
            self._parts.append(senders.pool.submit(self._send_part, len(self._parts) + 1, part, senders.free))
        except BaseException:
            senders.free.release()
            raise

    def _send_part(self, number: int, part: bytes, free: threading.Semaphore) -> dict[str, Any]:
        try:
            answer = self._client.upload_part(
                **self._address.where, UploadId=self._upload, PartNumber=number, Body=part
            )
        finally:
            free.release()
        return {name: answer[name] for name in answer if name == "ETag" or name.startswith("Checksum")}

    def _create(self, act: Callable[..., Any], **arguments: Any) -> None:
        """Make the request that creates the object. If the answer is lost, the metadata show who created it."""
        for attempt in range(_TRIES):
            condition = {"IfNoneMatch": "*"} if self._conditional else {}
            try:
                act(**self._address.where, **arguments, **condition)
                return
            except service_errors() as fault:
                code = code_of(fault)
                refused = code in ("412", "PreconditionFailed")
                if refused and not _was_sent_again(fault):  # so the object is not of this upload
                    raise storage_error(self._address.path, fault) from None
                token = self._token_there()
                if token == self._metadata[_TOKEN]:
                    return
                if refused and token is None:
                    why = "it exists, and cannot be read"
                    raise error("storage.service", path=self._address.path, why=why) from None
                if code == "NotImplemented" and self._conditional and token is None:
                    self._conditional = False  # the service has no conditional puts, as ``exclusive`` says
                elif code == "NotImplemented" and self._conditional:
                    raise error("storage.exists", path=self._address.path, why="it exists") from None
                elif code not in ("409", "ConditionalRequestConflict") or attempt == _TRIES - 1:
                    raise storage_error(self._address.path, fault) from None
                else:
                    time.sleep(0.1 * 2**attempt)  # another writer of the same key has not finished

    def _token_there(self) -> str | None:
        """Return the token of the existing object; None if there is no object, or it cannot be read."""
        try:
            return str(self._client.head_object(**self._address.where).get("Metadata", {}).get(_TOKEN))
        except service_errors():
            return None


def _was_sent_again(fault: Exception) -> bool:
    """Return whether boto3 sent a request several times, so that an earlier one, whose answer got lost, may be done."""
    return bool(getattr(fault, "response", {}).get("ResponseMetadata", {}).get("RetryAttempts", 1))


class _Senders:
    """The threads of a process that send parts, and a limit on the parts in its memory."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(_SENDERS, "upload")
        self.free = threading.BoundedSemaphore(_SENDERS)


@cache
def _senders_of(process: int) -> _Senders:
    """Return the senders of this process; a forked process has none of its parent's threads."""
    return _Senders()


def _broken() -> tuple[type[Exception], ...]:
    """Return the exceptions of a connection that breaks during a read."""
    from urllib3.exceptions import HTTPError

    return (*service_errors(), HTTPError, OSError)
