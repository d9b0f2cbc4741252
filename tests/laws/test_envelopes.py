"""The seam of envelopes: toys that say more than op codes and delete files keep the laws, in both engines.

Each world is a feed of a few rows, merged at once and cut into runs; both must give what the model gives. No dataset
keeps the floor yet, so a run gets the truncates of all runs before it, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from mutator.dataset.versions.opening import open_snapshot
from mutator.formats.files.avro_schema import avro_of
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules.envelopes import ENVELOPES, EnvelopeKind
from mutator.table.table import Table
from tests.laws.test_registers import ENGINES, KEYS, tombstones_in
from tests.laws.toy_envelopes import KeyChanges, Messages, Truncates, lowered
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import left_of

Row = tuple[str, int, str, str]  # key, order value, op code, content
BY_POSITION = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "op.code.field.ordinal": "2",
    "op.code.in.master": "false",
}
BY_NAME = {"key": "id", "order_by": "at", "op": "op", "header": "true", "ignore.op.code": "H"}
RUN = {"num.reducer": "2", "split.bytes": "60", **NO_LIMITS}
FIRST = dict.fromkeys(KEYS[:2], (3, "m"))


@pytest.fixture
def truncates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the op code T as a truncate."""
    monkeypatch.setitem(ENVELOPES, "code", EnvelopeKind(Truncates, "delete.when"))  # type: ignore[arg-type]


@pytest.fixture
def key_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the op code K as a change of the key."""
    monkeypatch.setitem(ENVELOPES, "code", EnvelopeKind(KeyChanges, "delete.when"))  # type: ignore[arg-type]


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read rows as messages."""
    monkeypatch.setitem(ENVELOPES, "code", EnvelopeKind(Messages, "delete.when"))  # type: ignore[arg-type]


def world(rng: random.Random) -> list[Row]:
    """Return mutations, no two of a key with one order value, and truncates, some with that of a mutation."""
    rows = [
        (key, order, rng.choice("UUUD"), rng.choice("xyz"))
        for key in KEYS
        for order in rng.sample(range(1, 12), rng.randint(0, 4))
    ]
    rows += [("", order, "T", "") for order in rng.sample(range(1, 12), rng.randint(0, 2))]
    rng.shuffle(rows)
    return rows


def merged(
    work: Path,
    runs: list[list[Row]],
    engine: str,
    settings: dict[str, str],
    on: Callable[..., Any] = local_engine.mutate,
) -> tuple[list[Any], list[Any]]:
    """Merge runs one after the other into a master; return its records and tombstones."""
    master = work / "master"
    master.mkdir(parents=True)
    header, suffix = ("id,at,name\n", "csv") if "key" in settings else ("", "txt")
    for key, (order, content) in FIRST.items():
        (master / f"{key}.{suffix}").write_text(f"{header}{key},{order},{content}\n")
    for number, rows in enumerate(runs):
        feed, output = work / f"feed{number}", work / f"out{number}"
        feed.mkdir()
        for part in range(2):
            lines = "".join(f"{key},{order},{op},{content}\n" for key, order, op, content in rows[part::2])
            (feed / f"f{part}.{suffix}").write_text(("id,at,op,name\n" if header else "") + lines)
        on({**settings, **RUN}, master=master, feed=feed, output=output, engine=engine)
        master = output
    found = [path for path in master.rglob("part-*") if "_mutator" not in path.parts]
    parts = [path.read_text().splitlines() for path in found]
    rows = [line.split(",") for lines in parts for line in lines if line + "\n" != header]
    buried = [(key[0].decode(), int(order)) for key, order, _ in tombstones_in(master)]
    return sorted((key, int(order), content) for key, order, content in rows), sorted(buried)


def with_floor(runs: list[list[Row]]) -> list[list[Row]]:
    """Return runs, each with the truncates of those before it."""
    known = accumulate(([row for row in run if row[2] == "T"] for run in runs), initial=[])
    return [[*before, *run] for before, run in zip(known, runs, strict=False)]


@pytest.mark.parametrize("settings", [BY_POSITION, BY_NAME, {**BY_POSITION, "master.unique": "true"}])
@pytest.mark.parametrize("engine", ENGINES)
def test_any_cut_of_truncates_gives_what_the_model_gives(
    truncates: None, engine: str, settings: dict[str, str], tmp_path: Path
) -> None:
    rng = random.Random(5)
    for number in range(10):
        rows = world(rng)
        cuts = sorted(rng.sample(range(len(rows) + 1), min(2, len(rows))))
        runs = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        expected = lowered(FIRST, rows)
        work = tmp_path / str(number)

        assert merged(work / "whole", [rows], engine, settings) == expected
        assert merged(work / "cut", with_floor(runs), engine, settings) == expected, runs
        assert merged(work / "again", with_floor([*runs, rows]), engine, settings) == expected


def test_a_truncate_is_accounted_for(truncates: None, tmp_path: Path) -> None:
    rows = [("", 4, "T", ""), ("", 5, "T", ""), ("a", 4, "U", "x"), ("c", 4, "D", ""), ("d", 5, "U", "z")]
    reports = []

    def on(*args: Any, **more: Any) -> None:
        reports.append(local_engine.mutate(*args, **more))

    for engine in ENGINES:
        assert merged(tmp_path / engine, [rows], engine, BY_POSITION, on) == ([("d", 5, "z")], [])
    for report in reports:
        found = {
            name: count for name, count in report.counts.items() if count and name.split()[0] in ("feed", "master")
        }
        assert found == {
            "feed rows": 5,
            "feed truncate": 1,
            "feed superseded": 1,
            "feed late": 2,
            "feed inserted": 1,
            "master rows": 2,
            "master truncated": 2,
        }


@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncate_obeys_the_limit_of_deletes(truncates: None, engine: str, tmp_path: Path) -> None:
    strict = {**BY_POSITION, "max.delete.fraction": "0.5"}
    with pytest.raises(mutator.DataError, match="2 of the master's 2 records"):
        merged(tmp_path, [[("", 4, "T", "")]], engine, {}, lambda _, **more: local_engine.mutate(strict, **more))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncate_without_an_order_value_is_a_reject(truncates: None, engine: str, tmp_path: Path) -> None:
    for settings in (BY_POSITION, BY_NAME):
        with pytest.raises(mutator.DataError, match="order value"):
            merged(tmp_path / str(len(settings)), [[("", "then", "T", "")]], engine, settings)  # type: ignore[list-item]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_may_say_two_mutations_or_none(key_changes: None, engine: str, tmp_path: Path) -> None:
    header = "id,at,op,old,name\n"
    (tmp_path / "master").mkdir()
    (tmp_path / "master" / "m.csv").write_text("id,at,old,name\na,3,,m\nb,3,,m\n")
    (tmp_path / "feed").mkdir()
    rows = ["c,5,K,a,x", "b,4,U,,n", ",6,H,,", "d,7,K,c,y", "e,9,K,f,z"]
    (tmp_path / "feed" / "f.csv").write_text(header + "".join(f"{row}\n" for row in rows))
    out = tmp_path / "out"

    report = local_engine.mutate(
        {**BY_NAME, **RUN}, master=tmp_path / "master", feed=tmp_path / "feed", output=out, engine=engine
    )

    written = sorted(line for path in out.glob("part-*") for line in path.read_text().splitlines()[1:])
    assert written == ["b,4,,n", "d,7,c,y", "e,9,f,z"]
    buried = sorted((key[0].decode(), int(order)) for key, order, _ in tombstones_in(out))
    assert buried == [("a", 5), ("c", 7), ("f", 9)]
    counts = report.counts
    assert (counts["feed rows"], counts["feed halves"], counts["feed no mutations"]) == (4, 3, 1)
    assert (counts["feed superseded"], counts["feed deleted"], counts["feed delete of unknown"]) == (1, 1, 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_is_a_reject_if_one_of_its_mutations_is(key_changes: None, engine: str, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "f.csv").write_text("id,at,op,old,name\nc,5,K,NULL,x\nb,4,U,,n\n")
    (tmp_path / "master").mkdir()
    (tmp_path / "master" / "m.csv").write_text("id,at,old,name\n")
    settings = {**BY_NAME, **RUN, "csv.null": "NULL", "reject.policy": "quarantine"}
    places = {name: tmp_path / name for name in ("master", "feed", "output")}

    report = local_engine.mutate(settings, **places, engine=engine)

    assert (report.counts["feed rows"], report.counts["feed rejected"], report.counts["feed inserted"]) == (2, 1, 1)


RECORD = pa.struct([("id", pa.string()), ("name", pa.string())])
MESSAGE = pa.schema(
    [("before", RECORD), ("after", RECORD), ("source", pa.struct([("at", pa.int64())])), ("op", pa.string())]
)


def write_messages(path: Path, rows: list[Row], suffix: str) -> None:
    """Write mutations as messages, and one that says nothing of a record."""
    found: list[dict[str, Any]] = [{}]
    for key, order, op, content in rows:
        record = {"id": key, "name": content}
        before, after = (record, None) if op == "D" else (None, record)
        found.append({"before": before, "after": after, "source": {"at": order}, "op": "d" if op == "D" else "u"})
    table = pa.Table.from_pylist(found, MESSAGE)
    with path.open("wb") as stream:
        dialect = Dialect(avro=avro_of(MESSAGE, None) if suffix == "avro" else None)
        writer = FILE_FORMATS[suffix].writer(stream, MESSAGE, dialect)
        for batch in table.to_batches():
            writer.write(batch)
        writer.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("suffix", ["parquet", "orc", "avro"])
def test_the_rows_of_a_file_may_be_messages(messages: None, engine: str, suffix: str, tmp_path: Path) -> None:
    rows = [row for row in world(random.Random(7)) if row[2] != "T"]
    master, feed, out = (tmp_path / name for name in ("master", "feed", "out"))
    for place in (master, feed):
        place.mkdir()
    write_messages(feed / f"f.{suffix}", rows, suffix)
    settings = {
        "key": "id",
        "order_by": "at",
        "op": "op",
        "delete_codes": "d",
        "output.format": suffix,
        "allow.empty.master": "true",
        **RUN,
    }

    report = local_engine.mutate(settings, master=master, feed=feed, output=out, engine=engine)

    found = mutator.Dataset(out).to_arrow().to_pylist()
    records, buried = lowered({}, rows)
    assert sorted((one["id"], one["at"], one["name"]) for one in found) == records
    assert sorted((key[0].decode(), int(order)) for key, order, _ in tombstones_in(out)) == buried
    assert (report.counts["feed rows"], report.counts["feed ignored"]) == (len(rows), 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_delimited_text_is_unwrapped_if_its_fields_have_names(key_changes: None, engine: str, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "f.txt").write_text("a,4,U,,n\nc,5,K,a,x\n")
    settings = {"key": "id", "order_by": "at", "op": "op", "field.names": "id,at,op,old,name", **RUN}
    settings |= {"allow.empty.master": "true", "output.format": "csv"}
    out = tmp_path / "out"

    local_engine.mutate(settings, master=tmp_path / "m", feed=tmp_path / "feed", output=out, engine=engine)

    assert sorted(line for path in out.glob("part-*") for line in path.read_text().splitlines()) == [
        "c,5,a,x",
        "id,at,old,name",
    ]


def test_a_file_without_messages_is_an_error(messages: None, tmp_path: Path) -> None:
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "f.csv").write_text("id,at,op,name\na,1,u,x\n")
    settings = {**BY_NAME, "allow.empty.master": "true", **RUN}

    with pytest.raises(mutator.DataError, match=r"f\.csv: has no field after"):
        local_engine.mutate(settings, master=tmp_path / "m", feed=feed, output=tmp_path / "out")


def applied(work: Path, runs: list[list[Row]], more: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Apply runs one after the other to a table; return its records and tombstones."""
    work.mkdir(parents=True)
    table = Table.create(str(work / "table"), {**BY_NAME, "num.reducer": "2", **more, **NO_LIMITS})
    first = [(key, order, "U", content) for key, (order, content) in FIRST.items()]
    for number, rows in enumerate([first, *runs]):
        lines = (",".join(map(str, row)) + "\n" for row in rows)
        (work / f"{number}.csv").write_text("id,at,op,name\n" + "".join(lines))
        table.apply(str(work / f"{number}.csv"))
    left = left_of(open_snapshot(table.path), {}, width=1)
    buried = [(key[0].decode(), int(order)) for key, order in left.tombstones]
    return sorted((row["id"], int(row["at"]), row["name"]) for row in left.rows), sorted(buried)


@pytest.mark.parametrize("more", [{}, {"partitioned.by": "name", "key.scope": "table"}])
def test_a_table_gives_what_the_model_gives(truncates: None, more: dict[str, str], tmp_path: Path) -> None:
    rng = random.Random(13)
    for number in range(5):
        rows = world(rng)
        cut = len(rows) // 2
        runs = [run for run in with_floor([rows[:cut], rows[cut:], rows]) if run]
        records, buried = lowered(FIRST, rows)
        floor = max((order for _, order, op, _ in rows if op == "T"), default=-1)
        for name, feed in (("whole", [rows] if rows else []), ("cut", runs)):
            found, kept = applied(tmp_path / f"{number}" / name, feed, more)
            # A table keeps the tombstones that the floor covers, until a compaction.
            assert (found, [one for one in kept if one[1] > floor]) == (records, buried)


def test_a_partitioned_master_gives_what_the_model_gives(truncates: None, tmp_path: Path) -> None:
    rng = random.Random(17)
    settings = {**BY_NAME, "partitioned.by": "name", "key.scope": "table"}
    for number in range(5):
        rows = world(rng)
        cut = len(rows) // 2
        expected = lowered(FIRST, rows)
        work = tmp_path / str(number)

        assert merged(work / "whole", [rows], "blocks", settings) == expected
        assert merged(work / "cut", with_floor([rows[:cut], rows[cut:], rows]), "blocks", settings) == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_spark_gives_what_the_model_gives(truncates: None, engine: str, sc: Any, tmp_path: Path) -> None:
    rows = world(random.Random(3))
    runs = with_floor([rows[:4], rows[4:]])
    assert merged(tmp_path, runs, engine, BY_POSITION, partial(mutator.mutate, sc)) == lowered(FIRST, rows)
