"""What the mutation of a row is: the settings of op codes, of delete files, of dialects, and of parts of a snapshot."""

import re
from dataclasses import fields
from typing import Any, ClassVar

from mutator.config import forms
from mutator.config.definitions.setting import DELETES, Setting, defined
from mutator.config.forms import one_of
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.conditions import Condition
from mutator.rules.envelope_kind import KEY_FILES
from mutator.rules.envelopes import ENVELOPES, chosen_by
from mutator.rules.field_choice import FieldChoice
from mutator.rules.snapshot_times import FirstTime, TimeField


@dataclass(frozen=True)
class OpSpec:
    """What the mutation of a row is: an upsert or a delete, by its op code or the name of its file."""

    field: Any = defined(
        DELETES,
        "op.code.field.ordinal",
        forms.FIELD,
        None,
        "the field with the op code of a mutation; it is removed from the rows that are written",
        short="op",
        help=("FIELD", "field with the op codes of mutations"),
    )
    deletes: frozenset[bytes] = defined(
        DELETES,
        "deleted.op.code",
        forms.CODES,
        "D",
        "one or several op codes of deletes: `D`, or `D,R`; other codes that look like deletes (`d`, "
        "`DELETE`) stop the run, as does an op code field with more than 24 other codes",
        short="delete_codes",
        help=("CODES", "op codes of deletes"),
    )
    delete_when: str = defined(
        DELETES,
        "delete.when",
        one_of(*chosen_by("delete.when")),
        "code",
        "rows that are deletes, by `op`: with a delete `code`, or with any value (`not "
        "null`), such as a time in `deleted_at`. Words such as `NULL` count as NULL, and so do `1970-01-01`, "
        "`1900-01-01` and years 0, 1 and 9999",
    )
    # None: every code that is not a delete code.
    upserts: frozenset[bytes] | None = defined(
        DELETES,
        "upsert.op.code",
        forms.CODES,
        None,
        "the op codes of upserts, by default the usual ones; [other codes](mistakes.md) stop the run. If it "
        'is set, rows with other codes are rejects; `""` is the empty code',
    )
    ignored: frozenset[bytes] = defined(
        DELETES,
        "ignore.op.code",
        forms.CODES,
        None,
        "the op codes of rows that are not mutations, such as [the images before updates](mistakes.md) "
        "(`update_preimage`); they are counted as ignored",
        otherwise=frozenset(),
        unset="none",
    )
    truncates: frozenset[bytes] = defined(
        DELETES,
        "truncate.op.code",
        forms.CODES,
        None,
        "the op codes of [truncates](truncates.md), such as `T`: each deletes all records that are older. Its row "
        "needs an order value, and neither an ID nor other fields",
        otherwise=frozenset(),
        unset="none",
    )
    keep: bool = defined(
        DELETES,
        "op.code.keep",
        forms.FLAG,
        "false",
        "write the op code column",
    )
    in_master: bool | None = defined(
        DELETES,
        "op.code.in.master",
        forms.FLAG,
        None,
        "whether master rows have the op code column",
        unset="by width",
    )
    delete_prefix: str | None = defined(
        DELETES,
        "deleted.record.file.prefix",
        forms.TEXT,
        None,
        "feed files whose names start with this contain deletes, as [whole rows or IDs "
        "alone](formats.md#delete-files); ignored, with a warning, if an op code is configured. Other "
        "files that are [named like deletes](mistakes.md) stop the run",
    )
    delete_pattern: re.Pattern[str] | None = defined(
        DELETES,
        "deleted.record.file.pattern",
        forms.PATTERN,
        None,
        "feed files whose names match this regular expression, such as `_del_|deletes`, contain deletes; "
        "`none`: do not look for deletes by name",
    )
    dialect: str | None = defined(
        DELETES,
        "feed.dialect",
        one_of(*chosen_by("feed.dialect")),
        None,
        "the [form of the messages](dialects.md) that the rows of feed files are: `debezium-json`, `debezium-avro`, "
        "`debezium-parquet`, `debezium-flat` for its flattened rows, `maxwell-json`, `canal-json`, `ogg-json`, "
        "`aws-dms-json`, or [flat rows](dialects.md#flat-rows) of other programs. It says what each row does, so that "
        "`op` and its codes are not set",
        unset="rows are records",
    )
    table: str | None = defined(
        DELETES,
        "feed.table",
        forms.TEXT,
        None,
        "the table whose rows are taken, as `schema.table`, or `database.table` where there are no schemas; those of "
        "others are counted as ignored. Without it, rows of two tables stop the run",
    )
    unset: str | None = defined(
        DELETES,
        "unset.value",
        forms.TEXT,
        None,
        "the text of a field that was not sent, such as `~`, or as AWS DMS (`CsvNoSupValue`) and GoldenGate "
        "(`missingValueRepresentation`) write it: the record [keeps its value](patches.md). In an insert of a dialect "
        "it is NULL",
        unset="none; empty for `ogg-csv`",
    )
    patch_unknown: str | None = defined(
        DELETES,
        "patch.unknown",
        one_of("wait", "insert", "reject"),
        None,
        "what a [patch of an unknown record](patches.md#patches-of-unknown-records) does: it waits until a row with "
        "all fields comes, inserts the record with NULLs, or is a reject. The first run with patches decides",
        unset="wait",
    )
    moved_unset: str | None = defined(
        DELETES,
        "moved.unset",
        one_of("carry", "reject"),
        None,
        "what a message with a [new key](dialects.md#values-that-a-changed-key-does-not-send) does that does not send "
        "all fields: it carries those of the old key's record, or is a reject",
        unset="carry; reject in partitioned directories, and with `key.scope=partition`",
    )
    absent: bool = defined(
        DELETES,
        "unset.absent",
        forms.FLAG,
        "false",
        "fields that a feed file lacks, and members that a row of JSON Lines lacks, are [not sent](patches.md): the "
        "record keeps its values. Otherwise they are NULL, or their default",
    )
    ignored_nulls: FieldChoice | None = defined(
        DELETES,
        "ignore.null.updates",
        forms.FIELD_CHOICE,
        None,
        "the fields in which NULL says [nothing](patches.md), so that the record keeps its value: `all`, `price,name`, "
        "or `all except price`; never the ID and the order value",
        unset="none",
    )
    listing: Any = defined(
        DELETES,
        "columns.to.update",
        forms.FIELD,
        None,
        "the field of the feed that lists the fields that a row [sends](patches.md), with commas between them; it is "
        "removed from the rows that are written. An empty list, or NULL, means all fields",
    )
    uncounted: tuple[int | str, ...] = defined(
        DELETES,
        "noop.ignore",
        forms.FIELDS,
        None,
        "fields that do not count, such as `loaded_at,batch`: an update that [changes only "
        "these](contract.md#fields-that-do-not-count) is a no-op. Later runs keep them",
        otherwise=(),
        unset="none",
    )
    one_merge: ClassVar[Setting] = Setting(
        DELETES,
        "field.merge.FIELD",
        forms.MERGE,
        None,
        "what the mutations of a record make of this field, where that is not the last value: the [merge "
        "function](merging.md) `first`, `min`, `max`, `sum`, `last_non_null` or `first_non_null`. Later runs keep it",
        unset="last",
    )
    merges: tuple[tuple[Any, str], ...] = ()  # fields, and their functions
    others: tuple[str, ...] | None = defined(
        DELETES,
        "feed.other.tables",
        forms.TEXTS,
        None,
        "the other tables whose messages the feed may have, such as `public.items,public.notes`: a message of any "
        "other one but `feed.table` stops the run",
        unset="all",
    )
    key_files: str | None = defined(
        DELETES,
        "feed.keys",
        forms.TEXT,
        None,
        "where the [keys of messages](dialects.md#keys-in-files-of-their-own) are: `beside` each feed file, as "
        "`NAME.keys.json`, or a directory with files of the same names. They say what deletes without a key delete",
    )
    time_unit: str | None = defined(
        DELETES,
        "feed.time.unit",
        one_of("ms", "us", "ns"),
        None,
        "the unit of times that are whole numbers in messages without a schema, since 1970 or midnight: `ms`, `us` or "
        "`ns`; [nothing in the file says it](dialects.md)",
    )
    decimals: str | None = defined(
        DELETES,
        "feed.decimals",
        one_of("base64", "text"),
        None,
        "what decimals are in messages without a schema: `base64` of a whole number, which has the scale of the field "
        "in the master, or the `text` of a number",
    )
    scope: tuple[Condition, ...] = defined(
        DELETES,
        "sync.scope",
        forms.CONDITIONS,
        None,
        "the [part of the master](contract.md#snapshots-of-a-part) that a full snapshot has, such as `region = 'EU'`: "
        "records outside of it stay, and rows outside of it are rejects",
        otherwise=(),
        unset="everything",
    )
    as_of: str | TimeField | None = defined(
        DELETES,
        "snapshot.as.of",
        forms.AS_OF,
        None,
        "with `sync.mode=full`, the order value that the [snapshot is as of](truncates.md#snapshots-as-of-a-time), "
        "such as `2026-01-31`; or `sequence`: that of its file; or `field:extracted_at`: that in a field of all its "
        "rows. Older records that it lacks are deleted, newer ones stay",
    )
    time: FirstTime | None = None  # of a snapshot whose rows have it, once its first row is read
    sends_all: bool = False  # no row of a dialect leaves a field unset, as far as the files say
    recorded: bool = False  # the user did not give the field: the master or the table has recorded it
    # All settings are of a .properties file or overrides, under their published names: rows of unknown op codes are
    # then upserts, as the original job has it.
    as_published: bool = False

    @property
    def unknown(self) -> str:
        """What a patch of an unknown record does in a place that has had none yet: wait, insert or reject."""
        return self.patch_unknown or "wait"

    @property
    def has_patches(self) -> bool:
        """Return whether mutations may leave fields unset."""
        of_rows = self.absent or self.listing is not None
        of_dialect = ENVELOPES[self.envelope].leaves_unset and not self.sends_all
        said = of_rows if self.dialect is None else of_dialect
        return said or self.unset is not None or self.ignored_nulls is not None

    @property
    def said_in(self) -> Any:
        """The field by which a row says what it does: that of the op code, or of the time of a snapshot; None: none."""
        return self.as_of.field if isinstance(self.as_of, TimeField) else self.field

    @property
    def envelope(self) -> str:
        """The name of the envelope of rows with an op code field: the last of ``ENVELOPES`` that is chosen."""
        values = {one.metadata["setting"].name: getattr(self, one.name) for one in fields(self) if one.metadata}
        return [name for name, one in ENVELOPES.items() if values.get(one.setting) == name][-1]

    @property
    def has_key_files(self) -> bool:
        """Return whether the messages of a feed may have keys in files of their own."""
        return KEY_FILES in ENVELOPES[self.envelope].members

    @property
    def has_delete_files(self) -> bool:
        """Return whether names of feed files may say that their rows are deletes."""
        return self.field is None and (self.delete_prefix is not None or self.delete_pattern is not None)
