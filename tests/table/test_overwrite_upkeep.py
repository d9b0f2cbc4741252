"""Overwrites beside tags, restores and cleanings: a version that anybody needs keeps its files, and has its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import MutatorError
from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.engine.versions import base_files, delta_files
from mutator.table import apply, compact_choice, restore
from mutator.table.table import Table
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.table.test_compact_races import at_phase
from tests.table.test_overwrite_races import new_table
from tests.table.test_several_writers import PHASES, WORLDS, feeds, left, merge, no_patience, put

__all__ = ["no_patience"]  # a fixture

NOW: dict[str, Any] = {"keep_versions": 1, "grace": "0s"}
PARTS = ["partitions", "moves"]  # worlds with partitions
# Partition 1 has the records 1, 2 and 3, and partition 2 has 5; 6 was deleted in partition 2.
BASE = "1,1,2,U,x\n2,1,2,U,x\n3,1,2,U,x\n5,2,2,U,x\n6,2,2,U,x\n"
LESS = "6,2,3,D,\n"
OVER = "1,1,1,U,y\n2,1,2,U,x\n"  # deletes 3 by absence


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let versions have files apart from the log, a file for each partition, and checkpoints often."""
    for module in (apply, restore):
        monkeypatch.setattr(module, "INLINE", 0)
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(delta_files, "_OWN", 1)
    monkeypatch.setattr(opening, "_EVERY", 3)


def filled(directory: Path, world: str) -> Table:
    """Return a table: version 1 has the base, and version 2 one delete."""
    table, _ = new_table(directory, world, BASE)
    table.apply(put(directory, "less_0.csv", LESS))
    return table


def stored(table: Table) -> dict[str, bytes]:
    """Return the data and key indexes of a table."""
    root, others = Path(table.path), {"archive", "checkpoints", "cleaned", "hidden"}
    found = [*root.rglob("*.rows"), *root.rglob("*.tombstones"), *root.rglob("*.keys")]
    return {str(path.relative_to(root)): path.read_bytes() for path in found if others.isdisjoint(path.parts)}


def live(table: Table) -> set[str]:
    return set(table.refresh().snapshot.files.column("path").to_pylist())


def assert_whole(table: Table) -> None:
    """Verify a table, which has no file that no version needs."""
    found = table.verify()
    assert (found.problems, found.stray is not None and found.stray.files) == ((), 0)


# --- cleaning


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("world", PARTS)
def test_a_cleaning_removes_what_an_overwrite_has_replaced(world: str, tmp_path: Path) -> None:
    table = filled(tmp_path, world)
    before, files = stored(table), live(table)
    merge(table, put(tmp_path, "over_1.csv", OVER))
    replaced, expected = files - live(table), left(table, 3)
    assert replaced

    plan = table.clean(**NOW, dry_run=True)
    assert plan.named is not None
    named = {one.path: (one.reason, one.last_version) for one in plan.named}
    assert {named.get(path) for path in replaced} == {("replaced", 2)}
    table.clean(keep_versions=1)
    assert stored(table).keys() >= before.keys(), "nothing is removed before the grace is over"
    table.clean(**NOW)

    after = stored(table)
    assert not replaced & after.keys()
    kept = files - replaced
    assert kept
    assert {path: after[path] for path in kept} == {path: before[path] for path in kept}
    assert left(Table(table.path), table.refresh().version) == expected
    assert_whole(table)
    with pytest.raises(MutatorError, match="version 2 is gone"):
        table.changes(2)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("world", PARTS)
def test_a_file_with_hidden_rows_stays_until_its_last_row_is_replaced(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_files, "_OWN", 1 << 20)  # the partitions share a file
    table, _ = new_table(tmp_path, world, BASE)
    (shared,) = live(table)
    merge(table, put(tmp_path, "over_1.csv", OVER))
    table.clean(**NOW)
    assert shared in stored(table)
    expected = left(table, 2)
    assert left(Table(table.path), table.refresh().version) == expected
    merge(table, put(tmp_path, "over_2.csv", "5,2,1,U,z\n"))
    expected = left(table, table.version)
    table.clean(**NOW)
    assert shared not in stored(table)
    assert left(Table(table.path), table.refresh().version) == expected
    assert_whole(table)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("kind", ["over", "all"])
def test_a_bookmark_sees_the_changes_of_an_overwrite_over_a_cleaning(kind: str, tmp_path: Path) -> None:
    table = filled(tmp_path, "partitions")
    table.bookmark("reader")
    merge(table, put(tmp_path, f"{kind}_1.csv", OVER))
    expected = table.changes(2).to_arrow()
    assert table.clean(**NOW).earliest_version == 2
    with Table(table.path).changes_since("reader") as changes:
        assert changes.to_arrow().equals(expected)
    assert expected.num_rows == (4 if kind == "all" else 3)  # an update, and what is deleted by absence
    assert table.clean(**NOW).earliest_version > 2
    assert_whole(table)


def test_an_overwrite_of_everything_and_a_cleaning_leave_one_version_of_files(tmp_path: Path) -> None:
    table = filled(tmp_path, "moves")
    for number in range(3):
        merge(table, put(tmp_path, f"all_{number}.csv", f"{number},1,{number},U,x\n7,2,{number},U,y\n"))
    table.clean(**NOW)
    assert {path for path in stored(table) if not path.endswith(".keys")} == live(table)
    assert_whole(table)


# --- tags and restores


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("kind", ["over", "all"])
@pytest.mark.parametrize("world", WORLDS)
def test_a_tag_keeps_its_files_over_an_overwrite_and_a_cleaning(world: str, kind: str, tmp_path: Path) -> None:
    table = filled(tmp_path, world)
    table.tag("before")
    rows, files = left(table, 2), stored(table)
    merge(table, put(tmp_path, f"{kind}_1.csv", OVER))
    table.tag("after")
    overwritten = left(table, 4)
    table.apply(put(tmp_path, "more_2.csv", "1,1,9,U,z\n"))
    table.compact(everything=True)
    table.clean(**NOW)

    assert {path: content for path, content in stored(table).items() if path in files} == files
    fresh = Table(table.path)
    assert left(fresh, fresh.tags()["before"]) == rows
    assert left(fresh, fresh.tags()["after"]) == overwritten
    assert_whole(fresh)
    for name in ("before", "after"):
        fresh.untag(name)
    fresh.clean(**NOW)
    left_over = files.keys() & stored(fresh).keys() - {path for path in files if "/tombstones/" in path}
    assert not left_over, "tombstones of keys that the feed lacks stay"
    assert_whole(fresh)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("kind", ["over", "all"])
@pytest.mark.parametrize("world", WORLDS)
def test_a_restore_to_a_tag_before_an_overwrite_brings_all_of_it_back(world: str, kind: str, tmp_path: Path) -> None:
    """Rows, tombstones and the merged feed files are those of the tag, so the same feeds have the same outcomes."""
    table = filled(tmp_path, world)
    table.tag("before")
    expected = left(table, 2)
    over = put(tmp_path, f"{kind}_1.csv", OVER)
    merge(table, over)
    assert left(table, 4) != expected
    later = put(tmp_path, "later_2.csv", "3,1,1,U,z\n6,2,1,U,z\n9,1,1,U,z\n")
    table.apply(later)
    table.clean(**NOW)

    done = table.restore("before")

    assert (done.restored, left(table, table.version)) == (2, expected)
    assert not table.apply(str(tmp_path / "base_0.csv")).is_new, "it was merged before"
    report = table.apply(later)  # it was merged after the tag
    outcomes = {name: report.counts[f"feed {name}"] for name in ("late", "inserted", "updated")}
    assert outcomes == dict.fromkeys(outcomes, 0) | EXPECTED[world == "by file name"]
    table.untag("before")
    table.clean(**NOW)
    assert left(Table(table.path), table.refresh().version)[0]
    assert_whole(table)


EXPECTED = [{"late": 2, "inserted": 1}, {"updated": 1, "inserted": 2}]  # by field; by file name, later_2 is newer


def test_a_restore_to_an_overwrite_brings_back_its_deletes_by_absence(tmp_path: Path) -> None:
    table = filled(tmp_path, "partitions")
    merge(table, put(tmp_path, "over_1.csv", OVER))
    table.tag("overwritten")
    expected = left(table, 3)
    merge(table, put(tmp_path, "all_2.csv", "3,1,0,U,back\n"))
    table.clean(**NOW)
    table.restore("overwritten")
    assert left(table, table.version) == expected
    assert table.apply(put(tmp_path, "late_3.csv", "3,1,1,U,z\n")).counts["feed late"] == 1, "a tombstone is back"
    assert_whole(table)


# --- at the same time

Act = Callable[[Table], Any]
OTHERS: dict[str, Act] = {
    "clean": lambda table: table.clean(**NOW),
    "tag": lambda table: table.tag("other"),
    "tag an older version": lambda table: table.tag("other", 1),
    "move a tag": lambda table: table.tag("kept", 2, move=True),
    "untag": lambda table: table.untag("kept"),
    "untag and clean": lambda table: [table.untag("kept"), table.clean(**NOW)],
    "tag and clean": lambda table: [table.tag("other"), table.clean(**NOW)],
    "restore": lambda table: table.restore("kept"),
    "restore and clean": lambda table: [table.restore("kept"), table.clean(**NOW)],
}


@pytest.mark.thorough(keep=1, rest=10)
@pytest.mark.parametrize("world", PARTS)
@pytest.mark.parametrize("kind", ["over", "all"])
@pytest.mark.parametrize("phase", PHASES[:3])
@pytest.mark.parametrize("other", OTHERS)
def test_another_writer_acts_during_an_overwrite(other: str, phase: str, kind: str, world: str, tmp_path: Path) -> None:
    table = filled(tmp_path, world)
    table.tag("kept", 1)
    paths = {name: str(tmp_path / name) for name in ("base_0.csv", "less_0.csv")}
    paths["slow"] = put(tmp_path, f"{kind}_1.csv", OVER)
    expected = left(table, 1)
    with at_phase(phase, lambda: OTHERS[other](Table(table.path))):
        merge(Table(table.path), paths["slow"])
    assert table.refresh().snapshot.state.tags.get("kept") != 1 or left(table, 1) == expected
    assert_serial(table, tmp_path, WORLDS[world])


@pytest.mark.thorough(keep=1, rest=8)
@pytest.mark.parametrize("world", PARTS)
@pytest.mark.parametrize("kind", ["over", "all"])
@pytest.mark.parametrize("other", OTHERS)
def test_an_overwrite_acts_before_another_writer_commits(other: str, kind: str, world: str, tmp_path: Path) -> None:
    table = filled(tmp_path, world)
    table.tag("kept", 1)
    expected = left(table, 1)
    over = put(tmp_path, f"{kind}_1.csv", OVER)
    with at_phase("commit", lambda: merge(Table(table.path), over)):
        OTHERS[other](Table(table.path))
    assert table.refresh().snapshot.state.tags.get("kept") != 1 or left(table, 1) == expected
    assert_serial(table, tmp_path, WORLDS[world])


def assert_serial(table: Table, directory: Path, settings: dict[str, Any]) -> None:
    """Compare each version that is there with that of the same operations one after the other, without cleanings."""
    versions = [TableLog(table.path).read(0), *TableLog(table.path).all_after(0)]
    serial, same = Table.create(str(directory / "serial"), settings, buckets=2), [0]
    tags = dict[str, int]()
    for version in versions[1:]:
        if version.feed:
            operation: Any = getattr(serial, version.action)
            report = operation(str(directory / version.feed[0].name.rpartition("/")[2]))
            assert report.counts == version.counts
        elif version.restored is not None:
            serial.restore(same[version.restored.version])
        else:
            assert version.action in ("tag", "clean", "compact")
        tags = {name: one for name, one in tags.items() if name not in version.untagged} | dict(version.tags)
        same.append(serial.version)
    fresh = Table(table.path)
    assert (fresh.version, fresh.tags()) == (len(versions) - 1, tags)
    cleaning = fresh.snapshot.state.cleaning
    there = [number for number in range(len(versions)) if cleaning.left.has(number)]
    assert {*tags.values(), fresh.version} <= {*there}
    for number in there:
        assert left(fresh, number) == left(serial, same[number])
    for number in range(cleaning.earliest, fresh.version):
        assert changed(fresh, number, number + 1) == changed(serial, same[number], same[number + 1])
    assert changed(fresh, cleaning.earliest, fresh.version) == changed(serial, same[cleaning.earliest], serial.version)
    assert_whole(fresh)


def changed(table: Table, first: int, last: int) -> list[Any]:
    """Return the net changes between two versions, without versions and times."""
    found = table.changes(first, last, net=True).to_arrow().drop_columns(["_commit_version", "_commit_timestamp"])
    return sorted(map(repr, found.to_pylist()))


@contextmanager
def suppress_what_is_gone() -> Iterator[None]:
    """Let steps fail that ask for a version or a tag that is not there, or whose run was outrun."""
    try:
        yield
    except MutatorError as fault:
        gone = ("table.version.gone", "table.changes.gone", "table.version", "table.tag.unknown")
        if fault.kind not in (*gone, "table.outrun.compact"):
            raise


STEPS = ["over", "over", "all", "f", "clean", "clean", "tag", "untag", "restore", "compact"]


@pytest.mark.rest
@law(40, deadline=None)
@given(
    feeds.filter(lambda found: len(found) > 2),
    st.sampled_from(PARTS),
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(PHASES), st.integers(0, 9)), min_size=6, max_size=9),
    st.booleans(),
    st.booleans(),
)
def test_the_result_is_that_of_the_order_of_the_log(
    mutations: list[str], world: str, steps: list[tuple[str, str, int]], own: bool, nested: bool
) -> None:
    with scratch() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact_choice, "_TASK_ROWS", 2)
        patch.setattr(base_files, "OWN", 2)
        patch.setattr(compact_choice, "OWN", 2)
        patch.setattr(delta_files, "_OWN", 1 if own else 1 << 20)
        table = filled(directory, world)
        rows, waiting = [*mutations], [*steps]

        def act() -> None:
            """Act, while another writer does the next step."""
            if not waiting:
                return
            kind, phase, number = waiting.pop()
            with at_phase(phase, act) if nested else nullcontext(), suppress_what_is_gone():
                step(Table(table.path), kind, number)

        def step(own: Table, kind: str, number: int) -> None:
            name = "xy"[number % 2]
            if kind in ("over", "all", "f"):
                if rows:
                    merge(own, put(directory, f"{kind}_{len(rows)}.csv", rows.pop()))
            elif kind == "clean":
                own.clean(keep_versions=1 + number % 3, grace="0s" if number % 4 else "1h")
            elif kind == "tag":
                own.tag(name, number % (own.version + 1), move=True)
            elif kind == "untag":
                own.untag(name)
            elif kind == "restore":
                own.restore(name if name in own.tags() else number % (own.version + 1))
            else:
                own.compact(everything=number % 2 == 0, files=1, hidden=0)

        while waiting:
            act()
        assert_serial(table.refresh(), directory, WORLDS[world])
