"""Real kills (SIGKILL) at every failpoint of a table: the next command finds the old version or the new one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mutator import config
from mutator.dataset.versions import opening
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import suppressed
from mutator.table import apply, restore
from mutator.table.apply import apply_feed
from mutator.table.compact import compact_table
from mutator.table.compact_choice import Need
from mutator.table.create import create_empty
from mutator.table.export import export
from mutator.table.recorded import config_of_snapshot
from mutator.table.restore import restore_table
from mutator.table.table import Table
from mutator.table.take_over import create_of
from mutator.table.verify import verify_table
from tests.support import local_engine
from tests.support.dying_runs import dying_runs
from tests.support.no_limits import NO_LIMITS
from tests.table.test_table_faults import FIRST, NEW, OLD, SECOND, open_runner, rows_of

SETTINGS = {"key": "id", "order_by": "at", "op": "op", "field.names": "id,at,op,name", "allow.empty.master": "true"}
SETTINGS |= NO_LIMITS
APPLY = (
    "apply.data.written",
    "apply.keys.written",
    "apply.tombstones.written",
    "apply.hidden.written",
    "table.commit",
    "table.committed",
    "table.checkpoint.written",
    "table.hint.written",
    "table.checkpoint.removed",
    "table.hinted",
)
COMPACT = (
    "compact.data.written",
    "compact.keys.written",
    "compact.tombstones.written",
    "table.commit",
    "table.committed",
    "table.checkpoint.written",
    "table.hint.written",
    "table.hinted",
)
RESTORE = ("table.commit", "table.committed", "table.checkpoint.written", "table.hinted")
RESTORE_OF_MASKS = ("table.placed", "table.commit", "table.committed")
PLACED = ("table.placed", "table.commit", "table.committed")  # of files that are too large for the log entry
CREATE = ("table.created", "table.linked", "table.commit", "table.committed")


def apply_one(table: str, feed: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", 0)
        patch.setattr(apply, "INLINE", 0)
        patch.setattr(opening, "_EVERY", 2)
        apply_feed(open_snapshot(table), config.parse(SETTINGS), [feed], open_runner)


def apply_placed(table: str, feed: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "INLINE", 0)
        apply_feed(open_snapshot(table), config.parse(SETTINGS), [feed], open_runner)


def compact_one(table: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "INLINE", 0)
        patch.setattr(opening, "_EVERY", 2)
        config_of_table = config.parse(SETTINGS)
        compact_table(open_snapshot(table), config_of_table, Need(everything=True), open_runner)


def restore_one(table: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restore, "INLINE", 0)
        patch.setattr(opening, "_EVERY", 2)
        restore_table(open_snapshot(table), 1)


def restore_masks(table: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restore, "INLINE", 0)
        restore_table(open_snapshot(table), 2)


def create_one(table: str, dataset: str) -> None:
    create_of(table, config.parse(SETTINGS), {}, dataset, None, open_runner)


@pytest.fixture(scope="module", name="act")
def start_acting() -> Iterator[Callable[..., Any]]:
    with dying_runs("tests.table.test_table_kills") as act:
        yield act


@pytest.fixture(scope="module", name="places")
def new_places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    for name, rows in (("first", FIRST), ("second", SECOND), ("third", "id,at,op,name\n11,3,D,\n9,3,D,\n")):
        (root / f"{name}.csv").write_text(rows)
    create_empty(str(root / "table"), {}, buckets=2)
    apply_one(str(root / "table"), str(root / "first.csv"))
    (root / "nothing").mkdir()
    local_engine.mutate(
        {**SETTINGS, "output.format": "parquet"},
        master=str(root / "nothing"),
        feed=[str(root / "first.csv")],
        output=str(root / "dataset"),
    )
    return root


@pytest.fixture
def table(places: Path, tmp_path: Path) -> str:
    """Return a copy of the table of the places."""
    return str(shutil.copytree(places / "table", tmp_path / "table"))


def is_sound(table: str, *, strays: bool | None = None) -> bool:
    """Return whether a table has no problems, and files that no version has if there should be any; None: may have."""
    found = verify_table(table, config_of_snapshot, open_runner)
    return found.problems == () and (strays is None or bool(found.stray and found.stray.files) == strays)


@pytest.mark.thorough(keep=1)
@pytest.mark.processes
@pytest.mark.parametrize("point", APPLY)
def test_killed_apply(act: Callable[..., Any], places: Path, table: str, point: str) -> None:
    assert act("apply_one", point, table=table, feed=str(places / "second.csv"))[0]
    assert rows_of(table) == (NEW if point in APPLY[APPLY.index("table.committed") :] else OLD)
    apply_one(table, str(places / "second.csv"))
    assert rows_of(table) == NEW
    assert open_snapshot(table).version.number == 2
    assert is_sound(table, strays=point.startswith("apply.") or point == "table.commit")


@pytest.mark.processes
@pytest.mark.parametrize("point", ["apply.events.written", "table.committed"])
def test_killed_apply_with_history(act: Callable[..., Any], places: Path, tmp_path: Path, point: str) -> None:
    tables = [str(tmp_path / name) for name in ("table", "expected")]
    for path in tables:
        create_empty(path, {"history": "on"}, buckets=2)
        apply_one(path, str(places / "first.csv"))
    before = Table(tables[0]).scan().to_pylist()
    apply_one(tables[1], str(places / "second.csv"))
    after = Table(tables[1]).scan().to_pylist()
    assert act("apply_one", point, table=tables[0], feed=str(places / "second.csv"))[0]
    assert Table(tables[0]).scan().to_pylist() == (after if point == "table.committed" else before) != []
    apply_one(tables[0], str(places / "second.csv"))
    assert Table(tables[0]).scan().to_pylist() == after != before
    assert is_sound(tables[0], strays=point != "table.committed")


@pytest.mark.processes
@pytest.mark.parametrize("point", ["compact.closed.written", "table.committed"])
def test_killed_compaction_with_history(act: Callable[..., Any], places: Path, tmp_path: Path, point: str) -> None:
    table = str(tmp_path / "table")
    create_empty(table, {"history": "on"}, buckets=2)
    for name in ("first", "second", "third"):
        apply_one(table, str(places / f"{name}.csv"))
    expected = versions_of(table)
    assert act("compact_one", point, table=table)[0]
    assert versions_of(table) == expected != []
    compact_one(table)
    assert Table(table).version == 4
    assert versions_of(table) == expected
    assert is_sound(table, strays=point != "table.committed")


def versions_of(table: str) -> list[Any]:
    return sorted(Table(table).scan().to_pylist(), key=lambda row: (row["id"], row["valid_from"]))


@pytest.mark.thorough(keep=3)
@pytest.mark.processes
@pytest.mark.parametrize("point", COMPACT)
def test_killed_compaction(act: Callable[..., Any], places: Path, table: str, point: str) -> None:
    apply_one(table, str(places / "second.csv"))
    apply_one(table, str(places / "third.csv"))  # a second file of tombstones
    assert act("compact_one", point, table=table)[0]
    is_new = point in COMPACT[COMPACT.index("table.committed") :]
    assert open_snapshot(table).version.number == (4 if is_new else 3)
    assert rows_of(table) == NEW
    compact_one(table)
    assert rows_of(table) == NEW
    assert open_snapshot(table).version.number == 4
    assert is_sound(table, strays=not is_new)


@pytest.mark.processes
@pytest.mark.parametrize("point", RESTORE)
def test_killed_restore(act: Callable[..., Any], places: Path, table: str, point: str) -> None:
    apply_one(table, str(places / "second.csv"))
    compact_one(table)  # version 3, whose rows have other files
    apply_one(table, str(places / "third.csv"))
    restore_table(open_snapshot(table), 3)
    assert act("restore_one", point, table=table)[0]
    is_new = point in RESTORE[RESTORE.index("table.committed") :]
    assert open_snapshot(table).version.number == (6 if is_new else 5)
    assert rows_of(table) == (OLD if is_new else NEW)
    restore_one(table)
    assert rows_of(table) == OLD
    assert open_snapshot(table).version.number == 6
    assert is_sound(table)


@pytest.mark.thorough(keep=1)
@pytest.mark.processes
@pytest.mark.parametrize("point", RESTORE_OF_MASKS)
def test_killed_restore_of_masks(act: Callable[..., Any], places: Path, table: str, point: str) -> None:
    """The hidden rows of version 2 go into a file of their own."""
    apply_one(table, str(places / "second.csv"))
    compact_one(table)
    assert act("restore_masks", point, table=table)[0]
    is_new = point == "table.committed"
    assert (open_snapshot(table).version.number, rows_of(table)) == (4 if is_new else 3, NEW)
    restore_masks(table)
    assert (open_snapshot(table).version.number, rows_of(table)) == (4, NEW)
    assert is_sound(table, strays=not is_new)


@pytest.mark.processes
@pytest.mark.parametrize("point", PLACED)
def test_killed_apply_of_placed_files(act: Callable[..., Any], places: Path, table: str, point: str) -> None:
    assert act("apply_placed", point, table=table, feed=str(places / "second.csv"))[0]
    assert rows_of(table) == (NEW if point == "table.committed" else OLD)
    apply_placed(table, str(places / "second.csv"))
    assert rows_of(table) == NEW


@pytest.mark.processes
@pytest.mark.parametrize("point", CREATE)
def test_killed_create(act: Callable[..., Any], places: Path, tmp_path: Path, point: str) -> None:
    table = str(tmp_path / "table")
    assert act("create_one", point, table=table, dataset=str(places / "dataset"))[0]
    with suppressed("table.exists") if point == "table.committed" else nullcontext():
        create_one(table, str(places / "dataset"))
    assert rows_of(table) == OLD
    assert open_snapshot(table).version.number == 1
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


@pytest.mark.processes
def test_each_failpoint_is_passed(act: Callable[..., Any], places: Path, table: str) -> None:
    _, passed = act("apply_one", table=table, feed=str(places / "second.csv"))
    assert set(APPLY) <= set(passed)


REPAIR = ("repair.index.written", "table.checkpoint.written", "table.hint.written")


def repair_one(table: str) -> None:
    assert not verify_table(table, config_of_snapshot, open_runner, repair=True).problems


@pytest.mark.processes
@pytest.mark.parametrize("point", REPAIR)
def test_killed_repair(act: Callable[..., Any], table: str, point: str) -> None:
    next(Path(table).glob("_mutator/table/keys/**/*.keys")).unlink()
    Path(table, "_mutator/table/hint.json").unlink()
    assert act("repair_one", point, table=table)[0]
    assert rows_of(table) == OLD
    repair_one(table)
    assert is_sound(table)
    assert rows_of(table) == OLD


EXPORT = (
    "stage.swept",
    "stage.created",
    "storage.written",
    "storage.linked",
    "stage.merged",
    "stage.verified",
    "stage.files.moved",
    "stage.manifest.written",
    "stage.success.written",
    "publish.renamed",
    "publish.done",
)


def export_one(table: str, output: str) -> None:
    export(open_snapshot(table), config.parse(SETTINGS), output, open_runner)


def exported_rows(output: str) -> list[Any]:
    assert not local_engine.verify(output).problems
    return sorted(pq.read_table(output).to_pylist(), key=repr)


@pytest.mark.thorough(keep=3)
@pytest.mark.processes
@pytest.mark.parametrize("point", EXPORT)
def test_killed_export(act: Callable[..., Any], places: Path, table: str, tmp_path: Path, point: str) -> None:
    output = str(tmp_path / "out")
    export_one(table, output)
    old = exported_rows(output)
    apply_one(table, str(places / "second.csv"))
    export_one(table, str(tmp_path / "other"))
    new = exported_rows(str(tmp_path / "other"))
    assert act("export_one", point, table=table, output=output)[0]
    assert exported_rows(output) == (new if point.startswith("publish") else old)
    export_one(table, output)
    assert exported_rows(output) == new != old
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other", "out", "table"]
