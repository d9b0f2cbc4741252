"""The law of fields that dialects do not send: told in any of them, patches end as the reference model says.

A table gets upserts, patches and deletes, in files that arrive in any order, and one of them twice. Records and counts
are those of the model, so they are the same in all dialects.
"""

from __future__ import annotations

import io
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.formats.files.avro_schema import expanded, to_arrow
from tests.formats.test_debezium_avro import table_of
from tests.formats.test_debezium_json import UNSENT, message, schema_of
from tests.support.connect_files import avro_file
from tests.support.dialect_stories import TYPES, lines, texts
from tests.support.effort import law
from tests.support.named_runs import ENGINES, Work
from tests.support.patch_model import RECORD, Mutation, Place
from tests.support.text_runs import scratch

FIELDS = ("n", "qty")
OUTCOMES = (
    "inserted",
    "updated",
    "deleted",
    "no-op",
    "combined",
    "superseded",
    "late",
    "delete of unknown",
    "patch of unknown",
    "waiting",
)
MARK = "<missing>"


class Teller(NamedTuple):
    """How a dialect tells mutations."""

    dialect: str
    say: Callable[[Mutation], Any]  # a message, or a row
    file: Callable[[Sequence[Any]], bytes]
    suffix: str = "json"
    unset: tuple[str, ...] = FIELDS  # the fields that it may not send
    settings: Mapping[str, str] = {}
    name: str = "f_{}"
    by_name: bool = False  # names of files, and places in them, order the rows


def row(one: Mutation, absent: Any = None) -> dict[str, Any]:
    """Return the row of a mutation. absent: what a patch has in a field that is not sent."""
    return {"id": one.key, **{name: one.given.get(name, absent if one.op == "P" else None) for name in FIELDS}}


def sent(one: Mutation) -> dict[str, Any]:
    """Return the fields that are sent."""
    return {"id": one.key, **one.given}


def debezium(one: Mutation, start: str = "u") -> Any:
    before = {"id": one.key, "n": "", "qty": 0}
    op = {"U": start, "P": "u", "D": "d"}[one.op]
    return message(op, None if one.op == "D" else row(one, UNSENT), before if one.op == "D" else None, one.order)


def with_schema(one: Mutation) -> Any:
    types = {"id": "int64", "n": "string", "qty": "int64"}
    fields = [{"field": name, "type": kind, "optional": True} for name, kind in types.items()]
    return {"schema": schema_of(fields), "payload": debezium(one, "c")}


def flattened(one: Mutation) -> Any:
    op = {"U": "c", "P": "u", "D": "d"}[one.op]
    return {**row(one, UNSENT), "__op": op, "__deleted": str(one.op == "D").lower(), "__lsn": one.order}


def ogg(one: Mutation, marks: bool = False, before: bool = False) -> Any:
    """Tell a compressed update. marks: the columns that it lacks are marked. before: it has them before the change."""
    found = {"table": "d.t", "op_type": {"U": "U", "P": "U", "D": "D"}[one.op], "pos": f"{one.order:020}"}
    after = sent(one)
    if marks:
        after = {**row(one), **{f"{name}_isMissing": name not in one.given for name in FIELDS}}
    if before and one.op == "P":
        return {**found, "before": {"id": one.key, "n_isMissing": True, "n": None}, "after": after}
    return {**found, "before": {"id": one.key}, "after": None if one.op == "D" else after}


def canal(one: Mutation) -> Any:
    kind = {"U": "UPDATE", "P": "UPDATE", "D": "DELETE"}[one.op]
    types = {"id": "bigint(20)", "n": "varchar(255)", "qty": "BIGINT"}
    found = {"id": one.order, "database": "d", "table": "t", "type": kind, "isDdl": False, "mysqlType": types}
    return {**found, "es": 2, "ts": 1, "data": [texts(sent(one))], "old": [{}] if kind == "UPDATE" else None}


def dms(one: Mutation) -> Any:
    found = {name: "NULL" if value is None else str(value) for name, value in row(one, MARK).items()}
    return {"Op": {"U": "I", "P": "U", "D": "D"}[one.op], **found}


def ogg_text(one: Mutation) -> str:
    values = ["NULL" if value is None else str(value) for value in row(one, MARK).values()]
    return "\x01".join([{"U": "I", "P": "U", "D": "D"}[one.op], f"{one.order:020}", *values])


def csv_file(rows: Sequence[Any]) -> bytes:
    return "".join(f"{','.join(one)}\n" for one in ([*rows[0]], *(row.values() for row in rows))).encode()


def text_file(rows: Sequence[str]) -> bytes:
    return "".join(f"{one}\n" for one in rows).encode()


MESSAGES = table_of(("id", "long"), ("n", ["null", "string"]), ("qty", ["null", "long"]))


def parquet_file(rows: Sequence[Any], schema: Any = None) -> bytes:
    """Write rows. schema: None: columns of the table, with numbers and texts beside them."""
    others = ((name, pa.int64() if name == "__lsn" else pa.string()) for name in rows[0] if name not in TYPES.names)
    made = io.BytesIO()
    table = pa.Table.from_pylist(list(rows), schema or pa.schema([*TYPES, *others]))
    pq.write_table(table, made, store_schema=False)
    return made.getvalue()


def of_json(rows: Sequence[Any]) -> bytes:
    return lines(*rows)


_TEXT = ("n",)  # what PostgreSQL stores apart
_IN_CSV = {"unset.value": MARK, "csv.null": "NULL"}
TELLERS = {
    "debezium": Teller("debezium-json", debezium, of_json, unset=_TEXT),
    "debezium with schema": Teller("debezium-json", with_schema, of_json, unset=_TEXT),
    "debezium in avro": Teller("debezium-avro", debezium, partial(avro_file, MESSAGES), "avro", _TEXT),
    "debezium in parquet": Teller(
        "debezium-parquet", debezium, partial(parquet_file, schema=to_arrow(expanded(MESSAGES))), "parquet", _TEXT
    ),
    "debezium flattened": Teller("debezium-flat", flattened, of_json, unset=_TEXT),
    "debezium flattened in parquet": Teller("debezium-flat", flattened, parquet_file, "parquet", _TEXT),
    "ogg": Teller("ogg-json", ogg, of_json),
    "ogg with marks": Teller("ogg-json", partial(ogg, marks=True), of_json),
    "ogg with marks before": Teller("ogg-json", partial(ogg, before=True), of_json, unset=_TEXT),
    "ogg in text": Teller(
        "ogg-csv", ogg_text, text_file, "txt", settings={"unset.value": MARK, "field.names": "op_type,pos,id,n,qty"}
    ),
    "canal": Teller("canal-json", canal, of_json),
    "dms": Teller("aws-dms", dms, csv_file, "csv", settings=_IN_CSV, name="20260101-10000000{}", by_name=True),
    "dms in parquet": Teller(
        "aws-dms",
        lambda one: {**row(one, MARK), "Op": {"U": "I", "P": "U", "D": "D"}[one.op]},
        parquet_file,
        "parquet",
        _TEXT,
        {"unset.value": MARK},
        "20260101-10000000{}",
        by_name=True,
    ),
}


def mutation(rng: random.Random, number: int, may: Sequence[str]) -> Mutation:
    """Return a mutation. may: the fields that it may leave unset."""
    op, key = rng.choice("UUPPPD"), rng.randint(1, 3)
    values = {"n": rng.choice((None, "a", "ü")), "qty": rng.choice((None, 0, 2**40))}
    unset = rng.sample(may, rng.randint(1, len(may))) if op == "P" else []
    return Mutation(op, key, number, {} if op == "D" else {name: values[name] for name in FIELDS if name not in unset})


@pytest.mark.parametrize("dialect", TELLERS)
@given(st.randoms(use_true_random=False))
@law(40)
def test_patches_are_the_same_in_each_dialect(dialect: str, rng: random.Random) -> None:
    teller = TELLERS[dialect]
    # The first one has all values, which say types
    story = [Mutation("U", 9, 1, {"n": "first", "qty": 7})]
    story += [mutation(rng, number, teller.unset) for number in range(2, rng.randint(4, 14))]
    cuts = sorted(rng.randint(1, len(story)) for _ in range(2))
    parts = [*filter(None, (story[: cuts[0]], story[cuts[0] : cuts[1]], story[cuts[1] :]))]
    if teller.by_name:
        parts = [[one._replace(order=number) for one in part] for number, part in enumerate(parts)]
    files = [*enumerate(parts, 1)]
    files[1:] = rng.sample(files[1:], len(files) - 1)
    middle = rng.randint(1, len(files))
    runs = [files[:middle], [*files[middle:], rng.choice(files[:middle])]]  # one of them twice

    unknown = rng.choice(("insert", "wait"))
    with scratch() as directory:
        settings = {"key": "id", "feed.dialect": teller.dialect, "consumed.files": "merge", "output.format": "parquet"}
        settings["patch.unknown"] = unknown
        work, place = Work(directory, rng.choice(ENGINES), {**settings, **teller.settings}), Place(FIELDS, unknown)
        work.put("master/m", TYPES.empty_table(), "parquet")
        for number, part in files:
            name = f"files/{teller.name.format(number)}.{teller.suffix}"
            told = part if teller.by_name or number == 1 else rng.sample(part, len(part))
            work.put(name, teller.file([*map(teller.say, told)]))
        for number, run in enumerate(runs):
            (directory / f"feed{number}").mkdir()
            for name, _ in run:
                shutil.copy(
                    directory / f"files/{teller.name.format(name)}.{teller.suffix}", directory / f"feed{number}"
                )
            report = work.run(master=f"out{number}" if number else "master", feed=f"feed{number}")
            counts = place.run([one for _, part in sorted(run, key=lambda file: file[0]) for one in part])
            assert not report.rejects
            assert {name: report.counts.get(f"feed {name}", 0) for name in OUTCOMES} == {
                name: counts[name] for name in OUTCOMES
            }
        wanted = [
            dict(zip(("id", *FIELDS), (key, *kept.values), strict=True)) for key, kept in place.all(RECORD).items()
        ]
        assert sorted(work.rows(), key=lambda one: one["id"]) == wanted
