"""``explain`` of a base: file formats, partitions, overwrites, restores, values that are kept out, wrong calls."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from mutator import cli
from mutator import config as configuration
from mutator.workflow.directory.explain import explain
from tests.support.workflow_base import BY_FIELD, BY_NAME, Place

NAMED = {"key": "id", "order_by": "ts", "op": "op", "op.code.in.master": "false", "claim.min.age": "0s"}


def content(form, rows):
    stream = io.BytesIO()
    names = list(rows[0])
    if form == "avro":
        fields = [{"name": name, "type": "long" if isinstance(rows[0][name], int) else "string"} for name in names]
        fastavro.writer(stream, {"type": "record", "name": "r", "fields": fields}, rows)
    elif form == "csv":
        lines = [names, *(map(str, row.values()) for row in rows)]
        stream.write("".join(",".join(line) + "\n" for line in lines).encode())
    else:
        write = pq.write_table if form == "parquet" else orc.write_table
        write(pa.table({name: [row[name] for row in rows] for name in names}), stream)
    return stream.getvalue()


def row(key, time, price, op="U", shop="n"):
    return {"id": key, "shop": shop, "ts": time, "price": price, "op": op}


def said(found):
    """Return (version, outcome, part, line of the table) of each mutation, in the order of the text."""
    return [
        (step.feed.number, one.outcome, one.part, None if one.part else part.line)
        for step in found.steps
        for part in step.decided.values()
        for one in reversed(part.outcomes)
    ]


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("scope", [None, "table", "partition"])
@pytest.mark.parametrize("form", ["parquet", "orc", "csv", "avro"])
def test_every_format_and_partitioning(tmp_path, form, scope):
    settings = NAMED | ({"partitioned.by": "shop", "key.scope": scope} if scope else {})
    place = Place(tmp_path / "base", settings)
    feeds = [
        [row(1, 1, 10), row(2, 1, 10)],
        [row(1, 5, 20), row(1, 4, 15), row(2, 3, 9, "D")],
        [row(1, 6, 82, shop="s"), row(2, 2, 9)],
    ]
    for number, rows in enumerate(feeds):
        (place.path / "incr" / f"f{number}.{form}").write_bytes(content(form, rows))
        place.run(allow_empty_master="true")

    first, second = (explain(str(place.path), key, configuration.parse(settings)) for key in ("1", ["2"]))

    moved = (3, "inserted", None, "nothing, upsert")
    assert said(first) == [
        (1, "inserted", None, "nothing, upsert"),
        (2, "updated", None, "record <= upsert, other bytes"),
        (2, "superseded", "order value", None),
        moved if scope == "partition" else (3, "updated", None, "record <= upsert, other bytes"),
    ]
    assert said(second) == [
        (1, "inserted", None, "nothing, upsert"),
        (2, "deleted", None, "record <= delete"),
        (3, "late", None, "tombstone > upsert"),
    ]
    assert [one.kind for one in first.now.values()] == ["record"] * (2 if scope == "partition" else 1)
    assert not any(step.differs for found in (first, second) for step in found.steps)
    assert "82" in first.text()
    if form == "parquet":
        assert json.loads(first.json())["versions"][1]["decided"][0]["mutations"][1]["line"] == 1


def test_an_overwrite_deletes_by_absence_and_updates_by_older_rows(tmp_path):
    place = Place(tmp_path / "base", BY_FIELD | {"partitioned.by": "3", "key.scope": "partition"})
    place.arrive("f1.txt", "a,5,U,s1", "b,5,U,s1", "c,5,U,s2")
    place.run(allow_empty_master="true")
    place.arrive("f2.txt", "a,3,U,s1")
    place.run(write_operation="insert_overwrite")
    config = configuration.parse(place.settings)

    a, b, c = (explain(str(place.path), key, config) for key in "abc")

    assert said(a)[1:] == [(2, "updated", None, "replaced partition: record, upsert, other bytes")]
    assert [part.master for part in b.steps[1].decided.values()] == ["deleted by absence"]
    assert "deleted by absence" in b.text()
    assert len(c.steps) == 1


def test_a_snapshot_deletes_by_absence(tmp_path):
    settings = {name: value for name, value in BY_FIELD.items() if not name.startswith("op.")}
    place = Place(tmp_path / "base", settings | {"sync.mode": "full", "max.delete.fraction": "1"})
    for name, rows in (("f1.txt", ("a,5,x", "b,5,x")), ("f2.txt", ("a,6,x",))):
        place.arrive(name, *rows)
        place.run(allow_empty_master="true")

    found = explain(str(place.path), "b", configuration.parse(place.settings))

    assert "deleted by absence (record, absent)" in found.text()


def test_an_insert_below_the_horizon_is_noted(tmp_path):
    place = Place(tmp_path / "base", BY_FIELD | {"tombstone.retention": "0s"})
    for number, rows in enumerate((("b,9,D,x",), ("a,1,U,x",), ("b,3,U,x", "c,9,U,x"))):
        place.arrive(f"f{number}.txt", *rows)
        place.run(allow_empty_master="true")
    config = configuration.parse(place.settings)

    notes = [[part.notes for part in explain(str(place.path), key, config).steps[-1].decided.values()] for key in "bc"]

    assert notes == [[("below horizon",)], [()]]


def test_a_restore_is_a_step_of_its_own(tmp_path):
    place = Place(tmp_path / "base", BY_FIELD)
    for number in (1, 2):
        place.arrive(f"f{number}.txt", f"a,{number},U,x{number}")
        place.run(allow_empty_master="true")
    place.restore(1)

    found = explain(str(place.path), "a", configuration.parse(BY_FIELD))

    assert [one.order for one in found.now.values()] == [1]
    assert "version 3" in found.text()
    assert "version 1 again" in found.text()


def test_files_of_deletes_and_sequences(tmp_path):
    place = Place(tmp_path / "base", BY_NAME | {"max.delete.fraction": "1"})
    for name in ("ups_2.txt", "del_3.txt", "ups_1.txt"):
        place.arrive(name, "a,x")
        place.run(allow_empty_master="true")

    found = explain(str(place.path), "a", configuration.parse(BY_NAME))

    assert [outcome for _, outcome, _, _ in said(found)] == ["inserted", "deleted", "late"]


def test_values_that_are_kept_out_of_reports_are_not_shown(tmp_path):
    place = Place(tmp_path / "base", BY_FIELD)
    place.arrive("f.txt", "a,1,U,secret", "a,secret,U,x")
    place.run(allow_empty_master="true", reject_policy="quarantine")

    found = explain(str(place.path), "a", configuration.parse(BY_FIELD | {"report.fields": "0"}))

    assert "secret" not in found.text() + found.json()


def test_wrong_calls(tmp_path, capsys):
    place = Place(tmp_path / "base", BY_FIELD)
    place.arrive("f.txt", "a,1,U,x")
    place.run(allow_empty_master="true")

    def refused(*words):
        code = cli.main(["explain", *words])
        return code, capsys.readouterr().err

    assert cli.main(["explain", str(place.path), "zz"]) == 3
    assert "nothing is known of this key" in capsys.readouterr().out
    assert refused(str(place.path), "a", "b")[0] == 2
    assert "there is no such base, master or table" in refused(str(tmp_path / "no"), "a")[1]
    assert "is for a master" in refused(str(place.path), "a", "--feed", str(tmp_path))[1]
