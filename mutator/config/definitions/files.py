"""The files that a run reads, and those that it writes."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from mutator.config import forms
from mutator.config.definitions.setting import ACCEPTED, FIELDS, FORMATS, PARTITIONS, WORKFLOW, Setting, defined
from mutator.config.forms import one_of
from mutator.errors.quick_dataclass import dataclass
from mutator.rules import known_formats

_FORMATS = ", ".join(f"`{name}`" for name in known_formats.FORMATS)


@dataclass(frozen=True)
class InputSpec:
    """The files of the master and the feed that a run reads."""

    any_format: ClassVar[Setting] = Setting(
        FORMATS,
        "input.format",
        forms.FORMAT,
        "auto",
        f"[format](formats.md) of the master and the feed: {_FORMATS}",
    )
    # None: detected in the files.
    master_format: str | None = defined(
        FORMATS,
        "master.format",
        forms.FORMAT,
        None,
        "the same, for the master alone",
        unset="`input.format`",
    )
    feed_format: str | None = defined(
        FORMATS,
        "feed.format",
        forms.FORMAT,
        None,
        "the same, for the feed alone",
        unset="`input.format`",
    )
    allow_empty_master: bool = defined(
        ACCEPTED,
        "allow.empty.master",
        forms.FLAG,
        "false",
        "the master of a first run may be missing, a directory without data files, or one with only empty ones",
    )
    master_adopt: bool = defined(
        ACCEPTED,
        "master.adopt",
        forms.FLAG,
        "false",
        "read the master as one that another program wrote, and ignore its manifest",
    )
    consumed_files: str = defined(
        ACCEPTED,
        "consumed.files",
        one_of("skip", "merge"),
        "skip",
        "`merge`: read feed files again that were already merged into this master",
    )
    reused_names: str | None = defined(
        ACCEPTED,
        "reused.names",
        one_of("accept", "fail"),
        None,
        "a feed file with the name of a merged file but other content: `fail` (default if order comes "
        "from file names) or `accept`",
        unset="by order",
    )
    late_files: str = defined(
        ACCEPTED,
        "late.files",
        one_of("merge", "fail"),
        "merge",
        "`fail`: stop at feed files that are older than a merged file, if order comes from file names",
    )
    sequence_gaps: str = defined(
        ACCEPTED,
        "sequence.gaps",
        one_of("auto", "report", "fail", "ignore"),
        "auto",
        "sequences that have not arrived: `report`, `fail`, `ignore`; `auto` reports them unless more "
        "sequences are missing than have arrived",
    )
    control_suffix: str | None = defined(
        ACCEPTED,
        "feed.control.suffix",
        forms.SUFFIX,
        None,
        "every feed file has a control file beside it (`FILE.ctl` if this is `.ctl`); unless its rows, "
        "bytes and checksums match, nothing is merged ([details](control_files.md))",
    )


@dataclass(frozen=True)
class OutputSpec:
    """The fields and files of the result."""

    one_default: ClassVar[Setting] = Setting(
        FIELDS,
        "default.FIELD",
        forms.TEXT,
        None,
        "value of this field in rows that lack it",
        unset="NULL",
    )
    defaults: Mapping[str, str] = field(default_factory=dict)  # of fields that rows lack
    removed_fields: tuple[str, ...] = defined(
        FIELDS,
        "removed.fields",
        forms.TEXTS,
        None,
        "fields of the master that the result may lose, because the newest feed file lacks them; a CSV "
        "file that lacks others [stops the run](formats.md#when-schemas-differ)",
        otherwise=(),
    )
    format: str | None = defined(
        FORMATS,
        "output.format",
        forms.OUTPUT_FORMAT,
        None,
        "the format of the result",
        unset="the master's",
    )
    codec: str | None = defined(
        FORMATS,
        "output.codec",
        one_of("none", "snappy", "zstd", "gzip", "lz4"),
        None,
        "`none`, `snappy`, `zstd`, `gzip`, `lz4`",
        unset="by format",
    )
    schema: str | None = defined(
        FORMATS,
        "output.schema",
        forms.TEXT,
        None,
        "an Avro schema for the result: its path, or the JSON itself",
        unset="the newest feed file's",
    )
    nanos: str | None = defined(
        FORMATS,
        "nanos",
        one_of("reject", "keep"),
        None,
        "`reject`: write timestamps in microseconds, and reject a row with a finer one; `keep`: write them "
        "in their unit in the feed, such as nanoseconds or milliseconds",
        unset="`reject` in a versioned table, else `keep`",
    )
    partition_columns: str | None = defined(
        PARTITIONS,
        "partition.columns",
        one_of("path", "file"),
        None,
        "where files have a partition field: in the `path` alone, as Hive does, or in the `file`, too; delimited text "
        "always has it ([partitioned masters](partitions.md#fields-in-the-path))",
        unset="the master's, else `path`; of CSV and escaped text `file`",
    )
    symlink_manifest: bool = defined(
        WORKFLOW,
        "symlink.manifest",
        forms.FLAG,
        "false",
        "on an object store: maintain `_symlink_format_manifest/manifest`, the list of the live files, "
        "for Hive and Trino ([S3](s3.md))",
    )
    changes: bool = defined(
        ACCEPTED,
        "changes",
        forms.FLAG,
        "false",
        "write the rows that change, before and after, as a part of the output ([details](changes.md))",
    )

    @property
    def columns_of_partitions(self) -> str | None:
        """Return where typed files have the partition fields, None for where the master has them.

        A list of files for symlink tables does not say which partition a file is of.
        """
        return self.partition_columns or ("file" if self.symlink_manifest else None)
