"""The tables that Debezium captures for tests: their columns, random values, and what a master has of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

KEYS = 120  # the IDs of a table are below
_TEXTS = (
    "plain",
    'O\'Neil "quoted"',
    "tab\there",
    "line\nbreak",
    "back\\slash",
    "a,b;c|d",
    "Größe",
    "日本語",
    "emoji 😀👩‍👧",
)
_TEXTS += ("null", "NULL", "", " lead and trail ", '{"a":1}', "\\N", "0012", "1e5", "true", "u2028\u2028", "e\u0301")
_DAYS = ("1970-01-01", "1969-12-31", "1900-02-28", "2000-02-29", "2099-12-31")


class Column(NamedTuple):
    """A column."""

    name: str
    type: str  # in the database
    data_type: Any  # of the master
    draw: Callable[[Random], Any]  # returns a value
    text: str = ""  # the value as text in SQL; "": a cast

    @property
    def is_plain(self) -> bool:
        """Whether a message without a schema says the value."""
        return not pa.types.is_binary(self.data_type) and self.name != "bits"


class Table(NamedTuple):
    """A table."""

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def types(self) -> Any:
        """The pa.Schema of the master."""
        return pa.schema([(one.name, one.data_type) for one in self.columns])


def _number(low: int, high: int) -> Callable[[Random], int]:
    return lambda rng: rng.choice((low, high, 0, -1)) if rng.random() < 0.3 else rng.randint(-1000, 1000)


def _text(rng: Random) -> str:
    return rng.choice(_TEXTS)


def _long(rng: Random) -> str:
    return rng.choice(_TEXTS) if rng.random() < 0.7 else f"{rng.random()} " * 500  # 10 kB, which TOAST stores apart


def _decimal(rng: Random) -> Decimal:
    return Decimal(rng.choice((0, -1, 10, 128, -129, 10**9 - 1, 1 - 10**9, rng.randrange(10**7)))).scaleb(-2)


def _double(rng: Random) -> float:
    return rng.choice((0.1 + 0.2, -0.0, 1e-300, 1.7976931348623157e308, 5e-324, 1 / 3, rng.uniform(-1e3, 1e3)))


def _moment(digits: int, zones: Sequence[str] = ()) -> Callable[[Random], str]:
    def draw(rng: Random) -> str:
        day = rng.choice(_DAYS) if not zones else f"20{rng.randrange(10, 37)}-02-28"
        micros = rng.randrange(10**digits) * 10 ** (6 - digits)
        zone = rng.choice(zones or [""])
        return f"{day} {rng.randrange(24):02}:{rng.randrange(60):02}:59.{micros:06}{zone}"

    return draw


def _time(rng: Random) -> str:
    return f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(10**6):06}"


def _json(rng: Random) -> str:
    return json.dumps(rng.choice(({}, [], {"a": [1, None]}, {"k": rng.choice(_TEXTS)}, 7, "text")))


def key_of(rng: Random) -> int:
    return rng.randrange(KEYS)


_COMMON = (
    Column("id", "int", pa.int32(), key_of),
    Column("name", "varchar(200)", pa.string(), _text),
    Column("small", "smallint", pa.int16(), _number(-(2**15), 2**15 - 1)),
    Column("big", "bigint", pa.int64(), _number(-(2**63), 2**63 - 1)),
    Column("price", "numeric(9,2)", pa.decimal128(9, 2), _decimal),
    Column("born", "date", pa.date32(), lambda rng: rng.choice(_DAYS)),
)
_POSTGRESQL = (
    *_COMMON,
    # No zero at the end, which Debezium leaves out
    Column(
        "ratio", "numeric", pa.string(), lambda rng: Decimal(10 * rng.randrange(10**9) + 1).scaleb(-rng.randrange(9))
    ),
    Column("weight", "double precision", pa.float64(), _double),
    Column("level", "real", pa.float32(), lambda rng: rng.choice((0.1, -2.5, 1e30))),
    Column("active", "boolean", pa.bool_(), lambda rng: rng.random() < 0.5),
    Column("code", "char(4)", pa.string(), lambda rng: f"{rng.randrange(10**4):04}"),
    Column("at", "time", pa.time64("us"), _time),
    Column("made", "timestamp(3)", pa.timestamp("ms"), _moment(3)),
    Column("updated", "timestamp", pa.timestamp("us"), _moment(6)),
    Column("seen", "timestamptz", pa.timestamp("us", "UTC"), _moment(6, ("+00", "+02", "-07:30"))),
    Column("uid", "uuid", pa.string(), lambda rng: f"{rng.getrandbits(128):032x}"),
    Column("doc", "jsonb", pa.string(), _json),
    Column("raw", "bytea", pa.binary(), lambda rng: rng.randbytes(rng.randrange(9)), "encode({}, 'hex')"),
    Column("bits", "bit(9)", pa.string(), lambda rng: f"{rng.randrange(512):09b}"),
    Column(
        "tags", "text[]", pa.list_(pa.string()), lambda rng: f'{{t{rng.randrange(9)},NULL,""}}', "to_json({})::text"
    ),
    Column("counts", "int[]", pa.list_(pa.int32()), lambda rng: f"{{{rng.randrange(9)},-1}}", "to_json({})::text"),
    Column("body", "text", pa.string(), _long),
)
_MARIADB = (
    *_COMMON,
    Column("tiny", "tinyint unsigned", pa.int16(), lambda rng: rng.randrange(256)),
    Column("weight", "double", pa.float64(), lambda rng: rng.choice((0.5, -2.25, 1e300, float(rng.randrange(10**6))))),
    Column("active", "boolean", pa.int16(), lambda rng: rng.random() < 0.5),
    Column("code", "char(4)", pa.string(), lambda rng: f"{rng.randrange(10**4):04}"),
    Column("at", "time(6)", pa.time64("us"), _time),
    Column("made", "datetime(3)", pa.timestamp("ms"), _moment(3)),
    Column("updated", "datetime(6)", pa.timestamp("us"), _moment(6)),
    Column("seen", "timestamp(6) NULL", pa.timestamp("us", "UTC"), _moment(6, ("",))),
    Column("season", "year", pa.int32(), lambda rng: rng.randrange(1950, 2050)),
    Column("kind", "enum('a','b','ü')", pa.string(), lambda rng: rng.choice("abü")),
    Column("doc", "json", pa.string(), _json),
    Column("raw", "varbinary(9)", pa.binary(), lambda rng: rng.randbytes(rng.randrange(9)), "HEX({})"),
    Column("body", "longtext", pa.string(), _long),
)
_PARTS = (
    Column("order_id", "int", pa.int32(), lambda rng: rng.randrange(KEYS // 4)),
    Column("line", "int", pa.int32(), lambda rng: rng.randrange(4)),
    Column("qty", "bigint", pa.int64(), _number(-(2**63), 2**63 - 1)),
    Column("note", "text", pa.string(), _long),
)
TABLES: Mapping[str, tuple[Table, Table]] = {
    name: (Table("items", ("id",), columns), Table("parts", ("order_id", "line"), _PARTS))
    for name, columns in (("postgresql", _POSTGRESQL), ("mariadb", _MARIADB))
}


def value_of(text: str | None, data_type: Any) -> Any:
    """Return the value of a text of the database, as Arrow returns values.

    >>> value_of("1.50", pa.decimal128(9, 2)), value_of("2026-01-31 10:00:00.5+00", pa.timestamp("us", "UTC")).second
    (Decimal('1.50'), 0)
    """
    types = pa.types
    if text is None or types.is_string(data_type):
        return text
    if types.is_list(data_type):
        return json.loads(text)
    if types.is_binary(data_type):
        return bytes.fromhex(text)
    if types.is_boolean(data_type):
        return text == "true"
    if types.is_timestamp(data_type):
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=found.tzinfo or UTC) if data_type.tz else found
    if types.is_floating(data_type):
        return pa.scalar(float(text), data_type).as_py()
    read: Callable[[str], Any] = int
    for is_type, own in (
        (types.is_decimal, Decimal),
        (types.is_date, date.fromisoformat),
        (types.is_time, time.fromisoformat),
    ):
        read = own if is_type(data_type) else read
    return read(text)
