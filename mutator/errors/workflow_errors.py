"""The error catalogue of workflows, and of runs over partitions or many tables: exit code to messages of kinds."""

MANY: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "many.nothing": "{path}: there is no record of an earlier run, so nothing to resume; run without --resume",
        "many.threads": (
            "PYSPARK_PIN_THREAD is false, so Spark cannot tell the jobs of one table from those of another; unset it"
        ),
    },
    5: {  # state
        "many.busy": "{path}: another run of these tables is at work and uses this record; wait for it, or stop it",
        "many.deadline": (
            "{table}: was stopped at its deadline, after {seconds} s, and nothing of it was published; give it more "
            "time, and run again with --resume"
        ),
        "many.feed": "{path}: another run is giving the feed files of this directory to its tables; wait for it",
        "many.record": (
            "{path}: the record cannot be read: {why}; use a newer program, or move the record away, and run without "
            "--resume"
        ),
    },
}
WORKFLOWS: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "partition.tree": (
            "{path}: {what}; name directories that contain only partition directories, such as store_id=12/"
        ),
        "base.none": (
            "{path}: is not the base of a workflow: it has neither master/ nor incr/; check the path, or create incr/, "
            "and master/ unless the target is a table"
        ),
        "base.place": (
            "{path}: is a {what}; it must be a directory of the base itself, because the workflow renames master/ and "
            "the directories beside it"
        ),
    },
    3: {  # data
        "split.none": (
            "no row of the feed ({count}) belongs to a partition; the first are:\n{rows}\nCompare "
            "--partitioned-by, the delimiter and the ordinals (they count from 0) with these rows"
        ),
        "split.names": (
            "{path} and {other} have the same name, so their parts would be written to the same directory; split them "
            "into different directories, or rename one of them"
        ),
    },
    4: {  # storage
        "claim.stuck": "{what}; the other feed files wait for it ({cause})",
        "publish.later": (
            "{path}: version {version} is committed, but moving everything into place failed: {why}; the next command "
            "on this base completes it"
        ),
    },
    5: {  # state
        "partition.masters": (
            "{path}: contains masters with manifests of their own (_mutator/): {partitions}; one run over all of them "
            "would forget their tombstones, order values beside rows and merged feed files: go on with a run for each "
            "partition, or set {master.adopt=true} to use only their rows and forget the rest"
        ),
        "partition.lost": (
            "{path}: lacks partitions that {writer} wrote: {partitions}; restore them from a copy, or, "
            "if they were removed on purpose, remove {record} there"
        ),
        "partition.record": (
            "{path}: the record of the partitions is damaged ({why}); restore it from a copy, or, if no partition is "
            "missing, remove it"
        ),
        "partition.resume": (
            "{path}: was started with another {what}, and its results so far are in {place}; remove that directory, or "
            "name another output, or run with the original one"
        ),
        "base.busy": (
            "{path}: {run}, process {process} on {host}, has been at work here since {since}; wait for it, or stop it. "
            "If that machine is gone, its lock expires after {lock.timeout}"
        ),
        "base.alone": (
            "{path}: this storage lets one process overwrite what another has created (it ignores conditional puts), "
            "so only one process may be at work here, and {run}, process {process} on {host}, has been since {since}. "
            "Wait for it; if you know that it has ended, remove {lock}"
        ),
        "base.target": (
            "{path}: its feed files go into the table {target}, not into {given}; leave --table out. To change the "
            "target of this base, first remove {note}"
        ),
        "base.target.lost": (
            "{path}: {note} says that its feed files go into the table {target}, and there is no table; if it has "
            "moved, name its new path with --table"
        ),
        "base.target.damaged": (
            "{path}: this note of the table that the feed files of the base go into is damaged; remove it, and name "
            "the table with --table"
        ),
        "base.targets": (
            "{path}: has a master, and {table} is a versioned table, so it is unclear which of them the feed files go "
            "into; move one of them away, or use a base without a master for the table"
        ),
        "base.lost": (
            "{path}: another {what} version {version} in the meantime, so the result of this run is out of date and "
            "was removed; {cure}"
        ),
        "base.master": (
            "{path}: is not the dataset of version {version} ({dataset}): {why}; no directory in output/ or backup/ is "
            "it, either; put that dataset back from a copy of the base{cures}"
        ),
        "base.log": (
            "{path}: has old masters, but the log, _mutator/log/, is missing; restore the log from a copy of the base, "
            "or start a new base with a copy of the newest dataset (master/; on S3, in output/) as its master/"
        ),
        "base.files": "{path}: differs from its manifest: {what}; {cures}",
        "base.damage": "{path}: {why}; the master's file is damaged: {cures}",
        "base.version": "{path}: {why}; {others}",
        "log.damaged": (
            "{path}: the log entry is damaged ({why}); restore it from a copy of the base, or start a new base with a "
            "copy of the newest dataset (master/; on S3, in output/) as its master/"
        ),
        "log.newer": (
            "{path}: the log entry has format version {version}, but this program knows {known}; use a newer program"
        ),
        "split.damaged": (
            "{path}: the record of a split feed is damaged ({why}); remove the directory, and split the feed again"
        ),
        "split.files": (
            "{path}: the split feed is not as mutator partition left it: {what}; split the feed again, into a new "
            "directory"
        ),
        "split.unrecorded": (
            "{path}: the split feed has files that mutator partition did not write: {names}; move them out of the "
            "directory; to merge their rows as well, split them together with the other feed files, into a new "
            "directory"
        ),
    },
}
