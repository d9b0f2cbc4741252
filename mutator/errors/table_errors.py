"""The part of the catalogue of errors that is about tables which others own: kind, exit code and text."""

from __future__ import annotations

__all__ = ["TABLES"]

TABLES: dict[str, tuple[int, str]] = {
    # 2: usage and configuration
    "hive.session": (
        2,
        (
            "this Spark session has no Hive support, so it knows no table of the metastore; start it with "
            "spark.sql.catalogImplementation=hive"
        ),
    ),
    "hive.missing": (
        2,
        (
            "{table}: there is no such table in the metastore of this session; check the name (table, or "
            "database.table), and that hive-site.xml is in SPARK_CONF_DIR"
        ),
    ),
    "hive.kind": (2, "{table}: {what}; {cure}"),
    "hive.setting": (
        2,
        "{setting} is true: Spark would leave out files without a word, and their rows would be lost; set it to false",
    ),
    "table.place": (2, "{path}: {why}; {cure}"),
    "hive.pandas": (
        2,
        (
            "Spark gives the rows of tables as Arrow columns only where pandas is installed, and {where} has none it "
            "can use: pip install 'mutator[hive]'"
        ),
    ),
    # 3: data
    "hive.nested": (
        3,
        (
            "{path}: is a directory among the data files of {table}, and Spark leaves out what is in it; move its "
            "files up, or insert the table's rows anew"
        ),
    ),
    # 4: storage
    "hive.metastore": (4, "{table}: the metastore or its storage failed: {why}; see to it, and run again"),
    "hive.uncertain": (
        4,
        (
            "{table}: whether the change was committed is not known ({why}); nothing was removed, and the next run "
            "finds out"
        ),
    ),
    # 5: state
    "table.changed": (
        5,
        "{table}: the table changed while it {what}; nothing was published: run again when nobody else writes to it",
    ),
    "table.left": (
        5,
        (
            "{path}: is what the table was before the last run, and somebody has written to it since: {files}; move "
            "what is new to the table, and remove this directory"
        ),
    ),
    "table.other": (
        5,
        "{path}: is the text copy of {other}, and not of {table}; name another directory",
    ),
    "hive.derby": (
        5,
        (
            "the embedded metastore is open in another process, and only one can use it; wait for that process, or "
            "end it, or name a metastore for several with hive.metastore.uris"
        ),
    ),
    "hive.changed": (
        5,
        "{table}: somebody else changed {what} meanwhile; nothing was changed by this run: run again",
    ),
    "hive.live": (
        5,
        "{table}: {path} is what the table holds now, and was not removed; the run that wrote it has committed",
    ),
}
