"""Tables with history: how they begin, what they refuse, and how they are read. The laws have their meaning."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator import ConfigError, Table
from mutator.cli import main
from mutator.dataset.file_entry import EVENTS
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.versioned import open_runner

NOON = datetime.datetime.fromisoformat("2026-01-01T12:00:00")
SETTINGS = {"key": "id", "order_by": "at", "op": "op", "history": "on", **NO_LIMITS}


def rows(*found: tuple[Any, ...], names: str = "id at op price") -> Any:
    return pa.Table.from_pylist([dict(zip(names.split(), row, strict=True)) for row in found])


def versions(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    names = ("id", "price", "valid_from", "valid_to", "ended")
    return sorted(tuple(row[name] for name in names) for row in table.scan(**how).to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    found = Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)
    found.apply(rows((1, 1, "U", 80), (1, 5, "U", 82), (2, 3, "U", 7)), open_runner=open_runner)
    return found


def test_a_dataset_gives_the_first_versions_and_its_tombstones_are_deletes(tmp_path: Path) -> None:
    for name, found in {"m": rows((1, 1, 80), (2, 2, 9), names="id at price"), "f": rows((2, 4, "D", None))}.items():
        (tmp_path / name).mkdir()
        pq.write_table(found, tmp_path / name / f"{name}_1.parquet")
    places = {"master": str(tmp_path / "m"), "feed": [str(tmp_path / "f")], "output": str(tmp_path / "out")}
    local_engine.mutate({**SETTINGS, "history": "", "num.reducer": "2"}, **places)
    table = Table.create(str(tmp_path / "table"), {"history": "on"}, dataset=str(tmp_path / "out"))
    assert versions(table) == [(1, 80, 1, None, "open")]
    table.apply(rows((2, 3, "U", 8), (1, 5, "U", 82)), open_runner=open_runner)
    assert versions(table) == [(1, 80, 1, 5, "updated"), (1, 82, 5, None, "open"), (2, 8, 3, 4, "deleted")]
    assert table.verify(open_runner=open_runner).problems == ()


def test_nightly_snapshots_end_what_they_lack(table: Table) -> None:
    nightly: dict[str, Any] = {"sync_mode": "full", "op": "", "open_runner": open_runner}
    table.apply(rows((1, 5, 82), (3, 6, 4), names="id at price"), snapshot_as_of=10, **nightly)
    table.apply(rows((3, 6, 5), names="id at price"), snapshot_as_of=8, **nightly)  # an earlier one, which comes late
    assert versions(table) == [
        (1, 80, 1, 5, "updated"),
        (1, 82, 5, 8, "truncated"),
        (1, 82, 10, None, "open"),
        (2, 7, 3, 8, "truncated"),
        (3, 4, 10, None, "open"),
        (3, 5, 8, 10, "updated"),
    ]
    assert table.verify(open_runner=open_runner).problems == ()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"field_merge": {"price": "sum"}}, "makes one value of all"),
        ({"sync_mode": "full", "op": ""}, "does not say since when the records that the feed lacks are gone"),
        ({"ignore_null_updates": "price", "patch_unknown": "reject"}, "depend on when it arrives"),
    ],
)
def test_what_has_no_history_is_refused(settings: dict[str, Any], why: str, table: Table) -> None:
    with pytest.raises(ConfigError, match=why):
        table.apply(rows((1, 9, "U", 1)), **settings)
    assert table.version == 1


def test_overwrites_and_orders_of_several_fields_are_refused(table: Table, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not say since when"):
        table.insert_overwrite_table(rows((1, 9, "U", 1)))
    for order in ({"order_by": "at,price", "order_type": "long,long"}, {"order_type": "long desc"}):
        with pytest.raises(ConfigError, match="name in history_valid_from the field that has the time"):
            Table.create(str(tmp_path / "other"), {**SETTINGS, **order})
    descending = Table.create(str(tmp_path / "d"), {**SETTINGS, "order_type": "long desc", "history.valid.from": "at"})
    with pytest.raises(ConfigError, match="in descending order"):
        descending.apply(rows((1, 9, "U", 1)))
    with pytest.raises(ConfigError, match="'price' is not a field of order_by; add it there"):
        Table.create(str(tmp_path / "u"), {**SETTINGS, "history.valid.from": "price"})
    with pytest.raises(ConfigError, match="needs history"):
        Table.create(str(tmp_path / "other"), {**SETTINGS, "history": "off", "history.track": "price"})


def test_null_as_the_lowest_order_value_has_no_time(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "null.order": "lowest"})
    table.apply(rows((1, None, "U", 80), (1, 5, "U", 82)), open_runner=open_runner)
    assert versions(table) == [(1, 80, None, 5, "updated"), (1, 82, 5, None, "open")]
    assert [row["price"] for row in table.scan(valid_at=3).to_pylist()] == [80]


@pytest.mark.parametrize("history", ["off", "on"])
def test_a_patch_that_waited_is_newer_than_the_snapshot(history: str, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "history": history, "ignore.null.updates": "price"})
    table.apply(rows((1, 188, "U", None, "x"), names="id at op price name"), open_runner=open_runner)
    nightly: dict[str, Any] = {"sync_mode": "full", "op": "", "snapshot_as_of": 160, "open_runner": open_runner}
    table.apply(rows((1, 97, 80, "y"), names="id at price name"), **nightly)
    assert table.get(1) == {"id": 1, "at": 188, "price": 80, "name": "x"}
    assert table.verify(open_runner=open_runner).problems == ()


def test_a_table_without_history_has_no_versions(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "history": "off"})
    table.apply(rows((1, 1, "U", 80)))
    for how in ({"valid_at": 3}, {"current": True}):
        with pytest.raises(ConfigError, match="created without history"):
            table.scan(**how)
    with pytest.raises(ConfigError, match="created without history"):
        table.get(1, history=True)
    assert not [*table.snapshot.of_role(EVENTS)]


def test_a_record_at_a_time(table: Table) -> None:
    table.apply(rows((1, 3, "U", 81), (1, 9, "D", None)), open_runner=open_runner)
    assert [row["price"] for row in table.get(1, history=True)] == [80, 81, 82]
    assert [table.get(1, valid_at=at) and table.get(1, valid_at=at)["price"] for at in (0, 1, 4, 8, 9)] == [
        *(None, 80, 81, 82, None),
    ]
    assert table.get(1) is None
    assert table.get(1, version=1, valid_at=4)["price"] == 80
    assert table.get(7, history=True) == []
    with pytest.raises(ConfigError, match="the time 'soon' is not an integer"):
        table.get(1, valid_at="soon")


@pytest.mark.parametrize(
    ("data_type", "order_type", "values"),
    [
        (pa.int32(), "long", [1, 5]),
        (pa.date32(), "timestamp", [datetime.date(2026, 1, 1), datetime.date(2026, 2, 1)]),
        (pa.timestamp("us"), "timestamp", [NOON, NOON + datetime.timedelta(days=3)]),
        (pa.decimal128(9, 2), "decimal", [Decimal("1.50"), Decimal("2.25")]),
        (pa.string(), "string", ["a", "b"]),
    ],
)
def test_times_have_the_type_of_the_order_field(
    data_type: Any, order_type: str, values: list[Any], tmp_path: Path
) -> None:
    table = Table.create(
        str(tmp_path / "table"), {"key": "id", "order_by": "at", "order_type": order_type, "history": "on"}
    )
    table.apply(pa.table({"id": [1, 1], "at": pa.array(values, data_type), "price": [80, 82]}))
    found = table.scan().to_arrow()
    assert found.schema.field("valid_from").type == found.schema.field("valid_to").type == data_type
    assert found.column("valid_from").to_pylist() == values
    assert [row["price"] for row in table.scan(valid_at=values[0]).to_pylist()] == [80]


def test_the_commands(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.apply(rows((1, 3, "U", 81)), open_runner=open_runner)
    assert main(["table", "scan", table.path, "--valid-at", "4", "--columns", "id,price,valid_to"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == ["1,81,5", "2,7,", "id,price,valid_to"]
    assert main(["table", "get", table.path, "1", "--history", "--json"]) == 0
    assert [row["price"] for row in json.loads(capsys.readouterr().out)] == [80, 81, 82]
    assert main(["table", "get", table.path, "1", "--valid-at", "0"]) == 3
    assert main(["table", "scan", table.path, "--current", "--valid-at", "0"]) == 2


def test_fields_come_and_go(table: Table) -> None:
    table.apply(rows((1, 7, "U", 83, "red"), names="id at op price colour"), open_runner=open_runner)
    found = [(row["valid_from"], row["colour"]) for row in table.get(1, history=True)]
    assert found == [(1, None), (5, None), (7, "red")]
    table.apply(rows((2, 8, "U", "blue"), names="id at op colour"), removed_fields="price", open_runner=open_runner)
    assert table.scan().schema.names[:3] == ["id", "at", "colour"]
    assert [row["valid_from"] for row in table.get(1, history=True)] == [1, 7]  # the versions differ in nothing else
    assert table.verify(open_runner=open_runner).problems == ()


def test_spark_keeps_the_same_events(sc: Any, tmp_path: Path, table: Table) -> None:
    feed = rows((1, 3, "U", 81), (2, 4, "D", None), (1, 3, "U", 81), (3, 2, "U", 5), (3, 1, "U", 4))
    pq.write_table(feed, tmp_path / "late.parquet")
    other = Table.create(str(tmp_path / "other"), SETTINGS, buckets=2)
    other.apply(rows((1, 1, "U", 80), (1, 5, "U", 82), (2, 3, "U", 7)), open_runner=open_runner)
    other.apply(str(tmp_path / "late.parquet"), runner="spark")
    table.apply(str(tmp_path / "late.parquet"), open_runner=open_runner)
    assert versions(other) == versions(table) != []


def columns_of(table: Table, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row in table.scan().to_pylist())


@pytest.mark.parametrize("compacts", [False, True])
def test_patches_of_earlier_forms(compacts: bool, tmp_path: Path) -> None:
    """A mask says which fields a patch leaves unset by their positions, which change with the fields."""
    table = Table.create(
        str(tmp_path / "table"), {"key": "id", "order_by": "at", "ignore.null.updates": "all", "history": "on"}
    )
    names = [f"f{number}" for number in range(6)]
    table.apply(pa.table({"id": [1], "at": [1], **{name: ["x"] for name in names}}))
    table.apply(
        pa.table({"id": [1], "at": [3], **{name: pa.array([None], pa.string()) for name in names[:-1]}, "f5": ["z"]})
    )
    more = {name: ["y"] for name in names[1:]} | {"g": ["new"], "h": ["new"]}
    table.apply(pa.table({"id": [2], "at": [1], **more}), removed_fields="f0")
    if compacts:
        table.compact(everything=True)
    assert columns_of(table, "id", "f1", "f5", "valid_from") == [(1, "x", "x", 1), (1, "x", "z", 3), (2, "y", "y", 1)]
    assert table.get(1)["f5"] == "z"
    assert [row["f5"] for row in table.get(1, history=True)] == ["x", "z"]


def test_a_field_that_is_added_again_makes_no_versions(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", "history": "on"})
    table.apply(pa.table({"id": [1, 1], "at": [1, 5], "v": ["x", "y"]}))
    table.compact(everything=True)
    table.apply(pa.table({"id": [2], "at": [1]}), removed_fields="v")
    table.apply(pa.table({"id": [2], "at": [2], "v": ["w"]}))
    assert columns_of(table, "id", "valid_from", "v") == [(1, 1, None), (2, 1, None), (2, 2, "w")]


def test_records_of_partitions_have_histories_of_their_own(tmp_path: Path) -> None:
    settings = {"key": "id", "order_by": "at", "partitioned.by": "p", "key.scope": "partition", "history": "on"}
    table = Table.create(str(tmp_path / "table"), settings)
    table.apply(rows((1, 1, "a"), (1, 5, "a"), (1, 3, "b"), names="id at p"))
    found = [(row["p"], row["valid_from"], row["valid_to"]) for row in table.get(1, history=True)]
    assert found == [("a", 1, None), ("b", 3, None)]
    assert [row["p"] for row in table.get(1, history=True, partition="p=b")] == ["b"]


@pytest.mark.parametrize("feed", ["truncate", "absence"])
def test_what_a_dataset_knows_of_the_past(feed: str, tmp_path: Path) -> None:
    for name in ("m", "f"):
        (tmp_path / name).mkdir()
    pq.write_table(rows((1, 1, 80), (2, 9, 9), names="id at price"), tmp_path / "m" / "m_1.parquet")
    change = rows((1, 5, "T", 0)) if feed == "truncate" else rows((2, 9, 9), names="id at price")
    pq.write_table(change, tmp_path / "f" / "f_1.parquet")
    more = {"truncate.op.code": "T"} if feed == "truncate" else {"op": "", "sync.mode": "full"}
    places = {"master": str(tmp_path / "m"), "feed": [str(tmp_path / "f")], "output": str(tmp_path / "out")}
    local_engine.mutate({**SETTINGS, **more, "history": "", "num.reducer": "2"}, **places)
    if feed == "absence":
        with pytest.raises(ConfigError, match="deletes by absence"):
            Table.create(str(tmp_path / "table"), {"history": "on"}, dataset=str(tmp_path / "out"))
        return
    table = Table.create(str(tmp_path / "table"), {"history": "on"}, dataset=str(tmp_path / "out"))
    table.apply(rows((7, 3, "U", 1)), op="op")
    assert versions(table) == [(2, 9, 9, None, "open"), (7, 1, 3, 5, "truncated")]
    assert table.get(7) is None


def test_settings_of_history_are_checked(tmp_path: Path) -> None:
    settings = {"key": "id", "order_by": "at"}
    plain = Table.create(str(tmp_path / "plain"), settings)
    for path, given in (
        (plain.path, {"history": "on"}),
        (None, {"history": "off"}),
        (None, {"history_track": "price"}),
    ):
        table = Table(path) if path else Table.create(str(tmp_path / str(given)), {**settings, "history": "on"})
        with pytest.raises(ConfigError, match="was created with"):
            table.apply(rows((1, 1, 80), names="id at price"), **given)
    other = Table.create(str(tmp_path / "other"), {**settings, "history": "on", "history.track": "colour"})
    with pytest.raises(ConfigError, match="names colour, which is not a field"):
        other.apply(rows((1, 1, 80), names="id at price"))
    third = Table.create(str(tmp_path / "third"), {**settings, "history": "on"})
    assert (third.scan().to_pylist(), third.get(1, history=True), third.scan(valid_at="x").to_pylist()) == ([], [], [])
    with pytest.raises(ConfigError, match="a field valid_to, and so do the records"):
        third.apply(rows((1, 1, 80), names="id at valid_to"))
    (tmp_path / "f").mkdir()
    pq.write_table(rows((1, 1, 80), names="id at price"), tmp_path / "f" / "f.parquet")
    places = {"master": str(tmp_path / "m"), "feed": [str(tmp_path / "f")], "output": str(tmp_path / "out")}
    with pytest.raises(ConfigError, match="only a versioned table keeps a history"):
        local_engine.mutate({**settings, "history": "on", "allow.empty.master": "true"}, **places)


def test_the_time_of_a_version_is_one_of_several_order_fields(tmp_path: Path) -> None:
    order = {"order_by": "seq,at", "history.valid.from": "at", "history.columns": "dbt"}
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, **order}, buckets=2)
    feed = [(1, 1, 10, "U", 80), (1, 2, 30, "U", 82), (1, 3, 20, "U", 84), (1, 4, 40, "D", None), (2, 9, 7, "U", 5)]
    expected = [(1, 80, 10, 30), (1, 82, 30, 30), (1, 84, 30, 40), (2, 5, 7, None)]

    def shown(**how: Any) -> list[tuple[Any, ...]]:
        names = ("id", "price", "dbt_valid_from", "dbt_valid_to")
        return sorted((tuple(row[name] for name in names) for row in table.scan(**how).to_pylist()), key=str)

    for row in reversed(feed):
        table.apply(rows(row, names="id seq at op price"), open_runner=open_runner)
    assert table.scan().schema.names == ["id", "seq", "at", "price", "dbt_valid_from", "dbt_valid_to"]
    for _ in range(2):
        assert shown() == expected
        assert shown(valid_at=30) == [expected[2], expected[3]]  # and no version of no length
        assert shown(valid_at=29, columns=None) == [expected[0], expected[3]]
        table.compact(everything=True, open_runner=open_runner)
    assert [row["price"] for row in table.get(1, history=True)] == [80, 82, 84]
    assert table.verify(open_runner=open_runner).problems == ()


def test_messages_have_the_times_of_versions(tmp_path: Path) -> None:
    def message(op: str, lsn: int, ms: int, before: Any, after: Any) -> Any:
        source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": lsn, "ts_ms": ms}
        return {"before": before, "after": after, "source": source, "op": op}

    one, other = {"id": 1, "price": 80}, {"id": 1, "price": 82}
    found = [message("c", 1, 1000, None, one), message("u", 2, 2500, one, other), message("d", 3, 4000, other, None)]
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "a.json").write_text("".join(json.dumps(message) + "\n" for message in reversed(found)))
    order = {"order_by": "source.lsn,source.ts_ms", "history.valid.from": "source.ts_ms"}
    settings = {**NO_LIMITS, "key": "id", "feed.dialect": "debezium-json", "history": "on", **order}
    table = Table.create(str(tmp_path / "table"), settings, buckets=2)
    table.apply(str(tmp_path / "feed"), open_runner=open_runner)
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(seconds=seconds) for seconds in (1, 2.5, 4)]
    assert versions(table) == [(1, 80, *times[:2], "updated"), (1, 82, *times[1:], "deleted")]
    assert [row["price"] for row in table.scan(valid_at="1970-01-01T00:00:02.499Z").to_pylist()] == [80]


def test_a_version_that_ended_before_the_first_known_time_is_left_out(tmp_path: Path) -> None:
    order = {"order_by": "seq,at", "history.valid.from": "at", "null.order": "lowest"}
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, **order}, buckets=2)
    feed = [(1, 1, None, "U", 80), (1, 2, None, "U", 81), (1, 3, 7, "U", 82)]
    table.apply(rows(*feed, names="id seq at op price"), open_runner=open_runner)
    for _ in range(2):
        assert versions(table) == [(1, 81, None, 7, "updated"), (1, 82, 7, None, "open")]
        table.compact(everything=True, open_runner=open_runner)
    assert table.verify(open_runner=open_runner).problems == ()


def test_all_fields_but_one_are_all_that_count_but_one(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "history.track": "all except price"}, buckets=2)
    table.apply(rows((1, 1, "U", 80), (1, 5, "U", 82)), open_runner=open_runner)
    assert versions(table) == [(1, 82, 1, None, "open")]


@pytest.mark.parametrize(
    ("name", "value"), [("scd.type", 2), ("rsbm.scd.type", "2"), ("history", True), ("history", " on ")]
)
def test_each_spelling_of_the_setting_is_recorded_as_one(name: str, value: Any, tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_text(f'key = "id"\norder_by = "at"\n"{name}" = {json.dumps(value)}\n')
    assert main(["table", "create", str(tmp_path / "by_file"), "--config", str(toml), "--quiet"]) == 0
    by_call = Table.create(str(tmp_path / "by_call"), {"key": "id", "order_by": "at", name: value})
    for table in (Table(str(tmp_path / "by_file")), by_call):
        assert table.snapshot.state.settings == {"key": "id", "order_by": "at", "history": "on"}
        table.apply(rows((1, 1, 80), names="id at price"), **{name.removeprefix("rsbm.").replace(".", "_"): value})


def test_another_type_of_dimension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"scd\.type: '3' must be on or off; as scd.type, 2 or 1"):
        Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", "scd.type": 3})
