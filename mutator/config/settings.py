"""The values of all settings: one frozen ``Config`` of small specs, one for each question of a run.

A room takes the specs that it asks, not the configuration. ``None`` means unset; ordinals count from 0 in the feed's
layout.

>>> Config(RowSpec(KeySpec((0,)))).rows.order.by_file_name
True
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mutator.config.audience import Audience
from mutator.config.definitions import value_by_default
from mutator.errors.parts import plain
from mutator.rules import file_names
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.file_sequences import SequencePattern
from mutator.rules.partition_fields import PartitionField
from mutator.rules.shown_fields import ShownFields


def _setting(key: str, unset: Any = None) -> Any:
    """Declare the attribute of a setting. unset: its value if the setting has no default and is not given."""
    return field(default=value_by_default(key, unset), metadata={"key": key, "unset": unset})


@dataclass(frozen=True)
class KeySpec:
    """The fields of the record ID, and where it is unique. A field is an ordinal, or a name where files have names."""

    ids: tuple[Any, ...] = _setting("id.field.ordinals", ())
    # The master has a directory for each value of these.
    partitions: tuple[PartitionField, ...] = _setting("partitioned.by", ())
    # Where a record ID is unique; None: as the master has it, or table
    scope: str | None = _setting("key.scope")


@dataclass(frozen=True)
class OrderSpec:
    """What orders the mutations of a record: a field, or the sequences in file names."""

    field: Any = _setting("temporal.ordering.field.ordinal")  # None: order comes from file names
    type: str = "sequence"  # long | decimal | timestamp | string, or sequence
    stated: bool = False  # the type is configured, not a default
    # lowest: a record without an order value is older than every other
    null: str = _setting("null.order")
    check: bool = _setting("order.check")  # compare the units of order values that are times since 1970
    maximum: str | None = _setting("order.max")
    pattern: SequencePattern | None = _setting("sequence.pattern")

    @property
    def by_file_name(self) -> bool:
        """Return whether the order value of a mutation is the sequence of its file."""
        return self.field is None

    @property
    def sequence_of(self) -> Callable[[str], int | None]:
        """The function that returns the sequence of a file's name, or None without one."""
        return file_names.sequence if self.pattern is None else self.pattern.sequence


@dataclass(frozen=True)
class OpSpec:
    """What the mutation of a row is: an upsert or a delete, by its op code or the name of its file."""

    field: Any = _setting("op.code.field.ordinal")
    deletes: frozenset[bytes] = _setting("deleted.op.code")
    upserts: frozenset[bytes] | None = _setting("upsert.op.code")  # None: every code that is not a delete code
    ignored: frozenset[bytes] = _setting("ignore.op.code", frozenset())  # codes of rows that are not mutations
    delete_when: str = _setting("delete.when")
    keep: bool = _setting("op.code.keep")
    in_master: bool | None = _setting("op.code.in.master")  # None: inferred from the master's width
    delete_prefix: str | None = _setting("deleted.record.file.prefix")
    delete_pattern: re.Pattern[str] | None = _setting("deleted.record.file.pattern")
    recorded: bool = False  # the user did not give the field: the master or the table has recorded it
    # All settings are of a .properties file or overrides, under their published names: rows of unknown op codes are
    # then upserts, as the original job has it.
    as_published: bool = False

    @property
    def marks_deletes(self) -> bool:
        """Return whether a delete is a row with any value in the op code field."""
        return self.delete_when == "not null"

    @property
    def has_delete_files(self) -> bool:
        """Return whether names of feed files may say that their rows are deletes."""
        return self.field is None and (self.delete_prefix is not None or self.delete_pattern is not None)


@dataclass(frozen=True)
class TextSpec:
    """How the fields and headers of text are written."""

    delimiter: Delimiter = _setting("field.delim.regex")
    joint: bytes = _setting("field.delim")  # written between the fields of a row whose delimiter is a regex
    names: tuple[str, ...] = _setting("field.names", ())  # of all fields of a feed row
    count: int | str = _setting("field.count")  # of them: a number, "auto" or "any"
    header_lines: int = _setting("header.lines")
    # Compare header lines with names; a first row that has the names of all fields is a header.
    header_check: bool = _setting("header.check")
    csv_null: bytes = _setting("csv.null")  # NULL in CSV, without quotes
    csv_escape: bytes = _setting("csv.escape")  # before a quote within quotes; "": quotes are doubled


@dataclass(frozen=True)
class RowSpec:
    """How a row is read: where its key, order value and op code are, and how it is written."""

    key: KeySpec = field(default_factory=KeySpec)
    order: OrderSpec = field(default_factory=OrderSpec)
    ops: OpSpec = field(default_factory=OpSpec)
    text: TextSpec = field(default_factory=TextSpec)

    @property
    def fields(self) -> tuple[Any, ...]:
        """The fields of the ID, of the order value and of the op code, as far as they are set."""
        return (*self.key.ids, *(one for one in (self.order.field, self.ops.field) if one is not None))

    @property
    def called(self) -> tuple[str, ...]:
        """Those of the fields that are given by name."""
        return tuple(one for one in self.fields if isinstance(one, str))


@dataclass(frozen=True)
class InputSpec:
    """The files of the master and the feed that a run reads."""

    master_format: str | None = _setting("master.format")  # None: detected in the files
    feed_format: str | None = _setting("feed.format")
    master_adopt: bool = _setting("master.adopt")
    allow_empty_master: bool = _setting("allow.empty.master")
    control_suffix: str | None = _setting("feed.control.suffix")  # None: no control files
    consumed_files: str = _setting("consumed.files")
    reused_names: str | None = _setting("reused.names")  # None: fail where order comes from file names
    late_files: str = _setting("late.files")
    sequence_gaps: str = _setting("sequence.gaps")


@dataclass(frozen=True)
class OperationSpec:
    """What the feed does to the master as a whole."""

    name: str = _setting("write.operation")  # apply | insert_overwrite | insert_overwrite_table
    sync_mode: str = _setting("sync.mode")
    replace_damaged: bool = _setting("replace.damaged")

    @property
    def full(self) -> bool:
        """Return whether the feed is one complete snapshot."""
        return self.sync_mode == "full"

    @property
    def overwrites(self) -> bool:
        """Return whether the feed replaces partitions, or everything."""
        return self.name != "apply"


@dataclass(frozen=True)
class OutputSpec:
    """The fields and files of the result."""

    format: str | None = _setting("output.format")  # None: the master's
    codec: str | None = _setting("output.codec")
    schema: str | None = _setting("output.schema")  # path of an Avro schema, or its JSON
    nanos: str | None = _setting("nanos")  # reject | keep; None: reject in a versioned table
    defaults: Mapping[str, str] = field(default_factory=dict)  # of fields that rows lack
    # Fields of the master that the result may lose, because the newest feed file lacks them.
    removed_fields: tuple[str, ...] = _setting("removed.fields", ())
    partition_columns: str | None = _setting("partition.columns")  # path | file; None: as the master has it, or path
    symlink_manifest: bool = _setting("symlink.manifest")
    changes: bool = _setting("changes")  # write the rows that change

    @property
    def columns_of_partitions(self) -> str | None:
        """Return where typed files have the partition fields, None for where the master has them.

        A list of files for symlink tables does not say which partition a file is of.
        """
        return self.partition_columns or ("file" if self.symlink_manifest else None)


@dataclass(frozen=True)
class LimitSpec:
    """Conditions under which a run stops."""

    reject_policy: str = _setting("reject.policy")
    reject_limit: int = _setting("reject.limit")
    master_reject_policy: str = _setting("master.reject.policy")
    max_reject_fraction: float = _setting("max.reject.fraction")  # of the rows of a side
    # Rows with the ID of another row, of the rows of an unmanaged master
    max_duplicate_fraction: float = _setting("max.duplicate.fraction")
    max_delete_fraction: float = _setting("max.delete.fraction")  # of the master's records
    max_absence_fraction: float = _setting("max.absence.fraction")  # of these, which a full snapshot lacks
    allow_older_snapshot: bool = _setting("allow.older.snapshot")
    allow_empty_feed: bool = _setting("allow.empty.feed")  # that replaces everything
    before_horizon: str = _setting("before.horizon")


@dataclass(frozen=True)
class RetentionSpec:
    """Seconds for which a master remembers what it no longer has. None: for ever."""

    tombstones: int | None = _setting("tombstone.retention")
    consumed: int | None = _setting("consumed.retention")  # names of merged feed files


@dataclass(frozen=True)
class EffortSpec:
    """Settings that change only the speed."""

    runner: str = _setting("runner")
    num_reducer: int | None = _setting("num.reducer")
    split_bytes: int = _setting("split.bytes")
    bucket_bytes: int = _setting("bucket.bytes")
    memory_bytes: int = _setting("memory.bytes")  # of the feed, in a worker at once
    # Bytes of the master, of which a run checks as many that it would take over unread.
    verify_fraction: float = _setting("verify.fraction")
    # A promise: an ID has one row in an unmanaged master.
    master_unique: bool = _setting("master.unique")


@dataclass(frozen=True)
class WorkflowSpec:
    """How a base directory claims feed files, and what it keeps."""

    claim_min_age: float = _setting("claim.min.age")  # seconds
    claim_ready_suffix: str | None = _setting("claim.ready.suffix")
    bad_files: str = _setting("bad.files")
    backup_keep: int = _setting("backup.keep")
    changes_keep: int | None = _setting("changes.keep")
    feed_filters: bool = _setting("feed.filters")  # write filters of the feed's keys
    lock_timeout: int = _setting("lock.timeout")  # seconds
    compact_after: int | None = _setting("compact.after")  # seconds; None: never


@dataclass(frozen=True)
class WordingSpec:
    """What the user reads: texts with their parts marked, in the words of an audience."""

    report_fields: ShownFields = _setting("report.fields")
    warned: tuple[str, ...] = ()
    noted: tuple[str, ...] = field(default=(), compare=False)
    audience: Audience = field(default_factory=Audience, compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what is strange about the settings, in the words of the audience."""
        return tuple(plain(self.audience(text)) for text in self.warned)


@dataclass(frozen=True)
class Config:
    """A checked configuration."""

    rows: RowSpec = field(default_factory=RowSpec)
    inputs: InputSpec = field(default_factory=InputSpec)
    operation: OperationSpec = field(default_factory=OperationSpec)
    output: OutputSpec = field(default_factory=OutputSpec)
    limits: LimitSpec = field(default_factory=LimitSpec)
    retention: RetentionSpec = field(default_factory=RetentionSpec)
    effort: EffortSpec = field(default_factory=EffortSpec)
    workflow: WorkflowSpec = field(default_factory=WorkflowSpec)
    wording: WordingSpec = field(default_factory=WordingSpec)
    # The settings that the user gave, by their published names
    given: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def read_by(self, audience: Audience) -> "Config":
        """Return the configuration with the audience of its messages, which may not see what reports may not show."""
        audience = replace(audience, hides=not self.wording.report_fields.all)
        return replace(self, wording=replace(self.wording, audience=audience))
