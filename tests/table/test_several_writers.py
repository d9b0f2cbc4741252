"""Writers at the same time: the result is that of the log's order, whatever another writer does at any phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.versions import merged_keys, opening
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.engine.versions import apply_task, second_decisions
from mutator.errors import MutatorError
from mutator.table import apply, commit, compact
from mutator.table.table import Table
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch
from tests.support.versioned import left_of
from tests.table.test_changes import changes, replayed, rows_at

PHASES = ("planned", "merged", "commit", "later commit")
BY_FIELD = {"key": "id", "order_by": "at", "op": "op", "header": True, **NO_LIMITS}
WORLDS: dict[str, dict[str, Any]] = {
    "by field": BY_FIELD,
    "by file name": {name: value for name, value in BY_FIELD.items() if name != "order_by"},
    "partitions": {**BY_FIELD, "partitioned.by": "shop", "key.scope": "partition"},
    "moves": {**BY_FIELD, "partitioned.by": "shop", "key.scope": "table"},
}


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: Any) -> None:
    """Let other writers act in the turn of one, at each phase."""
    monkeypatch.setattr(commit, "_PATIENCE", 0)


@contextmanager
def at_phase(phase: str, act: Callable[[], Any]) -> Iterator[None]:
    """Act once when the next operation reaches a phase: as another process would at that time."""
    waiting, tries = [act], list[int]()

    def meanwhile() -> None:
        if waiting:
            waiting.pop()()

    def around(work: Callable[..., Any]) -> Callable[..., Any]:
        def working(*arguments: Any) -> Any:
            if phase == "planned":
                meanwhile()
            result = work(*arguments)
            if phase == "merged":
                meanwhile()
            return result

        return working

    commit = TableLog.commit

    def committing(log: TableLog, version: Any) -> bool:
        tries.append(version.number)
        if phase == "commit" or (phase == "later commit" and len(tries) > 1):
            meanwhile()
        return commit(log, version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_merged", around(apply._merged))
        patch.setattr(compact, "_compacted", around(compact._compacted))
        patch.setattr(TableLog, "commit", committing)
        yield


def put(directory: Path, name: str, rows: str) -> str:
    path = directory / name
    path.write_text(f"id,shop,at,op,name\n{rows}")
    return str(path)


def left(table: Table, version: int) -> Any:
    found = left_of(open_snapshot(table.path, version), {}, width=1)
    return found.rows, found.tombstones


numbers = st.integers(1, 5), st.integers(1, 2), st.integers(1, 4)
row = st.builds("{},{},{},{},{}\n".format, *numbers, st.sampled_from("UUD"), st.sampled_from("xy"))
feeds = st.lists(st.lists(row, min_size=1, max_size=4).map("".join), min_size=2, max_size=4)


@contextmanager
def counted_starts() -> Iterator[list[int]]:
    """Yield a list that gets an element whenever an apply begins, or starts over."""
    starts, applied = list[int](), apply._applied

    def beginning(*arguments: Any) -> Any:
        starts.append(1)
        return applied(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_applied", beginning)
        yield starts


def merge(table: Table, path: str) -> Any:
    """Apply a feed, or overwrite by it, as its name says; return the report."""
    operations = {"over": table.insert_overwrite, "all": table.insert_overwrite_table}
    return operations.get(Path(path).name.partition("_")[0], table.apply)(path)


def assert_serial(table: Table, directory: Path, settings: dict[str, Any], paths: dict[str, str]) -> Any:
    """Compare a table with one that got the same feeds and restores in the order of its log, without compactions.

    Return the report of the last merge into the latter. paths: by file name.
    """
    versions = chain(table.refresh())
    serial, same, report = Table.create(str(directory / "serial"), settings), [0], None
    for version in versions[1:]:
        if version.feed:
            operation: Any = getattr(serial, version.action)
            report = operation(paths[version.feed[0].name.rpartition("/")[2]])
        elif version.restored is not None:
            serial.restore(same[version.restored.version])
        else:
            assert version.action == "compact"
        same.append(serial.version)
    within = 2 if settings.get("key.scope") == "partition" else 1

    def key(text: str) -> Any:
        return tuple(list(eval(text, {"Decimal": str}).values())[:within])

    others, rows = chain(serial), [rows_at(table, number) for number in range(len(versions))]
    for number, version in enumerate(versions[1:], 1):
        if version.feed:
            assert facts(version) == facts(others[same[number]])
        assert left(table, number) == left(serial, same[number])
        own = changes(table, number - 1, number)
        assert replayed(rows[number - 1], own, key) == sorted(map(repr, rows[number]))
        assert kinds(own) == kinds(changes(serial, same[number - 1], same[number]))
    last = table.version
    for start, end in {(0, last), (min(1, last), last), (last // 2, last), (0, max(last - 1, 0))}:
        net = changes(table, start, end, net=True)
        expected = changes(serial, same[start], same[end], net=True)
        assert kinds(net) == kinds(expected)
        assert all(versions[number].feed or versions[number].restored for _, number, _ in net)
        assert sorted(same[number] for _, number, _ in net) == sorted(number for _, number, _ in expected)
        flat = [(kind, 1, text) for kind, _, text in net]
        assert replayed(rows[start], flat, key) == sorted(map(repr, rows[end]))
    for number in sorted({int(line.partition(",")[0]) for path in paths.values() for line in rows_of_feed(path)}):
        own = [(same[version], *more) for version, *more in history(table, number)]
        assert own == history(serial, number)
    verified = table.verify()
    assert verified.problems == ()
    assert verified.stray is not None
    assert verified.stray.files == 0
    return report


def act_beside_each_other(
    directory: Path,
    settings: dict[str, Any],
    mutations: Sequence[str],
    phases: Sequence[str],
    kinds: Sequence[str],
    numbers: Sequence[int] = (),
    *,
    nested: bool = True,
    buckets: int = 2,
) -> None:
    """Let writers act, each in a phase of the next one if they are nested; the result is that of the order of the log.

    mutations: the rows of each feed. kinds: what the writers do. numbers: to choose the versions of restores.
    """
    names = [f"feed_{number:02d}.csv" for number in range(len(mutations))]
    paths = {name: put(directory, name, rows) for name, rows in zip(names, mutations, strict=True)}
    table = Table.create(str(directory / "table"), settings, buckets=buckets)
    paths["first_0.csv"] = put(directory, "first_0.csv", BASE)
    table.apply(paths["first_0.csv"])
    left_over, steps = list(names), list(kinds)

    def act() -> None:
        """Act, while another writer does the next step."""
        if not steps:
            return
        number, kind = len(steps) - 1, steps.pop()
        with at_phase(phases[number], act) if nested else nullcontext():
            own = Table(table.path)
            if kind == "compact":
                own.compact(everything=number % 2 == 0, files=1, hidden=0)
            elif kind == "restore":
                own.restore(1 + numbers[number] % own.version)
            elif left_over:
                operation: Any = getattr(own, kind)
                operation(paths[left_over.pop(0)])

    while steps:
        act()
    assert_serial(table, directory, settings, paths)


def chain(table: Table) -> list[Any]:
    """Return the entries of a table's log."""
    return list(TableLog(table.path).chain(None, table.version))


def history(table: Table, number: int) -> list[Any]:
    """Return the versions of a record, without the times of their commits."""
    versions = [
        (version.version, version.deleted, version.partition, version.record and version.record.to_pylist())
        for version in table.history(str(number))
    ]
    return sorted(versions, key=lambda version: (*version[:2], version[2] or ""))


def rows_of_feed(path: str) -> list[str]:
    return Path(path).read_text().splitlines()[1:]


def facts(version: Any) -> Any:
    return version.feed[0].name, dict(version.counts), version.records, version.tombstones


def kinds(found: list[tuple[str, int, str]]) -> list[tuple[str, str]]:
    return sorted((kind, text) for kind, _, text in found)


@law(60)
@given(feeds, st.sampled_from(sorted(WORLDS)), st.lists(st.sampled_from(PHASES), min_size=3, max_size=3), st.booleans())
def test_the_result_is_that_of_the_order_of_the_log(
    mutations: list[str], world: str, phases: list[str], inline: bool
) -> None:
    with scratch() as directory, pytest.MonkeyPatch.context() as patch, counted_starts() as starts:
        patch.setattr(opening, "_EVERY", 2)
        if not inline:
            patch.setattr(apply, "INLINE", 0)
        names = [f"feed_{number:02d}.csv" for number in range(len(mutations))]
        paths = {name: put(directory, name, rows) for name, rows in zip(names, mutations, strict=True)}
        table = Table.create(str(directory / "table"), WORLDS[world])
        paths["first_0.csv"] = put(directory, "first_0.csv", "1,1,2,U,x\n2,2,2,U,x\n3,1,2,U,x\n")
        table.apply(paths["first_0.csv"])

        def apply_from(number: int) -> None:
            """Apply a feed, while another writer applies the following one."""
            if number + 1 < len(names):
                with at_phase(phases[number % len(phases)], lambda: apply_from(number + 1)):
                    Table(table.path).apply(paths[names[number]])
            else:
                Table(table.path).apply(paths[names[number]])

        apply_from(0)
        assert len(starts) == table.refresh().version
        assert_serial(table, directory, WORLDS[world], paths)


BASE = "1,1,2,U,x\n2,1,2,U,x\n3,1,2,U,x\n4,1,2,U,x\n5,1,2,U,x\n"
CASES = {  # rows of the slower and of the faster writer
    "other keys": ("1,1,3,U,y\n9,1,3,U,y\n", "2,1,3,U,z\n8,1,3,D,\n"),
    "two updates": ("1,1,3,U,y\n2,1,3,U,y\n", "1,1,4,U,z\n"),
    "two updates, the slower one newer": ("1,1,4,U,y\n2,1,3,U,y\n", "1,1,3,U,z\n"),
    "two inserts": ("9,1,3,U,y\n", "9,1,3,U,z\n"),
    "the same rows": ("1,1,3,U,y\n9,1,3,U,y\n8,1,3,D,\n", "9,1,3,U,y\n8,1,3,D,\n1,1,3,U,y\n"),
    "two deletes": ("1,1,3,D,\n9,1,3,D,\n", "1,1,4,D,\n9,1,2,D,\n"),
    "a delete, and an update": ("1,1,3,D,\n2,1,5,D,\n", "1,1,4,U,z\n2,1,4,U,z\n"),
    "a late row, and a delete": ("1,1,1,U,y\n", "1,1,3,D,\n"),
    "an equal row, and an update": ("1,1,2,U,x\n2,1,2,U,x\n", "1,1,3,U,z\n2,1,2,U,z\n"),
    "an update, and an equal row": ("1,1,3,U,y\n2,1,3,D,\n", "1,1,2,U,x\n2,1,2,U,x\n"),
    "an equal row, and a delete": ("1,1,2,U,x\n2,1,2,U,x\n", "1,1,3,D,\n2,1,2,D,\n"),
    "a delete of an unknown record, and an insert": ("9,1,3,D,\n", "9,1,2,U,z\n"),
    "inserted and deleted, and an insert": ("9,1,3,U,y\n9,1,4,D,\n", "9,1,2,U,z\n"),
    "tied in the feed, and an update": ("1,1,3,U,y\n1,1,3,U,z\n", "1,1,4,U,y\n"),
    "tied in the feed and with the record, and an update": ("1,1,2,U,y\n1,1,2,U,z\n", "1,1,3,U,y\n"),
    "a late row of one of them": ("1,1,3,U,y\n", "1,1,1,U,z\n"),
    "the same ID in two partitions": ("1,1,3,U,y\n1,2,3,U,y\n", "1,2,4,U,z\n"),
}


@pytest.mark.thorough(keep=2, rest=6)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", CASES)
def test_two_writers(case: str, world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = CASES[case]
    slower, faster = "f_2.csv", "f_3.csv"
    for phase in PHASES[:3]:
        slower, faster = faster, slower
        monkeypatch.setattr(apply, "INLINE", 0 if phase == "merged" else 1 << 16)
        work = tmp_path / phase
        work.mkdir()
        table = Table.create(str(work / "table"), WORLDS[world])
        paths = {"base_1.csv": put(work, "base_1.csv", BASE)}
        table.apply(paths["base_1.csv"])
        paths |= {slower: put(work, slower, slow), faster: put(work, faster, fast)}
        act = partial(Table(table.path).apply, paths[faster])
        with counted_starts() as starts, at_phase(phase, act):
            report = table.apply(paths[slower])
        names = [version.feed[0].name.rpartition("/")[2] for version in chain(table)[1:]]
        assert names == ["base_1.csv", faster, slower]
        assert report.version == table.version == 3
        assert len(starts) == 2
        assert table.snapshot.state == open_snapshot(table.path).state
        assert report.counts == dict(chain(table)[-1].counts)
        assert report.samples == assert_serial(table, work, WORLDS[world], paths).samples


@contextmanager
def outrun(times: int, act: Callable[[int], Any]) -> Iterator[None]:
    """Act, as another writer, before each of the first attempts of the next apply to commit."""
    commit, acting = TableLog.commit, list[int]()

    def committing(log: TableLog, version: Any) -> bool:
        if len(acting) < times and not (acting and acting[-1] < 0):
            acting.append(-1)
            act(len(acting))
            acting[-1] = 1
        return commit(log, version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableLog, "commit", committing)
        yield


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("world", WORLDS)
def test_hot_keys_outrun_an_apply_many_times(
    world: str, inline: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_EVERY", 2)
    if not inline:
        monkeypatch.setattr(apply, "INLINE", 0)
    table = Table.create(str(tmp_path / "table"), WORLDS[world])
    paths = {"base_1.csv": put(tmp_path, "base_1.csv", BASE)}
    table.apply(paths["base_1.csv"])
    rows = "".join(f"{number},1,7,{'D' if number == 2 else 'U'},y\n" for number in range(1, 9))
    paths["slower_7.csv"] = put(tmp_path, "slower_7.csv", rows)

    def meanwhile(number: int) -> None:
        name, hot = f"faster_{number}.csv", (1 + number // 4, 2, 9 - number // 4)
        paths[name] = put(tmp_path, name, "".join(f"{one},1,{number},{'UD'[number % 3 == 0]},z\n" for one in hot))
        Table(table.path).apply(paths[name])

    with counted_starts() as starts, outrun(12, meanwhile):
        report = table.apply(paths["slower_7.csv"])
    assert report.version == 14
    assert len(starts) == 13
    assert_serial(table, tmp_path, WORLDS[world], paths)


def test_an_apply_that_is_always_outrun_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "_STARTS", 2)
    monkeypatch.setattr(commit, "_TRIES", 3)
    monkeypatch.setattr(apply, "INLINE", 0)
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    table.apply(put(tmp_path, "base.csv", BASE))

    def meanwhile(number: int) -> None:
        Table(table.path).apply(put(tmp_path, f"faster{number}.csv", f"1,1,{number},U,z\n"))

    with outrun(99, meanwhile), counted_starts() as starts, pytest.raises(MutatorError) as fault:
        table.apply(put(tmp_path, "slower.csv", "1,1,2,U,y\n2,1,3,U,y\n"))
    assert fault.value.kind == "table.outrun"
    assert len(starts) == 2 + 6
    verified = table.verify()
    assert (verified.version, verified.problems) == (7, ())
    assert verified.stray is not None
    assert verified.stray.files == 0


@pytest.mark.parametrize(("module", "bound"), [(apply_task, "_MOST_HASHES"), (second_decisions, "_MOST")])
def test_too_many_common_keys_start_over(
    module: Any, bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, bound, 1)
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    paths = {"base.csv": put(tmp_path, "base.csv", BASE)}
    table.apply(paths["base.csv"])
    paths["slower.csv"] = put(tmp_path, "slower.csv", "1,1,3,U,y\n2,1,3,U,y\n")
    paths["faster.csv"] = put(tmp_path, "faster.csv", "1,1,4,U,z\n2,1,2,U,z\n")
    with counted_starts() as starts, at_phase("commit", partial(Table(table.path).apply, paths["faster.csv"])):
        table.apply(paths["slower.csv"])
    assert len(starts) == 3
    assert_serial(table, tmp_path, BY_FIELD, paths)


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_others_commit_for_long_while_an_apply_waits(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_EVERY", 2)  # the checkpoint that the apply has opened is removed meanwhile
    table = Table.create(str(tmp_path / "table"), WORLDS["by file name"])
    paths = {"base_1.csv": put(tmp_path, "base_1.csv", BASE), "base_2.csv": put(tmp_path, "base_2.csv", BASE)}
    for path in paths.values():
        table.apply(path)
    paths["slower_3.csv"] = put(tmp_path, "slower_3.csv", "1,1,3,U,y\n2,1,2,U,x\n3,1,3,D,\n9,1,3,U,y\n")

    def meanwhile() -> None:
        for number in range(20):
            name = f"faster_{number % 7}_{number}.csv"
            rows = f"{1 + number % 3},1,3,{'UD'[number % 2]},x\n{6 + number % 4},1,3,U,z\n"
            paths[name] = put(tmp_path, name, rows)
            Table(table.path).apply(paths[name])

    with at_phase(phase, meanwhile), counted_starts() as starts:
        Table(table.path).apply(paths["slower_3.csv"])
    assert len(starts) == 21
    table.refresh()
    assert_serial(table, tmp_path, WORLDS["by file name"], paths)


def test_a_feed_file_is_merged_once(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    table.apply(put(tmp_path, "base.csv", BASE))
    feed = put(tmp_path, "feed.csv", "9,1,3,U,y\n")
    with at_phase("commit", lambda: Table(table.path).apply(feed) and None):
        report = table.apply(feed)
    assert (report.version, report.consumed, report.counts["feed rows"]) == (2, (feed,), 0)


@pytest.mark.parametrize("full", ["slower", "faster"])
def test_a_full_snapshot_and_an_update(full: str, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**BY_FIELD, "op": "none"})
    table.apply(put(tmp_path, "base.csv", BASE), op="op")
    settings: dict[str, Any] = {"slower": {"op": "op"}, "faster": {"op": "op"}, full: {"sync_mode": "full"}}
    for writer in ("slower", "faster"):
        rows = "id,shop,at,name\n1,1,3,y\n" if writer == full else "id,shop,at,op,name\n9,1,3,U,y\n"
        (tmp_path / f"{writer}.csv").write_text(rows)
    with at_phase("commit", lambda: Table(table.path).apply(tmp_path / "faster.csv", **settings["faster"]) and None):
        table.apply(tmp_path / "slower.csv", **settings["slower"])
    ids = {record["id"] for record in table.scan().to_pylist()}
    assert ids == ({"1"} if full == "slower" else {"1", "9"})
    assert table.verify().problems == ()


def test_a_new_field_of_the_faster_writer(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    table.apply(put(tmp_path, "base.csv", BASE))
    (tmp_path / "wide.csv").write_text("id,shop,at,op,name,price\n8,1,3,U,z,7\n")
    with at_phase("commit", lambda: Table(table.path).apply(tmp_path / "wide.csv") and None):
        table.apply(put(tmp_path, "slower.csv", "9,1,3,U,y\n"), removed_fields=["price"])
    assert table.version == 3
    assert table.verify().problems == ()


def test_a_limit_that_only_the_sum_exceeds(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**BY_FIELD, "max.delete.fraction": "0.5"})
    table.apply(put(tmp_path, "base.csv", BASE))
    faster = put(tmp_path, "faster.csv", "1,1,3,D,\n2,1,3,D,\n")
    with (
        at_phase("commit", lambda: Table(table.path).apply(faster) and None),
        pytest.raises(MutatorError, match="2 of the table's 3 records"),
    ):
        table.apply(put(tmp_path, "slower.csv", "3,1,3,D,\n4,1,3,D,\n"))
    assert table.refresh().version == 2
    assert len(table.scan().to_pylist()) == 3


@pytest.mark.parametrize("most", [0, 1 << 16])  # rows of a small file
def test_a_row_that_is_touched_twice_has_the_higher_order_value(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged_keys, "MOST_ROWS", most)
    table = Table.create(str(tmp_path / "table"), WORLDS["by file name"])
    feeds = {"f_1.csv": "x", "f_3.csv": "x", "f_6.csv": "x", "f_5.csv": "late"}
    paths = [put(tmp_path, name, f"1,1,2,U,{text}\n2,1,2,U,{text}\n") for name, text in feeds.items()]
    counts = [table.apply(path).counts for path in paths]
    assert [one["feed no-op"] for one in counts] == [0, 2, 2, 0]
    assert counts[-1]["feed late"] == 2
    assert {one["name"] for one in table.scan().to_pylist()} == {"x"}
