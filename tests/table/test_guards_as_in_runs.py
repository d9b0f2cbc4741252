"""Each guard of a run stops an apply with the same error, and leaves the table as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mutator import config
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.table.apply import apply_feed
from mutator.table.create import create_empty
from tests.support import local_engine
from tests.support.versioned import open_runner

HEAD = "id,at,op,name\n"
SETTINGS = {"key": "id", "order_by": "at", "op": "op", "order_type": "long", "output.format": "parquet"}
BY_NAME = {"key": "id", "op": "op", "output.format": "parquet"}
FULL = {"key": "id", "order_by": "at", "order_type": "long", "sync.mode": "full", "output.format": "parquet"}
FIRST = "".join(f"{number},{1790000000 + number},U,n{number}\n" for number in range(20))


@dataclass(frozen=True)
class Case:
    """Two feeds, of which a guard stops the second one."""

    second: Mapping[str, str]  # file -> content
    kind: str | None  # of the error; None: nothing stops it
    settings: Mapping[str, str] = field(default_factory=dict)  # of the second feed
    base: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    first: Mapping[str, str] = field(default_factory=lambda: {"first_1.csv": HEAD + FIRST})


def feed(rows: str, name: str = "second_2.csv") -> dict[str, str]:
    return {name: HEAD + rows}


SNAPSHOT = {"first_1.csv": "id,at,name\n" + "".join(f"{n},{1790000000 + n},n{n}\n" for n in range(20))}


def snapshot(first: int, count: int, name: str = "second_2.csv", later: int = 1790000100) -> dict[str, str]:
    return {name: "id,at,name\n" + "".join(f"{n},{later + n},m{n}\n" for n in range(first, first + count))}


SOON = "3,1790000100,U,x\n"
CASES = {
    "rejects": Case(feed("3,soon,U,x\n"), "rejects"),
    "reject limit": Case(
        feed(SOON + "3,soon,U,x\n" * 3), "rejects", {"reject.policy": "quarantine", "reject.limit": "2"}
    ),
    "reject fraction": Case(
        feed(SOON + "3,soon,U,x\n" * 3), "rejects", {"reject.policy": "quarantine", "max.reject.fraction": "0.5"}
    ),
    "quarantine": Case(feed(SOON * 3 + "3,soon,U,x\n"), None, {"reject.policy": "quarantine"}),
    "short row": Case(feed("3,1790000100,U\n"), "rejects"),
    "deletes": Case(feed("".join(f"{n},1790000100,D,x\n" for n in range(15))), "deletes"),
    "deletes, allowed": Case(
        feed("".join(f"{n},1790000100,D,x\n" for n in range(15))), None, {"max.delete.fraction": "1"}
    ),
    "deletes, lower": Case(
        feed("".join(f"{n},1790000100,D,x\n" for n in range(3))), "deletes", {"max.delete.fraction": "0.1"}
    ),
    "order units": Case(feed("3,1790000100000,U,x\n"), "order.units"),
    "op codes": Case(feed("3,1790000100,DELETE,x\n" * 9), "op.deletes"),
    "upsert op codes": Case(feed("3,1790000100,X,x\n"), "rejects", {"upsert.op.code": "U"}),
    "another key": Case(feed(SOON), "manifest.spec", {"key": "name"}),
    "another order": Case(feed(SOON), "manifest.spec", {"order_by": "name", "order_type": "string"}),
    "another order type": Case(feed(SOON), "manifest.spec", {"order_type": "string"}),
    "no key field": Case({"second_2.csv": "at,op,name\n1790000100,U,x\n"}, "schema.field"),
    "no order field": Case({"second_2.csv": "id,op,name\n3,U,x\n"}, "schema.field"),
    "removed field": Case({"second_2.csv": "id,at,op\n3,1790000100,U\n"}, "schema.lost"),
    "added field": Case({"second_2.csv": "id,at,op,name,more\n3,1790000100,U,x,y\n"}, None),
    "semicolons": Case({"second_2.csv": "id;at;op;name\n3;1790000100;U;x\n"}, "format"),
    "header twice": Case({"second_2.csv": HEAD + "id,at,op,name\n" + SOON}, None),
    "missing feed": Case({}, None),
    "empty file": Case({"second_2.csv": ""}, None),
    "only a header": Case({"second_2.csv": HEAD}, None),
    "unknown setting": Case(feed(SOON), "config", {"max.delet.fraction": "1"}),
    "order by file name without a sequence": Case(feed(SOON, "second.csv"), "sequence.missing", base=BY_NAME),
    "reused name": Case(feed(SOON, "first_1.csv"), "feed.reused", base=BY_NAME),
    "reused name, accepted": Case(feed(SOON, "first_1.csv"), None, {"reused.names": "accept"}, base=BY_NAME),
    "late files": Case(
        feed(SOON, "second_3.csv"), "feed.late", {"late.files": "fail"}, BY_NAME, {"first_5.csv": HEAD + FIRST}
    ),
    "sequence gaps": Case(feed(SOON, "second_4.csv"), "feed.gaps", {"sequence.gaps": "fail"}, BY_NAME),
    "no sequence gaps": Case(feed(SOON), None, {"sequence.gaps": "fail"}, BY_NAME),
    "snapshot": Case(snapshot(0, 20), None, {}, FULL, SNAPSHOT),
    "snapshot of too few": Case(snapshot(0, 5), "deletes", {}, FULL, SNAPSHOT),
    "older snapshot": Case(snapshot(0, 20, later=1700000000), "snapshot.older", {}, FULL, SNAPSHOT),
    "older snapshot, allowed": Case(
        snapshot(0, 20, later=1700000000), None, {"allow.older.snapshot": "true"}, FULL, SNAPSHOT
    ),
    "empty snapshot": Case(snapshot(0, 0), "feed.empty", {}, FULL, SNAPSHOT),
    "no snapshot": Case({}, "feed.empty", {}, FULL, SNAPSHOT),
    "snapshots of two sequences": Case(
        {**snapshot(0, 10), **snapshot(10, 10, "second_3.csv")}, "feed.sequences", {}, FULL, SNAPSHOT
    ),
    "snapshot with a reject": Case(
        {"second_2.csv": snapshot(0, 20)["second_2.csv"] + "3,soon,x\n"}, "rejects", {}, FULL, SNAPSHOT
    ),
    "snapshot with duplicates": Case(
        {"second_2.csv": snapshot(0, 20)["second_2.csv"] + "".join(f"{n},1790000300,d\n" for n in range(9))},
        "duplicates",
        {},
        FULL,
        SNAPSHOT,
    ),
    "snapshot beside deletes": Case(snapshot(0, 20), "config", {"deleted.record.file.prefix": "del"}, FULL, SNAPSHOT),
}


SAME = {"table.spec": ("manifest.spec", 5)}  # the same guard, but of a table only the setting can change


def put(directory: Path, files: Mapping[str, str]) -> str:
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_text(content)
    return str(directory)


def outcome(act: Any) -> tuple[str | None, Any]:
    """Return the kind of the error, and its exit code; or None, and the counts."""
    try:
        return None, {name: count for name, count in act().counts.items() if count and name.startswith("feed ")}
    except MutatorError as fault:
        return SAME.get(fault.kind, (fault.kind, fault.exit_code))


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.thorough(keep=12)
@pytest.mark.parametrize("name", CASES)
def test_a_guard_stops_a_run_and_an_apply(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    first, second = put(tmp_path / "first", case.first), put(tmp_path / "second", case.second)
    (tmp_path / "nothing").mkdir()
    one, both = {**case.base, "allow.empty.master": "true"}, {**case.base, **case.settings}
    local_engine.mutate(one, master=str(tmp_path / "nothing"), feed=[first], output=str(tmp_path / "one"))
    run = outcome(
        lambda: local_engine.mutate(both, master=str(tmp_path / "one"), feed=[second], output=str(tmp_path / "two"))
    )
    assert run[0] == case.kind, run

    table = str(tmp_path / "table")
    create_empty(table, {}, buckets=2)
    apply_feed(open_snapshot(table), config.parse(one), [first], open_runner)
    before = contents(tmp_path / "table")

    def apply(*, dry_run: bool) -> Any:
        return apply_feed(open_snapshot(table), config.parse(both), [second], open_runner, dry_run=dry_run)

    dry = outcome(lambda: apply(dry_run=True))
    assert contents(tmp_path / "table") == before
    real = outcome(lambda: apply(dry_run=False))
    assert real == dry
    assert real == run
    if real[0] is not None:
        assert contents(tmp_path / "table") == before
