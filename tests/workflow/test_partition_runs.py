"""One run for each partition gives the result of one run over all; a stopped run continues, and ends complete."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import cli, config
from mutator.config.sources import read_settings
from mutator.engine.each import in_turn
from mutator.errors import ConfigError, MutatorError, StateError, failpoints
from mutator.rules.partition_fields import parse_fields
from mutator.storage import storage_for
from mutator.workflow.partitions import split
from mutator.workflow.partitions.runs import run_partitions
from tests.support import local_engine
from tests.support.effort import law
from tests.support.job import snapshot
from tests.support.no_limits import NO_LIMITS

SALES = Path(__file__).parents[2] / "sample_data" / "sales"
CONFIG = {"id.field.ordinals": "0,1", "op.code.field.ordinal": "3", "temporal.ordering.field.ordinal": "2"}
LAX = {**CONFIG, **NO_LIMITS}
MASTER = b"a,1,100,x\nb,1,100,x\nb,2,100,x\nc,1,100,x\n"
FEED = b"a,1,200,U,y\nb,2,300,D,x\nd,9,200,U,z\n"


class Case:
    """A partitioned master and a feed, and the same data without partitions."""

    def __init__(self, root, settings=LAX, by="k=0"):
        self.root, self.settings, self.by = root, settings, by
        self.master, self.output, self.number = root / "whole" / "base.txt", root / "output", 0
        self.parted, self.whole = root / "master", root / "whole"
        self.whole.mkdir()

    def begin(self, rows):
        self.master.write_bytes(rows)
        self.split(self.whole, self.parted)
        return self

    def split(self, source, to):
        read, by = config.parse({**self.settings, "field.count": "any"}), parse_fields(self.by)
        split.split_feed(read, by, [str(source)], str(to), in_turn)
        return to

    def feed(self, rows):
        self.number += 1
        place = self.root / f"feed-{self.number}"
        place.mkdir()
        for name, content in (rows if isinstance(rows, dict) else {f"ups_{self.number}.txt": rows}).items():
            (place / name).write_bytes(content)
        self.fed = self.split(place, self.root / f"split-{self.number}")
        return self

    def run(self, output=None, settings=None, **how):
        return run_partitions(
            config.parse({**self.settings, "op.code.in.master": "false", **(settings or {})}),
            how.pop("merge_on", local_engine.merge),
            **{"master": str(self.parted), "feed": str(self.fed), "output": str(output or self.output), **how},
        )

    def whole_run(self):
        to = self.root / f"whole-{self.number}"
        feed = [str(self.root / f"feed-{self.number}")]
        read = {**self.settings, "op.code.in.master": "false"}
        report = local_engine.mutate(read, master=str(self.whole), feed=feed, output=str(to))
        self.whole = to
        return report

    def follow(self):
        self.parted, self.output = self.output, self.root / f"output-{self.number}"
        return self

    def refused(self, family, *parts, **how):
        before = snapshot(self.root)
        with pytest.raises(MutatorError) as caught:
            self.run(**how)
        assert isinstance(caught.value, family)
        assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)
        assert snapshot(self.root) == before


def rows_of(directory):
    return sorted(row for path in directory.rglob("part-*.txt") for row in path.read_bytes().split(b"\n")[:-1])


def by_partition(directory):
    """Return the rows of each partition that has rows."""
    found = {}
    for path in directory.rglob("*=*/part-*.txt"):
        rows = path.read_bytes().split(b"\n")[:-1]
        found[path.parent.relative_to(directory)] = sorted([*found.get(path.parent.relative_to(directory), []), *rows])
    return {directory: rows for directory, rows in found.items() if rows}


def inodes(directory):
    return {path.stat().st_ino for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path).begin(MASTER).feed(FEED)


def how(done):
    return {partition.directory: partition.how for partition in done.partitions}


@pytest.mark.parametrize(
    ("shown", "by", "expected"),
    [("none", True, "k=…"), ("-0", True, "k=…"), ("0", True, "k=a"), ("-1", False, "k=…"), ("k", False, "k=a")],
)
def test_values_in_the_names_of_partitions_are_kept_out(case, shown, by, expected):
    if not by:  # split by another program: which field its directories are made of is unknown
        shutil.rmtree(case.fed / "_mutator")
    names = {"report.fields": shown, **({"field.names": "k,n,ts,op,value"} if shown == "k" else {})}
    done = case.run(settings=names)

    assert done.partitions[0].directory == expected
    assert ("k=a" in f"{done.text()}{done.json()}{done.warnings}") == (expected == "k=a")
    assert case.follow().feed(FEED).run().partitions[0].directory == "k=a"  # its record has the directories


def test_each_partition_gets_a_run(case):
    done = case.run()
    report = case.whole_run()

    assert how(done) == {"k=a": "merged", "k=b": "merged", "k=c": "carried", "k=d": "merged"}
    assert rows_of(case.output) == rows_of(case.whole) == [b"a,1,200,y", b"b,1,100,x", b"c,1,100,x", b"d,9,200,z"]
    assert {name: report.counts[name] for name in done.counts()} == done.counts()
    assert {path.name for path in case.output.iterdir() if path.name[0] in "_."} == {"_SUCCESS", "_partition_runs.json"}
    assert not list(case.root.glob(".output*"))


def test_partitions_without_a_feed_are_linked(case):
    case.run()
    before = inodes(case.output / "k=c")
    case.follow().feed(b"a,7,400,U,new\n").run()

    assert inodes(case.output / "k=c") == before
    assert inodes(case.output / "k=a") != inodes(case.parted / "k=a")


def test_partitions_become_empty_and_reappear(case):
    case.run()
    case.whole_run()
    for rows in (b"a,1,500,D,\nc,1,500,D,\nx,1,500,D,\n", b"a,1,400,U,late\nc,1,600,U,again\nx,1,501,U,new\n"):
        case.feed(rows)
        case.follow().run()
        case.whole_run()

        assert rows_of(case.output) == rows_of(case.whole)
    assert b"a,1,400,late" not in rows_of(case.output)


def lacks(case, removed, writer, record):
    return (
        f"{case.parted}: lacks partitions that {writer} wrote: {removed.name}; restore them from a copy, or, if they "
        f"were removed on purpose, remove {record} there"
    )


@pytest.mark.parametrize(
    ("writer", "record"),
    [("mutator partition", "_mutator/partition.json"), ("mutator partition-runs", "_partition_runs.json")],
)
def test_a_partition_of_the_master_was_removed(case, writer, record):
    if writer == "mutator partition-runs":
        case.run()
        case.feed(b"b,1,500,U,new\n").follow()
    removed = max(case.parted.glob("k=*"))
    shutil.rmtree(removed)
    with pytest.raises(StateError, match=re.escape(lacks(case, removed, writer, record))):
        case.run()
    assert not case.output.exists()

    path = case.parted / record
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StateError, match=r"partition.*json: the record of .* is damaged"):
        case.run()
    path.unlink()
    assert removed.name not in how(case.run()) or how(case.run(case.root / "again"))[removed.name] == "merged"


@pytest.mark.parametrize("allowed", ["false", "true"])
@pytest.mark.parametrize("writer", ["mutator partition", "mutator partition-runs"])
def test_all_partitions_of_the_master_were_removed(case, writer, allowed):
    if writer == "mutator partition-runs":
        case.run()
        case.feed(FEED).follow()
    for partition in case.parted.glob("k=*"):
        shutil.rmtree(partition)

    more = {"allow.empty.master": allowed}
    case.refused(StateError, f"{case.parted}: lacks partitions that {writer} wrote: k=a, k=b, k=c", settings=more)


def test_a_master_without_partitions_and_without_a_record(case):
    shutil.rmtree(case.parted)
    case.parted.mkdir()

    case.refused(ConfigError, f"{case.parted}: the master has no data files; check that it is the right directory")
    assert set(how(case.run(settings={"allow.empty.master": "true"})).values()) == {"merged"}


def test_a_master_that_never_had_a_partition(case):
    shutil.rmtree(case.parted)
    case.parted.mkdir()
    split_feed, case.fed = case.fed, case.root / "nothing"
    case.fed.mkdir()
    case.run(settings={"allow.empty.master": "true"})
    case.follow()
    case.fed, case.output = split_feed, case.root / "second"

    assert set(how(case.run()).values()) == {"merged"}  # its record names no partition


@pytest.mark.rest
def test_sample_by_store_and_date(tmp_path):
    settings = read_settings(SALES / "sales.properties") | {"max.delete.fraction": "1"}
    case = Case(tmp_path, settings, "store_id=0,create_date=7")
    shutil.copytree(SALES / "master", case.whole, dirs_exist_ok=True)
    case.split(case.whole, case.parted)
    case.feed({path.name: path.read_bytes() for path in (SALES / "feed").iterdir()})

    done = run_partitions(
        config.parse(settings),
        local_engine.merge,
        master=str(case.parted),
        feed=str(case.fed),
        output=str(case.output),
    )
    feed = [str(case.root / "feed-1")]
    local_engine.mutate(settings, master=str(case.whole), feed=feed, output=str(tmp_path / "one"))
    for scope in ("partition", "table"):
        by = {"partitioned.by": case.by, "key.scope": scope}
        local_engine.mutate(settings | by, master=str(case.parted), feed=feed, output=str(tmp_path / scope))

        assert by_partition(tmp_path / scope) == by_partition(case.output)
    assert rows_of(case.output) == rows_of(tmp_path / "one")
    assert len(rows_of(case.output)) == done.counts()["output rows"] > 500


ROWS = st.lists(
    st.tuples(st.sampled_from("ab/"), st.integers(1, 3), st.integers(1, 9), st.sampled_from("UD")), max_size=12
)


@law(12)
@given(ROWS, st.lists(ROWS, min_size=1, max_size=2))
def test_runs_of_partitions_equal_one_run_over_all(tmp_path_factory, base, feeds):
    case = Case(tmp_path_factory.mktemp("runs"))
    known = {(key, number): order for key, number, order, _ in base}
    case.begin(b"".join(b"%s,%d,%d,m\n" % (key.encode(), n, order) for (key, n), order in known.items()))
    scoped = case.parted
    for number, feed in enumerate(feeds):
        rows = b"".join(
            b"%s,%d,%d,%s,%d\n" % (key.encode(), n, order, op.encode(), number) for key, n, order, op in feed
        )
        case.feed(rows)
        done = case.run(settings={"allow.empty.master": "true"})
        case.settings = {**LAX, "allow.empty.master": "true"}
        report = case.whole_run()

        assert rows_of(case.output) == rows_of(case.whole)
        assert {name: report.counts[name] for name in done.counts()} == done.counts()
        by = {"partitioned.by": case.by, "key.scope": "partition", "op.code.in.master": "false"}
        feed_files, to = [str(case.root / f"feed-{case.number}")], case.root / f"scoped-{number}"
        local_engine.mutate({**case.settings, **by}, master=str(scoped), feed=feed_files, output=str(to))
        scoped = to
        assert by_partition(scoped) == by_partition(case.output)
        case.follow()


EARLY, LATE = ["runs.begun", "stage.merged", "stage.manifest.written"], ["runs.success", "runs.recorded"]


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("point", [*EARLY, "runs.partition.done", "runs.linked", *LATE, "runs.published"])
def test_a_stopped_run_continues(case, monkeypatch, point):
    case.run()
    undisturbed = case.follow().feed(FEED.replace(b"00,", b"50,")).root / "undisturbed"
    case.run(undisturbed)
    monkeypatch.setenv(failpoints.VARIABLE, f"{point}:raise")
    with pytest.raises(OSError, match="failpoint"):
        case.run()
    monkeypatch.delenv(failpoints.VARIABLE)

    assert case.output.exists() == (point == "runs.published")
    if case.output.exists():
        assert rows_of(case.output) == rows_of(undisturbed)
        return
    found = inodes(case.root / f".{case.output.name}.partitions" / "k=a") if point == "runs.partition.done" else set()
    done = case.run()
    assert rows_of(case.output) == rows_of(undisturbed)
    assert found <= inodes(case.output)
    assert done.partitions[0].before == (point not in EARLY)
    assert done.partitions[-1].before == (point in LATE)
    assert sorted(str(path.relative_to(case.output)) for path in case.output.iterdir()) == sorted(
        str(path.relative_to(undisturbed)) for path in undisturbed.iterdir()
    )
    assert how(done) == {"k=a": "merged", "k=b": "merged", "k=c": "carried", "k=d": "merged"}


def test_a_feed_without_files(case):
    case.fed = case.root / "nothing"
    case.fed.mkdir()
    done = case.run()

    assert done.warnings == (f"nothing to merge: {case.fed} has no feed files",)
    assert set(how(done).values()) == {"carried"}


def test_partitions_without_a_feed_are_usual(case):
    case.feed(b"a,1,200,U,y\n")

    assert case.run().warnings == ()


def test_a_fault_in_one_partition_stops_the_loop_and_leaves_the_others(case):
    case.feed(b"a,1,200,U,y\nb,1,soon,U,y\nc,1,200,U,y\n")
    with pytest.raises(MutatorError, match=r"k=b/ups_2\.txt"):
        case.run()
    with pytest.raises(StateError, match="was started with another config"):
        case.run(settings={"reject.policy": "quarantine", "reject.limit": "7"})
    assert [path.name for path in (case.root / ".output.partitions").glob("k=*")] == ["k=a"]

    shutil.rmtree(case.root / ".output.partitions")
    assert case.run(settings={"reject.policy": "quarantine", "max.reject.fraction": "1"}).counts()["feed rejected"] == 1


def test_a_stopped_run_does_not_continue_with_another_feed(case, monkeypatch):
    monkeypatch.setenv(failpoints.VARIABLE, "runs.partition.done:raise")
    with pytest.raises(OSError, match="failpoint"):
        case.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    case.feed(FEED)

    case.refused(StateError, "started with another feed and split")


def touch(path):
    """Give a file a time at which it did not exist."""
    os.utime(path, (1, 1))


def remove(partition):
    """Remove a partition of a split master, which its record does not name any more."""
    shutil.rmtree(partition)
    (partition.parent / "_mutator" / "partition.json").unlink()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda case: (case.parted / "k=a/base.txt").write_bytes(b"a,1,100,x\na,5,100,NEW\n"), "master/k=a"),
        (lambda case: touch(case.parted / "k=c/base.txt"), "master/k=c"),
        (lambda case: (case.parted / "k=e").mkdir(), "master/k=e"),
        (lambda case: remove(case.parted / "k=a"), "master/k=a"),
        (lambda case: touch(case.fed / "k=b/ups_1.txt"), "split-1/k=b"),
    ],
)
def test_a_stopped_run_does_not_continue_with_changed_inputs(case, monkeypatch, change, says):
    monkeypatch.setenv(failpoints.VARIABLE, "runs.partition.done:raise")
    with pytest.raises(OSError, match="failpoint"):
        case.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    change(case)

    case.refused(StateError, "was started with another content of", says, "run with the original one")


def test_a_stopped_run_does_not_continue_with_another_commit_of_a_partition(case, monkeypatch):
    case.run()
    case.run(case.root / "other")
    case.follow().feed(b"a,7,400,U,new\n")
    monkeypatch.setenv(failpoints.VARIABLE, "runs.partition.done:raise")
    with pytest.raises(OSError, match="failpoint"):
        case.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    shutil.rmtree(case.parted / "k=c")
    shutil.copytree(case.root / "other" / "k=c", case.parted / "k=c")

    case.refused(StateError, "was started with another content of", "output/k=c")


def test_the_output_must_not_exist(case):
    case.output.mkdir()

    case.refused(StateError, "already exists")


def test_two_runs_at_once(case):
    def merge_on(plan, staging):
        with pytest.raises(StateError, match="another run is writing"):
            case.run()
        return local_engine.merge(plan, staging)

    case.run(merge_on=merge_on)
    assert len(rows_of(case.output)) == 4


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("master/stray.txt", "stray.txt: is beside partition directories"),
        ("master/other/x.txt", "other: is beside partition directories"),
        ("master/k=a/day=1/x.txt", "is a partition by k, day, and"),
        ("master/=a/x.txt", "=a is not a partition"),
        ("master/k=%61/x.txt", "k=a: is the partition that k=%61 is"),
        ("split-1/k=a/more.txt", "files that mutator partition did not write: k=a/more.txt; move them out"),
        ("split-1/more.txt", "files that mutator partition did not write: more.txt; move them out"),
        ("split-1/k=a/ups_1.txt", "k=a/ups_1.txt has 6 bytes and should have 12; split the feed again"),
    ],
)
def test_paths_without_a_tree(case, path, says):
    if "day" in path:
        (case.root / "master/k=a/base.txt").unlink()
    (case.root / path).parent.mkdir(parents=True, exist_ok=True)
    (case.root / path).write_bytes(b"a,1,1\n")

    case.refused(MutatorError, says)


def test_a_split_feed_works_again_when_its_unexpected_files_are_moved_out(case):
    stray = case.fed / "k=a" / "more.txt"
    stray.write_bytes(b"a,1,1\n")
    with pytest.raises(StateError, match=re.escape("k=a/more.txt; move them out of the directory")):
        case.run()
    stray.rename(case.root / "more.txt")

    assert how(case.run())["k=a"] == "merged"


def test_a_split_feed_lacks_a_file(case):
    (case.fed / "k=a" / "ups_1.txt").unlink()
    case.refused(StateError, "k=a/ups_1.txt is missing; split the feed again, into a new directory")
    case.fed = case.split(case.root / "feed-1", case.root / "again")

    assert how(case.run())["k=a"] == "merged"


def test_other_spellings_of_a_partition_are_the_same(case):
    """Other programs escape more characters than necessary; the master keeps its names."""
    os.rename(case.parted / "k=a", case.parted / "k=%61")
    done = case.run()

    assert how(done)["k=%61"] == "merged"
    assert "k=a" not in how(done)


def test_a_full_snapshot_is_refused(case):
    settings = {name: value for name, value in CONFIG.items() if not name.startswith("op")}
    with pytest.raises(ConfigError, match="a partition that the snapshot lacks would stay"):
        run_partitions(
            config.parse({**settings, "sync.mode": "full"}), local_engine.merge, master="m", feed="f", output="o"
        )


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_an_overwrite_replaces_the_partitions_that_the_feed_touches(tmp_path, operation):
    case = Case(tmp_path, {**LAX, "write.operation": operation}).begin(MASTER)
    case.feed(b"b,3,50,U,y\nd,9,200,U,z\n")
    if operation == "insert_overwrite_table":
        case.refused(ConfigError, "a partition that the feed lacks would stay; set insert_overwrite, or")
        return
    case.run()
    assert rows_of(case.output) == [b"a,1,100,x", b"b,3,50,y", b"c,1,100,x", b"d,9,200,z"]


SHELL = """#!{python}
import argparse, os, sys
from mutator.config.sources import read_settings
from tests.support import local_engine

words = argparse.ArgumentParser()
for name in ("--config", "--master", "--feed", "--output", "-D"):
    words.add_argument(name, dest=name.strip("-"))
given = words.parse_args(sys.argv[2:])
if given.master.endswith(os.environ.get("FAILS", "none")):
    sys.exit(3)
settings = read_settings(given.config, [given.D])
local_engine.mutate(settings, master=given.master, feed=[given.feed], output=given.output)
"""


@pytest.mark.thorough(keep=0)
def test_shell_loop_of_the_page(case, monkeypatch):
    """The loop continues where it was stopped, and gives the same result as the job."""
    (loop,) = re.findall(r"```sh\n(.*?)```", (SALES.parent.parent / "docs" / "partitions.md").read_text(), re.DOTALL)
    case.run()
    build, program = case.root / "build", case.root / "bin" / "mutator"
    program.parent.mkdir()
    program.write_text(SHELL.format(python=sys.executable))
    program.chmod(0o755)
    build.mkdir()
    case.parted.rename(build / "stores")
    case.fed.rename(build / "stores_feed")
    settings = case.root / "sample_data" / "sales" / "sales.properties"
    settings.parent.mkdir(parents=True)
    settings.write_text("".join(f"{name}={value}\n" for name, value in {**LAX, "op.code.in.master": "false"}.items()))
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(SALES.parent.parent))
    words = {"shell": True, "cwd": case.root}

    assert subprocess.run(loop, env=os.environ | {"FAILS": "k=c"}, **words).returncode == 3
    assert sorted(path.name for path in build.glob(".stores_looped.partitions/*")) == ["k=a", "k=b"]
    before = inodes(build / ".stores_looped.partitions")
    subprocess.run(loop, check=True, **words)

    assert before <= inodes(build / "stores_looped")
    assert rows_of(build / "stores_looped") == rows_of(case.output)
    assert sorted(path.name for path in (build / "stores_looped").iterdir()) == ["k=a", "k=b", "k=c", "k=d"]


def test_no_master(case):
    shutil.rmtree(case.parted)

    case.refused(ConfigError, "there is no master")
    assert how(case.run(settings={"allow.empty.master": "true"})) == dict.fromkeys(("k=a", "k=b", "k=d"), "merged")


def test_the_configuration_may_name_the_partitions(case):
    done = case.run(settings={"partitioned.by": "k=0,n=1", "key.scope": "table"})

    assert done.counts()["output rows"] == 4
    assert {str(path) for path in by_partition(case.output)} == {"k=a", "k=b", "k=c", "k=d"}


@pytest.mark.parametrize("gaps", ["auto", "report", "fail"])
def test_file_names_give_the_order(tmp_path, gaps):
    """A sequence that only another partition has is not missing here."""
    settings = {"id.field.ordinals": "0,1", "deleted.record.file.prefix": "del", "max.delete.fraction": "1"}
    case = Case(tmp_path, {**settings, "sequence.gaps": gaps})
    case.begin(b"a,1,x\nb,1,x\n")
    case.feed({"ups_1.txt": b"a,1,y\n", "ups_2.txt": b"b,1,y\n", "del_3.txt": b"a,1\n", "ups_4.txt": b"a,2,z\n"})
    done = run_partitions(
        config.parse(case.settings),
        local_engine.merge,
        master=str(case.parted),
        feed=str(case.fed),
        output=str(case.output),
    )

    assert rows_of(case.output) == [b"a,2,z", b"b,1,y"]
    assert done.warnings == ()


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("point", [None, "runs.partition.done", "runs.recorded"])
def test_on_s3(s3, case, monkeypatch, point):
    place = f"{s3.bucket()}/lake/output"
    if point is not None:
        monkeypatch.setenv(failpoints.VARIABLE, f"{point}:raise")
        with pytest.raises(OSError, match="failpoint"):
            case.run(place)
        monkeypatch.delenv(failpoints.VARIABLE)
    if point != "runs.recorded":
        case.run(place)
    with pytest.raises(StateError, match="already exists"):
        case.run(place)
    done = case.feed(b"a,1,900,D,\n").run(master=place)

    assert how(done) == {"k=a": "merged", "k=b": "carried", "k=c": "carried", "k=d": "carried"}
    assert rows_of(case.output) == [b"b,1,100,x", b"c,1,100,x", b"d,9,200,z"]


@pytest.mark.rest
def test_adopted_on_s3(s3, case):
    """No manifest names the file of a task that ended after its run, so its rows are not in the master."""
    place = f"{s3.bucket()}/lake/output"
    case.run(place)
    with storage_for(place).create_new(f"{place}/k=a/part-00000-20260101T000000Z-00000000.txt") as stream:
        stream.write(b"a,8,1,straggler\n")
    settings = {**LAX, "op.code.in.master": "false", "partitioned.by": "k=0", "master.adopt": "true"}
    local_engine.mutate(settings, master=place, feed=[str(case.root / "feed-1")], output=str(case.output))

    assert rows_of(case.output) == [b"a,1,200,y", b"b,1,100,x", b"c,1,100,x", b"d,9,200,z"]


@pytest.mark.rest
def test_command_on_spark(sc, case, capfd):
    words = ["--master", str(case.parted), "--feed", str(case.fed), "--output", str(case.output)]
    words += [word for name, value in LAX.items() for word in ("-D", f"{name}={value}")]

    assert cli.main(["partition-runs", *words, "-D", "op.code.in.master=false"]) == 0
    shown = capfd.readouterr().out.splitlines()
    assert shown[1].split() == ["k=a", "merged", "1", "0", "1", "0", "1"]
    assert shown[3].split() == ["k=c", "carried", "1"]
    assert "wrote 4 rows in 4 partitions, 3 merged and 1 carried over" in shown[-1]
