"""Partitioned masters of every format: the merge gives the same records, and partitions may differ in format and
fields.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset import manifest
from mutator.dataset.partition_index import form_of
from mutator.dataset.side_columns import read_tombstones
from mutator.formats.content import Window
from mutator.formats.files.file_format import Dialect, stored_dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.path_fields import read_rows
from mutator.formats.values.convert import converted
from mutator.rules.known_formats import FORMATS
from mutator.rules.partition_paths import values_of
from mutator.rules.typed_values import comparable
from tests.support import local_engine
from tests.support.columns_data import file_of, read_whole
from tests.support.effort import law
from tests.support.in_memory import InMemory
from tests.support.text_runs import scratch
from tests.support.typed_worlds import COLUMNS, World, make_world, put, schema_of, worlds

BY = ["shop", "note", "day=date(at)", "prefix(note,1)", "note,shop", "bucket(id,3)"]
NOTES = ["x", "y", "a/b", "longer"]


def by_of(world: World) -> str:
    usable = [by for by in BY if "date" not in by or world.order == "timestamp"]
    return usable[world.seed % len(usable)]


def run_all(
    work: Path, world: World, scope: str, formats: list[str], feed_format: str | None = None, columns: str = "path"
) -> Any:
    """Do all runs of a world, with one file format for the master and one for each feed."""
    rng = random.Random(world.seed)
    for number, rows in enumerate(world.master):
        put(
            work / "master" / f"m{number}{FORMATS[formats[0]].suffix}",
            formats[0],
            rows,
            schema_of(world.order, op=False),
            2,
            ",",
        )
    master, counts, reports = work / "master", [], []
    for run, files in enumerate(world.feeds):
        fed = feed_format or formats[0]
        for stem, rows in files:
            path = work / f"feed{run}" / f"{stem}{FORMATS[fed].suffix}"
            put(path, fed, rows, schema_of(world.order, op=world.op), 2, ",")
        settings_ = world.settings(formats[0], fed) | {"partitioned.by": by_of(world), "key.scope": scope}
        settings_["partition.columns"] = columns
        settings_ |= {"num.reducer": str(rng.choice([1, 2, 4])), "split.bytes": str(rng.choice([64, 1 << 20]))}
        settings_ |= {"bucket.bytes": str(rng.choice([50, 1 << 20])), "memory.bytes": str(rng.choice([200, 1 << 27]))}
        settings_ |= {"field.delim.regex": ","} if "escaped" in (formats[0], fed) else {}
        if formats[0] in ("avro", "parquet", "orc"):
            settings_ |= {"output.format": formats[run % len(formats)]}
        output = work / f"out{run}"
        report = local_engine.mutate(
            settings_,
            master=str(master),
            feed=[str(work / f"feed{run}")],
            output=str(output),
            tasks=rng.choice([1, 2, 5]),
            seed=run,
        )
        master = output
        counts.append({name: n for name, n in report.counts.items() if n and not name.endswith(" ignored")})
        reports.append((report.samples, report.partitions))
    return (*left(master, world), counts, reports)


def left(output: Path, world: World) -> tuple[list[Any], list[Any]]:
    """Return records and tombstones, each with its partition; files are read in the format that their name gives."""
    known = manifest.parse((output / manifest.PATH).read_bytes(), str(output))
    schema, records, tombstones = schema_of(world.order, op=False), [], []
    for part in known.files:
        stored = form_of(known.spec, part.form)
        data, file_format = (output / part.path).read_bytes(), stored["format"]
        if file_format == "text":
            found = FILE_FORMATS["text"].read(InMemory(data, Window("exact lf")), schema, schema.names, Dialect(b","))
        else:
            in_path = tuple((name, part.partition[name]) for name in stored.get("in path", ()))
            own = FILE_FORMATS[file_format].stored(stored)
            window = Window("exact lf", header_end=own.header_end, in_path=in_path)
            dialect, fields = stored_dialect(stored), own.schema
            found = read_rows(file_format, InMemory(data, window), fields, fields.names, dialect)
        for one in found:
            columns = [
                comparable(converted(one.batch.column(place), field.type, typed=not one.as_text)[0]).to_pylist()
                for place, field in enumerate(schema)
            ]
            records += [(part.path.rpartition("/")[0], *row) for row in zip(*columns, strict=True)]
    for part in known.beside:
        if part.role == "tombstones":
            with open(output / part.path, "rb") as stream:
                tombstones += [(part.path.rpartition("/")[0], key, order) for key, order, _ in read_tombstones(stream)]
    return sorted(records, key=repr), sorted(tombstones, key=repr)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("scope", ["table", "partition"])
@given(world=worlds(NOTES))
@law(5)
def test_all_formats_give_the_same_records(scope, world):
    with scratch() as work:
        first, *others = COLUMNS if world.beside else ["text", *COLUMNS]
        expected = run_all(work / first, world, scope, [first])
        for file_format in others:
            assert run_all(work / file_format, world, scope, [file_format]) == expected, file_format


@given(world=worlds([None, "", "x", 'q"', "a,b", "l\nf", "\\N"]), formats=st.permutations(["avro", "parquet", "orc"]))
@law(8)
def test_partitions_of_several_formats_are_merged_like_those_of_one(world, formats):
    """The format changes with every run, and only the partitions that it touches are written in the new one."""
    scope = ["table", "partition"][world.seed % 2]
    with scratch() as work:  # the empty text is a value only where the files have the fields
        expected = run_all(work / "one", world, scope, [formats[0]], columns="file")
        assert run_all(work / "many", world, scope, formats, columns="file") == expected
        assert run_all(work / "fed", world, scope, formats[:1], "csv", columns="file") == expected


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("file_format", COLUMNS)
def test_mutations_of_several_tasks_meet_in_a_partition(tmp_path, file_format):
    world = make_world(random.Random(3), NOTES)
    assert len(run_all(tmp_path, world, "partition", [file_format])[2]) == 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_soak_formats(seed):
    rng = random.Random(seed)
    for _ in range(20):
        world = make_world(rng, NOTES)
        formats = rng.sample(["avro", "parquet", "orc"], 3)
        scope = rng.choice(["table", "partition"])
        with scratch() as work:
            first, *others = COLUMNS if world.beside else ["text", *COLUMNS]
            expected = run_all(work / first, world, scope, [first])
            for file_format in others:
                assert run_all(work / file_format, world, scope, [file_format]) == expected, file_format
            assert run_all(work / "many", world, scope, formats) == expected


# -- schema changes


class Typed:
    """A partitioned master whose fields have names and types, and runs into it."""

    def __init__(self, work: Path, file_format: str, scope: str = "table") -> None:
        self.work, self.file_format, self.number = work, file_format, 0
        self.settings = {
            "id.field.ordinals": "id",
            "temporal.ordering.field.ordinal": "at",
            "partitioned.by": "shop",
            "key.scope": scope,
            "max.delete.fraction": "1",
        }
        self.master = work / "master"
        self.master.mkdir()

    def put(self, place: Path, rows: list[dict[str, Any]], file_format: str | None = None, **types: Any) -> Path:
        file_format = file_format or self.file_format
        fields = {"id": pa.string(), "shop": pa.string(), "at": pa.int64(), "n": pa.int32()} | types
        place.mkdir(exist_ok=True)
        table = pa.Table.from_pylist(rows, pa.schema(list(fields.items())))
        path = place / f"f{self.number}{FORMATS[file_format].suffix}"
        path.write_bytes(file_of(file_format, table))
        return path

    def run(
        self, rows: list[dict[str, Any]], file_format: str | None = None, settings: Any = None, **types: Any
    ) -> Any:
        self.number += 1
        self.put(self.work / f"feed{self.number}", rows, file_format, **types)
        output = self.work / f"out{self.number}"
        feed = str(self.work / f"feed{self.number}")
        report = local_engine.mutate(
            {**self.settings, **(settings or {})}, master=str(self.master), feed=[feed], output=str(output)
        )
        self.master = output
        return report

    def forms(self) -> dict[str, tuple[str, list[str]]]:
        """Return the format of each partition, and the fields of its files: all but that of the partition."""
        found = {}
        document = json.loads((self.master / manifest.PATH).read_bytes())
        for part in document["files"]:
            path = self.master / part["path"]
            file_format = path.name.rpartition(".")[2]
            names = [name for one in read_whole(file_format, path.read_bytes()) for name in one.batch.schema.names]
            found[path.parent.name] = (file_format, names)
        return found

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for path in self.master.rglob("part-*"):
            file_format = path.name.rpartition(".")[2]
            if "_mutator" not in path.parts:
                for one in read_whole(file_format, path.read_bytes()):
                    found += [{**row, **dict(values_of(path.parent.name))} for row in one.batch.to_pylist()]
        return sorted(found, key=lambda row: row["id"])


def record(id_: str, shop: str, at: int, n: Any, **more: Any) -> dict[str, Any]:
    return {"id": id_, "shop": shop, "at": at, "n": n, **more}


@pytest.mark.parametrize("scope", ["table", "partition"])
@pytest.mark.parametrize("file_format", ["avro", "parquet", "orc"])
def test_a_field_that_is_added_changes_only_the_partitions_that_are_touched(tmp_path, file_format, scope):
    typed = Typed(tmp_path, file_format, scope)
    typed.put(typed.master, [record("a", "1", 1, 1), record("b", "2", 1, 1), record("c", "3", 1, 1)])
    typed.run([])
    old = {path.name for path in typed.master.rglob("part-*") if "shop=2" in path.parts}
    typed.run([record("d", "1", 2, 2, note="new")], note=pa.string())
    before = ["id", "at", "n"]

    assert typed.forms() == {
        "shop=1": (file_format, [*before, "note"]),
        "shop=2": (file_format, before),
        "shop=3": (file_format, before),
    }
    assert {path.name for path in typed.master.rglob("part-*") if "shop=2" in path.parts} == old
    # A later run that touches an old partition reads it in its own format.
    report = typed.run([record("b", "2", 3, 9, note="b"), record("e", "2", 3, 9, note="e")], note=pa.string())
    assert (report.counts["feed updated"], report.counts["feed inserted"]) == (1, 1)
    assert typed.forms() == {
        "shop=1": (file_format, [*before, "note"]),
        "shop=2": (file_format, [*before, "note"]),
        "shop=3": (file_format, before),
    }
    assert typed.rows() == [
        record("a", "1", 1, 1, note=None),
        record("b", "2", 3, 9, note="b"),
        record("c", "3", 1, 1),
        record("d", "1", 2, 2, note="new"),
        record("e", "2", 3, 9, note="e"),
    ]


@pytest.mark.parametrize("file_format", ["avro", "parquet", "orc"])
def test_a_widened_type_is_read_in_both_widths(tmp_path, file_format):
    typed = Typed(tmp_path, file_format)
    typed.put(typed.master, [record("a", "1", 1, 1), record("b", "2", 1, 1)])
    typed.run([])
    typed.run([record("a", "1", 2, 1 << 40)], n=pa.int64())
    report = typed.run([record("b", "2", 1, 1), record("b2", "2", 1, 1 << 50)], n=pa.int64())

    assert report.counts["feed no-op"] == 1
    assert typed.rows() == [record("a", "1", 2, 1 << 40), record("b", "2", 1, 1), record("b2", "2", 1, 1 << 50)]


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_a_record_is_found_and_moves_between_partitions_of_several_formats(tmp_path, scope):
    typed = Typed(tmp_path, "avro", scope)
    typed.put(typed.master, [record("a", "1", 1, 1), record("b", "2", 1, 1), record("c", "3", 1, 1)])
    typed.run([])
    typed.run([record("x", "1", 1, 1)], settings={"output.format": "parquet"})
    typed.run([record("y", "2", 1, 1)], settings={"output.format": "orc"})
    assert {place: file_format for place, (file_format, _) in typed.forms().items()} == {
        "shop=1": "parquet",
        "shop=2": "orc",
        "shop=3": "avro",
    }
    moved = [record("a", "3", 2, 2), record("b", "1", 2, 2), record("c", "2", 2, 2)]
    report = typed.run(moved)
    others = [record("x", "1", 1, 1), record("y", "2", 1, 1)]

    if scope == "table":
        assert typed.rows() == [*moved, *others]
        assert report.counts["feed updated"] == 3
        assert {one["partition"]: (one["moved in"], one["moved out"]) for one in report.partitions} == dict.fromkeys(
            ("shop=1", "shop=2", "shop=3"), (1, 1)
        )
    else:
        assert report.counts["feed inserted"] == 3
        assert len(typed.rows()) == 8


# -- deletes of a file that lacks fields


@pytest.mark.parametrize("widened", [False, True], ids=["same types", "another type"])
def test_avro_deletes_may_lack_required_fields(tmp_path, widened):
    """Their records are never written, so nothing may read the fields that they lack, such as that of the partition."""
    state = {"type": "enum", "name": "state", "symbols": ["new", "used"]}
    fields = [
        {"name": "id", "type": "string"},
        {"name": "state", "type": state},
        {"name": "shop", "type": "long"},
        {"name": "at", "type": "long"},
    ]
    of_feed = [{**field, "type": "int"} if widened and field["name"] == "shop" else field for field in fields]

    def write(path, fields, rows):
        path.parent.mkdir(exist_ok=True)
        with open(path, "wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "row", "fields": fields}, rows)

    def row(key, shop, at):
        return {"id": key, "state": "used", "shop": shop, "at": at}

    write(tmp_path / "master" / "m.avro", fields, [row("a", 1, 1), row("b", 2, 1), row("c", 1, 1)])
    write(tmp_path / "feed" / "ups.avro", of_feed, [row("a", 2, 2), row("d", 3, 2)])
    write(tmp_path / "feed" / "del.avro", [fields[0], fields[3]], [{"id": "b", "at": 2}, {"id": "c", "at": 0}])
    settings_ = {
        "id.field.ordinals": "id",
        "temporal.ordering.field.ordinal": "at",
        "deleted.record.file.prefix": "del",
        "partitioned.by": "shop",
        "key.scope": "table",
    }
    first = {**settings_, "allow.empty.master": "true"}
    (tmp_path / "none").mkdir()
    local_engine.mutate(first, master=tmp_path / "none", feed=tmp_path / "master", output=tmp_path / "one")
    report = local_engine.mutate(settings_, master=tmp_path / "one", feed=tmp_path / "feed", output=tmp_path / "two")

    assert {"feed updated": 1, "feed inserted": 1, "feed deleted": 1, "feed late": 1}.items() <= report.counts.items()
    found = sorted(path.parent.name for path in (tmp_path / "two").glob("shop=*/part-*.avro"))
    assert found == ["shop=1", "shop=2", "shop=3"]


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("scope", ["table", "partition"])
@pytest.mark.parametrize("types", [(pa.int64(), pa.int32()), (pa.int32(), pa.int64())], ids=["narrower", "wider"])
@pytest.mark.parametrize("file_format", ["avro", "parquet", "orc"])
def test_an_overwrite_replaces_the_partition_of_a_delete_of_another_type(tmp_path, file_format, types, scope):
    """The partition field is of another type in the feed than in the master."""

    def put_rows(name, rows, data_type):
        types = {"id": pa.string(), "shop": data_type, "at": pa.int64(), "op": pa.string()}
        table = pa.Table.from_pylist(
            [dict(zip(types, row, strict=True)) for row in rows], pa.schema(list(types.items()))
        )
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.{file_format}").write_bytes(file_of(file_format, table))

    def run(master, feed, output, **settings):
        paths = {"master": tmp_path / master, "feed": tmp_path / feed, "output": tmp_path / output}
        own = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "op.code.field.ordinal": "op"}
        return local_engine.mutate({**own, "partitioned.by": "shop", "key.scope": scope, **settings}, **paths)

    before, after = types
    (tmp_path / "none").mkdir()
    put_rows("first", [("a", 1, 5, "U"), ("b", 1, 5, "U"), ("c", 2, 5, "U"), ("d", 3, 5, "U")], before)
    put_rows("second", [("a", 1, 9, "D"), ("z", 3, 1, "U")], after)
    run("none", "first", "one", **{"allow.empty.master": "true"})
    report = run("one", "second", "two", **{"write.operation": "insert_overwrite"})
    assert report.replaced == ("shop=1", "shop=3")
    expected = {"feed deleted": 1, "feed inserted": 1, "master deleted by absence": 2, "master kept": 1}
    assert expected.items() <= report.counts.items()
    assert sorted(path.parent.name for path in (tmp_path / "two").glob("shop=*/part-*")) == ["shop=2", "shop=3"]
