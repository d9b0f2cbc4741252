"""Messages of a dialect on Spark, with the counts and rows of the local runner."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mutator
from mutator.workflow import many_tables
from tests.formats import test_flat_tables, test_ogg_csv
from tests.formats.test_debezium_json import DEBEZIUM, FEEDS
from tests.formats.test_dialect_ways import DIALECTS, Place, tables_file
from tests.formats.test_dialect_ways import RESULT as END
from tests.formats.test_flat_dialects import CASES, RESULT, STORY, Case, put, work_of
from tests.support import local_engine
from tests.support.named_runs import ENGINES
from tests.support.no_limits import NO_LIMITS
from tests.support.spark_versions import NEEDS_SOURCES


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_messages_of_debezium(sc: Any, tmp_path: Path, engine: str) -> None:
    """Some rows with new keys carry what they do not send."""
    settings = {
        "key": "id",
        **DEBEZIUM,
        **NO_LIMITS,
        "num.reducer": "3",
        "output.format": "parquet",
    }
    counts, rows = [], []
    for name, run in (("spark", partial(mutator.mutate, sc)), ("local", local_engine.mutate)):
        places = {"master": tmp_path / "none", "feed": FEEDS / "truncate-products", "output": tmp_path / name}
        counts.append(run(settings, **places, engine=engine).counts)
        rows.append(sorted(map(str, mutator.Dataset(tmp_path / name).to_arrow().to_pylist())))
    assert rows[0] == rows[1]
    assert (len(rows[0]), counts[0]["feed rejected"]) == (44, 0)
    assert counts[0] == counts[1]


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.dialect)
def test_flat_rows(sc: Any, tmp_path: Path, case: Case) -> None:
    work, rows = work_of(tmp_path, case), case.rows(STORY)
    for number, half in enumerate((rows[:5], rows[5:]), 1):
        put(work, f"feed/{case.name.format(number)}", half, "parquet")
    places = {"master": tmp_path / "master", "feed": tmp_path / "feed", "output": tmp_path / "spark"}
    counts = mutator.mutate(sc, {**work.settings, **NO_LIMITS, "num.reducer": "3"}, **places).counts
    assert sorted(mutator.Dataset(tmp_path / "spark").to_arrow().to_pylist(), key=repr) == RESULT
    assert counts == work.run().counts


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("dialect", ["aws-dms", "ogg-csv"])
def test_rows_of_several_tables(sc: Any, tmp_path: Path, dialect: str) -> None:
    """Rows of other tables have other widths, also where a split begins with one."""
    if dialect == "ogg-csv":
        work, table, names = test_ogg_csv.work_of(tmp_path), "S.T", test_ogg_csv.NAMES
        rows = [row for own in test_ogg_csv.rows_of() for row in (test_ogg_csv.line("I", "S.U", "x"), own)]
        work.put("feed/f.txt", b"".join(rows[::-1]))
    else:
        case = CASES[0]
        work, table, names = work_of(tmp_path, case), "s.t", test_flat_tables.names_of(dialect)
        test_flat_tables.put(work, case)
    settings = {**work.settings, "field.names": names, "feed.table": table, "split.bytes": "60"}
    places = {"master": tmp_path / "master", "feed": tmp_path / "feed", "output": tmp_path / "spark"}
    counts = mutator.mutate(sc, {**settings, **NO_LIMITS, "num.reducer": "3"}, **places).counts
    assert sorted(mutator.Dataset(tmp_path / "spark").to_arrow().to_pylist(), key=repr) == RESULT
    assert counts == work.run(settings).counts


@pytest.mark.rest
@pytest.mark.parametrize(("dialect", "engine"), [*zip(DIALECTS, (*ENGINES, "blocks"), strict=True)])
def test_many_tables(sc: Any, tmp_path: Path, dialect: str, engine: str) -> None:
    place = Place(tmp_path, dialect, engine)
    settings = {**place.settings, "allow.empty.master": "true", "claim.min.age": "0s", "runner": "spark"}
    tables = many_tables.load(tables_file(place), [f"{name}={value}" for name, value in settings.items()])
    done = many_tables.run(tables, lambda: sc, engine=engine)
    assert [one.report["runner"].partition(":")[0] for one in done.results if one.report] == ["spark"] * 3
    assert [place.rows(name, "master") for name in "abc"] == [END] * 3


@NEEDS_SOURCES
@pytest.mark.rest
@pytest.mark.parametrize("dialect", DIALECTS)
def test_tables(sc: Any, tmp_path: Path, dialect: str) -> None:
    """An apply on Spark; a DataFrame of flat rows, while other frames are refused; the table as a DataFrame."""
    place, session = Place(tmp_path, dialect, "blocks"), SparkSession(sc)
    mutator.register(session)
    table = mutator.Table.create(str(tmp_path / "t"), {**place.settings, **place.told.order})
    table.apply(str(tmp_path / "feed1"), runner="spark")
    if dialect == "delta-cdf":
        session.read.parquet(str(tmp_path / "feed2")).write.format("mutator").mode("append").save(table.path)
    else:
        with pytest.raises(Exception, match=r"has no file name that could order|feed_dialect"):
            session.createDataFrame([("U", 1)], "Op string, id long").write.format("mutator").mode("append").save(
                table.path
            )
        table.refresh().apply(str(tmp_path / "feed2"), runner="spark")
    rows = session.read.format("mutator").load(table.path).select("id", "store", "n").collect()
    assert sorted(tuple(map(str, row)) for row in rows) == END
