"""The verified bytes of a file of a table, wherever they are: at its path, in a log entry, or in a pack."""

from __future__ import annotations

import posixpath

from mutator.dataset import checksum
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.packs import inline_of
from mutator.errors import MutatorError, error
from mutator.storage import read_file


def content_of(table: str, stored: FileEntry) -> bytes:
    """Return the bytes of a file of a table. Raises StateError if it is lost or damaged."""
    content = inline_of(table, stored)
    if content is None:
        try:
            content = read_file(posixpath.join(table, stored.path))
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                raise
            raise damaged(table, stored, "it is missing") from None
    found = checksum.of_blocks([content], checksum.chunk_of(stored.checksum))
    if found != stored.checksum:
        raise damaged(table, stored, f"its checksum is {found} and should be {stored.checksum}")
    return content


def damaged(table: str, stored: FileEntry, why: object) -> MutatorError:
    """Return the error of a file of a table that is lost or damaged."""
    return error("table.file", path=posixpath.join(table, stored.path), why=why)
