"""``mutator.diff`` and ``mutator.explain``: the answers of the commands, for programs."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest

import mutator
from mutator.cli import main

OLD = pa.table({"id": [1, 2, 3], "price": [30, 55, 120], "at": [1, 1, 1]})
NEW = pa.table({"id": [1, 3, 4], "price": [28, 120, 80], "at": [1, 1, 1]})


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def merged(**given):
    feed = pa.table({"id": [1, 2], "price": [5, None], "at": [2, 2], "op": ["U", "D"]})
    return mutator.merge(master=OLD, feed=feed, key="id", order_by="at", op="op", max_delete_fraction=1, **given)


@pytest.mark.parametrize(
    "made", [lambda table: table, lambda table: table.to_pandas(), lambda table: table.to_reader()]
)
def test_tables_in_memory_are_compared(made):
    found = mutator.diff(made(OLD), made(NEW), key="id")

    assert (found.old, found.new) != ("", "")
    assert found.counts == {"added": 1, "removed": 1, "changed": 1, "moved": 0}
    assert found.added == [{"id": 4, "price": 80, "at": 1}]
    assert found.changed == [{"key": {"id": 1}, "changes": {"price": [30, 28]}}]
    assert "/tmp" not in str(found)
    assert found._repr_html_().startswith("<pre>1 record added")


def test_a_result_in_memory_needs_no_key():
    found = mutator.diff(OLD, merged().result, rows=0)

    assert (found.counts["removed"], found.counts["changed"], dict(found.fields)) == (1, 1, {"at": 1, "price": 1})
    assert found.removed == []


def test_a_feed_is_compared_with_what_it_would_change():
    feed = pd.DataFrame({"id": [3, 9], "price": [1, 1], "at": [0, 0], "op": ["U", "U"]})

    found = mutator.diff(OLD, feed=feed, key="id", order_by="at", op="op")

    assert found.counts == {"added": 1, "removed": 0, "changed": 0, "moved": 0}  # the other one is late


def test_versions_of_a_table_are_compared():
    table = mutator.Table.create("prices", key="id", order_by="at")
    table.apply(OLD)
    table.apply(NEW.append_column("new", pa.array([1, 1, 1])))

    found = mutator.diff("prices@1", "prices")

    assert (found.counts["added"], found.fields_added) == (1, ("new",))


def test_diff_and_the_command_say_the_same(capsys):
    mutator.merge(master=OLD, feed=NEW, output="new", key="id", order_by="at")
    main(["diff", "new", "new", "--json"])

    assert json.loads(mutator.diff("new", "new").json()) == json.loads(capsys.readouterr().out)


def test_explain_and_the_command_say_the_same(capsys):
    merged(output="new")
    main(["explain", "new", "1", "--json"])

    found = mutator.explain("new", 1)

    assert json.loads(found.json()) == json.loads(capsys.readouterr().out)
    assert str(found).startswith("key      id 1\nin       new\nnow      a record, order value 2\n")
    assert found._repr_html_().startswith("<pre>key      id 1")
    assert not mutator.explain("new", [77]).is_known


def test_a_dataset_is_explained_with_an_earlier_one():
    first = merged(output="first").result
    found = mutator.explain(mutator.merge(master=first, feed=NEW, op="").result, 2, before=first)

    assert [one.kind for one in found.given.values()] == ["tombstone"]


def test_settings_of_a_master_without_a_manifest_are_arguments():
    with open("m.csv", "w") as stream:
        stream.write("id,at\na,1\n")

    assert mutator.explain("m.csv", "a", key="id", order_by="at", header=True).now[None].order == 1
    with pytest.raises(mutator.ConfigError, match=r"mutator.explain\(\): key is None, but should be the field"):
        mutator.explain("m.csv", "a")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mutator.diff(OLD, NEW), r"mutator.diff\(\): key is None, but should be the field"),
        (lambda: mutator.diff(OLD), r"mutator.diff\(\): new is None, but should be what old is compared with"),
        (lambda: mutator.diff(OLD, NEW, feed=NEW), r"mutator.diff\(\): new is .*, but should be"),
        (
            lambda: mutator.diff(OLD, NEW, key="id", rows=-1),
            r"mutator.diff\(\): rows is -1, an int, but should be a number",
        ),
        (lambda: mutator.diff(OLD, NEW, kye="id"), r"mutator.diff\(\): has no argument kye; did you mean key"),
        (lambda: mutator.diff(OLD, {}, key="id"), r"mutator.diff\(\): new is a dict, but should be a path"),
        (lambda: mutator.diff(OLD, "none", key="id"), "/none: there is no such dataset; check the path"),
        (lambda: mutator.explain(None, 1), r"mutator.explain\(\): place is None, but should be the path"),
        (lambda: mutator.explain("none", 1), "none: there is no such base, master or table"),
        (
            lambda: mutator.explain("none", 1, feed=[7]),
            r"mutator.explain\(\): feed is 7, an int, but should be the path",
        ),
    ],
)
def test_wrong_calls(call, message):
    with pytest.raises(mutator.ConfigError, match=message):
        call()


def test_two_key_values_for_one_field():
    with pytest.raises(
        mutator.ConfigError, match=r"^place.*: the key \(1, 2\) has 2 values, and the key of the master"
    ):
        mutator.explain(merged().result, (1, 2))
