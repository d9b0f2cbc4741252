"""The files in the directories of a partitioned master, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutator import config
from mutator.errors import ConfigError, MutatorError, StateError
from mutator.workflow.partitions.runs import run_partitions
from tests.support import local_engine
from tests.support.job import snapshot
from tests.support.no_limits import NO_LIMITS
from tests.support.partition_trees import put_all, rows_by_directory, run

__all__ = ["put_all", "rows_by_directory", "run"]


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_rows_keep_their_sequences_around_a_reject_without_a_partition(tmp_path, scope):
    """If file names give the order, each row has a sequence of its own, including a reject between two rows."""
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


def test_file_names_decide_between_duplicates_in_several_directories(tmp_path):
    """Directories decide only between files of the same name."""
    files = {"k=1/b.txt": b"a,1,x\nb,1,x\n", "k=2/a.txt": b"a,1,y\n", "k=3/b.txt": b"b,1,y\n"}
    config = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "partitioned.by": "k=2"}
    config |= NO_LIMITS
    report = run(config, put_all(tmp_path / "m", files), None, tmp_path / "out")

    assert report.counts["master duplicate"] == 2
    assert rows_by_directory(tmp_path / "out") == {"k=x": [b"a,1,x"], "k=y": [b"b,1,y"]}


# --- trees that are not partitioned masters yet

CONFIG = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "max.delete.fraction": "1"}
BY = {**CONFIG, "partitioned.by": "k=2"}


def refused(family: type[MutatorError], settings: dict[str, str], master: str, feed: str | None, *says: str) -> None:
    above = Path(master).parent
    before = snapshot(above)
    with pytest.raises(family) as caught:
        run(settings, master, feed, above / "out")
    assert [part for part in says if part not in str(caught.value)] == [], str(caught.value)
    assert snapshot(above) == before


@pytest.fixture
def tree_of_masters(tmp_path):
    """Return the tree that a run for each partition has written: k=x has a record, and a delete that is remembered."""
    master = put_all(tmp_path / "m", {"k=x/a.txt": b"a,10,x\nb,10,x\n", "k=y/a.txt": b"c,10,y\n"})
    feed = put_all(tmp_path / "f", {"k=x/del_1.txt": b"a,20,x\n", "k=y/del_1.txt": b"c,20,y\n"})
    settings = config.parse({**CONFIG, "deleted.record.file.prefix": "del"})
    output = str(tmp_path / "masters")
    run_partitions(settings, local_engine.merge, master=master, feed=feed, output=output)
    return output


def test_a_tree_of_masters_is_refused(tmp_path, tree_of_masters):
    """It remembers deletes, sequences and feed files, which one run over the whole tree would not see."""
    late = put_all(tmp_path / "late", {"ups_2.txt": b"a,15,x\n"})

    remembers = "masters with manifests of their own (_mutator/): k=x, k=y"
    refused(StateError, BY, tree_of_masters, late, tree_of_masters, remembers, "set master.adopt=true to use")


def test_a_tree_of_masters_is_adopted_and_the_lost_parts_are_named(tmp_path, tree_of_masters):
    late = put_all(tmp_path / "late", {"ups_2.txt": b"a,15,x\n"})
    report = run({**BY, "master.adopt": "true"}, tree_of_masters, late, tmp_path / "out")

    assert rows_by_directory(tmp_path / "out") == {"k=x": [b"b,10,x", b"a,15,x"]}
    (note,) = [note for note in report.notes if "adopted" in note]
    assert "the tombstones, order values beside rows and merged feed files of its 2 partitions with manifests" in note
    assert run(BY, str(tmp_path / "out"), None, tmp_path / "next").counts["output rows"] == 2


def test_a_partition_without_its_manifest_is_still_a_master(tmp_path, tree_of_masters):
    for path in Path(tree_of_masters).glob("k=*/_mutator/manifest.json"):
        path.unlink()

    refused(StateError, BY, tree_of_masters, None, "manifests of their own (_mutator/): k=x, k=y")


def test_a_tree_without_partition_fields(tmp_path):
    """The message names the missing setting, for the files of other programs and for an adopted master."""
    master = put_all(tmp_path / "m", {"k=x/a.txt": b"a,10,x\n"})
    refused(
        ConfigError,
        CONFIG,
        master,
        None,
        f"{master}/k=x: is a directory",
        "say by which fields with partitioned.by (--partitioned-by",
    )
    run(BY, master, None, tmp_path / "parted")

    adopt = {**CONFIG, "master.adopt": "true"}
    refused(ConfigError, adopt, str(tmp_path / "parted"), None, "parted/k=x: is a directory", "--partitioned-by FIELDS")


def test_a_directory_that_is_not_a_partition(tmp_path):
    master = put_all(tmp_path / "m", {"k=x/more/a.txt": b"a,10,x\n"})

    refused(ConfigError, BY, master, None, f"{master}/k=x/more: is a directory", "move its files up")
