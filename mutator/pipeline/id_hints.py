"""What the first rows show where many rows have one ID: the fields that are unique, which may be the ID.

>>> from mutator.errors.parts import plain
>>> rows = FirstRows("base.txt", 3, {"0": [b"a", b"b", b"c"], "1": [b"x", b"x", b"y"]})
>>> plain(id_hint(rows, ["1"], ())).partition(", and ")[2]
"field 0 is unique: use -D 'id.field.ordinals=0' if that is the record ID"
"""

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Any

from mutator.errors.display import counted
from mutator.errors.parts import option, place, setting
from mutator.formats.blocks.row_layout import RowLayout
from mutator.plan.inspect.first_rows import FirstRows, first_rows
from mutator.plan.inspect.source import Source
from mutator.plan.reading import Reading

_FIELDS = 30  # of which pairs are compared
NO_FIELD = "and no other field is unique, nor are two of them together: the ID may need more fields"


def id_hint_for(plan: Reading, side: str, sources: Sequence[Source]) -> str:
    """Return what the first rows of a side show about the ID, a sentence without a full stop. sources: of that side."""
    source = min(
        (one for one in sources if one.width is not None or one.file_schema is not None),
        key=lambda one: (-(one.width or 0), one.name.encode("utf-8", "surrogateescape")),
        default=None,
    )
    if source is None:
        return f"check {setting('id.field.ordinals')}"
    own, feed = plan.rows.layouts[side], plan.rows.layouts["feed"]
    rows = first_rows(source, own.delimiter.split if isinstance(own, RowLayout) else None)
    if isinstance(own, RowLayout) and feed.envelope.field is not None and own.envelope.field is None:
        rows = _numbered_as_in_feed(rows, feed.envelope.field)
    return id_hint(rows, fields_of(feed, feed.id_fields), fields_of(feed, (*feed.ordered_by, feed.envelope.field)))


def id_hint(rows: FirstRows, id_fields: Sequence[str], others: Collection[str]) -> str:
    """Return which fields have distinct values in some rows. others: fields that are no ID: order value and op code."""
    values = {name: column for name, column in rows.columns.items() if name not in others or name in id_fields}
    if rows.count < 2 or not values.keys() >= set(id_fields):
        return f"check {setting('id.field.ordinals')}"

    def distinct(fields: Sequence[str]) -> int:
        return len(set(zip(*(values[field] for field in fields), strict=True)))

    where = f"in the first {rows.count:,} rows of {place(rows.file)}"
    found = distinct(id_fields)
    if found == rows.count:
        return f"{where}, {_called(id_fields)} {_is_unique(id_fields)}, so several files may have the same rows"
    others_first = [name for name in values if name not in id_fields]
    several = [*((*id_fields, name) for name in others_first), *combinations(list(values)[:_FIELDS], 2)]
    candidates = [*((name,) for name in others_first), *several]
    unique = next((fields for fields in candidates if distinct(fields) == rows.count), None)
    shown = (
        f"{where}, {_called(id_fields)} {'has' if len(id_fields) == 1 else 'have'} {counted(found, 'distinct value')}"
    )
    if unique is None:
        return f"{shown}, {NO_FIELD}"
    cure = option("id.field.ordinals", ",".join(unique))
    return f"{shown}, and {_called(unique)} {_is_unique(unique)}: use {cure} if that is the record ID"


def _called(fields: Sequence[str]) -> str:
    """Return the names of fields, in words.

    >>> _called(["0"]), _called(["0", "2"])
    ('field 0', 'fields 0 and 2')
    """
    return f"field {fields[0]}" if len(fields) == 1 else f"fields {', '.join(fields[:-1])} and {fields[-1]}"


def _is_unique(fields: Sequence[str]) -> str:
    return "is unique" if len(fields) == 1 else "are unique together"


def fields_of(layout: Any, fields: Sequence[int | str | None]) -> list[str]:
    """Return the names of fields of a layout, or their ordinals if fields have no names."""
    names = layout.result.names if hasattr(layout, "result") else ()
    return [names[field] if names and isinstance(field, int) else str(field) for field in fields if field is not None]


def _numbered_as_in_feed(rows: FirstRows, op_field: int) -> FirstRows:
    """Return rows without op code, their fields numbered as in the feed, which has it."""
    numbers = {name: str(int(name) + (int(name) >= op_field)) for name in rows.columns}
    return FirstRows(rows.file, rows.count, {numbers[name]: column for name, column in rows.columns.items()})
