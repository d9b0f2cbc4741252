"""The error catalogues of feeds, changed rows and insert overwrites: exit code to the messages of their error kinds."""

from __future__ import annotations

CHANGES: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "changes.field": (
            "the rows have a field {name}, which changed rows have as well; rename the field, or leave out changes"
        ),
        "changes.none": (
            "{path}: has no changed rows, because its run did not write them. Set {changes=true}, or give mutator run "
            "--changes DIR, for the next one; two datasets are compared by: mutator diff OLD NEW (in Python: "
            "mutator.diff)"
        ),
        "changes.version": (
            "{path}: version {version} does not exist, so no changes up to it or after it do; the newest is {newest}"
        ),
        "changes.gap": (
            "{path}: version {version} has no changed rows ({why}); begin after it with --from {version}, or compare "
            "the versions: mutator diff {word {path}@{before}} {word {path}@{version}} (in Python: mutator.diff)"
        ),
    },
    4: {  # storage
        "changes.later": (
            "{path}: the changed rows cannot be put there ({why}), but the output is published and has them; put them "
            "there with: mutator changes {word {output}} --changes {word {path}}"
        ),
    },
    5: {  # another run or a state conflict
        "changes.damaged": "{path}: the record of changed rows is damaged ({why}); restore the directory from a copy",
    },
}


OVERWRITES: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "overwrite.refused": "{write.operation={operation}}: {why}; {cure}",
    },
    3: {  # data
        "changed.empty": (
            "{path}: changed after the run was planned (it had no rows, and {after} were read); finish writing files "
            "before the run starts"
        ),
        "overwrite.empty": (
            "{path}: the feed has no rows, so {write.operation=insert_overwrite_table} would delete every record; if "
            "that is intended, run again with {-D allow.empty.feed=true}"
        ),
        "overwrite.truncate": (
            "{path}: the feed has a truncate (order value {order}), and an insert overwrite deletes what it replaces: "
            "leave the truncate out, or apply the feed"
        ),
    },
    5: {  # state
        "overwrite.damage": (
            "{path}: {quoting why}; {the master}'s file is damaged: restore it from a copy on another disk, or, if all "
            "of it is replaced, go on without its records, whose deletes are then not remembered: {-D "
            "replace.damaged=true}"
        ),
    },
}


FEEDS: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "partition.several": (
            "several mutations may decide about an ID, and with {key.scope=table} only the last one of an ID finds its "
            "record; set {key.scope=partition}"
        ),
        "op.forgotten": (
            "{path}: field {field}, which {the master} lacks, has {codes} in the first rows, and no op code field is "
            "set, so deletes would be upserts: {cure}; or, if it is a new field of the records, set the value of "
            "older rows, {default.{field}}"
        ),
        "dialect.forgotten": (
            "{path}: its rows are messages of a change capture, whose records are within them, and {feed.dialect} is "
            "not set: set {feed.dialect={dialect}}, and {id.field.ordinals} to the primary key of the table"
        ),
        "feed.none": (
            "{path}: has no feed files, and {the master} has no rows yet, so there is nothing to merge; check the "
            "path, or run again when feed files have arrived"
        ),
        "feed.rows.none": (
            "no message of the feed has a row{whose} (in the first rows of each file), so nothing says {what}; {cure}"
            "run again when it has rows"
        ),
    },
    3: {  # data
        "sequence.missing": (
            "{path}: order comes from file names, but this name has no sequence, that is {where}; rename the file, or "
            "set {temporal.ordering.field.ordinal} or {sequence.pattern}"
        ),
        "sequence.contradicts": (
            "order comes from the digits after the last '_' of file names, but {why}: {cure}; or, if these digits are "
            "the order, use {-D sequence.pattern=last}"
        ),
        "feed.bad": (
            "{path}: {count} of the feed files cannot be merged, and more may be, so nothing is merged and none is set "
            "aside. Correct the files or the settings, or move the files away. The first: {why}"
        ),
        "feed.empty": (
            "{path}: {sync.mode=full} needs a complete snapshot, but the feed has no rows; deliver it whole, or use "
            "{sync.mode=partial}"
        ),
        "feed.sequences": (
            "{sync.mode=full} needs exactly one snapshot, but the feed files have different sequences ({sequences}); "
            "run one snapshot at a time, oldest first"
        ),
        "order.units": (
            "order values look like times since 1970 in several units: {found}. They are compared as they are, so "
            "those in the shorter unit always win. Have the feed delivered in one unit, that of {the master}; if these "
            "are not times, or all rows are meant so, run again with {-D order.check=false}"
        ),
        "order.max": (
            "{rows} of the feed would win against all that follow: the order values are above {order.max={most}}, from "
            "{lowest} on, in {files}; correct them, or set a higher {order.max}"
        ),
        "op.deletes": (
            "op codes of the feed look like deletes, {codes}, but {deleted.op.code} is {known}, so {rows} would be "
            "upserts: {cure}; or, if they are upserts, name the codes of all upserts with {upsert.op.code}"
        ),
        "op.before": (
            "field {field} has images of records before updates, {codes}, which would be upserts of old rows: use "
            "{cure}, which leaves them out. A record whose ID was changed remains under its old ID; or, if they are "
            "upserts, name the codes of all upserts with {upsert.op.code}"
        ),
        "op.truncate": (
            "field {field} has codes of truncates, {codes}: if each of these rows deletes all records that are older, "
            "use {truncates}; if they say nothing of this master, use {cure}, which leaves them out; if they are "
            "upserts, name the codes of all upserts with {upsert.op.code}"
        ),
        "op.tables": (
            "the feed has rows of tables that {feed.other.tables} does not name: {tables}. Add them to it if another "
            "place takes their rows, or nothing should: in a tables file, with an entry for each table"
        ),
        "op.unknown": (
            "field {field} has op codes that are not known: {codes}. Name those of deletes with {deleted.op.code}, "
            "those of rows that are not mutations with {ignore.op.code}, and those of upserts with {upsert.op.code}; "
            "if all codes are upserts, use {upserts}; or correct {op.code.field.ordinal}"
        ),
        "op.codes": (
            "field {field} of the feed has more than {most} different values, such as {codes}, so it is not the op "
            "code, and without it the rows would lack a field: correct {op.code.field.ordinal}, or leave it out; or "
            "name the codes of all upserts with {upsert.op.code}"
        ),
        "delete.names": (
            "{paths}: named like deletes, but {known}, so their rows would be upserts; use {cure}, or, if they are "
            "upserts, {otherwise}"
        ),
        "control.missing": (
            "{paths}: has no control file ({feed.control.suffix={suffix}}); wait for it, or unset {feed.control.suffix}"
        ),
        "control.orphan": (
            "{paths}: a control file whose feed file is not in the feed; wait for the feed file and name it, or remove "
            "the control file"
        ),
        "control.unusable": (
            "{path}: the control file cannot be used: {why}; it needs lines such as rows=120, or a line as sha256sum "
            "writes it"
        ),
        "control.differs": "{what}; have both the feed file and its control file delivered again",
        "feed.reused": (
            "{path}: a feed file of this name was merged before with other content ({before} bytes then, {after} "
            "now){why}; give the new file a name of its own, or accept it with {-D reused.names=accept}"
        ),
        "feed.late": (
            "{paths}: older than what was merged before (sequence {last}), and {late.files=fail}; remove it from the "
            "feed, or merge it record by record with {-D late.files=merge}"
        ),
        "feed.gaps": (
            "these sequences have not arrived: {gaps}; {sequence.gaps=fail}: wait for the files, or continue without "
            "them with {-D sequence.gaps=report}"
        ),
    },
}
