"""The page on the format of a table: an entry has the members that it lists, and a key index the layout."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mutator.dataset.checksum import of_blocks
from mutator.dataset.versions.hidden_rows import SCHEMA
from mutator.rules.key_hash import hash_key
from mutator.table.table import Table

PAGE = (Path(__file__).parents[2] / "docs" / "table_format.md").read_text()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    base = tmp_path_factory.mktemp("format")
    for number, text in enumerate(("1,5,lamp,I\n2,6,desk,I\n", "2,8,chair,U\n1,9,,D\n")):
        (base / f"feed{number}").mkdir()
        (base / f"feed{number}" / f"f{number}.csv").write_text("id,at,name,op\n" + text)
    settings = {"key": "id", "order_by": "at", "op": "op", "header": True, "max.delete.fraction": "1"}
    table = Table.create(str(base / "t"), settings)
    for number in range(2):
        table.apply(str(base / f"feed{number}"))
    return Path(table.path)


def entry(table, number):
    return json.loads((table / f"_mutator/table/log/{number:020d}.json").read_text())


def section(title):
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def listed(title):
    """Return the names in the first column of the table of a section."""
    rows = re.findall(r"^\| ([^|]+) \|", section(title), re.MULTILINE)[1:]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row) or [row]]


def test_the_page_lists_the_members_of_an_entry(table):
    rare = {"floor", "parts", "truncates"}  # of tables that have had a truncate, or a snapshot of a part
    assert set(listed("Log")) - rare == entry(table, 2).keys() - {"checksum"}
    assert set(entry(table, 2)["files"][0]) == {"role", "rows", "data", "index", "schema", "extents"}


def test_the_page_lists_the_columns_of_a_version_index(table):
    (index,) = entry(table, 2)["index"]
    found = pa.ipc.open_file(base64.b64decode(index["content"])).schema

    assert listed("Version index") == SCHEMA.names == found.names


def test_a_key_index_has_the_layout_of_the_page(table):
    (data,) = (file for file in entry(table, 1)["files"] if file["role"] == "data")
    content = base64.b64decode(data["index"]["content"])
    columns = np.dtype("<u8"), np.dtype("<u4"), np.dtype("<u4"), np.dtype("<u4")
    body, digests = content[:-16], content[-16:]
    hashes, positions, _, ends = (
        np.frombuffer(body, kind, 2, offset) for kind, offset in zip(columns, (0, 16, 24, 32), strict=True)
    )
    keys = [body[40 + start : 40 + end] for start, end in zip((0, *ends[:-1].tolist()), ends.tolist(), strict=True)]

    assert [rows for _, _, rows, _ in data["extents"]] == [1, 1]
    assert sorted(keys) == [b"1", b"2"]
    assert sorted(positions.tolist()) == [0, 1]
    assert hashes.tolist() == [hash_key((key,)) for key in keys]
    at = 40 + int(ends[-1])
    assert [body[at + number] + 5 for number in range(2)] == [(5, 6)[position] for position in positions]
    assert struct.unpack("<qBB6s", body[at + 2 :]) == (5, 2, 1, b"orders")
    assert data["index"]["checksum"] == of_blocks([body], None) == f"xxh3-128:{digests.hex()}"
