"""Truncates keep the laws: a place remembers the highest one, the floor, from run to run.

Each world is a feed of a few rows with truncates, merged at once and cut into runs; both must give what the model
gives. ``test_floor_of_tables`` has those of tables.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from mutator import config as configuration
from mutator.dataset.version_log import Log
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.master import explain_master
from mutator.rules.known_formats import FORMATS
from tests.laws.test_registers import ENGINES, KEYS, tombstones_in
from tests.laws.toy_envelopes import Row, lowered
from tests.support import local_engine
from tests.support.columns_data import file_of
from tests.support.effort import share
from tests.support.named_runs import Work
from tests.support.no_limits import NO_LIMITS
from tests.support.small_runs import known
from tests.support.workflow_base import Place as Base

BY_POSITION = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "op.code.field.ordinal": "2",
    "op.code.in.master": "false",
    "truncate.op.code": "T",
}
CODES = {"op": "op", "ignore.op.code": "H", "truncate.op.code": "T"}
BY_NAME = {"key": "id", "order_by": "at", "header": "true", **CODES}
BY_FILE = {**BY_POSITION, "reused.names": "accept"}
del BY_FILE["temporal.ordering.field.ordinal"]
RUN = {"num.reducer": "2", "split.bytes": "60", **NO_LIMITS}
FIRST = dict.fromkeys(KEYS[:2], (3, "m"))
PARTITIONS: list[dict[str, str]] = [{}, {"partitioned.by": "name", "key.scope": "table"}]
State = tuple[list[Any], list[Any]]  # records, tombstones


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


def cut(rng: random.Random, rows: list[Row]) -> list[list[Row]]:
    """Return rows as runs, none of them empty."""
    cuts = sorted(rng.sample(range(len(rows) + 1), min(2, len(rows))))
    runs = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    return [run for run in runs if run]


def floor_in(rows: list[Row]) -> int | None:
    return max((order for _, order, op, _ in rows if op == "T"), default=None)


def merged(
    work: Path,
    runs: list[list[Row]],
    engine: str,
    settings: dict[str, str],
    on: Callable[..., Any] = local_engine.mutate,
) -> State:
    """Merge runs one after the other into a master; return its records and tombstones."""
    master = work / "master"
    master.mkdir(parents=True)
    header, suffix = ("id,at,name\n", "csv") if "key" in settings else ("", "txt")
    for key, (order, content) in FIRST.items():
        (master / f"{key}_{order}.{suffix}").write_text(f"{header}{key},{order},{content}\n")
    for number, rows in enumerate(runs):
        feed, output = work / f"feed{number}", work / f"out{number}"
        feed.mkdir()
        parts = {f"f{part}": rows[part::2] for part in range(2)}
        if not {"order_by", "temporal.ordering.field.ordinal"} & {*settings}:
            parts = {f"f_{order}": [row for row in rows if row[1] == order] for order in {row[1] for row in rows}}
        for name, part in parts.items():
            lines = "".join(f"{key},{order},{op},{content}\n" for key, order, op, content in part)
            (feed / f"{name}.{suffix}").write_text(("id,at,op,name\n" if header else "") + lines)
        on({**settings, **RUN}, master=master, feed=feed, output=output, engine=engine)
        master = output
    found = [path for path in master.rglob("part-*") if "_mutator" not in path.parts]
    parts = [path.read_text().splitlines() for path in found]
    rows_of = [line.split(",") for lines in parts for line in lines if line + "\n" != header]
    buried = [(key[0].decode(), int(order)) for key, order, _ in tombstones_in(master)]
    return sorted((key, int(order), content) for key, order, content in rows_of), sorted(buried)


@pytest.mark.law
@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("settings", [BY_POSITION, BY_NAME, BY_FILE, {**BY_POSITION, "master.unique": "true"}])
@pytest.mark.parametrize("engine", ENGINES)
def test_any_cut_into_runs_gives_what_the_model_gives(engine: str, settings: dict[str, str], tmp_path: Path) -> None:
    rng = random.Random(5)
    for number in range(share(50)):
        rows = world(rng)
        runs, expected = cut(rng, rows), lowered(FIRST, rows)
        work = tmp_path / str(number)

        assert merged(work / "whole", [rows], engine, settings) == expected
        assert merged(work / "cut", runs or [[]], engine, settings) == expected, runs
        assert merged(work / "again", [*runs, rows], engine, settings) == expected
        last = work / "again" / f"out{len(runs)}"
        assert local_engine.verify(str(last)).differences == ()
        floor = known(last).commit.floor
        assert (None if floor is None else int(floor)) == floor_in(rows)


@pytest.mark.law
def test_any_cut_gives_one_partitioned_master(tmp_path: Path) -> None:
    rng = random.Random(17)
    settings = {**BY_NAME, **PARTITIONS[1]}
    for number in range(share(30)):
        rows = world(rng)
        expected = lowered(FIRST, rows)
        work = tmp_path / str(number)

        assert merged(work / "whole", [rows], "blocks", settings) == expected
        assert merged(work / "cut", [*cut(rng, rows), rows], "blocks", settings) == expected


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_any_cut_on_spark_gives_what_the_model_gives(engine: str, sc: Any, tmp_path: Path) -> None:
    rows = [*world(random.Random(3)), ("", 6, "T", ""), ("d", 5, "U", "late")]
    assert merged(tmp_path, [rows[:-1], rows[-1:]], engine, BY_POSITION, partial(mutator.mutate, sc)) == lowered(
        FIRST, rows
    )


def test_a_truncate_is_accounted_for(tmp_path: Path) -> None:
    rows = [("", 4, "T", ""), ("", 5, "T", ""), ("a", 4, "U", "x"), ("c", 4, "D", ""), ("d", 5, "U", "z")]
    reports = []

    def on(*args: Any, **more: Any) -> None:
        reports.append(local_engine.mutate(*args, **more))

    after = [[("", 5, "T", "")], [("", 3, "T", ""), ("e", 4, "U", "x")]]
    for engine in ENGINES:
        assert merged(tmp_path / engine, [rows, *after], engine, BY_POSITION, on) == ([("d", 5, "z")], [])
    for first, same, lower in (reports[:3], reports[3:]):
        assert first.changed == 3
        lines = [" ".join(line.split()) for line in first.text(verbose=True).splitlines()]
        assert {"truncate 1 tombstones 0", "delete of unknown 0 truncated 2"} <= {*lines}
        assert counted(first) == {
            "feed rows": 5,
            "feed truncate": 1,
            "feed superseded": 1,
            "feed late": 2,
            "feed inserted": 1,
            "master rows": 2,
            "master truncated": 2,
        }
        assert counted(same) == {"feed rows": 1, "feed no-op": 1, "master rows": 1, "master kept": 1}
        assert counted(lower) == {"feed rows": 2, "feed late": 2, "master rows": 1, "master kept": 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_overwrite_may_insert_rows_below_the_floor(engine: str, tmp_path: Path) -> None:
    """What it replaces counts as deleted at the floor, and it revives even newer deletes. Its rows count as at it."""
    operation = {"write.operation": "apply"}

    def on(settings: Any, **more: Any) -> None:
        local_engine.mutate({**settings, **operation}, **more)
        operation["write.operation"] = "insert_overwrite_table" if "out0" in str(more["output"]) else "apply"

    runs: list[list[Row]] = [
        [("", 9, "T", ""), ("b", 9, "U", "x")],
        [("a", 3, "U", "y"), ("c", 4, "U", "y")],
        [("a", 9, "U", "z"), ("d", 5, "U", "z"), ("c", 6, "D", ""), ("", 7, "T", "")],
    ]
    assert merged(tmp_path / "all", runs, engine, BY_POSITION, on) == ([("a", 9, "z"), ("c", 4, "y")], [])

    operation["write.operation"] = "apply"
    with pytest.raises(mutator.DataError, match=r"has a truncate \(order value 9\), and an insert"):
        merged(tmp_path / "with", [*runs[1:2], *runs[:1]], engine, BY_POSITION, on)


def counted(report: Any) -> dict[str, int]:
    return {name: count for name, count in report.counts.items() if count and name.split()[0] in ("feed", "master")}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncate_obeys_the_limit_of_deletes(engine: str, tmp_path: Path) -> None:
    strict = {**BY_POSITION, "max.delete.fraction": "0.5"}
    with pytest.raises(mutator.DataError, match=r"2 of the master's 2 records.* T in field 2 is a truncate"):
        merged(tmp_path, [[("", 4, "T", "")]], engine, {}, lambda _, **more: local_engine.mutate(strict, **more))


def feed_of(rows: list[Any], feed_format: str) -> bytes:
    """Return a file of rows in a format; a field that is None is NULL or empty, and JSON Lines lack it."""
    names = ("id", "at", "op", "name")
    if feed_format in ("text", "csv", "escaped"):
        lines = ["id,at,op,name", *(",".join("" if value is None else str(value) for value in row) for row in rows)]
        return "".join(f"{line}\n" for line in lines).encode()
    if feed_format == "json":
        given = ({name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows)
        return "".join(f"{json.dumps(row)}\n" for row in given).encode()
    columns = map(pa.array, zip(*rows, strict=True), (pa.string(), pa.int64(), pa.string(), pa.string()))
    return file_of(feed_format, pa.table([*columns], names))


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("feed_format", FORMATS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_truncate_needs_an_order_value_and_no_other_field(engine: str, feed_format: str, tmp_path: Path) -> None:
    """By file names it needs none; it deletes all of older files, and nothing of its own."""
    by_field = [("a", 4, "U", "x"), (None, 5, "T", None), ("b", 5, "U", "x"), (None, None, "T", None)]
    by_file = [("a", 1, "U", "x"), ("b", 1, "U", "x"), (None, None, "T", None), ("b", 2, "U", "y"), ("c", 2, "D", None)]
    named = {"field.names": "id,at,op,name", "header": "true"} if feed_format in ("text", "escaped") else {}
    for name, files, more in (
        ("field", [by_field], {"order_by": "at"}),
        ("file", [by_file[:2], by_file[2:]], {}),
    ):
        settings = {"key": "id", **CODES, **more, **named, "feed.format": feed_format, "output.format": "parquet"}
        work = Work(tmp_path / name, engine, {**settings, "reject.policy": "quarantine", "allow.empty.master": "true"})
        for number, rows in enumerate(files, 1):
            work.put(f"feed/f_{number}", feed_of(rows, feed_format))
        counts = counted(work.run())

        assert [(row["id"], row["name"]) for row in work.rows()] == [("b", "x" if more else "y")]
        assert counts["feed truncate"] == 1
        assert counts.get("feed rejected", 0) == len(more)
        assert known(work.output).commit.floor == ("5" if more else "2")


def lines_of(found: Explanation) -> list[str]:
    """Return the text of an explanation, which must give what the place has, and count as it did."""
    assert not any(step.differs for step in found.steps)
    return str(found).splitlines()


def explained(work: Path, number: int, key: str) -> list[str]:
    """Explain a key of a master after a run."""
    before = str(work / (f"out{number - 1}" if number else "master"))
    feed, config = [str(work / f"feed{number}")], configuration.parse({**BY_POSITION, **RUN})
    return lines_of(explain_master(str(work / f"out{number}"), key, config, feed, before))


TRUNCATED: list[list[Row]] = [
    [("c", 2, "D", ""), ("", 5, "T", ""), ("d", 6, "U", "x"), ("b", 4, "U", "x")],
    [("a", 4, "U", "y"), ("d", 7, "D", "")],
    [("c", 5, "U", "z"), ("", 4, "T", "")],
    [("", 8, "T", "")],  # and a tombstone is covered
]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_explanation_knows_the_floor(engine: str, tmp_path: Path) -> None:
    assert merged(tmp_path, TRUNCATED, engine, BY_POSITION) == lowered(FIRST, [row for run in TRUNCATED for row in run])
    assert "  truncated (below the floor)" in explained(tmp_path, 0, "a")
    late = "    {}, order value {}: late (below the floor)"
    replaced_late = explained(tmp_path, 0, "b")
    assert {
        late.format("upsert", 4),
        "  truncated (below the floor)",
        "floor    5: all that is older was deleted",
    } <= {*replaced_late}
    assert late.format("delete", 2) in explained(tmp_path, 0, "c")
    assert late.format("upsert", 4) in explained(tmp_path, 1, "a")
    assert "    upsert, order value 5: inserted (nothing, upsert)" in explained(tmp_path, 2, "c")
    assert "  truncated (below the floor)" in explained(tmp_path, 3, "c")
    for number, key in itertools.product(range(4), KEYS):
        explained(tmp_path, number, key)


def test_a_restore_of_a_base_brings_its_floor_back(tmp_path: Path) -> None:
    base = Base(tmp_path, {**BY_POSITION, **NO_LIMITS, "claim.min.age": "0s", "allow.empty.master": "true"})
    for number, rows in enumerate((["a,3,U,m", "b,9,U,x"], [",5,T,"], ["c,4,U,late"]), 1):
        base.arrive(f"f_{number}.txt", *rows)
        base.run()
    floors = [one.floor for one in Log(str(base.path)).all()]
    assert (floors, base.rows()) == ([None, "5", "5"], ["b,9,x"])

    base.restore(1)
    base.arrive("f_4.txt", "c,4,U,z")
    base.run()

    assert [one.floor for one in Log(str(base.path)).all()][3:] == [None, None]
    assert base.rows() == ["a,3,m", "b,9,x", "c,4,z"]
