"""Feed files of many tables in one directory: each base takes its own rows of every file, once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mutator
from mutator import cli
from mutator.errors import MutatorError
from mutator.storage import storage_for
from mutator.workflow import many_tables
from mutator.workflow.many_tables import shared_feed
from tests.support.child_process import in_child
from tests.support.many_tables import no_spark

HEAD = """
[run]
at-once = 1
{run}
[defaults]
base = "bases/{{table}}"
feed = "stream"
[defaults.settings]
feed.dialect = "{dialect}"
feed.table = "d.{{table}}"
key = "id"
allow.empty.master = true
claim.min.age = "0s"
num.reducer = 2
{settings}
"""
TABLES = ("items", "notes", "orders")
SUFFIXES = 'feed.control.suffix = ".ctl"\nclaim.ready.suffix = ".ready"'


def debezium(table: str, at: int, row: Mapping[str, Any], op: str = "c") -> Any:
    source = {"connector": "postgresql", "schema": "d", "table": table, "lsn": at}
    before, after = (row, None) if op == "d" else (None, row)
    return {"before": before, "after": after, "source": source, "op": op}


def maxwell(table: str, at: int, row: Mapping[str, Any], op: str = "c") -> Any:
    kind = "delete" if op == "d" else "insert"
    return {"database": "d", "table": table, "type": kind, "position": f"bin.000001:{at}", "data": row}


DIALECTS = {"debezium-json": debezium, "maxwell-json": maxwell}


class Stream:
    """Bases that share a directory of feed files."""

    def __init__(self, root: Path, dialect: str = "debezium-json", run: str = "", settings: str = "") -> None:
        self.root, self.stream, self.message = root, root / "stream", DIALECTS[dialect]
        self.stream.mkdir(parents=True)
        for table in TABLES:
            (root / "bases" / table / "incr").mkdir(parents=True)
        sections = "".join(f"[tables.{table}]\n" for table in TABLES)
        text = HEAD.format(run=run, dialect=dialect, settings=settings) + sections
        (root / "tables.toml").write_text(text)

    def put(self, name: str, *messages: tuple[Any, ...]) -> None:
        found = [json.dumps(self.message(*one)) for one in messages]
        (self.stream / name).write_text("\n".join(found) + "\n")

    def put_beside(self, names: Sequence[str]) -> None:
        """Write the control files and ready markers of feed files."""
        for name in names:
            rows = (self.stream / name).read_bytes().count(b"\n")
            (self.stream / f"{name}.ctl").write_text(f"rows={rows}\n")
            (self.stream / f"{name}.ready").touch()

    def run(self, *, only: Any = None) -> many_tables.Summary:
        return many_tables.run(many_tables.load(self.root / "tables.toml"), no_spark, only=only)

    def rows(self, table: str) -> list[dict[str, Any]]:
        files = (self.root / "bases" / table / "master").glob("part-*.parquet")
        return sorted((row for path in files for row in pq.read_table(path).to_pylist()), key=repr)

    def files(self, table: str, directory: str) -> list[str]:
        found = (self.root / "bases" / table / directory).rglob("*.json*")
        return sorted(path.name for path in found if not path.name.startswith("_"))

    def merged(self, table: str) -> list[str]:
        """Return the names of the feed files in the log of a base."""
        log = sorted((self.root / "bases" / table / "_mutator/log").glob("*.json"))
        return sorted(name for path in log for name in _names(json.loads(path.read_bytes())))

    @property
    def left(self) -> list[str]:
        """The files that are left in the directory."""
        return sorted(path.name for path in self.stream.rglob("*") if path.is_file())


def _names(entry: Any) -> list[str]:
    if isinstance(entry, dict):
        own = [one["name"] for one in entry.get("feed", ()) if isinstance(one, dict) and "name" in one]
        return own or [name for one in entry.values() for name in _names(one)]
    return []


def fill(stream: Stream) -> None:
    stream.put("s_1.json", ("orders", 1, {"id": 1, "n": "a"}), ("items", 2, {"id": 1, "q": 1}), ("audit", 3, {"z": 1}))
    items = (("items", 6, {"id": 1}, "d"), ("items", 7, {"id": 2, "q": 2}))
    stream.put("s_2.json", ("orders", 5, {"id": 1, "n": "b"}), *items)
    stream.put("s_3.json", ("audit", 8, {"z": 1}), ("notes", 9, {"id": 1, "t": "x"}))


END = {"items": [{"id": 2, "q": 2}], "notes": [{"id": 1, "t": "x"}], "orders": [{"id": 1, "n": "b"}]}
FILES = ["s_1.json", "s_2.json", "s_3.json"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_base_takes_its_own_rows(tmp_path: Path, dialect: str) -> None:
    stream = Stream(tmp_path, dialect)
    fill(stream)
    done = stream.run()

    assert {one.table: one.counts["feed rows"] for one in done.results} == {"items": 3, "notes": 1, "orders": 2}
    assert {table: stream.rows(table) for table in TABLES} == END
    assert [stream.files(table, "archive") for table in TABLES] == [FILES] * 3
    assert (stream.left, done.other_tables, done.exit_code) == ([], {"d.audit": 2}, 0)
    assert "tables.toml does not take: 2 d.audit" in done.text()
    assert "3 feed files of " in done.text()
    assert not stream.run().feeds[0].given


def test_a_table_without_messages_waits_for_them(tmp_path: Path) -> None:
    """It counts as done, its files wait, and a later run without its messages is one without rows."""
    stream = Stream(tmp_path)
    stream.put("s_1.json", ("orders", 1, {"id": 1, "n": "a"}), ("items", 2, {"id": 1, "q": 1}))
    first = stream.run()
    assert first.exit_code == 0
    assert next(text for text in first.all_warnings if "notes" in text).endswith("bases/notes/incr")
    assert stream.files("notes", "incr") == ["s_1.json"]
    stream.put("s_2.json", ("notes", 3, {"id": 1, "t": "x"}))
    second = stream.run()
    assert (second.exit_code, second.all_warnings, stream.rows("notes")) == (0, (), END["notes"])
    assert stream.files("notes", "archive") == ["s_1.json", "s_2.json"]


def test_a_master_without_messages_stays_as_it_is(tmp_path: Path) -> None:
    """Others that share the feed may have messages; a feed of its own without any is an error."""
    stream = Stream(tmp_path, settings='output.format = "parquet"')
    file = tmp_path / "tables.toml"
    text = file.read_text().replace('base = "bases/{table}"', 'master = "old/{table}"\noutput = "new/{table}"')
    file.write_text(text.replace('claim.min.age = "0s"\n', ""))
    for table in TABLES:
        (tmp_path / "old" / table).mkdir(parents=True)
    stream.put("s_1.json", ("orders", 1, {"id": 1, "n": "a"}), ("items", 2, {"id": 1, "q": 1}))
    with pytest.raises(MutatorError, match="resume"):
        many_tables.run(many_tables.load(file), no_spark, resume=True)
    assert not (tmp_path / ".tables.run").exists(), "no record is made"
    done = stream.run()
    assert (done.exit_code, {one.table for one in done.results if one.is_done}) == (0, {*TABLES})
    assert next(text for text in done.all_warnings if "notes" in text).endswith("; its master is as before")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["items", "orders"]
    alone = text.partition("[tables.items]")[0] + '[tables.notes]\nfeed = "stream"\n'
    file.write_text(alone.replace('claim.min.age = "0s"\n', ""))
    assert [one.kind for one in stream.run().results] == ["feed.rows.none"]


def test_rows_of_an_unknown_table_stop_the_run_if_they_are_to(tmp_path: Path) -> None:
    stream = Stream(tmp_path, run='other-tables = "stop"')
    fill(stream)
    stopped = stream.run()
    assert (stopped.exit_code, {one.kind for one in stopped.results}) == (3, {"op.tables"})
    assert "2 d.audit" in str(stopped.results[0].error)
    assert [stream.files(table, "incr") for table in TABLES] == [FILES] * 3
    file = tmp_path / "tables.toml"
    file.write_text(file.read_text().replace("num.reducer", 'feed.other.tables = "d.audit"\nnum.reducer'))
    assert stream.run().exit_code == 0
    assert {table: stream.rows(table) for table in TABLES} == END


def test_files_are_given_to_tables_that_do_not_run(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    fill(stream)
    stream.run(only=["items"])
    assert (stream.left, stream.files("orders", "incr"), stream.files("items", "incr")) == ([], FILES, [])
    stream.run()
    assert {table: stream.rows(table) for table in TABLES} == END


@pytest.mark.parametrize("suffixes", [True, False], ids=["with files beside", "without"])
@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
def test_files_beside_a_feed_file_come_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool, suffixes: bool
) -> None:
    if not links:
        monkeypatch.setattr(type(storage_for(str(tmp_path))), "link_new", lambda self, source, target: False)
    stream = Stream(tmp_path, settings=SUFFIXES if suffixes else "")
    fill(stream)
    if suffixes:
        stream.put_beside(["s_1.json", "s_3.json"])
    done = stream.run()
    given = ["s_1.json", "s_3.json"] if suffixes else FILES
    assert sorted(done.feeds[0].given) == given
    beside = [f"{name}.ctl" for name in given if suffixes]
    assert [stream.files(table, "archive") for table in TABLES] == [sorted([*given, *beside])] * 3
    assert stream.left == (["s_2.json"] if suffixes else [])


def test_a_file_waits_while_its_name_is_taken(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    fill(stream)
    other = tmp_path / "bases/items/incr/s_2.json"
    other.write_text(json.dumps(debezium("items", 50, {"id": 9, "q": 9})) + "\n")
    done = stream.run()
    assert sorted(done.feeds[0].given) == ["s_1.json", "s_3.json"]
    assert done.feeds[0].waiting[0][0] == "s_2.json"
    assert "bases/items has merged another file of its name" in done.text()
    stream.run()
    assert stream.rows("items") == [{"id": 2, "q": 2}, {"id": 9, "q": 9}]
    assert stream.rows("orders") == END["orders"]


@pytest.mark.processes
def test_a_file_of_the_same_name_size_and_time_is_another_one(tmp_path: Path) -> None:
    """A killed run has claimed a file, and somebody delivers another one of its name to a base."""
    stream = Stream(tmp_path)
    fill(stream)
    text = (stream.stream / "s_2.json").read_text()
    assert in_child(stream.run, "many.claimed")[0] == signal.SIGKILL
    (claimed,) = stream.stream.rglob("s_2.json")
    other = tmp_path / "bases/orders/incr/s_2.json"
    other.write_text(text.replace('"n": "b"', '"n": "c"').replace('"lsn": 5', '"lsn": 4'))
    os.utime(other, ns=(0, claimed.stat().st_mtime_ns))
    assert other.stat().st_size == claimed.stat().st_size
    done = stream.run()
    assert (done.feeds[0].waiting[0][0], stream.rows("orders")) == ("s_2.json", [{"id": 1, "n": "c"}])
    stream.run()
    assert {table: stream.rows(table) for table in TABLES} == END


@pytest.mark.parametrize("spelled", ["link", "file://{root}/stream", "bases/../stream/"])
def test_a_directory_that_is_spelled_in_two_ways_is_one(tmp_path: Path, spelled: str) -> None:
    stream = Stream(tmp_path)
    (tmp_path / "link").symlink_to("stream")
    fill(stream)
    file = tmp_path / "tables.toml"
    file.write_text(file.read_text() + f'feed = "{spelled.format(root=tmp_path)}"\n')  # of the last table
    done = stream.run()
    assert [one.tables for one in done.feeds] == [TABLES]
    assert {table: stream.rows(table) for table in TABLES} == END


def test_only_one_run_gives_files(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    fill(stream)
    tables = many_tables.load(tmp_path / "tables.toml").tables
    lock = storage_for(str(stream.stream)).hold(str(stream.stream))
    with pytest.raises(MutatorError) as caught:
        shared_feed.give_all(tables)
    assert (caught.value.kind, caught.value.exit_code, stream.left) == ("many.feed", 5, FILES)
    del lock


WRONG = {
    'feed = ["a", "b"]': "beside base must be one directory",
    'feed = "stream/*"': "beside base must be one directory",
    'feed = "bases/orders/incr"': "is in the base",
    'feed = "s3://lake/stream"': "beside base needs a storage that moves files",
    'settings.claim.ready.suffix = ".ok"': "is not that of table items, with which it shares its feed",
}


@pytest.mark.parametrize("text", WRONG)
def test_feeds_that_cannot_be_shared(tmp_path: Path, text: str) -> None:
    stream = Stream(tmp_path)
    file = tmp_path / "tables.toml"
    file.write_text(file.read_text() + text)
    with pytest.raises(MutatorError, match=WRONG[text]) as caught:
        stream.run()
    assert caught.value.exit_code == 2


def test_all_bases_that_are_missing_are_named(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    fill(stream)
    for table in ("items", "orders"):
        (tmp_path / "bases" / table / "incr").rmdir()
    with pytest.raises(MutatorError, match="is not the base of a workflow") as caught:
        stream.run()
    assert caught.value.exit_code == 2
    assert all(f"bases/{table}: is not the base of a workflow" in str(caught.value) for table in ("items", "orders"))
    assert stream.left == FILES


def test_a_base_whose_target_is_a_table_is_refused(tmp_path: Path) -> None:
    """Its rows would go into a master beside the table. Its files are where its own runs look for them."""
    stream = Stream(tmp_path)
    fill(stream)
    mutator.Table.create(str(tmp_path / "bases/items/table"), {"key": "id", "order_by": "at"})
    done = stream.run()
    assert "its feed files go into the table" in str(done.results[0].error)
    assert (done.exit_code, stream.files("items", "incr"), stream.rows("orders")) == (2, FILES, END["orders"])
    assert not (tmp_path / "bases/items/master").exists()


def test_tables_that_are_to_stop_need_their_names(tmp_path: Path) -> None:
    stream = Stream(tmp_path, run='other-tables = "stop"')
    file = tmp_path / "tables.toml"
    file.write_text(file.read_text().replace('feed.table = "d.{table}"', ""))
    with pytest.raises(MutatorError, match=r"tables\.items\.settings: feed\.table is missing, which run\.other-tables"):
        stream.run()


POINTS = (
    "claim.moved",
    "many.claimed",
    "many.given",
    "many.given:4",
    "many.synced",
    "many.removed",
    "many.removed:3",
    "claim.done:1",
    "merge.done:1",
    "commit.done:1",
    "archive.moved:2",
    "archive.done:1",
    "claim.done:2",
    "archive.done:2",
    "archive.done:3",
)


@pytest.mark.thorough(keep=5)
@pytest.mark.processes
@pytest.mark.parametrize("point", POINTS)
def test_kill(tmp_path: Path, point: str) -> None:
    """Whenever a run is killed, the next one merges each file into each base, and none twice."""
    stream = Stream(tmp_path)
    fill(stream)
    assert in_child(stream.run, point)[0] == signal.SIGKILL, f"the run passed {point}"
    stream.run()
    assert {table: stream.rows(table) for table in TABLES} == END
    assert [stream.files(table, "archive") for table in TABLES] == [FILES] * 3
    assert [stream.merged(table) for table in TABLES] == [FILES] * 3
    assert stream.left == []


@pytest.mark.thorough(keep=3)
@pytest.mark.processes
@pytest.mark.parametrize(
    "point",
    [
        "claim.control:2",
        "claim.marker",
        "many.removed",
        "claim.moved",
        "many.given:5",
        "many.removed:4",
        "many.removed:7",
    ],
)
def test_a_kill_parts_no_file_from_those_beside_it(tmp_path: Path, point: str) -> None:
    stream = Stream(tmp_path, settings=SUFFIXES)
    fill(stream)
    stream.put_beside(FILES)
    assert in_child(stream.run, point)[0] == signal.SIGKILL, f"the run passed {point}"
    stream.run()
    assert {table: stream.rows(table) for table in TABLES} == END
    assert [stream.merged(table) for table in TABLES] == [FILES] * 3
    assert (stream.left, [stream.files(table, "incr") for table in TABLES]) == ([], [[]] * 3)


@pytest.mark.processes
def test_a_base_that_has_merged_a_file_skips_it(tmp_path: Path) -> None:
    """Another command merged the files that a killed run had given to one of the bases."""
    stream = Stream(tmp_path)
    fill(stream)
    assert in_child(stream.run, "many.given:4")[0] == signal.SIGKILL
    settings = {"key": "id", "feed.dialect": "debezium-json", "feed.table": "d.items", "allow.empty.master": "true"}
    options = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    assert cli.main(["workflow", "run", str(tmp_path / "bases/items"), *options, "-D", "claim.min.age=0s"]) == 0
    merged = stream.merged("items")
    stream.run()
    assert (merged, stream.merged("items")) == (FILES[:2], FILES)
    assert {table: stream.rows(table) for table in TABLES} == END


def test_every_point_is_passed(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    fill(stream)
    _, passed = in_child(stream.run)
    assert {point.partition(":")[0] for point in POINTS} <= set(passed)
