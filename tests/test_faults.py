"""Every way to die: a kill or an exception at each failpoint, in this process and on Spark; and rows that get lost.

The promise (DESIGN 3.3 and 6): a kill at any instant leaves no output or the whole one, never a part; inputs stay as
they are; the next run needs no help. A task that is tried again changes nothing. What does not add up is not published.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import mutator
from mutator import checksum, manifest, pipeline
from mutator.engine import records
from mutator.engine.content import RECEIPT
from mutator.engine.read import FEED, MASTER, TOMBSTONE, read_task
from mutator.errors import StorageError
from mutator.failpoint import FAILPOINTS
from mutator.formats.parquet_columns import read_tombstones
from mutator.publish import SUCCESS
from tests import local_engine
from tests.cluster import ROOT, environment, run

SETTINGS = {
    "id.field.ordinals": "0",
    "deleted.record.file.prefix": "del",
    "num.reducer": "2",
    "reject.policy": "quarantine",
}
TASK_POINTS = [name for name in FAILPOINTS if name.startswith("task.")]
# From here on the output is there; before it, nothing is.
VISIBLE_FROM = FAILPOINTS.index("publish.renamed")


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows))


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A managed master with tombstones, and a feed that meets each kind of row: a run passes every failpoint."""
    root = tmp_path_factory.mktemp("places")
    write(root / "base" / "base_1.txt", [f"k{n},{n}" for n in range(30)])
    write(root / "first" / "ups_2.txt", [f"k{n},second" for n in range(25, 35)])
    write(root / "first" / "del_3.txt", [f"k{n},x" for n in range(6)])
    local_engine.mutate(SETTINGS, master=f"{root}/base", feed=[f"{root}/first"], output=f"{root}/master")
    write(root / "feed" / "ups_4.txt", [f"k{n},fourth" for n in (*range(4, 12), *range(40, 46))])
    write(root / "feed" / "ups_5.txt", ["k10,fifth", "k11,fifth", "broken", "k41,1,2"])
    write(root / "feed" / "del_6.txt", ["k12,x", "k13,x", "k99,x"])
    return {"master": f"{root}/master", "feed": [f"{root}/feed"]}


EXPECTED = sorted(
    [f"k{n},{n}" for n in range(14, 25)]
    + [f"k{n},second" for n in range(25, 35)]
    + [f"k{n},fourth" for n in (*range(4, 10), *range(40, 46))]
    + ["k10,fifth", "k11,fifth"]
)


@pytest.fixture(autouse=True)
def inputs_stay(places):
    """Whatever happens in a test: the inputs are the same afterwards, byte for byte."""
    directories = (places["master"], *places["feed"])
    before = [contents(path) for path in directories]
    yield
    assert [contents(path) for path in directories] == before


def contents(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in Path(directory).rglob("*")
        if path.is_file()
    }


def manifest_of(output):
    return manifest.parse(Path(output, manifest.PATH).read_bytes(), str(output))


def check_whole(output):
    """The rows as expected, the files those of the manifest and as it says, and nothing else."""
    made, found = manifest_of(output), contents(output)
    assert set(found) == {part.path for part in made.parts()} | {manifest.PATH, SUCCESS}
    for part in made.parts():
        assert (part.bytes, part.checksum) == (len(found[part.path]), checksum.whole(found[part.path])), part.path
    rows = [row for part in made.files for row in found[part.path].decode().splitlines()]
    assert sorted(rows) == EXPECTED
    assert made.counts["output rows"] == len(EXPECTED)
    assert made.counts["tombstones out"] == 7  # 6, of which 2 were revived, and 3
    assert made.counts["feed rejected"] == 2


def check_next_run(places, output, killed_at):
    """Nothing visible or the whole; the next run names what was left, removes it, and succeeds."""
    beside = Path(output).parent
    left = sorted(beside.iterdir())
    if FAILPOINTS.index(killed_at) >= VISIBLE_FROM:
        assert left == [Path(output)]
        check_whole(output)
        shutil.rmtree(output)
        left = []
    else:
        assert len(left) == (FAILPOINTS.index(killed_at) >= FAILPOINTS.index("stage.created"))
        assert all(path.name.startswith(".out.mutator-") for path in left)  # which is a hidden name

    report = local_engine.mutate(SETTINGS, **places, output=str(output))

    assert report.litter == tuple(map(str, left))
    assert all(path.name in report.text() for path in left)
    assert list(beside.iterdir()) == [Path(output)]
    check_whole(output)


# --- without Spark ---

DRIVER = """
import json, sys
from tests import local_engine
local_engine.mutate(**json.loads(sys.argv[1]))
"""


@pytest.mark.parametrize("point", FAILPOINTS)
def test_kill_leaves_nothing_or_all_and_the_next_run_cleans_up(places, tmp_path, point):
    output = tmp_path / "out"
    call = json.dumps({"config": SETTINGS, **places, "output": str(output)})

    done = run([sys.executable, "-c", DRIVER, call], environment(MUTATOR_FAILPOINT=point, PYTHONPATH=str(ROOT)))

    assert done.returncode == -signal.SIGKILL, done.stderr
    check_next_run(places, output, point)


@pytest.mark.parametrize("point", FAILPOINTS)
def test_exception_leaves_nothing_or_all_and_no_litter(places, tmp_path, point, monkeypatch):
    output = tmp_path / "out"
    monkeypatch.setenv("MUTATOR_FAILPOINT", f"{point}:raise")

    with pytest.raises((OSError, StorageError), match=f"failpoint {point}"):
        local_engine.mutate(SETTINGS, **places, output=str(output))

    monkeypatch.delenv("MUTATOR_FAILPOINT")
    if FAILPOINTS.index(point) >= VISIBLE_FROM:
        assert list(tmp_path.iterdir()) == [output]
        check_whole(output)
    else:
        assert list(tmp_path.iterdir()) == []


def test_kill_after_kill_leaves_no_more_than_one_staging_directory(places, tmp_path):
    """A run that dies always at the same place, as on a full disk, must not fill it further."""
    output = tmp_path / "out"
    call = json.dumps({"config": SETTINGS, **places, "output": str(output)})

    for _ in range(3):
        done = run(
            [sys.executable, "-c", DRIVER, call],
            environment(MUTATOR_FAILPOINT="stage.success.written", PYTHONPATH=str(ROOT)),
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert len(list(tmp_path.iterdir())) == 1

    check_next_run(places, output, "stage.success.written")


# --- on Spark ---


@pytest.mark.parametrize("point", ["stage.merged", "publish.renamed"])
def test_kill_of_the_driver(places, tmp_path, point):
    output = tmp_path / "beside" / "out"
    output.parent.mkdir()
    settings = tmp_path / "run.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))

    done = run(
        [
            *(sys.executable, "-m", "mutator.cli", "run", "--config", settings),
            *("--master", places["master"], "--feed", *places["feed"], "--output", output),
        ],
        environment(MUTATOR_FAILPOINT=point),
    )

    assert done.returncode == -signal.SIGKILL, done.stderr
    check_next_run(places, output, point)


def java_of(process):
    """Return the number of the JVM that a Python driver has started, or None while there is none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]
                name = entry.joinpath("comm").read_text().strip()
            except OSError:
                continue  # it has ended meanwhile
            if parent == str(process.pid) and name == "java":
                return int(entry.name)
    return None


def test_kill_of_the_jvm_is_told_as_that(places, tmp_path):
    """As the kernel does when memory runs out: no traceback, no word of a bug, nothing left behind."""
    output = tmp_path / "beside" / "out"
    output.parent.mkdir()
    settings = tmp_path / "run.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in (SETTINGS | {"num.reducer": "60"}).items()))
    command = [sys.executable, "-m", "mutator.cli", "run", "--config", settings, "--master", places["master"]]
    command += [*(word for path in places["feed"] for word in ("--feed", path)), "--output", output]
    with subprocess.Popen(command, env=environment(), cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not list(output.parent.iterdir()) and time.monotonic() < until:  # merging, when this appears
            time.sleep(0.05)
        os.kill(java_of(process), signal.SIGKILL)
        said = process.communicate(timeout=60)[1]

    assert process.returncode == 4, said
    assert "Spark's JVM has ended" in said
    assert "Traceback" not in said
    assert list(output.parent.iterdir()) == []


@contextmanager
def in_workers(sc, failpoint):
    """Set the failpoint for new Python workers of a running session: Spark starts a worker per set of variables."""
    sc.environment["MUTATOR_FAILPOINT"] = failpoint
    try:
        yield
    finally:
        del sc.environment["MUTATOR_FAILPOINT"]


@pytest.fixture(scope="module")
def undisturbed(sc, places, tmp_path_factory):
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    return mutator.mutate(sc, SETTINGS, **places, output=str(output))


@pytest.mark.parametrize("failpoint", [*(f"{point}:raise" for point in TASK_POINTS), "task.data.written"])
def test_task_that_fails_once_changes_nothing(sc, places, undisturbed, tmp_path, failpoint):
    """With ``:raise`` a task fails; without, SIGKILL takes its worker, as the kernel does when memory runs out."""
    output = tmp_path / "out"

    with in_workers(sc, failpoint):
        report = mutator.mutate(sc, SETTINGS, **places, output=str(output))

    check_whole(output)
    assert list(tmp_path.iterdir()) == [output]
    assert report.counts == undisturbed.counts
    assert report.samples == undisturbed.samples
    assert report.rejects == undisturbed.rejects
    assert files_of(output) == files_of(undisturbed.output)
    # A file of a second attempt has its number in its name: so there was one.
    point = failpoint.partition(":")[0]
    again = {part.path.split("/")[-1] for part in manifest_of(output).parts() if f"{report.run}-" in part.path}
    names = {"task.rejected.written": "rejected-"}.get(point, "part-")
    assert any(name.startswith(names) for name in again), manifest_of(output).parts()


def files_of(output):
    """Return the files' contents without what differs from run to run: the run's and the attempt's number, times."""
    made, found = manifest_of(output), []
    for part in made.parts():
        name = re.sub(rf"-{made.run}(-\d+)?", "", part.path)
        if "tombstones" in name:
            with Path(output, part.path).open("rb") as stream:
                found.append((name, part.bucket, [(key, order) for key, order, _ in read_tombstones(stream)]))
        else:
            found.append((name, part.bucket, part.rows, Path(output, part.path).read_bytes()))
    return found


def test_task_that_fails_always_publishes_nothing(sc, places, tmp_path, monkeypatch):
    def broken(*_):  # nested, so that it is pickled as it is: workers cannot import this module
        raise OSError("the disk is on fire")

    monkeypatch.setattr(records, "_write_bucket", broken)

    with pytest.raises(StorageError) as caught:
        mutator.mutate(sc, SETTINGS, **places, output=str(tmp_path / "out"))

    assert caught.value.kind == "task"
    assert "the disk is on fire" in str(caught.value)
    assert "\tat org.apache" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# --- an engine that loses rows, or doubles them ---


def elements_of(places):
    """Return the elements that a run shuffles, one list a task, as ``read_task`` gives them."""
    found = []

    def engine(plan, staging):
        found.extend(element for task in plan.tasks for element in read_task(plan, task))
        return local_engine.merge(plan, staging)

    pipeline.run(engine, SETTINGS, **places, output="/nowhere", dry_run=True)
    return found


def merge_with(places, output, monkeypatch, change):
    """Run with ``change`` applied to the list of all elements."""
    everything = []

    def changed(plan, task):
        everything.extend(read_task(plan, task))
        if task == plan.tasks[-1]:
            change(everything)
            yield from everything

    monkeypatch.setattr(local_engine, "read_task", changed)
    return local_engine.mutate(SETTINGS, **places, output=str(output))


def check_not_published(error, tmp_path):
    assert (error.kind, error.exit_code) == ("sums", 4)
    assert "nothing was published" in str(error)
    assert list(tmp_path.iterdir()) == []


def test_each_lost_element_stops_the_run(places, tmp_path, monkeypatch):
    elements = elements_of(places)
    assert {element[0][2] for element in elements} == {TOMBSTONE, MASTER, FEED}  # RECEIPT and REJECT are numbers, too

    for number in range(len(elements)):
        with pytest.raises(StorageError) as caught:
            merge_with(places, tmp_path / "out", monkeypatch, lambda found, number=number: found.pop(number))
        check_not_published(caught.value, tmp_path)


def test_each_doubled_element_stops_the_run(places, tmp_path, monkeypatch):
    elements = elements_of(places)
    ledger = max(element[0][0] for element in elements)

    for number, element in enumerate(elements):
        if element[0][0] == ledger and element[0][2] == RECEIPT:
            continue  # a split has one receipt, however often it comes: nothing is counted twice
        with pytest.raises(StorageError) as caught:
            merge_with(places, tmp_path / "out", monkeypatch, lambda found, number=number: found.append(found[number]))
        check_not_published(caught.value, tmp_path)


def test_doubled_receipts_change_nothing(places, tmp_path, monkeypatch):
    def double(found):
        ledger = max(element[0][0] for element in found)
        found += [element for element in found if element[0][0] == ledger and element[0][2] == RECEIPT]

    merge_with(places, tmp_path / "out", monkeypatch, double)

    check_whole(tmp_path / "out")


@pytest.mark.parametrize("fault", ["drop the first", "drop the last", "double", "drop all"])
def test_row_that_is_lost_between_merge_and_file_stops_the_run(places, tmp_path, monkeypatch, fault):
    sort = local_engine.sort_by_place

    def careless(rows):
        found = list(sort(rows))
        return iter(
            {
                "drop the first": found[1:],
                "drop the last": found[:-1],
                "double": [*found, found[0]],
                "drop all": [],
            }[fault]
        )

    monkeypatch.setattr(local_engine, "sort_by_place", careless)

    with pytest.raises(StorageError) as caught:
        local_engine.mutate(SETTINGS, **places, output=str(tmp_path / "out"))
    check_not_published(caught.value, tmp_path)


@pytest.mark.parametrize("fault", ["lost", "doubled"])
@pytest.mark.parametrize("bucket", [0, 1])
def test_receipt_of_a_bucket_that_is_lost_or_doubled_stops_the_run(places, tmp_path, fault, bucket):
    def engine(plan, staging):
        receipts = local_engine.merge(plan, staging)
        if fault == "lost":
            del receipts[bucket]
        else:
            receipts.insert(0, receipts[bucket])
        return receipts

    with pytest.raises(StorageError) as caught:
        pipeline.run(engine, SETTINGS, **places, output=str(tmp_path / "out"))
    check_not_published(caught.value, tmp_path)


def test_staged_file_that_is_lost_stops_the_run(places, tmp_path):
    def engine(plan, staging):
        receipts = local_engine.merge(plan, staging)
        os.unlink(f"{staging}/{receipts[1]['files'][0]['path']}")
        return receipts

    with pytest.raises(StorageError, match="it is missing") as caught:
        pipeline.run(engine, SETTINGS, **places, output=str(tmp_path / "out"))
    assert caught.value.kind == "receipt"
    assert list(tmp_path.iterdir()) == []
