"""Merge functions in tables: their settings from apply to apply, and NULL in delimited text."""

import pytest

from mutator.errors import ConfigError
from mutator.table.table import Table
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
