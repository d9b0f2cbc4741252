"""Random transactions in a database, as Debezium captures them, and the rows at the end.

    python -m tests.support.captured_changes DIRECTORY --database postgresql --transactions 10000 --seed 7

writes the messages of each form and table, and the rows, as lines of JSON: ``schema/items.json``, ``items.rows.json``.

Two sessions run transactions at a time, on few keys, so that they wait for each other, and some fail. The tables:

- ``items`` has a column of each common type, and long texts that PostgreSQL stores apart (TOAST). Its REPLICA IDENTITY
  is FULL, so that messages have all values. It is never truncated, as flattened messages do not say that.
- ``parts`` has a key of two columns, and PostgreSQL's default identity: messages do not have a long text that an update
  did not change. A change of the key sends it anew, as nothing else has its value. It is truncated.

While they run, a signal asks twice for incremental snapshots.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.support.captured_tables import KEYS, TABLES, Column, Table, key_of, value_of
from tests.support.databases import Database, database
from tests.support.debezium_engine import Engine
from tests.support.patience import wait_until

_SIGNALS = "signals"
_UNWRAP = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
}
FLAT = "flat"
FORMS: Mapping[str, Mapping[str, str]] = {  # properties of the connector
    "plain": {
        "value.converter.schemas.enable": "false",
        "decimal.handling.mode": "string",
        "time.precision.mode": "microseconds",
    },
    "schema": {},
    FLAT: {**_UNWRAP, "transforms.unwrap.add.fields": "op,lsn"},
}
_ADDED = {"mariadb": {FLAT: {"transforms.unwrap.add.fields": "op,file,pos,row"}}}


class _Story:
    """The statements of random transactions."""

    def __init__(self, where: Database, rng: Random) -> None:
        self._where, self._rng = where, rng
        self._items, self._parts = TABLES[where.connector]

    def tables(self) -> list[str]:
        """Return the statements that make the tables, with rows."""
        found = [f"CREATE TABLE {_SIGNALS} (id varchar(64) PRIMARY KEY, type varchar(32), data text)"]
        for table in (self._items, self._parts):
            columns = ", ".join(f"{one.name} {one.type}" for one in table.columns)
            found.append(f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY ({', '.join(table.key)}))")
        if self._where.connector == "postgresql":
            found += [
                "ALTER TABLE items REPLICA IDENTITY FULL",
                "ALTER TABLE items ALTER COLUMN body SET STORAGE EXTERNAL",
                "ALTER TABLE parts ALTER COLUMN note SET STORAGE EXTERNAL",
                "CREATE PUBLICATION changes FOR ALL TABLES",
            ]
        return [*found, *(self._insert(table, 90) for table in (self._items, self._parts))]

    def transactions(self, number: int, truncates: bool = True) -> Iterator[str]:
        """Yield the statements of some transactions."""
        kinds, weights = zip(*(self._KINDS if truncates else self._KINDS[:-1]), strict=True)
        for _ in range(number):
            (kind,) = self._rng.choices(kinds, weights)
            end = "ROLLBACK" if self._rng.random() < 0.03 else "COMMIT"
            yield from ("BEGIN", *kind(self), end, self._where.pause)

    def _value(self, column: Column) -> str:
        return self._where.literal(None if self._rng.random() < 0.12 else column.draw(self._rng))

    def _insert(self, table: Table, rows: int = 1, **own: int) -> str:
        before, after = self._where.insert
        found = []
        for _ in range(rows):
            values = {one.name: self._where.literal(one.draw(self._rng)) for one in table.columns[: len(table.key)]}
            values |= {one.name: self._value(one) for one in table.columns[len(table.key) :]}
            found.append(f"({', '.join({**values, **{name: str(value) for name, value in own.items()}}.values())})")
        return f"{before} {table.name} VALUES {', '.join(found)} {after}"

    def _update(self, key: int) -> str:
        columns = self._rng.sample(self._items.columns[1:], self._rng.randrange(1, 4))
        return f"UPDATE items SET {', '.join(f'{one.name} = {self._value(one)}' for one in columns)} WHERE id = {key}"

    def _rename(self, key: int, to: int) -> str:
        free = f"NOT EXISTS (SELECT 1 FROM items AS other WHERE other.id = {to})"
        return f"UPDATE items SET id = {to} WHERE id = {key} AND {free}"

    def _several_updates(self) -> list[str]:
        key = key_of(self._rng)
        return [self._update(key) for _ in range(self._rng.randrange(1, 5))]

    def _several_rows(self) -> list[str]:
        return [self._insert(self._items, self._rng.randrange(1, 5)), self._update(key_of(self._rng))]

    def _deletes(self) -> list[str]:
        return [f"DELETE FROM items WHERE id = {key_of(self._rng)}" for _ in range(self._rng.randrange(1, 4))]

    def _delete_and_insert(self) -> list[str]:
        key = key_of(self._rng)
        found = [self._update(key), f"DELETE FROM items WHERE id = {key}", self._insert(self._items, id=key)]
        return [*found, self._update(key)]

    def _insert_and_delete(self) -> list[str]:
        key = key_of(self._rng)
        return [self._insert(self._items, id=key), self._update(key), f"DELETE FROM items WHERE id = {key}"]

    def _rename_one(self) -> list[str]:
        key, to = key_of(self._rng), key_of(self._rng)
        return [self._update(key), self._rename(key, to), self._update(to)]

    def _rename_to_deleted(self) -> list[str]:
        key, to = self._rng.sample(range(KEYS), 2)
        return [f"DELETE FROM items WHERE id = {to}", self._rename(key, to), self._insert(self._items, id=key)]

    def _swap(self) -> list[str]:
        one, other = self._rng.sample(range(KEYS), 2)
        return [self._rename(one, KEYS), self._rename(other, one), self._rename(KEYS, other)]

    def _many_rows(self) -> list[str]:
        return [
            f"UPDATE items SET name = {self._value(self._items.columns[1])} WHERE id % 13 = {self._rng.randrange(13)}"
        ]

    def _in_part(self) -> list[str]:
        key = key_of(self._rng)
        found = [self._update(key), "SAVEPOINT here", f"DELETE FROM items WHERE id = {key}"]
        return [*found, self._insert(self._items, id=key), "ROLLBACK TO SAVEPOINT here", self._update(key)]

    def _of_parts(self) -> list[str]:
        order, line, qty, note = (self._value(one) for one in self._parts.columns)
        order, line = str(self._rng.randrange(KEYS // 4)), str(self._rng.randrange(4))
        at = f"WHERE order_id = {order} AND line = {line}"
        change = f"UPDATE parts SET qty = {qty}, note = {note}"
        return self._rng.choice(
            (
                [self._insert(self._parts, 3)],
                [f"{change} {at}", f"UPDATE parts SET qty = 1 {at}"],
                [f"UPDATE parts SET qty = {qty} WHERE line = {line}", f"UPDATE parts SET note = {note} {at}"],
                [f"DELETE FROM parts WHERE order_id = {order}"],
                [f"DELETE FROM parts {at}", f"{change}, line = {line} WHERE order_id = {order} AND line = 4 - {line}"],
                [f"{change}, line = line + 1 {at}"],
            )
        )

    def _truncate(self) -> list[str]:
        return [self._insert(self._parts, 5), "TRUNCATE TABLE parts", self._insert(self._parts, 40)]

    _KINDS: Sequence[tuple[Callable[[_Story], list[str]], int]] = (
        (_several_updates, 30),
        (_several_rows, 15),
        (_deletes, 8),
        (_delete_and_insert, 8),
        (_insert_and_delete, 4),
        (_rename_one, 8),
        (_rename_to_deleted, 5),
        (_swap, 3),
        (_many_rows, 3),
        (_in_part, 4),
        (_of_parts, 25),
        (_truncate, 3),  # the last, so that it can be left out
    )


class Captured(NamedTuple):
    """What an engine gave, and what the tables had at the end."""

    messages: Mapping[tuple[str, str], list[bytes]]  # by form and name of the table
    rows: Mapping[str, list[dict[str, Any]]]  # by name of the table


def capture(connector: str, transactions: int, seed: int) -> Captured:
    """Run random transactions and capture them in each form."""
    rng = Random(seed)
    with database(connector) as found, ThreadPoolExecutor(2) as pool:
        stories = [_Story(found, Random(rng.random())) for _ in range(2)]
        found.run(stories[0].tables())
        connectors = [_properties(found, number, form) for number, form in enumerate(FORMS, 1)]
        topic = f"{found.schema}.{_SIGNALS}"
        with Engine(connectors) as engine:
            # MariaDB cannot read a table in a snapshot that is truncated meanwhile
            started = [pool.submit(found.run, one.transactions(transactions // 10, truncates=False)) for one in stories]
            # A snapshot leaves signals out
            wait_until(lambda: engine.have(topic, b'"begin ') or found.run([_signal(found, "begin", "none")]), 0.2)
            for one in started:
                one.result()
            running = [pool.submit(found.run, one.transactions(transactions * 2 // 5)) for one in stories]
            for _ in range(2):
                found.run([_signal(found, "again", "execute-snapshot"), *[found.pause] * 20])
            for one in running:
                one.result()
            found.run([_signal(found, "end", "none")])
            wait_until(lambda: engine.have(topic, b'"end '), 0.1)
        rows = {one.name: _rows(found, one) for one in TABLES[connector]}
        messages = {
            (form, one.name): by_topic[f"{found.schema}.{one.name}"]
            for form, by_topic in zip(FORMS, engine.messages, strict=True)
            for one in TABLES[connector]
        }
    return Captured(messages, rows)


def _properties(where: Database, number: int, form: str) -> dict[str, str]:
    tables = [f"{where.schema}.{name}" for name in ("items", "parts", _SIGNALS)]
    hidden = [one.name for one in TABLES[where.connector][0].columns if not one.is_plain]
    own = {
        "name": form,
        "topic.prefix": form,  # JMX wants a name for each
        "table.include.list": ",".join(tables),
        "signal.data.collection": tables[-1],
        "incremental.snapshot.chunk.size": "16",
    }
    if form == "plain":
        own["column.exclude.list"] = ",".join(f"{where.schema}.items.{name}" for name in hidden)
    return {**where.properties(number), **own, **FORMS[form], **_ADDED.get(where.connector, {}).get(form, {})}


def _signal(where: Database, name: str, kind: str) -> str:
    data = json.dumps(
        {"type": "incremental", "data-collections": [f"{where.schema}.{one}" for one in ("items", "parts")]}
    )
    return f"INSERT INTO {_SIGNALS} SELECT CONCAT('{name} ', COUNT(*)), '{kind}', '{data}' FROM {_SIGNALS}"


def _rows(where: Database, table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table, by key."""
    cast = "CAST({} AS CHAR)" if where.connector == "mariadb" else "{}::text"
    texts = [(one.text or cast).format(one.name) for one in table.columns]
    found = where.rows(f"SELECT {where.row(texts)} FROM {table.name} ORDER BY {', '.join(table.key)}")
    return [
        {one.name: value_of(text, one.data_type) for one, text in zip(table.columns, row, strict=True)} for row in found
    ]


def main() -> None:
    """Write messages and rows to a directory."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--database", choices=[*TABLES], default="postgresql")
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    found = capture(asked.database, asked.transactions, asked.seed)
    for (form, table), messages in found.messages.items():
        place = asked.directory / form / f"{table}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"".join(one + b"\n" for one in messages))
    for table, rows in found.rows.items():
        lines = [json.dumps(one, default=str, ensure_ascii=False) + "\n" for one in rows]
        (asked.directory / f"{table}.rows.json").write_text("".join(lines))


if __name__ == "__main__":
    main()
