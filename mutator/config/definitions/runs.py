"""What a run does, where it stops, what it keeps, and how fast it is."""

from dataclasses import field

from mutator.config import forms
from mutator.config.definitions.setting import ACCEPTED, DELETES, REPORTS, SPEED, WORKFLOW, Setting, defined
from mutator.config.forms import one_of
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.field_choice import FieldChoice


@dataclass(frozen=True)
class OperationSpec:
    """What the feed does to the master as a whole."""

    reorders: bool = field(default=False, kw_only=True)  # there is no feed, and the master gets another order
    name: str = defined(
        DELETES,
        "write.operation",
        one_of("apply", "insert_overwrite", "insert_overwrite_table"),
        "apply",
        "`insert_overwrite`: replace the partitions of the feed's winners; "
        "`insert_overwrite_table`: replace everything ([insert overwrite](insert_overwrite.md))",
    )
    sync_mode: str = defined(
        DELETES,
        "sync.mode",
        one_of("partial", "full"),
        "partial",
        "`full`: the feed is one complete snapshot, and records that it lacks are deleted",
    )
    replace_damaged: bool = defined(
        ACCEPTED,
        "replace.damaged",
        forms.FLAG,
        "false",
        "let an insert overwrite replace files that cannot be read; the IDs of their records are then "
        "unknown, so their deletes are not remembered "
        "([repairs](insert_overwrite.md#repair-a-directory))",
        option="--replace-damaged",
    )

    @property
    def full(self) -> bool:
        """Return whether the feed is one complete snapshot."""
        return self.sync_mode == "full"

    @property
    def overwrites(self) -> bool:
        """Return whether the feed replaces partitions, or everything."""
        return self.name != "apply"


@dataclass(frozen=True)
class LimitSpec:
    """Conditions under which a run stops."""

    allow_empty_feed: bool = defined(
        ACCEPTED,
        "allow.empty.feed",
        forms.FLAG,
        "false",
        "accept a feed without rows for an insert overwrite of everything, which then deletes every record",
        option="--allow-empty",
    )
    allow_older_snapshot: bool = defined(
        DELETES,
        "allow.older.snapshot",
        forms.FLAG,
        "false",
        "accept a full snapshot that is older than the last one",
    )
    reject_policy: str = defined(
        ACCEPTED,
        "reject.policy",
        one_of("fail", "quarantine"),
        "fail",
        "`quarantine`: set aside feed rows that cannot be read",
    )
    reject_limit: int = defined(
        ACCEPTED,
        "reject.limit",
        forms.WHOLE,
        "1000",
        "how many rows may be set aside, counted separately for the feed and the master",
    )
    master_reject_policy: str = defined(
        ACCEPTED,
        "master.reject.policy",
        one_of("fail", "quarantine"),
        "fail",
        "the same for rows of the master",
    )
    max_reject_fraction: float = defined(
        ACCEPTED,
        "max.reject.fraction",
        forms.FRACTION,
        "0.5",
        "stop a run that would set aside a larger fraction of the rows of the feed, or of the master; "
        "`reject.limit` applies, too",
    )
    max_duplicate_fraction: float = defined(
        ACCEPTED,
        "max.duplicate.fraction",
        forms.FRACTION,
        "0.1",
        "stop a run in which a larger fraction of the master's rows have the ID of another row: "
        "`key` is probably wrong",
    )
    max_delete_fraction: float = defined(
        ACCEPTED,
        "max.delete.fraction",
        forms.FRACTION,
        "0.5",
        "stop a run that would remove a larger fraction of the master, or all of it; `1` allows everything; "
        "an insert overwrite only has this limit if it is set",
    )
    max_absence_fraction: float = defined(
        ACCEPTED,
        "max.absence.fraction",
        forms.FRACTION,
        "0.1",
        "stop a full snapshot (`sync.mode=full`) that lacks a larger fraction of the master's records; by "
        "default `max.delete.fraction`, if that is set",
    )
    before_horizon: str = defined(
        ACCEPTED,
        "before.horizon",
        one_of("insert", "fail"),
        "insert",
        "`fail`: stop at inserts that are older than a tombstone that was forgotten",
    )


@dataclass(frozen=True)
class RetentionSpec:
    """Seconds for which a master remembers what it no longer has. None: for ever."""

    tombstones: int | None = defined(
        ACCEPTED,
        "tombstone.retention",
        forms.DURATION,
        None,
        "forget a tombstone after this time: `90d`, `12h`; of a versioned table, when it is compacted",
        unset="for ever",
        decides=True,
    )
    consumed: int | None = defined(
        ACCEPTED,
        "consumed.retention",
        forms.DURATION,
        None,
        "forget the names of merged feed files after this time",
        unset="for ever",
    )


@dataclass(frozen=True)
class HistorySpec:
    """Whether a table keeps all versions of its records, and which fields make one."""

    mode: str = defined(
        DELETES,
        "history",
        forms.HISTORY,
        "off",
        "`on`: a [table with history](history.md) keeps every version of each record, with the times between "
        "which it was valid; set when the table is created. A workflow keeps such a table beside its master. "
        "`scd.type = 2` is another name of `on`",
    )
    tracked: FieldChoice | None = defined(
        DELETES,
        "history.track",
        forms.FIELD_CHOICE,
        None,
        "the fields of which a change makes a [version](history.md#which-fields-make-a-version): `price,name`, or `all "
        "except loaded_at`",
        unset="all but those of the order value, and of `noop.ignore`",
    )
    valid_from: str | None = defined(
        DELETES,
        "history.valid.from",
        forms.TEXT,
        None,
        "the field of `order_by` that has the [times](history.md#times) of versions, where there are several fields",
        unset="the only one",
    )
    columns: tuple[str, ...] = defined(
        DELETES,
        "history.columns",
        forms.HISTORY_COLUMNS,
        "valid_from,valid_to,is_current,ended",
        "the names of the [columns of versions](history.md#names), of which the last two may be left out; `dbt` and "
        "`autocdc` stand for the names of these systems",
    )

    @property
    def is_kept(self) -> bool:
        """Whether the table keeps it."""
        return self.mode == "on"


@dataclass(frozen=True)
class WorkflowSpec:
    """How a base directory claims feed files, and what it keeps. Times are in seconds."""

    claim_min_age: float = defined(
        WORKFLOW,
        "claim.min.age",
        forms.AGE,
        "5s",
        "minimum age of a feed file that a run claims",
    )
    claim_ready_suffix: str | None = defined(
        WORKFLOW,
        "claim.ready.suffix",
        forms.SUFFIX,
        None,
        "claim a feed file of any age as soon as a file with its name and this suffix is beside it",
    )
    bad_files: str = defined(
        WORKFLOW,
        "bad.files",
        one_of("aside", "fail"),
        "aside",
        "a feed file that cannot be merged: `aside` merges the others without it, and moves it to `failed/` "
        "([which, and when](workflow.md#files-that-cannot-be-merged)); `fail` merges all files or none",
    )
    backup_keep: int = defined(
        WORKFLOW,
        "backup.keep",
        forms.WHOLE,
        "5",
        "how many older masters are kept",
    )
    changes_keep: int | None = defined(
        WORKFLOW,
        "changes.keep",
        forms.POSITIVE,
        None,
        "how many versions keep their [changed rows](changes.md#of-a-workflow) in `changes/`; older ones are "
        "removed after a commit",
        unset="all",
    )
    feed_filters: bool = defined(
        WORKFLOW,
        "feed.filters",
        forms.FLAG,
        "true",
        "keep filters of the keys of merged feed files: [`mutator explain`](explain.md) then reads few of them",
    )
    lock_timeout: int = defined(
        WORKFLOW,
        "lock.timeout",
        forms.DURATION,
        "60s",
        "assume that a run on another machine has died if it has shown no sign of life for this long",
    )
    compact_after: int | None = defined(
        WORKFLOW,
        "compact.after",
        forms.DURATION,
        None,
        "if the target is a table, compact it after this time without feed files and versions, a few buckets "
        "at a time: `5m`; `0s`: after each run",
        unset="never",
    )


@dataclass(frozen=True)
class EffortSpec:
    """Settings that change only the speed."""

    runner: str = defined(
        SPEED,
        "runner",
        one_of("auto", "local", "spark"),
        "auto",
        "run the tasks in processes of this machine (`local`) or on `spark`; `auto` selects `local` where "
        "no Spark master is configured and little is read; the report of `-v` says which, and why",
        option="--runner",
    )
    num_reducer: int | None = defined(
        SPEED,
        "num.reducer",
        forms.POSITIVE,
        None,
        "number of buckets, and thus of output files; in a partitioned master, number of tasks that group "
        "the feed by ID",
        unset="by size",
    )
    split_bytes: int = defined(
        SPEED,
        "split.bytes",
        forms.SIZE,
        "64m",
        "how much one task reads",
    )
    bucket_bytes: int = defined(
        SPEED,
        "bucket.bytes",
        forms.SIZE,
        "64m",
        "the target size of a bucket; buckets of more than twice that size are split",
    )
    memory_bytes: int = defined(
        SPEED,
        "memory.bytes",
        forms.MEMORY,
        "128m",
        "how much of the feed a task keeps in memory, at most `1g`; a larger share is merged in parts, by "
        "way of temporary files",
    )
    verify_fraction: float = defined(
        SPEED,
        "verify.fraction",
        forms.FRACTION,
        "0.05",
        "a run takes over files without mutations. It compares this fraction of the master's bytes with their "
        "checksums, files with the oldest check first; so each file is checked within 20 runs (1 / fraction); "
        "`0` checks none",
    )
    master_unique: bool = defined(
        SPEED,
        "master.unique",
        forms.FLAG,
        "false",
        "promise that no ID has two rows in a master of another program; a small feed is then broadcast",
    )


SHOWN = Setting(
    REPORTS,
    "report.fields",
    forms.SHOWN,
    "all",
    "the fields whose values [reports](reports.md#values-that-must-not-be-shown) may show: `all`, `none`, "
    "some (`id,price`), or all but some (`-email,-phone`)",
    decides=True,
)
