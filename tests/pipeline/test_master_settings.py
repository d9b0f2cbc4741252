"""A master that mutator wrote has settings in its manifest, which a run need not repeat."""

import json

import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.errors import ConfigError, StateError


class Place:
    def __init__(self, root):
        self.root, self.runs = root, 0

    def put(self, name, content):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    def run(self, master, feed, *flags):
        self.runs += 1
        paths = ["--master", str(self.root / master), "--feed", str(self.root / feed)]
        return main(["run", *paths, "--output", str(self.root / f"out{self.runs}"), "--json", *flags])

    def rows(self):
        return sorted(
            line
            for path in (self.root / f"out{self.runs}").iterdir()
            if path.is_file() and path.name[0] not in "._"
            for line in path.read_bytes().splitlines()
        )


@pytest.fixture
def place(tmp_path, capsys):
    made = Place(tmp_path)
    made.put("master/base.csv", b"id,at,n\nk1,2026-01-01,1\nk2,2026-01-01,1\n")
    made.put("feed1/f1.csv", b"id,at,n\nk1,2026-01-02,2\n")
    made.put("feed2/f2.csv", b"id,at,n\nk2,2026-01-03 01:00,3\nk1,2026-01-02T01:00,3\n")
    assert made.run("master", "feed1", "--key", "id", "--order-by", "at", "--order-type", "timestamp") == 0
    capsys.readouterr()
    return made


def test_a_run_without_a_configuration(place, capsys):
    assert place.run("out1", "feed2") == 0
    report = json.loads(capsys.readouterr().out)
    note = "not set, so as in the manifest of the master: key=id, order_by=at, order_type=timestamp"
    assert note in report["notes"]
    assert report["counts"]["feed updated"] == 2


def test_settings_that_are_given(place, capsys):
    assert place.run("out1", "feed2", "--key", "id", "--order-by", "at") == 0
    found = json.loads(capsys.readouterr().out)["notes"]
    assert [note for note in found if "not set" in note] == [
        "not set, so as in the manifest of the master: order_type=timestamp"
    ]
    assert place.run("out1", "feed2", "--key", "id", "--order-by", "at", "--order-type", "timestamp") == 0
    assert "not set" not in capsys.readouterr().out
    assert place.run("out1", "feed2", "--order-type", "string") == 5
    assert "type timestamp" in capsys.readouterr().err
    assert place.run("out1", "feed2", "--order-by", "n") == 5
    assert "field at" in capsys.readouterr().err
    assert place.run("master", "feed2") == 2
    assert "key: is missing" in capsys.readouterr().err
    assert place.run("out1", "feed2", "-D", "master.adopt=true") == 2


def test_merge_from_python(place):
    master, feed = place.root / "out1", place.root / "feed2"
    report = mutator.merge(master=master, feed=feed)
    assert report.counts["feed updated"] == 2
    assert (
        'not set, so as in the manifest of the master: key="id", order_by="at", order_type="timestamp"' in report.notes
    )
    table = pa.table({"id": ["k1"], "at": ["2026-01-09"], "n": ["9"]})
    assert mutator.merge(master=report.result, feed=table).counts["feed updated"] == 1
    with pytest.raises(StateError, match="order"):
        mutator.merge(master=master, feed=feed, order_type="string")
    with pytest.raises(ConfigError, match="key"):
        mutator.merge(master=place.root / "master", feed=feed)


def test_delimited_text_with_an_op_code(tmp_path, capsys):
    place = Place(tmp_path)
    place.put("master/base.txt", b"x|k1|10\nx|k2|10\n")
    place.put("feed1/f1.txt", b"U|y|k1|20\n")
    place.put("feed2/f2.txt", b"D|z|k1|30\nU|z|k2|30\n")
    flags = ["--key", "2", "--order-by", "3", "--op", "0", "--delimiter", "|"]
    assert place.run("master", "feed1", *flags) == 0
    assert place.run("out1", "feed2", "--op", "0") == 0
    assert place.rows() == [b"z|k2|30"]
    assert "not set, so as in the manifest of the master: key=2, order_by=3, delimiter=|" in capsys.readouterr().out
    assert place.run("out1", "feed2", *flags[:6], "--order-type", "long") == 0
    assert "not set, so as in the manifest of the master: delimiter=|" in capsys.readouterr().out
    assert place.run("out1", "feed2", "-D", "field.names=o,x,id,at", "--op", "o") == 0
    assert place.rows() == [b"z|k2|30"]


def test_op_codes_that_are_kept(tmp_path, capsys):
    place = Place(tmp_path)
    place.put("master/base.txt", b"k1,U\nk2,U\n")
    place.put("feed1/f_1.txt", b"k1,U\n")
    place.put("feed2/f_2.txt", b"k1,D\n")
    assert place.run("master", "feed1", "--key", "0", "--op", "1", "-D", "op.code.keep=true") == 0
    assert place.run("out1", "feed2") == 0
    assert place.rows() == [b"k2,U"]
    assert "master: op=1, op.code.keep=true, key=0" in capsys.readouterr().out


def test_rows_without_an_order_value(tmp_path, capsys):
    place = Place(tmp_path)
    for number, (folder, name) in enumerate([("master", "m"), ("feed1", "f1"), ("feed2", "f2")]):
        place.put(f"{folder}/{name}.csv", b"id,at\nk1,%d\nk2,\n" % number)
    assert place.run("master", "feed1", "--key", "id", "--order-by", "at", "-D", "null.order=lowest") == 0
    assert place.run("out1", "feed2") == 0
    assert "master: key=id, order_by=at, null.order=lowest" in capsys.readouterr().out
