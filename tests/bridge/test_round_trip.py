"""Runs of the bridge on a table that is a directory: what changes, what stays, and what the next run remembers."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator import config
from mutator.bridge import PathTable, run
from mutator.bridge.write import split_by_partition as parted_rows
from mutator.errors import ConfigError, DataError, StateError
from mutator.plan.proposal.propose import propose
from mutator.storage.local import LocalStorage
from tests.support import local_engine
from tests.support.bridge_tables import KINDS, Bridged, data_files, each, each_twice, inodes, known, write
from tests.support.columns_data import file_of
from tests.support.job import snapshot
from tests.support.no_limits import NO_LIMITS

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("at", pa.int64())])


def part(*rows):
    return pa.table([list(column) for column in zip(*rows, strict=True)], SCHEMA) if rows else SCHEMA.empty_table()


FIRST, SECOND = part((1, "a", 100), (2, "b,\\", 100)), part((3, None, 100), (4, "", 100))
FLAT = {"1.orc": FIRST, "2.orc": SECOND}
PARTED = {
    "dt=a%2Fb/1.orc": FIRST,
    "dt=a%2Fb/2.orc": SECOND,
    "dt=c/1.orc": part((5, "e", 100), (6, "f", 100)),
    "dt=__HIVE_DEFAULT_PARTITION__/1.orc": part((7, "g", 100)),
}
BEFORE = [(1, "a", 100), (2, "b,\\", 100), (3, None, 100), (4, "", 100)]


@pytest.fixture
def flat(in_memory):
    return Bridged(in_memory, FLAT)


@pytest.fixture
def parted(in_memory):
    return Bridged(in_memory, PARTED)


def state(table):
    """Return the parts of a table's state that stay equal while nobody changes it."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in (table, *table.rglob("*"))}


# --- from run to run


@pytest.mark.parametrize("file_format", KINDS)
def test_feed_is_merged_and_later_exports_are_skipped(in_memory, file_format):
    bridged = Bridged(in_memory, {name.replace("orc", file_format): table for name, table in FLAT.items()})
    bridged.feed("ups_1.txt", "2,two,200\n5,five,200\n")
    first = bridged.run()

    assert first.exported["why"] == "there was no text copy yet"
    assert first.exported["rows"] == 4
    assert (first.changed, first.partitions, first.kind) == (True, None, file_format)
    assert bridged.rows() == [(1, "a", 100), (2, "two", 200), *BEFORE[2:], (5, "five", 200)]
    assert all(path.suffix == f".{file_format}" for path in data_files(bridged.table))
    assert "the table was overwritten in one step" in first.text()

    bridged.feed("del_2.txt", "1,,300\n")
    second = bridged.run()

    assert second.exported is None
    assert "export skipped: the text copy is that of the table as it is" in second.text()
    assert second.merged.consumed == (str(bridged.inbox / "ups_1.txt"),)
    assert bridged.rows() == [(2, "two", 200), *BEFORE[2:], (5, "five", 200)]
    assert bridged.litter() == []


@pytest.mark.parametrize("rows", ["", "1,a,100\n", "1,late,50\n9,,\n"], ids=["empty", "no-op", "late and rejected"])
def test_table_is_not_touched_where_no_row_changes(flat, rows):
    flat.run()
    before = state(flat.table)
    flat.feed("ups_1.txt", rows)

    report = flat.run({"reject.policy": "quarantine"})

    assert not report.changed
    assert "the table stays as it is: no row has changed" in report.text()
    assert state(flat.table) == before
    assert sorted(os.listdir(flat.root)) == ["copy", "feed", "table"]
    assert flat.litter() == []


def test_first_run_without_a_feed_leaves_the_table(parted):
    before = state(parted.table)

    report = parted.run()

    assert not report.changed
    assert report.exported["rows"] == 7
    assert state(parted.table) == before


def test_duplicates_are_removed_even_if_files_are_identical(parted):
    """Two files with the same rows have identical text: the second one must count all the same."""
    write(parted.table, {"dt=c/2.orc": PARTED["dt=c/1.orc"]})
    assert len(parted.rows()) == 9

    report = parted.run()

    assert report.merged.counts["master duplicate"] == 2
    assert parted.rows() == sorted({*parted.rows()}, key=repr)
    assert len(parted.rows()) == 7
    assert report.partitions == ("dt=c",)


@pytest.mark.parametrize("between", [False, True], ids=["at once", "run by run"])
def test_tombstones_are_remembered(parted, between):
    """A row that is older than the delete does not bring the record back, even if an export happened in between."""
    parted.feed("del_1.txt", "5,,200,c\n")
    parted.run()
    if between:
        parted.run()
        parted.feed("ups_2.txt", "6,six,300,c\n")
        parted.run()
    parted.feed("ups_3.txt", "5,late,150,c\n")
    report = parted.run()

    assert report.merged.counts["feed late"] == 1
    assert 5 not in [row[0] for row in parted.rows()]


def test_report_is_json(parted):
    parted.feed("ups_1.txt", "5,five,200,c\n")
    answer = json.loads(parted.run().json())

    assert (answer["table"], answer["text"], answer["kind"]) == (str(parted.table), str(parted.text), "orc")
    assert (answer["changed"], answer["partitions"]) == (True, ["dt=c"])
    assert answer["exported"] == {"why": "there was no text copy yet", "rows": 7, "bytes": answer["exported"]["bytes"]}
    assert answer["merged"]["counts"]["feed updated"] == 1
    assert json.loads(parted.run().json())["exported"] is None


# --- partitions


def changed_from(before, after):
    return sorted({name.split("/")[0] for name, inode in after.items() if before.get(name) != inode})


def test_only_partitions_that_change_get_new_files(parted):
    before = inodes(parted.table)
    parted.feed("ups_1.txt", "5,five,200,c\n6,f,100,c\n")
    report = parted.run()
    after = inodes(parted.table)

    assert report.partitions == ("dt=c",)
    assert changed_from(before, after) == ["dt=c"]
    assert {name: inode for name, inode in after.items() if "dt=c" not in name} == {
        name: inode for name, inode in before.items() if "dt=c" not in name
    }
    assert "overwrote 1 partition in one step" in report.text()
    assert {part.path for part in known(parted.table).files} == set(after)
    assert sum(part.rows for part in known(parted.table).files) == 7


CHANGES = {
    "appears": ("8,h,1,new%/x\n", ["dt=new%25%2Fx"], {"new%/x": [8]}),
    "gets more": ("8,h,1,c\n", ["dt=c"], {"c": [5, 6, 8]}),
    "of NULL": ("8,h,1,\\N\n7,new,200,\n", ["dt=__HIVE_DEFAULT_PARTITION__"], {None: [7, 8]}),
    "of its name": (
        "8,h,1,__HIVE_DEFAULT_PARTITION__\n",
        ["dt=__HIVE_DEFAULT_PARTITION__"],
        {None: [7, 8]},
    ),
    "row moves": ("5,e,200,a/b\n", ["dt=a%2Fb", "dt=c"], {"a/b": [1, 2, 3, 4, 5], "c": [6]}),
    "last row moves": ("7,g,200,c\n", ["dt=__HIVE_DEFAULT_PARTITION__", "dt=c"], {None: [], "c": [5, 6, 7]}),
}


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("runs", [0, 1], ids=["first run", "second run"])
@pytest.mark.parametrize(("feed", "places", "expected"), CHANGES.values(), ids=CHANGES)
def test_partition(parted, runs, feed, places, expected):
    if runs:
        parted.feed("ups_0.txt", "1,a,200,a/b\n")
        parted.run()
    before = inodes(parted.table)
    parted.feed("ups_1.txt", feed)

    report = parted.run()

    assert sorted(report.partitions) == sorted(places)
    found = {value: [row[0] for row in parted.rows() if row[3] == value] for value in expected}
    assert found == expected
    assert set(changed_from(before, inodes(parted.table))) <= set(places)
    empty = [place for place, value in zip(places, expected, strict=False) if not expected[value]]
    assert [place for place in empty if (parted.table / place).exists()] == []


def test_partitions_without_rows_are_removed_until_the_table_is_empty(parted):
    parted.feed("del_1.txt", "5,,200,c\n6,,200,c\n")
    assert parted.run().partitions == ("dt=c",)
    assert not (parted.table / "dt=c").exists()

    parted.feed("del_2.txt", "".join(f"{number},,200,x\n" for number in (1, 2, 3, 4, 7)))
    parted.run()
    assert data_files(parted.table) == []
    assert parted.run().exported is None

    parted.feed("ups_3.txt", "9,nine,300,c\n1,late,100,c\n")
    parted.run()
    assert parted.rows() == [(9, "nine", 300, "c")]


def test_rows_of_null_under_both_names_stay(parted):
    """The value that spells the directory name of NULL is NULL in the table, and must be overwritten as NULL."""
    parted.feed("ups_1.txt", "8,h,1,__HIVE_DEFAULT_PARTITION__\n")
    parted.run()
    parted.feed("ups_2.txt", "7,new,200,\\N\n")
    parted.run()

    assert [row for row in parted.rows() if row[3] is None] == [(7, "new", 200, None), (8, "h", 1, None)]


def test_large_files_are_read_in_parts(in_memory):
    """Several megabytes of text arrive in several batches, each with rows of all partitions."""
    count, text = 6_000, "x" * 800
    rows = pa.table({"id": range(count), "name": [text] * count, "at": [100] * count}, SCHEMA)
    bridged = Bridged(in_memory, {})
    write(bridged.table, {f"dt={day}/1.orc": rows.slice(day * count // 2, count // 2) for day in (0, 1)}, rows=count)
    bridged.feed("ups_1.txt", "".join(f"{number},y,200,1\n" for number in range(0, count, 100)))
    assert sorted(bridged.run().partitions) == ["dt=0", "dt=1"]
    assert max(path.stat().st_size for path in bridged.text.glob("text-*/part-*")) > 2 << 20

    found = [(row[0], row[1], row[3]) for row in bridged.rows()]

    expected = {number: (text, str(number // (count // 2))) for number in range(count)}
    expected |= dict.fromkeys(range(0, count, 100), ("y", "1"))
    assert len(found) == count
    assert {number: (name, day) for number, name, day in found} == expected
    bridged.feed("ups_2.txt", f"{count - 1},z,300,1\n")
    assert bridged.run().partitions == ("dt=1",)
    assert len(bridged.rows()) == count


# --- tables that another process changes


def added(bridged):
    write(bridged.table, {"dt=c/new.orc": part((50, "new", 100))})


def rewritten(bridged):
    path = data_files(bridged.table / "dt=c")[0]
    write(bridged.table, {path.relative_to(bridged.table).as_posix(): part((5, "by hand", 100), (50, "new", 100))})


def rewritten_alike(bridged):
    """Rewrite a file as another one of the same size."""
    path = data_files(bridged.table / "dt=c")[0]
    before = path.stat()
    rows = sorted(row[:3] for row in bridged.rows() if row[3] == "c")
    for other in data_files(bridged.table / "dt=c")[1:]:
        other.unlink()
    write(bridged.table, {path.relative_to(bridged.table).as_posix(): part(*rows, (50, "new", 100))})
    assert path.stat().st_mtime_ns != before.st_mtime_ns


def removed(bridged):
    shutil.rmtree(bridged.table / "dt=c")


def touched(bridged):
    for path in data_files(bridged.table / "dt=c"):
        os.utime(path, (1, 1))


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("change", [added, rewritten, rewritten_alike, removed, touched])
@pytest.mark.parametrize("runs", [1, 2])
def test_changed_table_is_exported_again_and_the_report_says_why(parted, change, runs):
    parted.feed("ups_1.txt", "1,one,200,a/b\n")
    parted.feed("ups_2.txt", "6,six,200,c\n")
    for _ in range(runs):
        parted.run()
    change(parted)
    there = parted.rows()
    parted.feed("ups_3.txt", "2,two,300,a/b\n")

    report = parted.run()

    assert report.exported["why"].startswith("another program has changed the table: ")
    assert ".orc" in report.exported["why"]
    assert report.exported["rows"] == len(there)
    assert report.merged.consumed == (str(parted.inbox / "ups_1.txt"), str(parted.inbox / "ups_2.txt"))
    assert report.merged.counts["feed rows"] == 1
    assert parted.rows() == sorted([row for row in there if row[0] != 2] + [(2, "two", 300, "a/b")], key=repr)
    assert parted.litter() == []
    assert parted.run().exported is None


def test_rewritten_file_of_the_same_size_is_not_damage(flat):
    """A file that another process rewrites in place belongs to the table, even if the last run's manifest lists
    another.
    """
    flat.feed("ups_1.txt", "1,x,200\n")
    flat.run()
    (path, *_) = data_files(flat.table)
    content = path.read_bytes()
    other = path.with_name("_scratch")
    other.write_bytes(content.replace(b"x", b"y", 1))
    assert content != other.read_bytes()
    rows_before = flat.rows()
    path.write_bytes(other.read_bytes())
    other.unlink()

    report = flat.run()

    assert report.exported["why"] == f"another program has changed the table: {path.name}"
    assert len(flat.rows()) == len(rows_before)


def test_table_that_changes_during_a_merge_is_an_error_and_loses_nothing(parted):
    def meanwhile(plan, staging):
        found = local_engine.merge(plan, staging)
        added(parted)
        return found

    parted.feed("ups_1.txt", "6,six,200,c\n")
    with pytest.raises(StateError) as caught:
        parted.run(merge=meanwhile)

    assert caught.value.kind == "table.changed"
    assert [row[0] for row in parted.rows()] == [1, 2, 3, 4, 5, 50, 6, 7]
    assert sorted(os.listdir(parted.root)) == ["copy", "feed", "table"]
    parted.run()
    assert (6, "six", 200, "c") in parted.rows()
    assert (50, "new", 100, "c") in parted.rows()
    assert parted.litter() == []


def test_feed_of_a_run_that_was_not_committed_is_merged_after_all(parted):
    """The run was killed before the commit; then others change the table, which still has the carried files."""
    parted.run()
    parted.feed("ups_1.txt", "6,six,200,c\n")

    class Lost(Exception):
        pass

    def lost(self, record):
        raise Lost

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PathTable, "commit", lost)
        with pytest.raises(Lost):
            parted.run()
    write(parted.table, {"dt=d/new.orc": part((50, "new", 100))})
    (staged,) = parted.root.glob(".table.bridge-*")
    retired = []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PathTable, "retire", lambda self, record: retired.append(record["place"]))
        report = parted.run()

    assert retired == [], "what was never committed is discarded"
    assert not staged.exists()
    assert report.merged.consumed == ()
    assert (6, "six", 200, "c") in parted.rows()
    assert (50, "new", 100, "d") in parted.rows()
    assert parted.litter() == []


# --- settings


def test_other_key_is_an_error_and_can_be_adopted(in_memory):
    flat = Bridged(in_memory, {"1.orc": FIRST, "2.orc": part((3, "c", 100))})
    flat.feed("ups_1.txt", "1,one,200\n")
    flat.run()
    there = snapshot(flat.table)
    other = {"id.field.ordinals": "0,1"}

    with pytest.raises(StateError) as caught:
        flat.run(other)
    assert caught.value.kind == "manifest.spec"
    assert "master.adopt=true" in str(caught.value)
    assert snapshot(flat.table) == there

    flat.feed("ups_2.txt", "1,another,300\n")
    report = flat.run(other | {"master.adopt": "true"})
    assert report.exported["why"] == "master.adopt says so"
    assert report.merged.consumed == ()
    assert flat.rows() == [(1, "another", 300), (1, "one", 200), BEFORE[1], (3, "c", 100)]
    assert flat.run(other).exported is None


@pytest.mark.parametrize(
    ("settings", "row"),
    [
        ({"id.field.ordinals": "number"}, "1,one,200\n"),
        ({"temporal.ordering.field.ordinal": "7"}, "1,one,200\n"),
        ({"field.delim.regex": "|"}, "1,one,200\n"),
        ({}, "1,one\n"),
    ],
    ids=["field", "ordinal", "delimiter", "width"],
)
def test_a_faulty_configuration_is_refused_before_the_export(flat, monkeypatch, settings, row):
    flat.feed("ups_1.txt", row)
    there = snapshot(flat.table)
    monkeypatch.setattr(PathTable, "export", None)

    with pytest.raises((ConfigError, DataError)):
        flat.run(settings)

    assert snapshot(flat.table) == there
    assert [path.name for path in flat.text.iterdir()] == ["_mutator"]


def test_changed_rows_are_refused_at_once(flat):
    flat.feed("ups_1.txt", "1,one,200\n")

    with pytest.raises(ConfigError, match="a bridge writes no changed rows"):
        flat.run({"changes": "true"})

    assert not flat.text.exists()
    assert flat.rows() == BEFORE


@pytest.mark.parametrize(
    ("delimiter", "what"),
    [("|", "first row has 1 field"), ("\t", "first row has 1 field"), ("::", "one byte"), ("[,;]", "one byte")],
)
def test_delimiter_that_the_feed_does_not_have_is_an_error(flat, delimiter, what):
    flat.run()
    flat.feed("ups_1.txt", "1,one,200\n")
    there = snapshot(flat.table)

    with pytest.raises((ConfigError, DataError), match=what):
        flat.run({"field.delim.regex": delimiter})

    assert snapshot(flat.table) == there
    flat.run()
    assert (1, "one", 200) in flat.rows()


def test_feed_may_have_another_delimiter_than_the_text(flat):
    flat.feed("ups_1.txt", "1,one,200\n")
    flat.run()
    (flat.inbox / "ups_1.txt").unlink()  # because the probe reads the first row of every file
    flat.feed("ups_2.txt", "2|two,2|200\n")

    report = flat.run({"field.delim.regex": r"\|", "field.delim": "|"})

    assert report.exported is None
    assert flat.rows() == [(1, "one", 200), (2, "two,2", 200), *BEFORE[2:]]
    (flat.inbox / "ups_2.txt").unlink()
    flat.feed("ups_3.txt", "3,three,200\n")
    assert flat.run().exported is None
    assert flat.rows() == [(1, "one", 200), (2, "two,2", 200), (3, "three", 200), BEFORE[3]]


def test_text_of_another_table_is_refused(flat):
    """Feed files that one table has consumed do not count for another one, whose old files would never be removed."""
    flat.feed("ups_1.txt", "1,one,200\n")
    flat.run()
    flat.table = write(flat.root / "other", FLAT)
    before = snapshot(flat.root)

    with pytest.raises(StateError) as caught:
        flat.run()

    assert caught.value.kind == "table.other"
    assert f"is the text copy of {flat.root}/table, not of {flat.table}" in str(caught.value)
    assert snapshot(flat.root) == before


def test_missing_text_is_exported_again(flat):
    flat.feed("ups_1.txt", "1,one,200\n")
    flat.run()
    for one in flat.text.glob("text-*"):
        shutil.rmtree(one)

    report = flat.run()

    assert report.exported["why"] == "its text copy is gone"
    assert flat.rows() == [(1, "one", 200), *BEFORE[1:]]


def test_permissions_of_the_table_stay(flat):
    flat.table.chmod(0o2750)
    flat.feed("ups_1.txt", "1,one,200\n")
    flat.run()

    assert flat.table.stat().st_mode & 0o7777 == 0o2750


def test_hidden_files_of_other_programs_stay(flat):
    (flat.table / "_notes" / "deep").mkdir(parents=True)
    (flat.table / "_notes" / "deep" / "a.txt").write_text("mine")
    (flat.table / ".1.orc.crc").write_text("of a file that goes")
    flat.feed("ups_1.txt", "1,one,200\n")
    flat.run()
    flat.run()

    assert (flat.table / "_notes" / "deep" / "a.txt").read_text() == "mine"
    assert not (flat.table / ".1.orc.crc").exists()


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_file_that_arrives_at_the_last_moment_is_not_lost(flat, monkeypatch, killed):
    """The file arrives after the last listing of the table, before the directories are exchanged."""
    swap, late = LocalStorage.swap, flat.inbox / ".late.orc"
    late.write_bytes(file_of("orc", part((9, "late", 100))))
    calls = []

    def swap_late(self, one, other):
        if one == other:  # the dry check of whether the storage can exchange directories
            return swap(self, one, other)
        calls.append(one)
        if len(calls) == 1:
            shutil.copy(late, flat.table / "late.orc")
        done = swap(self, one, other)
        if killed:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(LocalStorage, "swap", swap_late)
    flat.feed("ups_1.txt", "1,one,200\n")

    with pytest.raises(KeyboardInterrupt if killed else StateError):
        flat.run()
    monkeypatch.undo()

    if killed:
        with pytest.raises(StateError) as caught:
            flat.run()
        assert caught.value.kind == "table.left"
        assert f"{calls[0]}: is the table as it was before the last run, but somebody has written" in str(caught.value)
        assert (flat.root / calls[0] / "late.orc").exists()
        (flat.root / calls[0] / "late.orc").rename(flat.table / "late.orc")
        shutil.rmtree(calls[0])
    flat.run()

    assert flat.rows() == [(1, "one", 200), *BEFORE[1:], (9, "late", 100)]
    assert flat.litter() == []


def test_rows_that_were_set_aside_stay_from_run_to_run(flat):
    """Their feed file counts as merged, so the rows exist nowhere else."""
    flat.feed("ups_1.txt", "1,one,200\n1,bad,soon\n")
    first = flat.run({"reject.policy": "quarantine"})
    flat.feed("ups_2.txt", "2,two,200\n")
    flat.run({"reject.policy": "quarantine"})
    flat.run()

    assert first.merged.counts["feed rejected"] == 1
    (kept,) = (flat.text / "_mutator" / "rejected").iterdir()
    assert b"soon" in kept.read_bytes()


def test_file_that_arrives_during_the_probe_is_not_lost(flat, monkeypatch):
    """The file arrives after the probe of the table's files and before the export."""
    table = PathTable(str(flat.table), each)
    (flat.table / "late.orc").write_bytes(file_of("orc", part((9, "late", 100))))
    read = config.parse({**flat.settings})

    with pytest.raises(StateError) as caught:
        run(table, str(flat.text), read, [str(flat.inbox)], local_engine.merge, each)

    assert caught.value.kind == "table.changed"
    assert (9, "late", 100) in flat.rows()


def test_feed_is_merged_again_into_a_restored_table(flat):
    """The restored table does not contain the rows that the feed added."""
    shutil.copytree(flat.table, flat.root / "feed" / ".yesterday")
    flat.feed("ups_1.txt", "1,one,200\n")
    flat.run()
    shutil.rmtree(flat.table)
    (flat.root / "feed" / ".yesterday").rename(flat.table)

    report = flat.run()

    assert report.merged.consumed == ()
    assert flat.rows() == [(1, "one", 200), *BEFORE[1:]]


def test_partitions_may_have_other_fields_than_the_table(in_memory):
    """Partitions that are not rewritten keep the fields of their files."""
    narrow = pa.table({"id": pa.array([1], pa.int32()), "at": [100]})
    wide = pa.table({"id": pa.array([2], pa.int32()), "at": [100], "more": [1]})
    bridged = Bridged(in_memory, {"dt=1/1.parquet": narrow, "dt=2/2.parquet": wide})
    bridged.feed("ups_1.txt", "2,200,5,2\n")
    settings = {"temporal.ordering.field.ordinal": "1"}
    bridged.run(settings)
    bridged.feed("ups_2.txt", "1,200,6,1\n")
    again = bridged.run({**settings, "master.adopt": "true"})

    assert again.exported["rows"] == 2
    assert sorted(bridged.rows()) == [(1, 200, 6, "1"), (2, 200, 5, "2")]


def test_timestamps_of_old_parquet_are_instants(in_memory):
    """A file with INT96 stays beside a new one, and Spark reads the same type in both."""
    schema = pa.schema([*SCHEMA, ("t", pa.timestamp("us", "UTC"))])
    bridged = Bridged(in_memory, {})
    for name, row in (("dt=a/1.parquet", (1, "a", 1, 0)), ("dt=b/2.parquet", (2, "b", 1, 1))):
        (bridged.table / name).parent.mkdir(parents=True)
        times = pa.table([[value] for value in row], schema)
        pq.write_table(times, bridged.table / name, use_deprecated_int96_timestamps=True, store_schema=False)
    bridged.feed("ups_1.txt", "1,one,2,1970-01-01T00:00:00.000002Z,a\n")
    bridged.run()

    assert bridged.rows() == [(1, "one", 2, 2, "a"), (2, "b", 1, 1, "b")]
    assert [pq.read_schema(path).field("t").type for path in data_files(bridged.table)] == [
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),  # INT96, as Arrow reads it
    ]


def test_directories_of_other_programs_may_be_escaped_as_utf_8(in_memory):
    """Arrow and DuckDB write such names; Hive escapes only ASCII characters."""
    bridged = Bridged(in_memory, {"dt=M%C3%BCnchen/1.orc": FIRST, "dt=a%2Fb/2.orc": SECOND})
    bridged.feed("ups_1.txt", "1,one,200,München\n")
    bridged.run()

    assert (1, "one", 200, "München") in bridged.rows()
    assert sorted(one.name for one in bridged.table.iterdir() if "=" in one.name) == ["dt=München", "dt=a%2Fb"]


def test_text_directory_must_not_be_a_dataset(flat):
    flat.run()
    (flat.text,) = flat.text.glob("text-*")

    with pytest.raises(ConfigError) as caught:
        flat.run()

    assert "is a dataset, and cannot store text copies" in str(caught.value)


def test_partition_without_a_value_is_the_partition_of_null(in_memory):
    """Hive has no other directory for it; no row may be in the table twice."""
    bridged = Bridged(in_memory, {"dt=/1.orc": FIRST, "dt=x/2.orc": SECOND})
    bridged.feed("ups_1.txt", "1,one,200,\\N\n")
    bridged.run()

    assert sorted(row[:2] for row in bridged.rows()) == [(1, "one"), (2, "b,\\"), (3, None), (4, "")]


def test_feed_without_the_partition_field_is_refused(parted):
    parted.feed("ups_1.csv", "id,name,at\n1,one,200\n")

    with pytest.raises(DataError) as caught:
        parted.run({"header.lines": "1"})

    assert "field dt is missing, and the table is partitioned by it" in str(caught.value)


def test_many_partition_fields_stay_distinct():
    """The product of the fields' numbers of values exceeds 64 bits."""
    columns = [
        pa.array([str(row * factor % 5003).encode() for row in range(5000)], pa.large_binary())
        for factor in (1, 3, 7, 11, 13, 17)
    ]
    found = {partition: rows.tolist() for partition, rows in parted_rows(columns)}

    assert found == {tuple(column[row].as_py().decode() for column in columns): [row] for row in range(5000)}


def test_new_field_comes_before_the_partition_fields(parted):
    """Hive orders fields in this way, and the next export of the table does, too."""
    wider = pa.table({"id": pa.array([1], pa.int32()), "name": ["w"], "at": [300], "dt": ["c"], "more": [15]})
    parted.feed("ups_1.parquet", file_of("parquet", wider))
    parted.run()
    exported = parted.run({"master.adopt": "true"})

    assert exported.exported is not None
    assert PathTable(str(parted.table), each).schema.names == ["id", "name", "at", "more", "dt"]
    assert (1, "w", 300, 15, "c") in parted.rows()


@pytest.mark.parametrize(("text", "kind"), [("", "path.roles"), ("inside", "path.inside"), ("..", "path.inside")])
def test_text_and_table_inside_each_other_are_refused(flat, text, kind):
    flat.text = (flat.table / text).resolve()
    before = snapshot(flat.root)

    with pytest.raises(ConfigError) as caught:
        flat.run()

    assert caught.value.kind == kind
    assert snapshot(flat.root) == before


def test_foreign_files_beside_the_text_stay(flat):
    """The base may be any directory, even the one that contains the table."""
    for name in ("text-notes", "export-2026"):
        write(flat.text, {f"{name}/x.orc": FIRST})
    flat.feed("ups_1.txt", "1,one,200\n")

    flat.run()
    flat.run()

    assert (flat.text / "text-notes" / "x.orc").exists()
    assert (flat.text / "export-2026" / "x.orc").exists()


def test_managed_master_is_refused_as_a_table(flat):
    shared = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "num.reducer": "2"}
    local_engine.mutate(
        shared, master=str(flat.table), feed=[str(flat.inbox)], output=str(flat.root / "managed"), engine="blocks"
    )
    flat.table = flat.root / "managed"
    flat.feed("ups_1.txt", "1,one,200\n")
    there = snapshot(flat.table)

    with pytest.raises(ConfigError) as caught:
        flat.run()

    assert caught.value.kind == "table.place"
    assert "mutator run" in str(caught.value)
    assert snapshot(flat.table) == there


def native(bridged, **arguments):
    paths = {"master": str(bridged.table), "feed": [str(bridged.inbox)], "output": str(bridged.root / "native")}
    settings = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "num.reducer": "2", **NO_LIMITS}
    return local_engine.mutate({**settings, "field.names": "id,name,at"}, engine="blocks", **paths, **arguments)


def test_a_run_on_the_table_says_that_a_bridge_wrote_it(flat):
    """It does not know the tombstones of the text copy."""
    flat.feed("ups_1.txt", "1,one,200\n")
    flat.run()
    warning = f"{flat.table}: mutator bridge wrote this master: the tombstones and the list of merged feed files"

    assert [one.startswith(warning) for one in native(flat).warnings if "bridge" in one] == [True]
    assert propose(str(flat.table), [str(flat.inbox)], {}).proposal is not None


def test_a_run_cannot_read_the_directories_of_a_bridge(parted):
    parted.feed("ups_1.txt", "1,one,200,c\n")
    parted.run()
    for act in (lambda: native(parted), lambda: propose(str(parted.table), [str(parted.inbox)], {})):
        with pytest.raises(ConfigError, match=r"values of dt are .*; merge into it with mutator bridge run --master"):
            act()


@pytest.mark.parametrize("fault", ["bad row", "width", "too many deletes"])
def test_refused_feed_changes_nothing(flat, fault):
    flat.run()
    before = snapshot(flat.root)
    rows = {"bad row": "x,one,200\n", "width": "1,one\n", "too many deletes": "1,,200\n2,,200\n3,,200\n"}
    path = flat.feed("del_1.txt" if "deletes" in fault else "ups_1.txt", rows[fault])

    with pytest.raises((DataError, ConfigError), match=r"ups_1|max\.delete\.fraction"):
        flat.run({"max.delete.fraction": "0.5"})

    path.unlink()
    assert snapshot(flat.root) == before


def test_typed_feed_with_a_new_field_changes_the_schema(parted):
    more = pa.table(
        {
            "id": pa.array([5, 9], pa.int32()),
            "name": ["e5", "n"],
            "at": pa.array([200, 200], pa.int32()),
            "dt": ["c", "c"],
            "new": ["x", None],
        }
    )
    parted.feed("ups_1.parquet", file_of("parquet", more))

    report = parted.run()

    assert report.changed
    assert report.partitions is None
    assert [row[0] for row in parted.rows()] == [1, 2, 3, 4, 5, 6, 7, 9]
    table = PathTable(str(parted.table), each)
    assert set(table.schema.names) == {"id", "name", "at", "dt", "new"}
    assert table.schema.field("at").type == pa.int64()
    assert table.partition_fields == ("dt",)
    again = parted.run()
    assert (again.exported, again.changed) == (None, False)
    parted.feed("ups_2.parquet", file_of("parquet", more.set_column(2, "at", [[300, 300]])))
    assert parted.run().partitions == ("dt=c",)
    assert parted.litter() == []


# --- second attempts, and two runs at once


def test_second_attempt_of_every_task_changes_nothing(parted):
    for number, feed in enumerate(("5,five,200,c\n8,h,1,new\n", "1,one,200,a/b\n")):
        parted.feed(f"ups_{number}.txt", feed)
        parted.run(each=each_twice)

    assert [row[0] for row in parted.rows()] == [1, 2, 3, 4, 5, 6, 7, 8]
    files = {path.relative_to(parted.table).as_posix() for path in data_files(parted.table)}
    assert files == {one.path for one in known(parted.table).files}
    assert parted.run().exported is None
    assert parted.litter() == []


def test_second_of_two_runs_at_once_is_refused(flat):
    flat.feed("ups_1.txt", "1,one,200\n")
    caught = []

    def meanwhile(plan, staging):
        with pytest.raises(StateError) as fault:
            flat.run()
        caught.append(fault.value)
        return local_engine.merge(plan, staging)

    flat.run(merge=meanwhile)

    assert [(one.kind, one.exit_code) for one in caught] == [("output.busy", 5)]
    assert flat.rows() == [(1, "one", 200), *BEFORE[1:]]
    assert flat.litter() == []


def test_two_runs_on_one_table_with_two_text_copies(flat):
    """Only the table itself connects the two: the second run sees that it has changed."""
    flat.feed("ups_1.txt", "1,one,200\n")

    def meanwhile(plan, staging):
        flat.text = flat.root / "copy2"
        flat.run()
        flat.text = flat.root / "copy"
        return local_engine.merge(plan, staging)

    with pytest.raises(StateError) as caught:
        flat.run(merge=meanwhile)

    assert caught.value.kind == "table.changed"
    assert flat.rows() == [(1, "one", 200), *BEFORE[1:]]
    flat.run()
    assert flat.rows() == [(1, "one", 200), *BEFORE[1:]]
