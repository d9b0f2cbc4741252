"""Samples of rows on a page: changed rows, with their fields before and after, and rejected rows, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from mutator.dataset.directory import read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import State
from mutator.errors import MutatorError
from mutator.errors.display import OUT
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.changed_rows import ROW
from mutator.formats.values.python_values import python_rows
from mutator.frames.change_feed import change_batches, change_files, schema_of_changes
from mutator.frames.rejected import parsed_rows
from mutator.pipeline.kept_out import without_value
from mutator.pipeline.reports.sections import cut_text
from mutator.rules.changes import CHANGE, FIELD_NAMES
from mutator.storage import located

_LEAD = 3  # first fields, which are shown although they are the same: most often they have the ID
_FIELDS = 12  # of a row
_TEXT = 60  # characters of a value
_EACH = 6  # rows of each kind
_READ = 20_000  # rows that are looked at
_REJECTS = 8 << 20  # bytes of a file of rejected rows that are read, at most
_HALVES = 64  # rows that wait for their other half: the first ones, and as many of the last ones


class Field(NamedTuple):
    """A field of a row; None: it has no value there."""

    name: str
    before: str | bytes | None
    after: str | bytes | None
    changed: bool


@dataclass(frozen=True)
class ChangedRow:
    """A changed row. left_out: the number of its fields that are not shown."""

    kind: str  # insert | update | delete
    fields: Sequence[Field]
    left_out: int


def changed_rows(path: str, *, hide: bool) -> list[ChangedRow] | None:
    """Return some rows that a run changed, by kind; None if they were not written, or cannot be read.

    path: of the output. hide: values must not be shown.
    """
    try:
        storage, full = located(path)
        known = read_manifest(storage, full)
        if known is None or not (parts := change_files(known)):
            return None
        names = _key_names(known, schema_of_changes(full, parts[0]).names)
        can_pair = bool(names) or not known.commit.counts.get("moved in")
        return samples_of(_batches(full, parts), names, can_pair=can_pair, hide=hide)
    except (MutatorError, OSError):  # a page does without them
        return None


def samples_of(batches: Iterable[Any], names: Sequence[str], *, can_pair: bool, hide: bool) -> list[ChangedRow]:
    """Return some of the changed rows in pa.RecordBatches, by kind.

    names: of the key fields. can_pair: the two rows of an update have the same key, or follow each other. hide: values
    must not be shown.
    """
    found: dict[str, list[ChangedRow]] = {"update": [], "insert": [], "delete": []}
    for kind, before, after in _changes(batches, names, can_pair=can_pair):
        rows = found[kind]
        if len(rows) < _EACH:
            rows.append(_changed(kind, before, after, hide=hide))
        if all(len(rows) == _EACH for rows in found.values()):
            break
    return [row for rows in found.values() for row in rows]


def _changes(
    batches: Iterable[Any], names: Sequence[str], *, can_pair: bool
) -> Iterator[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """Yield the first changes: insert, delete or update, and the fields before and after.

    The two rows of a record that moved to another partition are in different files, where each may be beside a row of
    another record. A table has all rows before the changes first, so the first ones must wait; of a run, most pairs
    follow each other, so the last ones must.
    """
    halves: dict[tuple[str, ...], Mapping[str, Any]] = {}  # rows whose other half was not read yet
    for row in islice(_rows(batches), _READ):
        kind, key, values = row.pop(CHANGE), tuple(repr(row.get(name)) for name in names), _values(row)
        if kind == "insert":
            yield kind, None, values
        elif kind == "delete":
            yield kind, values, None
        elif (other := halves.pop(key, None)) is not None:
            yield "update", *((other, values) if kind == "update_postimage" else (values, other))
        elif can_pair:
            if len(halves) == 2 * _HALVES:
                del halves[next(islice(halves, _HALVES, None))]
            halves[key] = values


def _key_names(known: State, columns: Sequence[str]) -> list[str]:
    """Return the columns of the key; none if rows have no columns."""
    key = known.spec["key"]
    if "fields" in key:
        return list(key["fields"])
    names = [name for name in columns if name not in (*FIELD_NAMES, ROW)]
    return [names[ordinal] for ordinal in key["ordinals"]] if names else []


def _batches(path: str, parts: Sequence[FileEntry]) -> Iterator[Any]:
    for part in parts:
        yield from change_batches(path, [part], schema_of_changes(path, part))


def _rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for start in range(0, batch.num_rows, 64):  # rows may be large
            yield from python_rows(batch.slice(start, 64))


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row; its bytes where its fields are not text."""
    raw = row.get(ROW)
    if raw is not None:
        return {"row": raw}
    return {name: value for name, value in row.items() if name not in (*FIELD_NAMES, ROW)}


def _changed(kind: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, *, hide: bool) -> ChangedRow:
    old, new = before or {}, after or {}
    fields = []
    for name in dict.fromkeys((*old, *new)):
        changed = before is not None and after is not None and old.get(name) != new.get(name)
        first, last = (_text(one.get(name), hide=hide) if one else None for one in (old, new))
        fields.append(Field(name, first, last, changed))
    lead, rest = fields[:_LEAD], fields[_LEAD:]
    shown = [*lead, *sorted(rest, key=lambda field: not field.changed)][:_FIELDS]
    return ChangedRow(kind, shown, len(fields) - len(shown))


def _text(value: Any, *, hide: bool) -> str | bytes:
    """Return a value as it is shown."""
    if hide:
        return OUT
    if value is None:
        return "NULL"
    return value if isinstance(value, bytes) else cut_text(str(value), _TEXT)


@dataclass(frozen=True)
class RejectedRows:
    """Rejected rows. rows: mappings with path, line, offset, reason, and ``row``, its bytes."""

    rows: Sequence[Mapping[str, Any]]
    reasons: Sequence[tuple[str, int]]  # without the values in them, the most frequent first
    counted: int  # rows that ``reasons`` are of


def rejected_rows(path: str | None, samples: Mapping[str, Sequence[Mapping[str, Any]]], most: int) -> RejectedRows:
    """Return the first rejected rows. path: of the file that has all of them. samples: instead, if there is none.

    most: rows to be shown.
    """
    found = _rejects_of(path) if path is not None else []
    if not found:
        found = [
            {
                "file": row["path"],
                "line": row["line"],
                "offset": row["offset"],
                "reason": row["reason"],
                "row": row["row"],
            }
            for rows in samples.values()
            for row in rows
        ]
    reasons = Counter(without_value(row["reason"]) for row in found)
    return RejectedRows(found[:most], reasons.most_common(), len(found))


def _rejects_of(path: str) -> list[dict[str, Any]]:
    try:
        storage, full = located(path)
        with storage.open(full) as stream:
            content = stream.read(_REJECTS + 1)
    except (MutatorError, OSError):  # a report does without them
        return []
    if len(content) > _REJECTS:
        content = content[: content.rfind(b"\n", 0, _REJECTS) + 1] or content  # the last row is not whole
    return list(parsed_rows(content))
