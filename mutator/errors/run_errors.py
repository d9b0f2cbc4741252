"""The kinds of errors of runs and workflows: exit code and text; ``exceptions`` makes errors of them."""

from __future__ import annotations

__all__ = ["RUNS"]

RUNS: dict[str, tuple[int, str]] = {
    # 2: usage and configuration
    "usage": (2, "{what}"),
    "config": (2, "{where}: {faults}"),
    "config.file": (2, "{path}: the configuration cannot be read: {why}; mend the file, or name another one"),
    "path.missing": (2, "{path}: there is no such {what}; check the path"),
    "path.scheme": (2, "{path}: '{scheme}' is not a known kind of storage; known are: {known}"),
    "path.extra": (
        2,
        "{path}: {scheme}:// needs packages that are not installed: pip install 'mutator[{extra}]'",
    ),
    "path.transport": (
        2,
        "{path}: {scheme}:// needs packages that are not installed: pip install 'smart_open[{extra}]'",
    ),
    "path.readonly": (
        2,
        "{path}: {scheme}:// is only read, file by file; master and output must be on disks, hdfs:// or s3://",
    ),
    "path.bucket": (2, "{path}: there is no such bucket; make it, or mend the name"),
    "path.kind": (
        2,
        "{path}: is a {what}, and only regular files are read; {cure}",
    ),
    "path.name": (
        2,
        "{path}: the name holds a control character, which no listing or report can show safely; rename the file",
    ),
    "path.hidden": (
        2,
        "{path}: names that start with '_' or '.' are never read; rename the file if it is a feed file",
    ),
    "path.roles": (2, "{path}: {roles} must be different places; name another directory for one of them"),
    "master.missing": (
        2,
        ("{path}: there is no master; name its directory, or set allow.empty.master=true for the first run"),
    ),
    "width": (2, "{where}: {what}; {cure}"),
    "spark.missing": (2, "no Spark session can be started: {why}"),
    "spark.connect": (
        2,
        (
            "this Spark session is a Spark Connect session, which has no RDDs; use a classic session "
            "(spark.api.mode=classic, and no --remote)"
        ),
    ),
    # 3: data
    "master.twice": (
        3,
        (
            "the master has several rows of {count} IDs that the feed mutates, for example {samples}; "
            "master.unique=true promises that it has none: leave it out, and the last row of each ID is kept"
        ),
    ),
    "rejects": (
        3,
        "{count} {side} rows cannot be read as records (limit {limit}); the first are:\n{samples}\nMend the rows{cure}",
    ),
    "damaged": (3, "{path}: {why}; the file is damaged: have it delivered again, or take it out of the feed"),
    "compression": (
        3,
        "{path}: the name says {name} and the content is {content}; give the file the suffix of its content",
    ),
    "compression.unknown": (
        3,
        "{path}: is {content}, which is not read here; deliver it as plain text, .gz, .bz2, .zst or .xz",
    ),
    "schema.field": (3, "{path}: field {field} {what}; mend the file, or the setting that names the field"),
    "schema.directory": (
        3,
        (
            "{path}: field {field} is missing: it stands in the name of the directory alone, as in tables of Hive, and "
            "rows must hold it; write the files with it, or have mutator bridge export make such files"
        ),
    ),
    "schema.type": (
        3,
        (
            "field {field} is {one} in {path} and {other} in {other_path}: {why}; have one of them delivered as the "
            "other's type, or leave the field out, with output.schema"
        ),
    ),
    "schema.value": (
        3,
        "{path}: {why}; a value cannot be what this run would make of it: name other types with output.schema",
    ),
    "format": (3, "{path}: {what}; {cure}"),
    "encoding": (3, "{path}: the file is {encoding} text; convert it to a single-byte encoding or UTF-8"),
    "changed": (
        3,
        (
            "{path}: the file changed while it was read (it had {before} bytes, {after} were read); let it be written "
            "whole before the run"
        ),
    ),
    "changed.between": (
        3,
        (
            "{paths}: a file changed during the run: read again, because an executor was lost, it has rows of the "
            "partition {partition}, which it had not before; let files be written whole before the run"
        ),
    ),
    "split.names": (
        3,
        (
            "{path} and {other} have one name, and what is split of them would lie in one place; split them to "
            "directories of their own, or rename one"
        ),
    ),
    "sequence.missing": (
        3,
        (
            "{path}: order comes from file names, and this name has no sequence: digits after the last '_' of the "
            "stem, as in ups_prod_1427761080.txt; rename the file, or set temporal.ordering.field.ordinal"
        ),
    ),
    "feed.empty": (3, "{path}: sync.mode=full needs a complete snapshot, and the feed has no rows; {cure}"),
    "feed.sequences": (
        3,
        (
            "sync.mode=full takes one snapshot, and the feed files have different sequences ({sequences}); "
            "run one snapshot at a time, oldest first"
        ),
    ),
    "deletes": (
        3,
        (
            "the run would remove {removed} of {master} master rows, and max.delete.fraction is {fraction}; "
            "if that is meant, run again with -D max.delete.fraction=1"
        ),
    ),
    "horizon": (
        3,
        (
            "{count} inserted records are older than {horizon}, the newest tombstone that has expired, so they may "
            "have been deleted before (for example {samples}); accept them with -D before.horizon=insert"
        ),
    ),
    "control.missing": (
        3,
        "{paths}: has no control file (feed.control.suffix={suffix}); wait for it, or leave feed.control.suffix out",
    ),
    "control.orphan": (
        3,
        "{paths}: a control file whose feed file is not in the feed; wait for that and name it, or take this one away",
    ),
    "control.unusable": (
        3,
        "{path}: the control file cannot be used: {why}; it needs lines like rows=120, or one as sha256sum writes it",
    ),
    "control.differs": (3, "{what}; have the feed file delivered again, and its control file with it"),
    # 4: storage
    "storage": (4, "{path}: {why}; see to the path, its rights and the space that is left"),
    "storage.service": (4, "{path}: {why}; see to the address, the credentials and the service"),
    "storage.exists": (4, "{path}: {why}; see to the path, its rights and the space that is left"),
    "storage.missing": (4, "{path}: {why}; see to the path, its rights and the space that is left"),
    "commit.uncertain": (
        4,
        (
            "{path}: whether version {version} was committed is not known ({why}); nothing was removed, and the next "
            "command of this base finds out"
        ),
    ),
    "publish.uncertain": (
        4,
        "{path}: whether it was written is not known ({why}); nothing was removed: run again, and it is found out",
    ),
    "publish.later": (
        4,
        (
            "{path}: version {version} is committed, and putting everything in its place failed: {why}; the next "
            "command of this base goes on with it"
        ),
    ),
    "sums": (
        4,
        "the run does not add up, and nothing was published: {problems}; run again, and report it if it happens twice",
    ),
    "receipt": (
        4,
        "{path}: {why}; the staged file is not what its task wrote, and nothing was published; run again",
    ),
    "task": (
        4,
        "Spark gave up after its retries: {why}; mend that, or find the first failure in Spark's log, and run again",
    ),
    "spark.lost": (
        4,
        (
            "Spark's JVM has ended ({why}); nothing was published. If it ran out of memory, give it more "
            "(SPARK_DRIVER_MEMORY=4g, or spark-submit --driver-memory), and run again"
        ),
    ),
    "report": (4, "the report cannot be written ({why}), and {output} is published as it should be"),
    # 5: state
    "output.exists": (
        5,
        "{path}: the output directory exists already; name a new one, or move this one away",
    ),
    "output.busy": (
        5,
        (
            "{path}: another run is writing this output now ({staging}); wait for it, or name another output. "
            "If you know that it has ended, on a machine that cannot be seen from here, remove what is named"
        ),
    ),
    "partition.tree": (
        2,
        "{path}: {what}; name directories that hold partition directories and nothing else, as in store_id=12/",
    ),
    "partition.masters": (
        5,
        (
            "{path}: holds masters with manifests of their own (_mutator/): {partitions}; one run over all of them "
            "would forget their tombstones, row sequences and merged feed files: go on with a run for each partition, "
            "or set master.adopt=true to take their rows alone and forget all that"
        ),
    ),
    "partition.resume": (
        5,
        (
            "{path}: was begun with another {what}, and what was made by then is in {place}; remove that, or name "
            "another output, or run with what it was begun with"
        ),
    ),
    "base.none": (
        2,
        "{path}: is no base of a workflow: it has neither master/ nor incr/; check the path, or make them",
    ),
    "base.place": (
        2,
        (
            "{path}: is a {what}; it must be a directory of the base itself, because master/ and the places around it "
            "change by getting other names"
        ),
    ),
    "base.busy": (
        5,
        (
            "{path}: {run}, process {process} on {host}, is at work here since {since}; wait for it, or end it. "
            "If that machine is gone, its lock is free when lock.timeout has passed"
        ),
    ),
    "base.alone": (
        5,
        (
            "{path}: this storage lets one process overwrite what another has created (it does not honour conditional "
            "puts), so only one may be at work here, and {run}, process {process} on {host}, is since {since}. Wait "
            "for it; if you know that it has ended, remove {lock}"
        ),
    ),
    "base.lost": (
        5,
        (
            "{path}: another run committed version {version} meanwhile, so this one's result is out of date and was "
            "removed; its feed files are back in incr/: run again"
        ),
    ),
    "base.master": (
        5,
        (
            "{path}: is not the dataset of version {version} ({dataset}), and no directory in output/ or backup/ is; "
            "put it back, or make an older version the master: mutator workflow restore BASE --to VERSION"
        ),
    ),
    "base.log": (
        5,
        (
            "{path}: there are old masters in backup/, and the log, _mutator/log/, is not there; put it back from "
            "a copy, or begin anew: move backup/, archive/ and output/ away"
        ),
    ),
    "base.version": (5, "{path}: {why}; mutator workflow history shows the versions that can be restored"),
    "log.damaged": (5, "{path}: the log entry is damaged ({why}); restore it from a copy of the base"),
    "log.newer": (
        5,
        "{path}: the log entry has format version {version}, and this program knows {known}; use a newer program",
    ),
    "feed.reused": (
        3,
        (
            "{path}: a feed file of this name was merged before with another content ({before} bytes then, {after} "
            "now){why}; give the new file a name of its own, or accept it with -D reused.names=accept"
        ),
    ),
    "feed.late": (
        3,
        (
            "{paths}: older than what was merged before (sequence {last}), and late.files=fail; take it out of the "
            "feed, or merge it record by record with -D late.files=merge"
        ),
    ),
    "feed.gaps": (
        3,
        (
            "these sequences have not arrived: {gaps}; sequence.gaps=fail: wait for the files, or go on without them "
            "with -D sequence.gaps=report"
        ),
    ),
    "manifest.damaged": (
        5,
        (
            "{path}: the manifest is damaged ({why}); restore it from a copy, or set master.adopt=true to take the "
            "directory's files as an unmanaged master (tombstones and row sequences are then forgotten)"
        ),
    ),
    "split.damaged": (
        5,
        "{path}: the record of a split feed is damaged ({why}); remove the directory, and split the feed again",
    ),
    "manifest.newer": (
        5,
        "{path}: the manifest has format version {version}, and this program knows {known}; use a newer program",
    ),
    "manifest.files": (
        5,
        (
            "{path}: the directory is not what its manifest says: {what}; restore it, or set master.adopt=true to take "
            "the files that are there as an unmanaged master (tombstones, row sequences and the rows of files that are "
            "missing are then forgotten)"
        ),
    ),
    "manifest.spec": (
        5,
        (
            "{path}: the master was written with {name} = {before}, and this run has {now}; "
            "use the same setting, or set master.adopt=true to start anew from its rows"
        ),
    ),
    "partition.tombstones": (
        5,
        (
            "{path}: the master remembers deletes whose records have no partition, which key.scope=partition needs; "
            "use key.scope=table, or set master.adopt=true to start anew from its rows"
        ),
    ),
    "partition.engine": (
        2,
        (
            "{why}, and a partitioned master is merged by the block; give rows a delimiter of one byte, and leave "
            "--engine out"
        ),
    ),
    "manifest.damage": (5, "{path}: {why}; the master's file is damaged: restore it from a copy"),
    "snapshot.older": (
        5,
        (
            "the snapshot's highest order value is {now}, and the master has already had one with {before}; "
            "if the older one is meant, run again with -D allow.older.snapshot=true"
        ),
    ),
    # 70: a bug
    "bug": (70, "{what}; this is a bug of mutator: please report it with this text"),
}
