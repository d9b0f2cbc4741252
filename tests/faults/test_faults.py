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
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pyarrow as pa
import pytest

import mutator
from mutator.dataset import checksum, manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.side_columns import read_tombstones
from mutator.engine.blocks.merge_bucket import write_group
from mutator.engine.blocks.read import ROWS, RUN, TOMBSTONES, read_runs
from mutator.engine.records.read import FEED, MASTER, TOMBSTONE, read_task
from mutator.engine.records.write import write_bucket
from mutator.engine.spark import blocks, records
from mutator.engine.split_content import RECEIPT, REJECT
from mutator.errors import StorageError, error
from mutator.errors.failpoints import FAILPOINTS
from mutator.formats.blocks.text_rows import TextWriter
from mutator.pipeline import merge
from mutator.rules.key_hash import bucket_of
from tests.support import local_engine
from tests.support.cluster import ROOT, environment, run

SETTINGS = {
    "id.field.ordinals": "0",
    "deleted.record.file.prefix": "del",
    "num.reducer": "4",
    "reject.policy": "quarantine",
    "split.bytes": "250",  # several tasks on either side
}
# Each way to merge: which master it has, what is set for it, and the engine.
JOINS = {
    "records": ("managed", {}, "records"),
    "aligned": ("managed", {}, "blocks"),
    "shuffle": ("managed", {"num.reducer": "3"}, "blocks"),  # which 4 buckets cannot become where they lie
    "broadcast": ("flat", {"master.unique": "true"}, "blocks"),
}
TASK_POINTS = [name for name in FAILPOINTS if name.startswith("task.")]
# From here on the output is there; before it, nothing is.
VISIBLE_FROM = FAILPOINTS.index("publish.renamed")
QUIET_BUCKET = 3  # of four: the second feed has nothing for it
# IDs in any other bucket, and IDs in that one.
K = list(islice((key for key in (f"k{n}" for n in count()) if bucket_of((key.encode(),), 4) != QUIET_BUCKET), 100))
Q = list(islice((key for key in (f"q{n}" for n in count()) if bucket_of((key.encode(),), 4) == QUIET_BUCKET), 10))


def passes(join):
    """Return the failpoints that a run comes to."""
    return [point for point in FAILPOINTS if point != "task.carried" or join == "aligned"]


every_join = pytest.mark.parametrize("join", JOINS)
every_point = pytest.mark.parametrize(("join", "point"), [(join, point) for join in JOINS for point in passes(join)])


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows))


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Managed masters with tombstones, and a feed that meets each kind of row: a run passes every failpoint."""
    root = tmp_path_factory.mktemp("places")
    write(root / "base" / "base_1.txt", [f"{key},{key}" for key in (*K[:30], *Q)])
    write(root / "first" / "ups_2.txt", [f"{key},second" for key in (*K[25:35], *Q[7:])])
    write(root / "first" / "del_3.txt", [f"{key},x" for key in (*K[:6], *Q[:2])])
    for master, more in (("managed", {}), ("flat", {"master.unique": "true"})):
        local_engine.mutate(
            SETTINGS | more, master=f"{root}/base", feed=[f"{root}/first"], output=f"{root}/{master}", engine="blocks"
        )
    write(root / "feed" / "ups_4.txt", [f"{key},fourth" for key in (*K[4:12], *K[40:46])])
    write(root / "feed" / "ups_5.txt", [f"{K[10]},fifth", f"{K[11]},fifth", "broken", f"{K[41]},1,2"])
    write(root / "feed" / "del_6.txt", [f"{key},x" for key in (K[12], K[13], K[99])])
    return root


EXPECTED = sorted(
    [f"{key},{key}" for key in (*K[14:25], *Q[2:7])]
    + [f"{key},second" for key in (*K[25:35], *Q[7:])]
    + [f"{key},fourth" for key in (*K[4:10], *K[40:46])]
    + [f"{key},fifth" for key in K[10:12]]
)


def call_of(join, places, output):
    """Return the arguments of a run."""
    master, settings, engine = JOINS[join]
    inputs = {"master": f"{places}/{master}", "feed": [f"{places}/feed"]}
    return {"config": SETTINGS | settings, **inputs, "output": str(output), "engine": engine}


@pytest.fixture(autouse=True)
def inputs_stay(places):
    """Whatever happens in a test: the inputs are the same afterwards, byte for byte, also where they were linked."""
    before = contents(places)
    times = {path: path.stat().st_mtime_ns for path in places.rglob("part-*")}
    yield
    assert contents(places) == before
    assert {path: path.stat().st_mtime_ns for path in places.rglob("part-*")} == times


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
        assert part.bytes == len(found[part.path]), part.path
        chunk = checksum.chunk_of(part.checksum)
        assert part.checksum == checksum.of_blocks([found[part.path]], chunk), part.path
    rows = [row for part in made.files for row in found[part.path].decode().splitlines()]
    assert sorted(rows) == EXPECTED
    assert made.counts["output rows"] == sum(part.rows for part in made.files) == len(EXPECTED)
    assert made.counts["tombstones out"] == 9  # 8, of which 2 were revived, and 3
    assert made.counts["feed rejected"] == 2


def quiet_files(places, output):
    """Return the files of the bucket that is carried over: of the master, and of the output."""
    parts = [part for part in manifest_of(places / "managed").parts() if part.bucket == QUIET_BUCKET]
    return [(places / "managed" / part.path, Path(output) / part.path) for part in parts]


def check_next_run(join, places, output, killed_at):
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

    report = local_engine.mutate(**call_of(join, places, output))

    assert report.litter == tuple(map(str, left))
    assert all(path.name in report.text() for path in left)
    assert list(beside.iterdir()) == [Path(output)]
    check_whole(output)


# --- without Spark ---

# Forks for every run, which is as good as a new process and does not import everything again.
DRIVER = """
import json, os, sys, traceback
from tests.support import local_engine
for line in sys.stdin:
    point, call = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    try:
        os.environ["MUTATOR_FAILPOINT"] = point
        local_engine.mutate(**call)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
"""


@pytest.fixture(scope="module")
def kill():
    """Run in a process of its own, which kills itself at a failpoint."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        cwd=ROOT,
        env=environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:

        def kill(point, call):
            driver.stdin.write(json.dumps([point, call]) + "\n")
            driver.stdin.flush()
            assert int(driver.stdout.readline()) == -signal.SIGKILL, f"the run does not come to {point}"

        yield kill
        driver.stdin.close()


@every_join
def test_runs_of_these_tests_merge_as_their_names_say(places, tmp_path, join):
    report = local_engine.mutate(**call_of(join, places, tmp_path / "out"))

    check_whole(tmp_path / "out")
    assert (report.engine, report.join) == ("records", "shuffle") if join == "records" else ("blocks", join)
    assert report.tasks >= 2
    pairs = quiet_files(places, tmp_path / "out")
    kinds = sorted("data" if path.suffix == ".txt" else path.parent.name for path, _ in pairs)
    assert kinds == ["data", "order", "tombstones"]
    shared = [twin.exists() and path.samefile(twin) for path, twin in pairs]
    assert shared == [join == "aligned"] * 3  # carried over, by a link


@pytest.mark.thorough(keep=24)
@every_point
def test_kill_leaves_nothing_or_all_and_the_next_run_cleans_up(places, tmp_path, join, point, kill):
    kill(point, call_of(join, places, tmp_path / "out"))

    check_next_run(join, places, tmp_path / "out", point)


@every_point
def test_exception_leaves_nothing_or_all_and_no_litter(places, tmp_path, join, point, monkeypatch):
    output = tmp_path / "out"
    monkeypatch.setenv("MUTATOR_FAILPOINT", f"{point}:raise")

    with pytest.raises((OSError, StorageError), match=f"failpoint {point}"):
        local_engine.mutate(**call_of(join, places, output))

    monkeypatch.delenv("MUTATOR_FAILPOINT")
    if FAILPOINTS.index(point) >= VISIBLE_FROM:
        assert list(tmp_path.iterdir()) == [output]
        check_whole(output)
    else:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough(keep=1)
@every_join
def test_kill_after_kill_leaves_no_more_than_one_staging_directory(places, tmp_path, join, kill):
    """A run that dies always at the same place, as on a full disk, must not fill it further."""
    for _ in range(3):
        kill("stage.success.written", call_of(join, places, tmp_path / "out"))
        assert len(list(tmp_path.iterdir())) == 1

    check_next_run(join, places, tmp_path / "out", "stage.success.written")


@pytest.mark.parametrize("links", [True, False], ids=["by link", "by copy"])
def test_second_attempt_of_a_task_that_carried_a_bucket_over(places, tmp_path, monkeypatch, links):
    """Its files have the names that they had, so the second attempt finds those of the first."""
    if not links:
        monkeypatch.setattr("mutator.storage.local.LocalStorage.link_new", lambda *_: False)
    attempts = []

    def twice(plan, staging, group, attempt, elements):
        if group != QUIET_BUCKET:
            return write_group(plan, staging, group, attempt, elements)
        elements = list(elements)
        monkeypatch.setenv("MUTATOR_FAILPOINT", "task.carried:raise")
        for number in (0, 7):  # after the first of its files, and again when it has all
            try:
                attempts.append(write_group(plan, staging, group, number, elements))
            except OSError as fault:
                attempts.append(str(fault))
        monkeypatch.delenv("MUTATOR_FAILPOINT")
        return write_group(plan, staging, group, 8, elements)

    monkeypatch.setattr(local_engine, "write_group", twice)
    local_engine.mutate(**call_of("aligned", places, tmp_path / "out"))

    check_whole(tmp_path / "out")
    assert attempts[0] == "failpoint task.carried"
    assert len(attempts[1].files) == 1
    assert [path.samefile(twin) for path, twin in quiet_files(places, tmp_path / "out")] == [links] * 3


@pytest.mark.parametrize("join", ["records", "aligned", "broadcast"])
def test_fault_of_writing_is_raised_so_that_another_attempt_is_made(places, tmp_path, join, monkeypatch):
    """What is damaged stays so, but a disk that is full may be so on one machine, and only for a while."""
    raised = []

    def full(self, _):
        if "rejected" not in self.path:  # which is not a task's of its own
            raise error("storage", path=self.path, why="No space left on device")

    def watched(write, module, name):
        def watch(*arguments):
            try:
                return write(*arguments)
            except StorageError as fault:
                raised.append(fault)
                raise

        monkeypatch.setattr(module, name, watch)

    watched(write_bucket, local_engine, "write_bucket")
    watched(write_group, local_engine, "write_group")
    watched(local_engine.broadcast.patch, local_engine.broadcast, "patch")
    monkeypatch.setattr("mutator.dataset.commit.staged_file.StagedFile.write", full)

    with pytest.raises(StorageError, match="No space left on device"):
        local_engine.mutate(**call_of(join, places, tmp_path / "out"))

    assert len(raised) == 1
    assert list(tmp_path.iterdir()) == []


# --- on Spark ---


@pytest.mark.jvm
@pytest.mark.parametrize("point", ["stage.merged", pytest.param("publish.renamed", marks=pytest.mark.soak)])
def test_kill_of_the_driver(places, tmp_path, point):
    output = tmp_path / "beside" / "out"
    output.parent.mkdir()
    settings = tmp_path / "run.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))

    done = run(
        [
            *(sys.executable, "-m", "mutator.cli", "run", "--config", settings),
            *("--master", places / "managed", "--feed", places / "feed", "--output", output),
        ],
        environment(MUTATOR_FAILPOINT=point),
    )

    assert done.returncode == -signal.SIGKILL, done.stderr
    check_next_run("aligned", places, output, point)


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


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_kill_of_the_jvm_is_told_as_that(places, tmp_path):
    """As the kernel does when memory runs out: no traceback, no word of a bug, nothing left behind."""
    output = tmp_path / "beside" / "out"
    output.parent.mkdir()
    settings = tmp_path / "run.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in (SETTINGS | {"num.reducer": "60"}).items()))
    command = [sys.executable, "-m", "mutator.cli", "run", "--config", settings, "--master", places / "base"]
    command += ["--feed", places / "feed", "--output", output]
    with subprocess.Popen(command, env=environment(), cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not list(output.parent.rglob("*part-*")) and time.monotonic() < until:  # merging, when this appears
            time.sleep(0.05)
        os.kill(java_of(process), signal.SIGKILL)
        said = process.communicate(timeout=60)[1]

    assert process.returncode == 4, said
    assert "Spark's JVM has ended" in said
    assert "Traceback" not in said
    assert list(output.parent.iterdir()) == []


CALL_OF_A_DYING_JVM = """
import os, signal, threading, time
from pathlib import Path
from py4j.protocol import Py4JError
from mutator.session import spark_context
with spark_context("dies") as sc:
    java = sc._jvm.java.lang
    pid = java.ProcessHandle.current().pid()
    os.kill(pid, signal.SIGSTOP)  # so that the call stays unread, and its connection is reset rather than closed
    threads = list(Path(f"/proc/{pid}/task").glob("*/stat"))
    while any(one.read_text().rpartition(")")[2].split()[0] != "T" for one in threads):  # a signal takes its time
        time.sleep(0.01)
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    try:
        java.System.nanoTime()
    except (Py4JError, OSError):
        print("raised")
"""


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_a_call_that_the_jvm_does_not_outlive_logs_nothing():
    """py4j logs a traceback of it, beside what it raises."""
    done = subprocess.run(
        [sys.executable, "-c", CALL_OF_A_DYING_JVM], env=environment(), cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "raised\n", done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def in_workers(sc, failpoint):
    """Set the failpoint for new Python workers of a running session: Spark starts a worker per set of variables."""
    sc.environment["MUTATOR_FAILPOINT"] = failpoint
    try:
        yield
    finally:
        del sc.environment["MUTATOR_FAILPOINT"]


@pytest.fixture(scope="module")
def undisturbed(places, tmp_path_factory):
    """Return the report of a run of a join, without Spark."""
    made = {}

    def undisturbed(join):
        if join not in made:
            made[join] = local_engine.mutate(**call_of(join, places, tmp_path_factory.mktemp(join) / "out"))
        return made[join]

    return undisturbed


# Points of an aligned run at which a task of another join, or with a kill in place of the error, fails below.
BELOW = ("task.data.opened", "task.data.written", "task.order.written", "task.tombstones.written", "task.carried")


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize(
    ("join", "failpoint"),
    [
        *(
            pytest.param("aligned", f"{point}:raise", marks=pytest.mark.soak if point in BELOW else ())
            for point in TASK_POINTS
        ),
        *(("aligned", point) for point in ("task.data.written", "task.carried")),
        *(("shuffle", point) for point in ("task.tombstones.written:raise", "task.data.opened")),
        *(("broadcast", point) for point in ("task.data.opened:raise", "task.tombstones.written")),
        *(("records", point) for point in ("task.order.written:raise", "task.data.written")),
    ],
)
def test_task_that_fails_once_changes_nothing(sc, places, undisturbed, tmp_path, join, failpoint):
    """With ``:raise`` a task fails; without, SIGKILL takes its worker, as the kernel does when memory runs out."""
    output, expected = tmp_path / "out", undisturbed(join)
    sc.setJobGroup(str(tmp_path), "one run")

    with in_workers(sc, failpoint):
        report = mutator.mutate(sc, **call_of(join, places, output))

    check_whole(output)
    assert list(tmp_path.iterdir()) == [output]
    assert report.counts == expected.counts
    assert report.samples == expected.samples
    assert report.rejects == expected.rejects
    assert files_of(output) == files_of(expected.output)
    assert failed_tasks(sc, str(tmp_path)) > 0


def failed_tasks(sc, group):
    """Return how many attempts of the tasks of a job group have failed."""
    jobs = [sc.statusTracker().getJobInfo(job) for job in sc.statusTracker().getJobIdsForGroup(group)]
    stages = [sc.statusTracker().getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage)


def files_of(output):
    """Return the files' contents without what differs from run to run: the run's and the attempt's number, times."""
    made, found = manifest_of(output), []
    for part in made.parts():
        name = re.sub(rf"-{made.run}(-\d+)?", "", part.path)
        content = Path(output, part.path).read_bytes()
        if "tombstones" in name:
            with Path(output, part.path).open("rb") as stream:
                content = [(key, order) for key, order, _ in read_tombstones(stream)]
        found.append((name, part.bucket, part.rows, content))
    return sorted(found, key=lambda one: one[0])


@pytest.mark.parametrize(
    ("join", "module", "name"),
    [("records", records, "_write"), ("aligned", blocks, "_write"), ("broadcast", blocks, "_patch")],
)
def test_task_that_fails_always_publishes_nothing(sc, places, tmp_path, monkeypatch, join, module, name):
    def broken(*_):  # nested, so that it is pickled as it is: workers cannot import this module
        raise OSError("the disk is on fire")

    monkeypatch.setattr(module, name, broken)

    with pytest.raises(StorageError) as caught:
        mutator.mutate(sc, **call_of(join, places, tmp_path / "out"))

    assert caught.value.kind == "task"
    assert "the disk is on fire" in str(caught.value)
    assert "\tat org.apache" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# --- an engine that loses rows, or doubles them ---

KINDS = {  # of the elements that are shuffled, but for the ledger's
    "records": {TOMBSTONE, MASTER, FEED},
    "aligned": {RUN},
    "shuffle": {RUN, ROWS, TOMBSTONES},
    "broadcast": {RUN},
}


def merge_with(join, places, output, monkeypatch, change):
    """Run with ``change`` applied to the list of all elements that are shuffled, and to the ledger's number."""
    name, read = ("read_task", read_task) if join == "records" else ("read_runs", read_runs)
    everything = []

    def changed(plan, task):
        everything.extend(read(plan, task))
        if task == plan.tasks[-1]:
            change(everything, plan.ledger)
            yield from everything

    with monkeypatch.context() as patched:
        patched.setattr(local_engine, name, changed)
        patched.setattr(os, "fsync", lambda _: None)  # hundreds of runs, and no power is cut
        return local_engine.mutate(**call_of(join, places, output))


def elements_of(join, places, output, monkeypatch):
    """Return the sort keys of the elements that a run shuffles, and the number of its ledger."""
    found = []
    merge_with(join, places, output, monkeypatch, lambda everything, ledger: found.extend([everything[:], ledger]))
    shutil.rmtree(output)
    elements, ledger = found
    assert {element[0][2] for element in elements if element[0][0] != ledger} == KINDS[join]
    assert {element[0][2] for element in elements if element[0][0] == ledger} == {RECEIPT, REJECT}
    return [element[0] for element in elements], ledger


def check_not_published(error, tmp_path):
    assert (error.kind, error.exit_code) == ("sums", 4)
    assert "nothing was published" in str(error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough(keep=2)
@every_join
def test_each_lost_element_stops_the_run(places, tmp_path, monkeypatch, join):
    keys, _ = elements_of(join, places, tmp_path / "out", monkeypatch)

    for number in range(len(keys)):
        with pytest.raises(StorageError) as caught:
            merge_with(join, places, tmp_path / "out", monkeypatch, lambda found, _, number=number: found.pop(number))
        check_not_published(caught.value, tmp_path)


@pytest.mark.thorough(keep=2)
@every_join
def test_each_doubled_element_stops_the_run(places, tmp_path, monkeypatch, join):
    keys, ledger = elements_of(join, places, tmp_path / "out", monkeypatch)

    for number, key in enumerate(keys):
        if key[0] == ledger and key[2] == RECEIPT:
            continue  # a split has one receipt, however often it comes: nothing is counted twice
        with pytest.raises(StorageError) as caught:
            merge_with(
                join, places, tmp_path / "out", monkeypatch, lambda found, _, number=number: found.append(found[number])
            )
        check_not_published(caught.value, tmp_path)


@every_join
def test_doubled_receipts_change_nothing(places, tmp_path, monkeypatch, join):
    def double(found, ledger):
        found += [element for element in found if element[0][0] == ledger and element[0][2] == RECEIPT]

    merge_with(join, places, tmp_path / "out", monkeypatch, double)

    check_whole(tmp_path / "out")


FAULTS = {
    "drop the first": lambda rows: rows[1:],
    "drop the last": lambda rows: rows[:-1],
    "double": lambda rows: [*rows, rows[0]],
    "drop all": lambda _: [],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_row_that_is_lost_between_merge_and_file_stops_the_run(places, tmp_path, monkeypatch, fault):
    sort = local_engine.sort_by_position
    monkeypatch.setattr(local_engine, "sort_by_position", lambda rows: iter(FAULTS[fault](list(sort(rows)))))

    with pytest.raises(StorageError) as caught:
        local_engine.mutate(**call_of("records", places, tmp_path / "out"))
    check_not_published(caught.value, tmp_path)


@pytest.mark.parametrize("join", ["aligned", "shuffle", "broadcast"])
@pytest.mark.parametrize("fault", FAULTS)
def test_block_that_is_lost_between_merge_and_file_stops_the_run(places, tmp_path, monkeypatch, join, fault):
    """The same in the writer of the format: it counts what it writes, and not what it was to write."""
    write_rows, times = TextWriter.write, []

    def careless(self, rows):
        times.append(len(rows))
        if len(times) != 2 or not len(rows):  # one block of all
            write_rows(self, rows)
            return
        chosen = FAULTS[fault](list(range(len(rows))))
        write_rows(self, rows.take(pa.array(chosen, pa.int64())))

    monkeypatch.setattr(TextWriter, "write", careless)

    with pytest.raises(StorageError) as caught:
        local_engine.mutate(**call_of(join, places, tmp_path / "out"))
    assert times[1] > 0
    check_not_published(caught.value, tmp_path)


@every_join
@pytest.mark.parametrize("fault", ["lost", "doubled"])
@pytest.mark.parametrize("bucket", [0, 1])
def test_receipt_of_a_bucket_that_is_lost_or_doubled_stops_the_run(places, tmp_path, join, fault, bucket):
    def engine(plan, staging):
        receipts = local_engine.merge(plan, staging)
        merges = list(receipts.merges)
        if fault == "lost":
            del merges[bucket]
        else:
            merges.insert(0, merges[bucket])
        return replace(receipts, merges=tuple(merges))

    with pytest.raises(StorageError) as caught:
        merge.run(engine, **call_of(join, places, tmp_path / "out"))
    check_not_published(caught.value, tmp_path)


def test_receipt_of_a_carried_bucket_that_is_lost_or_doubled_stops_the_run(places, tmp_path):
    for change in (lambda merges: merges.pop(QUIET_BUCKET), lambda merges: merges.insert(0, merges[-1])):

        def engine(plan, staging, change=change):
            receipts = local_engine.merge(plan, staging)
            merges = list(receipts.merges)
            assert merges[QUIET_BUCKET].carried
            change(merges)
            return replace(receipts, merges=tuple(merges))

        with pytest.raises(StorageError) as caught:
            merge.run(engine, **call_of("aligned", places, tmp_path / "out"))
        check_not_published(caught.value, tmp_path)


@every_join
def test_staged_file_that_is_lost_stops_the_run(places, tmp_path, join):
    def engine(plan, staging):
        receipts = local_engine.merge(plan, staging)
        os.unlink(f"{staging}/{receipts.merges[1].files[0].path}")
        return receipts

    with pytest.raises(StorageError, match="it is missing") as caught:
        merge.run(engine, **call_of(join, places, tmp_path / "out"))
    assert caught.value.kind == "receipt"
    assert list(tmp_path.iterdir()) == []
