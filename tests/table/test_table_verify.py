"""``verify`` finds every damage of a table, and makes again what is derived."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.cli import main
from mutator.dataset.checksum import whole
from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import DATA, FileEntry, stored_here
from mutator.dataset.versions import opening
from mutator.dataset.versions.hidden_rows import read_index, written_index
from mutator.dataset.versions.key_index import KeyIndex, index_bytes
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.paged_file import with_digests
from mutator.engine.versions import delta_files
from mutator.engine.versions.live_rows import LiveRows
from mutator.rules.order_columns import to_column
from mutator.table import apply, verify_rows
from mutator.table.recorded import config_of_snapshot
from mutator.table.table import Table, run_here
from mutator.table.verify import TableVerification, verify_table
from mutator.table.verify_log import Walk
from tests.support.effort import law
from tests.support.made_once import copy_of_made
from tests.support.model_storage import KINDS, mounted
from tests.support.text_runs import scratch
from tests.support.typed_worlds import World, worlds
from tests.support.versioned import SCOPES, built
from tests.table import test_table_faults as faults


def verified(table: str, *, repair: bool = False) -> TableVerification:
    return verify_table(str(Path(table).absolute()), config_of_snapshot, run_here, repair=repair)


@law(20)
@given(worlds([None, "", "x"]), st.sampled_from(SCOPES), st.booleans())
def test_tables_are_whole(world: World, scope: dict[str, str], inline: bool) -> None:
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "_INLINE_FEED", 1 << 30 if inline else 0)
        patch.setattr(delta_files, "_OWN", 1 + world.seed % 3)
        patch.setattr(opening, "_EVERY", 1)
        patch.setattr(verify_rows, "_AT_ONCE", 1 + world.seed % 5)
        found = verified(str(built(world, work, scope, lambda *_: None)))
        assert found.problems == ()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: Any) -> str:
    """Make a table of two versions; the second one updates a, deletes b and inserts c."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(opening, "_EVERY", 1)
    copy_of_made(tmp_path, fill)
    assert verified("table").problems == ()
    return "table"


def fill(path: Path) -> None:
    settings = {"key": "id", "order_by": "at", "order_type": "long", "op": "op", "header": "true"}
    table = Table.create(path / "table", {**settings, "max.delete.fraction": "1"}, buckets=1)
    for number, rows in enumerate((["a,x,1,I", "b,x,1,I", "d,x,1,I"], ["a,y,2,U", "b,,2,D", "c,x,2,I"])):
        (path / f"feed{number}").mkdir()
        (path / f"feed{number}/rows{number}.csv").write_text("\n".join(["id,name,at,op", *rows, ""]))
        table.apply(str(path / f"feed{number}"))


def files(table: str, ending: str) -> list[Path]:
    return sorted(path for path in Path(table).rglob(f"*{ending}") if "checkpoints" not in str(path))


def data_files(table: str) -> list[Path]:
    return sorted(Path(table).glob("_mutator/table/rows/version_id=*/*.rows"))


def flip(path: Path, at: int = 6) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def one_problem(table: str, words: str) -> str:
    (problem,) = verified(table).problems
    assert words in problem
    return problem


DAMAGES = [
    (lambda table: data_files(table)[0].unlink(), "is missing"),
    (lambda table: flip(data_files(table)[0]), "checksum"),
    (lambda table: data_files(table)[0].write_bytes(b"PAR1"), "4 bytes"),
    (lambda table: files(table, ".keys")[0].unlink(), "is missing"),
    (lambda table: flip(files(table, ".keys")[0]), "checksum"),
    (lambda table: files(table, ".keys")[0].write_bytes(b""), "0 bytes"),
    (lambda table: flip(next(iter(Path(table).glob("_mutator/table/tombstones/*.tombstones")))), "checksum"),
    (lambda table: flip(Path(table, "_mutator/table/hint.json"), 40), "missing or damaged"),
    (lambda table: Path(table, "_mutator/table/hint.json").unlink(), "missing or damaged"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_a_damaged_file_is_named(table: str, damage: Callable[[str], Any], words: str) -> None:
    damage(table)
    assert words in verified(table).problems[0]


def test_a_lost_version_index_is_named(table: str) -> None:
    files(table, ".hidden")[0].unlink()
    assert any("/hidden/" in problem and "missing" in problem for problem in verified(table).problems)


def test_a_gap_in_the_log_is_named(table: str) -> None:
    Path(TableLog(table).entry_path(1)).unlink()
    one_problem(table, "it is missing, and later versions exist")


def rewrite(table: str, number: int, change: Callable[[Commit], Commit]) -> None:
    """Change an entry of the log, as no program does."""
    log = TableLog(str(Path(table).absolute()))
    changed = change(log.read(number))
    Path(log.entry_path(number)).unlink()
    assert log.commit(changed)
    for path in Path(log.path, "checkpoints").iterdir():
        path.unlink()
    log.write_hint(changed, None)


def test_wrong_counts_are_named(table: str) -> None:
    rewrite(table, 2, lambda version: replace(version, records=7))
    one_problem(table, "it counts 7 records, and its files and hidden rows give 3")


def test_counts_that_do_not_add_up_are_named(table: str) -> None:
    rewrite(table, 2, lambda version: replace(version, counts={**version.counts, "feed rows": 9}))
    one_problem(table, "its counts do not add up")


def test_a_wrong_highest_order_value_is_named(table: str) -> None:
    def changed(version: Commit) -> Commit:
        (file,) = (file for file in version.files if file.role == DATA)
        other = replace(file, extents=tuple(replace(one, high="1") for one in file.extents))
        return replace(version, files=tuple(other if one is file else one for one in version.files))

    rewrite(table, 2, changed)
    one_problem(table, "the highest order value of extent 1")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("hash", "key hashes"),
        ("number", "row hashes"),
        ("key", "keys"),
        ("position", "positions"),
        ("order", "order values"),
        ("decimal order", "order values"),
    ],
)
def test_a_key_index_of_other_rows_is_named(table: str, part: str, words: str) -> None:
    def changed(version: Commit) -> Commit:
        file = next(file for file in version.files if file.role == DATA)
        path, rows, stored = str(Path(table).absolute() / file.keys.path), np.arange(file.rows), file.keys
        index = KeyIndex.open(path, file.rows, stored.bytes, stored.checksum)
        back = np.argsort(index.positions(rows))
        hashes, keys, numbers = index.hashes()[back], index.keys(rows[back]), index.row_hashes(rows)[back]
        hashes = hashes + np.uint64(part == "hash")
        numbers = numbers + np.uint32(part == "number")
        keys = pa.array([b"z" * len(key) for key in keys.to_pylist()], pa.large_binary()) if part == "key" else keys
        orders = pa.array(index.orders(rows).to_numpy()[back] + (part == "order"))
        columns = (
            ("decimal", to_column("decimal", [Decimal(2)] * file.rows)) if part == "decimal order" else ("long", orders)
        )
        content, digest = index_bytes(hashes, keys, numbers, np.array([file.rows]), *columns)
        if part == "position":
            content = content[: 8 * file.rows] + b"\0" * 4 * file.rows + content[12 * file.rows :]
            body = content[:-16]
            digests, digest = with_digests(body)
            content = body + digests
        other = replace(file, index=stored_here(stored.path, content, digest))
        return replace(version, files=tuple(other if one is file else one for one in version.files))

    rewrite(table, 1, changed)
    assert any(f"its {words} are not those of the rows" in problem for problem in verified(table).problems)


def with_index(change: Callable[[Any], Any]) -> Callable[[Commit], Commit]:
    """Return the change of an entry that changes its version index, a pa.Table."""

    def changed(version: Commit) -> Commit:
        made = []
        for stored in version.index:
            content = written_index([change(read_index(Path("table", stored.path).read_bytes()))])
            made += [] if content is None else [stored_here(stored.path, content, whole(content))]
        return replace(version, index=tuple(made))

    return changed


def test_a_row_hidden_under_another_key_is_named(table: str) -> None:
    def other(index: Any) -> Any:
        return index.set_column(3, index.schema.field("key"), pa.array([b"q"] * index.num_rows, pa.large_binary()))

    rewrite(table, 2, with_index(other))
    one_problem(table, "hides a row under another key")


def test_a_hidden_row_that_does_not_exist_is_named(table: str) -> None:
    def other(index: Any) -> Any:
        return index.set_column(1, index.schema.field("position"), pa.array([77] * index.num_rows, pa.uint32()))

    rewrite(table, 2, with_index(other))
    assert any("hides rows that it does not have" in problem for problem in verified(table).problems)


def test_a_row_that_is_hidden_twice_is_named(table: str) -> None:
    rewrite(table, 2, with_index(lambda index: pa.concat_tables([index, index])))
    assert any("a row is hidden twice" in problem for problem in verified(table).problems)


def commit_during(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another process commit version 3 as soon as a verification has listed the log."""
    begin, done = Walk._begin, list[int]()

    def listed(self: Walk) -> int:
        if not done:
            done.append(1)
            Path("feed2").mkdir()
            Path("feed2/rows2.csv").write_text("id,name,at,op\ne,x,3,I\n")
            Table(table).apply("feed2")
        return begin(self)

    monkeypatch.setattr(Walk, "_begin", listed)


def test_a_commit_during_a_verification_is_no_damage(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_during(table, monkeypatch)
    found = verified(table)
    assert (found.version, found.problems) == (2, ())
    assert (verified(table).version, verified(table).problems) == (3, ())


def test_a_repair_writes_no_older_hint(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(table, "_mutator/table/hint.json").unlink()
    commit_during(table, monkeypatch)
    assert any("version 3 and the hint" in text for text in verified(table, repair=True).repaired)
    assert TableLog(str(Path(table).absolute())).hinted().number == 3
    assert verified(table).problems == ()


@pytest.mark.parametrize("at_once", [1, 3, 1 << 20])
def test_keys_with_two_live_rows_are_named(table: str, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(verify_rows, "_AT_ONCE", at_once)
    rewrite(table, 2, lambda version: replace(version, index=()))
    assert any(
        "2 keys with more than one row or tombstone, for example a; b" in one for one in verified(table).problems
    )


def test_keys_are_compared_in_ranges_and_stay_in_their_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver has the rows of one range of one bucket at a time, however many the table has."""
    table = Table.create(str(tmp_path / "large"), key="id", order_by="at", buckets=2)
    table.apply(pa.table({"id": list(range(4000)), "at": [1] * 4000}), open_runner=run_here)
    table.apply(pa.table({"id": list(range(0, 4000, 8)), "at": [2] * 500}), open_runner=run_here)
    monkeypatch.setattr(verify_rows, "_AT_ONCE", 500)
    checked, compared = verify_rows.checked, list[int]()
    rows_of_part = verify_rows.RowsOfTable._rows

    def without_rows(results: Any) -> Any:
        found = checked(results)
        assert [one.rows for one in found] == [None] * len(found)
        return found

    def counted(self: Any, *given: Any) -> Any:
        found = rows_of_part(self, *given)
        compared.append(len(found[0]))
        return found

    monkeypatch.setattr(verify_rows, "checked", without_rows)
    monkeypatch.setattr(verify_rows.RowsOfTable, "_rows", counted)
    assert table.verify(open_runner=run_here).problems == ()
    assert sum(compared) == 4500, "each row once"
    assert max(compared) < 500


def test_a_damaged_checkpoint_is_named_and_repaired(table: str) -> None:
    for path in Path(table, "_mutator/table/checkpoints").iterdir():
        flip(path)
    assert all("damaged" in problem for problem in verified(table).problems)
    found = verified(table, repair=True)
    assert found.problems == ()
    assert any("checkpoint of version 2" in text for text in found.repaired)
    assert verified(table).problems == ()


def test_key_indexes_are_made_again(table: str) -> None:
    before = {path: path.read_bytes() for path in files(table, ".keys")}
    for number, path in enumerate(before):
        path.unlink() if number else flip(path)
    assert len(verified(table).problems) == len(before) == 3
    assert verified(table, repair=True).problems == ()
    assert {path: path.read_bytes() for path in files(table, ".keys")} == before


def test_lost_rows_are_not_repaired(table: str) -> None:
    data_files(table)[0].unlink()
    assert verified(table, repair=True).problems


def test_a_foreign_checkpoint_is_named(table: str) -> None:
    log = TableLog(str(Path(table).absolute()))
    own = Table(table).snapshot
    for path in Path(log.path, "checkpoints").glob("*2-*"):
        path.unlink()
    state = replace(own.state, commit=replace(own.state.commit, records=99))
    log.write_hint(own.version, log.write_checkpoint(own.files, state, own.mask_rows()))
    one_problem(table, "it is not what the log gives")


def test_the_command_ends_with_3_and_repairs(table: str, capsys: Any) -> None:
    assert main(["table", "verify", table]) == 0
    assert "as its log says" in capsys.readouterr().out
    files(table, ".keys")[0].unlink()
    assert main(["table", "verify", table, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["whole"], found["differences"][0]["what"]) == (False, "is missing")
    assert main(["table", "verify", table, "--repair"]) == 0
    assert "made again from the rows" in capsys.readouterr().out


def test_inline_files_are_verified(table: str) -> None:
    def changed(version: Commit) -> Commit:
        def inline(stored: FileEntry) -> FileEntry:
            return stored.with_content(Path(table, stored.path).read_bytes())

        files = tuple(replace(inline(one), index=inline(one.keys)) for one in version.files)
        return replace(version, files=files)

    rewrite(table, 1, changed)
    assert verified(table).problems == ()


def test_rows_of_another_bucket_or_partition_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("id,at,shop\na,1,x\nb,1,x\n")
    settings = {"key": "id", "order_by": "at", "header": "true", "partitioned.by": "shop"}
    Table.create("table", settings, buckets=2).apply("rows.csv")
    assert verified("table").problems == ()

    def changed(version: Commit) -> Commit:
        (file,) = version.files
        extents = tuple(replace(one, bucket=1 - one.bucket, partition="shop=y") for one in file.extents)
        return replace(version, files=(replace(file, extents=extents),))

    rewrite("table", 1, changed)
    bucket, partition = verified("table").problems
    assert bucket.endswith("has 2 rows of another bucket")
    assert partition.endswith("has 2 rows of another partition")


def test_an_index_that_vanishes_after_its_check_is_named(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = verify_rows.RowsOfTable._twice

    def without_index(self: Any, files: Any, *others: Any) -> Any:
        Path(table, files[0].index.path).unlink()
        return compared(self, files, *others)

    rewrite(table, 1, lambda version: version)
    monkeypatch.setattr(verify_rows.RowsOfTable, "_twice", without_index)
    assert any(problem.endswith(".keys: it is missing") for problem in verified(table).problems)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_a_remote_storage_that_vanishes_after_it_was_opened_is_named(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = faults.new_table(kind)
    with mounted(storage):
        lines = "".join(f"{number},3,U,x\n" for number in range(40_000))  # several pages of each index
        faults.put(storage, f"{faults.FEED}/many.csv", f"id,at,op,name\n{lines}")
        faults.apply_to(faults.TABLE, f"{faults.FEED}/many.csv")
    positions, left = LiveRows.positions, list[str]()

    def without_index(self: LiveRows, file: Any, entries: Any) -> Any:
        if file.keys.is_apart and not left:
            left.append(file.keys.path)
            storage.remove(f"{faults.TABLE}/{left[0]}")
        return positions(self, file, entries)

    monkeypatch.setattr(LiveRows, "positions", without_index)
    with mounted(storage):
        found = verify_table(faults.TABLE, config_of_snapshot, faults.open_runner)
    assert found.problems == (f"{left[0]}: it is missing",)
