"""Aliases in Avro schemas: a renamed field keeps its values."""

import json

import pyarrow as pa
import pytest

import mutator
from tests.support.named_runs import BY_ID, ENGINES, FORMATS, Work, avro

OLD = [{"id": "a", "colour": "red", "at": 1}, {"id": "b", "colour": "blue", "at": 1}]
NEW = [{"id": "a", "color": "green", "at": 2}]


def record(name, *aliases):
    colour = {"name": name, "type": "string", **({"aliases": list(aliases)} if aliases else {})}
    fields = [{"name": "id", "type": "string"}, colour, {"name": "at", "type": "long"}]
    return {"type": "record", "name": "r", "fields": fields}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (record("colour"), record("color", "colour")),  # the reader's schema, as Avro has it
        (record("colour", "color"), record("color")),  # the writer's
    ],
)
def test_a_renamed_field_keeps_its_values(tmp_path, engine, old, new):
    work = Work(tmp_path, engine)
    work.put_avro("master/m_1", old, OLD)
    work.put_avro("feed/f_2", new, NEW)
    work.put_avro("feed/f_1", old, [{"id": "c", "colour": "grey", "at": 1}])
    report = work.run()
    expected = [("a", "green", 2), ("b", "blue", 1), ("c", "grey", 1)]
    assert [(row["id"], row["color"], row["at"]) for row in work.rows()] == expected
    assert "field colour of m_1.avro is read as color, by an alias in an Avro schema" in report.notes
    assert not report.warnings

    work.put_avro("feed3/f_3", new, [{"id": "c", "color": "black", "at": 3}])
    work.run(master="out1", feed="feed3")
    assert [row["color"] for row in work.rows()] == ["green", "blue", "black"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_managed_master_of_older_names(tmp_path, engine):
    work = Work(tmp_path, engine)
    work.put_avro("master/m_1", record("colour"), OLD)
    work.put_avro("feed/f_1", record("colour"), [])
    work.run()
    work.put_avro("feed2/f_2", record("color", "colour"), NEW)
    work.run(master="out1", feed="feed2")
    assert [row["color"] for row in work.rows()] == ["green", "blue"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_master_of_another_format_keeps_its_names(tmp_path, engine):
    work = Work(tmp_path, engine)
    work.put("master/m", pa.Table.from_pylist(OLD), "parquet")
    work.put_avro("feed/f_2", record("color", "colour"), NEW)
    work.run()
    assert [row["colour"] for row in work.rows()] == ["green", "blue"]


def test_an_alias_of_two_fields_names_nothing(tmp_path):
    new = record("color", "colour")
    new["fields"].append({"name": "paint", "type": ["null", "string"], "default": None, "aliases": ["colour"]})
    work = Work(tmp_path)
    work.put_avro("master/m_1", record("colour"), OLD)
    work.put_avro("feed/f_2", new, NEW)
    assert any(line.startswith("field colour of the master: removed") for line in work.run().warnings)


def renamed(**names):
    fields = [("id", "string"), ("at", "long"), ("op", "string"), ("place", "string")]
    made = [{"name": names.get(name, name), "type": one, "aliases": [name]} for name, one in fields]
    return {"type": "record", "name": "r", "fields": made}


@pytest.mark.thorough(keep=9)
@pytest.mark.parametrize(
    ("engine", "settings"), [("blocks", {}), ("records", {}), ("blocks", {"partitioned.by": "place"})]
)
@pytest.mark.parametrize("key", ["id", "cid", "0"])
@pytest.mark.parametrize("order", ["at", "ts", "1"])
def test_renamed_fields_of_a_managed_master_are_its_id_order_and_op_code(tmp_path, engine, settings, key, order):
    work = Work(tmp_path, engine, {**BY_ID, **settings, "op.code.field.ordinal": "op", "op.code.keep": "true"})
    work.put_avro("feed1/f_1", renamed(), [{"id": one, "at": 1, "op": "U", "place": "x"} for one in "abc"])
    work.run({"allow.empty.master": "true"}, feed="feed1", master="none")
    names = {"id": "cid", "at": "ts", "op": "code"}
    work.settings |= {"id.field.ordinals": key, "temporal.ordering.field.ordinal": order}
    for number, at in ((2, 2), (3, 3)):  # the master has the older names, and then the newer ones
        rows = [("a", at, "U"), ("b", 0, "U"), ("c", at, "D")]
        fed = [{"cid": one, "ts": when, "code": op, "place": "x"} for one, when, op in rows]
        work.put_avro(f"feed{number}/f_{number}", renamed(**names), fed)
        counts = work.run(master=f"out{number - 1}", feed=f"feed{number}").counts
        assert (counts["feed updated"], counts["feed late"]) == (1, 1)
        assert counts["feed deleted"] + counts["feed no-op"] == 1
        assert [tuple(row.values())[:2] for row in work.rows()] == [("a", at), ("b", 1)]


@pytest.mark.parametrize("op", ["op", "code"])
@pytest.mark.parametrize("place", ["place", "site", "table", "parquet", ""])
def test_a_renamed_op_code_that_no_record_keeps(tmp_path, op, place):
    """Files of both names, into a place that keeps the older names; ``place`` and ``site`` are partition fields."""
    names = {"id": "cid", "at": "ts", "op": "code", "place": "site"}
    work = Work(tmp_path, settings={**BY_ID, "op.code.field.ordinal": op})
    work.put_avro("feed1/f_1", renamed(), [{"id": one, "at": 1, "op": "U", "place": "x"} for one in "abc"])
    work.put_avro("feed2/f_2", renamed(), [{"id": "a", "at": 2, "op": "D", "place": "x"}])
    work.put_avro("feed2/f_3", renamed(**names), [{"cid": "b", "ts": 2, "code": "D", "site": "x"}])
    work.put_avro("feed3/f_4", renamed(**names), [{"cid": "c", "ts": 2, "code": "D", "site": "x"}])
    if place == "table":
        table = mutator.Table.create(tmp_path / "table", key="id", order_by="at", max_delete_fraction=1)
        table.apply(tmp_path / "feed1", op="op")
        assert [table.apply(tmp_path / f"feed{number}", op=op).counts["feed deleted"] for number in (2, 3)] == [2, 1]
        return
    first = {"allow.empty.master": "true", "op.code.field.ordinal": "op", "max.delete.fraction": "1"}
    if place == "parquet":
        first["output.format"] = "parquet"
    elif place:
        first["partitioned.by"] = "place"
        work.settings["partitioned.by"] = place
    work.run(first, feed="feed1", master="none")
    work.settings["max.delete.fraction"] = "1"
    assert work.run(master="out1", feed="feed2").counts["feed deleted"] == 2
    assert work.run(master="out2", feed="feed3").counts["feed deleted"] == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_the_aliases_of_all_schemas_count(tmp_path, engine):
    """A field that was renamed twice, whose newest schema knows the second name alone."""
    work = Work(tmp_path, engine)
    work.put_avro("master/m_1", record("colour"), OLD)
    work.put_avro("feed/f_2", record("color", "colour"), [{"id": "b", "color": "grey", "at": 2}])
    work.put_avro("feed/f_3", record("shade", "color"), [{"id": "c", "shade": "black", "at": 3}])
    work.put_avro("feed/f_4", record("shade"), [{"id": "d", "shade": "white", "at": 3}])
    work.run({"id.field.ordinals": "id"})
    assert [row["shade"] for row in work.rows()] == ["red", "grey", "black", "white"]


WRAPPED = {
    "record": (lambda schema: schema, lambda value: value),
    "union": (lambda schema: ["null", schema], lambda value: value),
    "array": (lambda schema: {"type": "array", "items": schema}, lambda value: [value]),
    "map": (lambda schema: {"type": "map", "values": ["null", schema]}, lambda value: {"home": value}),
}


def with_place(wrap, name, *aliases, more=()):
    town = {"name": name, "type": "string", **({"aliases": list(aliases)} if aliases else {})}
    place = {"type": "record", "name": "place", "fields": [{"name": "zip", "type": "int"}, town, *more]}
    fields = [("id", "string"), ("place", wrap(place)), ("at", "long")]
    return {"type": "record", "name": "r", "fields": [{"name": own, "type": one} for own, one in fields]}


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize("more", [(), ({"name": "land", "type": "string", "default": "x"},)])
def test_a_renamed_member_keeps_its_values(tmp_path, engine, kind, more):
    wrap, of = WRAPPED[kind]
    work = Work(tmp_path, engine)
    work.put_avro(
        "feed1/f_1",
        with_place(wrap, "town"),
        [{"id": one, "place": of({"zip": 1, "town": one}), "at": 1} for one in "abc"],
    )
    work.run({"allow.empty.master": "true"}, feed="feed1", master="none")
    land = {one["name"]: "y" for one in more}
    new = [{"id": "a", "place": of({"zip": 2, "city": "A", **land}), "at": 2}]
    work.put_avro("feed2/f_2", with_place(wrap, "city", "town", more=more), new)
    work.put_avro("feed2/f_1", with_place(wrap, "town"), [{"id": "d", "place": of({"zip": 1, "town": "d"}), "at": 1}])
    report = work.run(master="out1", feed="feed2")
    old = {one["name"]: "x" for one in more}
    expected = [of({"zip": 1, "city": one, **old}) for one in "bcd"]
    assert [row["place"] for row in work.rows()] == [new[0]["place"], *expected]
    assert "field place.town of f_1.avro is read as place.city, by an alias in an Avro schema" in report.notes


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("output", FORMATS)
def test_the_schema_of_the_result_renames_fields_of_all_formats(tmp_path, engine, file_format, output):
    work = Work(tmp_path, engine, {**BY_ID, "output.format": output})
    for number, schema in enumerate((record("colour"), record("color", "colour")), 1):
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    work.put("master/m_1", pa.Table.from_pylist(OLD), file_format)
    work.put("feed/f_2", pa.Table.from_pylist([{"colour": "green", "id": "a", "at": 2}]), file_format)
    work.run({"output.schema": str(tmp_path / "1.avsc"), "allow.empty.master": "true"}, feed="master", master="none")
    for master in ("out1", "master"):
        work.run({"output.schema": str(tmp_path / "2.avsc")}, master=master)
        found = [(row["id"], row["color"], int(row["at"])) for row in work.rows()]
        assert found == [("a", "green", 2), ("b", "blue", 1)]


def test_a_type_of_two_fields_has_one_set_of_names(tmp_path):
    """A record type of two fields, of which only one renames a member, keeps its names."""

    def two(name, member, *aliases):
        town = {"name": member, "type": "string", "aliases": list(aliases), "default": ""}
        number = {"name": "zip", "type": "int", "default": 0}
        return {"type": "record", "name": name, "fields": [number, town]}

    work = Work(tmp_path)
    old = {"id": "a", "home": {"town": "x"}, "work": {"town": "y"}}
    work.put_avro("master/m_1", avro(("id", "string"), ("home", two("p", "town")), ("work", "p")), [old])
    new = avro(("id", "string"), ("home", two("p", "city", "town")), ("work", two("q", "town")))
    work.put_avro("feed/f_2", new, [{"id": "b", "home": {"city": "X"}, "work": {"town": "Y"}}])
    work.run({"temporal.ordering.field.ordinal": "-1"})
    found = work.rows()[0]
    assert (found["home"]["town"], found["work"]["town"]) == ("x", "y")
