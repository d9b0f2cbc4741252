"""How a row is read: its key, its order, what it does, and how it is written.

A field is an ordinal, which counts from 0 in the feed's layout, or a name where files have names.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar

from mutator.config import forms
from mutator.config.definitions.operations import OpSpec
from mutator.config.definitions.setting import FIELDS, FORMATS, PARTITIONS, RECORDS, Setting, defined
from mutator.config.forms import one_of
from mutator.errors.quick_dataclass import dataclass
from mutator.rules import file_names
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.epochs import NO_EPOCHS, Epochs
from mutator.rules.file_sequences import SequencePattern
from mutator.rules.partition_fields import PartitionField


@dataclass(frozen=True)
class KeySpec:
    """The fields of the record ID, and where it is unique. A field is an ordinal, or a name where files have names."""

    ids: tuple[Any, ...] = defined(
        RECORDS,
        "id.field.ordinals",
        forms.FIELDS,
        None,
        "the fields of the record ID: ordinals (`0`, `0,2`) or names (`id`, `order_id,line`)",
        otherwise=(),
        short="key",
        help=("FIELDS", "fields of the record ID: id, or order_id,line, or ordinals from 0"),
    )
    partitions: tuple[PartitionField, ...] = defined(
        PARTITIONS,
        "partitioned.by",
        forms.PARTITION_FIELDS,
        None,
        "the partition fields of the master, `store_id,day=date(ts)` ([partitioned masters](partitions.md))",
        otherwise=(),
        option="--partitioned-by",
    )
    scope: str | None = defined(
        PARTITIONS,
        "key.scope",
        one_of("table", "partition"),
        None,
        "where an ID is unique: in the whole `table`, so that its record may move to another partition, "
        "or only within each `partition`",
        unset="the master's, else `table`",
    )


@dataclass(frozen=True)
class OrderSpec:
    """What orders the mutations of a record: fields, or the sequences in file names."""

    fields: tuple[Any, ...] = defined(
        RECORDS,
        "temporal.ordering.field.ordinal",
        forms.ORDER_FIELDS,
        None,
        "the field of the order value, or several, [compared one after the "
        "other](formats.md#several-order-fields), the last of which may be `file.position`; without it, order comes "
        "from file names: the digits after the last `_`, as in `ups_prod_1427761080.txt.gz`",
        otherwise=(),
        short="order_by",
        help=("FIELDS", "field whose highest value wins, or several; without it, the digits in file names"),
    )
    of_text: ClassVar[Setting] = Setting(
        RECORDS,
        "temporal.ordering.field.type",
        forms.ORDER_TYPES,
        "long",
        "the type of order values in text: `long` (64-bit), `decimal`, `timestamp` (ISO 8601; UTC if no zone "
        "is given) or `string` (byte order); leave it out where the field is typed. For several fields, one for each; "
        "with `desc` after it, the lowest value of the field wins: `timestamp, long desc`, or `desc` alone where the "
        "field is typed",
        short="order_type",
        help=("TYPES", "type of order values in text: long, decimal, timestamp or string; desc: the lowest wins"),
    )
    numeric: ClassVar[Setting] = Setting(
        RECORDS,
        "temporal.ordering.field.numeric",
        forms.FLAG,
        "true",
        "the older way to set `long` (true) or `string` (false)",
    )
    # long | decimal | timestamp | string, sequence, or the name of ``order_types.tuple_type``
    type: str = "sequence"
    stated: tuple[int, ...] = ()  # the numbers of the fields whose types are configured, not defaults
    pattern: SequencePattern | None = defined(
        RECORDS,
        "sequence.pattern",
        forms.SEQUENCES,
        None,
        "where the sequence is in the [names of feed files](formats.md#sequences-in-file-names): `date`, "
        "`dms`, `connect-offset`, `firehose`, `last` (the digits after the last `_`, whatever else the names contain), "
        "or a regular expression with the groups `year`, `month`, `day`, `hour`, `minute`, `second`, `fraction` "
        "or `number`",
        unset="`last`, but names that contradict it stop the run",
    )
    keep: bool | None = defined(
        RECORDS,
        "order.keep",
        forms.FLAG,
        None,
        "`false`: the fields of the order value are not part of the records; it is "
        "[kept beside them](formats.md#order-values-beside-the-rows)",
        unset="`true`; `false` for fields of [messages](dialects.md) that are not columns of the table",
    )
    epoch: Mapping[str, int] | None = defined(
        RECORDS,
        "order.epoch",
        forms.EPOCHS,
        None,
        "after a source began again, such as a restored database: a number that is decisive in the [order of this "
        "run's rows](formats.md#epochs), higher than before; or `SOURCE:NUMBER`, or several with commas between "
        "them (`11:0,22:1`), for sources that have names in their rows, such as the IDs of servers",
        unset="the newest of the master",
    )
    epochs: Epochs = NO_EPOCHS  # of a run: the configured ones, with those of the master
    position: bool = False  # the position in the feed decides where the fields are equal
    of_feed: bool = False  # the messages of the feed say which fields have the order value
    null: str = defined(
        RECORDS,
        "null.order",
        one_of("reject", "lowest"),
        "reject",
        "`lowest`: NULL as an order value counts as the oldest value of its type",
    )
    maximum: str | None = defined(
        RECORDS,
        "order.max",
        forms.TEXT,
        None,
        "stop a run whose feed has an order value above this one, such as `2030-01-01`; without it, order "
        "values more than a day in the future are a warning",
    )
    check: bool = defined(
        RECORDS,
        "order.check",
        forms.FLAG,
        "true",
        "`false`: accept order values that [look like times in several units](mistakes.md), such as seconds "
        "and milliseconds since 1970, or whose order as text is wrong, such as `27-NOV-26` and `01-DEC-26`",
    )

    @property
    def by_file_name(self) -> bool:
        """Return whether the order value of a mutation is the sequence of its file."""
        return not self.fields and not self.of_feed and not self.position

    @property
    def sequence_of(self) -> Callable[[str], int | None]:
        """The function that returns the sequence of a file's name, or None without one."""
        return file_names.sequence if self.pattern is None else self.pattern.sequence


@dataclass(frozen=True)
class TextSpec:
    """How the fields and headers of text are written."""

    delimiter: Delimiter = defined(
        FIELDS,
        "field.delim.regex",
        forms.DELIMITER,
        ",",
        "a single character is a literal; anything longer is a Java regex",
        short="delimiter",
        help=("TEXT", "delimiter of fields: a character or a Java regex"),
    )
    joint: bytes = defined(
        FIELDS,
        "field.delim",
        forms.JOINT,
        ",",
        "the delimiter to write between the fields of a row without its op code, if `delimiter` is a regex",
    )
    count: int | str = defined(
        FIELDS,
        "field.count",
        forms.COUNT,
        "auto",
        "number of fields in a feed row: a number, `any`, or `auto`, which uses the number in the "
        "manifest, or else that of the first row",
    )
    names: tuple[str, ...] = defined(
        FIELDS,
        "field.names",
        forms.TEXTS,
        None,
        "names of all fields of a feed row, in order, which can be used in place of ordinals; `.csv` "
        "files are then [CSV](formats.md#which-format)",
        otherwise=(),
    )
    header_lines: int = defined(
        FIELDS,
        "header.lines",
        forms.HEADER,
        "0",
        "number of header lines at the start of each input file (`true`: 1, `false`: 0); in CSV and "
        "escaped text, `1` is a header with names; headers of delimited text are skipped and "
        "[compared](formats.md#headers-of-delimited-text)",
        short="header",
        help=("LINES", "number of header lines of each file; true is 1"),
    )
    # Compare header lines with names; a first row that has the names of all fields is a header.
    header_check: bool = defined(
        FIELDS,
        "header.check",
        forms.FLAG,
        "true",
        "`false`: compare no header line with names, record none in the manifest, and trust "
        "`header` even if a first row [looks like a header](mistakes.md), or a header line like a "
        "record",
    )
    encoding: str = defined(
        FORMATS,
        "encoding",
        forms.ENCODING,
        "utf-8",
        "the [encoding](formats.md#encodings) of delimited text, CSV and JSON Lines in the feed, and in a "
        "master that another program wrote: `utf-8`, `utf-16`, `latin-1`, `cp1252`, or another one that "
        "Python knows; runs write UTF-8",
    )
    master_encoding: str | None = defined(
        FORMATS,
        "master.encoding",
        forms.ENCODING,
        None,
        "the same, for the master alone",
        unset="`encoding`; files that mutator wrote are UTF-8",
    )
    csv_null: bytes = defined(
        FORMATS,
        "csv.null",
        forms.NULL,
        "",
        "the unquoted text that means NULL in CSV, and in delimited text with a `feed.dialect` or "
        "[patches](patches.md)",
    )
    # Empty: quotes are doubled.
    csv_escape: bytes = defined(
        FORMATS,
        "csv.escape",
        forms.ESCAPE,
        '"',
        'the character before a quote within quotes, and before itself there, when CSV is read: `"` for '
        "doubled quotes, or `\\` (or `backslash`), as [Spark writes it](formats.md#csv-of-spark)",
    )


@dataclass(frozen=True)
class RowSpec:
    """How a row is read: where its key, order value and op code are, and how it is written."""

    key: KeySpec = field(default_factory=KeySpec)
    order: OrderSpec = field(default_factory=OrderSpec)
    ops: OpSpec = field(default_factory=OpSpec)
    text: TextSpec = field(default_factory=TextSpec)

    @property
    def fields(self) -> tuple[Any, ...]:
        """The fields of the ID, of the order value and of the op code or the time, as far as they are set."""
        return (*self.key.ids, *self.order.fields, *(() if self.ops.said_in is None else (self.ops.said_in,)))

    @property
    def called(self) -> tuple[str, ...]:
        """Those of the fields that are given by name."""
        return tuple(one for one in self.fields if isinstance(one, str))
