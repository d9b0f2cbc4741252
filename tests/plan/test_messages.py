"""Messages of change captures: what ``init`` proposes for them, and what a run says if no setting names their form."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from csv import DictReader
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.cli import main
from mutator.errors import ConfigError
from mutator.plan.inspect import envelopes
from mutator.plan.proposal.propose import propose
from mutator.rules.envelopes import ENVELOPES, chosen_by, recognized
from tests.formats import test_dialects, test_flat_dialects
from tests.formats.test_debezium_flat import ROWS, put
from tests.formats.test_debezium_json import CONNECT, FEEDS, TABLES, lines, schema_of, wrapped
from tests.support.named_runs import Work

KEY, ORDER = "id.field.ordinals", "temporal.ordering.field.ordinal"
FIRST = {"allow.empty.master": True, "output.format": "parquet"}
SOURCE = {"connector": "postgresql", "schema": "public", "table": "t"}


def message(op: str, lsn: int, *, table: str = "t", **row: Any) -> dict[str, Any]:
    image = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {**image, "source": {**SOURCE, "table": table, "lsn": lsn}, "op": op, "ts_ms": 1795808648500}


def settings_of(feed: Path, master: Path | None = None, **given: Any) -> dict[str, Any]:
    found = propose(None if master is None else str(master), [str(feed)], given).proposal
    return dict(found.settings)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("feed", ["hot-orders", "truncate-orders", "truncate-products"])
@pytest.mark.parametrize("typed", [False, True])
def test_two_commands_merge_a_genuine_feed(
    feed: str, typed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table, key = TABLES[feed.split("-")[1]]
    if typed:
        os.mkdir("master")
        pq.write_table(table.empty_table(), "master/m.parquet")
    wanted: dict[str, Any] = {"feed.dialect": "debezium-json", KEY: key.split(",") if "," in key else key}
    if typed:
        wanted |= {"feed.decimals": "base64"} | ({"feed.time.unit": "us"} if "products" in feed else {})
    first = {"allow.empty.master": True} | ({} if typed else {"output.format": "parquet"})
    found = settings_of(FEEDS / feed, Path("master") if typed else None)
    assert found == wanted | ({} if typed else first), found
    where = ["--master", "master"] if typed else []
    assert main(["init", *where, "--feed", str(FEEDS / feed)]) == 0, capsys.readouterr().out
    more = ["-D", "allow.empty.master=true"]
    assert main(["run", "--output", "out", *more]) == 0, capsys.readouterr().err
    assert (tmp_path / "out").is_dir()


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        # Deletes have the key alone, and other columns that are not NULL have 0 or "".
        (
            [("r", {"a": n % 3, "b": n // 3, "n": n}) for n in range(9)] + [("d", {"a": 1, "b": 2, "n": 0})],
            ["a", "b"],
        ),
        # With REPLICA IDENTITY FULL, they have everything.
        ([("c", {"a": n, "id": n, "n": n}) for n in range(12)] + [("d", {"a": 1, "id": 1, "n": 1})], "id"),
        ([("r", {"n": n % 5, "code": n}) for n in range(12)] + [("u", {"n": 9, "code": 1})] * 3, "code"),
    ],
)
def test_the_key_of_messages(messages: list[tuple[str, dict[str, Any]]], wanted: Any, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(lines(*(message(op, at, **row) for at, (op, row) in enumerate(messages)), None))
    assert settings_of(tmp_path) == {"feed.dialect": "debezium-json", KEY: wanted, **FIRST}


Changes = list[tuple[str, dict[str, Any]]]


def _tokens(name: str, count: int) -> Changes:
    """Inserts and updates with another token each; one record is deleted and inserted again."""
    rows = [{"no": n % count, name: 1000 + n} for n in range(2 * count)]
    again = [("d", rows[count + 2]), ("c", {"no": 2, name: 7})]
    return [*(("c", row) for row in rows[:count]), *(("u", row) for row in rows[count:]), *again]


def _orders() -> Changes:
    """Few inserts beside updates of records that the feed does not insert; customers are distinct in the inserts."""
    rows = [{"ref": 100 + n, "customer": n % 30, "v": n} for n in range(12)]
    updates = [{"ref": 70 + n % 40, "customer": n % 30, "v": n} for n in range(200)]
    return [*(("c", row) for row in rows), *(("u", row) for row in updates), ("d", updates[-1]), ("d", rows[3])]


@pytest.mark.parametrize(
    ("changes", "key", "certain"),
    [
        (_tokens("token", 40), "no", True),
        (_tokens("event_id", 40), "no", True),
        (_tokens("token", 3), "no", False),
        (_orders(), "ref", False),
        ([*_orders(), ("c", {"ref": 103, "customer": 3, "v": 1})], "ref", False),
        # Each number is deleted and inserted again: it is part of a key.
        (
            [("c", {"tenant": tenant, "no": no, "n": no}) for tenant in "ab" for no in range(6)]
            + [("d", {"tenant": "a", "no": no, "n": no}) for no in range(6)]
            + [("u", {"tenant": "b", "no": no, "n": 50 + no}) for no in range(6)],
            ["tenant", "no"],
            True,
        ),
    ],
)
def test_updates_and_deletes_show_the_key(changes: Changes, key: Any, certain: bool, tmp_path: Path) -> None:
    """A key comes again in them, and in inserts only after a delete; a token differs in all rows."""
    (tmp_path / "f.json").write_bytes(lines(*(message(op, at, **row) for at, (op, row) in enumerate(changes)), None))
    choice = next(one for one in propose(None, [str(tmp_path)], {}).proposal.choices if one.key == KEY)
    assert (choice.value, choice.question is None) == (key, certain), choice


@pytest.mark.parametrize("codes", ["UUUU", "IIUU"])
def test_a_field_that_differs_in_all_changes_is_a_question(codes: str, tmp_path: Path) -> None:
    rows = [f"{code},e{at},{at % 9},{at}" for at, code in enumerate(codes * 5)]
    (tmp_path / "f_1.csv").write_text("\n".join(["op,event_id,ref,seq", *rows, "D,e99,1,99", ""]))
    choice = next(one for one in propose(None, [str(tmp_path)], {}).proposal.choices if one.key == KEY)
    assert choice.value == "ref" or choice.question is not None, choice


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
@pytest.mark.parametrize("second", [1, 2])
def test_sources_of_the_first_rows_have_epochs(
    connector: str, second: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    place = {"connector": connector, "db": "d", "table": "t", "file": "b.000001", "row": 0}
    rows = [
        message("c", 0, id=n, v=f"v{n}") | {"source": {**place, "server_id": 11 * (second if n > 8 else 1), "pos": n}}
        for n in range(12)
    ]
    (tmp_path / "incr").mkdir()
    for at in (0, 6):
        (tmp_path / f"incr/f_{at}.json").write_bytes(lines(*rows[at : at + 6]))
    given = {"order.epoch": "11:0,22:1"} if second == 2 else {}
    assert settings_of(Path("incr"), **given) == {"feed.dialect": "debezium-json", KEY: "id", **FIRST, **given}
    assert main(["init", "--feed", "incr"]) == (3 if second == 2 else 0)
    assert (
        second == 1
        or "is the first feed of the place, and has rows of several sources: 11, 22" in capsys.readouterr().out
    )
    asked = [text for name, value in given.items() for text in ("-D", f"{name}={value}")]
    assert main(["init", "--feed", "incr", "--force", *asked]) == 0
    assert main(["run"]) == 0
    assert len(pq.read_table("merged")) == 12


def test_a_source_that_begins_after_the_first_rows_has_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(envelopes, "_ROWS", 3)
    place = {"connector": "mysql", "db": "d", "table": "t", "file": "b.000001", "row": 0}
    rows = [message("c", 0, id=n) | {"source": {**place, "server_id": 11 + 11 * (n > 8), "pos": n}} for n in range(12)]
    (tmp_path / "incr").mkdir()
    (tmp_path / "incr/f_1.json").write_bytes(lines(*rows))
    assert main(["init", "--feed", "incr"]) == 0
    assert "Did the positions of 22 begin after those of 11? Set order.epoch: " in capsys.readouterr().out
    settings = settings_of(Path("incr"))
    assert settings["order.epoch"] == "11:0,22:1"
    assert "reject.policy" not in settings
    assert main(["run"]) == 0
    assert len(pq.read_table("merged")) == 12


def test_messages_of_two_tables(tmp_path: Path) -> None:
    rows = [message("c", at, table="tu"[at % 3 > 0], id=at) for at in range(12)]
    (tmp_path / "f.json").write_bytes(lines(*rows))
    found = propose(None, [str(tmp_path)], {}).proposal
    assert found.settings["feed.table"] == "public.u"
    question = "Which table is the master? The feed has messages of public.t, public.u. Set {feed.table}."
    assert found.questions == [question]
    given = {"feed.dialect": "debezium-json", "feed.table": "public.t"}
    assert settings_of(tmp_path, **given)["feed.table"] == "public.t"


def test_the_types_in_messages_are_no_question(tmp_path: Path) -> None:
    schema = schema_of([{**CONNECT["int64"], "field": "id"}, {**CONNECT["timestamp[us]"], "field": "at"}])
    rows = (wrapped(json.dumps(message("c", at, id=at, at=at)).encode(), schema) for at in range(12))
    (tmp_path / "f.json").write_bytes(b"\n".join(rows) + b"\n")
    (tmp_path / "m").mkdir()
    pq.write_table(pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]).empty_table(), tmp_path / "m/m.parquet")
    assert "feed.time.unit" not in settings_of(tmp_path / "f.json", tmp_path / "m")


@pytest.mark.parametrize("form", ["json", "schema", "csv", "parquet", "avro", "orc"])
@pytest.mark.parametrize("without", ["", "__op", "__deleted", "__lsn"])
def test_flattened_rows(form: str, without: str, tmp_path: Path) -> None:
    work = Work(tmp_path)
    put(work, [{name: value for name, value in row.items() if name != without} for row in ROWS[:4]], form)
    found = settings_of(tmp_path / "feed")
    assert (found["feed.dialect"], found[KEY]) == ("debezium-flat", "id")
    assert found.get("sequence.pattern") == ("last" if without == "__lsn" else None)  # __source_ts_ms ties
    assert ORDER not in found
    assert "op.code.field.ordinal" not in found


def test_flattened_rows_of_delimited_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f_1.txt").write_text("id;n;__op;__lsn\n1;a;c;5\n2;b;c;6\n2;;d;7\n")
    assert main(["init", "--feed", "f_1.txt"]) == main(["run"]) == 0, capsys.readouterr()
    assert [path.read_text() for path in (tmp_path / "merged").glob("part-*")] == ["id;n\n1;a\n"]


@pytest.mark.parametrize(
    ("rows", "key", "dialect", "stops"),
    [
        ([message("c", 1, id=1)], "id", "debezium-json", True),
        ([message("c", 1, id=1)], "ts_ms", "debezium-json", True),
        ([message("c", 1, id=1) | {"id": 1}], "id", "debezium-json", False),  # the row has a key beside the message
        ([{"schema": None, "payload": message("c", 1, id=1)}], "id", "debezium-json", True),
        ([{"schema": None, "payload": ROWS[0]}], "id", "debezium-flat", True),
        (ROWS[:4], "id", "debezium-flat", False),
        ([test_dialects.maxwell(test_dialects.STORY[0])], "id", "maxwell-json", True),
        ([test_dialects.canal(test_dialects.STORY[0])], "id", "canal-json", True),
        ([test_dialects.ogg(test_dialects.STORY[0])], "id", "ogg-json", True),
        ([{"id": 1, "_change_type": "insert", "_commit_version": 1}], "id", "delta-cdf", False),
        ([{"id": 1, "__op": "x"}], "id", None, False),
        ([{"id": 1, "op": "c", "before": "1", "after": "2"}], "id", None, False),  # an audit log
        ([{"id": 1, "op": "c", "before": {"n": 1}, "after": {"n": 2}, "source": {"app": "x"}}], "id", None, False),
    ],
)
def test_a_forgotten_dialect(
    rows: list[dict[str, Any]], key: str, dialect: str | None, stops: bool, tmp_path: Path
) -> None:
    (tmp_path / "f_1.json").write_bytes(lines(*rows))
    more = {"allow_empty_master": True, "output_format": "parquet", "sequence_pattern": "last"}

    def run() -> Any:
        return mutator.merge(master=str(tmp_path / "none"), feed=str(tmp_path / "f_1.json"), key=key, **more)

    if stops:
        with pytest.raises(ConfigError, match=f'feed_dialect="{dialect}"') as fault:
            run()
        assert fault.value.kind == "dialect.forgotten"
    else:
        found = [one for one in run().warnings if "plain records" in one]
        assert [f'feed_dialect="{dialect}"' in one for one in found] == [True] * (dialect is not None)


def of_messages(name: str) -> Callable[[Path], None]:
    told = test_dialects.DIALECTS[name]

    def written(feed: Path) -> None:
        for file, changes in test_dialects.FILES.items():
            (feed / f"{file}.{told.suffix}").write_bytes(told.file(*map(told.message, changes)))

    return written


def of_flat(case: test_flat_dialects.Case) -> Callable[[Path], None]:
    def written(feed: Path) -> None:
        rows = case.rows(test_flat_dialects.STORY)
        for number, part in enumerate((rows[:4], rows[4:])):
            pq.write_table(pa.Table.from_pylist(part), feed / f"{case.name.format(number)}.parquet")

    return written


STORIES: dict[str, tuple[Callable[[Path], None], list[dict[str, Any]]]] = {
    **{name: (of_messages(name), [*map(dict, test_dialects.END)]) for name in test_dialects.DIALECTS},
    **{one.dialect: (of_flat(one), test_flat_dialects.RESULT) for one in test_flat_dialects.CASES},
}


def two_commands(feed: Path, *more: str) -> list[dict[str, Any]]:
    """Return the records after ``init`` and ``run``."""
    assert main(["init", *more, "--feed", str(feed), "--force"]) == 0
    assert main(["run", "-D", "max.delete.fraction=1", "--quiet"]) == 0
    found = [pq.ParquetFile(path).read().to_pylist() for path in Path("merged").glob("part-*.parquet")]
    found += [[*fastavro.reader(BytesIO(path.read_bytes()))] for path in Path("merged").glob("part-*.avro")]
    rows = [list(DictReader(StringIO(path.read_text()))) for path in Path("merged").glob("part-*.csv")]
    return sorted((row for part in (*found, *rows) for row in part), key=lambda row: str(row.get("id")))


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("name", STORIES)
def test_two_commands_merge_each_dialect(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "feed").mkdir()
    write, wanted = STORIES[name]
    write(tmp_path / "feed")
    assert two_commands(tmp_path / "feed") == sorted(wanted, key=lambda row: str(row["id"]))


def test_each_dialect_is_recognized() -> None:
    assert [name for name in chosen_by("feed.dialect") if ENVELOPES[name].recognizes is None] == []


DMS, LOAD = "20260131-101500123.csv", "LOAD00000001.csv"


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        ("a.csv", {"Op": ["I", "U", "D"], "id": [1, 2, 3]}),  # a field of op codes, in files of another name
        ("a.csv", {"0": ["I", "U", "D"], "1": [1, 2, 3]}),
        (DMS, {"Op": ["I", "X"], "id": [1, 2]}),
        (DMS, {"0": ["I", ""], "1": [1, 2]}),
        (DMS, {"op": ["I", "D"], "id": [1, 2]}),
        (LOAD, {"id": [1], "Operation": ["I"]}),
        (
            "f_1.csv",
            {"0": ["U", "D"], "1": ["k", "l"], "2": ["EU", "US"], "3": [433305438660591626, 433305438660591627]},
        ),
        ("a", {"type": ["insert"], "id": [1], "database": ["d"], "table": ["t"], "ts": [1]}),  # an audit log
        ("a", {"type": ["insert", "other"], "database": ["d"], "table": ["t"], "ts": [1], "data.id": [1]}),
        ("a", {"type": ["INSERT"], "database": ["d"], "table": ["t"], "es": [1], "data": ["[]"]}),
        ("a", {"op": ["c"], "id": [1], "source": ["x"], "source.connector": ["x"]}),
        ("a", {"op": ["c"], "id": [1], "before": [1]}),
        ("a", {"op_type": ["I"], "table": ["t"], "before": ["a"], "after": ["b"]}),
        ("a", {"op_type": ["insert"], "table": ["t"], "after.id": [1]}),
        ("a", {"_change_type": ["insert"], "id": [1]}),
        ("a", {"_change_type": ["price"], "_commit_version": [1]}),
        ("a", {"_change_type": ["insert"], "_change_ordinal": [1]}),  # the codes of another dialect
        ("a", {"__$operation": [7], "__$start_lsn": [1]}),
        ("a", {"__rowMarker__": [1], "id": [1]}),
        ("00000000000000000001.parquet", {"__rowMarker__": [9], "id": [1]}),
    ],
)
def test_plain_rows_are_no_dialect(file: str, columns: dict[str, list[Any]]) -> None:
    values = {name: [str(value).encode() for value in found] for name, found in columns.items()}
    for form in ("csv", "json", "parquet"):
        assert recognized([*values], values.__getitem__, file, form) is None


LOADED = "1,lamp,2\n2,desk,1\n3,chair,NULL\n"
CHANGED = "U,1,lamp,5\nD,2,desk,1\nI,4,sofa,1\n"
NAMED = [
    {"id": "1", "n": "lamp", "qty": "5"},
    {"id": "3", "n": "chair", "qty": None},
    {"id": "4", "n": "sofa", "qty": "1"},
]


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("master", ["", "csv", "parquet"])
def test_files_of_aws_dms(header: bool, master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The full load lacks Op, and files of changes are in directories of their dates."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "feed/2026/01/31").mkdir(parents=True)
    names = "id,n,qty\n" * header
    (tmp_path / "feed/LOAD0000000A.csv").write_text(names + LOADED)
    (tmp_path / "feed/2026/01/31" / DMS).write_text(f"Op,{names}" * header + CHANGED)
    (tmp_path / "master").mkdir()
    if master == "csv":
        (tmp_path / "master/m.csv").write_text("id,n,qty\n1,lamp,5\n")
    elif master:
        pq.write_table(pa.table({name: [one] for name, one in NAMED[0].items()}), "master/m.parquet")
    found = two_commands(tmp_path / "feed", *(["--master", "master"] if master else []))
    settings = tomllib.loads(Path("mutator.toml").read_text())
    assert (settings["feed.dialect"], settings["csv.null"]) == ("aws-dms", "NULL")
    titles = ["id", "n", "qty"] if header or master else ["field_1", "field_2", "field_3"]
    assert settings.get("field.names") == (None if header else ["Op", *titles])
    wanted = [dict(zip(titles, row.values(), strict=True)) for row in NAMED]
    if master != "parquet":
        wanted = [{name: "NULL" if value is None else value for name, value in row.items()} for row in wanted]
    assert sorted(found, key=lambda row: row[titles[0]]) == wanted


def test_a_master_of_hive_has_the_names(tmp_path: Path) -> None:
    """Files of changes without a header have the field in the names of its directories last."""
    (tmp_path / "m/region=EU").mkdir(parents=True)
    pq.write_table(pa.table({"id": ["1"], "n": ["a"]}), tmp_path / "m/region=EU/m.parquet")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / DMS).write_text("U,1,b,US\nI,2,c,EU\n")
    found = settings_of(tmp_path / "f", tmp_path / "m")
    assert (found["field.names"], found["partitioned.by"]) == (["Op", "id", "n", "region"], "region")


def test_a_full_load_of_aws_dms_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that are proposed for it alone fit the files of changes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / LOAD).write_text(LOADED)
    assert len(two_commands(tmp_path / "f")) == 3
    settings = tomllib.loads(Path("mutator.toml").read_text())
    assert (settings["feed.dialect"], settings["field.names"]) == ("aws-dms", ["Op", "field_1", "field_2", "field_3"])
    (tmp_path / "f" / DMS).write_text(CHANGED)
    assert main(["run", "--master", "merged", "--output", "later", "--quiet"]) == 0
    rows = "".join(path.read_text() for path in Path("later").glob("part-*")).split()
    assert {*rows} == {"field_1,field_2,field_3", "1,lamp,5", "3,chair,NULL", "4,sofa,1"}


def test_files_of_ticdc_without_a_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = (("I", 1, 101, '"a"'), ("I", 2, 102, '"b"'), ("U", 3, 101, "\\N"), ("D", 4, 102, '"b"'))
    table = [f'"{op}","t","s",{433305438660591626 + at},{key},{value}\n' for op, at, key, value in rows]
    (tmp_path / "CDC000001.csv").write_text("".join(table))
    assert two_commands(tmp_path / "CDC000001.csv") == [{"field_4": "101", "field_5": "\\N"}]


def test_bytes_without_a_header_are_no_dialect(tmp_path: Path) -> None:
    """A run looks at them for a forgotten dialect, in any encoding."""
    work = Work(
        tmp_path, settings={"key": "1", "order_by": "1", "order_type": "string", "upsert.op.code": "U", "op": "0"}
    )
    work.put("feed/f_1.txt", b"U,1,1,x,y\nU,\xff,\xff,x,y\n")
    work.put("master/m.txt", b"9,1,x,y\n")
    assert work.run().counts["feed inserted"] == 2


OF_TABLES = {  # the rows of a file that has the changes of two tables, and whether they show it
    "marks": (["B|1|s|x", "I,t,s,1,a", "I,t,s,2,a", "I,u,s,1,b", "C|1|s|x"], True),
    "widths": (["I,t,s,1,a", "I,t,s,2,a", "I,u,s,1"], True),
    "alike": (["I,t,s,1,a", "I,t,s,2,a", "I,u,s,1,b", "I,u,s,2,b"], False),
}


@pytest.mark.parametrize("case", OF_TABLES)
def test_changes_of_several_tables_in_one_file(case: str, tmp_path: Path) -> None:
    rows, are_shown = OF_TABLES[case]
    (tmp_path / "20260101-100000001.csv").write_text("".join(f"{row}\n" for row in rows))
    choices = {one.key: one for one in propose(None, [str(tmp_path)], {}).proposal.choices}
    first = ["Op", "dms-table", "dms-schema"]
    names = choices["field.names"]
    assert (isinstance(names.value, list) and names.value[:3] == first) == are_shown
    assert (f"begin it with {','.join(first)}, and set" in (names.question or "")) != are_shown
    assert ("feed.table" in choices) == are_shown
    if are_shown:
        assert choices["feed.table"].value == "s.t"
        assert "s.u" in (choices["feed.table"].question or "")


@pytest.mark.parametrize("name", ["d.t_1.txt", "d.t_1.csv"])
@pytest.mark.parametrize("is_said", [False, True])
def test_delimited_text_of_goldengate(
    name: str, is_said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no header, and its fields are recognised by their values; or settings say what they are."""
    monkeypatch.chdir(tmp_path)
    between, time = "," if name.endswith("csv") else "\x01", "2026-01-31 10:00:00.000000"
    rows = (("I", 1, 101, "a"), ("I", 2, 102, "b"), ("U", 3, 101, "NULL"), ("D", 4, 102, "b"))
    table = [between.join((op, "d.t", time, time, f"{at:020}", str(key), n)) + "\n" for op, at, key, n in rows]
    (tmp_path / name).write_text("".join(table))
    given = {"feed.dialect": "ogg-csv", "field.names": "op_type,table,op_ts,current_ts,pos,id,n"} if is_said else {}
    found = settings_of(tmp_path / name, **given)
    assert found["feed.dialect"] == "ogg-csv"
    own = ["id", "n"] if is_said else ["field_5", "field_6"]
    words = [word for key, value in given.items() for word in ("-D", f"{key}={value}")]
    names, values = ([between.join(one)] if between != "," else one for one in (own, ["101", "NULL"]))
    assert two_commands(tmp_path / name, *words) == [dict(zip(names, values, strict=True))]


@pytest.mark.parametrize("of_load", ["", "0"])
def test_sequences_of_aws_dms_are_the_order(of_load: str, tmp_path: Path) -> None:
    stamps = [f"2026013110150000{number:019}" for number in (1, 2, 3)]
    rows = [f"{row},{stamp}" for row, stamp in zip(CHANGED.splitlines(), stamps, strict=True)]
    (tmp_path / DMS).write_text("\n".join(["Op,id,n,qty,place", *rows, ""]))
    (tmp_path / LOAD).write_text("id,n,qty,place\n" + LOADED.replace("\n", f",{of_load}\n"))
    found = settings_of(tmp_path)
    assert (found[ORDER], found["temporal.ordering.field.type"]) == ("place", "string")
    assert (found["order.keep"], found["null.order"], found[KEY]) == (False, "lowest", "id")


@pytest.mark.parametrize("with_changes", [True, False])
def test_the_key_of_a_landing_zone(with_changes: bool, tmp_path: Path) -> None:
    first = [{"id": number % 2, "line": number // 2, "n": str(number)} for number in range(6)]
    pq.write_table(pa.Table.from_pylist(first), tmp_path / "00000000000000000001.parquet")
    if with_changes:
        changed = pa.Table.from_pylist([{**first[0], "__rowMarker__": 1}])
        pq.write_table(changed, tmp_path / "00000000000000000002.parquet")
    (tmp_path / "_metadata.json").write_text('{"keyColumns": ["id", "line"]}')
    found = settings_of(tmp_path)
    assert (found["feed.dialect"], found[KEY], ORDER in found) == ("open-mirroring", ["id", "line"], False)


@pytest.mark.parametrize(
    ("name", "member"), [("canal", "pkNames"), ("maxwell", "primary_key_columns"), ("ogg", "primary_keys")]
)
def test_messages_name_the_key_and_the_table(name: str, member: str, tmp_path: Path) -> None:
    """In messages of two tables with other keys."""
    message = test_dialects.DIALECTS[name].message
    own = [message(one) | {member: ["n", "id"]} for one in test_dialects.STORY]
    others = [message(one, "d.other") | {member: ["qty"]} for one in test_dialects.STORY[:3]]
    (tmp_path / "f_1.json").write_bytes(lines(*others, *own))
    found = settings_of(tmp_path)
    assert (found["feed.table"], found[KEY]) == ("d.t", ["n", "id"])


def test_ties_are_counted(tmp_path: Path) -> None:
    (tmp_path / "f_1.json").write_bytes(lines(*map(test_dialects.canal, test_dialects.STORY)))
    order = next(one for one in propose(None, [str(tmp_path)], {}).proposal.choices if one.key == ORDER)
    assert order.why.endswith(
        "1 ID of the first rows has different rows with one value: of these, the last in the files wins"
    )


def test_bad_bytes_in_json_are_no_encoding(tmp_path: Path) -> None:
    rows = [message("c", key, id=key, n="a") for key in range(20)]
    (tmp_path / "f_1.json").write_bytes(lines(*rows).replace(b'"n": "a"', b'"n": "\xff"', 1))
    assert "encoding" not in settings_of(tmp_path)


@pytest.mark.parametrize("tied", [False, True])
def test_the_row_before_an_update_is_no_tie(tied: bool, tmp_path: Path) -> None:
    """Neither is that of a changed key."""
    updates = [{**message("u", 10 + key, id=key, n="b"), "before": {"id": key, "n": "a"}} for key in range(20)]
    moved = {**message("u", 50, id=99, n="b"), "before": {"id": 1, "n": "b"}}
    inserts = [message("c", key + 1, id=key, n="a") for key in range(20)]
    more = [message("u", 10, id=0, n="c")] if tied else []
    (tmp_path / "f_1.json").write_bytes(lines(*inserts, *updates, moved, *more))
    order = next(one for one in propose(None, [str(tmp_path)], {KEY: "id"}).proposal.choices if one.key == ORDER)
    assert ("1 ID of the first rows has different rows with one value" in order.why) == tied
    assert ("with one value" in order.why) == tied


def whole() -> tuple[list[Any], dict[str, str]]:
    rows = [message("c", 1, id=1, n="a"), message("c", 2, id=2, n="b"), message("d", 3)]
    return rows, {"feed.dialect": "debezium-json"}


def flat() -> tuple[list[Any], dict[str, str]]:
    rows = [{"id": 1, "n": "a", "__op": "c", "__lsn": 1}, {"id": 2, "n": "b", "__op": "c", "__lsn": 2}, None]
    return rows, {"feed.dialect": "debezium-flat", "sequence.pattern": "connect-offset"}


@pytest.mark.parametrize("story", [whole, flat])
def test_files_of_keys_are_read_for_deletes_without_one(story: Any, tmp_path: Path) -> None:
    rows, wanted = story()
    work = Work(tmp_path, settings={})
    (tmp_path / "master").mkdir()
    work.put("feed/t+0+0000000000.json", lines(*rows))
    work.put("feed/t+0+0000000000.keys.json", lines({"id": 1}, {"id": 2}, {"id": 2}))
    found = settings_of(tmp_path / "feed")
    assert found == {**FIRST, **wanted, "feed.keys": "beside", KEY: "id"}
    work.run({**found, "allow.empty.master": "true"})
    assert [row["id"] for row in work.rows()] == [1]


def flat_in_one_millisecond() -> list[dict[str, Any]]:
    rows = ((1, "a", "c"), (2, "a", "c"), (1, "b", "u"))
    return [{"id": at, "n": n, "__op": op, "__source_ts_ms": 1795808648500} for at, n, op in rows]


def without_places() -> list[dict[str, Any]]:
    """Return messages of Maxwell that nothing orders within a transaction."""
    rows = map(test_dialects.maxwell_by_transaction, test_dialects.STORY)
    return [{name: value for name, value in row.items() if name != "xoffset"} for row in rows]


@pytest.mark.parametrize("messages", [without_places, flat_in_one_millisecond])
@pytest.mark.parametrize(
    ("name", "pattern"), [("f_1.json", "last"), ("t+0+0000000000.json", "connect-offset"), ("f.json", None)]
)
def test_names_of_files_order_what_has_no_order(
    messages: Callable[[], list[dict[str, Any]]], name: str, pattern: str | None, tmp_path: Path
) -> None:
    """Else nothing does, or the time, which ties."""
    (tmp_path / name).write_bytes(lines(*messages()))
    proposal = propose(None, [str(tmp_path)], {}).proposal
    order = next(one for one in proposal.choices if one.key == ORDER)
    ties = messages is flat_in_one_millisecond
    assert proposal.settings.get("sequence.pattern") == pattern
    assert order.value == ("__source_ts_ms" if ties and pattern is None else None)
    assert ("1 ID of the first rows has different rows with one value of __source_ts_ms" in order.why) == ties
    assert order.needed == (pattern is None and not ties)


def test_a_view_of_iceberg_needs_a_number(tmp_path: Path) -> None:
    """Its ordinals begin at 0, as those of each view."""
    case = next(one for one in test_flat_dialects.CASES if one.dialect == "iceberg-changelog")
    for name in ("changes", "changes_1"):
        pq.write_table(pa.Table.from_pylist(case.rows(test_flat_dialects.STORY)), tmp_path / f"{name}.parquet")
    proposal = propose(None, [str(tmp_path)], {}).proposal
    assert (proposal.usable, ORDER in proposal.settings) == (False, False)
    assert proposal.questions[-1].startswith("Which number has each file, in the order of the views that they are of?")


@pytest.mark.parametrize("directory", ["partition=1", "year=2026/month=11/day=30/hour=15"])
def test_directories_of_kafka_connect_are_no_fields(directory: str, tmp_path: Path) -> None:
    """Not even where records have a field of that name."""
    (tmp_path / directory).mkdir(parents=True)
    rows = [{"id": number, "partition": "b", "updated_at": f"2026-01-0{number}T10:00:00Z"} for number in range(1, 9)]
    (tmp_path / directory / "orders+1+0000000000.json").write_bytes(lines(*rows))
    found = settings_of(tmp_path)
    assert (found[KEY], found[ORDER], "partitioned.by" in found) == ("id", "updated_at", False)
    given = {
        "key": "id",
        "order_by": "updated_at",
        "order_type": "timestamp",
        "allow_empty_master": True,
        "output_format": "parquet",
    }
    merged = mutator.merge(master=str(tmp_path / "none"), feed=str(tmp_path), **given)
    assert merged.counts["output rows"] == len(rows)
