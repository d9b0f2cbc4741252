"""Plan a run whose files are all Avro: the result's schema, and the resolution of each other schema to it.

Types that encode alike are one type, under any name. Else a field gets the type that ``schema_evolution`` finds for
the Arrow types of both.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mutator.dataset.partition_index import IN_PATH
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.avro_resolution import resolve, without
from mutator.formats.blocks.avro_rows import AvroLayout
from mutator.formats.content import NotReadable
from mutator.formats.files.avro import default_of
from mutator.formats.files.avro_container import AvroOutput
from mutator.formats.files.avro_schema import avro_type, collapsed, comparable_field, encoding, expanded, is_opaque
from mutator.plan.inspect.source import Source
from mutator.plan.rows.result_schema import SchemaRun, name_layouts, resolve_schema, result_rows
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.rows.run_fields import rewrite_notes
from mutator.rules.schema_evolution import SchemaVersion


@dataclass(frozen=True)
class _File:
    """The schema of a file."""

    avro: Mapping[str, Any]  # expanded
    version: SchemaVersion  # of Arrow types, with stand-ins for opaque ones

    @property
    def path(self) -> str:
        return self.version.path

    @property
    def fields(self) -> dict[str, Mapping[str, Any]]:
        return {field["name"]: field for field in self.avro["fields"]}


def avro_row_plan(run: SchemaRun, codec: str | None) -> RowPlan:
    """Decide the result's schema and the layouts of all files.

    The versions of the run are replaced by versions with comparable types for what Arrow cannot store.
    """
    survey, fields = run.survey, run.fields
    files = _files(run)
    if survey.output_schema is not None:
        path, file_schema = survey.output_schema
        base = _file(path, file_schema.native, False)
    else:
        base = next(file for file in files if file.path == run.base.path)
        if run.asked.ops.absent:
            base = _with_fields(base, files, run.base.schema.names)
    run = replace(run, base=base.version, versions=tuple(file.version for file in files))
    found = resolve_schema(run, promoted=True)
    rows = result_rows(run, found.schema, "avro")
    result = _result(base, found.schema, fields.cut)
    _check_symbols(base, files, result)
    master = AvroLayout(
        fields=(),
        id_fields=fields.ids,
        resolution=None,
        feed=False,
        record=None if rows.scope is None else result,
        **rows.rules(run),
    )
    layouts = {
        "master": master,
        "feed": replace(master, **rows.feed_rules(run, found.defaults)),
        "written": replace(master, record=result),
    }
    files_by_path = {file.path: file for file in files}

    def layout_of(side: str, source: Source, rules: dict[str, Any]) -> AvroLayout:
        file = files_by_path[source.path]
        names = dict.fromkeys([*fields.needed(deletes=False), *rules["envelope"].fields])
        unset = rules.get("unset")
        names |= {} if unset is None or unset.listing is None else {unset.listing: None}
        nulls = () if unset is None else unset.nulls
        decoded = tuple(file.fields[name] for name in names if name in file.fields)
        in_path = [name for name, _ in source.in_path]
        resolution = resolve(without(file.avro, in_path), result, found.defaults)
        return replace(
            layouts[side],
            fields=decoded,
            resolution=resolution,
            path_fields=_path_fields(result, in_path),
            tested=tuple(field for name, field in file.fields.items() if name in nulls),
            **rules,
        )

    layout_names = name_layouts(run, layouts, layout_of)
    spec = rows.spec(run, "avro", collapsed(result))
    known = survey.state
    same = known is not None and all(known.spec.get(name) == spec.get(name) for name in ("format", "schema", IN_PATH))
    return RowPlan(
        block_type="avro",
        layouts=layouts,
        output=AvroOutput(result, codec, in_path=rows.partitioning.in_path),
        spec=spec,
        order_type=rows.order_type,
        layout_of=layout_names,
        orders_beside=run.asked.order.position,
        carries=same,
        whole=True,
        partitioning=rows.partitioning,
        scope=rows.scope,
        notes=(*found.notes, *rewrite_notes(known is not None and not same and not survey.partitioned)),
    )


def stored_avro_layout(native: Mapping[str, Any], ids: tuple[str, ...], rules: Mapping[str, Any]) -> AvroLayout:
    """Return the layout of a dataset's files. rules: arguments for ``RowRules``."""
    record = expanded(native)
    fields = {field["name"]: field for field in record["fields"]}
    sources = (str(one.source) for one in rules["partition"])
    names = dict.fromkeys([*ids, *(path[0] for path in rules["order_fields"]), *sources])
    decoded, in_path = tuple(fields[name] for name in names), rules["in_path"]
    return AvroLayout(
        fields=decoded,
        id_fields=ids,
        resolution=resolve(without(record, in_path), record, {}),
        record=record,
        path_fields=_path_fields(record, in_path),
        **rules,
    )


def _path_fields(record: Mapping[str, Any], in_path: Collection[str]) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    return tuple((position, one) for position, one in enumerate(record["fields"]) if one["name"] in in_path)


def _files(run: SchemaRun) -> list[_File]:
    survey, found = run.survey, []
    partial = {version.path for version in run.versions if version.partial}
    for _, source in run.sources:
        assert source.file_schema is not None
        try:
            found.append(_file(source.path, source.file_schema.native, source.path in partial))
        except NotReadable as fault:
            raise error("damaged", path=source.path, why=fault) from None
    samples_only = not survey.master or survey.partitioned is not None  # the manifest has the master's schema
    if survey.state is not None and samples_only and survey.dataset_schema is not None:
        found.insert(0, _file(survey.master_path, survey.dataset_schema.native, False))
    return found


def _file(path: str, native: Mapping[str, Any], is_partial: bool) -> _File:
    avro = expanded(native)
    fields = avro["fields"]
    defaults = {field["name"]: default for field in fields if (default := _default(field)) is not None}
    schema = pa.schema([comparable_field(field) for field in fields])
    return _File(avro, SchemaVersion(schema, path, True, is_partial, defaults))


def _with_fields(base: _File, files: Sequence[_File], names: Sequence[str]) -> _File:
    """Return a schema with these fields, which the base may lack; others have them, the last ones are the newest."""
    found = {name: field for file in (*files, base) for name, field in file.fields.items()}
    return _file(base.path, {**base.avro, "fields": [found[name] for name in names]}, base.version.partial)


def _default(field: Mapping[str, Any]) -> Any:
    """Return the default of a field as a pa.Scalar; for an opaque field, a scalar that only marks that it has one."""
    if field.get("default") is None or not is_opaque(field):
        return default_of(field)
    stand_in = comparable_field(field).type
    return pa.scalar({stand_in.field(0).name: None}, stand_in)


def _result(base: _File, schema: Any, cut: Collection[str]) -> dict[str, Any]:
    """Return the Avro schema of the result, with the base's types where they hold all values. cut: other fields."""
    of_records = (field for field in base.avro["fields"] if field["name"] not in cut)
    fields = (_result_field(field, schema.field(field["name"])) for field in of_records)
    return {**base.avro, "fields": list(fields)}


def _result_field(field: Mapping[str, Any], arrow: Any) -> dict[str, Any]:
    own, avro = comparable_field(field), field["type"]
    if own.type != arrow.type:
        avro = avro_type(arrow)
    elif arrow.nullable and not own.nullable:
        avro = [*avro, "null"] if isinstance(avro, list) else ["null", avro]
    made = {**field, "type": avro}
    gains_branch = isinstance(avro, list) and avro[:-1] == field["type"]
    if avro != field["type"] and not gains_branch:  # the default may not be of the new type
        made.pop("default", None)
    return made


def _check_symbols(base: _File, files: Sequence[_File], result: Mapping[str, Any]) -> None:
    """Raise DataError where an enum of a file has symbols that the result's, which are the base's, lack."""
    for target in result["fields"]:
        for file in files:
            field = file.fields.get(target["name"])
            if field is not None and not _has_symbols(field["type"], target["type"]):
                shown = [json.dumps(collapsed(avro)) for avro in (target["type"], field["type"])]
                raise error(
                    "schema.type",
                    field=target["name"],
                    one=shown[0],
                    path=base.path,
                    other_type=shown[1],
                    other_path=file.path,
                    why="the first has not all symbols of the other",
                )


def _has_symbols(own: Any, target: Any) -> bool:
    """Return whether the enums in a target type have all symbols of those in a type of the same shape."""
    if encoding(own) == encoding(target):
        return True
    own, target = _non_null(own), _non_null(target)
    if not isinstance(target, dict):
        return True
    if target["type"] == "enum":
        return isinstance(own, dict) and own["type"] == "enum" and set(own["symbols"]) <= set(target["symbols"])
    if not isinstance(own, dict) or own["type"] != target["type"]:
        return True
    parts = [(own[name], target[name]) for name in ("items", "values") if name in target]
    fields = {field["name"]: field["type"] for field in own.get("fields", ())}
    wanted = {field["name"]: field["type"] for field in target.get("fields", ())}
    parts += [(fields[name], wanted[name]) for name in fields.keys() & wanted.keys()]
    return all(_has_symbols(*pair) for pair in parts)


def _non_null(avro: Any) -> Any:
    """Return the one type that a union has beside "null"; None for a union of more, which is never converted."""
    others = [branch for branch in avro if branch != "null"] if isinstance(avro, list) else [avro]
    return others[0] if len(others) == 1 else None
