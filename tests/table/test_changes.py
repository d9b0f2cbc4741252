"""Law T2: the changes of a table's versions, replayed, give its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.engine.versions import delta_files
from mutator.errors import MutatorError
from mutator.table import apply
from mutator.table.table import Table
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.support.typed_worlds import World, worlds
from tests.support.versioned import SCOPES, built, rows_of

CHANGE = ["_change_type", "_commit_version", "_commit_timestamp"]


def rows_at(table: Table, version: int) -> list[Any]:
    return rows_of(pa.Table.from_batches(table.scan(version=version), _schema(table, version)))


def _schema(table: Table, version: int) -> Any:
    from mutator.table.scan import schema_of

    return schema_of(table.at(version))


def changes(table: Table, start: int, end: int, *, net: bool = False) -> list[tuple[str, int, str]]:
    """Return (type, version, row as text) of each change, in their order."""
    found, committed = [], dict[int, str]()
    for batch in table.changes(start, end, net=net):
        rows = pa.table(batch.columns[3:], names=batch.schema.names[3:])
        for number in range(rows.num_rows):
            (row,) = rows_of(rows.slice(number, 1))
            when = batch.column(2)[number].as_py()
            version = batch.column(1)[number].as_py()
            committed[version] = committed.get(version) or table.at(version).version.committed
            assert when.isoformat(timespec="milliseconds") == committed[version]
            found.append((batch.column(0)[number].as_py(), version, repr(row)))
    return found


def replayed(rows: list[Any], found: list[tuple[str, int, str]], key: Any) -> list[str]:
    """Return rows after changes, which must fit: an old image is there, a new one has no row of its key beside it."""
    state = {key(text): text for text in map(repr, rows)}
    for number in sorted({version for _, version, _ in found}):
        own = [one for one in found if one[1] == number]
        before = {key(text) for kind, _, text in own if kind == "update_preimage"}
        assert before == {key(text) for kind, _, text in own if kind == "update_postimage"}
        for kind, _, text in own:
            if kind in ("delete", "update_preimage"):
                assert state.pop(key(text)) == text
            else:
                assert (kind == "update_postimage") == (key(text) in before)
                assert key(text) not in state
                state[key(text)] = text
    return sorted(state.values())


@law(30)
@given(worlds([None, "", "x"]), st.sampled_from(SCOPES), st.booleans(), st.booleans())
def test_replayed_changes_give_the_rows(world: World, scope: dict[str, str], by_id: bool, inline: bool) -> None:
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", 1 << 30 if inline else 0)
        patch.setattr(delta_files, "_OWN", 1 + world.seed % 3)
        fields = {"id.field.ordinals": "id"} if by_id else {}
        table = Table(str(built(world, work, {**scope, **fields}, lambda *_: None)))
        within = 2 if not by_id or scope.get("key.scope") == "partition" else 1

        def key(text: str) -> Any:
            return tuple(list(eval(text, {"Decimal": str}).values())[:within])

        newest = table.version
        for start in range(newest + 1):
            for end in range(start, newest + 1):
                before, after = rows_at(table, start), sorted(map(repr, rows_at(table, end)))
                raw, net = changes(table, start, end), changes(table, start, end, net=True)
                assert [version for _, version, _ in raw] == sorted(version for _, version, _ in raw)
                assert replayed(before, raw, key) == after
                one_version = [(kind, end, text) for kind, _, text in net]
                assert replayed(before, one_version, key) == after
                images = [text for _, _, text in net]
                assert len(images) == len(set(images))
                last = {key(text): version for _, version, text in raw}
                assert all(last[key(text)] == version for _, version, text in net)


def feed(path: Path, *rows: tuple[str, str, int, str]) -> str:
    path.mkdir(parents=True)
    (path / "rows.csv").write_text("id,name,at,op\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    settings = {"key": "id", "order_by": "at", "order_type": "long", "op": "op", "header": "true"}
    return Table.create(str(tmp_path / "table"), {**settings, "max.delete.fraction": "1"}, buckets=2)


def changed(table: Table, start: int, end: int | None = None, *, net: bool = False) -> list[tuple[Any, ...]]:
    rows = table.changes(start, end, net=net).to_pylist()
    return sorted((row["_change_type"], row["_commit_version"], row["id"], row["name"]) for row in rows)


def test_each_version_has_its_changes(table: Table, tmp_path: Path) -> None:
    table.apply(feed(tmp_path / "1", ("a", "x", 1, "I"), ("b", "x", 1, "I"), ("c", "x", 1, "I")))
    table.apply(feed(tmp_path / "2", ("a", "y", 2, "U"), ("b", "", 2, "D"), ("c", "x", 1, "U"), ("z", "", 2, "D")))
    assert changed(table, 0, 1) == [("insert", 1, "a", "x"), ("insert", 1, "b", "x"), ("insert", 1, "c", "x")]
    assert changed(table, 1) == [
        ("delete", 2, "b", "x"),
        ("update_postimage", 2, "a", "y"),
        ("update_preimage", 2, "a", "x"),
    ]
    assert changed(table, 2) == []
    assert changed(table, 0, net=True) == [("insert", 1, "c", "x"), ("insert", 2, "a", "y")]


def test_a_net_change_is_the_last_of_its_record(table: Table, tmp_path: Path) -> None:
    table.apply(feed(tmp_path / "1", ("a", "x", 1, "I"), ("b", "x", 1, "I"), ("c", "x", 1, "I")))
    table.apply(feed(tmp_path / "2", ("a", "y", 2, "U"), ("b", "", 2, "D"), ("c", "y", 2, "U"), ("d", "x", 2, "I")))
    table.apply(feed(tmp_path / "3", ("a", "z", 3, "U"), ("b", "y", 3, "I"), ("c", "", 3, "D"), ("d", "", 3, "D")))
    table.apply(feed(tmp_path / "4", ("c", "", 4, "D")))  # changes only a tombstone
    assert changed(table, 1, net=True) == [
        ("delete", 3, "c", "x"),
        ("update_postimage", 3, "a", "z"),
        ("update_postimage", 3, "b", "y"),
        ("update_preimage", 3, "a", "x"),
        ("update_preimage", 3, "b", "x"),
    ]
    assert changed(table, 3) == []


def test_keys_of_two_partitions_are_two_records(tmp_path: Path) -> None:
    settings = {"key": "id", "op": "op", "header": "true", "partitioned.by": "shop", "key.scope": "partition"}
    table = Table.create(str(tmp_path / "table"), {**settings, "max.delete.fraction": "1"})
    for number, rows in enumerate((["a,x,1,I"], ["a,x,1,D", "a,x,2,I"]), 1):
        path = tmp_path / str(number)
        path.mkdir()
        (path / f"rows_{number}.csv").write_text("\n".join(["id,name,shop,op", *rows, ""]))
        table.apply(str(path))
    for net in (False, True):
        rows = table.changes(1, net=net).to_pylist()
        assert [(row["_change_type"], row["shop"]) for row in rows] == [("delete", "1"), ("insert", "2")]


def test_a_record_that_came_back_unchanged_is_no_net_change(tmp_path: Path) -> None:
    settings = {"key": "id", "op": "op", "header": "true", "max.delete.fraction": "1", "late.files": "merge"}
    table = Table.create(str(tmp_path / "table"), settings, buckets=2)
    for number, op in enumerate("IDI", 1):
        path = tmp_path / str(number)
        path.mkdir()
        (path / f"rows_{number}.csv").write_text(f"id,name,op\na,x,{op}\n")
        table.apply(str(path))
    assert [row[0] for row in changed(table, 1)] == ["delete", "insert"]
    assert changed(table, 1, net=True) == []


@pytest.mark.parametrize(
    ("start", "end", "kind"), [(1, 0, "table.changes.order"), (-1, 1, "table.version"), (0, 9, "table.version")]
)
def test_wrong_versions_are_named(table: Table, tmp_path: Path, start: int, end: int, kind: str) -> None:
    table.apply(feed(tmp_path / "1", ("a", "x", 1, "I")))
    with pytest.raises(MutatorError) as fault:
        list(table.changes(start, end))
    assert fault.value.kind == kind


def test_a_field_named_like_one_of_changes_is_an_error(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "_commit_version", "header": "true"})
    path = tmp_path / "feed"
    path.mkdir()
    (path / "rows.csv").write_text("id,_commit_version\na,1\n")
    table.apply(str(path))
    with pytest.raises(MutatorError, match="_commit_version") as fault:
        list(table.changes(0))
    assert fault.value.kind == "table.changes.field"


def test_old_rows_have_the_schema_of_the_last_version(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", "order_type": "long"}, buckets=2)
    for number, rows in enumerate(
        ([{"id": "a", "at": 1}, {"id": "b", "at": 1}], [{"id": "a", "at": 2, "name": "x"}]), 1
    ):
        (tmp_path / str(number)).mkdir()
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / str(number) / "rows.parquet")
        table.apply(str(tmp_path / str(number)))
    rows = table.changes(0).to_pylist()
    assert [(row["_change_type"], row["id"], row["name"]) for row in rows] == [
        ("insert", "a", None),
        ("insert", "b", None),
        ("update_preimage", "a", None),
        ("update_postimage", "a", "x"),
    ]
