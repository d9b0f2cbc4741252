"""The only room that knows file systems: files and directories on local disks, HDFS and S3, and files on the web.

    contract     the methods of a backend, ``Storage``
    registry     which backend a path has, by its scheme
    local, hdfs, s3, remote    the backends; ``remote`` only reads
    entry, stream, globbing    what backends share
    compression  compressed feed files, on any backend
    progress     how much of its work a command has done

To add a backend, write a subclass of ``Storage`` in a module of its own and give it a line in ``registry.BACKENDS``.
Everything else asks the class, also for how Hadoop and OpenLineage call its paths. Its packages are an extra in
setup.cfg. tests/storage/test_storage_contract.py runs on every backend that its own table, ``BACKENDS``, lists.
"""

from mutator.storage.contract import Entry, Storage
from mutator.storage.registry import (
    absolute,
    dataset_name,
    entries_of,
    hadoop_address,
    link_or_copy,
    located,
    located_to_write,
    read_each_if_exists,
    read_file,
    read_if_exists,
    shared_places,
    storage_for,
    walk,
    writable_storage_for,
)
from mutator.storage.stream import blocks

__all__ = [
    "Entry",
    "Storage",
    "absolute",
    "blocks",
    "dataset_name",
    "entries_of",
    "hadoop_address",
    "link_or_copy",
    "located",
    "located_to_write",
    "read_each_if_exists",
    "read_file",
    "read_if_exists",
    "shared_places",
    "storage_for",
    "walk",
    "writable_storage_for",
]
