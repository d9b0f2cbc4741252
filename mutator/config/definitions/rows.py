"""The settings of rows, fields and files."""

from mutator.config import forms
from mutator.config.definitions.setting import Section, Setting
from mutator.config.forms import one_of

ROWS = (
    Section(
        "Records and their order",
        (
            Setting(
                "id.field.ordinals",
                forms.FIELDS,
                None,
                "the fields of the record ID: ordinals (`0`, `0,2`) or names (`id`, `order_id,line`)",
                short="key",
                help=("FIELDS", "fields of the record ID: id, or order_id,line, or ordinals from 0"),
            ),
            Setting(
                "temporal.ordering.field.ordinal",
                forms.FIELD,
                None,
                "the field of the order value; without it, order comes from file names: the digits after the last "
                "`_`, as in `ups_prod_1427761080.txt.gz`",
                short="order_by",
                help=("FIELD", "field whose highest value wins; without it, the digits in file names"),
            ),
            Setting(
                "temporal.ordering.field.type",
                one_of("long", "decimal", "timestamp", "string"),
                "long",
                "the type of order values in text: `long` (64-bit), `decimal`, `timestamp` (ISO 8601; UTC if no zone "
                "is given) or `string` (byte order); leave it out where the field is typed",
                short="order_type",
                help=("TYPE", "type of order values in text: long, decimal, timestamp or string"),
            ),
            Setting(
                "temporal.ordering.field.numeric",
                forms.FLAG,
                "true",
                "the older way to set `long` (true) or `string` (false)",
            ),
            Setting(
                "sequence.pattern",
                forms.SEQUENCES,
                None,
                "where the sequence is in the [names of feed files](formats.md#sequences-in-file-names): `date`, "
                "`dms`, `connect-offset`, `last` (the digits after the last `_`, whatever else the names contain), or "
                "a regular expression with the groups `year`, `month`, `day`, `hour`, `minute`, `second`, `fraction` "
                "or `number`",
                unset="`last`, but names that contradict it stop the run",
            ),
            Setting(
                "null.order",
                one_of("reject", "lowest"),
                "reject",
                "`lowest`: NULL as an order value counts as the oldest value of its type",
            ),
            Setting(
                "order.max",
                forms.TEXT,
                None,
                "stop a run whose feed has an order value above this one, such as `2030-01-01`; without it, order "
                "values more than a day in the future are a warning",
            ),
            Setting(
                "order.check",
                forms.FLAG,
                "true",
                "`false`: accept order values that [look like times in several units](mistakes.md), such as seconds "
                "and milliseconds since 1970, or whose order as text is wrong, such as `27-NOV-26` and `01-DEC-26`",
            ),
        ),
    ),
    Section(
        "Deletes and replacements",
        (
            Setting(
                "op.code.field.ordinal",
                forms.FIELD,
                None,
                "the field with the op code of a mutation; it is removed from the rows that are written",
                short="op",
                help=("FIELD", "field with the op codes of mutations"),
            ),
            Setting(
                "deleted.op.code",
                forms.CODES,
                "D",
                "one or several op codes of deletes: `D`, or `D,R`; other codes that look like deletes (`d`, "
                "`DELETE`) stop the run, as does an op code field with more than 24 other codes",
                short="delete_codes",
                help=("CODES", "op codes of deletes"),
            ),
            Setting(
                "delete.when",
                one_of("code", "not null"),
                "code",
                "rows that are deletes, by `op.code.field.ordinal`: with a delete `code`, or with any value (`not "
                "null`), such as a time in `deleted_at`. Words such as `NULL` count as NULL, and so do `1970-01-01`, "
                "`1900-01-01` and years 0, 1 and 9999",
            ),
            Setting(
                "upsert.op.code",
                forms.CODES,
                None,
                "the op codes of upserts, by default the usual ones; [other codes](mistakes.md) stop the run. If it "
                'is set, rows with other codes are rejects; `""` is the empty code',
            ),
            Setting(
                "ignore.op.code",
                forms.CODES,
                None,
                "the op codes of rows that are not mutations, such as [the images before updates](mistakes.md) "
                "(`update_preimage`); they are counted as ignored",
                unset="none",
            ),
            Setting(
                "op.code.keep",
                forms.FLAG,
                "false",
                "write the op code column",
            ),
            Setting(
                "op.code.in.master",
                forms.FLAG,
                None,
                "whether master rows have the op code column",
                unset="by width",
            ),
            Setting(
                "deleted.record.file.prefix",
                forms.TEXT,
                None,
                "feed files whose names start with this contain deletes, as [whole rows or IDs "
                "alone](formats.md#delete-files); ignored, with a warning, if an op code is configured. Other "
                "files that are [named like deletes](mistakes.md) stop the run",
            ),
            Setting(
                "deleted.record.file.pattern",
                forms.PATTERN,
                None,
                "feed files whose names match this regular expression, such as `_del_|deletes`, contain deletes; "
                "`none`: do not look for deletes by name",
            ),
            Setting(
                "write.operation",
                one_of("apply", "insert_overwrite", "insert_overwrite_table"),
                "apply",
                "`insert_overwrite`: replace the partitions of the feed's winners; "
                "`insert_overwrite_table`: replace everything ([insert overwrite](insert_overwrite.md))",
            ),
            Setting(
                "sync.mode",
                one_of("partial", "full"),
                "partial",
                "`full`: the feed is one complete snapshot, and records that it lacks are deleted",
            ),
            Setting(
                "allow.older.snapshot",
                forms.FLAG,
                "false",
                "accept a full snapshot that is older than the last one",
            ),
        ),
    ),
    Section(
        "Rows and fields",
        (
            Setting(
                "field.delim.regex",
                forms.DELIMITER,
                ",",
                "a single character is a literal; anything longer is a Java regex",
                short="delimiter",
                help=("TEXT", "delimiter of fields: a character or a Java regex"),
            ),
            Setting(
                "field.delim",
                forms.JOINT,
                ",",
                "the delimiter to write between the fields of a row without its op code, if `field.delim.regex` "
                "is a regex",
            ),
            Setting(
                "field.count",
                forms.COUNT,
                "auto",
                "number of fields in a feed row: a number, `any`, or `auto`, which uses the number in the "
                "manifest, or else that of the first row",
            ),
            Setting(
                "field.names",
                forms.TEXTS,
                None,
                "names of all fields of a feed row, in order, which can be used in place of ordinals; `.csv` "
                "files are then [CSV](formats.md#which-format)",
            ),
            Setting(
                "header.lines",
                forms.HEADER,
                "0",
                "number of header lines at the start of each input file (`true`: 1, `false`: 0); in CSV and "
                "escaped text, `1` is a header with names; headers of delimited text are skipped and "
                "[compared](formats.md#headers-of-delimited-text)",
                short="header",
                help=("LINES", "number of header lines of each file; true is 1"),
            ),
            Setting(
                "header.check",
                forms.FLAG,
                "true",
                "`false`: compare no header line with names, record none in the manifest, and trust "
                "`header.lines` even if a first row [looks like a header](mistakes.md), or a header line like a "
                "record",
            ),
            Setting(
                "default.FIELD",
                forms.TEXT,
                None,
                "value of this field in rows that lack it",
                unset="NULL",
            ),
            Setting(
                "removed.fields",
                forms.TEXTS,
                None,
                "fields of the master that the result may lose, because the newest feed file lacks them; a CSV "
                "file that lacks others [stops the run](formats.md#when-schemas-differ)",
            ),
        ),
    ),
    Section(
        "Formats",
        (
            Setting(
                "input.format",
                forms.FORMAT,
                "auto",
                "[format](formats.md) of the master and the feed: `text`, `csv`, `escaped`, `avro`, `parquet`, `orc`",
            ),
            Setting(
                "master.format",
                forms.FORMAT,
                None,
                "the same, for the master alone",
                unset="`input.format`",
            ),
            Setting(
                "feed.format",
                forms.FORMAT,
                None,
                "the same, for the feed alone",
                unset="`input.format`",
            ),
            Setting(
                "output.format",
                forms.FORMAT,
                None,
                "the same, for the result",
                unset="the master's",
            ),
            Setting(
                "output.codec",
                one_of("none", "snappy", "zstd", "gzip", "lz4"),
                None,
                "`none`, `snappy`, `zstd`, `gzip`, `lz4`",
                unset="by format",
            ),
            Setting(
                "output.schema",
                forms.TEXT,
                None,
                "an Avro schema for the result: its path, or the JSON itself",
                unset="the newest feed file's",
            ),
            Setting(
                "nanos",
                one_of("reject", "keep"),
                None,
                "`reject`: write timestamps in microseconds, and reject a row with a finer one; `keep`: write them "
                "in their unit in the feed, such as nanoseconds or milliseconds",
                unset="`reject` in a versioned table, else `keep`",
            ),
            Setting(
                "csv.null",
                forms.NULL,
                "",
                "the unquoted text that means NULL in CSV",
            ),
            Setting(
                "csv.escape",
                forms.ESCAPE,
                '"',
                'the character before a quote within quotes, and before itself there, when CSV is read: `"` for '
                "doubled quotes, or `\\` (or `backslash`), as [Spark writes it](formats.md#csv-of-spark)",
            ),
        ),
    ),
    Section(
        "Partitions",
        (
            Setting(
                "partitioned.by",
                forms.PARTITION_FIELDS,
                None,
                "the partition fields of the master, `store_id,day=date(ts)` ([partitioned masters](partitions.md))",
                option="--partitioned-by",
            ),
            Setting(
                "key.scope",
                one_of("table", "partition"),
                None,
                "where an ID is unique: in the whole `table`, so that its record may move to another partition, "
                "or only within each `partition`",
                unset="the master's, else `table`",
            ),
            Setting(
                "partition.columns",
                one_of("path", "file"),
                None,
                "where Parquet, ORC and Avro have a partition field: in the `path` alone, as Hive does, or in the "
                "`file`, too ([partitioned masters](partitions.md#fields-in-the-path))",
                unset="the master's, else `path`",
            ),
        ),
    ),
)
