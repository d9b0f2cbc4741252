"""Changed rows of a dataset, read without the package, and their replay over rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import fastavro
from pyarrow import parquet

CHANGES = ("insert", "update_preimage", "update_postimage", "delete")
FIELDS = ("_change_type", "_commit_version", "_commit_timestamp")


def change_files(dataset: str | Path) -> list[Path]:
    """Return the files of changed rows that a manifest names, in their order."""
    document = json.loads(Path(dataset, "_mutator", "manifest.json").read_bytes())
    return [Path(dataset, part["path"]) for part in document["beside"] if part["kind"] == "changes"]


def changed_rows(dataset: str | Path) -> list[dict[str, Any]]:
    """Read the changed rows of a dataset."""
    rows: list[dict[str, Any]] = []
    for path in change_files(dataset):
        if path.suffix in (".avro", ".records"):
            with path.open("rb") as stream:
                rows += fastavro.reader(stream)
        else:
            rows += parquet.read_table(path).to_pylist()
    return rows


def text_row(row: Mapping[str, Any], delimiter: str = ",") -> bytes:
    """Return the bytes of a changed row of delimited text."""
    if row["_row"] is not None:
        return bytes(row["_row"])
    return delimiter.join(value for name, value in row.items() if name not in (*FIELDS, "_row")).encode()


def counted(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of changed rows of each kind."""
    found = Counter(row["_change_type"] for row in rows)
    return {name: found[name] for name in CHANGES}


def reported(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of changed rows of each kind that the counts of a run promise."""
    updated = counts["feed updated"]
    gone = counts["feed deleted"] + counts["master deleted by absence"]
    return dict(zip(CHANGES, (counts["feed inserted"], updated, updated, gone), strict=True))


def replayed(rows: Counter[Any], changes: Iterable[tuple[str, Any]]) -> Counter[Any]:
    """Return a bag of rows after changes, given as (kind, row). Each row that leaves the bag must be in it."""
    left = Counter(rows)
    came: Counter[Any] = Counter()
    for kind, row in changes:
        if kind in ("insert", "update_postimage"):
            came[row] += 1
            continue
        assert left[row] > 0, f"{kind} of a row that is not there: {row!r}"
        left[row] -= 1
    return +(left + came)
