"""Merge functions that cannot be are refused before anything is written, with where, why and the cure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.errors import MutatorError
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import ENGINES

SETTINGS = {"key": "id", "order_by": "at", "op": "op", "allow.empty.master": "true", **NO_LIMITS}
TEXT = {**SETTINGS, "order_type": "long", "header": "true"}


class Place:
    """Runs in a directory; each has the output of the one before as its master."""

    def __init__(self, path: Path) -> None:
        self.path, self.runs = path, 0

    def run(self, content: Any, settings: dict[str, str], engine: str = "auto") -> Any:
        """Merge a feed: lines of text, or a pa.Table."""
        feed, output = self.path / f"feed{self.runs}", self.path / f"out{self.runs + 1}"
        feed.mkdir(exist_ok=True)
        if isinstance(content, str):
            (feed / f"f{self.runs}.{'json' if content.startswith('{') else 'csv'}").write_text(content)
        else:
            pq.write_table(content, feed / f"f{self.runs}.parquet")
        places: Any = {"master": str(self.path / f"out{self.runs}"), "feed": [str(feed)], "output": str(output)}
        try:
            report = local_engine.mutate(settings, **places, engine=engine)
        except MutatorError:
            assert not output.exists()
            raise
        self.runs += 1
        return report

    @property
    def lines(self) -> list[str]:
        files = sorted((self.path / f"out{self.runs}").glob("part-*"))
        return sorted(line for file in files for line in file.read_text().splitlines()[1:])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


LINES = "id,at,op,n,t\na,1,U,5,x\nb,2,U,6,y\n"
TYPED = pa.table({"id": [1], "at": [1], "n": [5], "f": [1.5], "l": [[1]]})
REFUSED = [
    # content, settings, the function, what the message says
    (LINES, {}, ("id", "first"), "field.merge.id=first: id is the ID, which has the value of the last mutation; leave"),
    (LINES, {}, ("at", "max long"), "field.merge.at=max long: at is the order field, which has"),
    (LINES, {"partitioned.by": "t", "key.scope": "partition"}, ("t", "first"), "t is the partition field, which has"),
    (LINES, {}, ("m", "first"), "the rows have no such field; the fields are id, at, n, t"),
    (LINES, {}, ("n", "listagg"), "field.merge.n: there is no merge function 'listagg'; there are last,"),
    (LINES, {}, ("n", "sum int"), "'sum int' must be a merge function, and after it, for fields of text, long, dec"),
    (LINES, {}, ("n", "sum decimal(39)"), r"decimal\(39,0\): it has 1 to 38 digits, and the scale is not above them"),
    (LINES, {}, ("n", "sum"), r"a field of text has no type; give one after the function: long, decimal"),
    (LINES, {}, ("n", "sum text"), "sum does not take text, only integers and decimals of up to 38 digits"),
    (LINES, {"op": "", "sync.mode": "full"}, ("n", "first"), "with sync.mode=full, a row is a whole record; leave the"),
    (TYPED, {"op": ""}, ("f", "sum"), "sum does not take double: in another order .* Make the field a decimal"),
    (TYPED, {"op": ""}, ("l", "max"), "max does not take list.*: its values have no order. Use last or first"),
    (TYPED, {"op": ""}, ("n", "sum long"), "n is of type int64; leave long out"),
]


@pytest.mark.parametrize(("content", "settings", "function", "why"), REFUSED, ids=[f"{one[2]}" for one in REFUSED])
def test_a_function_that_cannot_be(
    content: Any, settings: dict[str, str], function: tuple[str, str], why: str, place: Place
) -> None:
    given = {**(TEXT if isinstance(content, str) else SETTINGS), **settings, f"field.merge.{function[0]}": function[1]}
    with pytest.raises(MutatorError, match=why) as fault:
        place.run(content, {name: value for name, value in given.items() if value})
    assert fault.value.exit_code == 2


def test_another_function_in_a_later_run(place: Place) -> None:
    place.run(LINES, {**TEXT, "field.merge.n": "sum long"})
    for text in ("max long", "last", "sum decimal(9,2)", "sum decimal(9)"):
        with pytest.raises(MutatorError, match=r"the field n of .*out1 had sum long so far, and what is kept"):
            place.run(LINES, {**TEXT, "field.merge.n": text})
    place.run("id,at,op,n,t\na,2,U,9223372036854775807,x\n", {**TEXT, "field.merge.n": "sum decimal(20,0)"})
    place.run("id,at,op,n,t\nb,3,U,1,x\n", TEXT)
    assert place.lines == ["a,2,9223372036854775812,x", "b,3,7,x"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_value_that_is_not_of_the_type_is_a_reject(engine: str, place: Place) -> None:
    settings = {**TEXT, "field.merge.n": "sum long"}
    with pytest.raises(MutatorError, match=r"row 3, byte 23: field n is not of type int64: a,2,U,5\.5,x") as fault:
        place.run("id,at,op,n,t\na,1,U,5,x\na,2,U,5.5,x\n", settings, engine)
    assert fault.value.exit_code == 3
    rows = "a,1,U,5,x", "a,2,U,5.5,x", "b,1,U,,x", "c,1,U,+7,x", "d,1,U,1e3,x", "e,1,D,zz,x"
    report = place.run("id,at,op,n,t\n" + "".join(f"{row}\n" for row in rows), settings | QUARANTINE, engine)
    assert report.counts["feed rejected"] == 2
    assert place.lines == ["a,1,5,x", "b,1,,x", "c,1,7,x"]


QUARANTINE = {"reject.policy": "quarantine"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_master_from_before_with_a_value_that_is_not_of_the_type(engine: str, place: Place) -> None:
    place.run("id,at,op,n,t\na,1,U,five,x\nb,1,U,6,x\n", TEXT)
    with pytest.raises(
        MutatorError, match="field n of the record with the ID a: 'five' is not of type int64, which its"
    ):
        place.run("id,at,op,n,t\na,2,U,5,x\nb,2,U,1,x\n", {**TEXT, "field.merge.n": "sum long"}, engine)
    place.run("id,at,op,n,t\nb,2,U,1,x\n", {**TEXT, "field.merge.n": "sum long"}, engine)
    assert place.lines == ["a,1,five,x", "b,2,7,x"], "only a record that is merged needs a value"


@pytest.mark.parametrize("engine", ENGINES)
def test_typed_rows_in_csv(engine: str, place: Place) -> None:
    """The fields of the file are text, and those of the rows are not."""
    rows = [{"id": 1, "at": 1, "op": "U", "n": 5}, {"id": 1, "at": 2, "op": "U", "n": 7}]
    content, settings = "".join(json.dumps(row) + "\n" for row in rows), {**SETTINGS, "output.format": "csv"}
    with pytest.raises(MutatorError, match="n is of type int64; leave long out"):
        place.run(content, {**settings, "field.merge.n": "sum long"}, engine)
    place.run(content, {**settings, "field.merge.n": "sum"}, engine)
    place.run('{"id": 1, "at": 3, "op": "U", "n": 1}\n', settings, engine)
    assert place.lines == ["1,3,13"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_field_that_is_added_again_with_a_type_that_its_function_does_not_take(engine: str, place: Place) -> None:
    settings = {"key": "id", "order_by": "at", "allow.empty.master": "true"}
    place.run(pa.table({"id": [1], "at": [1], "n": [5]}), {**settings, "field.merge.n": "sum"}, engine)
    place.run(pa.table({"id": [1], "at": [2]}), {**settings, "removed.fields": "n"}, engine)
    with pytest.raises(MutatorError, match=r"sum does not take string.* so give the new field another name"):
        place.run(pa.table({"id": [1], "at": [3], "n": ["x"]}), settings, engine)


def test_arguments_of_python(tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "f.csv").write_text(LINES)
    places: Any = {"master": str(tmp_path / "none"), "feed": str(tmp_path / "feed"), "output": str(tmp_path / "out")}
    more: Any = {"key": "id", "order_by": "at", "op": "op", "order_type": "long", "allow_empty_master": True}
    with pytest.raises(MutatorError, match=r"field_merge is 'sum', a str, but should be a mapping of fields to merge"):
        mutator.merge(**places, **more, runner="local", field_merge="sum")
    with pytest.raises(MutatorError, match=r'field_merge\["n"\]="sum": a field of text has no type'):
        mutator.merge(**places, **more, runner="local", field_merge={"n": "sum"})
    mutator.merge(**places, **more, runner="local", field_merge={"n": "sum long"})

    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"})
    table.apply(pa.table({"id": [1, 1], "at": [1, 2], "n": [5, 7]}), field_merge={"n": "sum"})
    with pytest.raises(MutatorError, match=r'field_merge\["n"\]="max": the field n of .* had sum so far'):
        table.apply(pa.table({"id": [1], "at": [3], "n": [5]}), field_merge={"n": "max"})
    table.apply(pa.table({"id": [1], "at": [3], "n": [5]}))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "at": 3, "n": 17}]
