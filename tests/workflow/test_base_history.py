"""The history of a base: made of its archive, and kept beside its master by each run."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from mutator import Table
from mutator.cli import base_history, main
from mutator.table import take_over
from mutator.table.upkeep import KeptTable

_SETTINGS = {"key": "id", "order.by": "at", "op": "op", "header": "true", "runner": "local", "claim.min.age": "0s"}
_SETTINGS |= {"max.delete.fraction": "1", "max.absence.fraction": "1", "num.reducer": "2"}


class Killed(BaseException):
    """As if the process died here."""


def run(base: Path, *others: str, code: int = 0) -> None:
    settings = [f"{name.replace('order.by', 'order_by')}={value}" for name, value in _SETTINGS.items()]
    words = [word for one in (*settings, *others) for word in ("-D", one)]
    assert main(["workflow", "run", str(base), *words]) == code


def deliver(base: Path, name: str, *rows: str) -> None:
    (base / "incr" / f"{name}.csv").write_text("\n".join(["id,at,op,price", *rows, ""]))


def versions(path: Path) -> list[tuple[Any, ...]]:
    found = sorted(Table(str(path)).scan().to_pylist(), key=lambda row: (row["id"], row["valid_from"]))
    return [(int(row["id"]), int(row["price"]), row["valid_from"], row["valid_to"], row["ended"]) for row in found]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    found = tmp_path / "base"
    (found / "incr").mkdir(parents=True)
    deliver(found, "p_1", "1,1,U,80", "1,5,U,82", "2,3,U,7", "3,2,U,1")
    run(found, "allow.empty.master=true", "output.format=parquet")
    deliver(found, "p_2", "1,3,U,81", "2,6,D,", "3,1,D,", "9,x,U,1")
    run(found, "reject.policy=quarantine")
    return found


def lose(base: Path, name: str) -> None:
    shutil.rmtree(next((base / "archive").glob(f"*/{name}.csv")).parent)


WHOLE = [(1, 80, 1, 3, "updated"), (1, 81, 3, 5, "updated"), (1, 82, 5, None, "open")]
WHOLE += [(2, 7, 3, 6, "deleted"), (3, 1, 2, None, "open")]


def create(base: Path, table: Path, code: int = 0) -> None:
    words = [
        "--history",
        "--dataset",
        str(base),
        "--buckets",
        "2",
        "--runner",
        "local",
        "--key",
        "id",
        "--order-by",
        "at",
    ]
    assert main(["table", "create", str(table), *words]) == code


def killed(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.mark.parametrize(
    ("where", "name"), [(take_over, "_take_over_dataset"), (KeptTable, "tag"), (base_history, "catch_up")]
)
def test_a_table_replays_the_archive_of_a_base(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    with monkeypatch.context() as patch, contextlib.suppress(Killed):  # as if it were killed
        patch.setattr(where, name, killed)
        create(base, tmp_path / "table")
    create(base, tmp_path / "table")
    assert versions(tmp_path / "table") == WHOLE
    records = Table(str(tmp_path / "table")).scan(current=True).to_pylist()
    assert sorted((row["id"], row["at"], row["price"]) for row in records) == [("1", "5", "82"), ("3", "2", "1")]


def test_what_the_archive_lost_is_named_and_the_records_are_complete(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lose(base, "p_1")
    create(base, tmp_path / "table")
    assert "the history lacks the feed files of 1 version, of which 1 is the first" in capsys.readouterr().err
    lost = [one for one in WHOLE if one[1] in (80, 7)]
    assert versions(tmp_path / "table") == [one for one in WHOLE if one not in lost]


def test_a_base_keeps_its_history_beside_its_master(base: Path, tmp_path: Path) -> None:
    history = base / "history"
    run(base, "history=on")  # there is nothing to merge
    assert versions(history) == WHOLE
    deliver(base, "p_3", "4,1,U,4")
    run(base)  # which is killed before the history
    deliver(base, "p_4", "4,2,U,5", "1,9,D,")
    run(base, "history=on")
    assert [one for one in versions(history) if one[0] == 4] == [(4, 4, 1, 2, "updated"), (4, 5, 2, None, "open")]
    assert main(["workflow", "restore", str(base), "--to", "3", "--quiet"]) == 0
    deliver(base, "p_5", "5,1,U,5")
    run(base, "history=on")
    assert versions(history) == [*WHOLE, (4, 4, 1, None, "open"), (5, 5, 1, None, "open")]
    create(base, tmp_path / "anew")
    assert versions(tmp_path / "anew") == versions(history)
    assert Table(str(history)).verify().problems == ()


def test_a_run_whose_feed_is_gone_keeps_the_history_as_it_was(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(base, "history=on")
    deliver(base, "p_3", "4,1,U,4")
    run(base)
    lose(base, "p_3")
    for _ in range(2):
        run(base, "history=on")
        assert (
            "version 3 of the base cannot be applied: it is not in archive/ any more; remove this table"
            in capsys.readouterr().err
        )
    assert versions(base / "history") == WHOLE
    shutil.rmtree(base / "history")
    run(base, "history=on")
    assert "the history lacks the feed files of 1 version, of which 3 is the first" in capsys.readouterr().err
    assert versions(base / "history") == [*WHOLE, (4, 4, 1, None, "open")]


def test_feed_files_go_into_a_table_with_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "base"
    (base / "incr").mkdir(parents=True)
    settings = {"key": "id", "order_by": "at", "op": "op", "header": "true", "history": "on", "order_type": "long"}
    Table.create(base / "table", settings, buckets=2)
    for name, rows in {"p_1": ["1,1,U,80", "1,5,U,82", "2,3,U,7"], "p_2": ["1,3,U,81", "2,6,D,", "3,2,U,1"]}.items():
        deliver(base, name, *rows)
        capsys.readouterr()
        words = ["-D", "claim.min.age=0s", "-D", "runner=local", "-D", "max.delete.fraction=1"]
        assert main(["workflow", "run", str(base), *words]) == 0
    assert "note   1 late mutation: placed at its time in the history" in capsys.readouterr().out
    assert versions(base / "table") == WHOLE


def test_another_table_or_an_empty_base_is_refused(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Table.create(tmp_path / "other", {"key": "id", "order_by": "at"}, buckets=1)
    create(base, tmp_path / "other", code=5)
    assert (Table(other.path).version, "other: already exists" in capsys.readouterr().err) == (0, True)
    empty = tmp_path / "empty"
    (empty / "incr").mkdir(parents=True)
    (empty / "_mutator" / "log").mkdir(parents=True)
    create(empty, tmp_path / "table", code=5)
    assert "no run has merged anything yet" in capsys.readouterr().err


def test_the_history_is_made_again_where_the_base_went_back_before_it(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deliver(base, "p_3", "4,1,U,4")
    run(base)
    lose(base, "p_1")
    run(base, "history=on")
    capsys.readouterr()
    assert main(["workflow", "restore", str(base), "--to", "2", "--quiet"]) == 0
    run(base, "history=on")
    assert "the base was restored to a version before 3, with which the history began" in capsys.readouterr().err
    shutil.rmtree(base / "history")
    run(base, "history=on")
    assert 4 not in {one[0] for one in versions(base / "history")}


def test_other_settings_and_another_directory_are_named(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (base / "history").mkdir()
    (base / "history" / "notes.txt").write_text("mine")
    run(base, "history=on")
    assert "is not the history of this base; remove it, or move it" in capsys.readouterr().err
    assert (base / "history" / "notes.txt").read_text() == "mine"
    shutil.rmtree(base / "history")
    run(base, "history=on")
    run(base, "history=on", "history.track=price")
    assert "history.track was '' when the history began; remove this table" in capsys.readouterr().err


def test_explain_finds_the_feed_files_in_the_archive(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(base, "history=on")
    capsys.readouterr()
    assert main(["explain", str(base), "1", "--valid-at", "4"]) == 0
    out = capsys.readouterr().out
    assert "/history, version" in out
    assert "/p_2.csv, line 2" in next(line for line in out.splitlines() if "began with order value 3" in line)


@pytest.mark.parametrize("name", ["_take_over_dataset", "tag"])
def test_a_history_that_begins_with_a_given_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    base = tmp_path / "base"
    for directory in ("master", "incr"):
        (base / directory).mkdir(parents=True)
    (base / "master" / "p_0.csv").write_text("id,at,price\n1,1,80\n7,1,7\n")
    deliver(base, "p_1", "1,5,U,82")
    run(base)
    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(KeptTable if name == "tag" else take_over, name, killed)
        create(base, tmp_path / "table")
    create(base, tmp_path / "table")
    assert versions(tmp_path / "table") == [(1, 80, 1, 5, "updated"), (1, 82, 5, None, "open"), (7, 7, 1, None, "open")]


def test_a_restore_to_another_branch_is_followed(base: Path, tmp_path: Path) -> None:
    for name, to in (("p_3", 1), ("p_4", 2)):
        assert main(["workflow", "restore", str(base), "--to", str(to), "--quiet"]) == 0
        deliver(base, name, f"{name[-1]},1,U,1")
        run(base, "history=on")
    create(base, tmp_path / "anew")
    assert versions(base / "history") == versions(tmp_path / "anew")
    assert {one[0] for one in versions(base / "history")} == {1, 2, 3, 4}
    assert len(versions(base / "history")) == len(WHOLE) + 1


def test_a_table_of_the_user_is_left_alone(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table.create(base / "history", {"key": "id", "order_by": "at"})
    run(base, "history=on")
    assert "history: already exists" in capsys.readouterr().err
    assert Table(table.path).snapshot.state.settings == {"key": "id", "order_by": "at"}


def test_an_adopted_master_begins_another_history(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(base, "history=on")
    shutil.rmtree(base / "master")
    (base / "master").mkdir()
    (base / "master" / "p_9.csv").write_text("id,at,price\n8,1,80\n9,1,7\n6,1,6\n")
    deliver(base, "p_3", "4,1,U,4")
    run(base, "history=on", "master.adopt=true")
    assert "the base adopted another master in version 3" in capsys.readouterr().err
    shutil.rmtree(base / "history")
    run(base, "history=on")
    assert "lacks the versions before 3, which adopted another master; the present" in capsys.readouterr().err
    assert [one[0] for one in versions(base / "history")] == [4, 6, 8, 9]
