"""Schemas of files with named fields, and the one that a run writes: decided once, on the driver.

The result has the fields of one file's schema, the newest feed file's or a given one. What the others lack is filled
with a default or NULL, what they have beside it is left out, and a field that has several types gets one that holds all
of them: int, long, decimal; float, double; date, timestamp; a unit of time and a finer one. Nothing else is guessed.
"""

from __future__ import annotations

import base64
import difflib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mutator.errors import error
from mutator.rules.file_names import base_name, first_few
from mutator.rules.timestamps import TICKS

__all__ = [
    "ResolvedSchema",
    "SchemaVersion",
    "check_key",
    "distinct",
    "from_text",
    "normal",
    "normal_type",
    "resolve",
    "to_text",
    "widened",
]

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}  # of an integer of so many bits
_MOST_DIGITS = 38  # of a decimal that every format holds


@dataclass(frozen=True)
class SchemaVersion:
    """The schema of some files."""

    schema: Any  # pa.Schema, of normal types
    path: str  # one of the files
    typed: bool = True  # False: delimited text, where each field takes the type that others give it
    partial: bool = False  # delete files, which may have the fields of the ID alone
    defaults: Mapping[str, Any] = field(default_factory=dict)  # what others get where they lack a field: pa.Scalar


@dataclass(frozen=True)
class ResolvedSchema:
    """The schema of a result, and what is told of the way to it."""

    schema: Any
    defaults: Mapping[str, Any]  # for rows that lack a field: pa.Scalar of the field's type
    notes: tuple[str, ...]


def normal_type(kind: Any) -> Any:
    """Return the type that values of a type are held in, None for none: no dictionaries, views and 64-bit offsets."""
    if isinstance(kind, pa.BaseExtensionType):
        return normal_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return normal_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_decimal(kind):  # from 32 bits on in some files; a decimal is as wide as it must be
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _MOST_DIGITS else None
    if pa.types.is_struct(kind):
        parts = [(one, normal_type(one.type)) for one in kind]
        return None if any(part is None for _, part in parts) else pa.struct([one.with_type(t) for one, t in parts])
    if pa.types.is_map(kind):
        key, item = normal_type(kind.key_type), normal_type(kind.item_type)
        if key is None or item is None:
            return None
        return pa.map_(kind.key_field.with_type(key), kind.item_field.with_type(item))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        value = normal_type(kind.value_type)
        return None if value is None else pa.list_(kind.value_field.with_type(value))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind) or pa.types.is_union(kind):
        return None
    if pa.types.is_interval(kind):
        return None
    return kind


def normal(schema: Any, path: str) -> Any:
    """Return a schema of normal types; raises DataError for a field that cannot be held, and for two of one name."""
    fields = []
    for one in schema:
        kind = normal_type(one.type)
        if kind is None:
            raise error(
                "schema.field", path=path, field=one.name, what=f"is of type {one.type}, which is not read here"
            )
        fields.append(pa.field(one.name, kind, one.nullable))
    return distinct(pa.schema(fields), path)


def distinct(schema: Any, path: str) -> Any:
    """Return a schema as it is; raises DataError for two fields of one name."""
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise error("schema.field", path=path, field=name, what="stands in it twice")
    return schema


def to_text(schema: Any) -> dict[str, Any]:
    """Write a schema for a manifest: for people, and exactly."""
    fields = [f"{one.name} {one.type}{'' if one.nullable else ' not null'}" for one in schema]
    return {"fields": fields, "arrow": base64.b64encode(schema.serialize()).decode()}


def from_text(text: Mapping[str, Any]) -> Any:
    """Read what ``to_text`` wrote. Raises ValueError or ArrowException."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text["arrow"], validate=True)))


def check_key(version: SchemaVersion, names: Sequence[str]) -> None:
    """Raise DataError where fields are missing in a file's schema; the message has the nearest name."""
    for name in names:
        if version.schema.get_field_index(name) < 0:
            if f"/{name}=" in posixpath.dirname(version.path):
                raise error("schema.directory", path=version.path, field=name)
            near = difflib.get_close_matches(name.lower(), [one.lower() for one in version.schema.names], n=1)
            meant = next((one for one in version.schema.names if near and one.lower() == near[0]), None)
            what = "is missing" + (
                f"; did you mean {meant}?" if meant else f" (it has {', '.join(version.schema.names)})"
            )
            raise error("schema.field", path=version.path, field=name, what=what)


def widened(one: Any, other: Any) -> Any:
    """Return the type that holds all values of two types; None where there is none.

    >>> widened(pa.int32(), pa.int64()), widened(pa.int32(), pa.decimal128(5, 2)), widened(pa.int64(), pa.string())
    (DataType(int64), Decimal128Type(decimal128(12, 2)), None)
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    types = pa.types
    if types.is_integer(one) and types.is_integer(other):
        return _integer(one, other)
    if types.is_floating(one) and types.is_floating(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    numbers = [_as_decimal(kind) for kind in (one, other)]
    if None not in numbers:
        scale = max(kind.scale for kind in numbers)
        digits = max(kind.precision - kind.scale for kind in numbers)
        return pa.decimal128(digits + scale, scale) if digits + scale <= _MOST_DIGITS else None
    if types.is_timestamp(one) and types.is_timestamp(other):
        finer = max(one.unit, other.unit, key=list(TICKS).index)
        if one.tz is None or other.tz is None:
            return pa.timestamp(finer) if one.tz == other.tz else None
        # A zone is how moments are shown, and only Arrow's own schema keeps any but UTC.
        return pa.timestamp(finer, one.tz if one.tz == other.tz else "UTC")
    for date, time in ((one, other), (other, one)):
        if types.is_date(date) and types.is_timestamp(time):
            return time
    return _with_nulls(one, other)


def _with_nulls(one: Any, other: Any) -> Any:
    """Return the type of two that differ in where NULL may be within lists, maps and structs; None for others."""
    types = pa.types

    def both(left: Any, right: Any) -> Any:
        kind = left.type if left.type == right.type else _with_nulls(left.type, right.type)
        return None if kind is None else left.with_type(kind).with_nullable(left.nullable or right.nullable)

    if types.is_struct(one) and types.is_struct(other):
        if [field.name for field in one] != [field.name for field in other]:
            return None
        parts = [both(left, right) for left, right in zip(one, other, strict=True)]
        return None if any(part is None for part in parts) else pa.struct(parts)
    if types.is_map(one) and types.is_map(other):
        item = both(one.item_field, other.item_field)
        return pa.map_(one.key_field, item) if item is not None and one.key_type == other.key_type else None
    if types.is_list(one) and types.is_list(other):
        value = both(one.value_field, other.value_field)
        return None if value is None else pa.list_(value)
    return None


def _integer(one: Any, other: Any) -> Any:
    signed = pa.types.is_signed_integer
    if signed(one) == signed(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    plus, minus = (one, other) if signed(other) else (other, one)
    bits = max(2 * plus.bit_width, minus.bit_width)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(bits)


def _as_decimal(kind: Any) -> Any:
    if pa.types.is_decimal(kind):
        return kind
    return pa.decimal128(_DIGITS[kind.bit_width], 0) if pa.types.is_signed_integer(kind) else None


def resolve(
    base: SchemaVersion,
    others: Sequence[SchemaVersion],
    fixed: Sequence[str],
    defaults: Mapping[str, Any],
    *,
    given: bool,
    held: Callable[[Any], Any] = lambda kind: kind,
) -> ResolvedSchema:
    """Decide the schema of a result.

    base: gives the fields and their order. others: all other files of the run, the master's first. fixed: fields of the
    ID, whose type may not change. defaults: field to a function from its type to a pa.Scalar. given: the types of the
    base are the user's, and not widened. held: returns the type that a type is written as; two that are written alike
    are one, or the next feed would not fit what was made of the last.

    Raises DataError that names field, types and files.
    """
    fields, fill = [], dict[str, Any]()
    notes = dict[tuple[str, str], list[str]]()  # before and after the names of the files that it is told of
    for one in base.schema:
        having = [other for other in others if other.schema.get_field_index(one.name) >= 0]
        lacking = [other for other in others if other.schema.get_field_index(one.name) < 0 and not other.partial]
        kind = _one_type(base, one, having, one.name in fixed, given, held)
        default = _default_of(base, one.name, kind, defaults)
        if default is not None:
            fill[one.name] = default
        nullable = one.nullable or any(other.schema.field(one.name).nullable for other in having if not given)
        if lacking and default is None and not nullable:
            if given:
                what = f"is missing in {lacking[0].path}, has no default, and may not be NULL"
                raise error("schema.field", path=base.path, field=one.name, what=what)
            nullable = True
        nullable = nullable and (given or one.name not in fixed)
        if lacking:
            with_what = "NULL" if default is None else shown(default)
            notes[f"field {one.name} is new in {base_name(base.path)}; rows without it get {with_what}", ""] = []
        for other in having:
            before = other.schema.field(one.name).type
            if other.typed and before != kind:
                note = (f"field {one.name} is widened from {before} (", f") to {kind}")
                notes.setdefault(note, []).append(base_name(other.path))
        fields.append(pa.field(one.name, kind, nullable))
    names = {one.name for one in fields}
    for other in others:
        gone = [name for name in other.schema.names if name not in names]
        if gone:
            note = (f"left out, as {base_name(base.path)} has no such fields: {', '.join(gone)} (of ", ")")
            notes.setdefault(note, []).append(base_name(other.path))
    told = tuple(before + first_few(files, 1) + after for (before, after), files in notes.items())
    return ResolvedSchema(pa.schema(fields), fill, told)


def shown(value: Any) -> str:
    """Write a scalar for a message; Python has no nanoseconds, and no year beyond 9999."""
    return str(value.cast(pa.string()) if pa.types.is_temporal(value.type) else value)


def _one_type(
    base: SchemaVersion, one: Any, having: Sequence[SchemaVersion], fixed: bool, given: bool, held: Any
) -> Any:
    kind, path = (one.type, base.path) if base.typed else (None, base.path)
    for other in having:
        if not other.typed:
            continue
        now = other.schema.field(one.name).type
        if kind is None:
            kind, path = now, other.path
            continue
        wider = widened(kind, now) or widened(held(kind), held(now))
        alike = held(kind) == held(now)
        other_key = fixed and not alike
        if wider is None or other_key or (given and wider != kind and not alike):
            why = "a field of the ID keeps its type" if wider is not None else "no type holds both"
            if given and wider is not None and not other_key:
                why = f"{now} does not fit into {kind}"
            raise error("schema.type", field=one.name, one=kind, path=path, other=now, other_path=other.path, why=why)
        if wider != kind and not given:
            kind, path = wider, other.path
    return one.type if kind is None else kind


def _default_of(base: SchemaVersion, name: str, kind: Any, defaults: Mapping[str, Any]) -> Any:
    if name in defaults:
        return defaults[name](kind)
    default = base.defaults.get(name)
    return None if default is None or not default.is_valid else default.cast(kind)
