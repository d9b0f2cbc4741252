"""Objects as streams: one that is read in ranges, and one that is sent in parts while it is written."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import IO, Any

from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.storage.s3_client import Address, client, code_of, faults, service_errors, storage_error
from mutator.storage.stream import ReadStream, spill_directory

__all__ = ["Download", "Upload"]

# Bytes asked for at once after a seek, twice as many each time; what follows a seek is mostly little.
_FIRST_RANGE, _RANGE = 4 << 20, 32 << 20
_PART = 8 << 20  # bytes; at most 10,000 parts make an object, so 80 GB
_SENDERS = 8  # parts that a process has on their way, of all its uploads together
_TRIES = 5
_TOKEN = "mutator-id"  # metadata that tells who made an object


class _Replaced(OSError):
    """What comes next is of another content."""


class Download(ReadStream):
    """An object that is read: all that follows the offset is asked for, and after a seek a range at a time.

    Where the connection breaks, the rest is asked for anew. All of it is of one and the same content: an object that
    is replaced meanwhile is an error.
    """

    def __init__(self, address: Address, offset: int = 0) -> None:
        super().__init__()
        self.name = address.path
        self._address, self._client = address, client(address.path)
        self._body: Any = None
        self._position, self._end = offset, 0  # the end of the range that is being read
        self._range: int | None = None  # all that follows
        self._tag: str | None = None
        self._size = -1
        self._ask()

    def tell(self) -> int:
        """Return the place that is read next."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another place; nothing is asked for until something is read."""
        place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if place != self._position:
            self._drop()
            self._position, self._range = max(place, 0), _FIRST_RANGE
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Read at most so many bytes; all that are left without a number."""
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
            self._body = None  # read to its end, so its connection is used again
            self._range = None if self._range is None else min(2 * self._range, _RANGE)
        return data

    def close(self) -> None:
        """Drop what was asked for and not read."""
        self._drop()
        super().close()

    def _ask(self) -> None:
        """Ask for what comes next."""
        where = {"Bucket": self._address.bucket, "Key": self._address.key}
        condition = {} if self._tag is None else {"IfMatch": self._tag}
        last = "" if self._range is None else self._position + self._range - 1
        if self._position or self._range is not None:  # of an empty object no range can be asked for
            condition["Range"] = f"bytes={self._position}-{last}"
        try:
            answer = self._client.get_object(**where, **condition)
        except service_errors() as fault:
            code = code_of(fault)
            if code in ("416", "InvalidRange"):  # nothing is there: it is shorter
                with faults(self.name):
                    self._size = self._client.head_object(**where)["ContentLength"]
                return
            if code in ("412", "PreconditionFailed"):
                raise _Replaced("it was replaced while it was read") from None
            raise storage_error(self.name, fault) from None
        if "Range" in condition and "ContentRange" not in answer:
            raise error("storage.service", path=self.name, why="the service gives no ranges of objects")
        self._body, self._tag = answer["Body"], answer["ETag"]
        self._size = int(answer.get("ContentRange", f"/{answer['ContentLength']}").rpartition("/")[2])
        self._end = self._position + answer["ContentLength"]

    def _drop(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            with contextlib.suppress(*_broken()):
                body.close()


class Upload(io.RawIOBase):
    """An object that is written: nothing of it can be seen until ``finish``.

    A small one is sent at once, a large one in parts while more is written. Where its key is known only when all of it
    is written, it waits in a file of this machine until then, for an upload has its key from the beginning.
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
        """Tell that it can be written to."""
        return True

    def write(self, data: Any) -> int:
        """Take the next bytes."""
        view = memoryview(data).cast("B")
        if self._spool is not None:
            return self._spool.write(view)
        self._buffer += view
        while len(self._buffer) > _PART:
            self._send(bytes(memoryview(self._buffer)[:_PART]))
            del self._buffer[:_PART]
        return len(view)

    def finish(self, address: Address) -> None:
        """Make the object appear, if there is none. Raises StorageError."""
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
        """Leave nothing behind, as far as the service can be reached."""
        wait(self._parts)  # a part that arrives after the abort would stay
        if self._upload is not None:
            with contextlib.suppress(*service_errors()):
                self._client.abort_multipart_upload(**self._where(), UploadId=self._upload)

    def close(self) -> None:
        """Give back what the upload has of this machine."""
        if self._spool is not None:
            self._spool.close()
        super().close()

    def _where(self) -> dict[str, str]:
        return {"Bucket": self._address.bucket, "Key": self._address.key}

    def _send(self, part: bytes) -> None:
        if self._upload is None:
            # As boto3's own transfers have it, unless the service is known not to: it keeps the checksums of the parts.
            wanted = self._client.meta.config.request_checksum_calculation == "when_supported"
            checksum = {"ChecksumAlgorithm": "CRC32"} if wanted else {}
            begun = self._client.create_multipart_upload(**self._where(), Metadata=self._metadata, **checksum)
            self._upload = begun["UploadId"]
        for done in self._parts:
            if done.done():
                done.result()  # tells of a fault soon
        senders = _senders()
        senders.free.acquire()
        try:
            self._parts.append(senders.pool.submit(self._send_part, len(self._parts) + 1, part, senders.free))
        except BaseException:
            senders.free.release()
            raise

    def _send_part(self, number: int, part: bytes, free: threading.Semaphore) -> dict[str, Any]:
        try:
            answer = self._client.upload_part(**self._where(), UploadId=self._upload, PartNumber=number, Body=part)
        finally:
            free.release()
        return {name: answer[name] for name in answer if name == "ETag" or name.startswith("Checksum")}

    def _create(self, act: Callable[..., Any], **arguments: Any) -> None:
        """Do what makes the object appear. An answer that got lost is found again by what the object says of itself."""
        for attempt in range(_TRIES):
            condition = {"IfNoneMatch": "*"} if self._conditional else {}
            try:
                act(**self._where(), **arguments, **condition)
                return
            except service_errors() as fault:
                there = self._token_there()
                if there == self._metadata[_TOKEN]:
                    return
                code = code_of(fault)
                if code == "NotImplemented" and self._conditional and there is None:
                    self._conditional = False  # a service that has never heard of it: ``exclusive`` says so
                elif code == "NotImplemented" and self._conditional:
                    raise error("storage.exists", path=self._address.path, why="it exists") from None
                elif code not in ("409", "ConditionalRequestConflict") or attempt == _TRIES - 1:
                    raise storage_error(self._address.path, fault) from None
                else:
                    time.sleep(0.1 * 2**attempt)  # another writer of the same key is halfway

    def _token_there(self) -> str | None:
        """Return what the object that is there says of itself; None where none can be seen."""
        try:
            return str(self._client.head_object(**self._where()).get("Metadata", {}).get(_TOKEN))
        except service_errors():
            return None


class _Senders:
    """The threads of a process that send parts, and how many parts may be in its memory."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(_SENDERS, "upload")
        self.free = threading.BoundedSemaphore(_SENDERS)


_of_process: dict[int, _Senders] = {}


def _senders() -> _Senders:
    """Return those of this process; threads do not come along when it is forked."""
    if os.getpid() not in _of_process:
        _of_process[os.getpid()] = _Senders()
    return _of_process[os.getpid()]


def _broken() -> tuple[type[Exception], ...]:
    """Return what a connection that breaks while it is read raises."""
    from urllib3.exceptions import HTTPError

    return (*service_errors(), HTTPError, OSError)
