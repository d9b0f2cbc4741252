"""The error catalogue of tables that others own, and of Python callers: exit code to messages of kinds."""

PYTHON: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "argument": "{call}: {argument} is {given}, but should be {expected}{cure}",
        "argument.unknown": "{call}: has no argument {argument}{near} (docs/python.md lists all arguments)",
        "argument.both": "{call}: {what}; {cure}",
        "package": "{what} needs {package}, which is not installed: pip install {package}",
        "session.stopped": "{call}: the Spark session has been stopped; start a new one, or leave session out",
        "table.sequence": (
            "{table}: has no file name that could order its rows; set order_by to the field of the order value"
        ),
        "table.shared": (
            "{table}: the workers of this Spark session run on other machines, and cannot read the temporary files of "
            "this one; set scratch to a directory that all of them share, such as {shared}"
        ),
        "result.none": "this was a dry run, which writes no rows; run without dry_run to get the result",
        "dataset.feed": "{dataset}: {what}; {cure}",
        "dataset.missing": "{path}: is not a dataset that mutator has written: it has no _mutator/manifest.json",
    },
    3: {  # data
        "table.column": "{table}: column {column} {what}; {cure}",
        "table.rows": "{table}: {quoting what}; {cure}",
        "table.lost": (
            "{table}: lacks {fields} of {the master}, as does every other table of the feed, so all records would lose "
            "these values; add them; or set output_schema to an Avro schema of all fields, so that rows of the feed "
            "get NULL there; or, if they should be removed, set removed_fields={names}"
        ),
        "text.encoding": (
            "{path}: field {field} is not UTF-8, so it is not text for a table; merge its files with their encoding "
            "({encoding=cp1252}, for example), or read the files of the result: report.result.files has their paths"
        ),
    },
}
TABLES: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "hive.session": (
            "this Spark session has no Hive support, so it sees no tables of the metastore; start it with "
            "spark.sql.catalogImplementation=hive"
        ),
        "hive.missing": (
            "{table}: there is no such table in the metastore of this session; check the name (table, or "
            "database.table), and that hive-site.xml is in SPARK_CONF_DIR"
        ),
        "hive.kind": "{table}: {what}; {cure}",
        "hive.setting": (
            "{setting} is true: Spark would silently skip files, and their rows would be lost; set it to false"
        ),
        "table.place": "{path}: {why}; {cure}",
        "hive.pandas": (
            "Spark returns the rows of tables as Arrow columns only where pandas is installed, but {where} has no "
            "pandas that it can use: pip install -e '.[hive]' in a checkout of mutator, or its wheel with [hive]"
        ),
    },
    3: {  # data
        "hive.nested": (
            "{path}: is a directory among the data files of {table}, and Spark skips the files in it; move them up, or "
            "insert the table's rows anew"
        ),
    },
    4: {  # storage
        "hive.metastore": "{table}: the metastore or its storage failed: {why}; fix that, and run again",
        "hive.uncertain": (
            "{table}: it is not known whether the change was committed ({why}); nothing was removed, and the next run "
            "finds out"
        ),
    },
    5: {  # state
        "table.changed": (
            "{table}: the table changed while it {what}; nothing was published: run again when nobody else is writing "
            "to it"
        ),
        "table.left": (
            "{path}: is the table as it was before the last run, but somebody has written to it since: {files}; move "
            "the new files to the table, and remove this directory"
        ),
        "table.other": "{path}: is the text copy of {other}, not of {table}; name another directory",
        "hive.derby": (
            "the embedded metastore is open in another process, and only one process can use it; wait for that "
            "process, or stop it, or name a shared metastore with hive.metastore.uris"
        ),
        "hive.changed": "{table}: somebody else changed {what} in the meantime; this run changed nothing: run again",
        "hive.live": "{table}: {path} is in use by the table and was not removed; the run that wrote it has committed",
    },
}
