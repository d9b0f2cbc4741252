"""The manifest of a master has settings: a run needs them again, and the error of a missing key names them."""

import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.dataset import manifest
from mutator.errors import ConfigError, StateError
from mutator.pipeline.master_settings import recorded_settings


class Files:
    def __init__(self, root, capsys):
        self.root, self.capsys, self.runs = root, capsys, 0

    def put(self, name, content):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    def run(self, master, feed, *flags):
        self.runs += 1
        paths = ["--master", str(self.root / master), "--feed", str(self.root / feed)]
        return main(["run", *paths, "--output", str(self.root / f"out{self.runs}"), "--json", *flags])

    def refused(self, *flags, code=2):
        assert self.run("out1", "feed2", *flags) == code
        return self.capsys.readouterr().err

    def recorded(self, **settings):
        return recorded_settings(str(self.root / "out1"), settings)


@pytest.fixture
def files(tmp_path, capsys):
    return Files(tmp_path, capsys)


@pytest.fixture
def csv(files):
    files.put("master/base.csv", b"id,at,n,op\nk1,2026-01-01,1,I\nk2,2026-01-01,1,I\n")
    files.put("feed1/f1.csv", b"id,at,n,op\nk1,2026-01-02,2,U\n")
    files.put("feed2/f2.csv", b"id,at,n,op\nk2,2026-01-03 01:00,3,D\n")
    flags = ["--key", "id", "--order-by", "at", "--order-type", "timestamp", "--op", "op"]
    assert files.run("master", "feed1", *flags) == 0
    files.capsys.readouterr()
    return files


CURE = (
    "the manifest of the master has key=id, order_by=at, order_type=timestamp: give them, and op if the feed has op "
    "codes"
)


def test_a_run_without_a_key(csv):
    """The op code was cut from the master's rows: a run that went on without it would merge deletes as upserts."""
    message = csv.refused()
    assert "key: is missing" in message
    assert CURE in message
    message = csv.refused("-D", "reject.limt=3", "--key", "")
    assert CURE in message
    assert "did you mean reject.limit?" in message
    csv.put("plain/base.csv", b"id,at\nk1,2026-01-01\n")
    assert csv.run("plain", "feed2") == 2
    message = csv.capsys.readouterr().err
    assert "key: is missing" in message
    assert "manifest" not in message


def test_unset_settings_are_not_completed(csv):
    assert "order = at (timestamp), but" in csv.refused("--key", "id", "--order-by", "at", "--op", "op", code=5)
    assert "order = at (timestamp), but this run has n (long)" in csv.refused(
        "--key", "id", "--order-by", "n", "--op", "op", code=5
    )


def test_merge_from_python(csv):
    master, feed = csv.root / "out1", csv.root / "feed2"
    cure = "the manifest of the master has key='id', order_by='at', order_type='timestamp': give them, and op"
    with pytest.raises(ConfigError, match=cure):
        mutator.merge(master=master, feed=feed)
    with pytest.raises(ConfigError, match=cure):
        mutator.merge(master=mutator.Dataset(master), feed=feed, op="op")
    with pytest.raises(StateError, match="timestamp"):
        mutator.merge(master=master, feed=feed, key="id", order_by="at", op="op")
    with pytest.raises(ConfigError, match="name them: key='id'"):
        mutator.merge(master=csv.root / "master", feed=feed)
    table = pa.table({"a,b": ["k1"], "at": [1]})
    numbers = mutator.merge(master=table.slice(0, 0), feed=table, key=["a,b"], order_by="at").result
    with pytest.raises(ConfigError, match=r"key=\['a,b'\], order_by='at'"):
        mutator.merge(master=numbers, feed=table)


def test_a_merge_from_python_reads_the_manifest_once(csv, monkeypatch):
    paths, parse = [], manifest.parse
    monkeypatch.setattr(manifest, "parse", lambda data, path: paths.append(path) or parse(data, path))
    settings = {"key": "id", "order_by": "at", "order_type": "timestamp", "op": "op"}
    mutator.merge(master=csv.root / "out1", feed=csv.root / "feed2", runner="local", **settings)
    assert paths == [f"{csv.root}/out1/_mutator/manifest.json"]


def test_a_damaged_manifest(csv):
    (csv.root / "out1" / "_mutator" / "manifest.json").write_bytes(b"{")
    assert "key: is missing" in csv.refused()


def test_settings_of_the_manifest(csv):
    assert csv.recorded() == {"key": ["id"], "order_by": ["at"], "order_type": "timestamp"}
    assert csv.recorded(key="id", order_by="at") == {"order_type": "timestamp"}
    assert csv.recorded(**{"master.adopt": True}) == {}
    assert recorded_settings(str(csv.root / "master"), {}) == {}


def test_ordinals_without_an_op_code(files):
    files.put("master/base.txt", b"x|k1|10\nx|k2|10\n")
    files.put("feed1/f1.txt", b"U|y|k1|20\n")
    files.put("feed2/f2.txt", b"D|z|k1|30\nU|z|k2|30\n")
    flags = ["--key", "2", "--order-by", "3", "--op", "0", "--delimiter", "|"]
    assert files.run("master", "feed1", *flags) == 0
    assert files.recorded(op=0) == {"key": [2], "order_by": 3, "delimiter": "|"}
    assert files.recorded(op="o", **{"field.names": "o,x,id,at"}) == {"key": [2], "order_by": 3, "delimiter": "|"}
    assert files.recorded(op="o") == {"delimiter": "|"}
    cure = (
        "has key=1, order_by=2, delimiter=|: give them, and op if the feed has op codes (the ordinals are those of rows"
    )
    assert cure in files.refused()


def test_op_codes_that_are_kept(files):
    files.put("master/base.txt", b"k1,U\nk2,U\n")
    files.put("feed1/f_1.txt", b"k1,U\n")
    files.put("feed2/f_2.txt", b"k1,D\n")
    assert files.run("master", "feed1", "--key", "0", "--op", "1", "-D", "op.code.keep=true") == 0
    assert files.recorded() == {"op": 1, "op.code.keep": True, "key": [0]}
    assert "has op=1, op.code.keep=true, key=0: give them\n" in files.refused()


def test_rows_without_an_order_value(files):
    for number, (folder, name) in enumerate([("master", "m"), ("feed1", "f1")]):
        files.put(f"{folder}/{name}.csv", b"id,at\nk1,%d\nk2,\n" % number)
    assert files.run("master", "feed1", "--key", "id", "--order-by", "at", "-D", "null.order=lowest") == 0
    assert files.recorded() == {"key": ["id"], "order_by": ["at"], "null.order": "lowest"}
