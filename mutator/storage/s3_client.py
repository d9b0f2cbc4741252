"""The shared parts of the S3 backend: the client of a process, addresses, and translated errors."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mutator.errors import error

_MISSING = {"404", "NoSuchKey", "NotFound", "NoSuchUpload"}
_EXISTS = {"412", "PreconditionFailed"}
_clients: dict[int, Any] = {}  # by process: a forked process must not share connections
_lock = threading.Lock()  # boto3 creates clients in one thread only; threads may share them afterwards


class Address:
    """Bucket and key of a path. A key is taken literally: nothing in it is escaped.

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
    def where(self) -> dict[str, str]:
        """The arguments of a request that name the object."""
        return {"Bucket": self.bucket, "Key": self.key}

    @property
    def prefix(self) -> str:
        """The prefix of the keys of all objects below this address."""
        return f"{self.key}/" if self.key else ""

    def path_of(self, key: str) -> str:
        """Return the path of another key in this bucket, with the same spelling of the scheme."""
        return f"{self.path.partition('://')[0]}://{self.bucket}/{key}"


def client(path: str) -> Any:
    """Return the client of this process. Endpoint, region and credentials come from the environment."""
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
    except ValueError as fault:  # boto3 raises it for a malformed address or number
        raise error("storage.service", path=path, why=f"{fault}; look at the variables AWS_…") from None


@contextmanager
def faults(path: str) -> Iterator[None]:
    """Raise an error of the service, or of the connection to it, as a StorageError."""
    try:
        yield
    except UnicodeEncodeError:
        raise error("storage.key", path=path) from None
    except Exception as fault:
        # By name: without boto3 installed there is no class to compare with.
        if not any(one.__module__.startswith(("boto3.", "botocore.")) for one in type(fault).__mro__):
            raise
        raise storage_error(path, fault) from None


def service_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that boto3 raises; none if it is not installed, which is reported elsewhere."""
    try:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return ()
    return (Boto3Error, BotoCoreError, ClientError)


def storage_error(path: str, fault: Exception) -> Exception:
    """Return an error of the service as a StorageError."""
    code = code_of(fault)
    if code == "NoSuchBucket":
        return error("path.bucket", path=path)
    kind = "storage.missing" if code in _MISSING else "storage.exists" if code in _EXISTS else "storage.service"
    response = getattr(fault, "response", {}).get("Error", {})
    text = response.get("Message") or str(fault)
    why = f"{code}: {text}" if code and code not in text else text
    return error(kind, path=path, why=" ".join(why.split()))


def code_of(fault: Exception) -> str:
    """Return the service's code of an error; empty if there was no answer."""
    return str(getattr(fault, "response", {}).get("Error", {}).get("Code", ""))
