"""The workflow on a real HDFS that refuses changes, and the litter of its lock."""

import posixpath
import time
import uuid

import pytest

pytest.importorskip("hdfs_native", reason="hdfs-native is not installed: pip install -e '.[hdfs]'")

from hdfs_native import Client

from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.storage import entries_of, hdfs_client, storage_for
from mutator.workflow.directory.paths import Base
from tests.support.hdfs_server import admin
from tests.support.master_base import run_workflow, status_of
from tests.support.plain_workflow import CONFIG, FEEDS, GIVEN, check, merge, put

NAMES = list(FEEDS)


@pytest.fixture
def base(hdfs):
    """Return a base with one version, and a feed file that has arrived."""
    path = f"{hdfs}/{uuid.uuid4().hex}"
    put(f"{path}/master/given.txt", GIVEN)
    for name in NAMES[:2]:
        put(f"{path}/incr/{name}", FEEDS[name])
        if name == NAMES[0]:
            run_workflow(path, CONFIG, merge, sleep=lambda _: None)
    yield path
    storage_for(path).remove(path)


def names(path):
    return [entry.name for entry in entries_of(path)]


def refused_at_the_commit(base, kind):
    """Run, and expect a refusal of the log entry that leaves neither doubt nor litter."""
    with pytest.raises(MutatorError, match="/_mutator/log/") as caught:
        run_workflow(base, CONFIG, merge, sleep=lambda _: None)
    assert caught.value.kind == kind
    assert names(f"{base}/incr") == [NAMES[1]]
    assert names(f"{base}/output") == names(f"{base}/working") == []
    assert [version.number for version in Log(base).all()] == [1]


def works_again(base):
    assert status_of(base, CONFIG).recovered == ()
    assert run_workflow(base, CONFIG, merge, sleep=lambda _: None).version == 2
    assert check(Base(base), {name: FEEDS[name] for name in NAMES[:2]}) == set(NAMES[:2])


def test_a_commit_without_permission_is_known_to_have_failed(base, hdfs, monkeypatch):
    client = Client(hdfs)
    root = base.removeprefix(hdfs)
    waiting = [root]
    while waiting:
        path = waiting.pop()
        if path != f"{root}/_mutator/log":
            client.set_permission(path, 0o777)
        waiting += [posixpath.join(path, entry.name) for entry in entries_of(hdfs + path) if entry.type == "directory"]
    with monkeypatch.context() as other:
        other.setenv("HADOOP_USER_NAME", "somebody")
        other.setattr(hdfs_client, "_clients", {})
        refused_at_the_commit(base, "storage.refused")

    works_again(base)


@pytest.mark.thorough(keep=0, rest=1)
@pytest.mark.parametrize("quota", [("-setQuota", "2", "-clrQuota"), ("-setSpaceQuota", "1", "-clrSpaceQuota")])
def test_a_commit_over_a_quota_is_known_to_have_failed(base, hdfs, quota):
    log = f"{base.removeprefix(hdfs)}/_mutator/log"
    limit, number, clear = quota
    admin(hdfs, limit, number, log)
    refused_at_the_commit(base, "storage.quota")
    admin(hdfs, clear, log)

    works_again(base)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("slow", [3600, 0], ids=["slow clock here", "same clock"])
def test_litter_of_the_lock_is_removed_after_a_minute_of_the_storage(base, hdfs, monkeypatch, slow):
    """The clock of this machine does not count, and a younger file may be in use by another process."""
    client = Client(hdfs)
    lock = f"{base}/_mutator/lock"
    for name, age in ((".clock-old", 90), (".00000000000000000009-000000.json.old", 90), (".clock-new", 5)):
        put(f"{lock}/{name}", b"")
        written = int((time.time() - age) * 1000)
        client.set_times(f"{lock}/{name}".removeprefix(hdfs), written, written)
    now = time.time
    monkeypatch.setattr("mutator.workflow.directory.master_target.time.time", lambda: now() - slow)

    status_of(base, CONFIG)

    assert names(lock) == [".clock-new"]
