"""The values of all settings, as the fields of one frozen ``Config``.

>>> Config(id_fields=(0,)).by_file_name
True
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mutator.config.audience import Audience
from mutator.config.definitions import SETTINGS, value_by_default
from mutator.errors.parts import plain
from mutator.rules import file_names
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.file_sequences import SequencePattern
from mutator.rules.partition_fields import PartitionField
from mutator.rules.shown_fields import ShownFields


def _setting(key: str, unset: Any = None) -> Any:
    """Declare the attribute of a setting. unset: its value if the setting has no default and is not given."""
    return field(default=value_by_default(SETTINGS[key], unset), metadata={"key": key})


@dataclass(frozen=True)
class Config:
    """A checked configuration. ``None`` means unset; ordinals count from 0 in the feed's layout."""

    # --- settings that change the result
    # A field is an ordinal, or a name where files name their fields.
    id_fields: tuple[Any, ...] = _setting("id.field.ordinals", ())
    # None: order comes from file names
    order_field: Any = _setting("temporal.ordering.field.ordinal")
    order_type: str = "sequence"  # long | decimal | timestamp | string, or sequence
    order_stated: bool = False  # the type is configured, not a default
    op_field: Any = _setting("op.code.field.ordinal")
    delete_codes: frozenset[bytes] = _setting("deleted.op.code")
    # None: every code that is not a delete code
    upsert_codes: frozenset[bytes] | None = _setting("upsert.op.code")
    delete_when: str = _setting("delete.when")
    # Rows with one of these op codes are no mutations
    ignore_codes: frozenset[bytes] = _setting("ignore.op.code", frozenset())
    op_keep: bool = _setting("op.code.keep")
    op_in_master: bool | None = _setting("op.code.in.master")  # None: inferred from the master's width
    delete_prefix: str | None = _setting("deleted.record.file.prefix")
    delete_pattern: re.Pattern[str] | None = _setting("deleted.record.file.pattern")
    delimiter: Delimiter = _setting("field.delim.regex")
    # Written between the fields of a row whose delimiter is a regex.
    joint: bytes = _setting("field.delim")
    field_count: int | str = _setting("field.count")  # a number, "auto" or "any"
    field_names: tuple[str, ...] = _setting("field.names", ())
    header_lines: int = _setting("header.lines")
    # Compare header lines with names; a first row that has the names of all fields is a header.
    header_check: bool = _setting("header.check")
    # lowest: a record without an order value is older than every other
    null_order: str = _setting("null.order")
    order_check: bool = _setting("order.check")  # compare the units of order values that are times since 1970
    master_format: str | None = _setting("master.format")  # None: detected in the files
    feed_format: str | None = _setting("feed.format")
    output_format: str | None = _setting("output.format")  # None: the master's
    output_codec: str | None = _setting("output.codec")
    output_schema: str | None = _setting("output.schema")  # path of an Avro schema, or its JSON
    csv_null: bytes = _setting("csv.null")  # NULL in CSV, without quotes
    csv_escape: bytes = _setting("csv.escape")  # before a quote within quotes; "": quotes are doubled
    defaults: Mapping[str, str] = field(default_factory=dict)  # of fields that rows lack
    # Fields of the master that the result may lose, because the newest feed file lacks them.
    removed_fields: tuple[str, ...] = _setting("removed.fields", ())
    # The master has a directory for each value of these.
    partitioned_by: tuple[PartitionField, ...] = _setting("partitioned.by", ())
    # Where a record ID is unique; None: as the master has it, or table
    key_scope: str | None = _setting("key.scope")
    partition_columns: str | None = _setting("partition.columns")  # path | file; None: as the master has it, or path
    write_operation: str = _setting("write.operation")  # apply | insert_overwrite | insert_overwrite_table
    sync_mode: str = _setting("sync.mode")
    allow_older_snapshot: bool = _setting("allow.older.snapshot")
    allow_empty_master: bool = _setting("allow.empty.master")
    allow_empty_feed: bool = _setting("allow.empty.feed")
    replace_damaged: bool = _setting("replace.damaged")
    master_adopt: bool = _setting("master.adopt")
    reject_policy: str = _setting("reject.policy")
    reject_limit: int = _setting("reject.limit")
    master_reject_policy: str = _setting("master.reject.policy")
    max_reject_fraction: float = _setting("max.reject.fraction")  # of the rows of a side
    # Rows with the ID of another row, of the rows of an unmanaged master
    max_duplicate_fraction: float = _setting("max.duplicate.fraction")
    max_delete_fraction: float = _setting("max.delete.fraction")  # of the master's records
    max_absence_fraction: float = _setting("max.absence.fraction")  # of these, which a full snapshot lacks
    tombstone_retention: int | None = _setting("tombstone.retention")  # seconds; None: for ever
    before_horizon: str = _setting("before.horizon")
    consumed_retention: int | None = _setting("consumed.retention")  # seconds; None: for ever
    consumed_files: str = _setting("consumed.files")
    order_max: str | None = _setting("order.max")
    # None: fail where order comes from file names
    reused_names: str | None = _setting("reused.names")
    sequence_pattern: SequencePattern | None = _setting("sequence.pattern")
    late_files: str = _setting("late.files")
    sequence_gaps: str = _setting("sequence.gaps")
    changes: bool = _setting("changes")  # write the rows that change
    control_suffix: str | None = _setting("feed.control.suffix")  # None: no control files
    # --- settings of reports
    report_fields: ShownFields = _setting("report.fields")
    # --- settings that change only the speed
    runner: str = _setting("runner")
    num_reducer: int | None = _setting("num.reducer")
    split_bytes: int = _setting("split.bytes")
    bucket_bytes: int = _setting("bucket.bytes")
    nanos: str | None = _setting("nanos")  # reject | keep; None: reject in a versioned table
    memory_bytes: int = _setting("memory.bytes")  # of the feed, in a worker at once
    # Bytes of the master, of which a run checks as many that it would take over unread.
    verify_fraction: float = _setting("verify.fraction")
    # A promise: an ID has one row in an unmanaged master.
    master_unique: bool = _setting("master.unique")
    # --- settings of the workflow
    claim_min_age: float = _setting("claim.min.age")  # seconds
    claim_ready_suffix: str | None = _setting("claim.ready.suffix")
    bad_files: str = _setting("bad.files")
    backup_keep: int = _setting("backup.keep")
    changes_keep: int | None = _setting("changes.keep")
    lock_timeout: int = _setting("lock.timeout")  # seconds
    compact_after: int | None = _setting("compact.after")  # seconds; None: never
    feed_filters: bool = _setting("feed.filters")  # write filters of the feed's keys
    symlink_manifest: bool = _setting("symlink.manifest")
    # All settings are of a .properties file or overrides, under their published names: rows of unknown op codes are
    # then upserts, as the original job has it.
    as_published: bool = field(default=False, compare=False)
    # --- texts for the user
    warned: tuple[str, ...] = ()  # warnings, with their parts marked
    noted: tuple[str, ...] = field(default=(), compare=False)  # notes, likewise
    # Published names of the settings that the master or the table has recorded, and the user has not given.
    recorded: frozenset[str] = field(default=frozenset(), compare=False)
    # The settings that the user gave, by their published names.
    given: Mapping[str, Any] = field(default_factory=dict, compare=False)
    # Who reads messages.
    audience: Audience = field(default_factory=Audience, compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what is strange about the settings, in the words of the audience."""
        return tuple(plain(self.audience(text)) for text in self.warned)

    @property
    def sequence_of(self) -> Callable[[str], int | None]:
        """The function that returns the sequence of a file's name, or None without one."""
        return file_names.sequence if self.sequence_pattern is None else self.sequence_pattern.sequence

    @property
    def by_file_name(self) -> bool:
        """Return whether the order value of a mutation is the sequence of its file."""
        return self.order_field is None

    @property
    def columns_of_partitions(self) -> str | None:
        """Return where typed files have the partition fields, None for where the master has them.

        A list of files for symlink tables does not say which partition a file is of.
        """
        return self.partition_columns or ("file" if self.symlink_manifest else None)

    @property
    def marks_deletes(self) -> bool:
        """Return whether a delete is a row with any value in the op code field."""
        return self.delete_when == "not null"

    @property
    def has_delete_files(self) -> bool:
        """Return whether names of feed files may say that their rows are deletes."""
        return self.op_field is None and (self.delete_prefix is not None or self.delete_pattern is not None)

    @property
    def full(self) -> bool:
        """Return whether the feed is one complete snapshot."""
        return self.sync_mode == "full"

    @property
    def overwrites(self) -> bool:
        """Return whether the feed replaces partitions, or everything."""
        return self.write_operation != "apply"
