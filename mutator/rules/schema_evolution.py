"""The schema that a run writes, from the schemas of its files: decided once, on the driver.

The result has the fields of one schema, the newest feed file's or a given one. Fields that other files lack get a
default or NULL, fields that only others have are left out, and a field of several types gets the type that fits all of
them: int, long, decimal; float, double; date, timestamp; a unit of time and a finer one. Members of structs and
elements of lists and maps follow the same rules, but none is left out. Nothing else is guessed.
"""

import base64
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from mutator.errors import error
from mutator.errors.display import nearest_word
from mutator.errors.parts import place
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.file_names import base_name, first_few
from mutator.rules.timestamps import TICKS

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}  # bits of an integer to its decimal digits
DEFAULT_OF_MEMBER = b"default"  # in the metadata of a struct's member: JSON, as Avro writes the default of its type
_MOST_DIGITS = 38  # of a decimal that every format can store


@dataclass(frozen=True)
class SchemaVersion:
    """The schema of some files."""

    schema: Any  # pa.Schema, of normal types
    path: str  # one of the files
    typed: bool = True  # False: delimited text, where each field gets the type that it has in other files
    partial: bool = False  # delete files, which may have only the ID fields; headers without rows
    defaults: Mapping[str, Any] = field(default_factory=dict)  # for files that lack a field: pa.Scalar


@dataclass(frozen=True)
class ResolvedSchema:
    """The schema of a result, the defaults of its fields, and notes for the report."""

    schema: Any
    defaults: Mapping[str, Any]  # for rows that lack a field: pa.Scalar of the field's type
    notes: tuple[str, ...]


def normal_type(data_type: Any) -> Any:
    """Return the type in which values are kept, without dictionaries, views and 64-bit offsets; None for no such type.

    >>> normal_type(pa.large_string()), normal_type(pa.dictionary(pa.int8(), pa.string()))
    (DataType(string), DataType(string))
    """
    if isinstance(data_type, pa.BaseExtensionType):
        return normal_type(data_type.storage_type)
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return normal_type(data_type.value_type)
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_large_binary(data_type) or pa.types.is_binary_view(data_type):
        return pa.binary()
    if pa.types.is_date64(data_type):
        return pa.date32()
    if pa.types.is_decimal(data_type):  # some files have 32 bits
        return pa.decimal128(data_type.precision, data_type.scale) if data_type.precision <= _MOST_DIGITS else None
    if pa.types.is_struct(data_type):
        parts = [(one, normal_type(one.type)) for one in data_type]
        return None if any(part is None for _, part in parts) else pa.struct([one.with_type(t) for one, t in parts])
    if pa.types.is_map(data_type):
        key, item = normal_type(data_type.key_type), normal_type(data_type.item_type)
        if key is None or item is None:
            return None
        return pa.map_(data_type.key_field.with_type(key), data_type.item_field.with_type(item))
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type):
        value = normal_type(data_type.value_type)
        return None if value is None else pa.list_(data_type.value_field.with_type(value))
    if pa.types.is_list_view(data_type) or pa.types.is_large_list_view(data_type) or pa.types.is_union(data_type):
        return None
    if pa.types.is_interval(data_type):
        return None
    return data_type


def normal(schema: Any, path: str) -> Any:
    """Return a schema of normal types. Raises DataError for types without one, and for two fields of one name.

    >>> normal(pa.schema({"id": pa.large_string()}), "a.parquet").field("id").type
    DataType(string)
    """
    fields = []
    for one in schema:
        data_type = normal_type(one.type)
        if data_type is None:
            raise error(
                "schema.field", path=path, field=one.name, what=f"is of type {one.type}, which is not read here"
            )
        fields.append(pa.field(one.name, data_type, one.nullable))
    return distinct(pa.schema(fields), path)


def distinct(schema: Any, path: str) -> Any:
    """Return the schema as it is. Raises DataError for two fields of one name.

    >>> distinct(pa.schema({"id": pa.string()}), "a.parquet").names
    ['id']
    """
    for name, count in Counter(schema.names).items():
        if count > 1:
            raise error("schema.field", path=path, field=name, what="is in the schema twice")
    return schema


def to_text(schema: Any) -> dict[str, Any]:
    """Write a schema for a manifest, once for people and once exactly.

    >>> to_text(pa.schema({"id": pa.string()}))["fields"]
    ['id string']
    """
    fields = [f"{one.name} {one.type}{'' if one.nullable else ' not null'}" for one in schema]
    return {"fields": fields, "arrow": base64.b64encode(schema.serialize()).decode()}


def from_text(text: Mapping[str, Any]) -> Any:
    """Read a schema that ``to_text`` wrote. Raises ValueError or ArrowException.

    >>> from_text(to_text(pa.schema({"id": pa.string()}))).names
    ['id']
    """
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text["arrow"], validate=True)))


def check_key(version: SchemaVersion, names: Sequence[str]) -> None:
    """Raise DataError if the schema of a file lacks one of the fields; the message has the nearest name.

    >>> check_key(SchemaVersion(pa.schema({"id": pa.string()}), "a.parquet"), ["id"])
    """
    for name in names:
        if version.schema.get_field_index(name) < 0:
            near = nearest(name, version.schema.names)
            what = f"; did you mean {near}?" if near else f" (it has {', '.join(version.schema.names)})"
            raise error("schema.field", path=version.path, field=name, what=f"is missing{what}")


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most like another, whatever the case of its letters; None if all others differ.

    >>> nearest("noet", ["id", "Note"])
    'Note'
    """
    near = nearest_word(name.lower(), (one.lower() for one in known))
    return next((one for one in known if one.lower() == near), None)


def widened(one: Any, other: Any, *, promoted: bool = False) -> Any:
    """Return the type that fits all values of two types; None if no type does.

    promoted: integers beside floating-point numbers become these, as Avro promotes them; those beyond 2^53 do not fit.

    >>> widened(pa.int32(), pa.int64()), widened(pa.int32(), pa.decimal128(5, 2)), widened(pa.int64(), pa.string())
    (DataType(int64), Decimal128Type(decimal128(12, 2)), None)
    """
    types = pa.types
    if types.is_nested(one) and types.is_nested(other):  # equal ones may have other defaults of members
        return _nested(one, other, promoted)
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_integer(one) and types.is_integer(other):
        return _integer(one, other)
    if types.is_floating(one) and types.is_floating(other):
        return max(one, other, key=lambda data_type: data_type.bit_width)
    if promoted and _is_whole_beside_real(one, other):
        return pa.float64()
    numbers = [_as_decimal(data_type) for data_type in (one, other)]
    if None not in numbers:
        scale = max(data_type.scale for data_type in numbers)
        digits = max(data_type.precision - data_type.scale for data_type in numbers)
        return pa.decimal128(digits + scale, scale) if digits + scale <= _MOST_DIGITS else None
    if types.is_timestamp(one) and types.is_timestamp(other):
        finer = max(one.unit, other.unit, key=list(TICKS).index)
        if one.tz is None or other.tz is None:
            return pa.timestamp(finer) if one.tz == other.tz else None
        # A zone only says how to show times, and only Arrow's own schema keeps one other than UTC.
        return pa.timestamp(finer, one.tz if one.tz == other.tz else "UTC")
    for date, time in ((one, other), (other, one)):
        if types.is_date(date) and types.is_timestamp(time):
            return time
    return _finer(one, other)


def why_not(one: Any, other: Any) -> str:
    """Return why no type fits all values of two types.

    >>> why_not(pa.int64(), pa.float64())
    'no type fits both (a double has whole numbers exactly only up to 2^53)'
    """
    for whole, real in ((one, other), (other, one)):
        if pa.types.is_integer(whole) and pa.types.is_floating(real):
            digits = {16: 11, 32: 24, 64: 53}[real.bit_width]
            return f"no type fits both (a {real} has whole numbers exactly only up to 2^{digits})"
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and (one.tz is None) != (other.tz is None):
        return "no type fits both (one has instants, the other local times without a zone)"
    return "no type fits both"


def _is_whole_beside_real(one: Any, other: Any) -> bool:
    whole, real = pa.types.is_integer, pa.types.is_floating
    return bool((whole(one) and real(other)) or (real(one) and whole(other)))


def _finer(one: Any, other: Any) -> Any:
    """Return the type of two times of day, or two durations, with the finer of their units; None for other types."""
    finer = max((each.unit for each in (one, other) if hasattr(each, "unit")), key=list(TICKS).index, default=None)
    if pa.types.is_time(one) and pa.types.is_time(other):
        return pa.time32(finer) if finer in ("s", "ms") else pa.time64(finer)
    return pa.duration(finer) if pa.types.is_duration(one) and pa.types.is_duration(other) else None


def _nested(one: Any, other: Any, promoted: bool) -> Any:
    """Return the type that fits all values of two lists, maps or structs; None if no type does.

    A struct gets the members of both, in the order of the first; two without any common member are different things.
    """
    types = pa.types

    def both(left: Any, right: Any) -> Any:
        data_type = widened(left.type, right.type, promoted=promoted)
        if data_type is None:
            return None
        part = left if DEFAULT_OF_MEMBER in (left.metadata or {}) else left.with_metadata(right.metadata)
        return part.with_type(data_type).with_nullable(left.nullable or right.nullable)

    if types.is_struct(one) and types.is_struct(other):
        members = [{part.name: part for part in data_type} for data_type in (one, other)]
        if not members[0].keys() & members[1].keys() or any(
            len(parts) < data_type.num_fields for parts, data_type in zip(members, (one, other), strict=True)
        ):
            return one if one == other else None
        first, second = members
        parts = [both(part, second[name]) if name in second else _missing(part) for name, part in first.items()]
        parts += [_missing(part) for name, part in second.items() if name not in first]
        return None if any(part is None for part in parts) else pa.struct(parts)
    if types.is_map(one) and types.is_map(other):
        item = both(one.item_field, other.item_field)
        return pa.map_(one.key_field, item) if item is not None and one.key_type == other.key_type else None
    if types.is_list(one) and types.is_list(other):
        value = both(one.value_field, other.value_field)
        return None if value is None else pa.list_(value)
    return None


def _missing(member: Any) -> Any:
    """Return a member of a struct that some rows lack: they have NULL, or its default."""
    return member if DEFAULT_OF_MEMBER in (member.metadata or {}) else member.with_nullable(True)


def _integer(one: Any, other: Any) -> Any:
    signed = pa.types.is_signed_integer
    if signed(one) == signed(other):
        return max(one, other, key=lambda data_type: data_type.bit_width)
    plus, minus = (one, other) if signed(other) else (other, one)
    bits = max(2 * plus.bit_width, minus.bit_width)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(bits)


def _as_decimal(data_type: Any) -> Any:
    if pa.types.is_decimal(data_type):
        return data_type
    return pa.decimal128(_DIGITS[data_type.bit_width], 0) if pa.types.is_signed_integer(data_type) else None


def resolve(
    base: SchemaVersion,
    others: Sequence[SchemaVersion],
    fixed: Sequence[str],
    defaults: Mapping[str, Any],
    *,
    given: bool,
    stored_as: Callable[[Any], Any] = lambda data_type: data_type,
    promoted: bool = False,
) -> ResolvedSchema:
    """Return the schema of a result. Raises DataError that names field, types and files.

    base: gives the fields and their order. others: all other files of the run, the master's first. fixed: ID fields,
    whose type may not change. defaults: field to a function from its type to a pa.Scalar. given: the types of the base
    are the user's, and not widened. stored_as: returns the type as which a type is written; two types that are written
    alike count as one, or the next feed would not fit the output of this run. promoted: as for ``widened``.

    >>> base = SchemaVersion(pa.schema({"id": pa.int32(), "price": pa.int64()}), "ups_2.parquet")
    >>> older = SchemaVersion(pa.schema({"id": pa.int32()}), "ups_1.parquet")
    >>> resolve(base, [older], ["id"], {}, given=False).notes
    ('field price is new in ups_2.parquet; rows without it get NULL',)
    """
    fields, fill = [], dict[str, Any]()
    notes = dict[tuple[str, str], list[str]]()  # the text before and after the names of files, to these names
    for column in base.schema:
        having = [other for other in others if other.schema.get_field_index(column.name) >= 0]
        lacking = [other for other in others if other.schema.get_field_index(column.name) < 0 and not other.partial]
        data_type = _data_type(base, column, having, column.name in fixed, given, stored_as, promoted)
        default = _default_of(base, column.name, data_type, defaults)
        if default is not None:
            fill[column.name] = default
        if lacking:
            filler = "NULL" if default is None else shown(default)
            is_of_others = any(other.path == base.path for other in lacking)  # the base has those of several files
            path = having[0].path if is_of_others and having else base.path
            notes[f"field {column.name} is new in {base_name(path)}; rows without it get {filler}", ""] = []
        for other in having:
            before = other.schema.field(column.name).type
            if other.typed and before not in (data_type, stored_as(data_type)):
                note = (f"field {column.name} is widened from {before} (", f") to {data_type}")
                notes.setdefault(note, []).append(base_name(other.path))
        nullable = _is_nullable(base, column, having, lacking if default is None else [], given)
        fields.append(pa.field(column.name, data_type, nullable and (given or column.name not in fixed)))
    own = set(base.schema.names)
    for other in others:
        dropped = [name for name in other.schema.names if name not in own]
        if dropped:
            note = (f"left out, as {base_name(base.path)} has no such fields: {', '.join(dropped)} (of ", ")")
            notes.setdefault(note, []).append(base_name(other.path))
    texts = tuple(before + first_few(files, 1) + after for (before, after), files in notes.items())
    return ResolvedSchema(pa.schema(fields), fill, texts)


def _is_nullable(
    base: SchemaVersion, field: Any, having: Sequence[SchemaVersion], lacking: Sequence[SchemaVersion], given: bool
) -> bool:
    """Return whether a field may be NULL. lacking: files without it, if it has no default."""
    if field.nullable or (not given and any(other.schema.field(field.name).nullable for other in having)):
        return True
    if lacking and given:
        what = f"is missing in {place(lacking[0].path)}, has no default, and may not be NULL"
        raise error("schema.field", path=base.path, field=field.name, what=what)
    return bool(lacking)


def shown(value: Any) -> str:
    """Write a scalar for a message; Python itself has no nanoseconds, and no year after 9999.

    >>> shown(pa.scalar(7))
    '7'
    """
    return str(value.cast(pa.string()) if pa.types.is_temporal(value.type) else value)


def _data_type(
    base: SchemaVersion,
    field: Any,
    having: Sequence[SchemaVersion],
    fixed: bool,
    given: bool,
    stored_as: Any,
    promoted: bool,
) -> Any:
    """Return the type of a field in the result. Raises DataError if no type fits."""
    found, path = (field.type, base.path) if base.typed else (None, base.path)
    for other in having:
        if not other.typed:
            continue
        now = other.schema.field(field.name).type
        if found is None:
            found, path = now, other.path
            continue
        wider = widened(found, now, promoted=promoted)
        wider = wider or widened(stored_as(found), stored_as(now), promoted=promoted)
        alike = stored_as(found) == stored_as(now)
        other_key = fixed and not alike
        if wider is None or other_key or (given and wider != found and not alike):
            why = "a field of the ID keeps its type" if wider is not None else why_not(found, now)
            if given and wider is not None and not other_key:
                why = f"{now} does not fit into {found}"
            raise error(
                "schema.type", field=field.name, one=found, path=path, other_type=now, other_path=other.path, why=why
            )
        if not given:
            found, path = wider, path if wider == found else other.path
    return field.type if found is None else found


def _default_of(base: SchemaVersion, name: str, data_type: Any, defaults: Mapping[str, Any]) -> Any:
    if name in defaults:
        return defaults[name](data_type)
    default = base.defaults.get(name)
    return None if default is None or not default.is_valid else default.cast(data_type)
