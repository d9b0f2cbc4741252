"""Keys of messages in files of their own: for deletes that have none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.errors import ConfigError, DataError
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import KeyFile, Window, Wrapped
from mutator.formats.files import key_files
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.path_fields import read_rows
from mutator.rules.envelope import FileOperation, Keys, Unwrapped
from mutator.table.table import Table
from tests.formats.test_debezium_avro import ROWS
from tests.formats.test_debezium_avro import message as of_avro
from tests.formats.test_debezium_json import DEBEZIUM, FEEDS, TABLES, _lines, lines, message
from tests.support import local_engine
from tests.support.connect_files import avro_file
from tests.support.in_memory import InMemory
from tests.support.named_runs import ENGINES, Work, avro
from tests.support.no_limits import NO_LIMITS

ROW = {"id": 1, "n": "a"}
KEY = avro(("id", "int"), name="Key")
MANY = 40


def story(made: Callable[..., Any]) -> tuple[list[Any], list[Any]]:
    """Return messages and their keys: rows are inserted, and those with an even ID deleted without a before image."""
    inserts = [made("c", {"id": number, "n": "x" * 30}, lsn=number) for number in range(MANY)]
    deletes = [made("d", lsn=100 + number) for number in range(0, MANY, 2)]
    return [*inserts, *deletes], [{"id": number} for number in (*range(MANY), *range(0, MANY, 2))]


def json_lines(rows: Sequence[Any]) -> bytes:
    return lines(*rows)


def packed(rows: Sequence[Any]) -> bytes:
    return gzip.compress(lines(*rows))


def with_schema(rows: Sequence[Any]) -> bytes:
    return lines(*({"schema": {"type": "struct"}, "payload": row} for row in rows))


def containers(rows: Sequence[Any]) -> bytes:
    schema = ROWS if "op" in rows[0] else KEY
    return avro_file(schema, rows, codec="null")


FORMS: list[tuple[str, str, Callable[..., bytes], str, Callable[..., bytes]]] = [
    ("json", ".json", json_lines, "feed/f_1.keys.json", json_lines),
    ("json", ".json.gz", packed, "feed/f_1.keys.json.gz", packed),
    ("json", ".json", json_lines, "feed/f_1.keys.json", with_schema),
    ("json", ".json", json_lines, "feed/f_1.keys.avro", containers),
    ("avro", ".avro", containers, "feed/f_1.keys.avro", containers),
    ("avro", ".avro", containers, "feed/f_1.keys.json", json_lines),
    ("json", ".json", json_lines, "keys/f_1.json", json_lines),
]


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("dialect", "suffix", "values", "twin", "keys"), FORMS)
def test_deletes_without_a_key(
    tmp_path: Path,
    dialect: str,
    suffix: str,
    values: Any,
    twin: str,
    keys: Any,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any split of a file finds the keys of its own rows."""
    monkeypatch.setattr(key_files, "_BLOCK", 64)
    made = message if dialect == "json" else of_avro
    settings = {**DEBEZIUM, "feed.dialect": f"debezium-{dialect}", "split.bytes": "1500", "output.format": "parquet"}
    work = Work(tmp_path, engine, {"key": "id", **settings})
    (tmp_path / "master").mkdir()
    rows, own = story(made)
    work.put(f"feed/f_1{suffix}", values(rows))
    work.put(twin, keys(own))
    without = work.run()
    reason = without.rejects["feed"][0]["reason"]
    assert reason.endswith("or have the sink write the keys (store.kafka.keys=true), and set feed.keys")
    assert without.counts["feed rejected"] == MANY // 2
    is_beside = twin.startswith("feed/")
    report = work.run({"feed.keys": "beside" if is_beside else str(tmp_path / "keys")})
    assert [row["id"] for row in sorted(work.rows(), key=lambda row: row["id"])] == [*range(1, MANY, 2)]
    assert (report.counts["feed rows"], report.rejects) == (len(rows), {})
    note = f"1 file of keys or headers ({twin[5:]}) are not read; feed.keys=beside reads keys for deletes without one"
    assert (note in without.notes) == is_beside


@dataclass(frozen=True)
class Counted(InMemory):
    """Content that counts the bytes that are read from streams."""

    sizes: list[int] = field(default_factory=list)

    def blocks(self) -> Iterator[bytes]:
        """Yield small ones."""
        yield from (self.data[start : start + 100] for start in range(0, len(self.data), 100))

    def file(self) -> Any:
        """Open the content."""
        sizes = self.sizes

        class Stream(BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                found = super().read(size)
                sizes.append(len(found))
                return found

            def __next__(self) -> bytes:
                found = super().__next__()
                sizes.append(len(found))
                return found

        return Stream(self.data)


@dataclass(frozen=True, kw_only=True)
class EveryOther(FileOperation):
    """Rows of the keys of every other message."""

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        return ["op"]

    def unwrap_with_keys(self, batch: Any, records: Any, keys: Keys) -> Unwrapped:
        rows = np.arange(len(batch))[::2]
        return Unwrapped(pa.RecordBatch.from_pydict(dict(keys(rows, ["id"]))), rows)


@pytest.mark.parametrize("key_format", ["json", "avro"])
@pytest.mark.parametrize("dialect", ["json", "avro"])
def test_a_split_reads_both_files_once(dialect: str, key_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its batches have deletes without a key."""
    monkeypatch.setattr(key_files, "_BLOCK", 64)
    monkeypatch.setattr("mutator.formats.files.json_lines._CHUNK", 400)
    rows, keys = story(message if dialect == "json" else of_avro)
    made = {"json": json_lines, "avro": containers}
    values, of_rows, of_keys = made[dialect](rows), Counted(made[dialect](rows)), Counted(made[key_format](keys))
    schema = FILE_FORMATS[dialect].probe(BytesIO(values), Dialect()).schema
    wrapped = Wrapped(EveryOther(), schema, KeyFile(of_keys, key_format, of_rows))
    found = list(read_rows(dialect, Counted(values, Window("lf", wrapped=wrapped)), schema, ["id"], Dialect()))
    assert len(found) > 5
    sizes = [one.lines for one in found]
    expected = [keys[row]["id"] for row, size in zip(np.cumsum([0, *sizes]), sizes, strict=False)]
    assert [int(one.batch.column(0)[0].as_py()) for one in found] == expected
    for content in (of_rows, of_keys):
        assert sum(content.sizes) <= 4 * len(content.data)  # the header of Avro several times


def test_keys_of_a_genuine_feed(tmp_path: Path) -> None:
    """The images before deletes are left out, as REPLICA IDENTITY NOTHING does; the rows stay the same."""
    work = Work(tmp_path, settings={"key": TABLES["orders"][1], **DEBEZIUM, "output.format": "parquet"})
    (tmp_path / "master").mkdir()
    found = []
    for where in ("feed", "cut"):
        for number, part in enumerate(_lines(FEEDS / "truncate-orders")[at::2] for at in range(2)):
            said = [json.loads(line) for line in part]
            images = [(one["before"] or one["after"] or {}) if one else {} for one in said]
            keys = [{name: image.get(name) for name in ("order_id", "line")} for image in images]
            cut = [one if one is None or one["op"] != "d" else {**one, "before": None} for one in said]
            work.put(f"{where}/o+0+{number}.json", lines(*(cut if where == "cut" else said)))
            work.put(f"{where}/o+0+{number}.keys.json", lines(*keys))
        work.run({"feed.keys": "beside"} if where == "cut" else {}, feed=where)
        found.append(work.rows())
    assert found[0] == found[1]
    assert len(found[0]) == 37


FLAT = {"key": "id", "feed.dialect": "debezium-flat", "sequence.pattern": "connect-offset"}


@pytest.mark.parametrize("engine", ENGINES)
def test_deletes_that_are_a_tombstone(tmp_path: Path, engine: str) -> None:
    work = Work(tmp_path, engine, {**FLAT, "feed.keys": "beside", "reject.policy": "quarantine"})
    work.put("master/m", pa.schema([("id", pa.int64()), ("n", pa.string())]).empty_table(), "parquet")
    work.put("feed/t+0+0000000000.json", lines(ROW, {"id": 2, "n": "b"}, None, {"id": 3, "n": "c"}, None))
    work.put("feed/t+0+0000000000.keys.json", lines({"id": 1}, {"id": 2}, {"id": 1}, {"id": 3}, None))
    work.put("feed/t+0+0000000005.json", lines({"id": 1, "n": "again"}, None))
    work.put("feed/t+0+0000000005.keys.json", lines({"id": 1}, {"id": 3}))
    report = work.run()
    assert sorted(work.rows(), key=str) == [{"id": 1, "n": "again"}, {"id": 2, "n": "b"}]
    assert [one["reason"][:24] for one in report.rejects["feed"]] == ["is a delete without a ke"]
    with pytest.raises(ConfigError, match=r"feed\.keys: deletes that are null .*; set sequence\.pattern=connect"):
        work.run({"sequence.pattern": "", "order_by": "n"})


def test_a_tombstone_after_a_rewritten_delete_is_redundant(tmp_path: Path) -> None:
    work = Work(tmp_path, settings={**FLAT, "feed.keys": "beside"})
    work.put("master/m", pa.schema([("id", pa.int64()), ("n", pa.string())]).empty_table(), "parquet")
    rows = [{**ROW, "__deleted": "false"}, {**ROW, "__deleted": "true"}, None]
    work.put("feed/t+0+0000000000.json", lines(*rows))
    work.put("feed/t+0+0000000000.keys.json", lines(*[{"id": 1}] * 3))
    report = work.run()
    assert work.rows() == []
    assert "messages that are no rows: 1 tombstone" in report.notes


BAD: list[tuple[str, bytes, str]] = [
    (
        "keys.bin",
        b"",
        r"f_1\.json: has no file of keys beside it, such as f_1\.keys\.json; have the sink write",
    ),
    (
        "keys.json",
        lines({"id": 1}),
        r"f_1\.keys\.json: has 1 key, and f_1\.json 2 messages, so that nothing says",
    ),
    ("keys.json", lines({"id": 1}, {"id": 1}, {"id": 1}), "has 3 keys, and f_1.json 2 messages"),
    ("keys.json.gz", b"\x1f\x8b\x08", r"f_1\.keys\.json\.gz: its gzip content ends early"),
]


@pytest.mark.parametrize(("name", "content", "why"), BAD)
def test_files_of_keys_that_do_not_fit(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    work = Work(tmp_path, settings={"key": "id", **DEBEZIUM, "feed.keys": "beside"})
    (tmp_path / "master").mkdir()
    work.put("feed/f_1.json", lines(message("c", ROW), message("d")))
    work.put(f"feed/f_1.{name}", content)
    with pytest.raises(DataError, match=why):
        work.run()


def test_init_leaves_out_files_of_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two commands: the second one reads what the first one proposed."""
    monkeypatch.chdir(tmp_path)
    work = Work(tmp_path)
    rows, keys = story(message)
    work.put("feed/t+0+0000000000.json", lines(*rows))
    work.put("feed/t+0+0000000000.keys.json", lines(*keys))
    assert main(["init", "--feed", "feed"]) == 0
    assert "1 file, JSON Lines" in capsys.readouterr().out
    assert main(["run", "-D", "feed.keys=beside", "--output", "out", "-D", "max.delete.fraction=1"]) == 0
    assert mutator.Dataset(tmp_path / "out").to_arrow().num_rows == MANY // 2


@pytest.mark.rest
def test_on_spark(sc: Any, tmp_path: Path) -> None:
    work, found = Work(tmp_path), []
    rows, keys = story(of_avro)
    work.put("feed/f_1.avro", containers(rows))
    work.put("feed/f_1.keys.json", lines(*keys))
    settings = {"key": "id", **DEBEZIUM, "feed.dialect": "debezium-avro", "feed.keys": "beside", "split.bytes": "1500"}
    settings |= {**NO_LIMITS, "num.reducer": "3", "output.format": "parquet"}
    for name in ("spark", "local"):
        places = {"master": tmp_path / "none", "feed": tmp_path / "feed", "output": tmp_path / name}
        report = mutator.mutate(sc, settings, **places) if name == "spark" else local_engine.mutate(settings, **places)
        found.append((report.counts, sorted(map(str, mutator.Dataset(tmp_path / name).to_arrow().to_pylist()))))
    assert found[0] == found[1]
    assert len(found[0][1]) == MANY // 2


def test_a_workflow_takes_keys_from_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, work = tmp_path / "base", Work(tmp_path)
    work.put("base/incr/f_1.json", lines(message("c", ROW), message("c", {"id": 2, "n": "b"}), message("d", lsn=2)))
    for name in ("keys/f_1.json", "base/incr/f_1.keys.json"):
        work.put(name, lines({"id": 1}, {"id": 2}, {"id": 1}))
    own = {"feed.dialect": "debezium-json", "allow.empty.master": "true", "claim.min.age": "0s"}
    run = ["workflow", "run", str(base), "--key", "id"]
    run += [word for name, value in own.items() for word in ("-D", f"{name}={value}")]
    assert main([*run, "-D", "feed.keys=beside"]) != 0
    assert "before its keys have arrived; have the keys delivered to a directory" in capsys.readouterr().err
    assert main([*run, "-D", f"feed.keys={tmp_path / 'keys'}"]) == 0
    assert "not claimed: f_1.keys.json: is a file of keys or headers" in capsys.readouterr().out
    assert [row["id"] for row in mutator.Dataset(base / "master").to_arrow().to_pylist()] == [2]


def test_a_table_takes_keys(tmp_path: Path) -> None:
    settings = {"key": "id", "order_by": "source.lsn", "feed.dialect": "debezium-json", "feed.keys": "beside"}
    table, work = Table.create(str(tmp_path / "table"), {**settings, **NO_LIMITS}), Work(tmp_path)
    feed = work.put("feed/f_1.json", lines(message("c", ROW), message("c", {"id": 2, "n": "b"}), message("d", lsn=2)))
    work.put("feed/f_1.keys.json", lines({"id": 1}, {"id": 2}, {"id": 1}))
    table.apply(str(feed.parent))
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == [2]


NULLS = [{"id": 1, "n": "a", "__op": "c"}, {"id": 2, "n": "b", "__op": "c"}, None]
SAYS = [{**row, "__deleted": "false"} for row in NULLS[:2] if row]


@pytest.mark.parametrize(
    ("rows", "settings", "lost"),
    [
        (NULLS, {}, "1 row of the feed is null, a delete that does not say of which record: the record stays. "),
        (
            [*NULLS, None],
            {},
            "2 rows of the feed are null, deletes that do not say of which records: the records stay. ",
        ),
        ([*SAYS, {"id": 2, "n": "", "__op": "d", "__deleted": "true"}, None], {}, ""),
        (NULLS, {"feed.keys": "beside"}, ""),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_lost_deletes_are_a_warning(tmp_path: Path, rows: Any, settings: Any, lost: str, engine: str) -> None:
    work = Work(tmp_path, engine, {**FLAT, "output.format": "csv", "allow.empty.master": "true"})
    (tmp_path / "master").mkdir()
    work.put("feed/t+0+0000000000.json", lines(*rows))
    work.put("feed/t+0+0000000000.keys.json", lines({"id": 1}, {"id": 2}, *({"id": 2} for _ in rows[2:])))
    found = [one for one in work.run(settings).warnings if "null" in one]
    assert [one[: len(lost)] for one in found] == ([lost] if lost else [])
    assert all("set feed.keys=beside; or" in one for one in found)
    assert [row["id"] for row in work.rows()] == (["1", "2"] if lost else ["1"])
