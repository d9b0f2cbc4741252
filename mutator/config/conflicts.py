"""Settings that are valid alone and wrong together, a rule for each fault and each warning.

A rule yields its messages, given the configuration and the settings that were given.

>>> from mutator.errors.parts import plain
>>> from mutator.config.settings import KeySpec, OpSpec, RowSpec
>>> config = Config(RowSpec(KeySpec((0,)), ops=OpSpec(0)))
>>> [plain(text) for text in faults(config, {"id.field.ordinals": "0"})]
['op.code.field.ordinal: field 0 is also a field of id.field.ordinals']
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mutator.config.settings import Config
from mutator.config.sources import shown
from mutator.errors.display import counted
from mutator.errors.parts import KNOWN_KEY, setting

Given = Mapping[str, Any]  # key to value, without the prefix
Messages = Iterator[str]

_SMALL_SPLIT = 64 << 10


def faults(config: Config, given: Given) -> Messages:
    """Yield the faults of settings that contradict each other."""
    return (message for rule in _FAULTS for message in rule(config, given))


def warnings(config: Config, given: Given) -> Messages:
    """Yield warnings about settings that have no effect, or one that surprises."""
    return (message for rule in _WARNINGS for message in rule(config, given))


def _ids(config: Config, given: Given) -> Messages:
    if "id.field.ordinals" not in given:
        ids = setting("id.field.ordinals")
        yield f"key: is missing; name the fields of the record ID ({ids}), for example 0, 0,2 or id{KNOWN_KEY}"
    if len(set(config.rows.key.ids)) != len(config.rows.key.ids):
        yield f"{setting('id.field.ordinals')}: '{shown(given['id.field.ordinals'])}' names a field twice"


def _op_field(config: Config, _: Given) -> Messages:
    op = config.rows.ops.field
    if op is None:
        return
    if any(field.source == op for field in config.rows.key.partitions):
        yield f"{setting('partitioned.by')}: field {op} is also the {setting('op.code.field.ordinal')}"
    if op in config.rows.key.ids:
        yield f"{setting('op.code.field.ordinal')}: field {op} is also a field of {setting('id.field.ordinals')}"
    if op == config.rows.order.field:
        yield f"{setting('op.code.field.ordinal')}: field {op} is also the {setting('temporal.ordering.field.ordinal')}"


def _partition_columns(config: Config, _: Given) -> Messages:
    if config.output.symlink_manifest and config.output.partition_columns == "path":
        why = f"{setting('symlink.manifest=true')} lists files that lack these fields"
        yield f"{setting('partition.columns')}: path, but {why}; set it to file"


def _field_count(config: Config, _: Given) -> Messages:
    count, names = config.rows.text.count, config.rows.text.names
    if isinstance(count, int):
        most, whose = count, setting(f"field.count = {count}")
    elif names and count == "auto":
        most, whose = len(names), f"the {counted(len(names), 'name')} of {setting('field.names')}"
    else:
        return
    for key, fields in (
        ("id.field.ordinals", config.rows.key.ids),
        ("temporal.ordering.field.ordinal", (config.rows.order.field,)),
        ("op.code.field.ordinal", (config.rows.ops.field,)),
        ("partitioned.by", [field.source for field in config.rows.key.partitions]),
    ):
        for field in fields:
            if isinstance(field, int) and field >= most:
                yield f"{setting(key)}: field {field} is beyond {whose}"
    if isinstance(count, int) and names and len(names) != count:
        yield f"{setting('field.names')}: {counted(len(names), 'name')}, but {setting(f'field.count = {count}')}"


def _op_codes(config: Config, given: Given) -> Messages:
    upserts = config.rows.ops.upserts or frozenset()
    for key, codes, other, others in (
        ("upsert.op.code", upserts, "deleted.op.code", config.rows.ops.deletes),
        ("ignore.op.code", config.rows.ops.ignored, "deleted.op.code", config.rows.ops.deletes),
        ("ignore.op.code", config.rows.ops.ignored, "upsert.op.code", upserts),
    ):
        if codes & others:
            shown_codes = b",".join(sorted(codes & others)).decode("utf-8", "surrogateescape")
            yield f"{setting(key)}: '{shown_codes}' is also of {setting(other)}: name each code in one of them"
    if config.rows.ops.field is None:
        for key in ("delete.when", "upsert.op.code", "ignore.op.code", "op.code.keep", "op.code.in.master"):
            if key in given:
                yield f"{setting(key)}: '{shown(given[key])}' needs {setting('op.code.field.ordinal')}"


def _order_max(config: Config, given: Given) -> Messages:
    if config.rows.order.maximum is not None and config.rows.order.by_file_name:
        yield (
            f"{setting('order.max')}: '{shown(given['order.max'])}' needs {setting('temporal.ordering.field.ordinal')}"
        )


def _delete_marks(config: Config, given: Given) -> Messages:
    for key in ("deleted.op.code", "upsert.op.code", "ignore.op.code") if config.rows.ops.marks_deletes else ():
        if key in given:
            yield (
                f"{setting(key)}: '{shown(given[key])}' conflicts with {setting('delete.when = not null')}, where any "
                "value marks a delete"
            )


def _full_snapshot(config: Config, given: Given) -> Messages:
    if not config.operation.full:
        return
    for key in (
        "op.code.field.ordinal",
        "deleted.op.code",
        "deleted.record.file.prefix",
        "deleted.record.file.pattern",
    ):
        if key in given and not (key == "op.code.field.ordinal" and config.rows.ops.field is None):
            yield (
                f"{setting(key)}: '{shown(given[key])}' conflicts with {setting('sync.mode = full')}, which deletes "
                "the records that the feed lacks; leave it out"
            )
    if config.limits.reject_policy != "fail":
        yield (
            f"{setting('reject.policy')}: 'quarantine' conflicts with {setting('sync.mode = full')}, where a reject "
            "would be a delete"
        )


def _overwrite(config: Config, _: Given) -> Messages:
    if not config.operation.overwrites:
        return
    operation = f"{setting('write.operation')}: '{config.operation.name}'"
    if config.operation.full:
        yield (
            f"{operation} conflicts with {setting('sync.mode = full')}, which compares a snapshot with all records; "
            "keep one"
        )
    if config.limits.reject_policy != "fail":
        yield (
            f"{setting('reject.policy')}: '{config.limits.reject_policy}' conflicts with "
            f"{setting(f'write.operation = {config.operation.name}')}, where a reject would be a delete"
        )
    if config.operation.replace_damaged and config.output.changes:
        yield (
            f"{setting('replace.damaged')}: 'true' conflicts with {setting('changes = true')}: deleted rows that "
            "cannot be read are no changes"
        )


def _suffixes(config: Config, _: Given) -> Messages:
    control, ready = config.inputs.control_suffix, config.base.claim_ready_suffix
    if control and ready and (control.endswith(ready) or ready.endswith(control)):
        yield (
            f"{setting('feed.control.suffix')}: '{control}' cannot be distinguished from "
            f"{setting(f'claim.ready.suffix = {ready}')}; neither may end with the other"
        )


def _csv_null(config: Config, given: Given) -> Messages:
    literal = config.rows.text.delimiter.literal
    if literal and literal in config.rows.text.csv_null:
        yield (
            f"{setting('csv.null')}: '{given['csv.null']}' contains the delimiter, so it needs quotes, which make it "
            "text"
        )


def _csv_escape(config: Config, _: Given) -> Messages:
    if config.rows.text.csv_escape and config.rows.text.csv_escape == config.rows.text.delimiter.literal:
        yield (
            f"{setting('csv.escape')}: '{config.rows.text.csv_escape.decode()}' is the delimiter, too "
            f"({setting('field.delim.regex')})"
        )


def _order_in_id(config: Config, _: Given) -> Messages:
    if config.rows.order.field is not None and config.rows.order.field in config.rows.key.ids:
        yield f"field {config.rows.order.field} is both ID and order value: every version is then a record of its own"


def _delete_prefix(config: Config, _: Given) -> Messages:
    for key, value in (("prefix", config.rows.ops.delete_prefix), ("pattern", config.rows.ops.delete_pattern)):
        if config.rows.ops.field is not None and value is not None and not config.operation.full:
            yield (
                f"{setting(f'deleted.record.file.{key}')} is ignored, because {setting('op.code.field.ordinal')} says "
                "which rows are deletes"
            )


def _small_splits(config: Config, _: Given) -> Messages:
    if config.effort.split_bytes < _SMALL_SPLIT:
        yield f"{setting(f'split.bytes = {config.effort.split_bytes}')} makes a task of every few rows; 64m is usual"


def _delete_codes(config: Config, given: Given) -> Messages:
    deletes = config.rows.ops.field is not None or config.rows.ops.has_delete_files or config.operation.full
    if "deleted.op.code" in given and not deletes:
        yield (
            f"{setting('deleted.op.code')} is ignored: {setting('op.code.field.ordinal')} is missing, so nothing "
            "deletes"
        )


def _joint(config: Config, given: Given) -> Messages:
    literal = config.rows.text.delimiter.literal
    if literal is not None and "field.delim" in given and config.rows.text.joint != literal:
        yield f"{setting('field.delim')} is ignored: rows are rejoined with the delimiter that split them"


def _only_of_overwrites(config: Config, given: Given) -> Messages:
    if config.operation.replace_damaged and not config.operation.overwrites:
        yield f"{setting('replace.damaged')} is ignored: {setting('write.operation = apply')} replaces no partition"
    if config.operation.allow_empty_feed and config.operation.name != "insert_overwrite_table":
        yield (
            f"{setting('allow.empty.feed')} is ignored: only {setting('write.operation = insert_overwrite_table')} "
            "needs it"
        )
    if config.operation.overwrites and given.get("consumed.files") == "skip":
        yield f"{setting('consumed.files = skip')} is ignored: {config.operation.name} merges every file of its feed"


Rule = Callable[[Config, Given], Messages]
_FAULTS: tuple[Rule, ...] = (_ids, _op_field, _field_count, _op_codes, _delete_marks)
_FAULTS += (_partition_columns, _order_max, _full_snapshot, _overwrite, _suffixes, _csv_null, _csv_escape)
_WARNINGS: tuple[Rule, ...] = (
    *(_order_in_id, _delete_prefix, _small_splits, _delete_codes, _joint),
    _only_of_overwrites,
)
