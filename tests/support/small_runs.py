"""Small masters of delimited text with one row per key, and runs over them in this process."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import mutator
from mutator.dataset import manifest
from mutator.dataset.side_columns import read_tombstones
from mutator.dataset.state import State
from mutator.plan.run_plan import Plan, make_plan
from mutator.rules.key_hash import bucket_of
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import Dataset

PARTITIONS = [1, 2, 7, 64]
BY_FIELD = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "deleted.record.file.prefix": "del",
    **NO_LIMITS,
}
BY_NAME = {name: value for name, value in BY_FIELD.items() if name != "temporal.ordering.field.ordinal"}
KEYS = [b"k%02d" % number for number in range(40)]


def spy(function: Callable[..., Any], calls: list[Any]) -> Callable[..., Any]:
    def spying(*given: Any) -> Any:
        calls.append(given)
        return function(*given)

    return spying


def put(path: Path, rows: Sequence[tuple[bytes, int]], value: bytes = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(b"%s,%d,%s\n" % (key, order, value) for key, order in rows))


def number(tmp_path: Path, name: str) -> Path:
    return tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}"


def feed(tmp_path: Path, value: bytes = b"y", **files: Sequence[tuple[bytes, int]]) -> Path:
    """Write feed files, given their names without suffix and the (key, order value) of their rows."""
    directory = number(tmp_path, "feed")
    directory.mkdir()
    for name, rows in files.items():
        put(directory / f"{name}.txt", rows, value)
    return directory


def unmanaged(tmp_path: Path, files: int = 2) -> Path:
    directory = number(tmp_path, "master")
    for at in range(files):
        put(directory / f"m{at}.txt", [(key, 1) for key in KEYS[at::files]])
    return directory


def merge(
    tmp_path: Path,
    master: Path,
    feed_path: Path,
    base: dict[str, str] = BY_FIELD,
    engine: str = "auto",
    dry_run: bool = False,
    now: int = 1_800_000_000_000,
    plans: list[Plan] | None = None,
    on: Callable[..., mutator.Report] = local_engine.mutate,
    **options: Any,
) -> mutator.Report:
    """Run; options are settings with ``_`` for ``.``. plans: a list to which the plan of the run is appended."""
    given = {**base, **{name.replace("_", "."): str(value) for name, value in options.items()}}
    clock = SimpleNamespace(time=lambda: now / 1000, monotonic=time.monotonic)

    def remember(*given: Any) -> Plan:
        plan = make_plan(*given)
        (plans if plans is not None else []).append(plan)
        return plan

    with patch("mutator.pipeline.merge.time", clock), patch("mutator.pipeline.merge.make_plan", remember):
        return on(
            given,
            master=str(master),
            feed=[str(feed_path)],
            output=str(number(tmp_path, "output")),
            engine=engine,
            dry_run=dry_run,
        )


def managed(tmp_path: Path, base: dict[str, str] = BY_FIELD, **options: Any) -> Path:
    """Create a managed master of KEYS, all with the order value 1."""
    return Path(merge(tmp_path, unmanaged(tmp_path), feed(tmp_path), base, **options).output)


def known(output: str | Path) -> State:
    return manifest.parse(Path(output, manifest.PATH).read_bytes(), "manifest")


def rows_of(output: str | Path) -> dict[str, list[bytes]]:
    return {part.path: Path(output, part.path).read_bytes().splitlines() for part in known(output).files}


def all_rows(output: str | Path) -> list[bytes]:
    return sorted(row for rows in rows_of(output).values() for row in rows)


def tombstones_of(output: str | Path) -> dict[bytes, bytes | None]:
    found = {}
    for part in known(output).beside:
        if part.role == "tombstones":
            with Path(output, part.path).open("rb") as stream:
                found |= {key[0]: order for key, order, _ in read_tombstones(stream)}
    return found


def check_buckets(output: str | Path) -> None:
    """Check that every row is in the file of its bucket, and that rows keep their original order."""
    written = known(output)
    for part in written.files:
        keys = [row.split(b",")[0] for row in Path(output, part.path).read_bytes().splitlines()]
        assert {bucket_of((key,), written.bucket_count) for key in keys} == {part.bucket}


def content(made: Dataset) -> dict[str, Any]:
    """Return the contents and the report of an output, without run ids and times."""
    rejects = [part["path"] for part in made.document["beside"] if part["kind"] == "rejected"]
    return {
        "rows": made.buckets,
        "order values": [row.order for row in made.rows],
        "tombstones": made.tombstones,
        "counts": made.counts,
        "samples": made.samples,
        "horizon": made.horizon,
        "snapshot": made.document["snapshot"],
        "spec": made.document["spec"],
        "rejects": [without_place(Path(made.path, path).read_bytes()) for path in rejects],
        "consumed": [{**one, "committed": None} for one in made.document["feed"]],
        "shown": re.sub(r"/\S*/(?=feed|master)", "", str(made.report.rejects)),
    }


def without_place(rejects: bytes) -> list[bytes]:
    return re.findall(rb"(?m)^\S*/((?:feed|master)\S*\t.*)$", rejects)


def carried_and_written(master: Path, output: str | Path) -> tuple[set[str], set[str]]:
    """Return the names of the data files that are hard links to the master's files, and of the others."""
    same, other = set(), set()
    for part in known(output).files:
        at = master / part.path
        there = at.exists() and at.stat().st_ino == Path(output, part.path).stat().st_ino
        (same if there else other).add(part.path)
    return same, other


def promised(**options: Any) -> dict[str, Any]:
    return {"master_unique": "true", **options}
