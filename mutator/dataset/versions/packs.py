"""Packs: the contents that many log entries have, in one object, so that a checkpoint names them and has no copies.

A pack is derived: if it is lost or damaged, the log entry is read.
"""

from __future__ import annotations

import base64
import posixpath
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset import checksum
from mutator.dataset.commits import Left
from mutator.dataset.file_entry import KEYS, FileEntry, is_packed
from mutator.dataset.versions.checkpoint import CONTENTS, STORED
from mutator.dataset.versions.log import TableLog
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.parts import OTHER_CURE, place, word
from mutator.storage import read_file

RESTORE = "restore it from a copy of the table"
_LARGEST = 8 << 20  # bytes of a pack, unless a single content has more
_READ_AGAIN = 16  # packs that ``unpacked`` has in memory
_KEPT = 64 << 20  # bytes of packs that stay in memory: a small one is read by every apply
_packs: dict[tuple[str, str], bytes] = {}  # by the directory of a log, and name; in the order of their last use
_lock = threading.Lock()


def inline_of(table: str, stored: FileEntry) -> bytes | None:
    """Return the bytes of a file that its log entry has; None if they are at its path.

    Raises StateError if the entry is lost or damaged, and no pack has them.
    """
    if stored.packed is None:
        return stored.inline
    entry, offset, name = _parsed(stored.packed)
    log = TableLog(table)
    content = _pack(log, name)
    if content is not None:
        return content[offset : offset + stored.bytes]
    for one in log.read(entry).stored():
        if one.path == stored.path:
            return one.inline
    return None


def packs_of(columns: Any) -> set[str]:
    """Return the names of the packs that files name. columns: pa.Table of ``CONTENTS``, and perhaps others."""
    found = set[str]()
    for name in CONTENTS:
        packs = pc.extract_regex(columns.column(name).drop_null(), r"^\d+:\d+:(?P<pack>.*)$")
        found.update(pc.unique(pc.struct_field(packs, "pack")).drop_null().to_pylist())
    return found


def needed_packs(log: TableLog, left: Left) -> set[str]:
    """Return the names of the packs that checkpoints name which serve versions that are left.

    Another writer may have packed the contents of earlier versions by itself.
    """
    names = {name for number, name in log.checkpoints() if number >= left.earliest} | set(left.bases.values())
    contents = (log.contents_of(name) for name in sorted(names))
    return {pack for one in contents if one is not None for pack in packs_of(one)}


def stays_from(earliest: int) -> Callable[[str], bool]:
    """Return whether a pack stays as long as a version is the earliest one: cleanings name those of versions before."""
    return lambda name: int(name[:20]) >= earliest


def packed(log: TableLog, number: int, columns: Any, stays: Callable[[str], bool]) -> Any:
    """Write the contents of files into packs; return the files, which name them.

    number: of the version. columns: pa.Table of ``checkpoint.FILES``. stays: returns whether a pack stays, by its name;
    contents that only other packs have are written again.
    """
    columns = without_packs(log, columns.combine_chunks(), {name for name in packs_of(columns) if not stays(name)})
    apart = {name: np.flatnonzero(_is_apart(columns.column(name))) for name in CONTENTS}
    rows = np.concatenate(list(apart.values()))
    contents = [text for name in CONTENTS for text in columns.column(name).take(pa.array(apart[name])).to_pylist()]
    order = np.argsort(rows, kind="stable")  # the contents of a version lie together
    entries = columns.column("version").take(pa.array(rows)).to_pylist()
    named, waiting = [""] * len(rows), iter(order.tolist())
    for part in _parts([contents[one] for one in order]):
        whole = b"".join(part)
        name, offset = log.write_pack(number, whole), 0
        _keep(log.path, name, whole)  # the next apply reads it
        for content, at in zip(part, waiting, strict=False):
            named[at] = f"{entries[at]}:{offset}:{name}"
            offset += len(content)
    start = 0
    for name in CONTENTS:
        own = named[start : start + len(apart[name])]
        start += len(own)
        if own:
            mask = np.zeros(columns.num_rows, np.bool_)
            mask[apart[name]] = True
            column = pc.replace_with_mask(columns.column(name), pa.array(mask), pa.array(own, pa.string()))
            columns = columns.set_column(columns.schema.get_field_index(name), columns.schema.field(name), column)
    return columns


def without_packs(log: TableLog, columns: Any, gone: Collection[str]) -> Any:
    """Return files that name none of some packs, whose contents they have; the log has those of lost packs.

    Only contents that cannot be read are still named. gone: names of packs.
    """
    wanted = dict[int, list[tuple[str, int]]]()  # log entry -> (field, row) of contents
    texts = {name: columns.column(name).to_pylist() for name in CONTENTS} if gone else {}
    paths = {name: path for path, _, name in STORED}
    for _, size, name in STORED if gone else ():
        for row, text in enumerate(texts[name]):
            if not is_packed(text):
                continue
            entry, offset, pack = _parsed(text)
            content = _pack(log, pack) if pack in gone else b""
            if content is None:
                wanted.setdefault(entry, []).append((name, row))
            elif content:
                end = offset + columns.column(size)[row].as_py()
                texts[name][row] = base64.b64encode(content[offset:end]).decode()
    with suppressed("table.log.damaged", "table.log.archive"):
        for version in log.after(min(wanted) - 1, max(wanted)) if wanted else ():
            contents = {one.path: one.content for one in version.stored()}
            for name, row in wanted.get(version.number, ()):
                path = columns.column(paths[name])[row].as_py()
                texts[name][row] = contents.get(path) or texts[name][row]
    for name, own in texts.items():
        field = columns.schema.get_field_index(name)
        columns = columns.set_column(field, columns.schema.field(name), pa.array(own, pa.string()))
    return columns


def bytes_apart(columns: Any) -> int:
    """Return the size of the contents that files have in memory, as text, because no pack has them."""
    texts = (columns.column(name) for name in CONTENTS)
    return sum(pc.sum(pc.utf8_length(text.filter(pa.array(_is_apart(text))))).as_py() or 0 for text in texts)


def unpacked(table: str, columns: Any) -> Any:
    """Undo ``packed``; return None if a pack is missing or damaged, even if an earlier call read it."""
    log = TableLog(table)
    read = lru_cache(_READ_AGAIN)(log.pack)
    for _, size, name in STORED:
        texts = columns.column(name).to_pylist()
        for row, text in enumerate(texts):
            if is_packed(text):
                _, offset, pack = _parsed(text)
                content = read(pack)
                if content is None:
                    return None
                part = content[offset : offset + columns.column(size)[row].as_py()]
                texts[row] = base64.b64encode(part).decode()
        field = columns.schema.get_field_index(name)
        columns = columns.set_column(field, columns.schema.field(name), pa.array(texts, pa.string()))
    return columns


def _is_apart(column: Any) -> Any:
    """Return which contents are in log entries, and not yet in a pack."""
    apart = pc.and_(column.is_valid(), pc.invert(pc.fill_null(pc.match_substring(column, ":"), True)))
    return apart.to_numpy()


def _parts(contents: Sequence[str]) -> Iterator[list[bytes]]:
    part, size = list[bytes](), 0
    for text in contents:
        content = base64.b64decode(text, validate=True)
        if part and size + len(content) > _LARGEST:
            yield part
            part, size = [], 0
        part.append(content)
        size += len(content)
    if part:
        yield part


def _parsed(text: str) -> tuple[int, int, str]:
    entry, offset, name = text.split(":")
    return int(entry), int(offset), name


def _pack(log: TableLog, name: str) -> bytes | None:
    """Return the content of a pack; None if it is missing or damaged."""
    with _lock:
        if (log.path, name) in _packs:
            _packs[log.path, name] = _packs.pop((log.path, name))  # it is the one that was used last
            return _packs[log.path, name]
    content = log.pack(name)
    if content is not None:
        _keep(log.path, name, content)
    return content


def _keep(directory: str, name: str, content: bytes) -> None:
    with _lock:
        _packs[directory, name] = content
        size = sum(map(len, _packs.values()))
        while size > _KEPT and len(_packs) > 1:
            size -= len(_packs.pop(next(iter(_packs))))


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
    is_index = stored.path.endswith(KEYS)
    again = (
        f"it is a key index; make it again with: mutator table verify --repair {word(place(table))} (in Python: "
        "Table.verify with repair)"
    )
    cure = again if is_index else RESTORE
    fault = error("table.file", path=posixpath.join(table, stored.path), why=why, cure=cure)
    if is_index:
        fault.message += OTHER_CURE  # of an overwrite
    return fault
