"""The benchmark of change files: its data, its figures, and what its contenders make of the data."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from bench.contenders.duckdb_dialects import DuckDbDialects
from bench.contenders.polars_dialects import PolarsDialects
from bench.dialect_figures import dialect_targets
from bench.dialects import KINDS, write_change_files, write_delete_of_nothing, write_master_of_changes
from bench.digest import data_files, digest
from bench.figures import Outcome, Result, Run
from bench.layout import CHANGED_FIELDS, DIALECTS
from bench.report import markdown
from bench.workload import workloads
from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
GENUINE = ROOT / "tests" / "formats" / "debezium" / "hot-orders"
ROWS, CHANGES = 2000, 1000
EPOCH = datetime.fromisoformat("1970-01-01")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("changes")
    write_master_of_changes(directory / "master", ROWS)
    for kind in KINDS:
        write_change_files(directory / kind, kind, ROWS, CHANGES)
    return directory


def lines_of(directory: Path) -> list[str]:
    return [line for path in data_files(directory) for line in path.read_text(encoding="ascii").splitlines()]


def messages(directory: Path) -> list[Any]:
    return [json.loads(line) for line in lines_of(directory)]


def test_a_seed_gives_the_same_bytes(data: Path, tmp_path: Path) -> None:
    for kind in KINDS:
        write_change_files(tmp_path / kind, kind, ROWS, CHANGES)
        written = data_files(tmp_path / kind)
        assert [path.read_bytes() for path in written] == [path.read_bytes() for path in data_files(data / kind)]
        assert len(written) == 4


def members(value: Any) -> Any:
    """Return the names of the members of an object, in their order, without those of rows."""
    if not isinstance(value, dict):
        return None
    return {name: members(inner) if name not in ("before", "after") else None for name, inner in value.items()}


def test_messages_are_those_of_debezium(data: Path) -> None:
    genuine = gzip.decompress(data_files(GENUINE)[-1].read_bytes()).decode().splitlines()
    update = next(json.loads(line) for line in genuine if '"op":"u"' in line)
    made = messages(data / "debezium-json")
    assert {json.dumps(members(message)) for message in made if message} == {json.dumps(members(update))}
    assert all(made[row + 1] is None for row, message in enumerate(made) if message and message["op"] == "d")
    with_schema = [message for message in messages(data / "debezium-json schema") if message]
    assert {json.dumps(message["schema"]) for message in with_schema} == {json.dumps(with_schema[0]["schema"])}
    assert described(with_schema[0]["schema"]) == names(with_schema[0]["payload"])


def described(schema: Mapping[str, Any]) -> Any:
    """Return the names of the members that a schema describes; those of a row in ``before`` are left out."""
    if schema["type"] != "struct":
        return None
    return {one["field"]: None if one["field"] == "before" else described(one) for one in schema["fields"]}


def names(value: Any) -> Any:
    return {name: names(inner) for name, inner in value.items()} if isinstance(value, dict) else None


def test_changes_follow_from_the_rows_before_them(data: Path) -> None:
    """A row is created where there is none, and only then; nothing is deleted twice. Orders grow."""
    there = set(pq.read_table(data / "master")["id"].to_pylist())
    found, last = [], (0, 0, 0)
    for message in filter(None, messages(data / "debezium-json")):
        key = (message["after"] or message["before"])["id"]
        found.append(message["op"])
        assert (key in there) == (message["op"] != "c")
        (there.discard if message["op"] == "d" else there.add)(key)
        order = order_of(message)
        assert order > last
        assert message["transaction"]["total_order"] == (last[2] + 1 if order[0] == last[0] else 1)
        last = order
    assert len(found) == CHANGES
    assert 80 <= found.count("d") <= 100
    assert 110 <= found.count("c") <= 130


def order_of(message: Mapping[str, Any]) -> tuple[int, int, int]:
    source = message["source"]
    return int(json.loads(source["sequence"])[0]), source["lsn"], message["transaction"]["total_order"]


# --- the merges


def changes(directory: Path, kind: str) -> Iterator[tuple[Any, bool, dict[str, Any]]]:
    """Yield the order, whether it is a delete, and the row, of each change."""
    if kind == "aws-dms":
        for path in data_files(directory):
            for row in csv.DictReader(path.open(encoding="ascii", newline="")):
                yield row["seq"], row["Op"] == "D", row | {"price": Decimal(row["price"])}
    for line in () if kind == "aws-dms" else lines_of(directory):
        message = json.loads(line, parse_float=Decimal)
        if kind == "json":
            yield message["changed"], message["op"] == "D", message
        elif message:
            message = message.get("payload", message)
            row = message["after"] or message["before"]
            if message["after"]:
                price = row["price"]
                is_exact = kind.endswith("schema")
                cents = int.from_bytes(base64.b64decode(price), signed=True) if is_exact else Decimal(price) * 100
                row |= {"price": Decimal(cents) / 100}
                row |= {"changed": (EPOCH + timedelta(microseconds=row["changed"])).isoformat()}
            yield order_of(message), message["op"] == "d", row


def merged(data: Path, kind: str) -> pa.Table:
    """Return the rows after a merge, computed in the simplest way."""
    schema = pq.read_schema(data_files(data / "master")[0])
    rows = {row["id"]: row for row in pq.read_table(data / "master").to_pylist()}
    last: dict[str, Any] = {}
    for change in changes(data / kind, kind):
        key = change[2]["id"]
        if key not in last or change[0] > last[key][0]:
            last[key] = change
    for key, (_, is_delete, row) in last.items():
        changed = is_delete or datetime.fromisoformat(row["changed"])
        if kind == "json" and key in rows and datetime.fromisoformat(row["changed"]) < rows[key]["changed"]:
            continue
        rows.pop(key, None)
        if not is_delete:
            rows[key] = row | {"stock": int(row["stock"]), "changed": changed}
    return pa.Table.from_pylist([{name: row[name] for name in CHANGED_FIELDS} for row in rows.values()], schema)


@pytest.mark.parametrize("kind", KINDS)
def test_all_contenders_but_spark_give_the_rows_of_a_plain_fold(data: Path, tmp_path: Path, kind: str) -> None:
    pq.write_table(merged(data, kind), tmp_path / "expected.parquet")
    expected = digest([tmp_path / "expected.parquet"])
    for contender in (PolarsDialects(kind), DuckDbDialects(kind)):
        contender.start(tmp_path)
        contender.prepare(data / "master", tmp_path)
        contender.run(data / kind, tmp_path / type(contender).__name__)
        assert digest(data_files(tmp_path / type(contender).__name__)) == expected
    paths = {"master": data / "master", "feed": data / kind, "output": tmp_path / "merged"}
    report = mutator.merge(**paths, config=dict(DIALECTS[kind]), runner="local")
    assert digest(data_files(tmp_path / "merged")) == expected
    assert report.counts["feed rows"] == CHANGES
    assert (report.counts["feed late"] > 0) == (kind == "json")


@pytest.mark.parametrize("kind", KINDS)
def test_a_managed_master_is_made_by_a_feed_that_changes_nothing(data: Path, tmp_path: Path, kind: str) -> None:
    write_delete_of_nothing(tmp_path / "nothing", kind)
    paths = {"master": data / "master", "feed": tmp_path / "nothing", "output": tmp_path / "managed"}
    report = mutator.merge(**paths, config=dict(DIALECTS[kind]), runner="local")
    assert report.counts["feed delete of unknown"] == report.counts["feed rows"] == 1
    assert digest(data_files(tmp_path / "managed")) == digest(data_files(data / "master"))


@pytest.mark.soak
def test_a_small_run_of_all_contenders(tmp_path: Path) -> None:
    """The result of mutator, in runs and in a table, must equal those of the others."""
    command = [sys.executable, "-m", "bench", "--size", "20000", "--work", "dialects", "--repeat", "1"]
    done = subprocess.run(
        [*command, "--out", tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["outcomes"]
    assert [len(outcome["results"]) for outcome in outcomes] == [5, 5, 5, 5, 3]
    for outcome in outcomes:
        assert len({json.dumps(result["digest"]) for result in outcome["results"]}) == 1
        assert all(len(result["runs"]) == 1 for result in outcome["results"])


# --- figures


def test_the_targets_follow_from_the_figures() -> None:
    seconds = {"mutator run aligned": 2.0, "mutator run raw": 1.0, "polars process": 3.0, "pyspark process": 9.0}
    works = {workload.work: workload for workload in workloads(10_000_000, "dialects")}
    outcomes = [
        Outcome(works["dialects aws-dms"], tuple(Result(name, [Run(time, 0, 0, 0)]) for name, time in seconds.items())),
        Outcome(works["dialects table"], (Result("mutator table apply", [Run(2.5, 0, 0, 0)]),)),
    ]
    found = {target.text: target.reached for target in dialect_targets(outcomes) if target.reached is not None}
    assert found == {
        "change files, aws-dms: mutator run aligned 5 times as fast as pyspark process": False,
        "change files, aws-dms: mutator run aligned 1.5 times as fast as polars process": True,
        "change files, 100,000 messages: at most 2 s": False,
    }
    text = markdown(outcomes, {})
    assert "| mutator run raw | 1.00 | 0.50 | 1.00 |" in text
    assert "- missed: change files, 100,000 messages: at most 2 s: 2.50 s" in text


def test_the_change_files_must_fit_beside_the_masters() -> None:
    found = {workload.work: workload.feed_bytes for workload in workloads(10_000_000, "dialects")}
    assert found["dialects debezium-json schema"] == 1_000_000 * KINDS["debezium-json schema"]
    assert found["dialects table"] == 100_000 * KINDS["debezium-json"]
    assert {workload.feed_bytes for workload in workloads(10_000_000, "5%")} == {0}
