"""The seam of envelopes: toys that say more than op codes and delete files, in both engines."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mutator
from mutator.formats.files.avro_schema import avro_of
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules.envelope_kind import EnvelopeKind
from mutator.rules.envelopes import ENVELOPES
from tests.laws.test_floor import BY_NAME, RUN, world
from tests.laws.test_registers import ENGINES, tombstones_in
from tests.laws.toy_envelopes import KeyChanges, Messages, Row, lowered
from tests.support import local_engine


@pytest.fixture
def key_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the op code K as a change of the key."""
    monkeypatch.setitem(ENVELOPES, "code", EnvelopeKind(KeyChanges, "delete.when"))  # type: ignore[arg-type]


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read rows as messages."""
    monkeypatch.setitem(ENVELOPES, "code", EnvelopeKind(Messages, "delete.when"))  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_may_say_two_mutations_or_none(key_changes: None, engine: str, tmp_path: Path) -> None:
    header = "id,at,op,old,name\n"
    (tmp_path / "master").mkdir()
    (tmp_path / "master" / "m.csv").write_text("id,at,old,name\na,3,,m\nb,3,,m\n")
    (tmp_path / "feed").mkdir()
    rows = ["c,5,K,a,x", "b,4,U,,n", ",6,H,,", "d,7,K,c,y", "e,9,K,f,z"]
    (tmp_path / "feed" / "f.csv").write_text(header + "".join(f"{row}\n" for row in rows))
    out = tmp_path / "out"

    report = local_engine.mutate(
        {**BY_NAME, **RUN}, master=tmp_path / "master", feed=tmp_path / "feed", output=out, engine=engine
    )

    written = sorted(line for path in out.glob("part-*") for line in path.read_text().splitlines()[1:])
    assert written == ["b,4,,n", "d,7,c,y", "e,9,f,z"]
    buried = sorted((key[0].decode(), int(order)) for key, order, _ in tombstones_in(out))
    assert buried == [("a", 5), ("c", 7), ("f", 9)]
    counts = report.counts
    assert (counts["feed rows"], counts["feed halves"], counts["feed no mutations"]) == (4, 3, 1)
    assert (counts["feed superseded"], counts["feed deleted"], counts["feed delete of unknown"]) == (1, 1, 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_is_a_reject_if_one_of_its_mutations_is(key_changes: None, engine: str, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "f.csv").write_text("id,at,op,old,name\nc,5,K,NULL,x\nb,4,U,,n\n")
    (tmp_path / "master").mkdir()
    (tmp_path / "master" / "m.csv").write_text("id,at,old,name\n")
    settings = {**BY_NAME, **RUN, "csv.null": "NULL", "reject.policy": "quarantine"}
    places = {name: tmp_path / name for name in ("master", "feed", "output")}

    report = local_engine.mutate(settings, **places, engine=engine)

    assert (report.counts["feed rows"], report.counts["feed rejected"], report.counts["feed inserted"]) == (2, 1, 1)


RECORD = pa.struct([("id", pa.string()), ("name", pa.string())])
MESSAGE = pa.schema(
    [("before", RECORD), ("after", RECORD), ("source", pa.struct([("at", pa.int64())])), ("op", pa.string())]
)


def write_messages(path: Path, rows: list[Row], suffix: str) -> None:
    """Write mutations as messages, and one that says nothing of a record."""
    found: list[dict[str, Any]] = [{}]
    for key, order, op, content in rows:
        record = {"id": key, "name": content}
        before, after = (record, None) if op == "D" else (None, record)
        found.append({"before": before, "after": after, "source": {"at": order}, "op": "d" if op == "D" else "u"})
    table = pa.Table.from_pylist(found, MESSAGE)
    with path.open("wb") as stream:
        dialect = Dialect(avro=avro_of(MESSAGE, None) if suffix == "avro" else None)
        writer = FILE_FORMATS[suffix].writer(stream, MESSAGE, dialect)
        for batch in table.to_batches():
            writer.write(batch)
        writer.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("suffix", ["parquet", "orc", "avro"])
def test_the_rows_of_a_file_may_be_messages(messages: None, engine: str, suffix: str, tmp_path: Path) -> None:
    rows = [row for row in world(random.Random(7)) if row[2] != "T"]
    master, feed, out = (tmp_path / name for name in ("master", "feed", "out"))
    for place in (master, feed):
        place.mkdir()
    write_messages(feed / f"f.{suffix}", rows, suffix)
    settings = {
        "key": "id",
        "order_by": "at",
        "op": "op",
        "delete_codes": "d",
        "output.format": suffix,
        "allow.empty.master": "true",
        **RUN,
    }

    report = local_engine.mutate(settings, master=master, feed=feed, output=out, engine=engine)

    found = mutator.Dataset(out).to_arrow().to_pylist()
    records, buried = lowered({}, rows)
    assert sorted((one["id"], one["at"], one["name"]) for one in found) == records
    assert sorted((key[0].decode(), int(order)) for key, order, _ in tombstones_in(out)) == buried
    assert (report.counts["feed rows"], report.counts["feed ignored"]) == (len(rows), 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_delimited_text_is_unwrapped_if_its_fields_have_names(key_changes: None, engine: str, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "f.txt").write_text("a,4,U,,n\nc,5,K,a,x\n")
    settings = {"key": "id", "order_by": "at", "op": "op", "field.names": "id,at,op,old,name", **RUN}
    settings |= {"allow.empty.master": "true", "output.format": "csv"}
    out = tmp_path / "out"

    local_engine.mutate(settings, master=tmp_path / "m", feed=tmp_path / "feed", output=out, engine=engine)

    assert sorted(line for path in out.glob("part-*") for line in path.read_text().splitlines()) == [
        "c,5,a,x",
        "id,at,old,name",
    ]


def test_a_file_without_messages_is_an_error(messages: None, tmp_path: Path) -> None:
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "f.csv").write_text("id,at,op,name\na,1,u,x\n")
    settings = {**BY_NAME, "allow.empty.master": "true", **RUN}

    with pytest.raises(mutator.DataError, match=r"f\.csv: has no field after"):
        local_engine.mutate(settings, master=tmp_path / "m", feed=feed, output=tmp_path / "out")
