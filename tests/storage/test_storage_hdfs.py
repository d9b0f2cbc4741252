"""Behaviour that only HDFS has; the contract of all storages has tests of its own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import uuid

import pytest

pytest.importorskip("hdfs_native", reason="hdfs-native is not installed: pip install -e '.[hdfs]'")

from mutator.errors import MutatorError
from mutator.storage import blocks
from mutator.storage import hdfs_client as backend
from mutator.storage.contract import CERTAIN
from mutator.storage.hdfs import HdfsStorage
from tests.support.cluster import ROOT
from tests.support.hdfs_server import admin
from tests.support.patience import wait_until

STORAGE = HdfsStorage()
# The client's messages when the connection breaks before the answer, and when the answer is a refusal.
LOST = ConnectionAbortedError("RPC listener disconnected")
REFUSED = RuntimeError('RPCError("org.apache.hadoop.ipc.RetriableException", "in safe mode\\n\\tat a.b")')


@pytest.fixture
def base(hdfs):
    path = f"{hdfs}/{uuid.uuid4().hex}"
    STORAGE.make_directory(path)
    yield path
    STORAGE.remove(path)


def write(path, content=b"rows\n", **more):
    with STORAGE.create_new(path, **more) as stream:
        stream.write(content)


def read(path):
    with STORAGE.open(path) as stream:
        return stream.read()


def names(path):
    return [entry.name for entry in STORAGE.entries(path)]


class TaskError:
    """A client whose rename fails before or after it takes effect, or acts as another process in the meantime."""

    def __init__(self, real, fault, done=True, meanwhile=None):
        self._real, self._fault, self._done, self._meanwhile = real, fault, done, meanwhile

    def __getattr__(self, name):
        return getattr(self._real, name)

    def rename(self, source, target, overwrite=False):
        if self._meanwhile:
            self._meanwhile(source, target)
        if self._done:
            self._real.rename(source, target, overwrite)
        raise self._fault


@pytest.fixture
def faulty(base, monkeypatch):
    def put(fault, **more):
        authority = base.split("/")[2]
        client = backend._client(authority)
        monkeypatch.setitem(backend._clients, (os.getpid(), authority), TaskError(client, fault, **more))

    return put


# --- lost answers ---


def test_a_lost_answer_to_a_rename(base, faulty):
    write(f"{base}/one")
    STORAGE.make_directory(f"{base}/directory")
    write(f"{base}/directory/inside")
    faulty(LOST)
    STORAGE.rename_new(f"{base}/one", f"{base}/other")
    STORAGE.rename_new(f"{base}/directory", f"{base}/moved")
    assert names(base) == ["moved", "other"]
    assert names(f"{base}/moved") == ["inside"]


def test_a_lost_answer_to_a_creation(base, faulty):
    faulty(LOST)
    write(f"{base}/one")
    assert names(base) == ["one"]
    assert read(f"{base}/one") == b"rows\n"


def test_a_lost_call(base, faulty):
    write(f"{base}/one")
    faulty(LOST, done=False)
    with pytest.raises(MutatorError, match="disconnected"):
        STORAGE.rename_new(f"{base}/one", f"{base}/other")
    with pytest.raises(MutatorError, match="disconnected"):
        write(f"{base}/two")
    assert names(base) == ["one"]


def test_a_lost_call_while_another_writer_takes_the_name(base, faulty):
    def other_writer(source, target):
        with backend._client(base.split("/")[2])._real.create(target) as stream:
            stream.write(b"their\n")

    faulty(LOST, done=False, meanwhile=other_writer)
    with pytest.raises(MutatorError, match="disconnected"):
        write(f"{base}/one")
    assert names(base) == ["one"]
    assert read(f"{base}/one") == b"their\n"


def test_a_refusal_of_the_namenode_is_not_in_doubt(base, faulty):
    write(f"{base}/one")
    faulty(REFUSED, done=False)
    with pytest.raises(MutatorError, match="other: in safe mode; check") as caught:
        STORAGE.rename_new(f"{base}/one", f"{base}/other")
    assert caught.value.kind == "storage"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("security.AccessControlException", "storage.refused"),
        ("hdfs.protocol.NSQuotaExceededException", "storage.quota"),
        ("hdfs.protocol.DSQuotaExceededException", "storage.quota"),
        ("hdfs.protocol.QuotaByStorageTypeExceededException", "storage.quota"),
        ("hdfs.server.namenode.SafeModeException", "storage.paused"),
    ],
)
def test_a_refusal_before_any_change_is_certain(base, faulty, name, kind):
    write(f"{base}/one")
    faulty(RuntimeError(f'RPCError("org.apache.hadoop.{name}", "refused\\n\\tat a.b")'), done=False)
    for act in (
        lambda: STORAGE.rename_new(f"{base}/one", f"{base}/other"),
        lambda: write(f"{base}/two"),
        lambda: STORAGE.replace(f"{base}/one", b"new"),
    ):
        with pytest.raises(MutatorError, match="refused; ") as caught:
            act()
        assert caught.value.kind == kind
        assert kind in CERTAIN
    assert names(base) == ["one"]
    assert read(f"{base}/one") == b"rows\n"


def test_a_refused_lookup_after_a_lost_answer_leaves_the_rename_in_doubt(base, faulty, monkeypatch):
    write(f"{base}/one")
    faulty(LOST)
    client = backend._clients[os.getpid(), base.split("/")[2]]
    look_up, looked_up = client.get_file_info, []

    def refuse_the_second(path):
        looked_up.append(path)
        if len(looked_up) > 1:
            raise RuntimeError('RPCError("org.apache.hadoop.security.AccessControlException", "no entry")')
        return look_up(path)

    monkeypatch.setattr(client, "get_file_info", refuse_the_second, raising=False)
    with pytest.raises(MutatorError, match="disconnected") as caught:
        STORAGE.rename_new(f"{base}/one", f"{base}/other")
    assert caught.value.kind == "storage"
    assert len(looked_up) > 1


def as_user(name, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", name)
    monkeypatch.setattr(backend, "_clients", {})


def test_a_user_without_permission(base, monkeypatch):
    write(f"{base}/one")
    with monkeypatch.context() as other:
        as_user("somebody", other)
        for act in (
            lambda: write(f"{base}/two"),
            lambda: STORAGE.rename_new(f"{base}/one", f"{base}/two"),
            lambda: STORAGE.make_directory(f"{base}/directory"),
            lambda: STORAGE.remove(f"{base}/one"),
        ):
            with pytest.raises(MutatorError, match=r"Permission denied: user=somebody.*check the owner") as caught:
                act()
            assert caught.value.kind == "storage.refused"
    assert names(base) == ["one"]


@pytest.mark.thorough(keep=0)
def test_quotas_and_safe_mode(base, hdfs):
    write(f"{base}/one")
    STORAGE.make_directory(f"{base}/full")
    STORAGE.make_directory(f"{base}/small")
    directory = base.removeprefix(hdfs)
    admin(hdfs, "-setQuota", "1", f"{directory}/full")
    admin(hdfs, "-setSpaceQuota", "1000", f"{directory}/small")
    acts = [lambda: write(f"{base}/full/one"), lambda: STORAGE.rename_new(f"{base}/one", f"{base}/full/one")]
    for act in (*acts, lambda: write(f"{base}/small/one"), lambda: STORAGE.replace(f"{base}/small/one", b"rows")):
        with pytest.raises(MutatorError, match=r"quota .*have the quota raised") as caught:
            act()
        assert caught.value.kind == "storage.quota"
    assert names(f"{base}/full") == names(f"{base}/small") == []
    admin(hdfs, "-safemode", "enter")
    try:
        for act in (lambda: write(f"{base}/two"), lambda: STORAGE.rename_new(f"{base}/one", f"{base}/two")):
            with pytest.raises(MutatorError, match="Name node is in safe mode") as caught:
                act()
            assert caught.value.kind == "storage.paused"
    finally:
        admin(hdfs, "-safemode", "leave")
    assert names(base) == ["full", "one", "small"]


def test_the_loser_of_a_race_for_a_source_does_not_believe_that_it_won(base, faulty):
    write(f"{base}/one")
    done = FileNotFoundError("rename source /one is not found.\n\tat org.apache.hadoop.hdfs.server.namenode.X")
    faulty(done)  # another process has moved it to the same name
    with pytest.raises(MutatorError) as caught:
        STORAGE.rename_new(f"{base}/one", f"{base}/other")
    assert caught.value.kind == "storage.missing"


# --- renames ---


@pytest.mark.parametrize("source", ["file", "directory"])
@pytest.mark.parametrize("target", ["other file", "other directory"])
def test_a_rename_never_nests_and_never_replaces(base, source, target):
    for name in ("file", "other file"):
        write(f"{base}/{name}", name.encode())
    for name in ("directory", "other directory"):
        STORAGE.make_directory(f"{base}/{name}")
    with pytest.raises(FileExistsError):
        STORAGE.rename_new(f"{base}/{source}", f"{base}/{target}")
    assert names(base) == ["directory", "file", "other directory", "other file"]
    assert names(f"{base}/other directory") == []
    assert read(f"{base}/other file") == b"other file"


# --- writing ---


def test_an_abort_leaves_nothing(base):
    with pytest.raises(KeyError), STORAGE.create_new(f"{base}/one") as stream:  # noqa: PT012
        stream.write(b"x" * (3 << 20))
        assert names(base)[0].startswith(".one.")
        assert len(names(base)) == 1
        raise KeyError
    assert names(base) == []


def test_a_file_is_not_visible_before_it_is_complete(base):
    def final():
        assert [name[:5] for name in names(base)] == [".one."]
        return f"{base}/two"

    write(f"{base}/one", final=final)
    assert names(base) == ["two"]


def test_an_existing_file_stays(base):
    write(f"{base}/one", b"first\n")
    with pytest.raises(MutatorError) as caught:
        write(f"{base}/one", b"second\n")
    assert caught.value.kind == "storage.exists"
    assert names(base) == ["one"]
    assert read(f"{base}/one") == b"first\n"


def test_a_directory_that_was_removed_does_not_come_back(base):
    STORAGE.make_directory(f"{base}/run")
    with pytest.raises(MutatorError) as caught, STORAGE.create_new(f"{base}/run/part") as stream:  # noqa: PT012
        stream.write(b"rows\n")
        STORAGE.remove(f"{base}/run")
    with pytest.raises(MutatorError) as later:
        write(f"{base}/run/part")
    assert caught.value.kind in ("storage", "storage.missing")
    assert later.value.kind == "storage.missing"
    assert names(base) == []


def test_several_blocks_are_each_synced(base, monkeypatch):
    import hdfs_native

    options = hdfs_native.WriteOptions
    monkeypatch.setattr(hdfs_native, "WriteOptions", lambda **more: options(block_size=1 << 20, **more))
    synced = []
    hsync = hdfs_native.FileWriter.hsync
    monkeypatch.setattr(hdfs_native.FileWriter, "hsync", lambda self: (synced.append(1), hsync(self)))
    content = random.Random(1).randbytes((3 << 20) + 5)
    write(f"{base}/one", content)
    assert len(synced) == 4
    assert read(f"{base}/one") == content


def test_a_killed_writer_leaves_a_file_that_can_be_removed_at_once(base):
    program = f"""
import os, signal
from mutator.storage.hdfs import HdfsStorage
with HdfsStorage().create_new({base + "/one"!r}) as stream:
    stream.write(b"x" * (3 << 20))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == -signal.SIGKILL
    (left,) = STORAGE.entries(base)
    assert left.name.startswith(".one.")
    STORAGE.remove(left.path)
    assert names(base) == []


# --- names ---


@pytest.mark.parametrize("name", ["a#b", "a?b;c", "a%20b", "a b", "ä€😀", "[x]*", "n" * 255, "€" * 85])
def test_names_are_literal(base, name):
    write(f"{base}/{name}")
    assert names(base) == [name]
    assert STORAGE.stat(f"{base}/{name}").path == f"{base}/{name}"
    STORAGE.rename_new(f"{base}/{name}", f"{base}/x")
    assert names(base) == ["x"]


def test_a_directory_is_not_read_and_a_file_not_listed(base):
    write(f"{base}/one")
    for refused in (lambda: STORAGE.open(base), lambda: STORAGE.entries(f"{base}/one")):
        with pytest.raises(MutatorError) as caught:
            refused()
        assert caught.value.kind == "storage"
    assert STORAGE.stat(f"{base}/one/two") is None


def test_an_unreachable_namenode(tmp_path, monkeypatch):
    setting = "<property><name>dfs.client.failover.max.attempts</name><value>0</value></property>"  # 15: three minutes
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{setting}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(MutatorError, match=r"hdfs://127\.0\.0\.1:1/x: Connection refused") as caught:
        STORAGE.stat("hdfs://127.0.0.1:1/x")
    assert caught.value.kind == "storage"


# --- reading ---


def test_random_seeks_read_the_right_bytes(base):
    numbers = random.Random(7)
    content = numbers.randbytes((5 << 20) + 321)
    write(f"{base}/one", content)
    with STORAGE.open(f"{base}/one", 1 << 20) as stream:
        assert stream.name == f"{base}/one"
        assert stream.seekable()
        assert stream.tell() == 1 << 20
        at = 1 << 20
        for _ in range(150):
            if numbers.random() < 0.6:
                at = numbers.randrange(len(content) + 100)
                how = numbers.randrange(3)
                assert stream.seek(at - (0, stream.tell(), len(content))[how], how) == at
            size = numbers.choice((0, 1, 100, 70_000, 2 << 20))
            assert stream.read(size) == content[at : at + size]
            at += len(content[at : at + size])
            assert stream.tell() == at
        stream.seek(5)
        assert stream.read() == content[5:]


def test_a_read_that_fails_is_a_storage_error(base, monkeypatch):
    write(f"{base}/one", b"x" * 1000)
    stream = STORAGE.open(f"{base}/one")

    def broken(offset, size):
        raise RuntimeError('DataTransferError("no DataNode has it")')

    monkeypatch.setattr(stream._inner, "read_range_stream", broken)
    with pytest.raises(MutatorError, match="one: no DataNode has it;"):
        list(blocks(stream))


def test_a_forked_process_has_its_own_client(base):
    write(f"{base}/one")
    child = os.fork()
    if not child:
        os._exit(0 if read(f"{base}/one") == b"rows\n" else 1)
    try:
        ended = wait_until(lambda: [found for found in [os.waitpid(child, os.WNOHANG)] if found[0]])
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    assert ended == [(child, 0)]


CONFIGURED = """
import sys
from mutator.storage import storage_for
for path in sys.argv[1:]:
    storage = storage_for(path)
    storage.make_directory(path)
    with storage.create_new(path + "/file") as stream:
        stream.write(b"content")
    print(storage.stat(path + "/file").path, storage.open(path + "/file").read().decode())
    storage.remove(path)
"""


def test_names_of_the_configuration_directory(hdfs, tmp_path):
    """Test a name service of two NameNodes, one of them down, as in high availability; and the default name service."""
    there = hdfs.removeprefix("hdfs://")
    settings = {
        "fs.defaultFS": "hdfs://lake",
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "one,two",
        "dfs.namenode.rpc-address.lake.one": "127.0.0.1:9",
        "dfs.namenode.rpc-address.lake.two": there,
    }
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (tmp_path / name).write_text(f"<configuration>{rows}</configuration>")
    paths = [f"{root}/{uuid.uuid4().hex}" for root in ("hdfs://lake", "hdfs://", hdfs)]
    done = subprocess.run(
        [sys.executable, "-c", CONFIGURED, *paths],
        env=os.environ | {"HADOOP_CONF_DIR": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [word for path in paths for word in (f"{path}/file", "content")], done.stderr


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    monkeypatch.setattr(backend, "_clients", {})
    with pytest.raises(MutatorError, match=r"pip install -e '\.\[hdfs\]' in a checkout of mutator") as caught:
        STORAGE.stat("hdfs://name:8020/master")
    assert caught.value.exit_code == 2
