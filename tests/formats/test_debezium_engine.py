"""A running Debezium captures random transactions; merged in any order, its messages give the rows of the tables."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from tests.formats.test_debezium_json import UNSENT
from tests.support.captured_changes import FLAT, FORMS, Captured, capture
from tests.support.captured_tables import TABLES, Table
from tests.support.named_runs import ENGINES, Work

RUNS, FILES = 3, 4
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "plain": {"feed.dialect": "debezium-json", "feed.time.unit": "us", "feed.decimals": "text"},
    "schema": {"feed.dialect": "debezium-json"},
    FLAT: {"feed.dialect": "debezium-flat"},
}
# Flattened messages of MariaDB have the name of the log file, whose numbers have six digits, so text orders them
_OF_MARIADB = {"order_by": "__file,__pos,__row", "order_type": "string,long,long", "null.order": "lowest"}


def check(path: Path, captured: Captured, form: str, table: Table, settings: Mapping[str, str], engine: str) -> Any:
    """Merge the messages of a table, in any order, some of them twice, and compare the master with the rows."""
    rng = random.Random(f"{form} {table.name} {engine}")
    messages = captured.messages[form, table.name]
    messages = [*messages, *rng.sample(messages, len(messages) // 20)]
    rng.shuffle(messages)
    cuts = [0, *sorted(rng.sample(range(1, len(messages)), RUNS * FILES - 1)), len(messages)]
    work = Work(path, engine, {"key": ",".join(table.key), "output.format": "parquet", **settings})
    types = [one for one in table.columns if form != "plain" or one.is_plain]
    if form == "plain":
        work.put("master/m", table.types.empty_table().select([one.name for one in types]), "parquet")
    else:
        (path / "master").mkdir(parents=True)
        work.settings["allow.empty.master"] = "true"
    for number, (start, end) in enumerate(pairwise(cuts)):
        name = f"feed{number % RUNS}/{table.name}+0+{number}.json.gz"
        work.put(name, gzip.compress(b"\n".join(messages[start:end]) + b"\n", 1))
    for number in range(RUNS):
        work.run(master=f"out{number}" if number else "master", feed=f"feed{number}")

    found = work.table()
    schema = {one.name: one.data_type for one in types}
    assert {one.name: one.type for one in found.schema if one.name in schema} == schema
    rows, wanted = (
        {tuple(row[key] for key in table.key): row for row in rows}
        for rows in (found.to_pylist(), captured.rows[table.name])
    )
    assert len(wanted) > 10
    assert rows.keys() == wanted.keys()
    values = [(key, name, rows[key][name], wanted[key][name]) for key in wanted for name in schema]
    assert [(*at, str(one)[:60], str(other)[:60]) for *at, one, other in values if str(one) != str(other)] == []


@pytest.fixture(scope="module")
def captured(request: pytest.FixtureRequest) -> tuple[str, Captured]:
    """Return the name of a database, and what Debezium captured of some transactions in it."""
    name, transactions = request.param
    found = capture(name, transactions, seed=transactions)
    said = [json.loads(one) for (form, _), messages in found.messages.items() if form == "plain" for one in messages]
    kinds = {(one["op"], one["source"].get("snapshot") == "incremental") for one in said if one}
    assert kinds == {("r", True), *((op, False) for op in "crudt")}
    if name == "postgresql":
        images = [one["after"] for one in said if one and one["op"] == "u"]
        assert sum(UNSENT in image.values() for image in images) > 5
    return name, found


def cases() -> Iterator[Any]:
    """Yield a database with its number of transactions, a form and an engine: each form meets each engine once."""
    for at, name in enumerate(TABLES):
        for number, form in enumerate(FORMS, at):
            yield pytest.param((name, 300), form, ENGINES[number % 2], id=f"{name}-300-{form}")
        for form, engine in product(FORMS, ENGINES):
            yield pytest.param((name, 10_000), form, engine, id=f"{name}-{form}-{engine}", marks=pytest.mark.soak)


@pytest.mark.rest
@pytest.mark.xdist_group("debezium")
@pytest.mark.parametrize(("captured", "form", "engine"), [*cases()], indirect=["captured"], scope="module")
def test_master_is_the_table(captured: tuple[str, Captured], form: str, engine: str, tmp_path: Path) -> None:
    name, found = captured
    settings = {**SETTINGS[form], **(_OF_MARIADB if (name, form) == ("mariadb", FLAT) else {})}
    for table in TABLES[name][: 1 if form == FLAT else 2]:  # flattened messages do not say truncates
        check(tmp_path / table.name, found, form, table, settings, engine)
