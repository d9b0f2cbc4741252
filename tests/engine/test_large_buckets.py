"""A bucket with more than 2 GiB of keys: arrays with 32-bit offsets would overflow."""

from pathlib import Path

import pytest

from tests.support import local_engine

SETTINGS = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "op.code.field.ordinal": "2",
    "num.reducer": "1",
    "memory.bytes": "512m",
    "max.delete.fraction": "1",
}
RUNS, ROWS, WIDTH = 6, 1_700_000, 232  # 2.4 GB of keys


@pytest.mark.soak
def test_tombstones_of_more_than_two_gigabytes_in_one_bucket(tmp_path: Path) -> None:
    master = tmp_path / "master"
    master.mkdir()
    (master / "m.txt").write_bytes(b"a,1\n")
    for run in range(RUNS):
        feed = tmp_path / f"feed-{run}.txt"
        with feed.open("wb") as file:
            file.writelines(b"%08d%s,1,D\n" % (run * ROWS + row, b"x" * WIDTH) for row in range(ROWS))
        output = tmp_path / f"master-{run}"
        local_engine.mutate(SETTINGS, master=str(master), feed=[str(feed)], output=str(output))
        feed.unlink()
        master = output
    again = tmp_path / "again.txt"
    again.write_bytes(b"%08d%s,2,U\n" % (ROWS, b"x" * WIDTH))

    report = local_engine.mutate(SETTINGS, master=str(master), feed=[str(again)], output=str(tmp_path / "last"))

    assert report.counts["tombstones out"] == RUNS * ROWS - 1
    assert report.counts["revived"] == 1
