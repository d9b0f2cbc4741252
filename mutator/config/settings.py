"""Every setting of a run: its key, the parser of its text and its default, as the fields of one frozen ``Config``.

>>> Config(id_fields=(0,)).by_file_name
True
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mutator.config import parsers
from mutator.rules.delimiter import field_delimiter as delimiter
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.partition_fields import PartitionField


def _setting(key: str, parser: Callable[[str], Any], default: Any = None) -> Any:
    return field(default=default, metadata={"key": key, "parser": parser})


def _setting_of_fields(key: str, parser: Callable[[str, tuple[str, ...]], Any], default: Any = None) -> Any:
    """Declare a setting whose parser also gets the names of all fields."""
    return field(default=default, metadata={"key": key, "field parser": parser})


@dataclass(frozen=True)
class Config:
    """A checked configuration. ``None`` means unset; ordinals count from 0 in the feed's layout."""

    # --- settings that change the result
    # A field is an ordinal, or a name where files name their fields.
    id_fields: tuple[Any, ...] = _setting_of_fields("id.field.ordinals", parsers.ordinals, ())
    # None: order comes from file names
    order_field: Any = _setting_of_fields("temporal.ordering.field.ordinal", parsers.ordinal_or_unset)
    order_type: str = "sequence"  # long | decimal | timestamp | string, or sequence
    order_stated: bool = False  # the type is configured, not a default
    op_field: Any = _setting_of_fields("op.code.field.ordinal", parsers.ordinal_or_unset)
    delete_codes: frozenset[bytes] = _setting("deleted.op.code", parsers.codes, frozenset((b"D",)))
    # None: every code that is not a delete code
    upsert_codes: frozenset[bytes] | None = _setting("upsert.op.code", parsers.codes)
    op_keep: bool = _setting("op.code.keep", parsers.flag, False)
    op_in_master: bool | None = _setting("op.code.in.master", parsers.flag)  # None: inferred from the master's width
    delete_prefix: str | None = _setting("deleted.record.file.prefix", str)
    delimiter: Delimiter = _setting("field.delim.regex", delimiter.parse, delimiter.parse(","))
    # Written between the fields of a row whose delimiter is a regex.
    joint: bytes = _setting("field.delim", parsers.joint, b",")
    field_count: int | str = _setting("field.count", parsers.field_count, "auto")  # a number, "auto" or "any"
    field_names: tuple[str, ...] = _setting("field.names", parsers.texts, ())
    header_lines: int = _setting("header.lines", parsers.whole, 0)
    # Compare header lines with names; a first row that has the names of all fields is a header.
    header_check: bool = _setting("header.check", parsers.flag, True)
    # lowest: a record without an order value is older than every other
    null_order: str = _setting("null.order", parsers.one_of("reject", "lowest"), "reject")
    master_format: str | None = _setting("master.format", parsers.file_format)  # None: detected in the files
    feed_format: str | None = _setting("feed.format", parsers.file_format)
    output_format: str | None = _setting("output.format", parsers.file_format)  # None: the master's
    output_codec: str | None = _setting("output.codec", parsers.one_of("none", "snappy", "zstd", "gzip", "lz4"))
    output_schema: str | None = _setting("output.schema", str)  # path of an Avro schema
    csv_null: bytes = _setting("csv.null", parsers.null, b"")  # NULL in CSV, without quotes
    defaults: Mapping[str, str] = field(default_factory=dict)  # of fields that rows lack
    # Fields of the master that the result may lose, because the newest feed file lacks them.
    removed_fields: tuple[str, ...] = _setting("removed.fields", parsers.texts, ())
    # The master has a directory for each value of these.
    partitioned_by: tuple[PartitionField, ...] = _setting_of_fields("partitioned.by", parsers.partition_fields, ())
    # Where a record ID is unique; None: as the master has it, or table
    key_scope: str | None = _setting("key.scope", parsers.one_of("table", "partition"))
    sync_mode: str = _setting("sync.mode", parsers.one_of("partial", "full"), "partial")
    allow_older_snapshot: bool = _setting("allow.older.snapshot", parsers.flag, False)
    allow_empty_master: bool = _setting("allow.empty.master", parsers.flag, False)
    master_adopt: bool = _setting("master.adopt", parsers.flag, False)
    reject_policy: str = _setting("reject.policy", parsers.one_of("fail", "quarantine"), "fail")
    reject_limit: int = _setting("reject.limit", parsers.whole, 1000)
    master_reject_policy: str = _setting("master.reject.policy", parsers.one_of("fail", "quarantine"), "fail")
    max_reject_fraction: float = _setting("max.reject.fraction", parsers.fraction, 0.5)  # of the rows of a side
    # Rows with the ID of another row, of the rows of an unmanaged master
    max_duplicate_fraction: float = _setting("max.duplicate.fraction", parsers.fraction, 0.1)
    max_delete_fraction: float = _setting("max.delete.fraction", parsers.fraction, 0.5)  # of the master's records
    tombstone_retention: int | None = _setting("tombstone.retention", parsers.duration)  # seconds; None: for ever
    before_horizon: str = _setting("before.horizon", parsers.one_of("insert", "fail"), "insert")
    consumed_retention: int | None = _setting("consumed.retention", parsers.duration)  # seconds; None: for ever
    consumed_files: str = _setting("consumed.files", parsers.one_of("skip", "merge"), "skip")
    # None: fail where order comes from file names
    reused_names: str | None = _setting("reused.names", parsers.one_of("accept", "fail"))
    late_files: str = _setting("late.files", parsers.one_of("merge", "fail"), "merge")
    sequence_gaps: str = _setting("sequence.gaps", parsers.one_of("auto", "report", "fail", "ignore"), "auto")
    control_suffix: str | None = _setting("feed.control.suffix", parsers.suffix)  # None: no control files
    # --- settings that change only the speed
    runner: str = _setting("runner", parsers.one_of("auto", "local", "spark"), "auto")
    num_reducer: int | None = _setting("num.reducer", parsers.positive)
    split_bytes: int = _setting("split.bytes", parsers.size, 64 << 20)
    bucket_bytes: int = _setting("bucket.bytes", parsers.size, 64 << 20)
    memory_bytes: int = _setting("memory.bytes", parsers.memory, 128 << 20)  # of the feed, in a worker at once
    # Bytes of the master, of which a run checks as many that it would take over unread.
    verify_fraction: float = _setting("verify.fraction", parsers.fraction, 0.05)
    # A promise: an ID has one row in an unmanaged master.
    master_unique: bool = _setting("master.unique", parsers.flag, False)
    # --- settings of the workflow
    claim_min_age: int = _setting("claim.min.age", parsers.duration, 5)  # seconds
    claim_ready_suffix: str | None = _setting("claim.ready.suffix", parsers.suffix)
    backup_keep: int = _setting("backup.keep", parsers.whole, 5)
    lock_timeout: int = _setting("lock.timeout", parsers.duration, 60)  # seconds
    symlink_manifest: bool = _setting("symlink.manifest", parsers.flag, False)
    # --- warnings for the user
    warnings: tuple[str, ...] = ()

    @property
    def by_file_name(self) -> bool:
        """Return whether the order value of a mutation is the sequence of its file."""
        return self.order_field is None

    @property
    def full(self) -> bool:
        """Return whether the feed is one complete snapshot."""
        return self.sync_mode == "full"
