"""The error catalogue of versioned tables: exit code to the messages of its error kinds."""

VERSIONS: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "table.missing": "{path}: is not a versioned table; {cure}",
        "table.inside": "{path}: is within the table {table}, where only that table has files; name another path",
        "path.table": (
            "{path}: is a versioned table; use the commands mutator table …, or export a dataset from it with: mutator "
            "table export {word {path}} DIR (in Python: Table.export)"
        ),
        "feed.table": (
            "{path}: is a versioned table, and no feed; to merge feed files into it, name it before {--feed}: mutator "
            "table apply {word {path}} --feed FEED (in Python: Table.apply); to merge its rows, export them with: "
            "mutator table export {word {path}} DIR (in Python: Table.export)"
        ),
        "table.format": "{output.format={format}}: the files of a table are Parquet; leave the setting out",
        "table.history": "{history=on}: {why}; {cure}",
        "table.history.none": (
            "{path}: the table was created without history, so it has no {what}; create another one with {history=on}"
        ),
        "table.valid.at": "{path}: the time {value} {why}, as the values of its order field are; give one of them",
        "table.export.empty": "{path}: version {version} has no rows and no schema yet, so it cannot be exported",
        "table.frame.empty": "{path}: version {version} has no rows and no schema yet, so it is no DataFrame",
        "table.frame.option": "format mutator: option {option}; expected is {known}",
        "table.frame.spark": (
            "format mutator needs Spark 4.1 or newer, and this session has {version}; use Table.dataframe() instead"
        ),
        "table.frame.type": (
            "column {column} is of type {type}, which Spark does not have; read the rows by Table.scan(), or by "
            "Table.rdd() on Spark{cure}"
        ),
        "table.changes.order": (
            "{path}: the changes from version {start} to {end} run backwards; exchange the two versions"
        ),
        "table.changes.field": (
            "{path}: its rows have a field {name}, which is also the name of a field of changes; "
            "compare two scans instead"
        ),
        "table.version": (
            "{path}: version {version} does not exist; the earliest version is {earliest}, and the newest is {newest}"
        ),
        "table.bookmark.unknown": (
            "{path}: the table has no bookmark {name}; set one with: mutator table bookmark {word {path}} "
            "{word {name}} --version V (in Python: Table.bookmark)"
        ),
        "table.bookmark.gone": (
            "{path}: the changes after version {version}, up to which the reader of bookmark {name} has read, were "
            "cleaned; set the bookmark to the newest version with: mutator table bookmark {word {path}} "
            "{word {name}} (in Python: Table.bookmark), and then read all rows of the version that it prints"
        ),
        "table.tag.unknown": "{path}: the table has no tag {name}; its tags are: {known}",
        "table.version.gone": (
            "{path}: version {version} is gone, because the table was cleaned; the earliest version is {earliest}, and "
            "the newest is {newest}"
        ),
        "table.changes.gone": (
            "{path}: the changes after version {version} are gone, because the table was cleaned, and a tag keeps only "
            "its rows; the earliest changes are those after version {earliest}, and the newest version is {newest}"
        ),
        "table.time": (
            "{path}: at {time} there was no version that is left; the earliest is {earliest}, of {since}, and the "
            "newest is {newest}, of {until}"
        ),
        "table.time.text": "{text} is not a time; write it in ISO 8601, for example 2026-01-31T12:00:00Z",
        "table.columns.partition": (
            "{path}: {name} is a partition of the table and no column; use column {source}, which decides the partition"
        ),
        "table.columns": "{path}: the table has no column {column}{near}; its columns are {known}",
        "table.columns.twice": "{path}: column {column} is named twice; name each column once",
        "table.buckets": "{path}: a table with its rows has {found}, not {wanted}, because {why}",
        "table.compact.where": (
            "{path}: no partition field is made of column {column}, and a compaction writes whole partitions; {known}"
        ),
        "table.filter": (
            "the filter {text} cannot be read at {part}; write conditions such as price > 5 and name = 'x' and "
            "note is not null"
        ),
        "table.literal": "the filter compares column {column} with {literal}, which {why}",
        "table.operator": "the filter compares column {column} of type {type}, for which only `is null` and "
        "`is not null` are possible",
        "table.key": "{path}: the key {key} has {found}, and the key of the {what} has {width}: {names}",
        "table.key.value": (
            "{path}: {value} cannot be a value of key field {name}: it {why}; give a value of type {type}"
        ),
        "table.rows.read": (
            "these rows were read before, and a scan can be read only once; call scan() or changes() again, or keep "
            "what to_arrow() returns"
        ),
        "table.partition": "{path}: the table has no partition {partition}; {cure}",
        "table.spec": (
            "{path}: the table's {name} is {before}, but this apply has {now}; leave the setting out, because it is "
            "the same for all versions of a table, or create another table"
        ),
    },
    5: {  # state
        "table.exists": "{path}: already exists; {cure}",
        "table.output": "{path}: already exists; name a new file, or move this one away",
        "table.export": "{path}: {why}; name a new directory for the export, such as {path}-export",
        "output.exchange": (
            "{path}: exists, and its file system cannot exchange two directories in one step, so that a kill could "
            "leave neither; name a new directory"
        ),
        "table.changes.damaged": (
            "{path}: this file of the table is damaged ({why}), and the changes need rows of it that an overwrite "
            "replaced; read all rows of version {version}, and the changes after it"
        ),
        "table.changes.lost": (
            "{path}: version {version} replaced {lost} of files whose key indexes were damaged, so their keys are not "
            "known, and its changes are not complete; read all rows of a version from {version} on, and the changes "
            "after it"
        ),
        "table.overwrite.tombstones": (
            "{path}: this key index is damaged, and its file has deletes of partitions that are not replaced; make it "
            "again with: mutator table verify --repair {word {table}} (in Python: Table.verify with repair)"
        ),
        "table.keys": ("{path}: its key index cannot be written, because {why}; create the table with more buckets"),
        "table.counts": (
            "{path}: the rows of version {version} are not as many as its log entry says; find the damaged file with: "
            "mutator table verify {word {path}} (in Python: Table.verify)"
        ),
        "table.log.damaged": (
            "{path}: the log entry of the table is damaged ({why}); restore it from a copy of the table, because no "
            "other file has what it says"
        ),
        "table.log.archive": (
            "{path}: this archive of the entries {first} to {last} of the log is damaged ({why}); restore it from a "
            "copy of the table, because no other file has what they say; the rows of the versions that are left do not "
            "depend on it"
        ),
        "table.log.lost": (
            "{path}: this log entry is missing, although {witness} is of version {version} or later; restore it, or "
            "the archive that had it, from a copy of the table, or if {witness} is of another table, remove that file"
        ),
        "table.log.replaced": (
            "{path}: this log entry {what} since this process opened the table; if the table was removed or created "
            "again, start the command again, or else restore the entry from a copy of the table"
        ),
        "table.log.other": (
            "{path}: this log entry is not the one that {witness} names; restore it from a copy of the table, or if "
            "{witness} is of another table, remove that file"
        ),
        "table.log.newer": (
            "{path}: the log entry has format version {version}, but this program knows {known}; use a newer program"
        ),
        "table.file": ("{path}: this file of the table is damaged ({why}); {cure}"),
        "table.outrun": (
            "{path}: other writers changed the same records in the meantime, {count} times, so the result is out of "
            "date and was removed; run again, or let fewer writers work at the same time"
        ),
        "table.outrun.compact": (
            "{path}: other writers were always faster, so the compacted files were removed; run again, or let fewer "
            "writers work at the same time"
        ),
        "table.outrun.verify": (
            "{path}: cleanings always removed files before they were verified; run again while nothing cleans the "
            "table, or clean it with a longer --grace"
        ),
        "table.outrun.commit": (
            "{path}: other writers were always faster, so nothing was changed; run again, or let fewer writers work at "
            "the same time"
        ),
        "table.outrun.bookmark": (
            "{path}: other readers of the bookmark were always faster, so it was left as it is; run again, or if this "
            "path is a link or a directory, remove it"
        ),
        "table.bookmark.damaged": (
            "{path}: this bookmark cannot be read; set it again with: mutator table bookmark {word {table}} "
            "{word {name}} (in Python: Table.bookmark), or if its reader is no longer used, remove it with: mutator "
            "table bookmark {word {table}} {word {name}} --remove (in Python: Table.remove_bookmark)"
        ),
        "table.bookmark.moved": (
            "{path}: bookmark {name} was at version {before} when this reader began, and {place}, so it was left as it "
            "is; give each reader a bookmark of its own"
        ),
        "table.tag.exists": (
            "{path}: tag {name} names version {version}, which would lose its protection; choose another name, or move "
            "the tag with --move (in Python: move=True)"
        ),
        "table.base": (
            "{path}: the checkpoint that the log begins with since the last cleaning is lost or damaged; restore the "
            "files <20 digits>-….base.files and ….base.masks from a copy of the table"
        ),
        "table.log.archived": (
            "{path}: version {version} exists long since, and was moved to the archive of the log, while this process "
            "was stopped; nothing was committed: run again"
        ),
        "table.cleaned": (
            "{path}: version {version}, a cleaning, says that run {run} counts as dead, because it had written nothing "
            "for a long time; nothing was committed, and its files were removed: run again"
        ),
        "table.given_up": (
            "{path}: version {version} says that run {run} counts as dead, because it did not renew its lock for "
            "{lock.timeout}, so its result was removed; its feed files are back in incr/, or another run has merged "
            "them: run again"
        ),
    },
}
