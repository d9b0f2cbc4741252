"""What lies in the directories of a partitioned master, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import local_engine

__all__ = ["put_all", "rows_by_directory", "run"]


def put_all(directory: Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(directory)


def run(config: dict[str, str], master: str, feed: str | None, output: Path, **how: Any) -> Any:
    return local_engine.mutate(config, master=master, feed=[feed] if feed else [], output=str(output), **how)


def rows_by_directory(output: Path) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for path in sorted(output.rglob("part-*.txt")):
        found.setdefault(str(path.parent.relative_to(output)), []).extend(path.read_bytes().split(b"\n")[:-1])
    return found


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_rows_keep_their_sequences_beside_one_that_says_no_partition(tmp_path, scope):
    """Where order comes from file names each row has a sequence of its own; a reject between them has one, too."""
    config = {"id.field.ordinals": "0", "num.reducer": "1", "max.delete.fraction": "1"}
    master = put_all(tmp_path / "m", {"base_1.txt": b"a,2026-01-01\n", "base_5.txt": b"b,soon\n", "base_9.txt": b""})
    feed = put_all(tmp_path / "f", {"ups_7.txt": b"c,2026-01-01\n", "ups_8.txt": b"d,2026-01-02\n"})
    run(config, master, feed, tmp_path / "whole")
    config |= {"partitioned.by": "day=date(1)", "key.scope": scope, "master.reject.policy": "quarantine"}
    late = put_all(tmp_path / "l", {"ups_6.txt": b"c,2026-01-01\n", "del_6.txt": b"d,2026-01-02\n"})
    report = run({**config, "deleted.record.file.prefix": "del"}, str(tmp_path / "whole"), late, tmp_path / "out")

    assert report.counts["master rejected"] == 1
    assert report.counts["feed late"] == 2
    assert rows_by_directory(tmp_path / "out") == {
        "day=2026-01-01": [b"a,2026-01-01", b"c,2026-01-01"],
        "day=2026-01-02": [b"d,2026-01-02"],
    }


def test_of_duplicates_in_several_directories_the_names_of_the_files_decide(tmp_path):
    """And only between files of one name the directories."""
    files = {"k=1/b.txt": b"a,1,x\nb,1,x\n", "k=2/a.txt": b"a,1,y\n", "k=3/b.txt": b"b,1,y\n"}
    config = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "partitioned.by": "k=2"}
    report = run(config, put_all(tmp_path / "m", files), None, tmp_path / "out")

    assert report.counts["master duplicate"] == 2
    assert rows_by_directory(tmp_path / "out") == {"k=x": [b"a,1,x"], "k=y": [b"b,1,y"]}
