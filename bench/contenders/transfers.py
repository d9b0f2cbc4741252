"""Bytes to a server and back: mutator's storage, and the servers' own clients in their simplest use.

All of them hash the bytes that they read while the clock runs, so every client must deliver every byte.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from mutator.storage import blocks, storage_for

if TYPE_CHECKING:
    from hdfs_native import Client

__all__ = ["Boto3", "Boto3Request", "HdfsNative", "Mutator", "Transfer", "hash_of"]

BLOCK = 1 << 20


class Transfer(ABC):
    """A client of a server. ``write`` and ``read`` are timed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def start(self, scratch: Path) -> dict[str, str]:
        """Load the client; return its version by name."""
        importlib.import_module(self._package)
        return {self._package: version(self._package)}

    @abstractmethod
    def write(self, source: Path, address: str) -> None:
        """Write a file's bytes to a new address."""

    @abstractmethod
    def read(self, address: str) -> str:
        """Return the hash of the bytes at an address."""

    def stop(self) -> None:  # noqa: B027  # most have nothing to stop
        """Do nothing: connections end with the process."""


class Mutator(Transfer):
    """mutator's storage, used as the jobs use it."""

    def write(self, source: Path, address: str) -> None:
        """Create the file; it appears when it is complete."""
        with source.open("rb") as stream, storage_for(address).create_new(address) as sink:
            for block in blocks(stream):
                sink.write(block)

    def read(self, address: str) -> str:
        """Read in the blocks in which the jobs read."""
        with storage_for(address).open(address) as stream:
            return hash_of(blocks(stream))


class Boto3(Transfer):
    """The transfer manager with boto3's defaults: ten threads, parts and ranges of 8 MiB."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Create the client."""
        import boto3

        self._client = boto3.client("s3")
        return super().start(scratch)

    def write(self, source: Path, address: str) -> None:
        """Send parts of the file."""
        with source.open("rb") as stream:
            self._client.upload_fileobj(stream, *_bucket_and_key(address))

    def read(self, address: str) -> str:
        """Receive the ranges in order, because the target cannot seek."""
        sink = _Sink()
        self._client.download_fileobj(*_bucket_and_key(address), sink)
        return sink.hash.hexdigest()


class Boto3Request(Boto3):
    """One request for the whole file: no parallel transfers, and no partial retries."""

    def write(self, source: Path, address: str) -> None:
        """Put the file, whose length must be known."""
        bucket, key = _bucket_and_key(address)
        with source.open("rb") as stream:
            self._client.put_object(Bucket=bucket, Key=key, Body=stream)

    def read(self, address: str) -> str:
        """Read the body of the single response."""
        bucket, key = _bucket_and_key(address)
        return hash_of(self._client.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(BLOCK))


class HdfsNative(Transfer):
    """The client's file for writing, and for reading the iterator that its documentation recommends."""

    _client: Client | None = None

    def write(self, source: Path, address: str) -> None:
        """Write and close; nothing is synced."""
        client, path = self._at(address)
        with source.open("rb") as stream, client.create(path) as sink:
            while block := stream.read(BLOCK):
                sink.write(block)

    def read(self, address: str) -> str:
        """Read the whole range as it arrives."""
        client, path = self._at(address)
        reader = client.read(path)
        return hash_of(reader.read_range_stream(0, len(reader)))

    def _at(self, address: str) -> tuple[Client, str]:
        from hdfs_native import Client

        root, slash, path = address.removeprefix("hdfs://").partition("/")
        if self._client is None:
            self._client = Client(f"hdfs://{root}")
        return self._client, slash + path


class _Sink:
    """A writable object that keeps only a hash."""

    def __init__(self) -> None:
        self.hash = xxhash.xxh3_128()

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return len(data)


def hash_of(parts: Iterable[bytes]) -> str:
    """Return the hash of bytes that arrive in parts."""
    sink = _Sink()
    for part in parts:
        sink.write(part)
    return sink.hash.hexdigest()


def _bucket_and_key(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key
