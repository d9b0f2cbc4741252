"""The settings of runs: limits, the workflow, speed."""

from mutator.config import forms
from mutator.config.definitions.setting import Section, Setting
from mutator.config.forms import one_of

RUNS = (
    Section(
        "What a run accepts",
        (
            Setting(
                "allow.empty.master",
                forms.FLAG,
                "false",
                "the master of a first run may be missing, a directory without data files, or one with only empty ones",
            ),
            Setting(
                "allow.empty.feed",
                forms.FLAG,
                "false",
                "accept a feed without rows for an insert overwrite of everything, which then deletes every record",
                option="--allow-empty",
            ),
            Setting(
                "replace.damaged",
                forms.FLAG,
                "false",
                "let an insert overwrite replace files that cannot be read; the IDs of their records are then "
                "unknown, so their deletes are not remembered "
                "([repairs](insert_overwrite.md#repair-a-directory))",
                option="--replace-damaged",
            ),
            Setting(
                "master.adopt",
                forms.FLAG,
                "false",
                "read the master as one that another program wrote, and ignore its manifest",
            ),
            Setting(
                "reject.policy",
                one_of("fail", "quarantine"),
                "fail",
                "`quarantine`: set aside feed rows that cannot be read",
            ),
            Setting(
                "reject.limit",
                forms.WHOLE,
                "1000",
                "how many rows may be set aside, counted separately for the feed and the master",
            ),
            Setting(
                "master.reject.policy",
                one_of("fail", "quarantine"),
                "fail",
                "the same for rows of the master",
            ),
            Setting(
                "max.reject.fraction",
                forms.FRACTION,
                "0.5",
                "stop a run that would set aside a larger fraction of the rows of the feed, or of the master; "
                "`reject.limit` applies, too",
            ),
            Setting(
                "max.duplicate.fraction",
                forms.FRACTION,
                "0.1",
                "stop a run in which a larger fraction of the master's rows have the ID of another row: "
                "`id.field.ordinals` is probably wrong",
            ),
            Setting(
                "max.delete.fraction",
                forms.FRACTION,
                "0.5",
                "stop a run that would remove a larger fraction of the master, or all of it; `1` allows everything; "
                "an insert overwrite only has this limit if it is set",
            ),
            Setting(
                "max.absence.fraction",
                forms.FRACTION,
                "0.1",
                "stop a full snapshot (`sync.mode=full`) that lacks a larger fraction of the master's records; by "
                "default `max.delete.fraction`, if that is set",
            ),
            Setting(
                "tombstone.retention",
                forms.DURATION,
                None,
                "forget a tombstone after this time: `90d`, `12h`; of a versioned table, when it is compacted",
                unset="for ever",
            ),
            Setting(
                "before.horizon",
                one_of("insert", "fail"),
                "insert",
                "`fail`: stop at inserts that are older than a tombstone that was forgotten",
            ),
            Setting(
                "consumed.files",
                one_of("skip", "merge"),
                "skip",
                "`merge`: read feed files again that were already merged into this master",
            ),
            Setting(
                "consumed.retention",
                forms.DURATION,
                None,
                "forget the names of merged feed files after this time",
                unset="for ever",
            ),
            Setting(
                "reused.names",
                one_of("accept", "fail"),
                None,
                "a feed file with the name of a merged file but other content: `fail` (default if order comes "
                "from file names) or `accept`",
                unset="by order",
            ),
            Setting(
                "late.files",
                one_of("merge", "fail"),
                "merge",
                "`fail`: stop at feed files that are older than a merged file, if order comes from file names",
            ),
            Setting(
                "sequence.gaps",
                one_of("auto", "report", "fail", "ignore"),
                "auto",
                "sequences that have not arrived: `report`, `fail`, `ignore`; `auto` reports them unless more "
                "sequences are missing than have arrived",
            ),
            Setting(
                "changes",
                forms.FLAG,
                "false",
                "write the rows that change, before and after, as a part of the output ([details](changes.md))",
            ),
            Setting(
                "feed.control.suffix",
                forms.SUFFIX,
                None,
                "every feed file has a control file beside it (`FILE.ctl` if this is `.ctl`); unless its rows, "
                "bytes and checksums match, nothing is merged ([details](control_files.md))",
            ),
        ),
    ),
    Section(
        "Workflow",
        (
            Setting(
                "claim.min.age",
                forms.AGE,
                "5s",
                "minimum age of a feed file that a run claims",
            ),
            Setting(
                "claim.ready.suffix",
                forms.SUFFIX,
                None,
                "claim a feed file of any age as soon as a file with its name and this suffix is beside it",
            ),
            Setting(
                "bad.files",
                one_of("aside", "fail"),
                "aside",
                "a feed file that cannot be merged: `aside` merges the others without it, and moves it to `failed/` "
                "([which, and when](workflow.md#files-that-cannot-be-merged)); `fail` merges all files or none",
            ),
            Setting(
                "backup.keep",
                forms.WHOLE,
                "5",
                "how many older masters are kept",
            ),
            Setting(
                "changes.keep",
                forms.POSITIVE,
                None,
                "how many versions keep their [changed rows](changes.md#of-a-workflow) in `changes/`; older ones are "
                "removed after a commit",
                unset="all",
            ),
            Setting(
                "feed.filters",
                forms.FLAG,
                "true",
                "keep filters of the keys of merged feed files: [`mutator explain`](explain.md) then reads few of them",
            ),
            Setting(
                "symlink.manifest",
                forms.FLAG,
                "false",
                "on an object store: maintain `_symlink_format_manifest/manifest`, the list of the live files, "
                "for Hive and Trino ([S3](s3.md))",
            ),
            Setting(
                "lock.timeout",
                forms.DURATION,
                "60s",
                "assume that a run on another machine has died if it has shown no sign of life for this long",
            ),
            Setting(
                "compact.after",
                forms.DURATION,
                None,
                "if the target is a table, compact it after this time without feed files and versions, a few buckets "
                "at a time: `5m`; `0s`: after each run",
                unset="never",
            ),
        ),
    ),
    Section(
        "Reports",
        (
            Setting(
                "report.fields",
                forms.SHOWN,
                "all",
                "the fields whose values [reports](reports.md#values-that-must-not-be-shown) may show: `all`, `none`, "
                "some (`id,price`), or all but some (`-email,-phone`)",
            ),
        ),
    ),
    Section(
        "Speed",
        (
            Setting(
                "runner",
                one_of("auto", "local", "spark"),
                "auto",
                "run the tasks in processes of this machine (`local`) or on `spark`; `auto` selects `local` where "
                "no Spark master is configured and little is read; the report says which, and why",
                option="--runner",
            ),
            Setting(
                "num.reducer",
                forms.POSITIVE,
                None,
                "number of buckets, and thus of output files; in a partitioned master, number of tasks that group "
                "the feed by ID",
                unset="by size",
            ),
            Setting(
                "split.bytes",
                forms.SIZE,
                "64m",
                "how much one task reads",
            ),
            Setting(
                "bucket.bytes",
                forms.SIZE,
                "64m",
                "the target size of a bucket; buckets of more than twice that size are split",
            ),
            Setting(
                "memory.bytes",
                forms.MEMORY,
                "128m",
                "how much of the feed a task keeps in memory, at most `1g`; a larger share is merged in parts, by "
                "way of temporary files",
            ),
            Setting(
                "verify.fraction",
                forms.FRACTION,
                "0.05",
                "a run takes over files without mutations. It compares this fraction of the master's bytes with their "
                "checksums, files with the oldest check first; so each file is checked within 20 runs (1 / fraction); "
                "`0` checks none",
            ),
            Setting(
                "master.unique",
                forms.FLAG,
                "false",
                "promise that no ID has two rows in a master of another program; a small feed is then broadcast",
            ),
        ),
    ),
)
