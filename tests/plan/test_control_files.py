"""Control files: their statements, the checks before a merge, and their moves in a workflow."""

import bz2
import gzip
import hashlib
import json
import zlib
from contextlib import suppress
from dataclasses import replace

import pytest

from mutator import config as configuration
from mutator.dataset.version_log import Log
from mutator.errors import ConfigError, DataError, MutatorError, failpoints
from mutator.errors.interrupts import Interrupted
from mutator.plan.inspect import control_files
from mutator.plan.inspect.survey import survey_inputs
from mutator.storage import entries_of, storage_for
from mutator.workflow.directory.master_target import MasterTarget
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.recovery import recover
from mutator.workflow.directory.run_phases import Run
from tests.support import plain_workflow
from tests.support.effort import stride
from tests.support.failpoints import WORKFLOW_FAILPOINTS
from tests.support.job import CONFIG, MASTER, WITH_OP, Job
from tests.support.master_base import run_workflow, status_of
from tests.support.model_storage import KINDS, Killed, ModelStorage, mounted
from tests.support.plain_workflow import FEEDS, GIVEN, check, put
from tests.support.process_deaths import copy_of
from tests.support.workflow_base import BY_NAME, Place, refused

WITH_CONTROL = {**CONFIG, "feed.control.suffix": ".ctl"}
NAME = "ups_7.txt"
MD5, SHA1, SHA256 = (hashlib.new(name, b"abc").hexdigest() for name in ("md5", "sha1", "sha256"))


# --- statements of a control file

READ = [
    ("rows=3", {"rows": "3"}),
    ("rows = 3\n", {"rows": "3"}),
    ("Records: 3", {"rows": "3"}),
    ("COUNT:0003\r\n", {"rows": "3"}),
    ("rows=3\rbytes=9", {"rows": "3", "bytes": "9"}),
    ("rows=3\ncount=3", {"rows": "3"}),
    ("\ufeffrows=3", {"rows": "3"}),
    ("# of Monday\n\n  rows=3\n # rows=4\n", {"rows": "3"}),
    ("bytes=0", {"bytes": "0"}),
    (f"md5={MD5}", {"md5": MD5}),
    (f"MD5: {MD5.upper()}", {"md5": MD5}),
    (f"sha1={SHA1}\nsha256={SHA256}", {"sha1": SHA1, "sha256": SHA256}),
    ("crc32=352441C2", {"crc32": "352441c2"}),
    ("crc32=0xc2", {"crc32": "000000c2"}),
    ("120", {"rows": "120"}),
    ("\n# rows\n 120 \n", {"rows": "120"}),
    (MD5, {"md5": MD5}),
    (SHA1.upper(), {"sha1": SHA1}),
    (SHA256, {"sha256": SHA256}),
    ("1" * 32, {"md5": "1" * 32}),
    (f"{MD5}  {NAME}\n", {"md5": MD5}),
    (f"{SHA256} *{NAME}\n", {"sha256": SHA256}),
]


@pytest.mark.parametrize(("text", "statements"), READ)
def test_accepted_forms(text, statements):
    assert control_files.parse(text.encode(), NAME) == statements


UNUSABLE = [
    (b"", "it says nothing"),
    (b"\n# rows=3\n", "it says nothing"),
    (b"three", "'three' is not understood"),
    (b"row=3", "'row' is not known; known are rows, records, count, bytes, crc32, md5, sha1, sha256"),
    (b"rows=3\nsize=9", "'size' is not known"),
    (b"rows=", "rows must be a whole number, and is ''"),
    (b"rows=-1", "rows must be a whole number"),
    (b"rows=1,000", "rows must be a whole number"),
    ("rows=٣".encode(), "rows must be a whole number"),
    (b"bytes=9k", "bytes must be a whole number"),
    (b"md5=abc", "md5 must be 32 hex digits"),
    (f"sha256={SHA1}".encode(), "sha256 must be 64 hex digits"),
    (b"crc32=123456789", "crc32 must be 8 hex digits"),
    (b"rows=3\nrows=4", "two different things of rows: 3 and 4"),
    (b"rows=3\nrecords=4", "two different things of rows: 3 and 4"),
    (b"3\n3", "'3' is not understood"),
    (f"rows=3\n{MD5}".encode(), "is not understood"),
    (MD5[:-1].encode(), "is not understood"),
    (b"1" * 19, "is not understood"),
    (f"{MD5}  ups_8.txt".encode(), "it is of 'ups_8.txt'"),
    (f"{MD5}  out/{NAME}".encode(), "it is of 'out/ups_7.txt'"),
    (b"rows=3\xff", "it is no UTF-8 text (byte 6)"),
    (b"#" * (64 << 10) + b"\n", "it is larger than 64 KiB"),
]


@pytest.mark.parametrize(("data", "why"), UNUSABLE, ids=[str(number) for number in range(len(UNUSABLE))])
def test_refused_forms(data, why):
    with pytest.raises(ValueError, match=r"\w") as caught:
        control_files.parse(data, NAME)

    assert why in str(caught.value)


# --- a run

FEED = b"b,2,200\r\n\r\n\nc,3,200\nbroken\ne,5,200"  # 4 rows, one of which is rejected
QUARANTINE = {**WITH_CONTROL, "reject.policy": "quarantine"}


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def about(content, count=4):
    return {
        "rows": str(count),
        "bytes": str(len(content)),
        "md5": hashlib.md5(content).hexdigest(),
        "sha1": hashlib.sha1(content).hexdigest(),
        "sha256": hashlib.sha256(content).hexdigest(),
        "crc32": f"{zlib.crc32(content):08x}",
    }


STORED = {"ups.txt": FEED, "ups.txt.gz": gzip.compress(FEED), "ups.txt.bz2": bz2.compress(FEED)}


@pytest.mark.thorough(keep=7)
@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("key", ["all", *about(b"")])
def test_correct_control_files_are_merged(job, name, key):
    content = STORED[name]
    job.put(name, content)
    statements = about(content)
    job.put(f"{name}.ctl", "".join(f"{one}={statements[one]}\n" for one in statements if key in (one, "all")).encode())
    report = job.run(QUARANTINE)

    assert report.counts["feed rows"] == 4
    assert report.counts["feed rejected"] == 1
    assert report.ignored == ()


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("key", about(b""))
def test_wrong_control_files_are_refused(job, name, key):
    content = STORED[name]
    path = job.put(name, content)
    found, other = about(content)[key], about(content + b"x\n", count=5)[key]
    job.put(
        f"{name}.ctl",
        "".join(f"{one}={statements}\n" for one, statements in {**about(content), key: other}.items()).encode(),
    )

    says = f"{path}: its control file {name}.ctl says {key}={other}, and it has {key}={found}; have both the feed file"
    job.refused(DataError, says, settings=QUARANTINE)


@pytest.mark.parametrize("name", STORED)
def test_truncated_file_is_found_by_its_digest(job, name):
    """The size of the file is compared, not the number of bytes that can be unpacked."""
    path = job.put(name, STORED[name][:-9])
    job.put(f"{name}.ctl", f"sha256={about(STORED[name])['sha256']}\nrows=4\n".encode())

    job.refused(
        DataError, path, f"says sha256={about(STORED[name])['sha256']}, and it has sha256=", settings=QUARANTINE
    )


def test_rows_of_a_file_that_cannot_be_unpacked(job):
    path = job.put("ups.txt.gz", gzip.compress(FEED)[:-9])
    job.put("ups.txt.gz.ctl", b"rows=4")

    job.refused(DataError, f"{path}: its gzip content ends early; the file is damaged", settings=QUARANTINE)


ROWS = {
    "nothing": (b"", 0, {}),
    "blank lines": (b"\n\r\n\n", 0, {}),
    "header": (b"id,value,time\nb,2,200\n", 1, {"header.lines": "1"}),
    "mark and header": (b"\xef\xbb\xbfid,value,time\nb,2,200\n", 1, {"header.lines": "1"}),
    "mark": (b"\xef\xbb\xbfb,2,200\nc,3,200\n", 2, {}),
    "mark on a blank line": (b"\xef\xbb\xbf\nc,3,200\n", 1, {}),
    "blank header": (b"\nid,value,time\nb,2,200\n", 1, {"header.lines": "2"}),
    "carriage returns": (b"b,2,200\r\rc,3,200\r", 2, {}),
    "no line end": (b"b,2,200\nc,3,200", 2, {}),
    "many": (b"b,%s,200\n" % (b"2" * 100) * 25_000, 25_000, {}),
}


@pytest.mark.parametrize("what", ROWS)
def test_rows_are_counted_as_the_run_counts_them(job, what):
    content, count, settings = ROWS[what]
    if settings:
        job.put("base.txt", content.partition(b"b,2")[0] + MASTER, "master")
    job.put("ups.txt", content)
    job.put("ups.txt.ctl", str(count).encode())

    assert job.run({**WITH_CONTROL, **settings}).counts["feed rows"] == count


def test_files_without_control_files_are_all_named(job):
    paths = [job.put(f"ups_{number}.txt") for number in range(3)]
    job.put("ups_1.txt.ctl", b"1")

    job.refused(
        DataError,
        f"{paths[0]}, {paths[2]}: has no control file (feed.control.suffix=.ctl); wait for it",
        settings=WITH_CONTROL,
    )


def test_control_file_without_its_feed_file(job):
    job.put("ups_1.txt")
    job.put("ups_1.txt.ctl", b"1")
    orphan = job.put("ups_2.txt.ctl", b"1")
    words = (DataError, f"{orphan}: a control file whose feed file is not in the feed; wait for the feed file")

    job.refused(*words, settings=WITH_CONTROL)
    job.refused(*words, settings=WITH_CONTROL, feed=[f"{job.feed}/*"])
    job.refused(*words, settings=WITH_CONTROL, feed=[f"{job.feed}/*.txt"])
    job.refused(*words, settings=WITH_CONTROL, feed=[f"{job.root}/f*d"])
    job.refused(*words, settings=WITH_CONTROL, feed=[str(orphan)])
    # A user who names some files has not asked for the others.
    assert job.run(WITH_CONTROL, feed=[f"{job.feed}/ups_1.*"], dry_run=True).counts["feed rows"] == 1


@pytest.mark.parametrize(
    "feed", ["", "/*", "/*.txt", "/ups_?.txt", "/ups_1.txt+/ups_2.txt", "/ups_1.txt+/ups_1.txt.ctl+"]
)
def test_every_way_to_name_the_feed(job, feed):
    for number in (1, 2):
        job.put(f"ups_{number}.txt", b"b,2,200\n" * number)
        job.put(f"ups_{number}.txt.ctl", f"rows={number}".encode())
    report = job.run(WITH_CONTROL, feed=[f"{job.feed}{one}" for one in feed.split("+")])

    assert report.counts["feed rows"] == 3


def test_all_files_that_differ_are_named(job):
    paths = [job.put(f"ups_{number}.txt") for number in range(3)]
    for number in (0, 1, 2):
        job.put(f"ups_{number}.txt.ctl", b"rows=%d" % number)

    message = job.refused(DataError, f"{paths[0]}: its control", "rows=0", f"; {paths[2]}: its", settings=WITH_CONTROL)
    assert str(paths[1]) not in message


def test_unusable_control_file(job):
    job.put("ups.txt")
    path = job.put("ups.txt.ctl", b"lines=1")

    job.refused(
        DataError,
        f"{path}: the control file cannot be used: 'lines' is not known",
        "such as rows=120",
        settings=WITH_CONTROL,
    )


@pytest.mark.parametrize("feed", ["", "/ups.txt"])
def test_link_in_place_of_a_control_file(job, feed):
    job.put("ups.txt")
    (job.root / "elsewhere").write_bytes(b"1")
    (job.feed / "ups.txt.ctl").symlink_to(job.root / "elsewhere")

    job.refused(
        ConfigError, job.feed / "ups.txt.ctl", "is a symbolic link", settings=WITH_CONTROL, feed=[f"{job.feed}{feed}"]
    )


def test_files_that_were_merged_before_are_not_checked_again(job):
    job.put("ups.txt")
    job.put("ups.txt.ctl", b"1")
    job.follow(WITH_CONTROL)
    job.add("ups.txt")
    assert job.run(WITH_CONTROL, dry_run=True).consumed == (f"{job.feed}/ups.txt",)
    job.add("ups.txt.ctl", b"7")
    assert job.run(WITH_CONTROL, dry_run=True).consumed == (f"{job.feed}/ups.txt",)

    job.refused(DataError, "says rows=7", settings={**WITH_CONTROL, "consumed.files": "merge"})


def test_without_the_setting_a_control_file_is_a_feed_file(job):
    job.put("ups.txt")
    path = job.put("ups.txt.ctl", b"1")

    job.refused(DataError, path, "1 feed row cannot be read as a record")


def test_files_are_read_once_for_all_digests(job, monkeypatch):
    path = job.put("ups.txt")
    job.put(
        "ups.txt.ctl", "".join(f"{one}={statements}\n" for one, statements in about(b"b,2,200\n", 1).items()).encode()
    )
    storage, opened = storage_for(str(path)), []
    real = type(storage).open
    monkeypatch.setattr(type(storage), "open", lambda self, at, *more: opened.append(at) or real(self, at, *more))
    survey_inputs(configuration.parse(CONFIG), str(job.master), [str(path)])
    without = opened.count(str(path))
    survey_inputs(configuration.parse(WITH_CONTROL), str(job.master), [str(path)])

    assert opened.count(str(path)) == 2 * without + 2


@pytest.mark.parametrize(("ready", "own"), [(".ctl", ".ctl"), (".ready", ".ctl.ready"), (".my.ctl", ".ctl")])
def test_suffixes_that_clash(ready, own):
    with pytest.raises(
        ConfigError, match=r"feed\.control\.suffix: '.*' cannot be distinguished from claim\.ready\.suffix"
    ):
        configuration.parse({**WITH_OP, "claim.ready.suffix": ready, "feed.control.suffix": own})


# --- the workflow, with real merges


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "base", {**BY_NAME, "feed.control.suffix": ".ctl"})
    (place.path / "master" / "base_1.txt").write_text("a,1\nb,1\nc,1\nd,1\n")
    return place


def test_feed_file_waits_for_its_control_file_and_both_are_archived(place):
    place.arrive("ups_2.txt", "a,2")
    place.arrive("ups_3.txt.ctl", "1")
    waiting = {
        "ups_2.txt": "has no control file ups_2.txt.ctl",
        "ups_3.txt.ctl": "is a control file without its feed file",
    }
    assert dict(place.run().waiting) == dict(place.status().waiting) == waiting
    place.arrive("ups_2.txt.ctl", "1")
    done = place.run()

    assert (done.claimed, done.version, done.report.ignored) == (("ups_2.txt",), 1, ())
    assert place.names(f"archive/{done.run}") == ["ups_2.txt", "ups_2.txt.ctl"]
    assert place.names("incr") == ["ups_3.txt.ctl"]
    assert list((place.path / "working").iterdir()) == []
    assert place.rows() == ["a,2", "b,1", "c,1", "d,1"]


def test_mismatch_changes_nothing(place):
    place.arrive("ups_2.txt", "a,2")
    place.arrive("ups_2.txt.ctl", "rows=2")
    place.arrive("ups_3.txt", "b,3")
    place.arrive("ups_3.txt.ctl", "rows=1")
    says = f"{place.path}/incr/ups_2.txt: its control file ups_2.txt.ctl says rows=2, and it has rows=1"
    place.settings = place.settings | {"bad.files": "fail"}
    refused(place.run, 3, says)

    assert place.names("incr") == ["ups_2.txt", "ups_2.txt.ctl", "ups_3.txt", "ups_3.txt.ctl"]
    assert place.names("archive") == place.names("output") == []
    assert list((place.path / "working").iterdir()) == []
    assert Log(str(place.path)).all() == []
    place.arrive("ups_2.txt.ctl", "rows=1")
    assert place.run().version == 1


def test_control_file_must_be_old_enough_as_well(place):
    place.arrive("ups_2.txt", "a,2")
    place.arrive("ups_2.txt.ctl", "1")
    assert "claim.min.age is 3600 s" in dict(place.run(claim_min_age="1h").waiting)["ups_2.txt"]


def test_control_file_that_is_not_a_regular_file_waits(place):
    place.arrive("ups_2.txt", "a,2")
    (place.path / "incr" / "ups_2.txt.ctl").mkdir()

    assert dict(place.run().waiting)["ups_2.txt"] == "has a control file ups_2.txt.ctl that is a directory"


def test_ready_marker_and_control_file_together(place):
    place.settings = place.settings | {"claim.ready.suffix": ".ready"}
    place.arrive("ups_2.txt", "a,2")
    place.arrive("ups_2.txt.ready")
    assert dict(place.run().waiting) == {"ups_2.txt": "has no control file ups_2.txt.ctl"}
    place.arrive("ups_2.txt.ctl", "2")
    refused(place.run, 3, "says rows=2")
    assert place.names("incr") == ["ups_2.txt", "ups_2.txt.ctl", "ups_2.txt.ready"]
    place.arrive("ups_2.txt.ctl", "1")
    done = place.run()

    assert place.names(f"archive/{done.run}") == ["ups_2.txt", "ups_2.txt.ctl"]
    assert place.names("incr") == []


def test_settled_files_are_archived_with_their_control_files(place):
    for _ in range(2):
        place.arrive("ups_2.txt", "a,2")
        place.arrive("ups_2.txt.ctl", "1")
        done = place.run()

    assert done.skipped == ("ups_2.txt",)
    assert place.names(f"archive/{done.run}") == ["ups_2.txt", "ups_2.txt.ctl"]


@pytest.mark.parametrize("newer", ["ups_2.txt", "ups_2.txt.ctl"])
def test_newer_file_gets_no_control_file_of_an_older_one(place, newer):
    """An older file does not use a newer file's control file, either: both are claimed together and merged first."""
    place.arrive("ups_2.txt", "a,2", "broken")
    place.arrive("ups_2.txt.ctl", "2")
    merge = local_merge(place)

    def while_it_runs(task):
        place.arrive(newer, "a,newer" if newer == "ups_2.txt" else "rows=1")
        return merge(task)

    config = configuration.parse(place.settings)
    refused(lambda: run_workflow(str(place.path), config, while_it_runs), 3, "cannot be read")

    (aside,) = (path for path in (place.path / "incr").iterdir() if path.is_dir())
    assert sorted(path.name for path in aside.iterdir()) == ["ups_2.txt", "ups_2.txt.ctl"]
    assert list(dict(place.status().waiting)) == [newer]
    done = place.run(reject_policy="quarantine")
    assert done.claimed == ("ups_2.txt",)
    assert place.rows()[0] == "a,2"
    assert place.names("incr") == [newer]
    assert list(dict(place.status().waiting)) == [newer]


def local_merge(place):
    from mutator.workflow.directory import merge_by
    from tests.support import local_engine

    return merge_by(configuration.parse(place.settings), local_engine.merge)


def test_another_configuration_puts_control_files_back(place, monkeypatch):
    """A command can repair a base without knowing the suffix."""
    place.arrive("ups_2.txt", "a,2")
    place.arrive("ups_2.txt.ctl", "1")

    def die(task):
        place.arrive("ups_2.txt", "a,newer")
        raise Interrupted(15)

    monkeypatch.setattr(Run, "undo", lambda *_: False)
    with suppress(Interrupted):
        run_workflow(str(place.path), configuration.parse(place.settings), die)
    monkeypatch.undo()
    assert len(place.names("working")) == 2
    status_of(str(place.path), configuration.parse(BY_NAME))

    (aside,) = (path for path in (place.path / "incr").iterdir() if path.is_dir())
    assert sorted(path.name for path in aside.iterdir()) == ["ups_2.txt", "ups_2.txt.ctl"]


def test_every_failpoint_of_control_files_is_passed(place, monkeypatch):
    monkeypatch.setenv(failpoints.VARIABLE, "none")
    monkeypatch.setattr(failpoints, "PASSED", [])
    place.arrive("ups_2.txt", "a,2")
    place.arrive("ups_2.txt.ctl", "2")
    refused(place.run, 3, "says rows=2")

    of_control = {name for name in WORKFLOW_FAILPOINTS if "control" in name}
    assert len(of_control) == 3
    assert of_control - set(failpoints.PASSED) == set()


# --- the workflow's protocol, on a model of each storage

PLAIN = replace(plain_workflow.CONFIG, inputs=replace(plain_workflow.CONFIG.inputs, control_suffix=".ctl"))
NAMES = list(FEEDS)
DELIVERED = {}
for _name in NAMES[:3]:
    DELIVERED |= {_name: FEEDS[_name], f"{_name}.ctl": f"md5={hashlib.md5(FEEDS[_name]).hexdigest()}\n".encode()}
NEWER = b"a,newer\n"

every_storage = pytest.mark.parametrize(
    "storage_type",
    [pytest.param(storage_type, marks=pytest.mark.soak if storage_type == "hdfs" else ()) for storage_type in KINDS],
)
every_start = pytest.mark.parametrize("runs", [0, 2], ids=["first run", "third run"])


def checking_merge(task):
    """Merge as ``mutator run`` does: compare feed files with their control files."""
    survey_inputs(replace(PLAIN, inputs=replace(PLAIN.inputs, allow_empty_master=True)), "model://base/none", task.feed)
    return plain_workflow.merge(task)


def run_it(path, merge=checking_merge):
    return run_workflow(path, PLAIN, merge, sleep=lambda _: None)


def new_base(storage_type, runs):
    storage = ModelStorage(storage_type)
    with mounted(storage) as path:
        put(f"{path}/master/given.txt", GIVEN)
        for name in NAMES[:runs]:
            deliver(path, name)
            run_it(path)
        storage.make_directory(f"{path}/incr")
        deliver(path, *NAMES[runs:3])
    return storage


def deliver(path, *names):
    for name in names:
        put(f"{path}/incr/{name}", DELIVERED[name])
        put(f"{path}/incr/{name}.ctl", DELIVERED[f"{name}.ctl"])


def faulty_runs(start, fault, merge=checking_merge):
    """Yield one storage for each call of a run, or for some in `make test`; on each, another call has failed."""
    whole = copy_of(start)
    with mounted(whole) as path, suppress(MutatorError):
        run_it(path, merge)
    for number in range(0, whole.calls, stride(3)):
        storage = copy_of(start)
        storage.fault = lambda n, _, number=number: fault if n == number else None
        with mounted(storage) as path, suppress(Killed, MutatorError):
            run_it(path, merge)
        storage.dead, storage.fault = False, lambda n, _: None
        yield storage


def recovered(path):
    """Recover as the next command does once it has the lock; return the recovery."""
    return recover(MasterTarget(Base(path), PLAIN)).actions


def pairs_hold(path):
    """Return whether each feed file has its control file in the same directory."""
    incr = f"{path}/incr"
    places = [incr, *(entry.path for entry in entries_of(incr) if entry.type == "directory")]
    places += [entry.path for entry in entries_of(f"{path}/archive")]
    listings = [{entry.name for entry in entries_of(place) if entry.type == "file"} for place in places]
    return all(name + ".ctl" in names for names in listings for name in names if not name.endswith(".ctl"))


@pytest.fixture(autouse=True)
def no_lock(monkeypatch):
    """Let this process take over the lock of a dead one; other tests cover the lock's owner."""
    from contextlib import nullcontext

    from mutator.workflow.directory import recovery

    monkeypatch.setattr(recovery, "locked", lambda *_: nullcontext())


@pytest.mark.thorough(keep=1, rest=3)
@every_storage
@every_start
@pytest.mark.parametrize("fault", ["kill", "EIO", "lost"])
def test_control_file_stays_with_its_feed_file_after_any_fault(storage_type, runs, fault):
    outcomes = set()
    for storage in faulty_runs(new_base(storage_type, runs), fault):
        with mounted(storage) as path:
            recovered(path)
            merged = check(Base(path), DELIVERED)
            assert merged in (set(NAMES[:runs]), set(NAMES[:3]))
            assert pairs_hold(path)
            assert recovered(path) == []
            run_it(path)
            assert check(Base(path), DELIVERED) == set(NAMES[:3])
            outcomes.add(len(merged))

    assert outcomes == {runs, 3}


@pytest.mark.thorough(keep=0, rest=3)
@every_storage
@pytest.mark.parametrize("fault", ["kill", "EIO", "lost"])
@pytest.mark.parametrize("fails", [False, True], ids=["merges", "fails"])
def test_no_control_file_vouches_for_a_newer_file(storage_type, fault, fails):
    """A newer file with the same name arrives, without its control file, while the older one is claimed."""
    name, seen = NAMES[0], set()

    def merge(task):
        storage = storage_for(task.master)
        if storage.renames:
            put(f"model://base/incr/{name}", NEWER)
        made = checking_merge(task)
        if not storage.renames:  # a file rewritten during a merge stops the run, so it arrives later
            return made
        if fails:
            raise MutatorError("fails")
        return made

    for storage in faulty_runs(new_base(storage_type, 0), fault, merge):
        with mounted(storage) as path:
            recovered(path)
            again = storage.tree.get(f"{path}/incr/{name}") == NEWER
            if not storage.renames:
                merged = name in check(Base(path), DELIVERED)
                if merged:
                    storage.replace(f"{path}/incr/{name}", NEWER)
                again = merged
            seen.add(again)
            waiting = dict(status_of(path, PLAIN).waiting)
            assert (name in waiting) == again
            done = run_it(path)
            assert name not in dict(done.waiting) or again
            latest = Log(path).latest()
            assert latest.dataset is not None
            log = [part for version in Log(path).all() for part in version.feed if part.name == name]
            assert [part.bytes for part in log] == [len(FEEDS[name])], "the older one was merged, once"
            assert (dict(status_of(path, PLAIN).waiting).get(name, "").startswith("has no control file")) == again
            if again and storage.renames:
                assert storage.tree[f"{path}/incr/{name}"] == NEWER

    assert seen == {False, True}


def test_feed_file_that_is_withdrawn_during_its_claim_leaves_its_control_file():
    storage, name = new_base("posix", 0), NAMES[0]

    def fault(number, call):
        if storage.log[-1].startswith(f"rename_new model://base/incr/{name} "):
            storage.tree.pop(f"model://base/incr/{name}", None)

    storage.fault = fault
    with mounted(storage) as path:
        done = run_it(path)
        assert name not in done.claimed
        assert dict(status_of(path, PLAIN).waiting) == {f"{name}.ctl": "is a control file without its feed file"}


@pytest.mark.parametrize(
    ("address", "beside"),
    [("http://h/a%20b.txt?v=1", "http://h/a%20b.txt.ctl?v=1"), ("s3://b/a?b.txt", "s3://b/a?b.txt.ctl")],
)
def test_address_of_a_control_file(address, beside):
    assert storage_for(address).with_suffix(address, ".ctl") == beside


def test_on_object_stores_a_control_file_vouches_once():
    storage = new_base("s3", 0)
    with mounted(storage) as path:
        done = run_it(path)
        assert (done.version, set(done.claimed), done.waiting) == (1, set(NAMES[:3]), ())
        assert run_it(path).waiting == status_of(path, PLAIN).waiting == ()
        storage.replace(f"{path}/incr/{NAMES[0]}", NEWER)
        why = f"has no control file of its own: {NAMES[0]}.ctl was for a file of this name that is merged"
        assert run_it(path).waiting == ((NAMES[0], why),)
        storage.replace(f"{path}/incr/{NAMES[0]}.ctl", b"1")
        assert status_of(path, PLAIN).ready == (NAMES[0],)
        storage.remove(f"{path}/incr/{NAMES[0]}")
        assert run_it(path).waiting == ((f"{NAMES[0]}.ctl", "is a control file without its feed file"),)


def test_on_object_stores_a_control_file_must_not_change_during_the_run():
    storage = new_base("s3", 0)

    def merge(task):
        made = checking_merge(task)
        storage.replace(f"model://base/incr/{NAMES[0]}.ctl", b"rows=7000000000")
        return made

    with mounted(storage) as path:
        with pytest.raises(DataError, match=r"ups_1\.txt\.ctl: changed while it was being read"):
            run_it(path, merge)
        assert json.dumps(Log(path).latest().counts) == "{}"
