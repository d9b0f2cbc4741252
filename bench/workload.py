"""What is merged into what: sizes, shares of mutations, formats."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILY", "SIZES", "WORK", "Workload", "parse_size", "workloads"]

SIZES = {"smoke": 20_000, "200k": 200_000, "1m": 1_000_000, "4m": 4_000_000, "12m": 12_000_000}
WORK = ("5%", "50%", "100", "scaling", "parquet", "avro", "bridge", "s3", "hdfs")
AVRO_PART = 10  # of the rows: it is read a record at a time
FAMILY = ("mutator aligned", "mutator shuffle")  # whose scaling is looked at
STORED = {"bridge": "parquet", "export": "orc", "import": "orc"}


@dataclass(frozen=True)
class Workload:
    """A master of so many rows, a feed of so many mutations, both written in a format.

    ``form`` says who takes part (``catalogue.MERGES``), ``only`` names some of them, None means all.
    """

    work: str
    name: str
    rows: int
    mutations: int
    only: tuple[str, ...] | None = None
    form: str = "text"

    @property
    def stored(self) -> str:
        """Return the format that master and feed are written in."""
        return STORED.get(self.form, self.form)


def parse_size(text: str) -> int:
    """Return a number of rows: one of the names, or a number.

    >>> parse_size("4m"), parse_size("50000")
    (4000000, 50000)
    """
    rows = SIZES.get(text) or int(text)
    if rows < 1000:
        raise ValueError("a size is 1,000 rows or more")
    return rows


def workloads(rows: int, work: str) -> list[Workload]:
    """Return the workloads of one name: a share like ``5%``, a number of mutations, ``scaling``, a format, ``bridge``.

    >>> [(w.name, w.mutations) for w in workloads(4_000_000, "5%")]
    [('5 % into 4 M', 200000)]
    >>> [w.name for w in workloads(12_000_000, "scaling")]
    ['scaling: 5 % into 3 M', 'scaling: 5 % into 12 M']
    >>> [(w.name, w.rows, w.form) for work in ("parquet", "avro") for w in workloads(4_000_000, work)]
    [('Parquet: 5 % into 4 M', 4000000, 'parquet'), ('Avro: 5 % into 400,000', 400000, 'avro')]
    >>> [(w.name, w.mutations, w.stored) for w in workloads(4_000_000, "bridge")]  # doctest: +NORMALIZE_WHITESPACE
    [('bridge: 5 % into 4 M', 200000, 'parquet'), ('bridge export, ORC to text: 4 M', 0, 'orc'),
     ('bridge import, text to ORC: 4 M', 0, 'orc')]
    """
    if work == "bridge":
        ways = (("export", "ORC to text"), ("import", "text to ORC"))
        return [
            Workload(work, f"bridge: 5 % into {_millions(rows)}", rows, rows // 20, form="bridge"),
            *(
                Workload(f"{work} {way}", f"{work} {way}, {what}: {_millions(rows)}", rows, 0, form=way)
                for way, what in ways
            ),
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


def _millions(rows: int) -> str:
    return f"{rows / 1e6:g} M" if rows >= 1_000_000 else f"{rows:,}"
