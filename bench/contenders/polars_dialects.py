"""Polars on change files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.contenders.contender import Contender, Ran
from bench.layout import CHANGED_FIELDS

if TYPE_CHECKING:
    import polars

__all__ = ["PolarsDialects"]


class PolarsDialects(Contender):
    """Lines are read as text, because Polars reads no ``null`` between objects, and then as JSON of the wanted members.

    In experiments with 100,000 messages, removing these lines first took 2 times as long, and reading the lines before
    the JSON, not both in a stream, 5 times.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def start(self, scratch: Path) -> dict[str, str]:
        """Import the package, which uses all cores by default."""
        import polars

        return {"polars": polars.__version__}

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge, and write one file."""
        import polars as pl

        changes, order = READERS[self.kind](feed)
        winners = changes.collect(engine="streaming").sort(order).unique("id", keep="last", maintain_order=False)
        master = pl.read_parquet(self.master / "*.parquet")
        added = winners.filter(pl.col("op").str.to_lowercase() != "d")
        if "changed" in order:  # the master has the order values, too, and is newer than some changes
            joined = master.join(winners.select("id", newest="changed"), on="id", how="left")
            kept = joined.filter(pl.col("newest").is_null() | (pl.col("changed") > pl.col("newest")))
            added = added.join(kept.filter(pl.col("newest").is_not_null()), on="id", how="anti")
        else:
            kept = master.join(winners, on="id", how="anti")
        output.mkdir()
        rows = pl.concat([kept.select(CHANGED_FIELDS), added.select(CHANGED_FIELDS)])
        rows.write_parquet(output / "part.parquet", compression="snappy")
        return Ran("anti-join, eager")


def _messages(feed: Path) -> tuple[polars.LazyFrame, list[str]]:
    import polars as pl

    rows = _lines(feed, pl.Struct(_members()))
    return _unwrapped(rows, pl.col("after").struct.field("price").cast(pl.Decimal(9, 2)))


def _messages_with_schema(feed: Path) -> tuple[polars.LazyFrame, list[str]]:
    """Prices are base64 of big-endian numbers; all of them are positive."""
    import polars as pl

    price = pl.col("after").struct.field("price").str.decode("base64").bin.encode("hex").str.to_integer(base=16)
    rows = _lines(feed, pl.Struct({"payload": pl.Struct(_members())})).unnest("payload")
    return _unwrapped(rows, (price / 100).round(2).cast(pl.Decimal(9, 2)))


def _members() -> dict[str, polars.DataType]:
    import polars as pl

    text, number = pl.String(), pl.Int64()
    row = {"id": text, "name": text, "stock": number, "price": text, "changed": number}
    return {
        "before": pl.Struct({"id": text}),
        "after": pl.Struct(row),
        "source": pl.Struct({"sequence": text, "lsn": number}),
        "transaction": pl.Struct({"total_order": number}),
        "op": text,
    }


def _lines(feed: Path, of_type: polars.DataType) -> polars.LazyFrame:
    import polars as pl

    lines = pl.scan_lines(feed / "*.json", name="line").filter(pl.col("line") != "null")
    return lines.select(pl.col("line").str.json_decode(of_type)).unnest("line")


def _unwrapped(messages: polars.LazyFrame, price: polars.Expr) -> tuple[polars.LazyFrame, list[str]]:
    import polars as pl

    after = pl.col("after").struct
    order = {
        "sequence": pl.col("source").struct.field("sequence").str.extract(r'^\["(\d+)"').cast(pl.Int64),
        "lsn": pl.col("source").struct.field("lsn"),
        "total_order": pl.col("transaction").struct.field("total_order"),
    }
    rows = messages.select(
        "op",
        after.field("name"),
        after.field("stock"),
        id=pl.coalesce(after.field("id"), pl.col("before").struct.field("id")),
        price=price,
        changed=after.field("changed").cast(pl.Datetime("us")),
        **order,
    )
    return rows, list(order)


def _rows_of_dms(feed: Path) -> tuple[polars.LazyFrame, list[str]]:
    import polars as pl

    names = ("op", *CHANGED_FIELDS, "seq")
    types = {"stock": pl.Int64(), "price": pl.Decimal(9, 2)}
    schema = {name: types.get(name, pl.String()) for name in names}
    rows = pl.scan_csv(feed / "*.csv", has_header=False, skip_rows=1, schema=schema)
    time = pl.col("changed").str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us")
    return rows.with_columns(time), ["seq"]


def _rows(feed: Path) -> tuple[polars.LazyFrame, list[str]]:
    """Prices become decimals after times, because Polars reads no decimals from numbers of JSON."""
    import polars as pl

    types = {"stock": pl.Int64(), "price": pl.Float64()}
    schema = {name: types.get(name, pl.String()) for name in ("op", *CHANGED_FIELDS)}
    time = pl.col("changed").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us")
    price = pl.col("price").round(2).cast(pl.Decimal(9, 2))
    return pl.scan_ndjson(feed / "*.jsonl", schema=schema).with_columns(time, price), ["changed"]


READERS = {
    "debezium-json": _messages,
    "debezium-json schema": _messages_with_schema,
    "aws-dms": _rows_of_dms,
    "json": _rows,
}
