"""Behaviour that only S3 has: lost answers, servers that ignore conditions, uploads that are never completed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mutator.dataset.commit.publish import publish
from mutator.errors import ConfigError, MutatorError, StorageError
from mutator.storage import absolute, s3_client
from mutator.storage import s3 as s3_module
from mutator.storage.s3 import S3Storage

ROOT = Path(__file__).resolve().parents[2]
LARGE = b"0123456789abcdef" * (20 << 16)  # three parts
STORAGE = S3Storage()


@pytest.fixture
def bucket(s3):
    yield s3.bucket()
    s3.behave()


def write(path, content, final=None):
    with STORAGE.create_new(path, final) as stream:
        stream.write(content)


def read(path):
    with STORAGE.open(path) as stream:
        return stream.read()


def names(path):
    return [entry.name for entry in STORAGE.entries(path)]


# The first request of a large object begins its upload, three send its parts, and the fifth completes it.
@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize(("content", "request_number"), [(b"small", 1), *((LARGE, number) for number in range(1, 6))])
def test_lost_answer_is_recovered(s3, bucket, content, request_number):
    """The client repeats the request, and the answer is that the object exists: it is the client's own."""
    s3.behave(lose=request_number)
    write(f"{bucket}/file", content)

    assert read(f"{bucket}/file") == content
    with pytest.raises(StorageError) as caught:
        write(f"{bucket}/file", b"another")
    assert caught.value.kind == "storage.exists"
    STORAGE.remove(bucket + "/file")
    assert s3.uploads(bucket) == []


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_object_of_another_writer_is_not_mistaken_for_ones_own(s3, bucket, content):
    write(f"{bucket}/file", content)
    s3.behave(lose=1)
    with pytest.raises(StorageError) as caught:
        write(f"{bucket}/file", content)

    assert caught.value.kind == "storage.exists"
    assert s3.uploads(bucket) == [] or content is LARGE  # the beginning of this upload was lost: it is found below
    assert STORAGE.unfinished(bucket) == [f"{bucket}/{key}" for key in s3.uploads(bucket)]


@pytest.mark.parametrize("how", ["ignore", "unknown"])
def test_server_without_conditional_puts_is_detected(s3, bucket, how, monkeypatch):
    monkeypatch.setattr(s3_module, "_exclusive", {})
    s3.behave(**{how: True})

    assert STORAGE.exclusive(f"{bucket}/base") is False
    assert names(bucket) == []
    assert s3.uploads(bucket) == []
    for content in (b"first", LARGE):  # operations that need no condition still work
        write(f"{bucket}/{len(content)}", content)
        with pytest.raises(StorageError) as caught:
            write(f"{bucket}/{len(content)}", b"second")
        assert caught.value.kind == "storage.exists"
        assert read(f"{bucket}/{len(content)}") == content


def test_server_is_tried_once(s3, bucket, monkeypatch):
    monkeypatch.setattr(s3_module, "_exclusive", {})
    assert STORAGE.exclusive(f"{bucket}/base") is True
    s3.behave(ignore=True)
    assert STORAGE.exclusive(f"{bucket}/another") is True


@pytest.mark.parametrize("number", [1, 2, 3])
def test_answer_that_ends_early_is_requested_again(s3, bucket, number):
    write(f"{bucket}/file", LARGE)
    with STORAGE.open(f"{bucket}/file", 16) as stream:
        s3.behave(cut=number)
        assert stream.read() == LARGE[16:]


def test_object_that_is_replaced_while_it_is_read_is_an_error(bucket):
    write(f"{bucket}/file", LARGE)
    with STORAGE.open(f"{bucket}/file") as stream:
        stream.read(10)
        STORAGE.replace(f"{bucket}/file", LARGE[::-1])
        stream.seek(16 << 20)
        with pytest.raises(OSError, match="replaced while it was read"):
            stream.read(10)


WRITER = """
import sys
from mutator.storage.s3 import S3Storage
with S3Storage().create_new(sys.argv[1]) as stream:
    for _ in range(40):
        stream.write(bytes(1 << 20))
    print("halfway", flush=True)
    sys.stdin.read()
"""


def test_upload_of_a_killed_writer_is_found_and_aborted(s3, bucket):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, f"{bucket}/output/run/part"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"halfway\n"
        process.send_signal(signal.SIGKILL)

    assert s3.uploads(bucket) == ["output/run/part"]
    assert names(bucket) == []  # the object is not visible
    assert STORAGE.unfinished(f"{bucket}/output") == [f"{bucket}/output/run/part"]
    assert STORAGE.unfinished(f"{bucket}/out") == []
    STORAGE.remove(f"{bucket}/output/run")
    assert s3.uploads(bucket) == []


def test_a_forked_process_has_its_own_connections(bucket):
    write(f"{bucket}/file", b"content")
    before = s3_client.client(bucket)
    child = os.fork()
    if child == 0:
        os._exit(0 if s3_client.client(bucket) is not before and read(f"{bucket}/file") == b"content" else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.soak
def test_removal_of_more_objects_than_fit_in_one_request(s3, bucket):
    client = s3.client()
    for number in range(1002):
        client.put_object(Bucket=bucket[5:], Key=f"tree/{number}")
    client.put_object(Bucket=bucket[5:], Key="tree-beside")
    STORAGE.remove(f"{bucket}/tree")

    assert names(bucket) == ["tree-beside"]


def test_empty_object_that_marks_a_directory_is_not_an_entry(s3, bucket):
    s3.client().put_object(Bucket=bucket[5:], Key="incr/")

    assert STORAGE.stat(f"{bucket}/incr").type == "directory"
    assert names(f"{bucket}/incr") == []
    assert STORAGE.remove_directory(f"{bucket}/incr") is True
    assert STORAGE.stat(f"{bucket}/incr") is None


@pytest.mark.parametrize(
    ("given", "path"),
    [("s3a://lake/a%20b", "s3://lake/a%20b"), ("S3N://lake/a", "s3://lake/a"), ("s3://lake/A//b", "s3://lake/A//b")],
)
def test_spellings_of_an_address(given, path):
    assert absolute(given) == path


def test_trailing_slash_makes_no_difference():
    assert STORAGE.resolve("s3://lake/incr//") == "s3://lake/incr"


def test_missing_bucket_is_reported(s3):
    acts = [STORAGE.stat, STORAGE.entries, STORAGE.open, STORAGE.exclusive, lambda path: write(path, b"")]
    for act in acts:
        with pytest.raises(ConfigError, match=r"s3://no-such-lake/file.*: there is no such bucket"):
            act("s3://no-such-lake/file")
    with pytest.raises(ConfigError, match="there is no such bucket"):
        publish("s3://no-such-lake/out", "20260101T000000Z-01234567", lambda _: None)
    with pytest.raises(ConfigError, match="there is no bucket in it"):
        STORAGE.stat("s3:///incr")


@pytest.mark.thorough(keep=1)
@pytest.mark.processes
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_missing_package_is_named(scheme):
    """The test needs a process that has never imported the package."""
    lines = ["import sys", "sys.modules['boto3'] = sys.modules['botocore'] = None", "from mutator import cli"]
    command = ["run", "--config", "sample_data/product/bumu.properties", "--master", f"{scheme}://lake/master"]
    lines.append(f"sys.exit(cli.main({[*command, '--feed', 'sample_data/product/feed', '--output', 'out']!r}))")
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "s3://lake/master" in done.stderr
    assert "s3:// needs packages that are not installed: pip install -e '.[s3]' in a checkout of mutator" in done.stderr


@pytest.mark.parametrize("lost", range(1, 8))
def test_probe_outlives_a_lost_answer(s3, bucket, lost, monkeypatch):
    monkeypatch.setattr(s3_module, "_exclusive", {})
    s3.behave(lose=lost)
    assert STORAGE.exclusive(f"{bucket}/base") is True
    assert names(bucket) == []
    assert s3.uploads(bucket) == []


def test_without_the_probe_a_server_without_conditions_still_replaces_nothing(s3, bucket):
    s3.behave(unknown=True)
    write(f"{bucket}/file", b"first")
    with pytest.raises(StorageError) as caught:
        write(f"{bucket}/file", b"second")
    assert caught.value.kind == "storage.exists"
    assert read(f"{bucket}/file") == b"first"


@pytest.mark.parametrize(
    ("methods", "act"),
    [
        ("GET HEAD", lambda path: STORAGE.stat(path)),
        ("GET HEAD", lambda path: STORAGE.entries(path)),
        ("GET HEAD", lambda path: STORAGE.open(path)),
        ("PUT", lambda path: write(path, b"")),
        ("PUT POST", lambda path: write(path, LARGE)),
        ("DELETE POST", lambda path: STORAGE.remove(path)),
    ],
)
def test_refused_access_is_reported(s3, bucket, methods, act):
    s3.behave(deny=methods)
    with pytest.raises(StorageError, match=r"(AccessDenied|403).*check the address, the credentials") as caught:
        act(f"{bucket}/file")
    assert caught.value.kind == "storage.service"


@pytest.mark.parametrize("key", ["incr//file", "/incr/file", "incr/shop=1//file", "incr//shop=1///file"])
def test_keys_without_a_path_are_reported(s3, bucket, key):
    """The cure is a path: nothing is wrong with the credentials."""
    s3.client().put_object(Bucket=bucket[5:], Key=key)
    for place in (bucket, f"{bucket}/incr") if key.startswith("incr") else (bucket,):
        with pytest.raises(StorageError, match="two slashes in succession") as caught:
            list(STORAGE.walk(place))
        assert f"such as {bucket}/{key}, is" in str(caught.value)
        assert f"move the object to {bucket}/{'/'.join(filter(None, key.split('/')))}, or" in str(caught.value)
    directory = bucket if key.startswith("/") else f"{bucket}/{key.partition('//')[0]}"
    with pytest.raises(StorageError, match=r"//…, is .*move the object to .*/…, or"):  # not to the directory itself
        STORAGE.entries(directory)
    if key.startswith("incr"):
        STORAGE.remove(f"{bucket}/incr")
        assert names(bucket) == []


def test_name_that_is_not_utf8_is_a_storage_error(bucket):
    with pytest.raises(StorageError, match="is not UTF-8, as keys of objects must be"):
        STORAGE.stat(f"{bucket}/\udcff")


def test_removal_in_a_missing_bucket_is_allowed(s3):
    STORAGE.remove("s3://no-such-lake/file")


ENDPOINTS = {
    "http://127.0.0.1:9": "Could not connect to the endpoint",
    "127.0.0.1:9": r"Invalid endpoint: 127.0.0.1:9; look at the variables AWS_",
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_unreachable_server_is_a_storage_error(endpoint, monkeypatch, s3):
    monkeypatch.setattr(s3_client, "_clients", {})
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(MutatorError, match=ENDPOINTS[endpoint]) as caught:
        STORAGE.stat("s3://lake/master")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("scheme", ["s3", "s3a", "hdfs", "http"])
def test_one_slash_is_not_a_directory_name(scheme):
    with pytest.raises(ConfigError, match=f"write {scheme}://lake/out"):
        absolute(f"{scheme}:/lake/out")


def test_missing_credentials_are_a_storage_error(monkeypatch, s3):
    monkeypatch.setattr(s3_client, "_clients", {})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(MutatorError, match="credentials") as caught:
        STORAGE.stat("s3://lake/master")
    assert caught.value.exit_code == 4
