"""Merge functions in tables: their settings from apply to apply, and NULL in delimited text."""

import pytest

from mutator.errors import ConfigError
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

TEXT = {"key": "id", "order_by": "at", "field.delim.regex": "|", "field.names": "id,at,s,x", "num.reducer": "2"}


def put(directory, name, *lines):
    path = directory / f"{name}.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def rows(table):
    table.refresh()
    return sorted(tuple(row.values()) for row in table.scan().to_pylist())


def test_a_function_of_a_later_apply_stays(tmp_path):
    table = Table.create(str(tmp_path / "t"), {**TEXT, "field.merge.s": "sum decimal(1)"})
    table.apply([put(tmp_path, "a", "1|5|7|x", "2|3|4|y")], open_runner=open_runner)
    wider = {"s": "sum decimal(3)"}
    table.apply([put(tmp_path, "b", "1|6|9|z")], field_merge=wider, open_runner=open_runner)
    table.apply([put(tmp_path, "c", "2|4|9|z")], open_runner=open_runner)
    assert [row[2] for row in rows(table)] == ["16", "13"]


@pytest.mark.parametrize("more", [{}, {"csv.null": "NULL"}])
def test_null_of_text_says_nothing_in_a_table(tmp_path, more):
    null = more.get("csv.null", "")
    settings = {**TEXT, **more, "field.merge.s": "sum long", "ignore.null.updates": "x"}
    table = Table.create(str(tmp_path / "t"), settings)
    table.apply([put(tmp_path, "a", "1|5|7|x", "2|3|4|y")], open_runner=open_runner)
    table.apply([put(tmp_path, "b", f"1|6|{null}|{null}", f"2|7|9|{null}")], open_runner=open_runner)
    assert [row[2:] for row in rows(table)] == [("7", "x"), ("13", "y")]


def test_two_functions_of_a_field_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="keep one of both"):
        Table.create(str(tmp_path / "t"), {**TEXT, "field.merge.s": "sum long", "field.merge.2": "max long"})


def test_what_is_older_than_a_replaced_record_adds_nothing(tmp_path):
    table = Table.create(str(tmp_path / "t"), {**TEXT, "field.merge.s": "sum long"})
    first = put(tmp_path, "a", "1|5|100|x", "2|4|7|y")
    table.apply([first], open_runner=open_runner)
    table.insert_overwrite_table([put(tmp_path, "b", "1|6|10|z", "2|6|1|z")], open_runner=open_runner)
    table.apply([put(tmp_path, "c", "1|5|100|x", "2|5|50|y", "1|7|1|x")], open_runner=open_runner)
    assert [row[2] for row in rows(table)] == ["11", "1"]


@pytest.mark.parametrize("engine", ["blocks", "records"])
def test_the_same_in_a_directory(tmp_path, engine):
    settings = {**TEXT, "field.merge.s": "sum long", "allow.empty.master": "true", **NO_LIMITS}
    feeds = {"a": ["1|5|100|x", "2|4|7|y"], "b": ["1|6|10|z", "2|6|1|z"], "c": ["1|5|100|x", "2|5|50|y", "1|7|1|x"]}
    before = tmp_path / "none"
    before.mkdir()
    for number, (name, lines) in enumerate(feeds.items()):
        (tmp_path / name).mkdir()
        put(tmp_path / name, f"f_{number}", *lines)
        more = {"write.operation": "insert_overwrite_table"} if name == "b" else {}
        places = {"master": str(before), "feed": [str(tmp_path / name)], "output": str(tmp_path / f"out-{name}")}
        local_engine.mutate({**settings, **more}, **places, engine=engine)
        before = tmp_path / f"out-{name}"
    found = [line for path in before.glob("part-*") for line in path.read_text().splitlines()]
    assert sorted(line.split("|")[2] for line in found) == ["1", "11"]
