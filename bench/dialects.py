"""Make a master and change files of it, as programs that capture changes write them; the same bytes each time.

The master is Parquet: ``id,name,stock,price,changed``. By kind, a feed has

    debezium-json           messages of Debezium for PostgreSQL, without a schema; decimals as text
    debezium-json schema    the same with the schema in each message, and decimals as base64, its defaults
    aws-dms                 CSV with ``Op`` and with a column of ``$AR_H_CHANGE_SEQ``, which orders rows
    json                    JSON Lines of rows with an op code; ``changed`` orders them, and one in twenty is late

Messages and rows of DMS are in the order of their transactions. The members of messages, and what a delete is followed
by, are those of feeds that Debezium 3.6.1 made; DMS's files follow its documentation.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.columns import write_parquet
from bench.data import (
    FILE_BYTES,
    ID_SPACE,
    LATE,
    NEW,
    ROW_BYTES,
    SPREAD,
    Mutations,
    bytes_of,
    draw_master_times,
    draw_mutations,
    texts,
)

__all__ = ["KINDS", "changes", "write_change_files", "write_delete_of_nothing", "write_master_of_changes"]

# Bytes of a row of each kind, about.
KINDS = {"debezium-json": 720, "debezium-json schema": 3400, "aws-dms": 105, "json": 115}
FEWEST_FILES = 4
SLICE = 1 << 15  # rows made at a time
MOST_CENTS = 100_000
MICROS = 1_000_000
LONGEST_TRANSACTION = 5
FIRST_POSITION, STEP = 62_149_096, 168  # in the log

_IMAGE = '{"id":"$id","name":"$name","stock":$stock,"price":"$price","changed":$changed}'
_KEY_IMAGE = '{"id":"$id","name":"","stock":null,"price":null,"changed":null}'  # name is NOT NULL
_SOURCE = (
    '{"version":"3.6.1.Final","connector":"postgresql","name":"shop","ts_ms":$commit_ms,"snapshot":"false","db":"shop"'
    ',"sequence":"[\\"$commit_lsn\\",\\"$lsn\\"]","ts_us":$commit_us,"ts_ns":$(commit_us)000,"schema":"public"'
    ',"table":"items","txId":$transaction,"lsn":$lsn,"xmin":null,"origin":null,"origin_lsn":null}'
)
_MESSAGE = (
    '{"before":$before,"after":$after,"source":$source,"transaction":{"id":"$transaction:$lsn","total_order":$order'
    ',"data_collection_order":$order},"op":"$op","ts_ms":$seen_ms,"ts_us":$seen_us,"ts_ns":$(seen_us)512}'
)
_ROW = '{"op":"$op","id":"$id","name":"$name","stock":$stock,"price":$price,"changed":"$changed"}'
_DMS = ",".join(f"${name}" for name in ("op", "id", "name", "stock", "price", "changed", "sequence"))
DMS_HEADER = b"Op,id,name,stock,price,changed,seq\n"


class Changes(NamedTuple):
    """Changes in columns, with one element per row; of a transaction: its number, and the number within it, from 1."""

    keys: np.ndarray
    ops: np.ndarray  # c, u or d
    micros: np.ndarray
    transactions: np.ndarray
    orders: np.ndarray
    positions: np.ndarray  # in the log of the database


def write_master_of_changes(directory: Path, rows: int, seed: int = 1) -> None:
    """Write a master of unique IDs as Parquet, in four files or more."""
    directory.mkdir(parents=True)
    for number, keys in enumerate(np.array_split(np.arange(rows), _files(rows, ROW_BYTES))):
        random = np.random.default_rng((seed, 1, number))
        columns = _columns(keys, draw_master_times(len(keys), random) * MICROS, random)
        columns["stock"] = columns["stock"].cast(pa.int64())
        columns["price"] = columns["price"].cast(pa.decimal128(9, 2))
        columns["changed"] = columns["changed"].cast(pa.timestamp("us"))
        write_parquet(pa.table(columns), directory / f"part-{number:05}.parquet")


def write_change_files(directory: Path, kind: str, master_rows: int, rows: int, seed: int = 1) -> int:
    """Write a feed of a kind for the master of that many rows; return its size in bytes."""
    directory.mkdir(parents=True)
    random = np.random.default_rng((seed, 2))
    mutations = draw_mutations(master_rows, rows, random)
    if kind == "json":
        micros = mutations.times * MICROS
        nothing = np.zeros(rows, np.int64)
        found = Changes(mutations.keys, np.where(mutations.is_delete, "D", "U"), micros, *[nothing] * 3)
    else:
        found = changes(mutations, master_rows, random)
    size = start = 0
    for number, part in enumerate(np.array_split(np.arange(rows), _files(rows, KINDS[kind]))):
        with (directory / _name(kind, number, start)).open("wb") as file:
            size += file.write(DMS_HEADER if kind == "aws-dms" else b"")
            for first in range(0, len(part), SLICE):
                some = Changes(*(column[part[first : first + SLICE]] for column in found))
                size += file.write(bytes_of(_LINES[kind](some, random)))
        start += len(part)
    return size


def write_delete_of_nothing(directory: Path, kind: str) -> None:
    """Write a feed of a kind that deletes a record which no master has; it is older than those of other feeds."""
    directory.mkdir(parents=True)
    code = "D" if kind == "json" else "d"
    one = Changes(*(np.array([value]) for value in (ID_SPACE - 1, code, LATE * MICROS, 0, 1, 1)))
    lines = bytes_of(_LINES[kind](one, np.random.default_rng(0)))
    (directory / _name(kind, 0, 0)).write_bytes((DMS_HEADER if kind == "aws-dms" else b"") + lines)


def changes(mutations: Mutations, known_keys: int, random: np.random.Generator) -> Changes:
    """Return the mutations as changes in the order of their transactions, of one to five changes each.

    A row that is not there is created, and no row is deleted twice.
    """
    rows = len(mutations.keys)
    order = np.argsort(mutations.keys, kind="stable")
    same_key = np.zeros(rows, bool)
    same_key[1:] = mutations.keys[order[1:]] == mutations.keys[order[:-1]]
    deletes = mutations.is_delete[order]
    deletes[1:] &= ~(same_key[1:] & deletes[:-1])
    gone = np.zeros(rows, bool)
    gone[1:] = same_key[1:] & deletes[:-1]
    gone |= ~same_key & (mutations.keys[order] >= known_keys)
    ops = np.empty(rows, "<U1")
    ops[order] = np.where(deletes, "d", np.where(gone, "c", "u"))
    lengths = random.integers(1, LONGEST_TRANSACTION + 1, rows)
    transactions = np.repeat(np.arange(rows), lengths)[:rows]
    firsts = np.cumsum(lengths) - lengths
    row = np.arange(rows)
    times, positions = (NEW + transactions) * MICROS, FIRST_POSITION + STEP * row
    return Changes(mutations.keys, ops, times, transactions, row - firsts[transactions] + 1, positions)


def _files(rows: int, row_bytes: int) -> int:
    return max(FEWEST_FILES, -(-rows * row_bytes // FILE_BYTES))


def _name(kind: str, number: int, start: int) -> str:
    """Return the name of a file: as Kafka Connect's sinks name them, by the offset; as DMS does, by the time."""
    if kind == "aws-dms":
        return f"20260131-{101500000 + 60_000 * number:09}.csv"
    return f"changes-{number:05}.jsonl" if kind == "json" else f"items+0+{start:010}.json"


def _columns(keys: np.ndarray, micros: np.ndarray, random: np.random.Generator) -> dict[str, pa.Array]:
    """Return the columns of rows as text; times are numbers."""
    cents = random.integers(100, MOST_CENTS, len(keys))
    return {
        "id": texts(keys * SPREAD % ID_SPACE, "P", 10),
        "name": texts(random.integers(0, 1_000_000, len(keys)), "item-", 6),
        "stock": texts(random.integers(0, 1000, len(keys))),
        "price": pc.binary_join_element_wise(texts(cents // 100), texts(cents % 100, "", 2), "."),
        "changed": pa.array(micros + random.integers(0, MICROS, len(keys))),
    }


def _messages(some: Changes, random: np.random.Generator) -> pa.Array:
    """Return messages without a schema, each delete followed by ``null``."""
    columns = _columns(some.keys, some.micros, random)
    return _lines(_filled(_MESSAGE, **_members(some, columns)), some)


def _messages_with_schema(some: Changes, random: np.random.Generator) -> pa.Array:
    columns = _columns(some.keys, some.micros, random)
    cents = pc.replace_substring(columns["price"], ".", "").cast(pa.int64())
    columns["price"] = _BASE64.take(cents)
    envelope = f'{{"schema":{_SCHEMA},"payload":{_MESSAGE}}}'
    return _lines(_filled(envelope, **_members(some, columns)), some)


def _lines(messages: pa.Array, some: Changes) -> pa.Array:
    ends = pc.if_else(pa.array(some.ops == "d"), "\nnull\n", "\n")
    return pc.binary_join_element_wise(messages, ends, "")


def _members(some: Changes, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the members of messages as JSON."""
    is_delete = pa.array(some.ops == "d")
    commits = some.micros + 173_000
    found = {
        "before": pc.if_else(is_delete, _filled(_KEY_IMAGE, **columns), "null"),
        "after": pc.if_else(is_delete, "null", _filled(_IMAGE, **columns)),
        "op": pa.array(some.ops),
        "transaction": texts(some.transactions + 8335),
        "order": texts(some.orders),
        "lsn": texts(some.positions),
        "commit_lsn": texts(some.positions - STEP * (some.orders - 1)),
    }
    for name, micros in (("commit", commits), ("seen", commits + 285_062)):
        found |= {f"{name}_ms": texts(micros // 1000), f"{name}_us": texts(micros)}
    return found | {"source": _filled(_SOURCE, **found)}


def _rows(some: Changes, random: np.random.Generator) -> pa.Array:
    columns = _columns(some.keys, some.micros, random)
    columns["changed"] = pc.strftime(columns["changed"].cast(pa.timestamp("us")), "%Y-%m-%dT%H:%M:%S")
    return _filled(_ROW + "\n", op=pa.array(some.ops), **columns)


def _rows_of_dms(some: Changes, random: np.random.Generator) -> pa.Array:
    columns = _columns(some.keys, some.micros, random)
    columns["changed"] = pc.strftime(columns["changed"].cast(pa.timestamp("us")), "%Y-%m-%d %H:%M:%S")
    codes = pa.array(np.select([some.ops == "c", some.ops == "d"], ["I", "D"], "U"))
    # 16 digits of the time, and 19 of a counter
    sequence = pc.binary_join_element_wise(
        pc.strftime(pa.array(some.micros).cast(pa.timestamp("us")).cast(pa.timestamp("s")), "%Y%m%d%H%M%S"),
        texts(some.positions, "", 21),
        "",
    )
    return _filled(_DMS + "\n", op=codes, sequence=sequence, **columns)


_LINES: dict[str, Callable[[Changes, np.random.Generator], pa.Array]] = {
    "debezium-json": _messages,
    "debezium-json schema": _messages_with_schema,
    "aws-dms": _rows_of_dms,
    "json": _rows,
}


def _filled(template: str, **columns: pa.Array) -> pa.Array:
    """Return a text for each row: the template with the row's values instead of ``$name`` or ``$(name)``."""
    literals = re.split(r"\$\(?\w+\)?", template)
    names = re.findall(r"\$\(?(\w+)\)?", template)
    parts = [literals[0]]
    for name, literal in zip(names, literals[1:], strict=True):
        column = columns[name]
        parts += [column if pa.types.is_string(column.type) else column.cast(pa.string()), literal]
    return pc.binary_join_element_wise(*parts, "")


def _base64(number: int) -> str:
    """Return a decimal of Kafka Connect in JSON: base64 of the shortest big-endian two's complement."""
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, signed=True)).decode("ascii")


_BASE64 = pa.array([_base64(cents) for cents in range(MOST_CENTS)])


def _field(kind: str, column: str, /, *, optional: bool = True, **more: object) -> dict[str, object]:
    return {"type": kind, "optional": optional, **more, "field": column}


def _struct(name: str, fields: list[dict[str, object]], **more: object) -> dict[str, object]:
    return {"type": "struct", "fields": fields, "name": name, **more}


def _schema() -> dict[str, object]:
    """Return the schema that Debezium 3.6.1 writes into each message."""
    decimal = {"scale": "2", "connect.decimal.precision": "9"}
    row = [
        _field("string", "id", optional=False),
        _field("string", "name", optional=False),
        _field("int64", "stock"),
        _field("bytes", "price", name="org.apache.kafka.connect.data.Decimal", version=1, parameters=decimal),
        _field("int64", "changed", name="io.debezium.time.MicroTimestamp", version=1),
    ]
    allowed = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    snapshot = {"name": "io.debezium.data.Enum", "version": 1, "parameters": {"allowed": allowed}, "default": "false"}
    source = [
        *(_field("string", name, optional=False) for name in ("version", "connector", "name")),
        _field("int64", "ts_ms", optional=False),
        _field("string", "snapshot", **snapshot),
        _field("string", "db", optional=False),
        _field("string", "sequence"),
        *(_field("int64", name) for name in ("ts_us", "ts_ns")),
        *(_field("string", name, optional=False) for name in ("schema", "table")),
        *(_field("int64", name) for name in ("txId", "lsn", "xmin")),
        _field("string", "origin"),
        _field("int64", "origin_lsn"),
    ]
    block = [_field("string", "id", optional=False)]
    block += [_field("int64", name, optional=False) for name in ("total_order", "data_collection_order")]
    table = "shop.public.items"
    fields = [
        *(_struct(f"{table}.Value", row, optional=True, field=name) for name in ("before", "after")),
        _struct("io.debezium.connector.postgresql.Source", source, optional=False, version=1, field="source"),
        _struct("event.block", block, optional=True, version=1, field="transaction"),
        _field("string", "op", optional=False),
        *(_field("int64", name) for name in ("ts_ms", "ts_us", "ts_ns")),
    ]
    return _struct(f"{table}.Envelope", fields, optional=False, version=2)


_SCHEMA = json.dumps(_schema(), separators=(",", ":"))
