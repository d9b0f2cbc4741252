"""All contenders, for the merges of each format, the bridge and each server, and how their work differs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.environment import DBT, DELTA, DUCKLAKE, HUDI, ICEBERG, PAIMON, Environment
from bench.layout import DIALECTS

__all__ = ["MERGES", "SERVERS", "Entry", "everyone", "find"]

TABLE = "writes Parquet; text for the digest is made untimed"
PARQUET_TABLE = "keeps a table; text for the digest is made untimed"
APPLY = "mutator table apply"
PLAIN = "no counts, checksums, tombstones or atomic publish"


@dataclass(frozen=True)
class Entry:
    """A contender: its name, its class, how its work differs, and its environment (None: this one)."""

    name: str
    where: str  # module:class below bench.contenders
    differs: str
    arguments: tuple[str, ...] = ()
    environment: Environment | None = None
    ours: bool = False
    jvm: bool = True  # has a Spark that reports the bytes shuffled
    needs: tuple[str, ...] = ()  # modules without which it is skipped
    form: str = "text"  # key of MERGES: the workloads that it runs in
    warm: bool = True  # merges a small workload first; False where runs start processes, or each step is repeated


TEXT = [
    Entry("mutator aligned", "mutator_merge:Mutator", "master is managed, made untimed", ("aligned",), ours=True),
    Entry("mutator shuffle", "mutator_merge:Mutator", "raw master, full shuffle", ("shuffle",), ours=True),
    Entry("mutator broadcast", "mutator_merge:Mutator", "raw master, declared unique", ("broadcast",), ours=True),
    Entry("mutator records", "mutator_merge:Mutator", "raw master, one Python tuple per row", ("records",), ours=True),
    Entry("spark sql window", "spark_sql:SparkSql", PLAIN, ("window",)),
    Entry("spark sql max_by", "spark_sql:SparkSql", PLAIN, ("max_by",)),
    Entry("spark sql anti-join", "spark_sql:SparkSql", f"needs a unique master; {PLAIN}", ("anti_join",)),
    Entry("spark sql left join", "spark_sql:SparkSql", f"needs a unique master; {PLAIN}", ("left_join",)),
    Entry("spark sql full join", "spark_sql:SparkSql", f"needs a unique master; {PLAIN}", ("full_join",)),
    Entry(
        "polars", "polars_join:Polars", f"one process, in memory; unique master; {PLAIN}", jvm=False, needs=("polars",)
    ),
    Entry(
        "duckdb", "duckdb_join:DuckDb", f"one process, in memory; unique master; {PLAIN}", jvm=False, needs=("duckdb",)
    ),
    Entry("delta-rs merge", "delta_rs:DeltaRs", TABLE, jvm=False, needs=("deltalake", "polars")),
    Entry(
        "pyiceberg upsert",
        "pyiceberg_upsert:PyIceberg",
        f"{TABLE}; deletes are a second commit",
        jvm=False,
        needs=("pyiceberg", "polars"),
    ),
    Entry("delta merge", "lakehouse:Delta", TABLE, environment=DELTA),
    Entry("iceberg merge", "lakehouse:Iceberg", TABLE, environment=ICEBERG),
    Entry("hudi merge", "lakehouse:Hudi", TABLE, environment=HUDI),
]

# Contenders whose class for columns is not the one for lines.
COLUMNS = {"spark_sql:SparkSql": "spark_sql_parquet:SparkSqlParquet", "polars_join:Polars": "polars_join:PolarsColumns"}

PARQUET = [
    replace(
        entry,
        where=COLUMNS.get(entry.where, entry.where),
        differs=entry.differs.replace(TABLE, PARQUET_TABLE),
        form="parquet",
    )
    for entry in TEXT
    if entry.name not in ("mutator broadcast", "mutator records")
]

AVRO = [
    *(replace(entry, form="avro") for entry in PARQUET if entry.ours),
    Entry(
        "fastavro alone",
        "fastavro_read:FastAvro",
        "only reads ID, order value, op code and end of every record",
        jvm=False,
        form="avro",
    ),
]

BRIDGE = [
    *(replace(entry, form="bridge") for entry in PARQUET if entry.ours),
    Entry("bridge first", "bridge:BridgeRun", "export, merge, import", ("first",), ours=True, form="bridge"),
    Entry(
        "bridge again",
        "bridge:BridgeRun",
        "merge, import; the text copy was made untimed",
        ("again",),
        ours=True,
        form="bridge",
    ),
]

EXPORT = [
    Entry("bridge export", "bridge:BridgeExport", "text with escapes, checksums, manifest", ours=True, form="export"),
    Entry(
        "spark sql text", "bridge:SparkText", "CSV with a quote and an escape; no values with line ends", form="export"
    ),
]

IMPORT = [
    Entry("bridge import", "bridge:BridgeImport", "checks the text's checksums; zstd", ours=True, form="import"),
    Entry("spark sql orc", "bridge:SparkOrc", "reads the same text as CSV; zstd of the same level", form="import"),
]

# By reach, the partitions that Spark SQL reads and rewrites.
REACHES = {
    "whole": "names no partition: reads and writes all of them",
    "touched": "names no partition: reads all, writes those that a semi-join with the feed leaves",
    "named": "collects the partitions of the feed first, reads and writes only these; lists all directories",
    "catalogue": "the same, but a catalogue in the driver's memory has the directories",
}
PARTITIONS = [
    *(
        Entry(
            f"mutator {scope} scope",
            "mutator_partitions:MutatorPartitions",
            f"master is managed, made untimed; {differs}",
            (scope,),
            ours=True,
            form="partitions",
        )
        for scope, differs in (
            ("partition", "relies on records staying in their partitions"),
            ("table", "looks for each ID in all partitions"),
        )
    ),
    *(
        Entry(
            f"spark sql {reach} {plan}",
            "spark_sql_partitions:SparkSqlPartitions",
            f"{differs}; {PLAIN}",
            (plan, reach),
            form="partitions",
        )
        for reach, differs in REACHES.items()
        for plan in ("window", "left join")
    ),
]

# Whole processes: Spark starts in each run, once or once per table.
RUN_MANY = Entry(
    "mutator run-many", "whole_processes:MutatorMany", "one process; masters are managed, made untimed", ours=True
)
MANY = [
    RUN_MANY,
    Entry("spark sql loop window", "whole_processes:SparkSqlLoop", f"one process; {PLAIN}", ("window",)),
    Entry(
        "spark sql loop anti-join",
        "whole_processes:SparkSqlLoop",
        f"one process; needs unique masters; {PLAIN}",
        ("anti_join",),
    ),
]
SINGLE = [
    RUN_MANY,
    Entry(
        "mutator single runs",
        "whole_processes:MutatorSingle",
        "one spark-submit per table; masters are managed, made untimed",
        ours=True,
    ),
]

# Whole processes for one merge.
SMALL = [
    *(
        Entry(f"mutator run {name}", "small_runs:MutatorRun", differs, (join, runner), ours=True)
        for name, differs, join, runner in (
            ("raw", "raw master", "raw", "auto"),
            ("aligned", "master is managed, made untimed", "aligned", "local"),
            ("on spark", "master is managed, made untimed; starts Spark", "aligned", "spark"),
        )
    ),
    *(
        Entry(f"{name} process", "small_runs:Other", f"unique master; {PLAIN}", (where,), needs=(name,))
        for name, where in (("polars", "polars_join:Polars"), ("duckdb", "duckdb_join:DuckDb"))
    ),
]
COMMANDS = [
    Entry(name, "small_runs:Command", differs, (command,), ours=command not in ("python", "pyarrow"))
    for name, differs, command in (
        ("python alone", "an empty program", "python"),
        ("python with pyarrow", "only imports pyarrow.compute", "pyarrow"),
        ("mutator --help", "prints the help", "help"),
        ("mutator verify", "reads the sample back", "verify"),
        ("mutator workflow run", "finds nothing to merge", "workflow"),
    )
]

# Whole processes that merge change files, by their kind; DIALECT_PEERS: without Spark.
DIALECT_PEERS = {
    kind: [
        Entry(f"{name} process", "small_runs:Other", f"unique master; {PLAIN}", (where, kind), needs=(name,))
        for name, where in (("polars", "polars_dialects:PolarsDialects"), ("duckdb", "duckdb_dialects:DuckDbDialects"))
    ]
    for kind in DIALECTS
}
DIALECT_RUNS = {
    kind: [
        *(
            Entry(f"mutator run {join}", "mutator_dialects:MutatorDialect", differs, (join, kind), ours=True)
            for join, differs in (("raw", "raw master"), ("aligned", "master is managed, made untimed"))
        ),
        *peers,
        Entry("pyspark process", "small_runs:Other", PLAIN, ("pyspark_dialects:SparkDialects", kind)),
    ]
    for kind, peers in DIALECT_PEERS.items()
}
DIALECT_TABLE = [
    Entry(
        APPLY,
        "mutator_dialects:MutatorDialectTable",
        "adds files and hides older rows; the table was made untimed",
        ("debezium-json",),
        ours=True,
    ),
    *DIALECT_PEERS["debezium-json"],
]

# Patches of two fields, in whole processes; and the same steps with patches and with full upserts.
PATCHES = [
    *(
        Entry(f"mutator run {join}", "mutator_patches:MutatorPatches", differs, (join,), ours=True)
        for join, differs in (("raw", "raw master"), ("aligned", "master is managed, made untimed"))
    ),
    Entry(
        APPLY,
        "mutator_patches:MutatorPatchesTable",
        "adds files and hides older rows; the table was made untimed",
        ours=True,
    ),
    Entry("pyspark process", "small_runs:Other", PLAIN, ("pyspark_patches:SparkPatches",)),
    Entry(
        "delta-rs merge",
        "delta_patches:DeltaPatches",
        f"{PARQUET_TABLE}; in its own process; later patches need the times of fields, which it does not keep",
        needs=("deltalake", "polars"),
    ),
    Entry(
        "pypaimon partial-update",
        "paimon_patches:PaimonPatches",
        "commits, and a read that merges, in its own process; the table was made untimed",
        environment=PAIMON,
        jvm=False,
    ),
]
BESIDE_UPSERTS = [
    Entry(
        "patches beside upserts",
        "mutator_patches:PatchesBesideUpserts",
        "aligned runs, applies, and scans that verify checksums",
        ours=True,
    )
]

# A feed that adds versions to a history.
HISTORIES = [
    Entry(
        APPLY, "mutator_history:MutatorHistory", "late rows would be placed; the history was closed untimed", ours=True
    ),
    Entry(
        "dbt snapshot",
        "dbt_snapshot:DbtSnapshot",
        "on DuckDB, strategy timestamp: late rows would be lost; the table was made untimed",
        environment=DBT,
    ),
    Entry(
        "delta-rs type 2",
        "delta_type_2:DeltaType2",
        "merge of type 2: late rows would be wrong; in its own process",
        needs=("deltalake", "polars"),
    ),
    Entry(
        "pyspark process", "small_runs:Other", f"finds all versions anew; {PLAIN}", ("pyspark_versions:SparkVersions",)
    ),
]
BESIDE_NONE = [
    Entry(
        "history beside none",
        "mutator_history:HistoryBesideNone",
        "applies, and scans that verify checksums",
        ours=True,
    )
]

# A feed applied to a table, in the contender's own process.
APPLIES = [
    Entry(
        "mutator table",
        "mutator_table:MutatorTable",
        "adds files and hides older rows; key index, counts, checksums, tombstones; the table was made untimed",
        ours=True,
        jvm=False,
    ),
    Entry(
        "mutator rewrite",
        "mutator_table:MutatorRewrite",
        "rewrites what changed to a new directory; master is managed, made untimed",
        ours=True,
        jvm=False,
    ),
    *(entry for entry in PARQUET if entry.name in ("delta-rs merge", "pyiceberg upsert")),
    Entry(
        "lance merge_insert",
        "lance_merge:Lance",
        "Lance files, not Parquet; an index of the IDs was made untimed, new rows are not in it; deletes are a second"
        " commit",
        jvm=False,
        needs=("lance", "polars"),
    ),
    Entry(
        "ducklake merge",
        "ducklake_merge:DuckLake",
        "its log is a DuckDB database; a merge has no deletes, which are another statement of the transaction",
        environment=DUCKLAKE,
        jvm=False,
        needs=("duckdb", "duckdb_ext"),
    ),
    Entry("delta vectors", "lakehouse:DeltaVectors", f"on Spark, deletion vectors; {PARQUET_TABLE}", environment=DELTA),
    Entry(
        "iceberg merge-on-read",
        "lakehouse:IcebergOnRead",
        f"on Spark, deletion vectors; {PARQUET_TABLE}",
        environment=ICEBERG,
    ),
    Entry(
        "hudi merge-on-read",
        "lakehouse:HudiOnRead",
        f"on Spark, new rows in logs that a reader merges; {PARQUET_TABLE}",
        environment=HUDI,
    ),
]

# A table after ten versions, whose live rows are written into few files.
REWRITES = [
    Entry(
        "mutator compact",
        "rewrites:MutatorCompact",
        "sorts by key; key index, checksums, tombstones, order values, counts; ten versions were applied untimed",
        ours=True,
        jvm=False,
    ),
    Entry("spark sql rewrite", "rewrites:SparkRewrite", "reads plain files of the live rows", ("rows",)),
    Entry("spark sql merge and rewrite", "rewrites:SparkRewrite", f"reads master and feeds; {PLAIN}", ("window",)),
    Entry(
        "delta optimize",
        "rewrites:DeltaOptimize",
        "purges deletion vectors, then joins small files; ten merges were made untimed",
        environment=DELTA,
    ),
    Entry(
        "iceberg rewrite_data_files",
        "rewrites:IcebergRewrite",
        "rewrite-all; ten merges were made untimed",
        environment=ICEBERG,
    ),
]

# By reach: the partitions that the feed has rows of, or the table.
OVERWRITES = {
    reach: [
        *(
            Entry(
                f"mutator overwrite, {scope} scope",
                "mutator_overwrites:MutatorOverwrite",
                "counts every row, remembers deletes, key index, checksums; the table was made untimed",
                (reach, scope),
                ours=True,
                jvm=False,
            )
            for scope in ("partition", "table")
        ),
        Entry(
            "delta overwrite",
            "lakehouse_overwrites:DeltaOverwrite",
            "on Spark; counts no old rows",
            (reach,),
            environment=DELTA,
        ),
        Entry(
            "hudi overwrite",
            "lakehouse_overwrites:HudiOverwrite",
            "on Spark, copy-on-write; counts no old rows",
            (reach,),
            environment=HUDI,
        ),
    ]
    for reach in ("partitions", "table")
}

# The overwrites of one partition of a table, the same of a directory, and a mere write of the rows: the shortest time.
OF_ONE_PARTITION = [
    *(entry for entry in OVERWRITES["partitions"] if entry.ours),
    *(
        Entry(
            f"mutator run, {scope} scope",
            "mutator_overwrites:MutatorRunOverwrite",
            "links the other partitions into a new directory; the managed master was made untimed",
            (scope,),
            ours=True,
            jvm=False,
        )
        for scope in ("partition", "table")
    ),
    Entry(
        "pyarrow write", "mutator_overwrites:PyarrowWrite", "writes the rows of the feed, and merges nothing", jvm=False
    ),
]
OF_EVERYTHING = [
    *OVERWRITES["table"],
    Entry(
        "mutator create",
        "mutator_overwrites:MutatorCreate",
        "makes a table of the master, which has as many rows as the feed, and overwrites nothing",
        ours=True,
        jvm=False,
    ),
]

# By the form of a workload.
MERGES = {
    "text": TEXT,
    "parquet": PARQUET,
    "avro": AVRO,
    "bridge": BRIDGE,
    "export": EXPORT,
    "import": IMPORT,
    "partitions": PARTITIONS,
    "partitions parquet": [replace(entry, form="partitions parquet") for entry in PARTITIONS],
    "partitions overwrite": [replace(one, form="partitions overwrite") for one in OVERWRITES["partitions"]],
    "partitions overwrite all": [replace(one, form="partitions overwrite all") for one in OF_EVERYTHING],
    "partitions overwrite one": [replace(one, form="partitions overwrite one") for one in OF_ONE_PARTITION],
    "table": [replace(entry, form="table") for entry in APPLIES],
    "table compaction": [replace(entry, form="table compaction") for entry in REWRITES],
    "table reads": [
        Entry(
            "table reads",
            "table_reads:TableReads",
            "every scan verifies checksums",
            ours=True,
            jvm=False,
            form="table reads",
            warm=False,
        )
    ],
    "table on Spark": [
        Entry(
            "table on Spark",
            "table_on_spark:TableOnSpark",
            'Table.dataframe verifies no checksums, format("mutator") does',
            ours=True,
            form="table on Spark",
            warm=False,
        )
    ],
    "table files": [
        Entry(
            "table files",
            "large_tables:LargeTables",
            "the log is real, the files that it names are not",
            ours=True,
            jvm=False,
            form="table files",
            warm=False,
        )
    ],
    "tables": [replace(entry, form="tables", warm=False, jvm=False) for entry in MANY],
    "single runs": [replace(entry, form="single runs", warm=False, jvm=False) for entry in SINGLE],
    "small": [replace(entry, form="small", warm=False, jvm=False) for entry in SMALL],
    **{
        f"dialects {kind}": [replace(entry, form=f"dialects {kind}", warm=False, jvm=False) for entry in entries]
        for kind, entries in (DIALECT_RUNS | {"table": DIALECT_TABLE}).items()
    },
    **{
        form: [replace(entry, form=form, warm=False, jvm=False) for entry in entries]
        for form, entries in (("patches", PATCHES), ("patches beside upserts", BESIDE_UPSERTS))
    },
    **{
        form: [replace(entry, form=form, warm=False, jvm=False) for entry in entries]
        for form, entries in (("history", HISTORIES), ("history beside none", BESIDE_NONE))
    },
    "commands": [replace(entry, form="commands", warm=False, jvm=False) for entry in COMMANDS],
}

# By server: mutator, then the server's own client.
SERVERS = {
    "s3": [
        Entry(
            "mutator on s3",
            "transfers:Mutator",
            "appears when complete, never replaces a file; 8 threads send parts, one request reads",
            ("boto3",),
            ours=True,
            jvm=False,
            needs=("boto3",),
        ),
        Entry(
            "boto3 transfers",
            "transfers:Boto3",
            "upload_fileobj, download_fileobj: 10 threads",
            ("boto3",),
            jvm=False,
            needs=("boto3",),
        ),
        Entry(
            "boto3 request",
            "transfers:Boto3Request",
            "put_object, get_object: one request",
            ("boto3",),
            jvm=False,
            needs=("boto3",),
        ),
    ],
    "hdfs": [
        Entry(
            "mutator on hdfs",
            "transfers:Mutator",
            "each block synced, appears when complete, never replaces a file",
            ("hdfs_native",),
            ours=True,
            jvm=False,
            needs=("hdfs_native",),
        ),
        Entry(
            "hdfs-native",
            "transfers:HdfsNative",
            "nothing synced",
            ("hdfs_native",),
            jvm=False,
            needs=("hdfs_native",),
        ),
    ],
}


def everyone() -> list[Entry]:
    """Return the contenders of the merges and of all servers."""
    return [entry for entries in (*MERGES.values(), *SERVERS.values()) for entry in entries]


def find(name: str, form: str = "text") -> Entry:
    """Return the contender with that name and form."""
    return next(entry for entry in everyone() if (entry.name, entry.form) == (name, form))
