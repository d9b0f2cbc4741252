"""Samples of changed rows: the fields of a row before and after, and which of them the run changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mutator.dataset.directory import read_manifest
from mutator.errors import MutatorError
from mutator.formats.blocks.changed_rows import ROW
from mutator.frames.change_feed import change_batches, change_files, schema_of_changes
from mutator.pipeline.html_report.cut import cut_text
from mutator.pipeline.kept_out import OUT
from mutator.rules.changes import CHANGE, FIELD_NAMES
from mutator.storage import located

_LEAD = 3  # first fields, which are shown although they are the same: most often they have the ID
_FIELDS = 12  # of a row
_TEXT = 60  # characters of a value
_EACH = 6  # rows of each kind
_READ = 20_000  # rows that are looked at


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
    found: dict[str, list[ChangedRow]] = {"update": [], "insert": [], "delete": []}
    try:
        storage, full = located(path)
        known = read_manifest(storage, full)
        if known is None or not (parts := change_files(known)):
            return None
        before: Mapping[str, Any] | None = None
        for number, row in enumerate(_rows(full, parts)):
            kind, values = row.pop(CHANGE), _values(row)
            if kind == "update_preimage":
                before = values
                continue
            rows = found[kind.removesuffix("_postimage")] if kind != "delete" else found["delete"]
            if len(rows) < _EACH:
                old = values if kind == "delete" else before
                rows.append(_changed(kind, old, None if kind == "delete" else values, hide=hide))
            before = None
            if number > _READ or all(len(rows) == _EACH for rows in found.values()):
                break
    except (MutatorError, OSError):  # a page does without them
        return None
    return [row for rows in found.values() for row in rows]


def _rows(path: str, parts: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for part in parts:
        for batch in change_batches(path, [part], schema_of_changes(path, part)):
            for start in range(0, batch.num_rows, 64):  # rows may be large
                yield from batch.slice(start, 64).to_pylist()


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
    return ChangedRow(kind.removesuffix("_postimage"), shown, len(fields) - len(shown))


def _text(value: Any, *, hide: bool) -> str | bytes:
    """Return a value as it is shown."""
    if hide:
        return OUT
    if value is None:
        return "NULL"
    return value if isinstance(value, bytes) else cut_text(str(value), _TEXT)
