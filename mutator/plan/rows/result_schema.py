"""Decide the schema of a run's result, and the parts of its row plan that are alike for every block type."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from mutator.config.settings import OutputSpec, RowSpec
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import check_each, with_standard
from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.schema_rows import RowRules
from mutator.formats.values.row_filter import Scope
from mutator.plan.inspect.envelopes import SUBJECT, envelope_of
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.partitioning import Partitioning, with_fields_in_path
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
    schema_sequence_spec,
)
from mutator.plan.rows.snapshot_scope import scope_of
from mutator.plan.rows.unset_fields import of_file, unset_fields, with_nulls
from mutator.rules import schema_evolution as schemas
from mutator.rules.order_types import as_tuple, type_of_fields
from mutator.rules.order_values import is_tuple
from mutator.rules.schema_evolution import ResolvedSchema, SchemaVersion

Layout = TypeVar("Layout", bound=RowRules)


@dataclass(frozen=True)
class SchemaRun:
    """A run over files with a schema."""

    asked: RowSpec
    output: OutputSpec
    survey: Survey
    fields: RunFields
    base: SchemaVersion  # gives the result its fields
    versions: tuple[SchemaVersion, ...]  # one for each file that has fields

    @property
    def feed(self) -> set[str]:
        """The paths of feed files."""
        return {source.path for source in self.survey.feed}

    @property
    def sources(self) -> Iterable[tuple[str, Source]]:
        """The side of each file, and the file."""
        return [("master", one) for one in self.survey.master] + [("feed", one) for one in self.survey.feed]


@dataclass(frozen=True)
class ResultRows:
    """The rows that a run writes."""

    schema: Any  # pa.Schema
    order_type: str
    partitioning: Partitioning
    scope: Scope | None

    def rules(self, run: SchemaRun) -> dict[str, Any]:
        """Return the arguments for ``RowRules`` that all layouts share."""
        return {
            "order_type": type_of_fields(self.order_type),
            "order_fields": run.fields.orders,
            "orders_beside": run.fields.orders_beside,
            "null_lowest": run.asked.order.null == "lowest",
            "partition": self.partitioning.fields,
            "placed": self.partitioning.by_partition,
            "in_path": self.partitioning.in_path,
            "scope": self.scope,
        }

    def feed_rules(self, run: SchemaRun, defaults: Collection[str]) -> dict[str, Any]:
        """Return the arguments for ``RowRules`` of layouts of the feed, beside these. defaults: fields with one."""
        ops, fields = run.asked.ops, run.fields
        return {
            "feed": True,
            "envelope": envelope_of(ops, fields.op),
            "unset": unset_fields(ops, fields, self.schema.names, defaults),
        }

    def spec(self, run: SchemaRun, file_format: str, schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Return the specification for the manifest. schema: as the format writes it. more: of the format."""
        asked, fields = run.asked, run.fields
        return {
            "key": {"fields": list(fields.ids), "types": key_type_names(self.schema, fields.ids)},
            "order": order_spec(asked.order, fields, self.order_type),
            "op code": fields.op if asked.ops.keep else None,
            "format": file_format,
            "schema": schema,
            **schema_sequence_spec(asked.ops, run.survey, run.versions),
            **_subject(run.survey),
            **more,
            **self.partitioning.spec(),
            **(defaults_spec(run.output.defaults, self.schema) if self.partitioning.fields else {}),
        }


def _subject(survey: Survey) -> dict[str, str]:
    """Return, for the manifest, the table whose messages were merged."""
    before = None if survey.state is None else survey.state.spec.get(SUBJECT)
    named = (one.wrapped.envelope.about for one in survey.feed if one.wrapped is not None)
    about = next(filter(None, named), before)
    return {} if about is None else {SUBJECT: about}


def resolve_schema(
    run: SchemaRun, stored_as: Callable[[Any], Any] = lambda data_type: data_type, *, promoted: bool = False
) -> ResolvedSchema:
    """Decide the result's fields, types and defaults.

    stored_as: returns the pa.DataType that a type has in the files to write. promoted: integers beside floating-point
    numbers become these. Raises DataError.
    """

    def check(version: SchemaVersion) -> None:
        schemas.check_key(version, run.fields.needed(deletes=version.partial, feed=version.path in run.feed))

    check_each(check, run.versions)
    base = _without(run.base, run.fields.cut)
    others = [_without(version, run.fields.cut) for version in run.versions if version is not run.base]
    defaults = {name: partial(parse_default, name, text) for name, text in run.output.defaults.items()}
    unused = notes_on_defaults(run.output.defaults, [base, *others])
    given = run.survey.output_schema is not None
    try:
        found = schemas.resolve(
            base, others, run.fields.ids, defaults, given=given, stored_as=stored_as, promoted=promoted
        )
    except MutatorError as fault:
        raise with_standard(fault, _standard(run, fault)) from None
    found = with_nulls(run.asked.ops, run.fields, found, run.base.path, given=given)
    return replace(found, notes=(*found.notes, *unused))


def _standard(run: SchemaRun, fault: MutatorError) -> str:
    """Return the path of the feed file that alone says which type a field has; empty if the master does, or most do."""
    feed, name = {source.path for source in run.survey.feed}, fault.fields.get("field", "")
    having = [one for one in (run.base, *run.versions) if one.typed and name in one.schema.names]
    if fault.kind != "schema.type" or any(one.path not in feed for one in having):
        return ""
    types = {one.path: one.schema.field(name).type for one in having}
    first = fault.fields["path"]
    return first if 2 * list(types.values()).count(types.get(first)) <= len(types) else ""


def result_rows(run: SchemaRun, schema: Any, output: str) -> ResultRows:
    """Return the rows of a pa.Schema. Raises ConfigError or DataError for a key, order or partition of a wrong type.

    output: the file format to write.
    """
    check_key_types(schema, run.fields, run.base.path)
    partitioning = named_partitioning(schema, run.fields, run.base.path)
    survey = run.survey
    if not survey.versioned:  # the files of a table keep all fields
        columns = run.output.columns_of_partitions
        arrived = any(source.in_path for source in survey.master or survey.feed)
        partitioning = with_fields_in_path(partitioning, schema.names, columns, survey.state, output, arrived=arrived)
    return ResultRows(schema, _order_type(run, schema), partitioning, scope_of(run.fields.scope, schema))


def _order_type(run: SchemaRun, schema: Any) -> str:
    """Return the type of order values: of the result's fields, or of the feed's where the result lacks them."""
    order, fields = run.asked.order, run.fields
    if not fields.orders_beside:
        return order_type_of(order, schema, fields, run.base.path)
    known = run.survey.state
    recorded = order.type if known is None else known.spec["order"].get("type", order.type)
    encoded = is_tuple(recorded) or (known is None and order.epoch is not None)
    feed = [version for version in run.versions if version.path in run.feed]
    found = {order_type_of(order, one.schema, fields, one.path): one.path for one in feed}
    if len(found) > 1:
        (one, path), (other, other_path), *_ = found.items()
        name, why = ", ".join(map(".".join, fields.orders)), f"set {setting('temporal.ordering.field.type')}"
        kinds = {"one": one, "path": path, "other_type": other, "other_path": other_path}
        raise error("schema.type", field=name, why=why, **kinds)
    own = next(iter(found), recorded)
    return as_tuple(own) if encoded else own


def name_layouts(
    run: SchemaRun, layouts: dict[str, Layout], layout_of: Callable[[str, Source, dict[str, Any]], Layout]
) -> dict[str, str]:
    """Return the name of each file's layout, by path; adds layouts that are new to ``layouts``.

    layout_of: makes a layout from the side, the file and the arguments for ``RowRules`` that differ between files.
    """
    versions = {version.path: version for version in run.versions}
    names = {}
    for side, source in run.sources:
        version, unset = versions.get(source.path), layouts[side].unset
        rules = _rules_of_file(run, side, source, version)
        if unset is not None:
            rules["unset"] = of_file(unset, run.asked.ops, run.fields, source, version)
        names[source.path] = layout_name(layouts, side, layout_of(side, source, rules))
    return names


def _rules_of_file(run: SchemaRun, side: str, source: Source, version: SchemaVersion | None) -> dict[str, Any]:
    feed, op = side == "feed", run.fields.op
    has_op = version is not None and op in version.schema.names
    if version is not None and op is not None:
        if feed and not has_op:
            schemas.check_key(version, [op])
        if has_op:
            check_op_type(run.asked.ops, version.schema.field(op).type, op, version.path)
    envelope = envelope_of(run.asked.ops, op if has_op else None, source)
    return {"envelope": envelope if feed else envelope.of_records()}


def _without(version: SchemaVersion, names: frozenset[str]) -> SchemaVersion:
    if names.isdisjoint(version.schema.names):
        return version
    return replace(version, schema=pa.schema([field for field in version.schema if field.name not in names]))
