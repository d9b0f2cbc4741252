"""Amazon S3, and what speaks its protocol, through boto3.

A directory is there while something is in it. Nothing can be renamed, swapped or held; what may be trusted is that a
listing shows what was written, that an object appears whole, and that a put with ``If-None-Match: *`` makes no second
one. Whether a service keeps the last is tried out before it is relied on.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from mutator.errors import error
from mutator.storage import globbing
from mutator.storage.entry import Entry
from mutator.storage.s3_client import Address, client, code_of, faults, service_errors
from mutator.storage.s3_streams import Download, Upload

__all__ = ["S3Storage"]

_PROBES = 3
_AT_ONCE = 1000  # objects that one request removes
_exclusive: dict[tuple[int, str], bool] = {}  # by process and bucket


class S3Storage:
    """The storage contract on an object store."""

    renames = False
    holds = False

    def exclusive(self, path: str) -> bool:
        """Tell whether conditional puts are honoured, by two real ones of each kind; once a process and bucket."""
        place = Address(path)
        known = (os.getpid(), place.bucket)
        if known not in _exclusive:
            with faults(path):
                _exclusive[known] = _probed(place)
        return _exclusive[known]

    def stat(self, path: str) -> Entry | None:
        """Return what is at a path, or None; an object rather than the directory of the same name."""
        place = Address(path)
        name = place.key.rpartition("/")[2]
        with faults(path):
            if place.key:
                try:
                    head = client(path).head_object(Bucket=place.bucket, Key=place.key)
                    return Entry(
                        path, name, head["ContentLength"], "file", head["LastModified"].timestamp(), head["ETag"]
                    )
                except service_errors() as fault:
                    if code_of(fault) not in ("404", "NoSuchKey"):
                        raise
            page = client(path).list_objects_v2(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=1)
            there = "Contents" in page or not place.key
        return Entry(path, name, 0, "directory") if there else None

    def resolve(self, path: str) -> str:
        """Return the one spelling of a path: without a slash at its end."""
        scheme, mark, rest = path.partition("://")
        return scheme + mark + rest.rstrip("/")

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, by name; none where nothing is in it."""
        place = Address(path)
        found = []
        for page in _pages(place, Delimiter="/"):
            for one in page.get("Contents", ()):
                if one["Key"] != place.prefix:  # an empty object that stands for the directory
                    found.append(_entry(place, one))
            for one in page.get("CommonPrefixes", ()):
                name = one["Prefix"][len(place.prefix) : -1]
                if not name:
                    raise error("storage.service", path=path, why="keys with '//' in them have no path")
                found.append(Entry(place.path_of(place.prefix + name), name, 0, "directory"))
        return sorted(found, key=lambda entry: entry.name.encode("utf-8", "surrogateescape"))

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield everything below a directory, in no order, by a request for a thousand: a tree may have many."""
        place = Address(path)
        for page in _pages(place):
            for one in page.get("Contents", ()):
                if "//" in "/" + one["Key"][len(place.prefix) :]:
                    raise error("storage.service", path=path, why="keys with '//' in them have no path")
                if not one["Key"].endswith("/"):  # an empty object that stands for a directory
                    yield _entry(place, one)

    def glob(self, pattern: str) -> list[Entry]:
        """Return the entries that match a pattern, by path; ``*`` does not match hidden names."""
        return globbing.matches(pattern, self.entries, self.stat)

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open an object for reading at an offset."""
        return cast(BinaryIO, Download(Address(path), offset))

    @contextmanager
    def create_new(self, path: str, final: Callable[[], str] | None = None) -> Iterator[BinaryIO]:
        """Create an object that must not exist: visible only when whole, aborted by an exception."""
        place = Address(path)
        honoured = _exclusive.get((os.getpid(), place.bucket), True)
        upload = Upload(place, key_known=final is None, conditional=honoured)
        try:
            with faults(path):
                yield cast(BinaryIO, upload)
                target = place if final is None else Address(final())
                if not honoured and self.stat(target.path) is not None:  # the best that can be done
                    raise error("storage.exists", path=target.path, why="it exists")
                upload.finish(target)
        except BaseException as fault:
            upload.abort()
            if isinstance(fault, OSError):  # of the file that it waits in, or of whoever writes to it
                raise error("storage", path=path, why=fault.strerror or fault) from None
            raise
        finally:
            upload.close()

    def link_new(self, source: str, target: str) -> bool:
        """Let the service copy an object to a key where nothing is. Raises FileExistsError.

        What another one puts there at the same moment may be replaced: for files that have names of their own.
        """
        one, other = Address(source), Address(target)
        if self.stat(target) is not None:
            raise FileExistsError(target)
        with faults(target):
            client(target).copy({"Bucket": one.bucket, "Key": one.key}, other.bucket, other.key)
        return True

    def sync(self, path: str) -> None:
        """Do nothing: what was answered is durable."""

    def make_directory(self, path: str) -> None:
        """Do nothing: a directory is there once something is in it."""

    def make_directories(self, paths: Sequence[str]) -> None:
        """Create directories and their parents."""
        for path in paths:
            self.make_directory(path)

    def sync_all(self, path: str) -> None:
        """Do nothing: whatever is visible is durable."""

    def remove(self, path: str) -> None:
        """Remove an object, or all below a directory; uploads that nobody completed are aborted as well."""
        place = Address(path)
        if not place.key:
            raise error("storage", path=path, why="a whole bucket is not removed")
        with faults(path):
            try:
                client(path).delete_object(Bucket=place.bucket, Key=place.key)
            except service_errors() as fault:
                if code_of(fault) != "NoSuchBucket":
                    raise
                return
            for page in _pages(place):
                keys = [{"Key": one["Key"]} for one in page.get("Contents", ())]
                for start in range(0, len(keys), _AT_ONCE):
                    some = {"Objects": keys[start : start + _AT_ONCE], "Quiet": True}
                    answer = client(path).delete_objects(Bucket=place.bucket, Delete=some)
                    for left in answer.get("Errors", ()):
                        why = left.get("Message", left["Code"])
                        raise error("storage.service", path=place.path_of(left["Key"]), why=why)
            for key, upload in _uploads(place):
                with contextlib.suppress(*service_errors()):  # somebody else aborts it as well
                    client(path).abort_multipart_upload(Bucket=place.bucket, Key=key, UploadId=upload)

    def remove_directory(self, path: str) -> bool:
        """Tell whether nothing is in a directory; what may stand for an empty one is removed."""
        place = Address(path)
        with faults(path):
            page = client(path).list_objects_v2(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=2)
            if any(one["Key"] != place.prefix for one in page.get("Contents", ())):
                return False
            if page.get("Contents"):
                client(path).delete_object(Bucket=place.bucket, Key=place.prefix)
        return True

    def rename_new(self, source: str, target: str) -> None:
        """Raise StorageError: an object store has no such thing."""
        raise error("storage", path=source, why="an object store renames nothing")

    def swap(self, one: str, other: str) -> bool:
        """Return False: nothing is exchanged."""
        return False

    def replace(self, path: str, content: bytes) -> None:
        """Write a small object, in the place of one that may be there."""
        place = Address(path)
        with faults(path):
            client(path).put_object(Bucket=place.bucket, Key=place.key, Body=content)

    def unfinished(self, path: str) -> list[str]:
        """Return the paths of uploads that nobody has completed."""
        place = Address(path)
        with faults(path):
            return sorted({place.path_of(key) for key, _ in _uploads(place)})

    def hold(self, path: str) -> object | None:
        """Return None: nothing can be held."""
        return None


def _pages(place: Address, **options: Any) -> Iterator[dict[str, Any]]:
    with faults(place.path):
        pager = client(place.path).get_paginator("list_objects_v2")
        yield from pager.paginate(Bucket=place.bucket, Prefix=place.prefix, **options)


def _uploads(place: Address) -> Iterator[tuple[str, str]]:
    """Yield key and id of each upload at or below a place; none where their list is not for us to see."""
    pager = client(place.path).get_paginator("list_multipart_uploads")
    try:
        for page in pager.paginate(Bucket=place.bucket, Prefix=place.key):
            for one in page.get("Uploads", ()):
                if one["Key"] == place.key or one["Key"].startswith(place.prefix):
                    yield one["Key"], one["UploadId"]
    except service_errors() as fault:
        if code_of(fault) not in ("AccessDenied", "NoSuchBucket", "NoSuchUpload", "NotImplemented"):
            raise


def _entry(place: Address, one: dict[str, Any]) -> Entry:
    name = one["Key"].rpartition("/")[2]
    return Entry(place.path_of(one["Key"]), name, one["Size"], "file", one["LastModified"].timestamp(), one["ETag"])


def _probed(place: Address) -> bool:
    """Try a few times: an answer that gets lost makes a probe look like one of somebody else."""
    for _ in range(_PROBES - 1):
        with contextlib.suppress(*service_errors()):
            return _honours_conditions(place)
    return _honours_conditions(place)


def _honours_conditions(place: Address) -> bool:
    """Put an object twice, each way in which objects are put: the second put must be refused."""
    service = client(place.path)
    probe = {"Bucket": place.bucket, "Key": f"{place.prefix}.mutator-probe-{uuid.uuid4().hex}"}

    def whole() -> None:
        service.put_object(**probe, Body=b"probe", IfNoneMatch="*")

    def in_parts() -> None:
        upload = {**probe, "UploadId": service.create_multipart_upload(**probe)["UploadId"]}
        try:
            part = service.upload_part(**upload, PartNumber=1, Body=b"probe")
            parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
            service.complete_multipart_upload(**upload, MultipartUpload=parts, IfNoneMatch="*")
        except service_errors():
            service.abort_multipart_upload(**upload)
            raise

    try:
        try:
            whole()
        except service_errors() as fault:
            if code_of(fault) == "NotImplemented":
                return False
            raise
        return all(map(_is_refused, (whole, in_parts)))
    finally:
        S3Storage().remove(place.path_of(probe["Key"]))  # with uploads whose beginning got lost


def _is_refused(act: Callable[[], None]) -> bool:
    try:
        act()
    except service_errors() as fault:
        if code_of(fault) in ("412", "PreconditionFailed"):
            return True
        if code_of(fault) == "NotImplemented":
            return False
        raise
    return False
