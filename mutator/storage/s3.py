"""Amazon S3, and services with its protocol, through boto3.

A directory exists while an object is below it. Nothing can be renamed, swapped or locked. The backend relies on three
guarantees: a listing shows everything that was written, an object appears whole, and a put with ``If-None-Match: *``
never replaces an object. The last one is tested before it is relied on, because some services ignore the condition.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from mutator.errors import error
from mutator.storage.contract import Entry, Storage
from mutator.storage.s3_client import Address, client, code_of, faults, service_errors
from mutator.storage.s3_streams import Download, Upload

_PROBES = 3
_AT_ONCE = 1000  # objects that one request removes
_exclusive: dict[tuple[int, str], bool] = {}  # by process and bucket


class S3Storage(Storage):
    """The storage contract on an object store."""

    renames = False
    empty_directories = False
    waits = True

    def service(self, path: str) -> str:
        """Return the endpoint."""
        return str(client(path).meta.endpoint_url)

    def dataset_name(self, path: str) -> tuple[str, str]:
        """Return the bucket's address and the key, as OpenLineage spells them."""
        namespace, name = super().dataset_name(path)
        return namespace, name.removeprefix("/")

    def hadoop_address(self, path: str) -> str:
        """Return the address by which Hadoop knows a path: its ``s3`` is another file system, which was removed."""
        return "s3a://" + path.partition("://")[2]

    def exclusive(self, path: str) -> bool:
        """Return whether the service honours conditional puts; tested with real puts, once per process and bucket."""
        address = Address(path)
        known = (os.getpid(), address.bucket)
        if known not in _exclusive:
            with faults(path):
                _exclusive[known] = _probed(address)
        return _exclusive[known]

    def stat(self, path: str) -> Entry | None:
        """Return the entry at a path; None if nothing is there. An object hides a directory of the same name."""
        address = Address(path)
        name = address.key.rpartition("/")[2]
        with faults(path):
            if address.key:
                try:
                    head = client(path).head_object(**address.where)
                    modified = head["LastModified"].timestamp()
                    return Entry(path, name, head["ContentLength"], "file", modified, head["ETag"])
                except service_errors() as fault:
                    if code_of(fault) not in ("404", "NoSuchKey"):
                        raise
            page = client(path).list_objects_v2(Bucket=address.bucket, Prefix=address.prefix, MaxKeys=1)
            there = "Contents" in page or not address.key
        return Entry(path, name, 0, "directory") if there else None

    def resolve(self, path: str) -> str:
        """Return the one spelling of a path: without a slash at the end."""
        scheme, mark, rest = path.partition("://")
        return scheme + mark + rest.rstrip("/")

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name."""
        address = Address(path)
        found = []
        for page in _pages(address, Delimiter="/"):
            for one in page.get("Contents", ()):
                if one["Key"] != address.prefix:  # an empty object may represent the directory
                    found.append(_entry(address, one))
            for one in page.get("CommonPrefixes", ()):
                name = one["Prefix"][len(address.prefix) : -1]
                if not name:
                    raise _double_slash(address, one["Prefix"] + "…")
                found.append(Entry(address.path_of(address.prefix + name), name, 0, "directory"))
        return sorted(found, key=lambda entry: entry.name.encode("utf-8", "surrogateescape"))

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield every entry below a directory except directories, with one request for each thousand."""
        address = Address(path)
        for page in _pages(address):
            for one in page.get("Contents", ()):
                if "//" in "/" + one["Key"][len(address.prefix) :]:
                    raise _double_slash(address, one["Key"])
                if not one["Key"].endswith("/"):  # an empty object may represent a directory
                    yield _entry(address, one)

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """Open an object for reading from an offset in bytes."""
        return cast(BinaryIO, Download(Address(path), offset))

    @contextmanager
    def create_new(self, path: str, final: Callable[[], str] | None = None) -> Iterator[BinaryIO]:
        """Create an object that must not exist: it appears when the block ends, whole."""
        address = Address(path)
        honoured = _exclusive.get((os.getpid(), address.bucket), True)
        upload = Upload(address, key_known=final is None, conditional=honoured)
        try:
            with faults(path):
                yield cast(BinaryIO, upload)
                target = address if final is None else Address(final())
                if not honoured and self.stat(target.path) is not None:  # no guarantee, but the best that can be done
                    raise error("storage.exists", path=target.path, why="it exists")
                upload.finish(target)
        except BaseException as fault:
            upload.abort()
            if isinstance(fault, OSError):  # of its temporary file, or of the code that writes to it
                raise error("storage", path=path, why=fault.strerror or fault) from None
            raise
        finally:
            upload.close()

    def link_new(self, source: str, target: str) -> bool:
        """Have the service copy an object to a key that must not exist. Raises FileExistsError.

        An object put there at the same moment may be replaced, so the target's name must be unique to the caller.
        """
        one, other = Address(source), Address(target)
        if self.stat(target) is not None:
            raise FileExistsError(target)
        with faults(target):
            client(target).copy(one.where, other.bucket, other.key)
        return True

    def make_directory(self, path: str, within: str = "") -> None:
        """Do nothing: a directory exists once an object is below it."""

    def remove(self, path: str) -> None:
        """Remove an object, or everything below a directory, and abort unfinished uploads there."""
        address = Address(path)
        if not address.key:
            raise error("storage", path=path, why="a whole bucket is not removed")
        with faults(path):
            try:
                client(path).delete_object(**address.where)
            except service_errors() as fault:
                if code_of(fault) != "NoSuchBucket":
                    raise
                return
            for page in _pages(address):
                keys = [{"Key": one["Key"]} for one in page.get("Contents", ())]
                for start in range(0, len(keys), _AT_ONCE):
                    some = {"Objects": keys[start : start + _AT_ONCE], "Quiet": True}
                    answer = client(path).delete_objects(Bucket=address.bucket, Delete=some)
                    for left in answer.get("Errors", ()):
                        why = left.get("Message", left["Code"])
                        raise error("storage.service", path=address.path_of(left["Key"]), why=why)
            for key, upload in _uploads(address):
                with contextlib.suppress(*service_errors()):  # another process aborts it as well
                    client(path).abort_multipart_upload(Bucket=address.bucket, Key=key, UploadId=upload)

    def remove_directory(self, path: str) -> bool:
        """Return whether a directory is empty; an object that represents it is removed."""
        address = Address(path)
        with faults(path):
            page = client(path).list_objects_v2(Bucket=address.bucket, Prefix=address.prefix, MaxKeys=2)
            if any(one["Key"] != address.prefix for one in page.get("Contents", ())):
                return False
            if page.get("Contents"):
                client(path).delete_object(Bucket=address.bucket, Key=address.prefix)
        return True

    def rename_new(self, source: str, target: str) -> None:
        """Raise StorageError: an object store cannot rename."""
        raise error("storage", path=source, why="an object store cannot rename")

    def replace(self, path: str, content: bytes) -> None:
        """Write a small object, which may exist: readers see either the old content or the new."""
        address = Address(path)
        with faults(path):
            client(path).put_object(**address.where, Body=content)

    def unfinished(self, path: str) -> list[str]:
        """Return the paths, at or below a path, of uploads that were never completed."""
        address = Address(path)
        with faults(path):
            return sorted({address.path_of(key) for key, _ in _uploads(address)})


def _pages(address: Address, **options: Any) -> Iterator[dict[str, Any]]:
    with faults(address.path):
        pager = client(address.path).get_paginator("list_objects_v2")
        yield from pager.paginate(Bucket=address.bucket, Prefix=address.prefix, **options)


def _uploads(address: Address) -> Iterator[tuple[str, str]]:
    """Yield key and ID of each unfinished upload at or below an address; nothing if listing them is not allowed."""
    pager = client(address.path).get_paginator("list_multipart_uploads")
    try:
        for page in pager.paginate(Bucket=address.bucket, Prefix=address.key):
            for one in page.get("Uploads", ()):
                if one["Key"] == address.key or one["Key"].startswith(address.prefix):
                    yield one["Key"], one["UploadId"]
    except service_errors() as fault:
        if code_of(fault) not in ("AccessDenied", "NoSuchBucket", "NoSuchUpload", "NotImplemented"):
            raise


def _entry(address: Address, one: dict[str, Any]) -> Entry:
    name = one["Key"].rpartition("/")[2]
    return Entry(address.path_of(one["Key"]), name, one["Size"], "file", one["LastModified"].timestamp(), one["ETag"])


def _double_slash(address: Address, key: str) -> Exception:
    """Return the error that a key below a prefix, with two slashes in succession, has no path."""
    names = [name for name in key[len(address.prefix) :].split("/") if name]
    moved = address.path_of(address.prefix + "/".join(names))
    return error("storage.slashes", path=address.path, key=address.path_of(key), moved=moved)


def _probed(address: Address) -> bool:
    """Test a few times: after a lost answer, a retried put is refused although the first one was ours."""
    for _ in range(_PROBES - 1):
        with contextlib.suppress(*service_errors()):
            return _honours_conditions(address)
    return _honours_conditions(address)


def _honours_conditions(address: Address) -> bool:
    """Put an object, then again in each way in which objects are put: the later puts must be refused."""
    service = client(address.path)
    probe = {"Bucket": address.bucket, "Key": f"{address.prefix}.mutator-probe-{uuid.uuid4().hex}"}

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
        S3Storage().remove(address.path_of(probe["Key"]))  # and uploads whose ID was lost with an answer


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
