"""The error catalogue of runs: exit code to the messages of its error kinds."""

RUNS: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "usage": "{what}",
        "config": "{where}: {faults}",
        "config.file": "{path}: cannot be read as a configuration: {why}; fix the file, or name another one",
        "snapshot.as.of": ("{snapshot.as.of={value}} is not possible: {why}"),
        "order.none": (
            "{path}: no run of mutator has decided the order of its rows yet; merge into it first: the "
            "settings of the first run decide it"
        ),
        "order.same": (
            "{path}: the order of its rows is {order} already, and to give it to them again would only forget deletes"
        ),
        "diff.op": (
            "{old}, {new}: the rows of both have {count} fields, which does not show whether field {field} is an op "
            "code; set {op.code.in.master=true} if it is, or {op.code.in.master=false} if only feeds have the op code"
        ),
        "explain.deletes": (
            "{path}: what marks deletes in {files} is not known: they were merged on {committed}, before a table was "
            "exported or the bridge made a text copy; give --op FIELD, or --op '' if they have no op codes, or --config"
        ),
        "path.missing": "{path}: there is no such {what}; check the path",
        "path.scheme": "{path}: '{scheme}' is not a known storage scheme; the known ones are: {known}",
        "path.extra": (
            "{path}: {scheme}:// needs packages that are not installed: pip install -e '.[{extra}]' in a checkout of "
            "mutator, or its wheel with [{extra}]"
        ),
        "extra": (
            "{what} needs {package}, which is not installed: pip install -e '.[{extra}]' in a checkout of mutator, or "
            "its wheel with [{extra}]"
        ),
        "module": (
            "{python} lacks the module {name}, which mutator needs; install mutator with its requirements there. With "
            "spark-submit, PYSPARK_DRIVER_PYTHON names the driver's Python; without it, PYSPARK_PYTHON does"
        ),
        "path.transport": (
            "{path}: {scheme}:// needs packages that are not installed: pip install 'smart_open[{extra}]'"
        ),
        "path.readonly": (
            "{path}: {scheme}:// can only be read, file by file; put master and output on disks, {shared}"
        ),
        "path.bucket": "{path}: there is no such bucket; create it, or fix the name",
        "path.base": (
            "{path}: is the base of a workflow: name {named}; feed files that arrive in its incr/ are merged with: "
            "mutator workflow run {word {path}}"
        ),
        "path.kind": "{path}: is a {what}, but only regular files are read; {cure}",
        "path.link": "{path}: is a symbolic link {where}; {cure}",
        "path.name": (
            "{path}: its name contains a control character, which no listing or report can show safely; rename the file"
        ),
        "path.hidden": "{path}: has {what}, and is never read; rename the file if it is a whole {role} file",
        "path.roles": "{path}: {roles} must have different paths; name another path for one of them",
        "path.inside": "{path}: the {role} is inside the {other_role}, {other}; name a path outside of that directory",
        "roles.swapped": (
            "{what}; master and feed are probably swapped: name {feed} as the master ({--master, or first in "
            "IN_PATHS}), and {master} as the feed{otherwise}"
        ),
        "master.empty": (
            "{path}: the master has no data files; check that it is the right directory, and mounted, or set "
            "{allow.empty.master=true} for the first run, whose result has the rows of the feed alone"
        ),
        "master.empty.files": (
            "{path}: the master has only empty files, as after an interrupted copy; check that it is the right "
            "directory, and complete, or set {allow.empty.master=true} for the first run, whose result has the rows of "
            "the feed alone"
        ),
        "master.bridge": (
            "{path}: mutator bridge wrote this directory, and the values of {fields} are in the names of its "
            "directories alone; merge into it with mutator bridge run --master"
        ),
        "master.missing": (
            "{path}: there is no master; check the path, or set {allow.empty.master=true} for the first run"
        ),
        "init.empty": (
            "{path}: has no rows, nor has the master, so nothing can be proposed; name a feed ({--feed}) or a master "
            "({--master}) with files that have rows"
        ),
        "init.exists": "{path}: exists; name another file with -o, overwrite it with --force, or print with -o -",
        "init.master": (
            "{path}: there is no master; check the path, or leave out {--master} if the feed is the first one"
        ),
        "width": "{where}: {what}; {cure}",
        "spark.missing": "cannot start a Spark session: {why}",
        "spark.python": (
            "the workers of this Spark session run {python}, which lacks {missing}: before the session starts, set "
            "PYSPARK_PYTHON to a Python that has it on every node, {own} for example, or ship it with the job "
            "(docs/spark-submit.md)"
        ),
        "spark.connect": (
            "this Spark session is a Spark Connect session, which has no RDDs; use a classic session, in a process "
            "without Spark Connect (spark.api.mode=classic, no SPARK_REMOTE)"
        ),
        "spark.connect.merge": (
            "Spark Connect does not run merges: a session of it has no RDDs; leave out the session and {runner=spark}, "
            "and this process merges paths, tables and DataFrames of Spark Connect"
        ),
        "spark.connect.rows": (
            "Table.dataframe(): a session of Spark Connect may not see the files of the table; "
            "session.createDataFrame(table.scan().to_arrow()) sends it the rows"
        ),
        "spark.collect": "{table}: Spark Connect does not send its rows: {why}{cure}",
        "partition.in.path": (
            "{path}: its files have {fields} in the names of their directories alone, which would be "
            "lost here; merge into it with mutator run, or write it with {partition.columns=file} first"
        ),
        "partition.directories": (
            "{path}: {partitioned.by} is {fields}, but {directory} is not that: {why}. Name the fields of its "
            "directories in {partitioned.by}, in this order, as Hive and Spark write them; or write its files anew"
        ),
        "partition.engine": ("{why}, but only the blocks engine merges a partitioned master; {cure}"),
    },
    3: {  # data
        "merge.value": (
            "field {field} of {record}: {value} {why}, which its merge function needs; nothing was published: correct "
            "the row, or give {csv.null} as its text if it is NULL, and run again; in a table, replace its record with "
            "{write.operation}"
        ),
        "sum.large": (
            "the sum of the field {field} of {record} is too large for its type, {type}; nothing "
            "was published: give the field a wider type, with {output.schema}, or if it is text with "
            "{field.merge.FIELD}, and run again"
        ),
        "order.row": (
            "the record with the ID {key} has no order value: {why}; correct its row, or name another field; if it is "
            "NULL, {null.order=lowest} makes it the oldest value"
        ),
        "order.rows": (
            "{path}: rows have no order value: {rows}; correct them, or name another field; if they are NULL, "
            "--null lowest, or null_order='lowest' in Python, makes them the oldest"
        ),
        "partition.empty": (
            "field {field} (partition) is '' or __HIVE_DEFAULT_PARTITION__ in a record, which the name of a directory "
            "cannot tell from NULL; set {partition.columns=file}"
        ),
        "master.twice": (
            "the master has several rows for {ids} that the feed mutates, for example {samples}; "
            "{master.unique=true} promises one row per ID: compare these rows; without that setting, the last row of "
            "each ID is kept, and the others are left out"
        ),
        "rejects": "{what}:\n{rows}\n{cure}",
        "damaged": "{path}: {quoting why}; the file is damaged: have it delivered again, or remove it from the feed",
        "compression": (
            "{path}: the name says {name}, but the content is {content}; give the file the suffix of its content, or "
            "have it delivered again"
        ),
        "compression.unknown": (
            "{path}: is {content}, which is not supported; deliver it as plain text, .gz, .bz2, .zst or .xz"
        ),
        "schema.field": "{path}: field {field} {quoting what}; fix the data, or the setting that names the field",
        "schema.lost": (
            "{path}: lacks {fields} of {the master}, and the fields of the newest feed file are those of the result, "
            "so all records would lose them; {cure}"
        ),
        "schema.type": (
            "field {field} is {one} in {path} and {other_type} in {other_path}: {why}; convert the field in one of "
            "them to the type of the other, where that is made, or leave the field out with {output.schema}"
        ),
        "schema.value": (
            "{path}: {quoting why}; a value cannot be converted to the type that this run writes: choose other types "
            "with output.schema"
        ),
        "format": "{path}: {what}; {cure}",
        "binary": (
            "{path}: is neither text nor Avro, Parquet or ORC: its first bytes are binary; have it delivered again in "
            "one of these formats, or remove it; or, if these are the values of its fields, set {input.format=text}"
        ),
        "markup": (
            "{path}: is {content}, and no data, as where a server answered with a page or an error; have it delivered "
            "again, or remove it; or, if a line is a row of delimited text all the same, set {input.format=text}"
        ),
        "encoding": (
            "{path}: is {what}; set {encoding={name}}, or {master.encoding={name}} for a master with another encoding "
            "than the feed{cure}"
        ),
        "changed": (
            "{path}: changed while it was being read (it had {before} bytes, {after} were read); finish "
            "writing files before the run starts"
        ),
        "changed.content": (
            "{path}: was rewritten after a run had claimed it, so nothing was published; write feed files under "
            "another name, rename them when they are whole, and run again"
        ),
        "changed.between": (
            "{paths}: a file changed during the run: when it was read again, because an executor was lost, it had rows "
            "of partition {partition}, which it did not have before; finish writing files before the run starts"
        ),
        "deletes": (
            "the run would remove {removed} of {the master}'s {records}, but {max.delete.fraction} is {fraction}: "
            "{hint}; if all of these deletes are intended, run again with {-D max.delete.fraction=1}"
        ),
        "absence": (
            "the snapshot lacks {absent} of {the master}'s {records}, which would be deleted, but "
            "{max.absence.fraction} is {fraction}: {hint}; if all of these deletes are intended, run again with {-D "
            "max.absence.fraction=1}"
        ),
        "duplicates": (
            "the {whose} has {duplicates} (rows with the ID of another row) among {rows} rows, so that {records} would "
            "remain, but {max.duplicate.fraction} is {fraction}: {hint}. If such rows are versions of one record, run "
            "again with {-D max.duplicate.fraction=1}, which leaves all but the last row of each ID out of the result"
        ),
        "horizon": (
            "{count} inserted records are older than {horizon}, the newest tombstone that has expired, so they may "
            "have been deleted before (for example {samples}): check that they were not; {-D before.horizon=insert} "
            "inserts them all, also those that were deleted"
        ),
    },
    4: {  # storage
        "storage": "{path}: {why}; check the path, its permissions and the free space",
        "storage.full": "{path}: {why}; free some space there, and run again",
        "storage.refused": "{path}: {why}; check the owner, the permissions and the attributes of it and its directory",
        "storage.quota": "{path}: {why}; remove files there, or have the quota raised, and run again",
        "storage.paused": "{path}: {why}; run again when the file system accepts changes",
        "storage.handles": "{path}: {why}; raise the limit of open files with ulimit -n, and run again",
        "storage.mount": (
            "{path}: is on another file system or mount than {other}, and files are renamed, never copied; make all "
            "directories of a base part of one mount, and deliver into incr/ by copying to another name and renaming"
        ),
        "storage.service": "{path}: {why}; check the address, the credentials and the service",
        "storage.slashes": (
            "{path}: a key with two slashes in succession, such as {key}, is not below any directory; move the object "
            "to {moved}, or name another directory"
        ),
        "storage.key": "{path}: is not UTF-8, as keys of objects must be; name another path",
        "storage.exists": "{path}: {why}; check the path, its permissions and the free space",
        "storage.missing": "{path}: {why}; check the path, its permissions and the free space",
        "commit.uncertain": (
            "{path}: it is not known whether version {version} was committed ({why}); nothing was removed, and the "
            "next command on this base finds out"
        ),
        "publish.uncertain": (
            "{path}: it is not known whether this file was written ({why}); nothing was removed: run again to find out"
        ),
        "sums": (
            "the run does not add up, so nothing was published: {problems}; run again, and report it if it happens "
            "twice"
        ),
        "receipt": (
            "{path}: {why}; the staged file differs from what its task wrote, so nothing was published; run again"
        ),
        "worker.killed": (
            "the system killed a worker process of this run, perhaps because memory ran out; nothing was published: "
            "give it more memory, or set a smaller {memory.bytes}, and run again"
        ),
        "scratch": (
            "{path}: {why}; a merge writes temporary files there, and nothing was published: free some space, or name "
            "another directory with SPARK_LOCAL_DIRS, and run again"
        ),
        "memory": (
            "a task of this run needs more memory than there is ({why}); nothing was published: set a smaller "
            "{memory.bytes}, and run again"
        ),
        "task": ("Spark gave up after its retries: {why}; fix that, or find the first failure in {log}, and run again"),
        "spark.lost": (
            "Spark's JVM has ended ({why}, see {log}); nothing was published. If it ran out of memory, give it more "
            "(SPARK_DRIVER_MEMORY=4g, or spark-submit --driver-memory), and run again"
        ),
        "report": "the report cannot be written ({why}), but {output} is published and complete",
    },
    5: {  # state
        "output.exists": "{path}: the output directory already exists; name a new one, or move this one away",
        "demo.exists": (
            "{path}: already exists, perhaps from an earlier demo; move it away, or name another directory, as in "
            "mutator demo DIR"
        ),
        "output.busy": (
            "{path}: another run is writing this output now ({staging}); wait for it, or name another output. If you "
            "know that it has ended, on a machine that cannot be seen from here, remove {staging}"
        ),
        "manifest.damaged": (
            "{path}: the manifest is damaged ({why}); {cure}, or set {master.adopt=true} to use the directory's files "
            "as an unmanaged master, which forgets tombstones, order values beside rows and which feed files were "
            "merged"
        ),
        "manifest.lost": (
            "{path}: the manifest cannot be put back ({why}); restore the directory from a copy, or set "
            "{master.adopt=true} to use its files as an unmanaged master, which forgets tombstones, order values "
            "beside rows and which feed files were merged"
        ),
        "manifest.newer": (
            "{path}: the manifest has format version {version}, but this program knows {known}; use a newer program"
        ),
        "manifest.files": (
            "{path}: the directory differs from its manifest: {what}; restore it from a copy, or set "
            "{master.adopt=true} to use the files that are there as an unmanaged master, which forgets tombstones, "
            "order values beside rows, which feed files were merged, and the rows of missing files"
        ),
        "manifest.spec": (
            "{path}: {the master} was written with {name} = {before}, but this run has {now}; use the same setting, or "
            "set {master.adopt=true} to start anew from its rows, which forgets tombstones: late rows of deleted "
            "records come back"
        ),
        "epoch.new": (
            "{path}: has rows of source {source}, and others are of {others}: the positions of a server are its own, "
            "so these rows may be older than they look, or newer. If the new one has begun after the others, run again "
            "with {-D order.epoch={later}}; if it goes on with their positions, with {-D order.epoch={same}}"
        ),
        "epoch.first": (
            "{path}: is the first feed of the place, and has rows of several sources: {sources}. The positions of a "
            "server are its own, so each one needs its epoch, the later one a higher one: run again with "
            "{-D order.epoch={later}} if they began in this order, with {-D order.epoch={earlier}} if in the "
            "opposite one, with {-D order.epoch={same}} if they share their positions"
        ),
        "epoch.several": (
            "{order.epoch={number}} does not say of which source it is, and the place has rows of {sources}; name "
            "each one, as in {-D order.epoch={again}}. Now they are of {order.epoch={now}}"
        ),
        "partition.tombstones": (
            "{path}: the master has tombstones of records without a partition, which {key.scope=partition} cannot use; "
            "set {key.scope=table}, or set {master.adopt=true} to start anew from its rows, which forgets tombstones"
        ),
        "manifest.damage": (
            "{path}: {quoting why}; {the master}'s file is damaged: restore it from a copy on another disk, because on "
            "one disk the datasets before and after it may have the same file, as hard links"
        ),
        "snapshot.before": (
            "the snapshot would delete {records} that it lacks and that are newer than every row of it, whose highest "
            "order value is {now}: {samples}. They came by deltas, which the snapshot may not contain yet: run a newer "
            "snapshot{as_of}; or, if these records were deleted before it was taken, run again with "
            "{-D allow.older.snapshot=true}"
        ),
        "snapshot.older": (
            "the snapshot's highest order value is {now}, but {the master} has already had one with {before}; if the "
            "older one is intended, run again with {-D allow.older.snapshot=true}, which reverts newer changes"
        ),
    },
    70: {  # a bug
        "bug": "{what}; this is a bug in mutator: please report it with this text",
    },
}
