"""The configuration: ``.properties``, TOML and ``-D key=value`` to one frozen ``Config``.

Keys are those of the original MapReduce job, with or without its prefix ``rsbm.`` (which wins where both are given),
and new ones in the same style. Every fault is found at once. An empty value means unset.

>>> config = parse({"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "5"})
>>> config.order_type
'long'
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mutator.config import parsers
from mutator.config.sources import PREFIX, read_settings, shown
from mutator.errors import error
from mutator.rules.delimiter import field_delimiter as delimiter
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.partition_transforms import PartitionField

__all__ = ["Config", "load", "parse"]

# Settings of the platform that ran the original job; they stand in its files and mean nothing here.
FOREIGN = re.compile(r"(mapreduce|mapred|hadoop|yarn|dfs|fs|io|debug|conf)\.")


_SMALL_SPLIT = 64 << 10
_DEFAULT = "default."  # and a field


@dataclass(frozen=True)
class Config:
    """A checked configuration. ``None`` means unset; ordinals count from 0 in the feed's layout."""

    # --- settings that change the result
    id_fields: tuple[Any, ...]  # a field is an ordinal, or a name where files have names for their fields
    order_field: Any = None  # None: order comes from file names
    order_type: str = "sequence"  # long | decimal | timestamp | string, or sequence
    order_stated: bool = False  # the type was set, and is no default
    null_order: str = "reject"  # or lowest: a record without an order value is older than every other
    op_field: Any = None
    delete_codes: frozenset[bytes] = frozenset((b"D",))
    upsert_codes: frozenset[bytes] | None = None  # None: whatever is not a delete code
    op_keep: bool = False
    op_in_master: bool | None = None  # None: inferred from the master's width
    delete_prefix: str | None = None
    delimiter: Delimiter = field(default_factory=lambda: delimiter.parse(","))
    joint: bytes = b","  # between the fields of a row whose delimiter is a regex
    field_count: int | str = "auto"  # a number, "auto" or "any"
    field_names: tuple[str, ...] = ()
    header_lines: int = 0
    master_format: str | None = None  # text | csv | escaped | avro | parquet | orc; None: seen in the files
    feed_format: str | None = None
    output_format: str | None = None  # None: the master's
    output_codec: str | None = None
    output_schema: str | None = None  # path of an Avro schema
    csv_null: bytes = b""  # what stands for NULL in CSV, without quotes
    defaults: Mapping[str, str] = field(default_factory=dict)  # of fields that rows lack
    partitioned_by: tuple[PartitionField, ...] = ()  # the master has a directory for each value of these
    key_scope: str | None = None  # table | partition: where a record ID is unique; None: as the master has it, or table
    sync_mode: str = "partial"
    allow_older_snapshot: bool = False
    allow_empty_master: bool = False
    master_adopt: bool = False
    reject_policy: str = "fail"
    reject_limit: int = 1000
    master_reject_policy: str = "fail"
    max_delete_fraction: float = 0.5
    tombstone_retention: int | None = None  # seconds; None: for ever
    before_horizon: str = "insert"
    consumed_retention: int | None = None  # seconds; None: for ever
    consumed_files: str = "skip"
    reused_names: str | None = None  # accept | fail; None: fail where order comes from file names
    late_files: str = "merge"
    sequence_gaps: str = "auto"
    control_suffix: str | None = None  # None: feed files have no control files
    # --- settings that change only the speed
    num_reducer: int | None = None
    split_bytes: int = 64 << 20
    bucket_bytes: int = 64 << 20
    memory_bytes: int = 128 << 20  # what a worker holds of the feed at once
    master_unique: bool = False  # a promise: an ID has one row in an unmanaged master
    # --- settings of the workflow
    claim_min_age: int = 5  # seconds
    claim_ready_suffix: str | None = None
    backup_keep: int = 5
    lock_timeout: int = 60  # seconds
    symlink_manifest: bool = False
    # --- what the user should know
    warnings: tuple[str, ...] = ()

    @property
    def by_file_name(self) -> bool:
        """Tell whether the order value of a mutation is the sequence of its file."""
        return self.order_field is None

    @property
    def full(self) -> bool:
        """Tell whether the feed is one complete snapshot."""
        return self.sync_mode == "full"


def load(path: str | Path | None, overrides: Iterable[str] = ()) -> Config:
    """Read a configuration file and ``key=value`` overrides, which win.

    Raises ConfigError with every fault found.
    """
    return parse(read_settings(path, overrides), "the command line" if path is None else str(path))


def parse(settings: Mapping[str, Any], where: str = "the configuration") -> Config:
    """Check settings and make a ``Config`` of them.

    settings: key to value as text (numbers, booleans and lists of TOML are taken as well).
    Raises ConfigError with every fault found, each with key, value, what was expected and the nearest known name.
    """
    given, warnings = _normalise(settings)
    faults: list[str] = []
    read = _Reader(given, faults)
    names = read("field.names", parsers.texts, ())
    both = read("input.format", _format, None)
    config = Config(
        id_fields=read("id.field.ordinals", lambda text: parsers.ordinals(text, names), ()),
        order_field=read("temporal.ordering.field.ordinal", lambda text: parsers.ordinal_or_unset(text, names), None),
        op_field=read("op.code.field.ordinal", lambda text: parsers.ordinal_or_unset(text, names), None),
        delete_codes=frozenset(read("deleted.op.code", parsers.codes, (b"D",))),
        upsert_codes=read("upsert.op.code", lambda text: frozenset(parsers.codes(text)), None),
        op_keep=read("op.code.keep", parsers.flag, False),
        op_in_master=read("op.code.in.master", parsers.flag, None),
        delete_prefix=read("deleted.record.file.prefix", str, None),
        delimiter=read("field.delim.regex", delimiter.parse, delimiter.parse(",")),
        joint=read("field.delim", parsers.joint, b","),
        field_count=read("field.count", parsers.field_count, "auto"),
        field_names=names,
        header_lines=read("header.lines", parsers.whole, 0),
        null_order=read("null.order", parsers.one_of("reject", "lowest"), "reject"),
        master_format=read("master.format", _format, both),
        feed_format=read("feed.format", _format, both),
        output_format=read("output.format", _format, None),
        output_codec=read("output.codec", parsers.one_of("none", "snappy", "zstd", "gzip", "lz4"), None),
        output_schema=read("output.schema", str, None),
        csv_null=read("csv.null", parsers.null, b""),
        defaults={key.removeprefix(_DEFAULT): shown(value) for key, value in given.items() if key.startswith(_DEFAULT)},
        partitioned_by=read("partitioned.by", lambda text: parsers.partition_fields(text, names), ()),
        key_scope=read("key.scope", parsers.one_of("table", "partition"), None),
        sync_mode=read("sync.mode", parsers.one_of("partial", "full"), "partial"),
        allow_older_snapshot=read("allow.older.snapshot", parsers.flag, False),
        allow_empty_master=read("allow.empty.master", parsers.flag, False),
        master_adopt=read("master.adopt", parsers.flag, False),
        reject_policy=read("reject.policy", parsers.one_of("fail", "quarantine"), "fail"),
        reject_limit=read("reject.limit", parsers.whole, 1000),
        master_reject_policy=read("master.reject.policy", parsers.one_of("fail", "quarantine"), "fail"),
        max_delete_fraction=read("max.delete.fraction", parsers.fraction, 0.5),
        tombstone_retention=read("tombstone.retention", parsers.duration, None),
        before_horizon=read("before.horizon", parsers.one_of("insert", "fail"), "insert"),
        consumed_retention=read("consumed.retention", parsers.duration, None),
        consumed_files=read("consumed.files", parsers.one_of("skip", "merge"), "skip"),
        reused_names=read("reused.names", parsers.one_of("accept", "fail"), None),
        late_files=read("late.files", parsers.one_of("merge", "fail"), "merge"),
        sequence_gaps=read("sequence.gaps", parsers.one_of("auto", "report", "fail", "ignore"), "auto"),
        control_suffix=read("feed.control.suffix", parsers.suffix, None),
        num_reducer=read("num.reducer", parsers.positive, None),
        split_bytes=read("split.bytes", parsers.size, 64 << 20),
        bucket_bytes=read("bucket.bytes", parsers.size, 64 << 20),
        memory_bytes=read("memory.bytes", parsers.size, 128 << 20),
        master_unique=read("master.unique", parsers.flag, False),
        claim_min_age=read("claim.min.age", parsers.duration, 5),
        claim_ready_suffix=read("claim.ready.suffix", parsers.suffix, None),
        backup_keep=read("backup.keep", parsers.whole, 5),
        lock_timeout=read("lock.timeout", parsers.duration, 60),
        symlink_manifest=read("symlink.manifest", parsers.flag, False),
    )
    numeric = read("temporal.ordering.field.numeric", parsers.flag, None)
    kind = read("temporal.ordering.field.type", parsers.one_of("long", "decimal", "timestamp", "string"), None)
    for key in given:
        if key not in read.known and not key.startswith(_DEFAULT):
            near = difflib.get_close_matches(key, read.known, n=1)
            faults.append(f"{key}: is not a known setting" + (f"; did you mean {near[0]}?" if near else ""))
    config = replace(config, order_type=_order_type(config, numeric, kind, faults), order_stated=kind is not None)
    _check_together(config, given, faults, warnings)
    if faults:
        raise error("config", where=where, faults="\n  ".join(["the configuration cannot be used:", *faults]))
    return replace(config, warnings=tuple(warnings))


def _order_type(config: Config, numeric: bool | None, kind: str | None, faults: list[str]) -> str:
    if config.by_file_name:
        if kind is not None:
            faults.append(f"temporal.ordering.field.type: '{kind}', and no temporal.ordering.field.ordinal is set")
        return "sequence"
    if kind is None:
        return "string" if numeric is False else "long"
    if numeric is not None and numeric is not (kind in ("long", "decimal")):
        faults.append(
            f"temporal.ordering.field.numeric: '{str(numeric).lower()}' contradicts temporal.ordering.field.type = "
            f"{kind}; leave it out"
        )
    return kind


def _check_together(config: Config, given: Mapping[str, Any], faults: list[str], warnings: list[str]) -> None:
    """Find the settings that are right alone and wrong together."""
    ids, order, op = config.id_fields, config.order_field, config.op_field
    if "id.field.ordinals" not in given:
        faults.append("id.field.ordinals: is missing; name the fields of the record ID, for example 0 or 0,2")
    if len(set(ids)) != len(ids):
        faults.append(f"id.field.ordinals: '{given['id.field.ordinals']}' names a field twice")
    if op is not None and any(one.source == op for one in config.partitioned_by):
        faults.append(f"partitioned.by: field {op} is also the op.code.field.ordinal")
    if op is not None and op in ids:
        faults.append(f"op.code.field.ordinal: field {op} is also a field of id.field.ordinals")
    if op is not None and op == order:
        faults.append(f"op.code.field.ordinal: field {op} is also the temporal.ordering.field.ordinal")
    if order is not None and order in ids:
        warnings.append(f"field {order} is both ID and order value: every version is then a record of its own")
    if isinstance(config.field_count, int):
        for key, ordinals in (
            ("id.field.ordinals", ids),
            ("temporal.ordering.field.ordinal", (order,)),
            ("op.code.field.ordinal", (op,)),
        ):
            for ordinal in ordinals:
                if isinstance(ordinal, int) and ordinal >= config.field_count:
                    faults.append(f"{key}: field {ordinal} is beyond field.count = {config.field_count}")
    if config.field_names and isinstance(config.field_count, int) and len(config.field_names) != config.field_count:
        faults.append(f"field.names: {len(config.field_names)} names, and field.count = {config.field_count}")
    if config.upsert_codes and config.upsert_codes & config.delete_codes:
        both = b",".join(sorted(config.upsert_codes & config.delete_codes)).decode("utf-8", "surrogateescape")
        faults.append(f"upsert.op.code: '{both}' is also a deleted.op.code")
    if op is not None and config.delete_prefix is not None and not config.full:
        warnings.append("deleted.record.file.prefix is ignored, because op.code.field.ordinal says what is deleted")
    if op is None:
        for key in ("upsert.op.code", "op.code.keep", "op.code.in.master"):
            if key in given:
                faults.append(f"{key}: '{shown(given[key])}' needs op.code.field.ordinal")
    if config.full:
        for key in ("op.code.field.ordinal", "deleted.op.code", "deleted.record.file.prefix"):
            if key in given and not (key == "op.code.field.ordinal" and op is None):
                faults.append(
                    f"{key}: '{shown(given[key])}' stands beside sync.mode = full, where what is absent is deleted; "
                    "leave it out"
                )
        if config.reject_policy != "fail":
            faults.append(
                "reject.policy: 'quarantine' stands beside sync.mode = full, where a reject would be a delete"
            )
    control, ready = config.control_suffix, config.claim_ready_suffix
    if control and ready and (control.endswith(ready) or ready.endswith(control)):
        faults.append(
            f"feed.control.suffix: '{control}' cannot be told from claim.ready.suffix = {ready}; neither may end with "
            "the other"
        )
    if config.split_bytes < _SMALL_SPLIT:
        warnings.append(f"split.bytes = {config.split_bytes} makes a task of every few rows; 64m is usual")
    if op is None and config.delete_prefix is None and not config.full and "deleted.op.code" in given:
        warnings.append("deleted.op.code is ignored: op.code.field.ordinal is missing, so nothing deletes")
    literal = config.delimiter.literal
    if literal and literal in config.csv_null:
        faults.append(f"csv.null: '{given['csv.null']}' holds the delimiter, and needs quotes, which make it text")
    if literal is not None and "field.delim" in given and config.joint != literal:
        warnings.append("field.delim is ignored: rows are rejoined with the delimiter that they were split by")


def _format(text: str) -> str | None:
    """Read the name of a format; None for auto."""
    found = parsers.one_of("auto", "text", "csv", "escaped", "avro", "parquet", "orc")(text)
    return None if found == "auto" else found


class _Reader:
    """Take settings one by one, collect the faults, and remember which keys are known."""

    def __init__(self, given: Mapping[str, Any], faults: list[str]) -> None:
        self.given = given
        self.faults = faults
        self.known: list[str] = []

    def __call__(self, key: str, convert: Callable[[str], Any], default: Any) -> Any:
        self.known.append(key)
        if key not in self.given:
            return default
        value = self.given[key]
        try:
            return convert(shown(value))
        except ValueError as fault:
            self.faults.append(f"{key}: '{shown(value)}' {fault}")
            return default


def _both(settings: Mapping[str, Any], key: str) -> str | None:
    """Return the value that a prefixed one replaces, if it is another."""
    bare, prefixed = shown(settings.get(key, "")), shown(settings.get(PREFIX + key, ""))
    return bare if bare and prefixed and bare != prefixed else None


def _normalise(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Strip the prefix, drop what is empty or foreign; return (settings, warnings)."""
    given: dict[str, Any] = {}
    foreign = []
    for key in sorted(settings, key=lambda key: key.startswith(PREFIX)):  # the prefixed ones last: they win
        bare = key.removeprefix(PREFIX)
        if FOREIGN.match(bare):
            foreign.append(key)
        elif shown(settings[key]) == "":
            given.pop(bare, None)
        else:
            given[bare] = settings[key]
    warnings = [
        f"{key}: '{_both(settings, key)}' is given with and without the prefix {PREFIX}; the prefixed one is taken"
        for key in given
        if _both(settings, key)
    ]
    warnings += [f"settings of the platform are ignored: {', '.join(sorted(foreign))}"] if foreign else []
    return given, warnings
