"""Settings that are valid alone and wrong together, a rule for each fault and each warning.

A rule yields its messages, given the specs that it compares, and the settings that were given where it asks them.

>>> from mutator.errors.parts import plain
>>> config = Config(RowSpec(KeySpec((0,)), ops=OpSpec(0)))
>>> [plain(text) for text in faults(config, {"id.field.ordinals": "0"})]
['op.code.field.ordinal: field 0 is also a field of id.field.ordinals']
"""

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from mutator.config.settings import (
    Config,
    EffortSpec,
    InputSpec,
    KeySpec,
    LimitSpec,
    OperationSpec,
    OpSpec,
    OrderSpec,
    OutputSpec,
    RowSpec,
    TextSpec,
    WorkflowSpec,
)
from mutator.config.sources import shown
from mutator.errors.display import counted
from mutator.errors.parts import setting
from mutator.rules.envelope_kind import DIALECT
from mutator.rules.envelopes import ENVELOPES
from mutator.rules.order_values import is_tuple

Given = Mapping[str, Any]  # key to value, without the prefix
Messages = Iterator[str]

_SMALL_SPLIT = 64 << 10
_OTHER_CODES = ("upsert.op.code", "ignore.op.code", "truncate.op.code")  # than those of deletes


def faults(config: Config, given: Given) -> Messages:
    """Yield the faults of settings that contradict each other."""
    rows, operation, limits = config.rows, config.operation, config.limits
    yield from _ids(rows.key, given)
    yield from _op_field(rows)
    yield from _field_count(rows)
    yield from _op_codes(rows.ops, operation, given)
    yield from _decided(rows.ops, given)
    yield from _of_other_dialects(rows.ops, given)
    yield from _unset_fields(rows, given)
    yield from _merged_fields(rows)
    yield from _history(config, given)
    yield from _partition_columns(config.output)
    yield from _order_max(rows.order, given)
    yield from _order_twice(rows.order, given)
    yield from _order_keep(rows)
    yield from _full_snapshot(rows.ops, operation, limits, given)
    yield from _overwrite(operation, config.output, limits, given)
    yield from _suffixes(config.inputs, config.workflow)
    yield from _csv_null(rows.text, given)
    yield from _csv_escape(rows.text)


def warnings(config: Config, given: Given) -> Messages:
    """Yield warnings about settings that have no effect, or one that surprises."""
    rows, operation = config.rows, config.operation
    yield from _order_in_id(rows)
    yield from _delete_prefix(rows.ops, operation)
    yield from _small_splits(config.effort)
    yield from _delete_codes(rows.ops, operation, given)
    yield from _joint(rows.text, given)
    yield from _only_of_overwrites(operation, config.limits, given)


def _ids(key: KeySpec, given: Given) -> Messages:
    if "id.field.ordinals" not in given:
        ids = setting("id.field.ordinals")
        yield f"{ids}: is missing; name the fields of the record ID, for example 0, 0,2 or id"
    if len(set(key.ids)) != len(key.ids):
        yield f"{setting('id.field.ordinals')}: '{shown(given['id.field.ordinals'])}' names a field twice"


def _op_field(rows: RowSpec) -> Messages:
    op = rows.ops.field
    if op is None:
        return
    if any(field.source == op for field in rows.key.partitions):
        yield f"{setting('partitioned.by')}: field {op} is also the {setting('op.code.field.ordinal')}"
    if op in rows.key.ids:
        yield f"{setting('op.code.field.ordinal')}: field {op} is also a field of {setting('id.field.ordinals')}"
    if op in rows.order.fields:
        yield f"{setting('op.code.field.ordinal')}: field {op} is also the {setting('temporal.ordering.field.ordinal')}"


def _unset_fields(rows: RowSpec, given: Given) -> Messages:
    listing, nulls = rows.ops.listing, rows.ops.ignored_nulls
    roles = {
        "id.field.ordinals": rows.key.ids,
        "temporal.ordering.field.ordinal": rows.order.fields,
        "op.code.field.ordinal": () if rows.ops.field is None else (rows.ops.field,),
        "partitioned.by": [one.source for one in rows.key.partitions],
    }
    for key, fields in roles.items():
        if listing is not None and listing in fields:
            yield f"{setting('columns.to.update')}: field {listing} is also a field of {setting(key)}"
    if "unset.value" in given and "csv.null" in given and rows.ops.unset == rows.text.csv_null.decode():
        yield (
            f"{setting('unset.value')}: '{rows.ops.unset}' is also {setting('csv.null')}, so nothing tells a field "
            f"that is not sent from NULL; for the first, set {setting('ignore.null.updates=all')} in place of it"
        )
    named = () if nulls is None or nulls.others else nulls.named
    parts = dict.fromkeys((*rows.key.ids, *rows.order.fields), "of the ID or of the order value")
    if rows.key.scope == "partition":
        parts |= dict.fromkeys(roles["partitioned.by"], f"of the key by {setting('key.scope=partition')}")
    for field, part in parts.items():
        if field in named:
            yield (
                f"{setting('ignore.null.updates')}: field {field} is part {part}, which every row needs; leave it out"
            )
    for key in ("unset.absent", "columns.to.update") if rows.ops.dialect is not None else ():
        if key in given and given[key] not in (False, "false"):
            chosen = setting(f"feed.dialect = {rows.ops.dialect}")
            yield f"{setting(key)}: '{shown(given[key])}' conflicts with {chosen}, whose messages say what they send"


def _merged_fields(rows: RowSpec) -> Messages:
    """Yield the fields with merge functions, and those that do not count, that cannot be any."""
    what = {rows.ops.field: "the op code field", **dict.fromkeys(rows.order.fields, "the order field")}
    what |= dict.fromkeys(rows.key.ids, "the ID")
    for field, choice in rows.ops.merges:
        if field is not None and field in what and choice.split()[0] != "last":
            said = setting(f"field.merge.{field}={choice}")
            yield f"{said}: {field} is {what[field]}, which has the value of the last mutation; leave the setting out"
    for field in rows.ops.uncounted:
        if what.get(field) in ("the ID", "the op code field"):
            yield f"{setting(f'noop.ignore={field}')}: {field} is {what[field]}, which always counts; leave it out"


def _history(config: Config, given: Given) -> Messages:
    """Yield what has no history."""
    rows, chosen = config.rows, setting("history=on")
    if not config.history.is_kept:
        for name in ("history.track", "history.valid.from", "history.columns"):
            if name in given:
                yield f"{setting(name)}: needs {chosen}, with which a table is created"
        return
    if rows.ops.merges:
        name, text = rows.ops.merges[0]
        said = setting(f"field.merge.{name}={text}")
        yield f"{said}: conflicts with {chosen}: it makes one value of all; leave it out"
    if config.operation.full and rows.ops.as_of is None:
        why = "it does not say since when the records that the feed lacks are gone"
        yield f"{setting('sync.mode=full')}: conflicts with {chosen}: {why}; set {setting('snapshot.as.of')}"
    if config.operation.overwrites:
        why = "it does not say since when the records that it replaces are gone"
        cure = f"use {setting('sync.mode=full')} with {setting('snapshot.as.of')}"
        yield f"{setting(f'write.operation={config.operation.name}')}: conflicts with {chosen}: {why}; {cure}"
    if rows.ops.patch_unknown == "reject":
        why = "what a patch does would depend on when it arrives; set it to wait or insert"
        yield f"{setting('patch.unknown=reject')}: conflicts with {chosen}: {why}"
    named = [*map(str, rows.order.fields)]
    if config.history.valid_from is not None and named and config.history.valid_from not in named:
        key, order_by = setting("history.valid.from"), setting("temporal.ordering.field.ordinal")
        yield f"{key}: '{config.history.valid_from}' is not a field of {order_by}; add it there, as the last one"
    if is_tuple(rows.order.type) and config.history.valid_from is None:
        cure = f"name in {setting('history.valid.from')} the field that has the time"
        why = f"with {chosen}, versions show times, and these values are not times"
        yield f"{setting('temporal.ordering.field.ordinal')}: {why}; {cure}"


def _partition_columns(output: OutputSpec) -> Messages:
    if output.symlink_manifest and output.partition_columns == "path":
        why = f"{setting('symlink.manifest=true')} lists files that lack these fields"
        yield f"{setting('partition.columns')}: path, but {why}; set it to file"


def _field_count(rows: RowSpec) -> Messages:
    count, names = rows.text.count, rows.text.names
    if isinstance(count, int):
        most, whose = count, setting(f"field.count = {count}")
    elif names and count == "auto":
        most, whose = len(names), f"the {counted(len(names), 'name')} of {setting('field.names')}"
    else:
        return
    for key, fields in (
        ("id.field.ordinals", rows.key.ids),
        ("temporal.ordering.field.ordinal", rows.order.fields),
        ("op.code.field.ordinal", (rows.ops.field,)),
        ("snapshot.as.of", (rows.ops.said_in,) if rows.ops.field is None else ()),
        ("partitioned.by", [field.source for field in rows.key.partitions]),
    ):
        for field in fields:
            if isinstance(field, int) and field >= most:
                yield f"{setting(key)}: field {field} is beyond {whose}"
    if isinstance(count, int) and names and len(names) != count:
        yield f"{setting('field.names')}: {counted(len(names), 'name')}, but {setting(f'field.count = {count}')}"


def _op_codes(ops: OpSpec, operation: OperationSpec, given: Given) -> Messages:
    lists = (
        ("deleted.op.code", ops.deletes),
        ("upsert.op.code", ops.upserts or frozenset()),
        ("ignore.op.code", ops.ignored),
        ("truncate.op.code", ops.truncates),
    )
    for (other, others), (key, codes) in combinations(lists, 2):
        if codes & others:
            shown_codes = b",".join(sorted(codes & others)).decode("utf-8", "surrogateescape")
            yield f"{setting(key)}: '{shown_codes}' is also of {setting(other)}: name each code in one of them"
    if ops.field is None:
        for key in ("delete.when", *_OTHER_CODES, "op.code.keep", "op.code.in.master"):
            if key in given and not (operation.full and key in _OTHER_CODES):
                yield f"{setting(key)}: '{shown(given[key])}' needs {setting('op.code.field.ordinal')}"


def _order_max(order: OrderSpec, given: Given) -> Messages:
    ordinal = setting("temporal.ordering.field.ordinal")
    if order.maximum is not None and (order.by_file_name or is_tuple(order.type)):
        needs = f"needs {ordinal}" if order.by_file_name else f"needs one field in {ordinal}, in ascending order"
        yield f"{setting('order.max')}: '{shown(given['order.max'])}' {needs}"


def _decided(ops: OpSpec, given: Given) -> Messages:
    kind = ENVELOPES[ops.envelope]
    for key in dict.fromkeys((*kind.decides, *_OTHER_CODES)) if kind.decides else ():
        if key in given and key not in kind.usual:
            chosen = setting(f"{kind.setting} = {ops.envelope}")
            yield f"{setting(key)}: '{shown(given[key])}' conflicts with {chosen}, where {kind.why}"


def _of_other_dialects(ops: OpSpec, given: Given) -> Messages:
    if DIALECT in given and ops.dialect is None:
        return  # it has a fault of its own, and may be the one that the others need
    keys = {one.name: one.metadata["setting"].name for one in dataclasses.fields(ops) if one.metadata}
    users: dict[str, dict[str, list[str]]] = {}
    for name, kind in ENVELOPES.items():
        for member in kind.members.values():
            users.setdefault(keys[member], {}).setdefault(kind.setting, []).append(name)
    if ops.dialect is None:
        users.pop(keys["unset"])  # it has a meaning without one, too
    for key in users.keys() - {keys[member] for member in ENVELOPES[ops.envelope].members.values()}:
        if key in given:
            needed = (f"{setting(one)} = {' or '.join(names)}" for one, names in users[key].items())
            yield f"{setting(key)}: '{shown(given[key])}' needs {', or '.join(needed)}"


def _full_snapshot(ops: OpSpec, operation: OperationSpec, limits: LimitSpec, given: Given) -> Messages:
    if not operation.full:
        if ops.as_of is not None:
            yield f"{setting('snapshot.as.of')}: '{ops.as_of}' needs {setting('sync.mode = full')}"
        if ops.scope:
            yield f"{setting('sync.scope')}: '{shown(given['sync.scope'])}' needs {setting('sync.mode = full')}"
        return
    for key in (
        "op.code.field.ordinal",
        "feed.dialect",
        "deleted.op.code",
        *_OTHER_CODES,
        "deleted.record.file.prefix",
        "deleted.record.file.pattern",
    ):
        if key in given and not (key == "op.code.field.ordinal" and ops.field is None):
            yield (
                f"{setting(key)}: '{shown(given[key])}' conflicts with {setting('sync.mode = full')}, which deletes "
                "the records that the feed lacks; leave it out"
            )
    if ops.scope and ops.as_of is not None:  # the floor of a place is that of all its records
        yield (
            f"{setting('sync.scope')}: '{shown(given['sync.scope'])}' conflicts with {setting('snapshot.as.of')}, "
            "before which every record of the place counts as deleted, also those outside of the part; leave one of "
            "them out"
        )
    if "reject.policy" in given and limits.reject_policy != "fail":
        yield (
            f"{setting('reject.policy')}: 'quarantine' conflicts with {setting('sync.mode = full')}, where a reject "
            "would be a delete"
        )


def _overwrite(operation: OperationSpec, output: OutputSpec, limits: LimitSpec, given: Given) -> Messages:
    if not operation.overwrites:
        return
    stated = f"{setting('write.operation')}: '{operation.name}'"
    if operation.full:
        yield (
            f"{stated} conflicts with {setting('sync.mode = full')}, which compares a snapshot with all records; "
            "keep one"
        )
    if "reject.policy" in given and limits.reject_policy != "fail":
        yield (
            f"{setting('reject.policy')}: '{limits.reject_policy}' conflicts with "
            f"{setting(f'write.operation = {operation.name}')}, where a reject would be a delete"
        )
    if operation.replace_damaged and output.changes:
        yield (
            f"{setting('replace.damaged')}: 'true' conflicts with {setting('changes = true')}: deleted rows that "
            "cannot be read are not changes"
        )


def _suffixes(inputs: InputSpec, workflow: WorkflowSpec) -> Messages:
    control, ready = inputs.control_suffix, workflow.claim_ready_suffix
    if control and ready and (control.endswith(ready) or ready.endswith(control)):
        yield (
            f"{setting('feed.control.suffix')}: '{control}' cannot be distinguished from "
            f"{setting(f'claim.ready.suffix = {ready}')}; neither may end with the other"
        )


def _csv_null(text: TextSpec, given: Given) -> Messages:
    literal = text.delimiter.literal
    if literal and literal in text.csv_null:
        yield (
            f"{setting('csv.null')}: '{given['csv.null']}' contains the delimiter, so it needs quotes, which make it "
            "text"
        )


def _csv_escape(text: TextSpec) -> Messages:
    if text.csv_escape and text.csv_escape == text.delimiter.literal:
        yield (
            f"{setting('csv.escape')}: '{text.csv_escape.decode()}' is the delimiter, too "
            f"({setting('field.delim.regex')})"
        )


def _order_keep(rows: RowSpec) -> Messages:
    if rows.order.keep is not False:
        return
    key = setting("order.keep=false")
    if rows.order.by_file_name:
        yield f"{key}: needs {setting('temporal.ordering.field.ordinal')}"
    for field in rows.order.fields:
        if field in rows.key.ids or any(field == one.source for one in rows.key.partitions):
            yield f"{key}: field {field} is also part of the ID or of the partition, and the records need it"


def _order_twice(order: OrderSpec, given: Given) -> Messages:
    if len(set(order.fields)) != len(order.fields):
        key = "temporal.ordering.field.ordinal"
        yield f"{setting(key)}: '{shown(given[key])}' names a field twice"


def _order_in_id(rows: RowSpec) -> Messages:
    for field in rows.order.fields:
        if field in rows.key.ids:
            yield f"field {field} is both ID and order value: every version is then a record of its own"


def _delete_prefix(ops: OpSpec, operation: OperationSpec) -> Messages:
    for key, value in (("prefix", ops.delete_prefix), ("pattern", ops.delete_pattern)):
        if ops.field is not None and value is not None and not operation.full:
            yield (
                f"{setting(f'deleted.record.file.{key}')} is ignored, because {setting('op.code.field.ordinal')} says "
                "which rows are deletes"
            )


def _small_splits(effort: EffortSpec) -> Messages:
    if effort.split_bytes < _SMALL_SPLIT:
        yield f"{setting(f'split.bytes = {effort.split_bytes}')} makes a task of every few rows; 64m is usual"


def _delete_codes(ops: OpSpec, operation: OperationSpec, given: Given) -> Messages:
    deletes = ops.field is not None or ops.has_delete_files or operation.full
    if "deleted.op.code" in given and not deletes:
        yield (
            f"{setting('deleted.op.code')} is ignored: {setting('op.code.field.ordinal')} is missing, so nothing "
            "deletes"
        )


def _joint(text: TextSpec, given: Given) -> Messages:
    literal = text.delimiter.literal
    if literal is not None and "field.delim" in given and text.joint != literal:
        yield f"{setting('field.delim')} is ignored: rows are rejoined with the delimiter that split them"


def _only_of_overwrites(operation: OperationSpec, limits: LimitSpec, given: Given) -> Messages:
    if "replace.damaged" in given and operation.replace_damaged and not operation.overwrites:
        yield f"{setting('replace.damaged')} is ignored: {setting('write.operation = apply')} replaces no partition"
    if "allow.empty.feed" in given and limits.allow_empty_feed and operation.name != "insert_overwrite_table":
        yield (
            f"{setting('allow.empty.feed')} is ignored: only {setting('write.operation = insert_overwrite_table')} "
            "needs it"
        )
    if operation.overwrites and given.get("consumed.files") == "skip":
        yield f"{setting('consumed.files = skip')} is ignored: {operation.name} merges every file of its feed"
