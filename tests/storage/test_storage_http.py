"""Feed files over http, from a real server on loopback: read, never written, and no secret is shown."""

import gzip
import http.server
import threading

import pytest

from mutator import mutate
from mutator.errors import ConfigError, MutatorError
from mutator.errors.display import without_secrets
from mutator.storage import located_to_write, registry, storage_for
from mutator.storage.remote import SCHEMES, RemoteStorage
from tests.support.model_storage import ModelStorage

MASTER = b"".join(b"%04d,old,1\n" % number for number in range(1000))
FEED = b"".join(b"%04d,new,2\n" % number for number in range(0, 1000, 3))
FILES = {
    "/in/ups_prod_1.txt": FEED,
    "/in/ups prod_2.txt.gz": gzip.compress(b"0001,zipped,3\n"),
    "/in/empty.txt": b"",
}
SETTINGS = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "2"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ranges = True
    sized = True

    def do_GET(self):
        from urllib.parse import unquote

        path = unquote(self.path.partition("?")[0])
        if path == "/broken":
            self.send_error(503, "try later")
            return
        if path not in FILES:
            self.send_error(404)
            return
        data, start = FILES[path], 0
        asked = self.headers.get("Range")
        if asked and self.ranges:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            if start >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        if self.ranges:
            self.send_header("Accept-Ranges", "bytes")
        if self.sized:
            self.send_header("Content-Length", str(len(data) - start))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(data[start:])

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def http_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["ranges", "no ranges", "no size"])
def url(request, http_server, monkeypatch):
    monkeypatch.setattr(Handler, "ranges", request.param == "ranges")
    monkeypatch.setattr(Handler, "sized", request.param != "no size")
    return http_server


def test_file_is_found_and_read_at_any_offset(url):
    storage = storage_for(url)
    for path, data in FILES.items():
        address = url + path.replace(" ", "%20")
        entry = storage.stat(address)
        assert (entry.name, entry.bytes, entry.type) == (path.rpartition("/")[2], len(data), "file")
        for offset in {0, 1, len(data) // 2, len(data), len(data) + 5}:
            with storage.open(address, offset) as stream:
                assert b"".join(iter(lambda stream=stream: stream.read(999), b"")) == data[offset:]


def test_directory_is_not_a_feed_file(url):
    with pytest.raises(ConfigError, match="nothing can be listed here; name each feed file by itself"):
        storage_for(url).stat(f"{url}/in/")


def test_missing_files(url):
    storage = storage_for(url)
    assert storage.stat(f"{url}/in/none.txt") is None
    with pytest.raises(MutatorError, match="503") as caught:
        storage.stat(f"{url}/broken?sig=secret")
    assert caught.value.exit_code == 4
    assert "secret" not in str(caught.value)


def test_an_unreachable_server_is_reported_without_secrets():
    with pytest.raises(MutatorError) as caught:
        storage_for("http://x").stat("http://127.0.0.1:9/in/ups.txt?X-Amz-Signature=SECRET")
    assert caught.value.exit_code == 4
    assert "SECRET" not in str(caught.value)


@pytest.mark.rest
def test_feed_over_http_is_merged(sc, url, tmp_path):
    master = tmp_path / "master"
    master.mkdir()
    (master / "base.txt").write_bytes(MASTER)
    feed = [f"{url}/in/ups_prod_1.txt", f"{url}/in/ups%20prod_2.txt.gz?version=7"]
    report = mutate(sc, SETTINGS, master=str(master), feed=feed, output=str(tmp_path / "out"))

    assert report.counts["feed updated"] == 334 + 1
    assert report.feed == (feed[0], feed[1].replace("version=7", "***"))  # the query may be a signature
    rows = b"".join(path.read_bytes() for path in (tmp_path / "out").glob("part-*")).splitlines()
    assert b"0001,zipped,3" in rows
    again = mutate(
        sc,
        SETTINGS,
        master=str(tmp_path / "out"),
        feed=feed[:1],
        output=str(tmp_path / "again"),
    )
    assert again.consumed == (feed[0],)  # identified by name and checksum, not by its address


@pytest.mark.parametrize("role", ["master", "output"])
def test_nothing_is_written_there(sc, http_server, tmp_path, role):
    (tmp_path / "base.txt").write_bytes(MASTER)
    feed = f"{http_server}/in/ups_prod_1.txt"
    places = {"master": str(tmp_path / "base.txt"), "output": str(tmp_path / "out")} | {role: f"{http_server}/in"}
    with pytest.raises(ConfigError, match="http:// can only be read, file by file"):
        mutate(sc, SETTINGS, feed=feed, **places)


def test_all_storages_that_can_be_written_to_are_named(monkeypatch):
    monkeypatch.setitem(registry.BACKENDS, "model", lambda: ModelStorage("s3"))
    with pytest.raises(ConfigError, match="master and output on disks, hdfs://…, s3://… or model://…"):
        located_to_write("http://host/in")


@pytest.mark.parametrize("name", [name for name in dir(RemoteStorage) if not name.startswith("_")])
def test_each_method_that_writes_is_refused(name):
    method = getattr(RemoteStorage(), name)
    if name in (
        "renames",
        "writes",
        "dataset_name",
        "hadoop_address",
        "with_suffix",
        "holds",
        "waits",
        "empty_directories",
        "stat",
        "target",
        "open",
        "mapped",
        "native",
        "entries",
        "walk",
        "glob",
        "resolve",
        "unfinished",
        "service",
    ):
        return
    arguments = ("http://host/a", "http://host/b") if name in ("link_new", "rename_new", "swap") else ("http://host/a",)
    if name == "replace":
        arguments = ("http://host/a", b"")
    with pytest.raises(ConfigError, match="http:// can only be read, file by file"):
        method(*arguments)


def test_packages_of_a_transport_are_named(monkeypatch):
    import smart_open.transport

    monkeypatch.setattr(smart_open.transport, "SUPPORTED_SCHEMES", ("file",))
    for scheme, extra in SCHEMES.items():
        with pytest.raises(ConfigError, match=rf"pip install 'smart_open\[{extra}\]'"):
            storage_for(f"{scheme}://host/a").open(f"{scheme}://host/a")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("sftp://me:se/cr@et@host/a", "sftp://me:***@host/a"),
        ("sftp://me:secret@host/a@b", "sftp://me:***@host/a@b"),
        ("gs://lake/a?b", "gs://lake/a?b"),
        ("https://host/a?X-Amz-Signature=abc", "https://host/a?***"),
    ],
)
def test_secrets_are_removed_from_addresses(address, shown):
    assert without_secrets(address) == shown
