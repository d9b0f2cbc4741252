"""DuckDB on change files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.contenders.contender import Contender, Ran
from bench.layout import CHANGED_FIELDS

__all__ = ["DuckDbDialects"]

MEMBERS = {
    "before": "struct(id varchar)",
    '"after"': "struct(id varchar, name varchar, stock bigint, price varchar, changed bigint)",
    "source": 'struct("sequence" varchar, lsn bigint)',
    "transaction": "struct(total_order bigint)",
    "op": "varchar",
}
TYPES = {"stock": "bigint", "price": "decimal(9, 2)", "changed": "timestamp"}
MESSAGE_ORDER = ("sequence", "lsn", "total_order")


class DuckDbDialects(Contender):
    """The folded feed as a table, an anti-join of the master with it, plus the winners."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def start(self, scratch: Path) -> dict[str, str]:
        """Open a database in memory; it uses all cores by default."""
        import duckdb

        self.database = duckdb.connect(config={"temp_directory": str(scratch / "duckdb")})
        return {"duckdb": duckdb.__version__}

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge, and write one file."""
        fields = ", ".join(CHANGED_FIELDS)
        changes, order = READERS[self.kind](feed)
        last_first = ", ".join(f"{name} desc nulls last" for name in order)
        output.mkdir()
        self.database.execute(
            f"""create or replace temp table winners as select * from ({changes})
                qualify row_number() over (partition by id order by {last_first}) = 1"""
        )
        master = f"read_parquet('{self.master}/*.parquet')"
        if "changed" in order:  # the master has the order values, too, and is newer than some changes
            self.database.execute(
                f"""delete from winners using {master} master
                    where master.id = winners.id and master.changed > winners.changed"""
            )
        self.database.execute(
            f"""copy (
                select {fields} from {master} master anti join winners using (id)
                union all
                select {fields} from winners where lower(op) <> 'd')
            to '{output}/part.parquet' (format parquet, compression snappy)"""
        )
        return Ran("anti-join")


def _messages(feed: Path) -> tuple[str, tuple[str, ...]]:
    return _unwrapped(_json(feed / "*.json", MEMBERS), '"after".price::decimal(9, 2)'), MESSAGE_ORDER


def _messages_with_schema(feed: Path) -> tuple[str, tuple[str, ...]]:
    """Prices are base64 of big-endian numbers; all of them are positive."""
    payload = f"struct({', '.join(' '.join(member) for member in MEMBERS.items())})"
    messages = f"(select unnest(payload) from {_json(feed / '*.json', {'payload': payload})})"
    price = """(('0x' || hex(from_base64("after".price)))::bigint / 100)::decimal(9, 2)"""
    return _unwrapped(messages, price), MESSAGE_ORDER


def _unwrapped(messages: str, price: str) -> str:
    return f"""select op, coalesce("after".id, before.id) id, "after".name, "after".stock, {price} price,
            make_timestamp("after".changed) changed, source.lsn, transaction.total_order,
            split_part(source."sequence", '"', 2)::bigint "sequence"
        from {messages} where op is not null"""


def _rows_of_dms(feed: Path) -> tuple[str, tuple[str, ...]]:
    columns = _struct(_types(("op", *CHANGED_FIELDS, "seq")))
    return f"from read_csv('{feed}/*.csv', header = true, auto_detect = false, columns = {columns})", ("seq",)


def _rows(feed: Path) -> tuple[str, tuple[str, ...]]:
    return f"from {_json(feed / '*.jsonl', _types(('op', *CHANGED_FIELDS)))}", ("changed",)


def _types(names: tuple[str, ...]) -> dict[str, str]:
    return {name: TYPES.get(name, "varchar") for name in names}


def _json(files: Path, types: Mapping[str, str]) -> str:
    return f"read_json('{files}', format = 'newline_delimited', columns = {_struct(types)})"


def _struct(types: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: '{of}'" for name, of in types.items()) + "}"


READERS = {
    "debezium-json": _messages,
    "debezium-json schema": _messages_with_schema,
    "aws-dms": _rows_of_dms,
    "json": _rows,
}
