"""What the modules of the S3 backend share: the client of a process, addresses, and errors in our words."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mutator.errors import error

__all__ = ["Address", "client", "code_of", "faults", "service_errors", "storage_error"]

_MISSING = {"404", "NoSuchKey", "NotFound", "NoSuchUpload"}
_EXISTS = {"412", "PreconditionFailed"}
_clients: dict[int, Any] = {}  # by process: connections must not be shared with one that was forked
_lock = threading.Lock()  # boto3 makes clients in one thread only; once made they may be shared


class Address:
    """Bucket and key of a path. A key is taken as it stands: nothing in it is escaped.

    >>> Address("s3://lake/in/ups%201.txt").key
    'in/ups%201.txt'
    """

    __slots__ = ("bucket", "key", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        scheme, _, rest = path.partition("://")
        self.bucket, _, key = rest.partition("/")
        self.key = key.rstrip("/")
        if not self.bucket:
            raise error("usage", what=f"{path}: there is no bucket in it; write {scheme}://BUCKET/…")

    @property
    def prefix(self) -> str:
        """What the keys of all that lies below begin with."""
        return f"{self.key}/" if self.key else ""

    def path_of(self, key: str) -> str:
        """Return the path of another key of this bucket, in the same spelling."""
        return f"{self.path.partition('://')[0]}://{self.bucket}/{key}"


def client(path: str) -> Any:
    """Return the client of this process. Endpoint, region and credentials are those of the environment."""
    found = _clients.get(os.getpid())
    if found is not None:
        return found
    with _lock:
        if os.getpid() not in _clients:
            _clients[os.getpid()] = _new_client(path)
        return _clients[os.getpid()]


def _new_client(path: str) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise error("path.extra", path=path, scheme="s3", extra="s3") from None
    retries: dict[str, Any] = {"mode": "standard"}
    if "AWS_MAX_ATTEMPTS" not in os.environ:
        retries["total_max_attempts"] = 8
    try:
        with faults(path):
            config = Config(retries=retries, max_pool_connections=32, user_agent_extra="mutator")
            return boto3.session.Session().client("s3", config=config)
    except ValueError as fault:  # boto3's own words for an address or a number that is none
        raise error("storage.service", path=path, why=f"{fault}; look at the variables AWS_…") from None


@contextmanager
def faults(path: str) -> Iterator[None]:
    """Give an error of the service, or of the way to it, the words and the kind of ours."""
    try:
        yield
    except UnicodeEncodeError:
        raise error("storage.service", path=path, why="a key must be UTF-8") from None
    except Exception as fault:
        # Asked by name: where boto3 is not installed, there is no class to ask for.
        if not any(one.__module__.startswith(("boto3.", "botocore.")) for one in type(fault).__mro__):
            raise
        raise storage_error(path, fault) from None


def service_errors() -> tuple[type[Exception], ...]:
    """Return what boto3 raises; nothing where it is not installed, which is an error of ours by then."""
    try:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return ()
    return (Boto3Error, BotoCoreError, ClientError)


def storage_error(path: str, fault: Exception) -> Exception:
    """Return an error of the service as one of ours."""
    code = code_of(fault)
    if code == "NoSuchBucket":
        return error("path.bucket", path=path)
    kind = "storage.missing" if code in _MISSING else "storage.exists" if code in _EXISTS else "storage.service"
    response = getattr(fault, "response", {}).get("Error", {})
    text = response.get("Message") or str(fault)
    why = f"{code}: {text}" if code and code not in text else text
    return error(kind, path=path, why=" ".join(why.split()))


def code_of(fault: Exception) -> str:
    """Return the service's code of an error; empty where there was no answer."""
    return str(getattr(fault, "response", {}).get("Error", {}).get("Code", ""))
