"""A run in which all files are Avro: the result's schema, and how the records of each other schema become it.

Types that encode alike are one type, by whatever name. Else a field gets the type that ``schema_evolution`` finds for
the Arrow types of both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.dataset.partition_index import SPEC
from mutator.errors import error
from mutator.formats.blocks.avro_rows import AvroLayout, AvroOutput, Piece
from mutator.formats.content import NotReadable
from mutator.formats.files.avro import default_of, encoded, encoded_default
from mutator.formats.files.avro_schema import arrow_field, avro_type, collapsed, encoding, expanded
from mutator.plan.inspect.survey import Source, Survey
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.rows.run_fields import (
    RunFields,
    check_key_types,
    check_op_type,
    defaults_spec,
    key_type_names,
    layout_name,
    named_partitioning,
    notes_on_defaults,
    order_spec,
    order_type_of,
    parse_default,
    rewrite_notes,
    schema_sequence_spec,
)
from mutator.plan.rows.text_rows import is_delete_source
from mutator.rules import schema_evolution as schemas
from mutator.rules.partition_transforms import PartitionField
from mutator.rules.schema_evolution import Version

__all__ = ["avro_layout_of", "avro_row_plan"]


@dataclass(frozen=True)
class _File:
    """The schema of some files."""

    path: str
    avro: Mapping[str, Any]  # expanded
    partial: bool

    @property
    def fields(self) -> dict[str, Mapping[str, Any]]:
        return {one["name"]: one for one in self.avro["fields"]}

    def version(self, op: str | None) -> Version:
        kinds = [_arrow(one) for one in self.avro["fields"] if one["name"] != op]
        defaults = {one["name"]: default for one in self.avro["fields"] if (default := _default(one)) is not None}
        return Version(pa.schema(kinds), self.path, True, self.partial, defaults)


def avro_row_plan(config: Config, survey: Survey, fields: RunFields, codec: str | None, base_path: str) -> RowPlan:
    """Decide the result's schema and the layouts of all files."""
    files = _files(config, survey)
    base = next((one for one in files if one.path == base_path), None)
    if survey.output_schema is not None:
        path, file_schema = survey.output_schema
        base = _File(path, expanded(file_schema.native), False)
    assert base is not None
    needed = fields.needed(deletes=False)
    for one in files:
        schemas.check_key(one.version(None), fields.needed(deletes=one.partial))
    op = None if config.op_keep else fields.op
    versions = [one.version(op) for one in files if one is not base]
    defaults = {name: partial(parse_default, name, text) for name, text in config.defaults.items()}
    unused = notes_on_defaults(config, [base.version(op), *versions])
    found = schemas.resolve(base.version(op), versions, fields.ids, defaults, given=survey.output_schema is not None)
    check_key_types(found.schema, fields, base.path)
    partitioning = named_partitioning(found.schema, fields, base.path)
    order_type = order_type_of(config, found.schema, fields, base.path)
    result = _result(base, files, found.schema, op)
    _check_symbols(base, files, result)
    fill = _fill(result, found.defaults)
    layouts: dict[str, Any] = {}
    layout_of: dict[str, str] = {}
    common: dict[str, Any] = {
        "id_names": fields.ids,
        "order_name": fields.order,
        "order_type": order_type,
        "null_lowest": config.null_order == "lowest",
        "delete_codes": config.delete_codes,
        "partition": fields.partition,
        "placed": fields.scope == "partition",
    }
    layouts["master"] = AvroLayout(fields=(), pieces=None, feed=False, **common)
    layouts["feed"] = AvroLayout(fields=(), pieces=None, feed=True, **common)
    layouts["written"] = replace(layouts["master"], record=result)
    by_path = {one.path: one for one in files}
    for side, sources in (("master", survey.master), ("feed", survey.feed)):
        for source in sources:
            if source.path not in by_path:
                continue
            file = by_path[source.path]
            has_op = fields.op if fields.op in file.fields else None
            if side == "feed" and fields.op is not None and has_op is None:
                schemas.check_key(file.version(None), [fields.op])
            if has_op is not None:
                check_op_type(_arrow(file.fields[has_op]).type, has_op, file.path)
            names = dict.fromkeys([*needed, *([has_op] if has_op is not None else [])])
            layout = AvroLayout(
                fields=tuple(file.fields[name] for name in names if name in file.fields),
                pieces=_pieces(file, result),
                fill=fill,
                op_field=has_op,
                deletes=side == "feed" and is_delete_source(config, source),
                deletes_allowed=side == "feed",
                upsert_codes=config.upsert_codes if side == "feed" else None,
                feed=side == "feed",
                **common,
            )
            layout_of[source.path] = layout_name(layouts, side, layout)
    spec = {
        "key": {"fields": list(fields.ids), "types": key_type_names(found.schema, fields.ids)},
        "order": order_spec(config, fields, order_type),
        "op code": fields.op if config.op_keep else None,
        "format": "avro",
        "schema": collapsed(result),
    }
    spec |= schema_sequence_spec(config, survey)
    spec |= {} if partitioning is None else {SPEC: partitioning.spec(), **defaults_spec(config, found.schema)}
    known = survey.manifest
    same = known is not None and known.spec["format"] == "avro" and known.spec["schema"] == spec["schema"]
    return RowPlan(
        block_type="avro",
        layouts=layouts,
        output=AvroOutput(result, codec),
        spec=spec,
        order_type=order_type,
        layout_of=layout_of,
        carries=same,
        whole=True,
        partitioning=partitioning,
        notes=(*found.notes, *unused, *rewrite_notes(known is not None and not same and not survey.partitions)),
    )


def avro_layout_of(
    native: Mapping[str, Any],
    ids: tuple[str, ...],
    order: str | None,
    order_type: str,
    null_lowest: bool,
    partition: tuple[PartitionField, ...],
) -> AvroLayout:
    """Return how files of a dataset are read."""
    record = expanded(native)
    fields = {one["name"]: one for one in record["fields"]}
    sources = (str(one.source) for one in partition)
    names = dict.fromkeys([*ids, *([order] if order is not None else []), *sources])
    return AvroLayout(
        fields=tuple(fields[name] for name in names),
        id_names=ids,
        order_name=order,
        order_type=order_type,
        pieces=None,
        null_lowest=null_lowest,
        feed=False,
        partition=partition,
        record=record,
    )


def _files(config: Config, survey: Survey) -> list[_File]:
    found = [
        _file(one, side == "feed" and is_delete_source(config, one))
        for side, sources in (("master", survey.master), ("feed", survey.feed))
        for one in sources
    ]
    no_more = not survey.master or survey.partitions is not None
    if survey.manifest is not None and no_more and survey.dataset_schema is not None:
        found.insert(0, _File(survey.master_path, expanded(survey.dataset_schema.native), False))
    return found


def _file(source: Source, is_partial: bool) -> _File:
    assert source.file_schema is not None
    try:
        return _File(source.path, expanded(source.file_schema.native), is_partial)
    except NotReadable as fault:
        raise error("damaged", path=source.path, why=fault) from None


def _default(one: Mapping[str, Any]) -> Any:
    """Return the default of a field; of one that Arrow has no type for, what says that it has one."""
    kind = _arrow(one).type
    if one.get("default") is None or not _is_opaque(one):
        return default_of(one)
    return pa.scalar({kind.field(0).name: None}, kind)


def _is_opaque(one: Mapping[str, Any]) -> bool:
    try:
        arrow_field(one)
    except NotReadable:
        return True
    return False


def _arrow(one: Mapping[str, Any]) -> Any:
    """Return the Arrow field of a field; where Arrow has none, one that is equal only to itself."""
    try:
        return arrow_field(one)
    except NotReadable:
        text = json.dumps(encoding(one["type"]), sort_keys=True)
        return pa.field(one["name"], pa.struct([pa.field(text, pa.null())]), "null" in one["type"])


def _result(base: _File, files: Sequence[_File], schema: Any, op: str | None) -> dict[str, Any]:
    """Return the Avro schema of the result: the base's types where they will do."""
    made = []
    for one in base.avro["fields"]:
        if one["name"] == op:
            continue
        arrow = schema.field(one["name"])
        own = _arrow(one)
        kind = one["type"]
        if own.type != arrow.type:
            kind = avro_type(arrow)
        elif arrow.nullable and not own.nullable:
            kind = [*kind, "null"] if isinstance(kind, list) else ["null", kind]
        field = {**one, "type": kind}
        added = isinstance(kind, list) and kind[:-1] == one["type"]
        if kind != one["type"] and "default" in field and not added:  # it may be none of the new type
            del field["default"]
        made.append(field)
    return {**base.avro, "fields": made}


def _check_symbols(base: _File, files: Sequence[_File], result: Mapping[str, Any]) -> None:
    """Raise DataError where a file's values may be none of an enum's: that of the result has the base's symbols."""
    for target in result["fields"]:
        for file in files:
            one = file.fields.get(target["name"])
            if one is not None and not _has_symbols(one["type"], target["type"]):
                shown = [json.dumps(collapsed(kind)) for kind in (target["type"], one["type"])]
                raise error(
                    "schema.type",
                    field=target["name"],
                    one=shown[0],
                    path=base.path,
                    other=shown[1],
                    other_path=file.path,
                    why="the first has not all symbols of the other",
                )


def _has_symbols(one: Any, target: Any) -> bool:
    """Tell whether the enums of a type have all that those of another one, of the same shape, can hold."""
    if encoding(one) == encoding(target):
        return True
    one, target = (_plain(kind) for kind in (one, target))
    if not isinstance(target, dict):
        return True
    if target["type"] == "enum":
        return isinstance(one, dict) and one["type"] == "enum" and set(one["symbols"]) <= set(target["symbols"])
    if not isinstance(one, dict) or one["type"] != target["type"]:
        return True
    parts = [(one[name], target[name]) for name in ("items", "values") if name in target]
    fields = zip(one.get("fields", ()), target.get("fields", ()), strict=False)
    return all(_has_symbols(*pair) for pair in (*parts, *((left["type"], right["type"]) for left, right in fields)))


def _plain(kind: Any) -> Any:
    """Return the type that a union has beside "null"; a union of more is never converted."""
    others = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
    return others[0] if len(others) == 1 else None


def _fill(result: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[int, bytes]:
    """Return the encoded value that each field has where a file lacks it."""
    found = {}
    for place, one in enumerate(result["fields"]):
        if one["name"] in defaults and _is_opaque(one):
            found[place] = encoded_default(one)
        elif one["name"] in defaults:
            found[place] = encoded(pa.repeat(defaults[one["name"]], 1), one)[0]
        elif isinstance(one["type"], list) and "null" in one["type"]:
            found[place] = _branch(one["type"].index("null"))
        elif one["type"] == "null":
            found[place] = b""
        else:
            found[place] = _empty(one)
    return found


def _empty(one: Mapping[str, Any]) -> bytes:
    """Return some value of a type: of a delete's fields, which nobody sees, and which may be no NULL."""
    kind = _arrow(one).type
    try:
        zero = pa.scalar(0, pa.int64()).cast(kind)
    except (pa.ArrowException, NotImplementedError):
        zero = None
    values: dict[Any, Any] = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}
    if zero is None and kind in values:
        zero = pa.scalar(values[kind], kind)
    try:
        return b"" if zero is None else encoded(pa.array([zero.as_py()], kind), one)[0]
    except (ValueError, TypeError, pa.ArrowException):
        return b""


def _branch(number: int) -> bytes:
    """Return a union's branch, as Avro encodes it (of up to 63 branches)."""
    return bytes([2 * number])


def _pieces(file: _File, result: Mapping[str, Any]) -> tuple[Piece, ...] | None:
    """Return what becomes of a file's fields; None where its records are such of the result."""
    wanted = {one["name"]: (place, one) for place, one in enumerate(result["fields"])}
    if encoding({**file.avro}) == encoding({**result}):
        return None
    pieces: list[Piece] = []
    for one in file.avro["fields"]:
        place, target = wanted.get(one["name"], (None, None))
        if target is None or place is None:
            piece = Piece((one,), ())
        elif encoding(one["type"]) == encoding(target["type"]) or _added_null(one["type"], target["type"]):
            piece = Piece((one,), (place,))
        elif isinstance(target["type"], list) and encoding(one["type"]) == encoding(target["type"][-1]):
            piece = Piece((one,), (place,), _branch(len(target["type"]) - 1))
        else:
            piece = Piece((one,), (place,), target=target)
        last = pieces[-1] if pieces else None
        if last is not None and _joins(last, piece):
            pieces[-1] = Piece((*last.fields, *piece.fields), (*last.places, *piece.places))
        else:
            pieces.append(piece)
    return tuple(pieces)


def _added_null(one: Any, target: Any) -> bool:
    """Tell whether a union got "null" as its last branch, which changes no other's encoding."""
    both = isinstance(one, list) and isinstance(target, list)
    return both and target[-1] == "null" and encoding(target[:-1]) == encoding(one)


def _joins(last: Piece, piece: Piece) -> bool:
    """Tell whether two neighbours in the file are such in the result, and both copied, or both left out."""
    if last.target is not None or piece.target is not None or last.prefix or piece.prefix:
        return False
    if not last.places or not piece.places:
        return not last.places and not piece.places
    return piece.places[0] == last.places[-1] + 1
