"""The difference of two datasets equals that of two dicts, for every format, partitioning and number of tasks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc, parquet

import mutator
from mutator import config
from mutator.pipeline.diff.compare import LENIENT, OVERWRITE, compare, compare_feed
from tests.support import local_engine
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch

Rows = dict[str, tuple[str, int]]  # id -> name, shop

KEYS = ["a", "b", "c", "é", "10", "9", ""]
ROWS = st.dictionaries(st.sampled_from(KEYS), st.tuples(st.sampled_from(["x", "y", "ü"]), st.integers(0, 2)))
ALL = 100  # records to show


def write(path: Path, file_format: str, rows: Rows, files: int) -> Path:
    """Write a dataset of a few files."""
    path.mkdir()
    items = list(rows.items())
    for number in range(files):
        ids, values = [key for key, _ in items[number::files]], [value for _, value in items[number::files]]
        table = pa.table(
            {"id": pa.array(ids, pa.string()), "name": [name for name, _ in values], "shop": [n for _, n in values]},
            schema=pa.schema([("id", pa.string()), ("name", pa.string()), ("shop", pa.int64())]),
        )
        if file_format == "parquet":
            parquet.write_table(table, path / f"p{number}.parquet")
        elif file_format == "orc":
            orc.write_table(table, path / f"p{number}.orc")
        else:
            lines = [",".join([key, name, str(shop)]) for key, (name, shop) in zip(ids, values, strict=True)]
            (path / f"p{number}.txt").write_text("".join(f"{line}\n" for line in lines))
    return path


def settings(file_format: str, rng: random.Random, **more: str) -> dict[str, str]:
    key = "0" if file_format == "text" else "id"
    speed = {"num.reducer": str(rng.choice([1, 2, 3])), "split.bytes": str(rng.choice([16, 1 << 20]))}
    return {"key": key, "delimiter": ",", "header.check": "false", **speed, **more}


def managed(path: Path, master: Path, given: dict[str, str], rng: random.Random) -> Path:
    """Return the dataset as a run writes it."""
    empty = path.parent / f"{path.name}-empty"
    empty.mkdir()
    engine = rng.choice(["blocks", "records"]) if "partitioned.by" not in given else "blocks"
    local_engine.mutate(
        {**given, "allow.empty.master": "true", **NO_LIMITS},
        master=str(master),
        feed=[str(empty)],
        output=str(path),
        engine=engine,
    )
    return path


def as_rows(row: Any) -> tuple[str, tuple[str, int]]:
    key, name, shop = list(row.values())
    return key, (name, int(shop))


def check(found: Any, old: Rows, new: Rows) -> None:
    changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
    counts = {"added": len(new.keys() - old), "removed": len(old.keys() - new), "changed": len(changed)}
    assert {name: found.members()["counts"][name] for name in counts} == counts
    assert dict(map(as_rows, found.added)) == {key: new[key] for key in new.keys() - old}
    assert dict(map(as_rows, found.removed)) == {key: old[key] for key in old.keys() - new}
    assert {next(iter(one["key"].values())) for one in found.changed} == changed
    for one in found.changed:
        (key,) = one["key"].values()
        differ = [(before, after) for before, after in zip(old[key], new[key], strict=True) if before != after]
        shown = [
            (type(before)(pair[0]), type(after)(pair[1]))
            for (before, after), pair in zip(differ, one["changes"].values(), strict=True)
        ]
        assert shown == differ


@pytest.mark.parametrize("file_format", ["text", "parquet", "orc"])
@given(ROWS, ROWS, st.randoms(use_true_random=False))
@law(60)
def test_diff_equals_a_difference_of_dicts(file_format, old, new, rng):
    with scratch() as work:
        given_settings = settings(file_format, rng)
        one = write(work / "one", file_format, old, rng.randint(1, 2))
        other = write(work / "other", file_format, new, rng.randint(1, 2))
        if old and rng.random() < 0.6:
            one = managed(work / "old", one, given_settings, rng)
        if new and rng.random() < 0.6:
            other = managed(work / "new", other, given_settings, rng)
        checked = config.parse({**LENIENT, **OVERWRITE, **given_settings})
        check(compare(checked, str(one), str(other), local_engine.merge, rows=ALL), old, new)


@pytest.mark.parametrize("scope", ["table", "partition"])
@given(ROWS, ROWS, st.randoms(use_true_random=False))
@law(40)
def test_diff_of_partitioned_datasets(scope, old, new, rng):
    if not old or not new:
        return
    with scratch() as work:
        how = settings("text", rng, **{"partitioned.by": "2", "key.scope": scope})
        one = managed(work / "old", write(work / "one", "text", old, 2), how, rng)
        other = managed(work / "new", write(work / "other", "text", new, 2), how, rng)
        found = compare(
            config.parse({**LENIENT, **OVERWRITE, **how}), str(one), str(other), local_engine.merge, rows=ALL
        )
        if scope == "table":
            check(found, old, new)
            moved = sum(old[key][1] != new[key][1] for key in old.keys() & new.keys())
            assert found.counts.get("moved", 0) == moved
        else:  # an ID may have a record in each partition
            left, right = {(*row,) for row in _scoped(old)}, {(*row,) for row in _scoped(new)}
            assert found.members()["counts"]["added"] == len({row[:2] for row in right} - {row[:2] for row in left})
            assert found.members()["counts"]["removed"] == len({row[:2] for row in left} - {row[:2] for row in right})


def _scoped(rows: Rows) -> list[tuple[str, int, str]]:
    return [(key, shop, name) for key, (name, shop) in rows.items()]


@given(ROWS, ROWS, st.randoms(use_true_random=False))
@law(30)
def test_diff_with_a_feed_is_what_a_merge_changes(old, new, rng):
    with scratch() as work:
        given_settings = settings("parquet", rng)
        one = write(work / "one", "parquet", old, 2)
        feed = work / "feed"
        write(feed, "parquet", new, 1)
        (feed / "p0.parquet").rename(feed / "ups_1.parquet")
        found = compare_feed(
            config.parse({**LENIENT, **given_settings}), str(one), [str(feed)], local_engine.merge, rows=ALL
        )
        check(found, old, {**old, **new})


def test_files_with_equal_checksums_are_not_read(tmp_path):
    rows: Rows = {f"k{number}": ("x", number % 3) for number in range(60)}
    rng = random.Random(1)
    how = {**settings("text", rng), "num.reducer": "4", **NO_LIMITS}
    one = managed(tmp_path / "old", write(tmp_path / "one", "text", rows, 2), how, rng)
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "ups_1.txt").write_text("k7,y,1\n")
    other = tmp_path / "new"
    local_engine.mutate(how, master=str(one), feed=[str(tmp_path / "feed")], output=str(other))
    shared = {path.name for path in one.glob("part-*")} & {path.name for path in other.glob("part-*")}
    assert len(shared) == 3
    for name in shared:  # whoever reads them sees their damage
        for place in (one, other):
            content = (place / name).read_bytes()
            (place / name).unlink()
            (place / name).write_bytes(b"?" * len(content))

    found = compare(config.parse({**LENIENT, **OVERWRITE, **how}), str(one), str(other), local_engine.merge, rows=ALL)

    assert found.skipped == 3
    check(found, rows, {**rows, "k7": ("y", 1)})
    assert mutator.Dataset(other).num_rows == 60


@pytest.mark.parametrize("is_managed", [False, True])
def test_fields_that_one_dataset_lacks_are_named(tmp_path, is_managed):
    one, other, later = tmp_path / "one", tmp_path / "other", tmp_path / "later"
    for place, text in ((one, "id,name,price\n1,lamp,5\n2,chair,7\n"), (other, "id,price,color\n1,5,red\n2,8,\n")):
        place.mkdir()
        (place / "x_9.csv").write_text(text)
    how = settings("csv", random.Random(1))
    if is_managed:
        managed(later, one, how, random.Random(1))
    checked = config.parse({**LENIENT, **OVERWRITE, **how})

    found = compare(checked, str(later if is_managed else one), str(other), local_engine.merge, rows=ALL)

    assert (found.fields_added, found.fields_removed) == (("color",), ("name",))
    assert found.members()["counts"] == {"added": 0, "removed": 0, "changed": 2, "moved": 0}
    assert dict(found.fields) == {"price": 1}
    assert [one["changes"] for one in found.changed] == [{"color": [None, "red"]}, {"price": ["7", "8"]}]


def test_numbers_that_json_lacks_are_text(tmp_path):
    for place, values in (("old", [1.0, 2.0, 3.0]), ("new", [float("nan"), float("inf"), float("-inf")])):
        (tmp_path / place).mkdir()
        parquet.write_table(pa.table({"id": [1, 2, 3], "x": values}), tmp_path / place / "x_1.parquet")
    checked = config.parse({**LENIENT, **OVERWRITE, "key": "id"})

    found = compare(checked, str(tmp_path / "old"), str(tmp_path / "new"), local_engine.merge, rows=ALL)

    shown = json.loads(found.json(), parse_constant=pytest.fail)
    found_values = {one["key"]["id"]: one["changes"]["x"][1] for one in shown["changed"]}
    assert found_values == {1: "NaN", 2: "Infinity", 3: "-Infinity"}


def test_datasets_need_nothing_that_a_feed_has_beside_its_records(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x_1.csv").write_text("id,ts\n1,1\n2,1\n")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "x_2.csv").write_text("id,ts\n1,2\n")
    of_a_run = {"key": "id", "order_by": "ts", "op": "op", "feed.control.suffix": ".ok"}
    checked = config.parse({**LENIENT, **of_a_run, **OVERWRITE})

    found = compare(checked, str(tmp_path / "old"), str(tmp_path / "new"), local_engine.merge)

    assert found.members()["counts"] == {"added": 0, "removed": 1, "changed": 1, "moved": 0}


def test_records_that_moved_are_not_taken_for_each_other_where_rows_have_no_columns(tmp_path):
    how = {"key": "0", "order_by": "2", "partitioned.by": "1", "field.count": "any", **NO_LIMITS}
    for place, text in (("old", "a,de,1\nb,de,1\nc,fr,1\nd,fr,1\n"), ("new", "a,fr,2\nb,de,1\nc,fr,1\nd,de,3\n")):
        (tmp_path / f"{place}.txt").write_text(text)
        local_engine.mutate(
            {**how, "allow.empty.master": "true"},
            master=str(tmp_path / "none"),
            feed=[str(tmp_path / f"{place}.txt")],
            output=str(tmp_path / place),
        )
    checked = config.parse({**LENIENT, **OVERWRITE, **how})

    found = compare(checked, str(tmp_path / "old"), str(tmp_path / "new"), local_engine.merge, rows=ALL)

    assert found.members()["counts"] == {"added": 0, "removed": 0, "changed": 2, "moved": 2}
    assert (found.changed, found.fields) == ([], {})


def test_a_partition_that_lost_all_its_records_is_a_difference(tmp_path):
    """All files of the new dataset are those of the old one."""
    how = {**settings("text", random.Random(1)), "partitioned.by": "2", "num.reducer": "2", **NO_LIMITS}
    rows: Rows = {f"k{number}": ("x", number % 3) for number in range(12)}
    one = managed(tmp_path / "old", write(tmp_path / "one", "text", rows, 2), how, random.Random(1))
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "del_1.txt").write_text("".join(f"k{number},x,1\n" for number in range(1, 12, 3)))
    other = tmp_path / "new"
    deletes = {**how, "deleted.record.file.prefix": "del"}
    local_engine.mutate(deletes, master=str(one), feed=[str(tmp_path / "feed")], output=str(other), engine="blocks")

    found = compare(config.parse({**LENIENT, **OVERWRITE, **how}), str(one), str(other), local_engine.merge, rows=ALL)

    check(found, rows, {key: row for key, row in rows.items() if row[1] != 1})
