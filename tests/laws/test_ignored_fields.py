"""Fields that do not count change outcomes and changed rows alone: the same runs without the setting leave the same."""

import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator.dataset.file_entry import DATA
from mutator.errors import ConfigError
from mutator.frames.dataset import Dataset
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.no_limits import NO_LIMITS
from tests.support.small_runs import known
from tests.support.versioned import open_runner

SETTINGS = {"key": "id", "order_by": "at", "op": "op", "header": "true", "consumed.files": "merge", **NO_LIMITS}
IGNORED = {"noop.ignore": "batch,at"}
KINDS = {"plain": {}, "patches": {"unset.value": "~"}, "functions": {"field.merge.b": "first"}}


def feed(directory, rng, *, patches, op=True):
    """Write rows of few keys and values, so that most updates change little; return them."""
    directory.mkdir()
    rows = []
    for _ in range(rng.randint(1, 9)):
        values = [rng.choice(["x", "y", *("~" if patches and op else [])]) for _ in range(2)]
        code = [rng.choice("UUUD")] if op else []
        rows.append([rng.choice("klm"), str(rng.randint(1, 6)), *values, str(rng.randint(0, 9)), *code])
    if not op:
        rows = list({row[0]: row for row in rows}.values())
    lines = ["id,at,a,b,batch" + (",op" if op else ""), *map(",".join, rows)]
    (directory / "f.csv").write_text("".join(f"{line}\n" for line in lines))


def content(output):
    """Return rows, what is beside them, and tombstones, without commit times."""
    found = []
    for part in known(output).files:
        lines = (output / part.path).read_text().splitlines()[1:]
        sides = [] if part.order is None else pq.ParquetFile(output / part.order).read().to_pylist()
        found.append((lines, sides))
    buried = [
        pq.read_table(output / one.path).drop_columns("committed").to_pylist()
        for one in known(output).beside
        if one.role == "tombstones"
    ]
    return found, buried


def counted(row):
    """Return a changed row without the fields that do not count."""
    return tuple(value for name, value in row.items() if name in ("id", "a", "b"))


def without_no_ops(rows):
    """Return the changed rows whose other fields change, in order of IDs. rows: before an update is after it."""
    rows, found = [*rows], []
    while rows:
        kind, row = rows.pop(0)
        if kind == "update_preimage":
            after = next(one for one in rows if one[0] == "update_postimage" and one[1]["id"] == row["id"])
            rows.remove(after)
            found += [(kind, row), after] if counted(row) != counted(after[1]) else []
        else:
            found.append((kind, row))
    return sorted(found, key=str)


@pytest.mark.parametrize("kind", KINDS)
def test_runs_leave_the_same(tmp_path, kind):
    rng = random.Random(kind)
    totals = Counter()
    for world in range(8):
        work = tmp_path / str(world)
        work.mkdir()
        feed(work / "master", rng, patches=False, op=False)
        feeds = []
        for number in range(3):
            feed(work / f"feed{number}", rng, patches=kind == "patches")
            feeds.append(str(work / f"feed{number}"))
        before = dict.fromkeys(("usual", "ignored"), work / "master")
        for number, path in enumerate(feeds):
            counts = {}
            for name, more in {"usual": {}, "ignored": IGNORED}.items():
                settings = {**SETTINGS, **KINDS[kind], **more, "num.reducer": "2"}
                places = {"master": str(before[name]), "feed": [path], "output": str(work / f"{name}{number}")}
                report = local_engine.mutate(settings, **places, engine=rng.choice(["blocks", "records"]), seed=1)
                before[name], counts[name] = work / f"{name}{number}", report.counts
            assert content(before["usual"]) == content(before["ignored"])
            usual, ignored = counts["usual"], counts["ignored"]
            fewer = usual["feed updated"] - ignored["feed updated"]
            outcomes = {"feed no-op", "feed late"}
            more = sum(ignored.get(one, 0) - usual.get(one, 0) for one in outcomes)
            assert fewer == more == usual["master replaced"] - ignored["master replaced"] >= 0
            totals.update({"fewer": fewer, "updated": ignored["feed updated"]})
    assert totals["fewer"] > 3
    assert totals["updated"] > 3


def test_changes_of_a_table_leave_them_out(tmp_path):
    rng, few = random.Random(3), 0
    for world in range(4):
        work = tmp_path / str(world)
        work.mkdir()
        tables = {}
        for name, more in {"usual": {}, "ignored": IGNORED}.items():
            settings = {**SETTINGS, "order_type": "long", **more}
            settings.pop("consumed.files")
            tables[name] = Table.create(str(work / name), settings)
        for number in range(4):
            feed(work / f"feed{number}", rng, patches=False)
            files = [str(work / f"feed{number}" / "f.csv")]
            for one in tables.values():
                Table(one.path).apply(files, open_runner=open_runner)
        rows = {}
        for name, one in tables.items():
            one.refresh()
            rows[name] = sorted(one.scan().to_pylist(), key=str)
        assert rows["usual"] == rows["ignored"]
        for first in range(1, 4):
            found = {}
            for name, one in tables.items():
                batches = one.changes(first, first + 1)
                changed = [row for batch in batches for row in batch.to_pylist()]
                found[name] = [
                    (row["_change_type"], {key: value for key, value in row.items() if key[0] != "_"})
                    for row in changed
                ]
            assert sorted(found["ignored"], key=str) == without_no_ops(found["usual"])
            few += len(found["usual"]) - len(found["ignored"])
    assert few > 0


def test_changes_go_by_the_fields_of_their_version(tmp_path):
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"})
    for version, more in enumerate([{}, {"noop_ignore": "a"}, {"noop_ignore": "b"}], 1):
        feed = tmp_path / f"{version}.parquet"
        pq.write_table(pa.table({"id": ["k", "l"], "at": [1, 1], "a": [version, 0], "b": [0, version]}), feed)
        table.apply(str(feed), open_runner=open_runner, **more)
    changed = [row for batch in table.refresh().changes(1, 3) for row in batch.to_pylist()]
    found = {(row["_commit_version"], row["id"]) for row in changed}
    assert found == {(2, "l"), (3, "k")}


def test_equal_rows_are_only_touched(tmp_path):
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", "noop.ignore": "batch"})
    for version in "ab":
        feed = tmp_path / f"{version}.parquet"
        pq.write_table(pa.table({"id": ["k", "l"], "at": [1, 1], "batch": [1, 1]}), feed)
        report = table.apply(str(feed), open_runner=open_runner)
    assert report.counts["feed no-op"] == 2
    assert not report.counts.get("tied")
    assert not [one for one in table.refresh().snapshot.version.files if one.role == DATA]


@pytest.mark.parametrize("is_table", [True, False])
def test_a_field_that_does_not_count_may_be_removed(tmp_path, is_table):
    settings = {"key": "id", "order_by": "at", "noop.ignore": "at,batch", **NO_LIMITS}
    path, given = str(tmp_path / "out0"), [{}, {"removed.fields": "batch"}, {}]
    if is_table:
        Table.create(path, settings)
    for number, more in enumerate(given):
        feed = tmp_path / f"feed{number}" / "f.parquet"
        feed.parent.mkdir()
        columns = {"id": ["k"], "at": [number], **({} if number else {"batch": [1]})}
        pq.write_table(pa.table(columns), feed)
        if is_table:
            more = {name.replace(".", "_"): value for name, value in more.items()}
            Table(path).apply(str(feed), open_runner=open_runner, **more)
        else:
            output = str(tmp_path / f"out{number + 1}")
            more = {**settings, "allow.empty.master": "true", **more}
            local_engine.mutate(more, master=path, feed=[str(feed.parent)], output=output, engine="blocks")
            path = output
    rows = Table(path).scan().to_pylist() if is_table else Dataset(path).to_arrow().to_pylist()
    assert rows == [{"id": "k", "at": 2}]


def test_the_id_always_counts(tmp_path):
    for name in ("master", "feed"):
        feed(tmp_path / name, random.Random(1), patches=False, op=name == "feed")
    places = {"master": str(tmp_path / "master"), "feed": [str(tmp_path / "feed")], "output": str(tmp_path / "out")}
    for wrong, why in {"id": "is the ID", "bacth": "did you mean batch"}.items():
        with pytest.raises(ConfigError, match=why):
            local_engine.mutate({**SETTINGS, "noop.ignore": wrong}, **places, seed=1)
