"""The catalogue of errors of Python callers: exit code to the messages of its error kinds."""

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
