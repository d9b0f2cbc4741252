"""``explain`` of a master: its manifest records how the feed of each run was read."""

from __future__ import annotations

import json
from dataclasses import replace

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from mutator import cli
from mutator.dataset import manifest
from tests.support.other_defaults import change_default

SETTINGS = ["--key", "1", "--order-by", "2", "--op", "0"]


def merged(tmp_path, number, rows, *settings, master="none"):
    """Merge the rows of one feed file; return the output."""
    feed, output = tmp_path / f"feed{number}", tmp_path / f"m{number}"
    feed.mkdir()
    (feed / f"f{number}.txt").write_text("".join(f"{row}\n" for row in rows))
    words = ["--master", str(tmp_path / master), "--feed", str(feed), "--output", str(output), "--quiet"]
    assert cli.main(["run", *words, "-D", "allow.empty.master=true", *settings]) == 0
    return output


def explained(capsys, tmp_path, *words):
    """Return (op, outcome, order value) of each mutation that ``mutator explain --json`` prints, oldest run first."""
    feeds = [word for path in sorted(tmp_path.glob("feed*")) for word in ("--feed", str(path))]
    capsys.readouterr()
    code = cli.main(["explain", *map(str, words), *feeds, "--json"])
    found = capsys.readouterr()
    if code == 2:
        return found.err
    return [
        (one["op"], one["outcome"], one["order"])
        for version in json.loads(found.out)["versions"]
        for decided in version["decided"]
        for one in decided["mutations"]
    ]


def test_a_delete_is_read_as_one_without_any_option(tmp_path, capsys):
    first = merged(tmp_path, 1, ["U,a,1,x", "U,b,1,x"], *SETTINGS)
    master = merged(tmp_path, 2, ["D,b,2,x"], *SETTINGS, master="m1")

    assert explained(capsys, tmp_path, master, "b", "--before", first) == [("delete", "deleted", "2")]


def test_a_file_that_is_not_merged_yet_is_named(tmp_path, capsys):
    master = merged(tmp_path, 1, ["U,a,1,x"], *SETTINGS)
    (tmp_path / "feed2").mkdir()
    (tmp_path / "feed2" / "f2.txt").write_text("U,a,2,y\n")
    capsys.readouterr()

    assert (
        cli.main(["explain", str(master), "a", "--feed", str(tmp_path / "feed2"), "--feed", str(tmp_path / "feed1")])
        == 0
    )
    assert "f2.txt: not recorded as merged; mutator diff --feed shows" in capsys.readouterr().out


def test_an_earlier_master_that_does_not_exist(tmp_path, capsys):
    master = merged(tmp_path, 1, ["U,a,1,x"], *SETTINGS)

    assert "nowhere: there is no such dataset" in explained(capsys, tmp_path, master, "a", "--before", "nowhere")


def test_each_run_is_read_by_its_own_settings(tmp_path, capsys):
    merged(tmp_path, 1, ["a,1,x", "b,1,x"], "--key", "0", "--order-by", "1")
    merged(tmp_path, 2, ["U,a,2,y", "D,b,2,x"], *SETTINGS, master="m1")
    last = ["--key", "0", "--order-by", "1", "--op", "3", "--delete-codes", "R"]
    master = merged(tmp_path, 3, ["b,3,x,R", "a,3,x,U"], *last, master="m2")

    found = explained(capsys, tmp_path, master, "b")

    assert [(op, order) for op, _, order in found] == [("upsert", "1"), ("delete", "2"), ("delete", "3")]


def test_a_run_is_explained_with_the_defaults_of_its_time(tmp_path, capsys, monkeypatch):
    merged(tmp_path, 1, ["U,a,1,x", "U,b,1,x", "U,c,1,x"], *SETTINGS)
    merged(tmp_path, 2, ["D,b,2,x"], *SETTINGS, master="m1")
    change_default(monkeypatch, "deleted.op.code", "R")
    master = merged(tmp_path, 3, ["R,a,2,x", "U,b,3,x"], *SETTINGS, master="m2")

    found = [explained(capsys, tmp_path, master, key) for key in "ab"]

    assert [[op for op, _, _ in one] for one in found] == [["upsert", "delete"], ["upsert", "delete", "upsert"]]


@pytest.mark.parametrize(
    ("row", "settings", "given", "op"),
    [
        ("D,b,1,x", SETTINGS, ["--op", "0"], "delete"),
        ("D,b,1,x", SETTINGS, [], None),
        ("b,1,x", ["--key", "0", "--order-by", "1"], ["--op", ""], "upsert"),
        ("b,1,x", ["--key", "0", "--order-by", "1"], [], None),
    ],
)
def test_a_manifest_without_settings_needs_the_op_field(tmp_path, capsys, row, settings, given, op):
    master = merged(tmp_path, 1, [row], *settings)
    path = master / manifest.PATH
    known = manifest.parse(path.read_bytes(), str(path))
    path.write_bytes(manifest.dump(replace(known, feed_settings=())))  # as in an export of a table

    found = explained(capsys, tmp_path, master, "b", *given)

    if op is None:
        assert "what marks deletes in f1.txt is not known" in found
        assert "give --op FIELD" in found
    else:
        assert [one[0] for one in found] == [op]


def test_settings_whose_runs_are_forgotten_are_forgotten(tmp_path):
    keep = ["-D", "consumed.retention=0s"]
    merged(tmp_path, 1, ["U,a,1,x"], *SETTINGS)
    master = merged(tmp_path, 2, ["a,2,x,U"], "--key", "0", "--order-by", "1", "--op", "3", *keep, master="m1")
    path = master / manifest.PATH

    (only,) = manifest.parse(path.read_bytes(), str(path)).feed_settings

    assert only.settings["op.code.field.ordinal"] == "3"


@pytest.mark.parametrize("file_format", ["parquet", "avro", "csv"])
def test_a_row_has_the_fields_of_its_file(tmp_path, capsys, file_format):
    rows = ({"id": 1, "at": 5, "v": None}, {"id": 1, "at": 6, "v": None, "added": "x"})
    for place, row in zip(("master", "feed"), rows, strict=True):
        (tmp_path / place).mkdir()
        path = str(tmp_path / place / f"f_1.{file_format}")
        if file_format == "avro":
            fields = [{"name": name, "type": ["null", "long" if name in ("id", "at") else "string"]} for name in row]
            with open(path, "wb") as stream:
                fastavro.writer(stream, {"type": "record", "name": "r", "fields": fields}, [row])
            continue
        columns = {
            name: pa.array([value], pa.int64() if name in ("id", "at") else pa.string()) for name, value in row.items()
        }
        (pq.write_table if file_format == "parquet" else csv.write_csv)(pa.table(columns), path)

    words = ["--key", "id", "--order-by", "at", "--feed", str(tmp_path / "feed")]
    assert cli.main(["explain", str(tmp_path / "master"), "1", *words]) == 0
    shown = capsys.readouterr().out
    assert '"v": null' in shown
    assert "added" not in shown
