"""The horizon, the highest order value of a tombstone that expired, also where that is the lowest of all values."""

import time

import pytest

from mutator.dataset.directory import read_manifest
from mutator.rules.order_values import LOWEST, order_text, order_value
from mutator.storage import storage_for
from tests.support import local_engine

FULL = {"id.field.ordinals": "0", "num.reducer": "2", "sync.mode": "full", "max.delete.fraction": "1"}
PARTIAL = {"id.field.ordinals": "0", "num.reducer": "2", "tombstone.retention": "0s"}


def put(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows))


@pytest.mark.parametrize("engine", ["records", "blocks"])
def test_tombstone_without_a_sequence_that_expires_sets_the_horizon(tmp_path, engine):
    """The tombstone of its record is the lowest, but rows of deltas meet the sequence of the snapshot without it."""
    put(tmp_path / "base" / "base.txt", "a,0", "b,0", "c,0")
    put(tmp_path / "feed-1" / "snap_1.txt", "a,1")
    put(tmp_path / "feed-2" / "ups_2.txt", "a,2")
    put(tmp_path / "feed-3" / "ups_3.txt", "b,3")

    def run(settings, master, feed, output):
        places = {"master": str(tmp_path / master), "feed": [str(tmp_path / feed)], "output": str(tmp_path / output)}
        return local_engine.mutate(settings, **places, engine=engine)

    assert run(FULL, "base", "feed-1", "out-1").counts["tombstones out"] == 2
    time.sleep(0.002)  # a tombstone expires when it is older than 0 s
    report = run(PARTIAL, "out-1", "feed-2", "out-2")
    made = read_manifest(storage_for("/"), str(tmp_path / "out-2"))

    assert report.counts["expired"] == 2
    assert made.commit.horizon == "1"
    assert "2 tombstones expired; the horizon is 1" in report.text()
    report = run({**PARTIAL, "before.horizon": "fail"}, "out-2", "feed-3", "out-3")
    assert (report.counts["feed inserted"], report.counts["below horizon"]) == (1, 0)
    assert read_manifest(storage_for("/"), str(tmp_path / "out-3")).commit.horizon == "1"


@pytest.mark.parametrize("order_type", LOWEST)
def test_lowest_value_as_text(order_type):
    text = order_text(order_type, LOWEST[order_type])

    assert text is not None
    assert order_value(order_type, text) == LOWEST[order_type]
    assert order_text(order_type, None) is order_value(order_type, None) is None


@pytest.mark.parametrize("engine", ["records", "blocks"])
def test_the_horizon_stays_where_lower_tombstones_expire_later(tmp_path, engine):
    settings = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "max.delete.fraction": "1"}
    settings |= {"deleted.record.file.prefix": "del", "num.reducer": "2", "tombstone.retention": "0s"}
    put(tmp_path / "out-0" / "base.txt", "a,1", "b,1", "c,1")
    feeds = {1: ("del_1.txt", "a,9"), 2: ("ups_2.txt", "c,2"), 3: ("del_3.txt", "b,5"), 4: ("ups_4.txt", "c,3")}
    for number, (name, row) in feeds.items():
        put(tmp_path / f"feed-{number}" / name, row)
        places = {"master": str(tmp_path / f"out-{number - 1}"), "feed": [str(tmp_path / f"feed-{number}")]}
        report = local_engine.mutate(settings, **places, output=str(tmp_path / f"out-{number}"), engine=engine)
        assert report.counts["expired"] == (number % 2 == 0)
        time.sleep(0.002)  # a tombstone expires when it is older than 0 s
    assert read_manifest(storage_for("/"), str(tmp_path / "out-4")).commit.horizon == "9"
