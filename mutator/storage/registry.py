"""Which storage a path is on: a table of schemes, and the storage's calls by path alone."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from urllib.parse import unquote

from mutator.errors import error, suppressed
from mutator.storage.contract import Entry, Storage
from mutator.storage.local import LocalStorage
from mutator.storage.remote import SCHEMES, RemoteStorage
from mutator.storage.stream import blocks


# The modules of these are imported when the first path is on them: most runs use neither.
def _hdfs() -> Storage:
    from mutator.storage.hdfs import HdfsStorage

    return HdfsStorage()


def _s3() -> Storage:
    from mutator.storage.s3 import S3Storage

    return S3Storage()


BACKENDS: dict[str, Callable[[], Storage]] = {
    "file": LocalStorage,
    "hdfs": _hdfs,
    "s3": _s3,
    **dict.fromkeys(SCHEMES, RemoteStorage),
}
_READERS = 8
_ALIASES = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def storage_for(path: str) -> Storage:
    """Return the backend for a path's scheme; raises ConfigError, naming the known schemes.

    >>> type(storage_for("/data/master")).__name__
    'LocalStorage'
    """
    match = _SCHEME.match(path)
    scheme = match[1].lower() if match else "file"
    scheme = _ALIASES.get(scheme, scheme)
    if scheme not in BACKENDS:
        known = ", ".join(sorted(f"{name}://" for name in BACKENDS))
        raise error("path.scheme", path=path, scheme=scheme, known=f"{known} and plain paths")
    return BACKENDS[scheme]()


def writable_storage_for(path: str) -> Storage:
    """Return the backend for a path that will be written to; raises ConfigError if the backend can only read."""
    storage = storage_for(path)
    if not storage.writes:
        raise error("path.readonly", path=path, scheme=path.partition("://")[0], shared=shared_places())
    return storage


def shared_places() -> str:
    """Name the storages that can be written to from every machine.

    >>> shared_places()
    'hdfs://… or s3://…'
    """
    *most, last = (f"{scheme}://…" for scheme in BACKENDS if scheme != "file" and BACKENDS[scheme]().writes)
    return " or ".join([", ".join(most), last])


def located(given: str) -> tuple[Storage, str]:
    """Return the backend of a path as the user gave it, and the path's one spelling there."""
    path = absolute(given)
    storage = storage_for(path)
    return storage, storage.resolve(path)


def located_to_write(given: str) -> tuple[Storage, str]:
    """Return the same for a path that will be written to. Raises ConfigError if the backend can only read."""
    path = absolute(given)
    storage = writable_storage_for(path)
    return storage, storage.resolve(path)


def same_storage(one: str, other: str) -> bool:
    """Return whether two paths have the same backend.

    >>> same_storage("s3://lake/a", "s3a://lake/b")
    True
    """
    return type(storage_for(one)) is type(storage_for(other))


def dataset_name(given: str) -> tuple[str, str]:
    """Return the namespace and the name of the dataset at a path, as OpenLineage spells them.

    >>> dataset_name("s3://lake/products/master"), dataset_name("hdfs://lake/master/"), dataset_name("/data//master/")
    (('s3://lake', 'products/master'), ('hdfs://lake', '/master'), ('file', '/data/master'))
    """
    path = absolute(given)
    return storage_for(path).dataset_name(path)


def hadoop_address(path: str) -> str:
    """Return the address by which Hadoop, and so Spark, knows a path.

    >>> hadoop_address("/data/new"), hadoop_address("s3://bucket/new")
    ('file:///data/new', 's3a://bucket/new')
    """
    return storage_for(path).hadoop_address(path)


def entries_of(path: str) -> list[Entry]:
    """Return the entries of a directory, sorted by name; an empty list if it does not exist."""
    with suppressed("storage.missing"):
        return storage_for(path).entries(path)
    return []


def walk(directory: str) -> Iterator[Entry]:
    """Yield every entry below a directory except directories."""
    return storage_for(directory).walk(directory)


def read_file(path: str) -> bytes:
    """Return the content of a small file."""
    with storage_for(path).open(path) as stream:
        return b"".join(blocks(stream))


def read_if_exists(path: str) -> bytes | None:
    """Return the content of a small file; None if it does not exist."""
    with suppressed("storage.missing"):
        return read_file(path)
    return None


def read_each_if_exists(paths: Sequence[str]) -> Iterator[bytes | None]:
    """Yield the contents of small files of one storage, in the order of their paths; None for those that are missing.

    Where reading is mostly waiting, they are read at once; elsewhere each when it is asked for.
    """
    if len(paths) < 2 or not storage_for(paths[0]).waits:
        yield from map(read_if_exists, paths)
        return
    reading = [_readers(os.getpid()).submit(read_if_exists, path) for path in paths]
    try:
        for one in reading:
            yield one.result()
    finally:
        for one in reading:
            one.cancel()


@cache
def _readers(process: int) -> ThreadPoolExecutor:
    """Return the threads of this process that read; a forked process has none of its parent's."""
    return ThreadPoolExecutor(_READERS, "read")


def link_or_copy(source: str, target: str) -> None:
    """Give a file a second path, which must not exist: by a link where possible, else as a copy.

    Raises StorageError, of the kind ``storage.exists`` if the path exists.
    """
    storage = storage_for(target)
    try:
        linked = same_storage(source, target) and storage.link_new(source, target)
    except FileExistsError:
        raise error("storage.exists", path=target, why="it exists") from None
    if not linked:
        with storage_for(source).open(source) as stream, storage.create_new(target) as copy:
            for block in blocks(stream):
                copy.write(block)


def absolute(path: str) -> str:
    """Make a path independent of the working directory, and a ``file://`` address a plain path.

    >>> absolute("file:///data/a%20b")
    '/data/a b'
    """
    match = _SCHEME.match(path)
    if match and match[1].lower() == "file":
        host, slash, rest = path[match.end() :].partition("/")
        if host not in ("", "localhost") or not slash:
            raise error("usage", what=f"{path}: a file address has no host; write file:///{host}/…")
        path = "/" + unquote(rest)
    elif match:
        scheme = match[1].lower()
        rest = path[match.end() :]
        return f"{_ALIASES.get(scheme, scheme)}://{rest if scheme in SCHEMES else rest.rstrip('/')}"
    elif re.match(r"file:/[^/]", path):  # as Hadoop prints it
        path = unquote(path[5:])
    single = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/(?!/)", path)
    if single and single[1].lower() in {*BACKENDS, *_ALIASES}:
        raise error("usage", what=f"{path}: an address has two slashes; write {single[1]}://{path[single.end() :]}")
    if "\0" in path:
        raise error("usage", what=f"{path}: a path cannot contain a NUL byte")
    return os.path.abspath(path)
