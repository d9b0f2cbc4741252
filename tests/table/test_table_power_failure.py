"""The power fails at any instant of a command: the table, or the export, is the old or the new one, whole."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mutator import config
from mutator.dataset.directory import read_manifest
from mutator.dataset.versions import opening
from mutator.dataset.versions.opening import open_snapshot
from mutator.engine.versions import delta_files
from mutator.errors import MutatorError, suppressed
from mutator.storage import read_file, storage_for
from mutator.table import apply
from mutator.table.apply import apply_feed
from mutator.table.create import create_empty
from mutator.table.export import export
from mutator.table.recorded import config_of_snapshot
from mutator.table.take_over import create_of
from mutator.table.verify import verify_table
from tests.support import local_engine
from tests.support.disk_model import Recorder, disk_of
from tests.support.effort import share
from tests.support.model_storage import ModelStorage, mounted
from tests.table.test_table_faults import FIRST, NEW, OLD, SECOND, SETTINGS, open_runner, rows_of

STATES = share(600)
CONFIG = config.parse(SETTINGS)


@pytest.fixture(autouse=True)
def with_files_and_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    monkeypatch.setattr(delta_files, "_OWN", 1)
    monkeypatch.setattr(opening, "_EVERY", 2)


def apply_to(root: Path, feed: str) -> None:
    apply_feed(open_snapshot(f"{root}/table"), CONFIG, [f"{root}/{feed}.csv"], open_runner)


def create(root: Path) -> None:
    create_empty(f"{root}/new", SETTINGS, buckets=2)


def create_from(root: Path) -> None:
    create_of(f"{root}/new", CONFIG, SETTINGS, f"{root}/out", None, open_runner)


def apply_second(root: Path) -> None:
    apply_to(root, "second")


def apply_sixth(root: Path) -> None:
    apply_to(root, "again6")  # its checkpoint removes that of version 2, which has masks


def apply_second_inline(root: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", 1 << 20)
        patch.setattr(apply, "INLINE", 1 << 20)
        apply_to(root, "second")


def export_new(root: Path) -> None:
    export(open_snapshot(f"{root}/table"), CONFIG, f"{root}/other", open_runner)


def export_again(root: Path) -> None:
    export(open_snapshot(f"{root}/table"), CONFIG, f"{root}/out", open_runner)


def repair(root: Path) -> None:
    assert verify_table(f"{root}/table", config_of_snapshot, open_runner, repair=True).repaired


def table_rows(path: str) -> Any:
    with suppressed("table.missing"):
        found = open_snapshot(path)
        rows = rows_of(path) if found.version.number else []
        if found.version.number:
            assert verify_table(path, config_of_snapshot, open_runner).problems == ()
        return rows
    return None


def is_hidden(problem: str) -> bool:
    name = problem.partition(":")[0].rpartition("/")[2]
    return name.startswith(".") and problem.endswith("is not in the manifest")


def exported_rows(path: str) -> Any:
    if storage_for(path).stat(path) is None:
        return None
    known = read_manifest(storage_for(path), path)
    assert known is not None
    # The hidden name under which a file was written may come back; no reader sees it.
    assert [one for one in local_engine.verify(path).problems if not is_hidden(one)] == []
    tables = [pq.read_table(io.BytesIO(read_file(f"{path}/{part.path}"))) for part in known.files]
    return sorted((row["id"], row["name"]) for table in tables for row in table.to_pylist())


CASES: dict[str, tuple[Callable[[Path], None], str, Callable[[str], Any], Any, Any]] = {
    # command, what it changes, how that is read, before and after
    "create": (create, "new", table_rows, None, []),
    "create from a dataset": (create_from, "new", table_rows, [], OLD),
    "apply": (apply_second, "table", table_rows, OLD, NEW),
    "apply inline": (apply_second_inline, "table", table_rows, OLD, NEW),
    "apply, and remove a checkpoint": (apply_sixth, "table", table_rows, NEW, NEW),
    "export": (export_new, "other", exported_rows, None, OLD),
    "export again": (export_again, "out", exported_rows, OLD, NEW),
    "repair": (repair, "table", rows_of, OLD, OLD),
}


def begun(root: Path, case: str) -> Path:
    """Return a directory with a table and an export of it."""
    root.mkdir()
    (root / "first.csv").write_text(FIRST)
    (root / "second.csv").write_text(SECOND)
    create_empty(f"{root}/table", {}, buckets=2)
    apply_to(root, "first")
    export(open_snapshot(f"{root}/table"), CONFIG, f"{root}/out", open_runner)
    if case == "export again":
        apply_to(root, "second")
    if case == "apply, and remove a checkpoint":
        for number in range(3, 7):
            (root / f"again{number}.csv").write_text(SECOND)
        for feed in ("second", "again3", "again4", "again5"):
            apply_to(root, feed)
    if case == "create from a dataset":
        create_empty(f"{root}/new", SETTINGS, buckets=2)
    if case == "repair":
        next(root.glob("table/_mutator/table/keys/**/*.keys")).unlink()
        (root / "table/_mutator/table/hint.json").unlink()
    return root


def recorded(root: Path, case: str) -> tuple[Any, list[Any]]:
    """Return the disk before a command, and its system calls."""
    begun(root, case)
    disk, recorder = disk_of(root), Recorder(root)
    with pytest.MonkeyPatch.context() as patch, recorder.recording(patch):
        CASES[case][0](root)
    return disk, recorder.calls


def crashes(start: Any, calls: list[Any], states: int, without: str | None = None) -> Iterator[tuple[Any, bool]]:
    """Yield trees after crashes at random instants, each with whether the command had ended."""
    disk, rng, seen, done = copy.deepcopy(start), random.Random(1), set(), 0
    ends = [len(calls)] * (states // 5)
    for instant in sorted([*(rng.randrange(len(calls) + 1) for _ in range(states)), *ends]):
        while done < instant:
            disk.apply(calls[done], without)
            done += 1
        found = disk.after_a_crash(rng)
        mark = frozenset(found.items()), done == len(calls)
        if mark not in seen:
            seen.add(mark)
            yield found, done == len(calls)


def problem_of(tree: Any, case: str, has_ended: bool) -> str | None:
    _, name, rows, before, after = CASES[case]
    storage = ModelStorage("posix")
    storage.tree = {f"model://base/{path}".removesuffix("/."): content for path, content in tree.items()}
    storage.times = dict.fromkeys(storage.tree, 1.0)
    with mounted(storage):
        try:
            found = rows(f"model://base/{name}")
            assert found == after if has_ended else found in (before, after)
        except (AssertionError, MutatorError) as fault:
            return f"{type(fault).__name__}: {fault}"
    return None


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("case", CASES)
def test_power_fails_at_any_instant(tmp_path: Path, case: str) -> None:
    start, calls = recorded(tmp_path / "root", case)
    trees = 0
    for trees, (tree, has_ended) in enumerate(crashes(start, calls, STATES), 1):  # noqa: B007
        assert problem_of(tree, case, has_ended) is None
    assert trees > 10


NEEDED = [
    ("apply", "create_new, file"),
    ("apply", "create_new, directory"),
    ("apply", "make_directory, directory"),
    ("export again", "swap, directory"),
    ("export", "rename_new, directory"),
]


@pytest.mark.soak
@pytest.mark.parametrize(("case", "site"), NEEDED)
def test_each_fsync_is_needed(tmp_path: Path, case: str, site: str) -> None:
    start, calls = recorded(tmp_path / "root", case)
    assert site in {call[2] for call in calls if call[0] == "fsync"}
    assert any(problem_of(tree, case, has_ended) for tree, has_ended in crashes(start, calls, 1500, site))
