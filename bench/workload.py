"""The workloads: sizes, shares of mutations, formats, partitions, tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.dialects import KINDS
from bench.layout import DIALECTS
from bench.partitioned import TOUCHED

__all__ = ["FAMILY", "SIZES", "WORK", "Workload", "parse_size", "workloads"]

SIZES = {"smoke": 20_000, "200k": 200_000, "1m": 1_000_000, "4m": 4_000_000, "12m": 12_000_000}
WORK = (
    "5%",
    "50%",
    "100",
    "scaling",
    "parquet",
    "avro",
    "bridge",
    "partitions",
    "tables",
    "table",
    "overwrite",
    "small",
    "dialects",
    "patches",
    "history",
    "s3",
    "hdfs",
)
AVRO_PART = 10  # Avro has a tenth of the rows, because it is read record by record
FAMILY = ("mutator aligned", "mutator shuffle")  # the contenders of the workload "scaling"
SCOPES = ("mutator partition scope", "mutator table scope")
STORED = {"bridge": "parquet", "export": "orc", "import": "orc", "partitions parquet": "parquet", "table": "parquet"}
ONE_PARTITION = "partitions overwrite one"  # the form of a workload whose feed has mutations for one partition
STORED |= dict.fromkeys(("partitions overwrite", ONE_PARTITION, "partitions overwrite all"), "parquet")
STORED |= dict.fromkeys(("table compaction", "table reads", "table on Spark", "table files"), "parquet")
STORED |= dict.fromkeys(("partitions", "tables", "single runs", "small", "commands"), "text")
# Numbers of partitions and tables, and the most rows of each.
PARTITIONS, PARTITION_ROWS = 1000, 12_000
TABLES, TABLE_ROWS, SINGLE_RUNS = 200, 20_000, 20
MANY_FROM = SIZES["1m"]  # rows; a smaller master has only the FEW_… partitions and tables
TABLE_KIND = "debezium-json"
TABLE_EVENTS = 100_000  # messages that are applied to a table
FEW_PARTITIONS, FEW_TABLES, FEW_SINGLE_RUNS = 2 * TOUCHED, 4, 2


@dataclass(frozen=True)
class Workload:
    """A master and a feed, with their numbers of rows and mutations, and the contenders that merge them.

    form: selects the contenders (``catalogue.MERGES``). only: names of some of them; None: all. parts: number of
    partitions of the master, or of tables; 0 if the master is one directory.
    """

    work: str
    name: str
    rows: int
    mutations: int
    only: tuple[str, ...] | None = None
    form: str = "text"
    parts: int = 0

    @property
    def family(self) -> str:
        """Return the word that selects the workload, without what distinguishes it from others of that word."""
        return self.work.partition(" ")[0]

    @property
    def partitioned(self) -> bool:
        """Return whether the parts are partitions of one master."""
        return self.form.startswith("partitions")

    @property
    def changes(self) -> str | None:
        """Return the kind of change files that the feed has; None if its rows are those of other workloads."""
        kind = self.form.removeprefix("dialects ")
        return None if kind == self.form else TABLE_KIND if kind == "table" else kind

    @property
    def feed_bytes(self) -> int:
        """Return the bytes of change files that must fit beside the copies of the master."""
        return self.mutations * KINDS[self.changes] if self.changes else 0

    @property
    def touched(self) -> int:
        """Return the number of partitions that the feed has mutations for."""
        return 1 if self.form == ONE_PARTITION else TOUCHED

    def small(self, rows: int) -> Workload:
        """Return the same workload with at most ``rows`` rows, for warming up."""
        parts = min(self.parts, FEW_PARTITIONS)
        rows = min(rows, self.rows)
        rows -= rows % parts if parts else 0
        return replace(self, rows=rows, mutations=rows // 20 if self.mutations else 0, parts=parts)

    @property
    def stored(self) -> str:
        """Return the format that master and feed are written in."""
        return STORED.get(self.form, self.form)


def parse_size(text: str) -> int:
    """Return a number of rows, given as a name of SIZES or as a number.

    >>> parse_size("4m"), parse_size("50000")
    (4000000, 50000)
    """
    rows = SIZES.get(text) or int(text)
    if rows < 1000:
        raise ValueError("a size is 1,000 rows or more")
    return rows


def workloads(rows: int, work: str) -> list[Workload]:
    """Return the workloads of one name: a share like ``5%``, a number of mutations, or a word of ``WORK``.

    >>> [(w.name, w.mutations) for w in workloads(4_000_000, "5%")]
    [('5 % into 4 M', 200000)]
    >>> [w.name for w in workloads(12_000_000, "scaling")]
    ['scaling: 5 % into 3 M', 'scaling: 5 % into 12 M']
    >>> [(w.name, w.rows, w.form) for work in ("parquet", "avro") for w in workloads(4_000_000, work)]
    [('Parquet: 5 % into 4 M', 4000000, 'parquet'), ('Avro: 5 % into 400,000', 400000, 'avro')]
    >>> [(w.name, w.mutations, w.stored) for w in workloads(4_000_000, "bridge")]  # doctest: +NORMALIZE_WHITESPACE
    [('bridge: 5 % into 4 M', 200000, 'parquet'), ('bridge export, ORC to text: 4 M', 0, 'orc'),
     ('bridge import, text to ORC: 4 M', 0, 'orc')]
    >>> for work in ("partitions", "partition-scaling", "tables"):
    ...     for w in workloads(12_000_000, work):
    ...         print(w.name, w.rows, w.mutations)
    partitions: 10 of 1,000 touched, each of 12,000 12000000 6000
    partitions, Parquet: 10 of 1,000 touched, each of 12,000 12000000 6000
    partition-scaling: 10 of 1,000 touched, each of 12,000 12000000 6000
    partition-scaling: 10 of 10,000 touched, each of 12,000 120000000 6000
    tables: 200, each of 20,000 4000000 40000
    single runs: 20 tables, each of 20,000 400000 4000
    >>> [w.name for w in workloads(12_000_000, "table")]  # doctest: +NORMALIZE_WHITESPACE
    ['table: 100 into 12 M', 'table: 12,000 into 12 M', 'table: 600,000 into 12 M', 'table, compaction: 12 M',
     'table, scan and get: 12 M', 'table, read by Spark: 12 M', 'table, many files']
    >>> [(w.name, w.mutations) for w in workloads(12_000_000, "overwrite")]  # doctest: +NORMALIZE_WHITESPACE
    [('overwrite: 10 of 1,000 partitions of 12 M', 120000), ('overwrite: 1 of 1,000 partitions of 12 M', 12000),
     ('overwrite: all of 12 M', 12000000)]
    >>> for w in workloads(10_000_000, "dialects"):
    ...     print(w.name, w.changes)
    debezium-json: 1,000,000 into 10 M debezium-json
    debezium-json schema: 1,000,000 into 10 M debezium-json schema
    aws-dms: 1,000,000 into 10 M aws-dms
    json: 1,000,000 into 10 M json
    table apply of messages: 100,000 into 10 M debezium-json
    >>> [w.name for w in workloads(12_000_000, "patches")]
    ['patches: 600,000 into 12 M', 'patches beside upserts: 600,000 into 12 M']
    >>> [w.name for w in workloads(12_000_000, "history")]  # doctest: +NORMALIZE_WHITESPACE
    ['history: 600,000 into 12 M of 5 versions', 'history beside none: 600,000 into 12 M of 5 versions']
    >>> [w.name for w in workloads(12_000_000, "small")]  # doctest: +NORMALIZE_WHITESPACE
    ['whole processes: 130 into 1,000', 'whole processes: 10,000 into 1 M', 'whole processes: 600,000 into 12 M',
     'commands']
    """
    if work in ("partitions", "partition-scaling"):
        parts = PARTITIONS if rows >= MANY_FROM else FEW_PARTITIONS
        each = min(PARTITION_ROWS, rows // parts)
        if work == "partition-scaling":
            return [_partitions(work, "partitions", number, each, SCOPES) for number in (parts, 10 * parts)]
        return [_partitions(form, form, parts, each) for form in ("partitions", "partitions parquet")]
    if work == "overwrite":
        parts = PARTITIONS if rows >= MANY_FROM else FEW_PARTITIONS
        each, of_all, form = rows // parts, f"of {parts:,} partitions of {_millions(rows)}", "partitions overwrite"
        some, one = f"overwrite: {TOUCHED} {of_all}", f"overwrite: 1 {of_all}"
        return [
            Workload(work, some, each * parts, each * TOUCHED, form=form, parts=parts),
            Workload(f"{work} one", one, each * parts, each, form=ONE_PARTITION, parts=parts),
            Workload(f"{work} all", f"overwrite: all of {_millions(rows)}", rows, rows, None, f"{form} all", TOUCHED),
        ]
    if work == "tables":
        tables, single = (TABLES, SINGLE_RUNS) if rows >= MANY_FROM else (FEW_TABLES, FEW_SINGLE_RUNS)
        each = min(TABLE_ROWS, rows // tables)
        return [
            Workload(form, f"{form}: {text}, each of {each:,}", parts * each, parts * each // 100, None, form, parts)
            for form, parts, text in (("tables", tables, f"{tables}"), ("single runs", single, f"{single} tables"))
        ]
    if work == "small":
        merges = [(1000, 130), (min(rows, MANY_FROM), min(rows, MANY_FROM) // 100), (rows, rows // 20)]
        return [
            *(
                Workload(f"{work} {many}", f"whole processes: {many:,} into {_millions(some)}", some, many, form=work)
                for some, many in dict(merges).items()
            ),
            Workload("commands", "commands", 1000, 0, form="commands"),
        ]
    if work == "dialects":
        events = rows // 10
        some = min(events, TABLE_EVENTS)
        into = f"into {_millions(rows)}"
        runs = {kind: (f"{kind}: {events:,} {into}", events) for kind in DIALECTS}
        runs["table"] = (f"table apply of messages: {some:,} {into}", some)
        return [
            Workload(f"{work} {kind}", name, rows, many, form=f"{work} {kind}") for kind, (name, many) in runs.items()
        ]
    if work == "patches":
        text = f"{rows // 20:,} into {_millions(rows)}"
        return [
            Workload(form, f"{form}: {text}", rows, rows // 20, form=form) for form in (work, f"{work} beside upserts")
        ]
    if work == "history":
        text = f"{rows // 20:,} into {_millions(rows)} of 5 versions"
        return [
            Workload(form, f"{form}: {text}", rows, rows // 20, form=form) for form in (work, f"{work} beside none")
        ]
    if work == "bridge":
        ways = (("export", "ORC to text"), ("import", "text to ORC"))
        return [
            Workload(work, f"bridge: 5 % into {_millions(rows)}", rows, rows // 20, form="bridge"),
            *(
                Workload(f"{work} {way}", f"{work} {way}, {what}: {_millions(rows)}", rows, 0, form=way)
                for way, what in ways
            ),
        ]
    if work == "table":
        applies = {"100": 100, "0.1%": rows // 1000, "5%": rows // 20}
        return [
            *(
                Workload(f"{work} {share}", f"{work}: {many:,} into {_millions(rows)}", rows, many, form=work)
                for share, many in applies.items()
            ),
            Workload("table compaction", f"table, compaction: {_millions(rows)}", rows, 100, form="table compaction"),
            Workload("table reads", f"table, scan and get: {_millions(rows)}", rows, 100, form="table reads"),
            Workload("table on Spark", f"table, read by Spark: {_millions(rows)}", rows, 100, form="table on Spark"),
            Workload("table files", "table, many files", min(rows, MANY_FROM), 100, form="table files"),
        ]
    if work in ("parquet", "avro"):
        part = rows if work == "parquet" else rows // AVRO_PART
        return [Workload(work, f"{work.title()}: 5 % into {_millions(part)}", part, part // 20, form=work)]
    if work == "scaling":
        return [
            Workload(work, f"scaling: 5 % into {_millions(part)}", part, part // 20, FAMILY)
            for part in (rows // 4, rows)
        ]
    if work.endswith("%"):
        share = float(work[:-1])
        return [Workload(work, f"{share:g} % into {_millions(rows)}", rows, round(rows * share / 100))]
    return [Workload(work, f"{int(work):,} into {_millions(rows)}", rows, int(work))]


def _partitions(work: str, form: str, parts: int, each: int, only: tuple[str, ...] | None = None) -> Workload:
    title = "partitions, Parquet" if form == "partitions parquet" else work
    name = f"{title}: {TOUCHED} of {parts:,} touched, each of {each:,}"
    return Workload(work, name, parts * each, TOUCHED * each // 20, only, form, parts)


def _millions(rows: int) -> str:
    return f"{rows / 1e6:g} M" if rows >= 1_000_000 else f"{rows:,}"
