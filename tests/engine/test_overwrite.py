"""Insert overwrite of directories, one test for each line of its meaning (DESIGN 13), by both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutator.errors import ConfigError, DataError, StateError
from tests.support import local_engine
from tests.support.small_runs import all_rows, known, rows_of, tombstones_of

ENGINES = ["blocks", "records"]
SETTINGS = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "op.code.field.ordinal": "4"}
# ID, order value, content, partition
MASTER = [b"1,10,a,p0", b"2,10,b,p1", b"3,10,c,p1", b"4,10,d,p2"]


class Runs:
    """Runs one after the other, each into the output of the one before."""

    def __init__(self, work: Path, engine: str = "auto", **settings: str) -> None:
        self.work, self.engine, self.number = work, engine, 0
        self.settings = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        self.path = work / "master"
        self.path.mkdir()
        (self.path / "m.txt").write_bytes(b"".join(row + b"\n" for row in MASTER))

    def __call__(self, *rows: bytes, operation: str = "insert_overwrite", dry_run: bool = False, **settings: str):
        """Merge rows of a feed, each with its op code."""
        self.number += 1
        feed, output = self.work / f"feed-{self.number}", self.work / f"output-{self.number}"
        feed.mkdir()
        if rows:
            (feed / f"f_{self.number}.txt").write_bytes(b"".join(row + b"\n" for row in rows))
        given = {**self.settings, "write.operation": operation}
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        how = {"engine": self.engine, "dry_run": dry_run}
        report = local_engine.mutate(given, master=str(self.path), feed=[str(feed)], output=str(output), **how)
        if not dry_run:
            self.path = output
        return {name: n for name, n in report.counts.items() if n}, report

    @property
    def rows(self) -> list[bytes]:
        for path, rows in rows_of(self.path).items():
            place = path.partition("/")[0].removeprefix("p=").encode() if "/" in path else b""
            assert all(row.endswith(place) for row in rows), "each row is in its partition"
        return all_rows(self.path)

    @property
    def tombstones(self) -> dict[bytes, bytes | None]:
        return tombstones_of(self.path)


@pytest.fixture(params=ENGINES)
def whole(request, tmp_path):
    """Return runs over a master without partitions."""
    return Runs(tmp_path, request.param, num_reducer="2")


@pytest.fixture
def parted(tmp_path):
    """Return runs over a master with the partitions p0, p1 and p2."""
    runs = Runs(tmp_path, partitioned_by="p=3", num_reducer="2")
    runs(operation="apply")
    return runs


# --- a master without partitions is replaced as a whole


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
@pytest.mark.parametrize("managed", [False, True])
def test_what_the_feed_lacks_is_deleted_and_remembered(whole, operation, managed):
    if managed:
        whole(operation="apply")

    counts, report = whole(b"2,5,B,p1,U", b"9,3,new,p1,U", operation=operation)

    assert whole.rows == [b"2,5,B,p1", b"9,3,new,p1"]
    assert whole.tombstones == {b"1": b"10", b"3": b"10", b"4": b"10"}
    assert counts["master deleted by absence"] == 3
    assert (counts["feed updated"], counts["feed inserted"]) == (1, 1)
    assert report.replaced is None


def test_an_older_row_is_never_late(whole):
    counts, _ = whole(b"2,1,old,p1,U")
    assert whole.rows == [b"2,1,old,p1"]
    assert "feed late" not in counts


def test_a_later_mutation_wins_if_it_is_newer_than_the_new_row(whole):
    whole(b"2,1,old,p1,U")
    counts, _ = whole(b"2,2,newer,p1,U", b"3,9,late,p1,U", operation="apply")
    assert whole.rows == [b"2,2,newer,p1"]
    assert counts["feed late"] == 1, "the tombstone of an absent record has its order value"


def test_the_same_bytes_are_a_no_op(whole):
    counts, _ = whole(b"2,10,b,p1,U")
    assert counts["feed no-op"] == counts["master kept"] == 1


def test_an_older_row_revives_what_was_deleted(whole):
    whole(b"2,20,,p1,D", b"3,10,c,p1,U", operation="apply")
    counts, _ = whole(b"2,15,back,p1,U")
    assert whole.rows == [b"2,15,back,p1"]
    assert counts["revived"] == counts["feed inserted"] == 1


def test_a_delete_leaves_the_higher_order_value(whole):
    counts, _ = whole(b"1,5,,p0,D", b"2,15,,p1,D", b"7,3,,p1,D")
    assert whole.rows == []
    assert whole.tombstones == {b"1": b"10", b"2": b"15", b"3": b"10", b"4": b"10", b"7": b"3"}
    assert (counts["feed deleted"], counts["feed delete of unknown"]) == (2, 1)
    counts, _ = whole(b"1,5,,p0,D", b"7,4,,p1,D")
    assert counts["feed no-op"] == 2
    assert whole.tombstones == {b"1": b"10", b"2": b"15", b"3": b"10", b"4": b"10", b"7": b"4"}


def test_duplicates_of_the_master_leave_one_tombstone(whole):
    (whole.path / "n.txt").write_bytes(b"1,12,again,p0\n")
    counts, _ = whole(b"2,10,b,p1,U", max_duplicate_fraction="1")
    assert counts["master duplicate"] == 1
    assert whole.tombstones[b"1"] == b"12"


@pytest.mark.parametrize("sizes", [(1000, 3000), (3000, 1000), (3000, 3000)])
def test_sizes(whole, sizes):
    for number, size in enumerate(sizes):
        counts, _ = whole(*(b"%d,%d,x%d,p0,U" % (key, 9 - number, number) for key in range(size)))
        assert counts["output rows"] == size == len(whole.rows)


def test_a_feed_without_rows_changes_nothing(whole):
    counts, report = whole()
    assert whole.rows == MASTER
    assert whole.tombstones == {}
    assert counts == {"master rows": 4, "master kept": 4, "output rows": 4}
    assert "nothing is replaced: the feed has no rows" in report.notes


def test_a_feed_without_rows_replaces_everything_only_if_allowed(whole):
    with pytest.raises(DataError, match=r"would delete every record; .* -D allow.empty.feed=true"):
        whole(operation="insert_overwrite_table")
    with pytest.raises(DataError, match="would delete every record"):
        whole(b"", operation="insert_overwrite_table")  # a blank line
    counts, _ = whole(operation="insert_overwrite_table", allow_empty_feed="true")
    assert whole.rows == []
    assert counts["master deleted by absence"] == len(whole.tombstones) == 4


def test_a_reject_fails_it(whole):
    with pytest.raises(DataError, match=r"(?s)1 feed row cannot be read .*; leaving it out would delete its record"):
        whole(b"2,10,b,p1,U", b"3,soon,c,p1,U")
    with pytest.raises(ConfigError, match="where a reject would be a delete"):
        whole(b"2,10,b,p1,U", reject_policy="quarantine")


def test_the_limit_of_deletes_applies_only_if_it_is_set(whole):
    with pytest.raises(DataError, match="the feed lacks 3 records of what it replaces"):
        whole(b"2,10,b,p1,U", max_delete_fraction="0.5")
    assert whole(b"2,10,b,p1,U")[0]["master deleted by absence"] == 3


def test_a_feed_file_that_was_merged_is_merged_again(whole):
    whole(b"2,20,B,p1,U", operation="apply")
    merged = next((whole.work / "feed-1").iterdir())
    whole.number = 1
    (whole.work / "feed-2").mkdir()
    (whole.work / "feed-2" / merged.name).write_bytes(merged.read_bytes())
    given = {**whole.settings, "write.operation": "insert_overwrite"}
    paths = {"master": str(whole.path), "feed": [str(whole.work / "feed-2")], "output": str(whole.work / "again")}
    report = local_engine.mutate(given, **paths, engine=whole.engine)
    assert report.consumed == ()
    assert all_rows(report.output) == [b"2,20,B,p1"]


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_a_dry_run_counts_exactly(whole, operation):
    rows = (b"2,5,B,p1,U", b"9,3,new,p1,U", b"1,1,,p0,D")
    dry, report = whole(*rows, operation=operation, dry_run=True)
    assert report.dry_run
    whole.number += 1
    assert dry == whole(*rows, operation=operation)[0]


def test_rows_ordered_by_file_names_get_the_sequence_of_their_file(tmp_path):
    runs = Runs(tmp_path, num_reducer="2")
    runs.settings.pop("temporal.ordering.field.ordinal")
    runs(b"2,10,b,p1,U", b"3,10,c,p1,U", operation="apply")
    runs(b"2,10,b,p1,U", operation="apply")  # touched by f_2
    runs.number = 0
    (tmp_path / "feed-1" / "f_1.txt").unlink()
    (tmp_path / "feed-1").rmdir()
    (tmp_path / "output-1").rename(tmp_path / "before")
    counts, _ = runs(b"2,10,b,p1,U")  # f_1
    assert counts["feed no-op"] == 1
    assert runs.tombstones[b"3"] == b"1"
    runs.number = 2
    assert runs(b"2,11,later,p1,U", operation="apply")[0]["feed updated"] == 1


# --- partitions


def test_partitions_that_the_feed_lacks_stay_byte_for_byte(parted):
    before = {part.path: (parted.path / part.path).stat().st_ino for part in known(parted.path).files}

    counts, report = parted(b"4,5,D,p2,U", b"5,1,e,p2,U")

    assert parted.rows == [b"1,10,a,p0", b"2,10,b,p1", b"3,10,c,p1", b"4,5,D,p2", b"5,1,e,p2"]
    after = {part.path: (parted.path / part.path).stat().st_ino for part in known(parted.path).files}
    assert {path: after[path] for path in before if not path.startswith("p=p2")} == {
        path: inode for path, inode in before.items() if not path.startswith("p=p2")
    }
    assert report.replaced == ("p=p2",)
    assert counts["feed updated"] == counts["feed inserted"] == 1


def test_the_published_example(parted):
    """Ten records for p2: p0 and p1 keep theirs, or have none if everything is replaced."""
    rows = [b"%d,1,x,p2,U" % key for key in range(10, 20)]
    parted(*rows)
    assert [sum(row.endswith(place) for row in parted.rows) for place in (b"p0", b"p1", b"p2")] == [1, 2, 10]
    _, report = parted(*rows, operation="insert_overwrite_table")
    assert [sum(row.endswith(place) for row in parted.rows) for place in (b"p0", b"p1", b"p2")] == [0, 0, 10]
    assert report.replaced == ("p=p0", "p=p1", "p=p2")


def test_few_keys_are_looked_for_in_many_partitions_once(tmp_path):
    runs = Runs(tmp_path, partitioned_by="p=3")
    runs(*[b"%d,1,x,q%02d,U" % (100 + number, number) for number in range(64)], operation="apply")
    rows = [b"%d,2,y,q00,U" % key for key in range(101, 121)]  # of other partitions
    filters = len(known(runs.path).files)
    asked = {"overwrite": {}, "in two tasks": {"num_reducer": "2"}, "not overwrite": {"operation": "apply"}}
    for name, settings in asked.items():
        (note,) = (one for one in runs(*rows, dry_run=True, **settings)[1].notes if "in other partitions" in one)
        assert f" {filters if name == 'overwrite' else 2 * filters} filters" in note, name
    runs(*rows)
    assert len(runs.rows) == 4 + 63, "the rows of q00 came from 20 of these partitions"
    assert [row for row in runs.rows if row.endswith(b"q00")] == [row[:-2] for row in rows]


def test_a_record_of_a_kept_partition_moves_if_the_row_is_not_older(parted):
    counts, report = parted(b"4,10,moved,p0,U")
    assert parted.rows == [b"2,10,b,p1", b"3,10,c,p1", b"4,10,moved,p0"]
    assert counts["feed updated"] == 1
    assert counts["master deleted by absence"] == 1, "record 1 of p0, which is replaced"
    assert report.replaced == ("p=p0",)


def test_a_row_that_is_older_than_a_record_of_a_kept_partition_is_late(parted):
    counts, report = parted(b"4,9,older,p0,U")
    assert parted.rows == [b"2,10,b,p1", b"3,10,c,p1", b"4,10,d,p2"]
    assert counts["feed late"] == 1
    assert report.replaced == ("p=p0",), "the partition of a winner is replaced, even if the winner is late"


def test_a_record_moves_between_replaced_partitions_even_if_the_row_is_older(parted):
    counts, _ = parted(b"4,9,moved,p0,U", b"8,1,h,p2,U")
    assert parted.rows == [b"2,10,b,p1", b"3,10,c,p1", b"4,9,moved,p0", b"8,1,h,p2"]
    assert counts["feed updated"] == 1


def test_a_delete_alone_replaces_the_partition_of_its_row(parted):
    counts, report = parted(b"2,5,,p1,D")
    assert parted.rows == [b"1,10,a,p0", b"4,10,d,p2"]
    assert parted.tombstones == {b"2": b"10", b"3": b"10"}
    assert (counts["feed deleted"], counts["master deleted by absence"]) == (1, 1)
    assert report.replaced == ("p=p1",)


def test_a_delete_that_names_no_partition_replaces_none(parted):
    counts, report = parted(b"2,15,,,D", b"3,9,,,D")
    assert parted.rows == [b"1,10,a,p0", b"3,10,c,p1", b"4,10,d,p2"]
    assert (counts["feed deleted"], counts["feed late"]) == (1, 1)
    assert report.replaced == ()


def test_a_partition_may_be_new(parted):
    counts, report = parted(b"8,1,h,p9,U")
    assert parted.rows == sorted([*MASTER, b"8,1,h,p9"])
    assert report.replaced == ("p=p9",)
    assert counts["master kept"] == 4


def test_no_row_replaces_no_partition(parted):
    _, report = parted()
    assert parted.rows == MASTER
    assert report.replaced == ()
    with pytest.raises(DataError, match="would delete every record"):
        parted(operation="insert_overwrite_table")


def test_where_ids_are_unique_within_partitions_the_same_id_elsewhere_is_another_record(tmp_path):
    runs = Runs(tmp_path, partitioned_by="p=3", key_scope="partition")
    runs(operation="apply")
    counts, _ = runs(b"4,1,other,p0,U")
    assert runs.rows == [b"2,10,b,p1", b"3,10,c,p1", b"4,1,other,p0", b"4,10,d,p2"]
    assert (counts["feed inserted"], counts["master deleted by absence"]) == (1, 1)


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_the_first_run_over_a_master_without_partitions_replaces_those_of_its_feed(tmp_path, scope):
    runs = Runs(tmp_path, partitioned_by="p=3", key_scope=scope)
    counts, report = runs(b"2,5,B,p1,U")
    assert runs.rows == [b"1,10,a,p0", b"2,5,B,p1", b"4,10,d,p2"]
    assert counts["master deleted by absence"] == 1
    assert report.replaced == ("p=p1",)


@pytest.mark.parametrize("tasks", [1, 2, 7])
@pytest.mark.parametrize("split", ["1", "64m"])
def test_the_number_of_tasks_changes_nothing(tmp_path, tasks, split):
    runs = Runs(tmp_path, partitioned_by="p=3", split_bytes=split, num_reducer=str(tasks))
    runs(operation="apply")
    runs(b"4,9,moved,p0,U", b"8,1,h,p2,U", b"3,1,c,p1,U", b"2,1,,p1,D")
    assert runs.rows == [b"3,1,c,p1", b"4,9,moved,p0", b"8,1,h,p2"]
    assert runs.tombstones == {b"1": b"10", b"2": b"10"}


# --- damaged files


def damage(path: Path, how: str) -> None:
    if how == "removed":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    else:
        path.write_bytes(path.read_bytes().replace(b"1", b"\xff", 1))


HOW = ["removed", "cut", "flipped"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("scope", ["table", "partition"])
def test_a_damaged_partition_is_replaced(tmp_path, how, scope):
    runs = Runs(tmp_path, partitioned_by="p=3", key_scope=scope)
    runs(operation="apply")
    (part,) = [part for part in known(runs.path).files if part.path.startswith("p=p1")]
    damage(runs.path / part.path, how)
    with pytest.raises(StateError, match=part.path):
        runs(b"2,5,B,p1,U")

    counts, report = runs(b"2,5,B,p1,U", replace_damaged="true")

    assert runs.rows == [b"1,10,a,p0", b"2,5,B,p1", b"4,10,d,p2"]
    assert runs.tombstones == {}
    assert counts["master rows"] == 4
    assert counts["master deleted by absence"] == counts["expired"] == 2
    assert counts["feed inserted"] == 1, "its record was there, but nothing can show it"
    assert report.horizon == "5", "the highest order value that the run read in what it replaces"
    assert any(part.path in text and "the IDs of their 2 records are unknown" in text for text in report.warnings)
    counts, _ = runs(b"3,4,back,p1,U", operation="apply")
    assert counts["below horizon"] == 1, "a possible resurrection is noted"


def test_a_partition_that_is_kept_must_be_whole(parted):
    (part,) = [part for part in known(parted.path).files if part.path.startswith("p=p0")]
    damage(parted.path / part.path, "removed")
    with pytest.raises(StateError, match=part.path):
        parted(b"2,5,B,p1,U", replace_damaged="true")


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_file_of_a_bucket_is_replaced(whole, how):
    whole(operation="apply")
    part = next(part for part in known(whole.path).files if part.rows)
    damage(whole.path / part.path, how)
    cure = ".* -D replace.damaged=true" if how == "flipped" else ""  # sizes are compared first
    with pytest.raises(StateError, match=part.path + cure):
        whole(b"9,5,new,p1,U")

    counts, report = whole(b"9,5,new,p1,U", replace_damaged="true")

    assert whole.rows == [b"9,5,new,p1"]
    assert counts["master deleted by absence"] == 4
    assert counts["expired"] == part.rows
    assert len(whole.tombstones) == 4 - part.rows
    assert report.horizon == ("10" if part.rows < 4 else "5")


def test_damaged_tombstones_are_replaced(whole):
    whole(b"2,20,,p1,D", operation="apply")
    (part,) = [part for part in known(whole.path).beside if part.role == "tombstones"]
    damage(whole.path / part.path, "cut")

    counts, _ = whole(b"9,25,new,p1,U", replace_damaged="true")

    assert counts["tombstones in"] == counts["expired"] == 1
    assert whole.tombstones == {b"1": b"10", b"3": b"10", b"4": b"10"}


def test_the_sequence_in_the_name_of_a_damaged_file_is_known(tmp_path):
    runs = Runs(tmp_path, num_reducer="1")
    runs.settings.pop("temporal.ordering.field.ordinal")
    runs.number = 6
    runs(b"2,10,b,p1,U", b"3,10,c,p1,U", operation="apply")  # f_7
    (part,) = known(runs.path).files
    damage(runs.path / part.order, "cut")
    runs.number = 4

    counts, report = runs(b"9,5,new,p1,U", replace_damaged="true")  # f_5

    assert counts["expired"] == 4
    assert report.horizon == "7"
