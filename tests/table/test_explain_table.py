"""``explain`` of a table: feed files, rows of the table itself, overwrites, cleaning, and a base whose target it is."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import mutator
from mutator import cli
from mutator.table import explain
from tests.support.other_defaults import change_default
from tests.support.table_base import TableBase


@pytest.fixture
def table(tmp_path):
    return mutator.Table.create(tmp_path / "t", key="id", order_by="at", op="op", buckets=2)


def feed(tmp_path, number, *rows):
    """Write a feed file of rows "id,at,op,price"; return its directory."""
    (tmp_path / f"feed{number}").mkdir()
    text = "".join(f"{row}\n" for row in ("id,at,op,price", *rows))
    (tmp_path / f"feed{number}" / f"p_{number}.csv").write_text(text)
    return str(tmp_path / f"feed{number}")


def explained(capsys, place, key, *words):
    """Return what ``mutator explain --json`` prints."""
    capsys.readouterr()
    assert cli.main(["explain", str(place), key, *map(str, words), "--json"]) in (0, 3)
    return json.loads(capsys.readouterr().out)


def said(found):
    """Return (version, action, outcomes of its mutations)."""
    return [
        (one["version"], one["action"], [row["outcome"] for part in one["decided"] for row in part["mutations"]])
        for one in found["versions"]
    ]


def test_feed_files_are_read_with_the_settings_of_their_apply(tmp_path, capsys):
    table = mutator.Table.create(tmp_path / "own", key="id", order_by="at", buckets=2)
    feeds = [feed(tmp_path, 1, "7,1,U,79", "8,1,U,5"), feed(tmp_path, 2, "7,2,X,0", "7,1,X,0")]
    table.apply(feeds[0], header=True, op="op")
    table.apply(feeds[1], header=True, op="op", delete_codes=["X", "Z"], max_delete_fraction=1)
    table.apply(pa.table({"id": ["9"], "at": ["3"], "price": ["1"]}))
    where = ("--feed", feeds[0], "--feed", feeds[1])

    found = explained(capsys, table.path, "7", *where)

    assert said(found) == [(1, "apply", ["inserted"]), (2, "apply", ["superseded", "deleted"])]
    assert found["unknown"] == []
    later = explained(capsys, table.path, "7", *where, "--feed", feed(tmp_path, 3, "7,9,U,1"))
    assert later["unknown"] == ["p_3.csv: not recorded as merged; mutator diff --feed shows what a run would change"]
    assert said(explained(capsys, table.path, "7", *where, "-D", "deleted.op.code=D")) == said(found)
    kept = [
        json.loads(path.read_text())["settings"] for path in sorted((tmp_path / "own/_mutator/table/log").glob("*"))
    ]
    assert [one.get("deleted.op.code") for one in kept] == [None, None, ["X", "Z"], None]
    assert "max.delete.fraction" not in kept[2]


def test_a_version_is_explained_with_the_defaults_of_its_time(tmp_path, capsys, monkeypatch):
    table = mutator.Table.create(tmp_path / "own", key="id", order_by="at", op="op", buckets=2)
    feeds = [feed(tmp_path, 1, "7,1,U,79", "8,1,U,79"), feed(tmp_path, 2, "7,2,D,0"), feed(tmp_path, 3, "8,2,R,0")]
    table.apply(feeds[0])
    table.apply(feeds[1])
    change_default(monkeypatch, "deleted.op.code", "R")
    table.apply(feeds[2], max_delete_fraction=1)
    where = [word for one in feeds for word in ("--feed", one)]

    found = [explained(capsys, table.path, key, *where) for key in ("7", "8")]

    assert [said(one)[-1] for one in found] == [(2, "apply", ["deleted"]), (3, "apply", ["deleted"])]


def test_versions_that_recorded_no_settings_are_read_with_those_of_the_call(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mutator.plan.run_plan.feed_settings", lambda _: {})
    table = mutator.Table.create(tmp_path / "own", key="id", order_by="at", op="op", buckets=2)
    feeds = [feed(tmp_path, 1, "7,1,U,79"), feed(tmp_path, 2, "7,2,X,0")]
    table.apply(feeds[0])
    table.apply(feeds[1], deleted_op_code="X", max_delete_fraction=1)
    where = ("--feed", feeds[0], "--feed", feeds[1])

    found = explained(capsys, table.path, "7", *where, "-D", "deleted.op.code=X")

    assert said(found) == [(1, "apply", ["inserted"]), (2, "apply", ["deleted"])]
    assert found["unknown"] == [
        "by which settings the feed files of versions 1, 2 were read: the present ones are used"
    ]


def test_settings_of_an_unknown_release_are_replaced_by_those_of_the_call(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mutator.plan.run_plan.feed_settings", lambda _: {"no.such.setting": "1"})
    table = mutator.Table.create(tmp_path / "own", key="id", order_by="at", op="op", buckets=2)
    table.apply(feed(tmp_path, 1, "7,1,U,79"))

    found = explained(capsys, table.path, "7", "--feed", tmp_path / "feed1")

    assert said(found) == [(1, "apply", ["inserted"])]
    assert found["unknown"] == ["by which settings the feed files of version 1 were read: the present ones are used"]


def test_each_version_of_a_record_is_shown_with_its_feed_file(tmp_path, table, capsys):
    rows = [("7,1,U,79", "8,1,U,5"), ("7,3,U,82", "7,2,U,81"), ("7,2,U,80",), ("8,9,D,5",), ("7,9,D,0",)]
    feeds = [feed(tmp_path, number, *some) for number, some in enumerate(rows)]
    for one in feeds:
        table.apply(one, header=True, max_delete_fraction=1)
    table.compact(everything=True)
    table.restore(2)
    words = [word for one in feeds for word in ("--feed", one)]

    found = explained(capsys, table.path, "7", *words)

    assert said(found) == [
        (1, "apply", ["inserted"]),
        (2, "apply", ["superseded", "updated"]),
        (3, "apply", ["late"]),
        (5, "apply", ["deleted"]),
        (6, "compact", []),
        (7, "restore", []),
    ]
    assert found["now"][0]["order"] == "3"
    assert not found["unknown"]
    assert found["files"] == {"read": 4, "excluded": 1}
    assert not any(one["differs"] for one in found["versions"])


def test_without_feed_files_the_rows_of_the_table_are_shown(tmp_path, table, capsys):
    for number, rows in enumerate([("7,1,U,79",), ("7,3,U,82", "7,2,U,81"), ("7,9,D,0",)]):
        table.apply(feed(tmp_path, number, *rows), header=True, max_delete_fraction=1)

    found = explained(capsys, table.path, "7")

    assert said(found) == [(1, "apply", ["inserted"]), (2, "apply", ["updated"]), (3, "apply", ["deleted"])]
    (mutation,) = found["versions"][1]["decided"][0]["mutations"]
    assert mutation["file"].startswith(f"{table.path}/")
    assert (mutation["order"], json.loads(mutation["row"])["price"]) == ("3", "82")
    assert [one["file"] for one in found["versions"][1]["gone"]] == ["p_1.csv"]
    assert len(found["unknown"]) == 1


def test_a_table_that_is_cleaned_while_it_is_explained_is_explained_anew(tmp_path, table, capsys, monkeypatch):
    where = feed(tmp_path, 1, "7,1,I,79"), feed(tmp_path, 2, "7,2,U,80"), feed(tmp_path, 3, "7,3,U,81")
    for one in where:
        table.apply(one)
    table.compact(everything=True)
    written = explain.TableRecord.written

    def cleaned(record):
        monkeypatch.setattr(explain.TableRecord, "written", written)
        for _ in range(2):
            mutator.Table(table.path).clean(keep_versions=1, grace="0s")
        return written(record)

    monkeypatch.setattr(explain.TableRecord, "written", cleaned)
    found = explained(capsys, table.path, "7")

    assert found["version"] == table.refresh().version > 4
    assert found["unknown"]
    assert all("they were cleaned" in one for one in found["unknown"] if "missing" in one or "gone" in one)


def test_what_cleaning_removed_is_not_known_any_more(tmp_path, table, capsys):
    feeds = [feed(tmp_path, number, f"7,{number + 1},U,{number}") for number in range(3)]
    for one in feeds:
        table.apply(one, header=True, max_delete_fraction=1)
    table.compact(everything=True)
    table.clean(keep_versions=1, grace="0s")

    by_feeds = explained(capsys, table.path, "7", *(word for one in feeds for word in ("--feed", one)))
    alone = explained(capsys, table.path, "7")

    assert [outcomes for _, action, outcomes in said(by_feeds) if action == "apply"] == [
        ["inserted"],
        ["updated"],
        ["updated"],
    ]
    assert "they were cleaned" in by_feeds["unknown"][0]
    assert said(alone) == [(3, "apply", [None])]
    assert "mutations in 2 feed files of version 1" in alone["unknown"][1]


def test_an_overwrite_deletes_by_absence(tmp_path, capsys):
    table = mutator.Table.create(tmp_path / "t", key="id", order_by="at")
    table.apply(pa.table({"id": [1, 2], "at": [5, 5]}))
    table.insert_overwrite_table(pa.table({"id": [1], "at": [3]}))

    kept, gone = (explained(capsys, table.path, key) for key in "12")

    assert said(kept)[1] == (2, "insert_overwrite_table", ["updated"])
    assert said(gone)[1] == (2, "insert_overwrite_table", [])
    assert gone["versions"][1]["decided"][0]["master"] == "deleted by absence"
    assert gone["now"][0]["kind"] == "tombstone"


def test_a_base_finds_the_archived_files_of_its_table(tmp_path, capsys):
    base = TableBase(tmp_path / "base")
    for number, row in enumerate(["1,1,U,x", "1,2,U,y"]):
        base.arrive(f"p_{number}.csv", row)
        base.run()

    found = explained(capsys, base.path, "1")

    assert [one[-1] for one in said(found)] == [["inserted"], ["updated"]]
    files = [row["file"] for one in found["versions"] for part in one["decided"] for row in part["mutations"]]
    assert all("/archive/" in file for file in files)
    assert found["kind"] == "table"


def test_a_dataset_of_another_program_is_the_first_version(tmp_path, capsys):
    (master := tmp_path / "master").mkdir()
    (master / "rows.csv").write_text("id,time,price\n7,1,79\n8,1,5\n")
    path = str(tmp_path / "made")
    settings = {"key": "id", "order_by": "time", "header": True}
    mutator.Table.create(path, settings, dataset=str(master))

    found = explained(capsys, path, "7")
    assert cli.main(["explain", path, "7"]) == 0

    assert said(found) == [(1, "create", [])]
    assert not found["versions"][0]["differs"]
    assert "create\n  then a record, order value 1\n" in capsys.readouterr().out


def test_wrong_calls(tmp_path, table, capsys):
    assert cli.main(["explain", table.path, "7"]) == 3
    assert "nothing is known of this key" in capsys.readouterr().out
    assert cli.main(["explain", table.path, "7", "--before", str(tmp_path)]) == 2
    assert "--before is for a master" in capsys.readouterr().err
    table.apply(feed(tmp_path, 0, "7,1,U,79"), header=True, max_delete_fraction=1)
    assert cli.main(["explain", table.path, "7", "8"]) == 2
    assert "has 2 values" in capsys.readouterr().err


def test_a_diff_of_two_versions_says_what_an_apply_changed(tmp_path, table, capsys):
    for number, row in enumerate(["7,1,U,79", "7,3,U,82", "8,3,U,5"]):
        table.apply(feed(tmp_path, number, row), header=True)

    assert cli.main(["diff", f"{table.path}@1", f"{table.path}@2", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert cli.main(["diff", f"{table.path}@2", table.path, "--json"]) == 0
    second = json.loads(capsys.readouterr().out)

    assert [one["key"] for one in first["changed"]] == [{"id": "7"}]
    table.tag("first", version=1)
    assert cli.main(["diff", f"{table.path}@first", f"{table.path}@2", "--json"]) == 0
    assert [one["key"] for one in json.loads(capsys.readouterr().out)["changed"]] == [{"id": "7"}]
    assert cli.main(["diff", f"{table.path}@other", table.path]) == 2
    assert "other" in capsys.readouterr().err
    assert first["added"] == first["removed"] == second["removed"] == second["changed"] == []
    assert [one["id"] for one in second["added"]] == ["8"]
