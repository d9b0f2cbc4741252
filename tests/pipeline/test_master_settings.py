"""The manifest of a master has settings: the next run takes those that it is not given."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.config.definitions import published
from mutator.dataset import manifest
from mutator.dataset.state import FeedSettings
from mutator.errors import ConfigError, StateError, error
from mutator.pipeline.master_settings import manifest_at, recorded_settings, settings_after
from mutator.workflow.directory import versions


class Files:
    def __init__(self, root, capsys):
        self.root, self.capsys, self.runs = root, capsys, 0

    def put(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def run(self, master, feed, *flags):
        self.runs += 1
        paths = ["--master", str(self.root / master), "--feed", str(self.root / feed)]
        return main(["run", *paths, "--output", str(self.root / f"out{self.runs}"), "--json", *flags])

    def refused(self, *flags, code=2):
        assert self.run("out1", "feed2", *flags) == code
        return self.capsys.readouterr().err

    def counts(self, *names):
        out = self.capsys.readouterr().out
        counts = json.loads(out[out.rfind("\n{") + 1 :])["counts"]
        return [counts[name] for name in names]

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


NOTE = "not set, so as in the manifest of the master: "


def test_a_chained_run_needs_no_settings(csv):
    """The op code was cut from the master's rows: a run that went on without it would merge deletes as upserts."""
    assert csv.run("out1", "feed2") == 0
    report = json.loads(csv.capsys.readouterr().out)
    assert (report["counts"]["feed deleted"], report["counts"]["output rows"]) == (1, 1)
    assert f"{NOTE}key=id, order_by=at, order_type=timestamp, op=op" in report["notes"]
    csv.put("feed3/f3.csv", b"id,at,n,op\nk2,2026-01-02 01:00,3,I\nk3,2026-01-04,3,I\n")
    assert csv.run("out2", "feed3", "--key", "id") == 0  # the settings are passed on
    report = json.loads(csv.capsys.readouterr().out)
    assert (report["counts"]["feed late"], report["counts"]["feed inserted"]) == (1, 1)
    assert f"{NOTE}order_by=at, order_type=timestamp, op=op" in report["notes"]


def test_a_run_without_a_key(csv):
    assert "key: is missing" in csv.refused("--key", "")
    assert "did you mean reject.limit?" in csv.refused("-D", "reject.limt=3")
    csv.put("plain/base.csv", b"id,at\nk1,2026-01-01\n")
    assert csv.run("plain", "feed2") == 2
    assert "key: is missing" in csv.capsys.readouterr().err


def test_settings_that_contradict_the_manifest(csv):
    assert "key = id (text), but this run has n" in csv.refused("--key", "n", code=5)
    assert "order = at (timestamp), but this run has n (timestamp)" in csv.refused("--order-by", "n", code=5)
    assert "order = at (timestamp), but this run has at (string)" in csv.refused("--order-type", "string", code=5)


def test_an_op_code_that_the_next_feed_lacks(csv):
    csv.put("feed2/f2.csv", b"id,at,n\nk2,2026-01-03,3\n")
    message = csv.refused(code=3)
    assert "field op is missing" in message
    assert message.endswith(f"; {NOTE}key=id, order_by=at, order_type=timestamp, op=op\n")
    assert csv.run("out1", "feed2", "--op", "") == 0


def test_merge_from_python(csv):
    master, feed = csv.root / "out1", csv.root / "feed2"
    told = {"key": "id", "order_by": "at", "order_type": "timestamp", "op": "op"}
    for given in (told, {}, {"op": "op"}, {"config": {"key": "id"}}):
        for one in (master, mutator.Dataset(master)):
            report = mutator.merge(master=one, feed=feed, **given)
            assert (report.counts["feed deleted"], report.counts["output rows"]) == (1, 1), given
    with pytest.raises(StateError, match="timestamp"):
        mutator.merge(master=master, feed=feed, order_by="n")
    with pytest.raises(ConfigError, match="name them: key='id'"):
        mutator.merge(master=csv.root / "master", feed=feed)
    table = pa.table({"a,b": ["k1"], "at": [1]})
    numbers = mutator.merge(master=table.slice(0, 0), feed=table, key=["a,b"], order_by="at").result
    assert mutator.merge(master=numbers, feed=table).counts["feed no-op"] == 1


def test_a_merge_from_python_reads_the_manifest_once(csv, monkeypatch):
    paths, parse = [], manifest.parse
    monkeypatch.setattr(manifest, "parse", lambda data, path: paths.append(path) or parse(data, path))
    settings = {"key": "id", "order_by": "at", "order_type": "timestamp", "op": "op"}
    mutator.merge(master=csv.root / "out1", feed=csv.root / "feed2", runner="local", **settings)
    assert paths == [f"{csv.root}/out1/_mutator/manifest.json"]


def test_a_damaged_manifest(csv):
    (csv.root / "out1" / "_mutator" / "manifest.json").write_bytes(b"{")
    assert "manifest.json" in csv.refused(code=5)
    assert csv.run("out1", "feed2", "-D", "master.adopt=true") == 2  # asks for a key


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
    assert files.run("out1", "feed2") == 0
    assert files.counts("feed deleted", "feed updated") == [1, 1]
    files.put("feed3/f3.txt", b"k2|z|40\n")  # the op code would be field 0
    assert files.run("out2", "feed3", "--op", "", "--key", "0", "--order-by", "2") == 5
    assert "written with key = ordinals 1" in files.capsys.readouterr().err
    files.put("feed4/f4.txt", b"z|k2|40|U\n")  # it is field 3 now
    assert files.run("out2", "feed4", "--op", "3") == 0
    assert files.counts("feed updated", "output rows") == [1, 1]
    files.put("full/f5.txt", b"z|k2|50\nz|k3|50\n")
    assert files.run("out4", "full", "-D", "sync.mode=full") == 0
    files.put("feed6/f6.txt", b"z|k3|60|D\n")  # the op code of the run before
    assert files.run("out5", "feed6") == 0
    assert files.counts("feed deleted", "output rows") == [1, 1]


FULL, PREFIX = {"key": "id", "sync.mode": "full"}, {"key": "id", "deleted.record.file.prefix": "z_"}
# What the last run, or each of several, was given, what the next one is given, and what that takes from the manifest
FLAT = {"key": "id", "feed.dialect": "debezium-flat", "feed.time.unit": "us"}
CHAINS = [
    ({"key": "id", "sync.mode": "full", "output.codec": "gzip", "order.check": False}, {}, {"key": "id"}),
    ({"key": "id", "op": "op", "delete_codes": "R"}, {"op": "op"}, {"key": "id", "delete_codes": "R"}),
    ({"key": "id", "op": "op", "delete_codes": "R"}, {"op": "how"}, {"key": "id"}),
    ({"key": "id", "op": "op", "delete_codes": "R"}, {"op": ""}, {"key": "id"}),
    ({"key": "id", "op": "op", "delete_codes": "R"}, {"sync.mode": "full"}, {"key": "id"}),
    ({"key": "id", "op": "op"}, {"delete_codes": "R"}, {"key": "id", "op": "op"}),
    ({"key": "id", "deleted.record.file.prefix": "del_"}, {"deleted.record.file.pattern": "x"}, {"key": "id"}),
    ({"key": "id", "input.format": "csv"}, {}, {"key": "id", "feed.format": "csv"}),
    ({"key": "id", "input.format": "csv"}, {"input.format": "text"}, {"key": "id"}),
    ({"key": "id", "input.format": "csv"}, {"feed.format": "text"}, {"key": "id"}),
    ({"key": "id", "order_type": "timestamp"}, {"rsbm.temporal.ordering.field.numeric": "false"}, {"key": "id"}),
    ({"key": "0", "order_by": "1", "field.names": "id,n", "op": "op"}, {}, {"key": ["id"], "op": "op"}),
    ({"key": "id", "report.fields": "id"}, {}, {"key": "id", "report.fields": "id"}),
    (FLAT, {}, FLAT),
    (FLAT, {"feed.dialect": ""}, {"key": "id"}),
    (FLAT, {"op": "o"}, {"key": "id"}),
    ([FLAT, FULL], {}, FLAT),
    (FLAT, {"sync.mode": "full"}, {"key": "id"}),
    ({"key": "id", "op": "op", "unset.value": "~"}, {"op": "how"}, {"key": "id", "unset.value": "~"}),
    ({"key": "id", "unset.value": "~"}, {"sync.mode": "full"}, {"key": "id", "unset.value": "~"}),
    ({"key": "id", "columns.to.update": "sent"}, {"feed.dialect": "debezium-flat"}, {"key": "id"}),
    ({**FLAT, "unset.value": "~"}, {"op": "o"}, {"key": "id"}),
    ([{**FLAT, "unset.value": "~"}, FULL], {}, {**FLAT, "unset.value": "~"}),
    ([PREFIX, FULL], {}, PREFIX),
    ([PREFIX, FULL], {"sync.mode": "full"}, {"key": "id"}),
    ([{"key": "id", "op": "op"}, PREFIX, FULL], {}, PREFIX),
    ([PREFIX, {"key": "id", "op": "op"}, FULL], {}, {"key": "id", "op": "op"}),
    (
        {"key": "1", "op": "0", "header": "1", "report.fields": "2"},
        {"op": "3"},
        {"key": ["id"], "header": "1", "report.fields": "none"},
    ),
]


@pytest.mark.parametrize(("last", "given", "taken"), CHAINS)
def test_what_a_run_takes_from_the_last_one(csv, last, given, taken):
    known = manifest_at(str(csv.root / "out1"))
    runs = last if isinstance(last, list) else [last]
    settings = [{published(name): value for name, value in one.items()} for one in runs]
    spec = {"key": {"fields": ["id"]}, "order": {"by": "file name"}, "op code": None}
    known = replace(known, spec=spec, feed_settings=tuple(FeedSettings("2026", one) for one in settings))
    assert settings_after(known, given) == taken


def test_a_workflow_whose_first_run_did_not_publish(files, monkeypatch):
    """The settings are those of the newest version, which is not the master yet."""
    base, now = str(files.root / "base"), ["-D", "claim.min.age=0s"]
    files.put("base/incr/f1.csv", b"id,at,op\nk1,1,I\nk2,1,I\n")
    told = ["--key", "id", "--order-by", "at", "--op", "op", "-D", "allow.empty.master=true"]
    publish = versions.publish

    def failing(base, log, config):
        if log.latest().number:
            raise error("storage", path=base.path, why="full")
        return publish(base, log, config)

    with monkeypatch.context() as patched:
        patched.setattr(versions, "publish", failing)
        main(["workflow", "run", base, *told, *now])
    assert not list((files.root / "base" / "master").glob("part-*"))
    files.put("base/incr/f2.csv", b"id,at,op\nk2,2,D\n")
    assert main(["workflow", "run", base, "--json", *now]) == 0
    out = files.capsys.readouterr().out
    assert json.loads(out)["report"]["counts"]["feed deleted"] == 1


def test_op_codes_that_are_kept(files):
    files.put("master/base.txt", b"k1,U\nk2,U\n")
    files.put("feed1/f_1.txt", b"k1,U\n")
    files.put("feed2/f_2.txt", b"k1,D\n")
    files.put("full/f_3.txt", b"k2,U\n")
    assert files.run("master", "feed1", "--key", "0", "--op", "1", "-D", "op.code.keep=true") == 0
    assert files.recorded() == {"op": 1, "op.code.keep": True, "key": [0]}
    assert files.run("out1", "feed2") == 0
    assert files.counts("feed deleted") == [1]
    for words in (["-D", "sync.mode=full"], ["--op", ""]):
        assert files.run("out1", "full", *words) == 5
        assert "the master was written with op code = 1, but this run has None" in files.capsys.readouterr().err


def test_rows_without_an_order_value(files):
    for number, (folder, name) in enumerate([("master", "m"), ("feed1", "f1")]):
        files.put(f"{folder}/{name}.csv", b"id,at\nk1,%d\nk2,\n" % number)
    assert files.run("master", "feed1", "--key", "id", "--order-by", "at", "-D", "null.order=lowest") == 0
    assert files.recorded() == {"key": ["id"], "order_by": ["at"], "null.order": "lowest"}
