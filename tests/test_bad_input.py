"""Bad input, one test a kind: the message says where, what and the cure; nothing is published; no input changes.

The kinds are those of a catalogue of what goes wrong in the field: arrival and names, delimited text, configuration
against data, and the state of a managed master. Most runs go through the local engine.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import socket
import stat
import sys
import time
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator import config, manifest, pipeline, storage
from mutator.cli import main
from mutator.errors import ConfigError, DataError, MutatorError, StateError, StorageError
from tests import local_engine

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CONFIG = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "2"}
BY_NAME = {"id.field.ordinals": "0"}
WITH_OP = {"id.field.ordinals": "0", "op.code.field.ordinal": "2", "temporal.ordering.field.ordinal": "3"}
MASTER = b"a,1,100\nb,1,100\nc,1,100\nd,1,100\n"
FEED = b"b,2,200\n"


def snapshot(folder):
    """Return all that is in a folder: kinds, sizes, bytes, links."""
    found = {}
    for path in sorted(os.fsencode(path) for path in folder.rglob("*")):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            found[path] = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            with open(path, "rb") as stream:
                found[path] = stream.read()
        else:
            found[path] = stat.S_IFMT(status.st_mode)
    return found


class Job:
    """A master, a feed, an output, and a run that must be refused or must work."""

    def __init__(self, root):
        self.root = root
        self.master, self.feed, self.output = root / "master", root / "feed", root / "output"
        self.master.mkdir()
        self.feed.mkdir()
        (self.master / "base.txt").write_bytes(MASTER)

    def put(self, name, content=FEED, where="feed"):
        path = self.root / where / name
        path.write_bytes(content)
        return path

    def run(self, settings=CONFIG, mutate=local_engine.mutate, **places):
        paths = {"master": str(self.master), "feed": [str(self.feed)], "output": str(self.output), **places}
        return mutate(settings, **paths)

    def refused(self, family, *parts, settings=CONFIG, mutate=local_engine.mutate, **places):
        """Run, and see it refused with a message that has these parts and nothing done; return the message."""
        before = snapshot(self.root)
        with pytest.raises(MutatorError) as caught:
            self.run(settings, mutate, **places)
        message = str(caught.value)
        assert type(caught.value) is family, message
        assert caught.value.exit_code == {ConfigError: 2, DataError: 3, StorageError: 4, StateError: 5}[family]
        assert [part for part in parts if str(part) not in message] == [], message
        assert snapshot(self.root) == before
        return message

    def follow(self, settings=CONFIG):
        """Run, then take the output as the master of the next run, with an empty feed."""
        report = self.run(settings)
        self.master = self.output
        number = 1 + len(list(self.root.glob("output*")))
        self.output, self.feed = self.root / f"output-{number}", self.root / f"feed-{number}"
        self.feed.mkdir()
        return report

    def add(self, name, content=FEED):
        path = self.feed / name
        path.write_bytes(content)
        return path


def rows(output):
    return sorted(row for path in output.glob("part-*") for row in path.read_bytes().split(b"\n")[:-1])


def known(folder):
    return manifest.parse((folder / manifest.PATH).read_bytes(), "manifest")


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


# --- arrival: compression and containers


def packed(kind, content=FEED):
    if kind == "zip":
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("ups.txt", content)
        return stream.getvalue()
    if kind == "parquet":
        stream = io.BytesIO()
        pq.write_table(pa.table({"a": [1]}), stream)
        return stream.getvalue()
    if kind == "zst":  # whose checksum is an option; the zstd program sets it, too
        return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: True})
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[kind](content)


@pytest.mark.parametrize("kind", ["gz", "bz2", "zst", "xz"])
@pytest.mark.parametrize("block", [storage.BLOCK, 64], ids=["seen by the survey", "seen by a task"])
def test_truncated_file(job, kind, block, monkeypatch):
    monkeypatch.setattr(storage, "BLOCK", block)  # the survey looks at the first block that has a row
    path = job.put(f"ups.txt.{kind}", packed(kind, b"".join(b"k%d,%d,200\n" % (n, n * n) for n in range(2000)))[:-5])

    job.refused(DataError, path, "ends early", "the file is damaged: have it delivered again, or take it out")


@pytest.mark.parametrize("kind", ["gz", "bz2", "zst", "xz"])
def test_bytes_after_the_last_stream(job, kind):
    path = job.put(f"ups.{kind}", packed(kind) + b"trailing garbage")

    job.refused(DataError, path, "cannot be read", "the file is damaged")


@pytest.mark.parametrize("kind", ["gz", "bz2", "zst", "xz"])
def test_broken_stream(job, kind):
    content = packed(kind, b"".join(b"k%d,1,200\n" % number for number in range(500)))
    path = job.put(f"ups.{kind}", content[:40] + bytes([content[40] ^ 255, content[41] ^ 255]) + content[42:])

    job.refused(DataError, path, "the file is damaged")


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst", "xz", "GZ", "lz4", "snappy", "zip", "7z", "deflate"])
def test_text_with_the_name_of_a_compression(job, suffix):
    path = job.put(f"ups.{suffix}")

    job.refused(DataError, path, "and the content is plain text; give the file the suffix of its content")


@pytest.mark.parametrize(("kind", "name"), [("gz", "gzip"), ("bz2", "bzip2"), ("zst", "zstd"), ("xz", "xz")])
@pytest.mark.parametrize("where", ["feed", "master"])
def test_compressed_file_with_the_name_of_text(job, kind, name, where):
    path = job.put("more.txt", packed(kind), where)

    job.refused(DataError, path, f"the name says plain text and the content is {name}")


def test_one_compression_with_the_name_of_another(job):
    path = job.put("ups.bz2", packed("gz"))

    job.refused(DataError, path, "the name says bzip2 and the content is gzip")


@pytest.mark.parametrize("kind", ["gz", "bz2", "zst", "xz"])
def test_empty_file_with_the_name_of_a_compression(job, kind):
    path = job.put(f"ups.{kind}", b"")

    job.refused(DataError, path, "it is empty, and no ", " file is; the file is damaged")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (packed("zip"), "a zip archive"),
        (packed("parquet"), "Parquet"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive"),
        (b"\x04\x22\x4d\x18x", "lz4"),
        (b"\xff\x06\x00\x00sNaPpY", "snappy"),
        (b"Obj\x01\x04\x16avro.schema", "Avro"),
        (b"ORC\n\x0b\0\0", "ORC"),
    ],
)
@pytest.mark.parametrize("where", ["feed", "master"])
def test_content_that_is_not_read_here(job, content, name, where):
    path = job.put("more.txt", content, where)

    job.refused(DataError, path, f"is {name}, which is not read here; deliver it as plain text, .gz, .bz2, .zst or .xz")


def test_rows_that_begin_like_a_container(job):
    job.put("ups.txt", b"BZh,1,200\nORC,1,200\nPAR1,1,200\n")
    job.put("ups-2.txt", b"ORC,2,300\n")
    job.put("ups-3.txt", b"PAR1,2,300\n")
    job.put("ups-4.txt", b"PK,2,300\n")
    job.run()

    assert {b"BZh,1,200", b"ORC,2,300", b"PAR1,2,300", b"PK,2,300"} < set(rows(job.output))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-be"])
@pytest.mark.parametrize("where", ["feed", "master"])
def test_wide_encoding(job, encoding, where):
    mark = "\ufeff" if encoding.endswith("be") else ""
    path = job.put("ups.txt", (mark + "b,2,200\n").encode(encoding), where)

    name = encoding[:6].upper()
    job.refused(DataError, path, f"the file is {name} text; convert it to a single-byte encoding or UTF-8")


def test_wide_encoding_in_a_compressed_file(job):
    path = job.put("ups.gz", packed("gz", "b,2,200\n".encode("utf-16")))

    job.refused(DataError, path, "the file is UTF-16 text")


@pytest.mark.parametrize("tail", [b"", b"c,2,200\n"])
def test_very_long_row(job, tail):
    job.put("ups.txt", b"b," + b"x" * (5 << 20) + b",200\n" + tail)
    job.run({**CONFIG, "split.bytes": "1m"})

    assert len(rows(job.output)[1]) == (5 << 20) + 6


# --- arrival: files that change while they are read


@pytest.mark.parametrize("where", ["feed", "master"])
@pytest.mark.parametrize("split", ["64m", "4"])
@pytest.mark.parametrize(
    ("content", "after"), [(b"b,3,300\nc,3,300\n", "(it had "), (b"b,", "(it had "), (b"", "(it had ")]
)
def test_file_that_changes_while_it_is_read(job, where, split, content, after):
    path = job.put("one.txt", where=where)

    def change_and_merge(plan, staging):
        path.write_bytes(content)
        try:
            return local_engine.merge(plan, staging)
        finally:
            path.write_bytes(FEED)

    def mutate(settings, **places):
        return pipeline.run(change_and_merge, settings, **places)

    job.refused(
        DataError,
        path,
        "the file changed while it was read",
        after,
        "let it be written whole before the run",
        settings={**CONFIG, "split.bytes": split},
        mutate=mutate,
    )


@pytest.mark.parametrize("what", ["nothing", "link", "directory"])
def test_file_that_is_another_thing_when_it_is_read(job, what):
    path, target = job.put("ups.txt"), job.put("target.txt", where=".")

    def change_and_merge(plan, staging):
        path.unlink()
        if what == "link":
            path.symlink_to(target)
        elif what == "directory":
            path.mkdir()
        try:
            return local_engine.merge(plan, staging)
        finally:
            path.rmdir() if what == "directory" else path.unlink(missing_ok=True)
            path.write_bytes(FEED)

    job.refused(
        StorageError,
        path,
        {"nothing": "No such file or directory", "link": "symbolic link", "directory": "not a regular file"}[what],
        mutate=lambda settings, **places: pipeline.run(change_and_merge, settings, **places),
    )


# --- arrival: names and kinds of files


def test_hidden_names_are_ignored_and_reported(job):
    job.put("ups.txt")
    for name in ("_SUCCESS", ".ups.txt.swp", "_late.txt"):
        job.put(name, b"garbage")
    job.put("_SUCCESS", b"", "master")
    report = job.run()

    ignored = [*(job.feed / name for name in (".ups.txt.swp", "_SUCCESS", "_late.txt")), job.master / "_SUCCESS"]
    assert sorted(report.ignored) == sorted(map(str, ignored))
    assert report.counts["feed rows"] == 1
    assert f"ignored, hidden name: {job.feed / '_late.txt'}" in report.text()


def test_hidden_name_that_is_asked_for(job):
    path = job.put("_ups.txt")

    job.refused(ConfigError, path, "never read; rename the file if it is a feed file", feed=[str(path)])


@pytest.mark.parametrize(
    "name", ["ups:1.txt", "ups*.txt", "ups[1].txt", "a,b.txt", "a b.txt", "é.txt", b"\xff.txt", "a#?;%20.txt"]
)
def test_odd_names_are_read_as_they_are(job, name):
    path = os.path.join(os.fsencode(job.feed), os.fsencode(name))
    with open(path, "wb") as stream:
        stream.write(FEED)

    assert job.run().counts["feed updated"] == 1
    assert job.run(output=str(job.output) + "-2", feed=[os.fsdecode(path)]).counts["feed updated"] == 1
    json.loads(job.run(output=str(job.output) + "-3").json())
    assert [part.name for part in known(job.output).feed] == [os.fsdecode(name)]


@pytest.mark.parametrize("name", ["ups\n.txt", "ups\x1b[2J.txt", "ups\t1.txt", "\x7f"])
@pytest.mark.parametrize("where", ["feed", "master"])
def test_control_characters_in_names(job, name, where):
    job.put(name, where=where)
    message = job.refused(ConfigError, job.root / where, "the name holds a control character", "rename the file")

    assert "\x1b" not in message


@pytest.mark.parametrize("where", ["feed", "master"])
@pytest.mark.parametrize("kind", ["symbolic link", "FIFO", "directory", "socket"])
def test_only_regular_files(job, where, kind):
    job.put("ups.txt")
    path = job.root / where / "odd"
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "symbolic link":
            path.symlink_to(job.put("elsewhere.txt", where="."))
        elif kind == "FIFO":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        else:
            old = os.getcwd()
            os.chdir(path.parent)  # a socket's path is short
            listener.bind("odd")
            os.chdir(old)
        cure = "name it as a --feed of its own" if kind == "directory" else "copy the data into a plain file"
        job.refused(ConfigError, path, f"is a {kind}, and only regular files are read; {cure}")


def test_link_that_is_asked_for(job):
    link = job.root / "link.txt"
    link.symlink_to(job.put("ups.txt"))

    job.refused(ConfigError, link, "is a symbolic link", feed=[str(link)])


def test_directories_may_be_links(job):
    job.put("ups.txt")
    (job.root / "m").symlink_to(job.master)
    (job.root / "f").symlink_to(job.feed)

    assert job.run(master=str(job.root / "m"), feed=[str(job.root / "f")]).counts["output rows"] == 4


def test_a_file_that_is_matched_twice_is_read_once(job):
    path = job.put("ups.txt")
    (job.root / "link").symlink_to(job.feed)
    feed = [
        *(str(job.feed), str(path), f"{job.feed}/*.txt", f"{job.root}/feed/../feed//ups.txt", f"file://{path}"),
        *(f"{job.root}/link", f"{job.root}/link/ups.txt", f"{job.root}/l*", f"{job.root}/l*/u*"),
    ]

    assert job.run(feed=feed).counts["feed rows"] == 1


def test_two_files_of_one_name_are_two(job):
    (job.root / "more").mkdir()
    job.put("ups.txt")
    job.put("ups.txt", b"c,2,200\n", "more")
    report = job.run(feed=[str(job.feed), str(job.root / "more")])

    assert report.counts["feed updated"] == 2


@pytest.mark.parametrize("name", ["ups.txt", "ups_x.txt", "ups_9223372036854775808.txt", "part-r-00000", "ups_1.5.txt"])
def test_name_without_a_sequence(job, name):
    path = job.put(name)
    job.put("ups_1.txt")

    job.refused(
        DataError,
        path,
        "order comes from file names, and this name has no sequence",
        "rename the file, or set temporal.ordering.field.ordinal",
        settings=BY_NAME,
    )


# --- paths and roles


@pytest.mark.parametrize("what", ["nowhere", "nowhere/*.txt", "feed/*.none", "master/base.txt/x"])
def test_missing_feed(job, what):
    job.refused(
        ConfigError, job.root / what, "there is no such feed file or directory; check", feed=[f"{job.root}/{what}"]
    )


@pytest.mark.parametrize("role", ["master", "feed", "output"])
def test_unknown_scheme(job, role):
    address = "s3://bucket/data"
    place = {role: [address] if role == "feed" else address}

    job.refused(
        ConfigError, address, "'s3' is not a known kind of storage; known are: file:// and plain paths", **place
    )


def test_file_address_with_a_host(job):
    job.refused(ConfigError, "a file address has no host; write file:///", master="file://host/data")


def test_file_addresses(job):
    job.put("ups.txt")
    job.run(master=f"file://{job.master}", feed=[f"file://{job.feed}"], output=f"file:{job.output}")

    assert len(rows(job.output)) == 4


@pytest.mark.parametrize("there", ["directory", "empty directory", "file", "dangling link"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_output_that_exists(job, there, dry_run):
    job.put("ups.txt")
    if there == "file":
        job.output.write_bytes(b"precious")
    elif there == "dangling link":
        job.output.symlink_to(job.root / "nowhere")
    else:
        job.output.mkdir()
        if there == "directory":
            (job.output / "x").write_bytes(b"precious")

    job.refused(StateError, job.output, "the output directory exists already; name a new one", dry_run=dry_run)


@pytest.mark.parametrize("inside", ["master", "feed", "master/deep/er", "feed/deep"])
def test_output_inside_of_an_input(job, inside):
    job.put("ups.txt")
    role = inside.split("/")[0]
    kinds = (ConfigError, f"{role} and output must be different places") if "/" in inside else (StateError, "exists")

    job.refused(*kinds, job.root / inside, output=str(job.root / inside))


def test_output_inside_of_an_input_behind_a_link(job):
    job.put("ups.txt")
    (job.root / "link").symlink_to(job.feed)

    job.refused(ConfigError, "feed and output must be different places", output=str(job.root / "link" / "new"))


@pytest.mark.parametrize("feed", ["master", "master/base.txt", "master/*"])
def test_master_as_feed(job, feed):
    job.refused(ConfigError, "master and feed must be different places", feed=[f"{job.root}/{feed}"])


# --- rows


# (row, reason): each is one reject among good rows
UNREADABLE = {
    "too few fields": (b"x,1", "has 2 fields and should have 3"),
    "too many fields": (b"x,1,200,y", "has 4 fields and should have 3"),
    "trailing delimiter": (b"x,1,200,", "has 4 fields and should have 3"),
    "delimiter in quotes": (b'x,"1,5",200', "has 4 fields and should have 3"),
    "other delimiter": (b"x;1;200", "has 1 fields and should have 3"),
    "blank": (b"  ", "has 1 fields and should have 3"),
    "Ctrl-Z": (b"\x1a", "has 1 fields and should have 3"),
    "header": (b"id,count,changed", "field 2 (order value) is not an integer: 'changed'"),
    "footer": (b"rows,,2", None),  # it reads like a row, and nothing can tell
    "no order value": (b"x,1,", "field 2 (order value) is not an integer: ''"),
    "order value with blanks": (b"x,1, 200", "field 2 (order value) is not an integer: ' 200'"),
    "decimal order value": (b"x,1,200.0", "field 2 (order value) is not an integer: '200.0'"),
    "exponent": (b"x,1,2e2", "field 2 (order value) is not an integer: '2e2'"),
    "underscore": (b"x,1,2_00", "field 2 (order value) is not an integer: '2_00'"),
    "NaN": (b"x,1,NaN", "field 2 (order value) is not an integer: 'NaN'"),
    "beyond 64 bits": (b"x,1,9223372036854775808", "field 2 (order value) is beyond 64 bits: '9223372036854775808'"),
    "other digits": ("x,1,٢".encode(), "field 2 (order value) is not an integer: '٢'"),
    "broken bytes": (b"x,1,\xff", r"field 2 (order value) is not an integer: '\xff'"),
    "long value": (b"x,1," + b"y" * 99, f"field 2 (order value) is not an integer: '{'y' * 40}…'"),
    "NUL in it": (b"x,1,\x00", r"field 2 (order value) is not an integer: '\x00'"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_row(job, name):
    row, reason = UNREADABLE[name]
    path = job.put("ups.txt", b"b,2,200\n\n" + row + b"\nc,2,200\n")
    if reason is None:
        assert job.run().counts["feed inserted"] == 1
        return

    message = job.refused(
        DataError, "1 feed rows cannot be read as records (limit 0)", f"{path}: line 3, byte 9: {reason}"
    )
    assert "or set reject.policy=quarantine to set them aside" in message
    job.run({**CONFIG, "reject.policy": "quarantine"})
    assert b"c,2,200" in rows(job.output)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"2026-02-30T00:00:00Z", "is not a date of the calendar"),
        (b"2026-01-31T24:00:00", "is not a time of the day"),
        (b"26-01-31", "is not an ISO 8601 timestamp"),
        (b"2026-01-31T10:00:00 CET", "is not an ISO 8601 timestamp"),
        (b"", "is not an ISO 8601 timestamp"),
    ],
)
def test_unreadable_timestamp(job, value, reason):
    job.put("base.txt", b"a,1,2026-01-31\n", "master")
    job.put("ups.txt", b"b,2," + value + b"\n")

    job.refused(
        DataError,
        f"line 1, byte 0: field 2 (order value) {reason}: '{value.decode()}'",
        settings={**CONFIG, "temporal.ordering.field.type": "timestamp"},
    )


def test_missing_id_field(job):
    job.put("base.txt", b"1,a\n2,b,x\n", "master")
    job.put("ups_1.txt", b"1,c\n3\n")

    job.refused(
        DataError,
        "line 2, byte 4: has 1 fields and should have 2 or more",
        settings={"id.field.ordinals": "1", "field.count": "any"},
    )


def test_key_only_row_where_order_comes_from_a_field(job):
    path = job.put("del.txt", b"b\n")

    job.refused(
        DataError,
        f"{path}: line 1, byte 0: has 1 fields and should have 3",
        settings={**CONFIG, "deleted.record.file.prefix": "del"},
    )


def test_key_only_row_in_a_file_that_does_not_delete(job):
    path = job.put("ups_1.txt", b"b,2,1\nb\n")

    job.refused(DataError, f"{path}: line 2, byte 6: has 1 fields and should have 3", settings=BY_NAME)


def test_row_that_is_blank_without_its_op_code(job):
    job.put("base.txt", b"a\nb\nc\n", "master")
    path = job.put("ups_1.txt", b"a,U\n,U\n")

    job.refused(
        DataError,
        f"{path}: line 2, byte 4: nothing is left of the row without its op code, and a blank line is no record",
        settings={"id.field.ordinals": "0", "op.code.field.ordinal": "1"},
    )


def test_only_the_first_rejects_are_shown(job):
    job.put("ups.txt", b"".join(b"x%d\n" % number for number in range(20)) + FEED)
    message = job.refused(DataError, "20 feed rows cannot be read", settings={**CONFIG, "field.count": "3"})

    assert message.count("has 1 fields") == 5


@pytest.mark.parametrize("split", ["1", "7", "64m"])
def test_quarantine(job, split):
    bad = [b"x", b"y,\xff\t,1", b"z,1,", b"\x00,,,"]
    one = job.put("ups-1.txt", b"\xef\xbb\xbf" + bad[0] + b"\r\n\r\na,2,200\n" + bad[1] + b"\n")
    two = job.put("ups-2.txt", b"b,2,200\n" * 9 + bad[2] + b"\n" + bad[3])
    three = job.put("ups-3.gz", gzip.compress(b"c,2,200\n\n" + bad[0] + b"\n"))
    report = job.run(
        {**CONFIG, "reject.policy": "quarantine", "reject.limit": "5", "split.bytes": split, "num.reducer": "3"}
    )

    place = [
        (one, 3, 1, "has 1 fields and should have 3", bad[0]),
        (one, 16, 4, "field 2 (order value) is not an integer: '1'", bad[1]),
        (two, 72, 10, "field 2 (order value) is not an integer: ''", bad[2]),
        (two, 77, 11, "has 4 fields and should have 3", bad[3]),
        (three, 9, 3, "has 1 fields and should have 3", bad[0]),
    ]
    place.pop(1)
    assert report.counts["feed rejected"] == 4
    (part,) = [part for part in known(job.output).beside if part.kind == "rejected"]
    assert report.rejected_file == str(job.output / part.path)
    assert (job.output / part.path).read_bytes() == b"".join(
        f"{path}\t{offset}\t{line}\t{reason}\t".encode() + row + b"\n" for path, offset, line, reason, row in place
    )
    assert [(row["offset"], row["line"]) for row in report.rejects["feed"]] == [
        (at, line) for _, at, line, _, _ in place
    ]
    assert part.rows == 4
    json.loads(report.json())


def test_more_rejects_than_the_limit(job):
    job.put("ups.txt", b"b,2,200\nx\ny\nz\n")
    settings = {**CONFIG, "reject.policy": "quarantine", "reject.limit": "2"}

    job.refused(DataError, "3 feed rows cannot be read", "(limit 2)", "or raise reject.limit (2)", settings=settings)
    assert job.run({**settings, "reject.limit": "3"}).counts["feed rejected"] == 3


def test_rejects_of_the_master(job):
    job.put("ups.txt")
    path = job.put("base.txt", MASTER + b"e,1\n", "master")
    quarantine = {**CONFIG, "reject.policy": "quarantine"}
    message = f"{path}: line 5, byte 32: has 2 fields and should have 3: e,1"

    job.refused(
        DataError, "1 master rows cannot be read", message, "set master.reject.policy=quarantine", settings=quarantine
    )
    report = job.run({**CONFIG, "master.reject.policy": "quarantine"})
    assert report.counts["master rejected"] == 1
    assert report.counts["master rows"] == 5
    assert b"e,1" in (job.output / report.rejected_file).read_bytes()
    assert b"e,1" not in rows(job.output)


def test_delete_code_in_the_master(job):
    path = job.put("base.txt", b"a,1,I,100\nb,1,D,100\n", "master")
    job.put("ups.txt", b"a,2,U,200\n")

    job.refused(
        DataError, f"{path}: line 2, byte 10: field 2 (op code) marks a delete in the master: 'D'", settings=WITH_OP
    )


def test_the_delete_prefix_is_not_for_master_files(job):
    job.put("del_base.txt", b"e,1,100\n", "master")
    job.put("ups.txt")
    report = job.run({**CONFIG, "deleted.record.file.prefix": "del"})

    assert report.counts["output rows"] == 5


# --- width


def test_wrong_delimiter(job):
    job.put("ups.txt")
    job.refused(
        ConfigError,
        "temporal.ordering.field.ordinal: field 2 is beyond the 1 fields of a row, split by field.delim.regex = ';'",
        "correct the ordinal (they count from 0), the delimiter or field.count",
        settings={**CONFIG, "field.delim.regex": ";"},
    )


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("id.field.ordinals", {"id.field.ordinals": "0,3"}),
        ("temporal.ordering.field.ordinal", {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "3"}),
    ],
)
def test_ordinal_beyond_the_fields(job, key, settings):
    job.put("ups_1.txt")

    job.refused(ConfigError, f"{key}: field 3 is beyond the 3 fields of a row", settings=settings)


def test_width_is_that_of_the_first_master_file(job):
    job.put("ups.txt", b"b,2,200,more\n")
    job.put("az.txt", b"\n\ne,1,100,more\n", "master")
    message = job.refused(DataError, "4 master rows cannot be read", "has 3 fields and should have 4")

    assert str(job.master / "base.txt") in message


def test_width_is_that_of_the_first_feed_file_where_there_is_no_master(job):
    job.put("ups-2.txt", b"x,2,200\n")
    path = job.put("ups-10.txt", b"a,2,200,more\n")
    settings = {**CONFIG, "allow.empty.master": "true"}
    message = job.refused(DataError, "has 3 fields and should have 4", settings=settings, master=str(job.root / "none"))

    assert str(path) not in message


def test_width_is_that_of_an_empty_master_of_our_own(job):
    (job.master / "base.txt").write_bytes(b"a,1,100\n")
    job.put("del.txt", b"a,1,200\n")
    job.follow({**CONFIG, "deleted.record.file.prefix": "del", "max.delete.fraction": "1"})
    job.add("ups.txt", b"b,1,300,more\n")

    assert rows(job.master) == []
    job.refused(DataError, "has 4 fields and should have 3")


def test_width_by_number(job):
    job.put("ups.txt", b"b,2,200,more\n")

    job.refused(
        DataError,
        "4 master rows cannot be read",
        "has 3 fields and should have 4",
        settings={**CONFIG, "field.count": "4"},
    )
    job.refused(
        DataError,
        "1 feed rows cannot be read",
        "has 4 fields and should have 3",
        settings={**CONFIG, "field.count": "3"},
    )


def test_any_width_holds_the_fields_that_are_needed(job):
    job.put("ups.txt", b"b,2,200,more\nc,2\n")

    job.refused(
        DataError,
        "1 feed rows cannot be read",
        "line 2, byte 13: has 2 fields and should have 3 or more",
        settings={**CONFIG, "field.count": "any"},
    )


def test_width_that_fits_neither_layout(job):
    job.put("ups.txt", b"b,2,U,200,x\n")

    job.refused(
        ConfigError,
        job.master,
        "the first row has 3 fields",
        "5",
        "set op.code.in.master=true or false, and field.count to the number of fields of a feed row",
        settings=WITH_OP,
    )


def test_width_of_the_feed_follows_from_the_master(job):
    path = job.put("ups.txt", b"b,2,U,200,x\nc,2,U,200\n")

    job.refused(
        DataError,
        "1 feed rows cannot be read",
        f"{path}: line 1, byte 0: has 5 fields and should have 4",
        settings={**WITH_OP, "op.code.in.master": "false"},
    )


def test_any_width_does_not_tell_whether_there_are_op_codes(job):
    job.put("ups.txt", b"b,2,U,200\n")
    settings = {**WITH_OP, "field.count": "any"}

    job.refused(
        ConfigError,
        job.master,
        "with field.count=any it cannot be seen whether the rows carry the op code column; set op.code.in.master=true",
        settings=settings,
    )
    assert job.run({**settings, "op.code.in.master": "false"}).counts["feed updated"] == 1


def test_op_codes_that_the_master_cannot_keep(job):
    job.put("ups.txt", b"b,2,U,200\n")

    job.refused(
        ConfigError,
        job.master,
        "op.code.keep=true writes rows with an op code, and the master's rows have none; leave op.code.keep out",
        settings={**WITH_OP, "op.code.keep": "true"},
    )


def test_op_code_in_master_overrides_what_is_seen(job):
    # As wide as the feed, so they would be taken for rows with op codes.
    (job.master / "base.txt").write_bytes(b"a,1,100,x\n")
    job.put("ups.txt", b"b,2,U,200\n")
    settings = {**WITH_OP, "field.count": "5"}

    job.refused(
        DataError,
        "1 feed rows cannot be read",
        "has 4 fields and should have 5",
        settings={**settings, "op.code.in.master": "false"},
    )
    job.put("ups.txt", b"b,2,U,200,y\n")
    report = job.run({**settings, "op.code.in.master": "false"})
    assert rows(job.output) == [b"a,1,100,x", b"b,2,200,y"]
    assert "the master's rows are without the op code column; rows are written without it" in report.notes


# --- a feed that deletes too much, or is not what it must be


def test_file_that_the_prefix_catches_by_mistake(job):
    job.put("delaware.txt", b"a,1,200\nb,1,200\nc,1,200\n")
    settings = {**CONFIG, "deleted.record.file.prefix": "del"}
    message = "the run would remove 3 of 4 master rows, and max.delete.fraction is 0.5"

    job.refused(DataError, message, "if that is meant, run again with -D max.delete.fraction=1", settings=settings)
    job.refused(DataError, message, settings=settings, dry_run=True)
    assert job.run({**settings, "max.delete.fraction": "0.75"}).counts["feed deleted"] == 3


def test_a_master_is_never_emptied_unasked(job):
    job.put("del.txt", MASTER.replace(b"100", b"200"))
    settings = {**CONFIG, "deleted.record.file.prefix": "del"}

    job.refused(DataError, "the run would remove 4 of 4", settings={**settings, "max.delete.fraction": "0.99"})
    assert job.run({**settings, "max.delete.fraction": "1"}).counts["output rows"] == 0


FULL = {**CONFIG, "sync.mode": "full"}


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"id,count,changed\n"])
def test_empty_snapshot(job, content):
    settings = {**FULL, "header.lines": "1"} if content and b"id" in content else FULL
    if content is not None:
        job.put("all.txt", content)
    if "header.lines" in settings:
        (job.master / "base.txt").write_bytes(content + MASTER)

    job.refused(
        DataError,
        job.feed,
        "sync.mode=full needs a complete snapshot, and the feed has no rows",
        settings={**settings, "max.delete.fraction": "1"},
    )


def test_two_snapshots(job):
    job.put("all_1.txt", MASTER)
    job.put("all_2.txt", MASTER)
    parts = "sync.mode=full takes one snapshot, and the feed files have different sequences (1, 2)"
    job.refused(DataError, parts, "run one snapshot at a time, oldest first", settings=FULL)
    (job.feed / "all_1.txt").rename(job.feed / "all.txt")
    job.refused(DataError, "(2, none)", settings=FULL)


def test_snapshot_with_a_reject(job):
    job.put("all.txt", MASTER[:-1] + b",more\n")

    job.refused(
        DataError, "1 feed rows cannot be read", "line 4, byte 24: has 4 fields and should have 3", settings=FULL
    )


def test_older_snapshot(job):
    job.put("all.txt", MASTER.replace(b"100", b"200"))
    job.follow(FULL)
    job.add("all-2.txt", MASTER.replace(b"100", b"199"))
    allowed = {**FULL, "allow.older.snapshot": "true"}

    job.refused(
        StateError,
        "the snapshot's highest order value is 199, and the master has already had one with 200",
        "run again with -D allow.older.snapshot=true",
        settings=FULL,
    )
    job.follow(allowed)
    # It is the last one then: only what is older than it is refused.
    job.add("all-3.txt", MASTER.replace(b"100", b"198"))
    job.refused(StateError, "has already had one with 199", settings=FULL)


def test_a_snapshot_is_merged_again(job):
    job.put("all_1.txt", MASTER)
    job.follow(FULL)
    job.add("all_1.txt", MASTER)
    report = job.run(FULL)

    assert report.consumed == ()
    assert report.counts["feed no-op"] == 4


def test_insert_below_the_horizon(job):
    job.put("del.txt", b"b,1,200\n")
    settings = {**CONFIG, "deleted.record.file.prefix": "del", "tombstone.retention": "0s"}
    job.follow(settings)
    time.sleep(0.01)
    assert job.follow(settings).counts["expired"] == 1
    assert known(job.master).horizon == "200"
    job.add("ups.txt", b"b,9,150\ne,1,200\n")

    job.refused(
        DataError,
        "1 inserted records are older than 200, the newest tombstone that has expired",
        "(for example b)",
        "accept them with -D before.horizon=insert",
        settings={**settings, "before.horizon": "fail"},
    )
    report = job.run(settings)
    assert report.counts["below horizon"] == 1
    assert report.samples["below horizon"] == ["b"]


# --- a feed file that was consumed before


def test_consumed_file_is_skipped_and_reported(job):
    job.put("ups_1.txt")
    job.follow()
    again = job.add("ups_1.txt")
    job.add("ups_2.txt", b"c,2,300\n")
    report = job.run()

    assert report.consumed == (str(again),)
    assert f"skipped, consumed before: {again}" in report.text()
    assert report.counts["feed rows"] == 1
    assert [part.name for part in known(job.output).feed] == ["ups_1.txt", "ups_2.txt"]


def test_consumed_files_can_be_merged_again(job):
    job.put("ups_1.txt")
    job.follow()
    job.add("ups_1.txt")
    report = job.run({**CONFIG, "consumed.files": "merge"})

    assert (report.consumed, report.counts["feed no-op"]) == ((), 1)


def test_name_of_a_consumed_file_with_another_content(job):
    job.put("ups_1.txt")
    job.follow()
    job.add("ups_1.txt", FEED.replace(b"2", b"3"))  # the same size
    report = job.run()

    assert report.counts["feed updated"] == 1
    assert "ups_1.txt was consumed before with another content; it is merged as a new file" in report.notes


def test_content_of_a_consumed_file_with_another_name(job):
    job.put("ups_1.txt")
    job.follow()
    job.add("ups_2.txt")

    assert job.run().counts["feed no-op"] == 1


def test_consumed_large_file_is_known_by_its_chunks(job):
    content = b"".join(b"k%d,1,200\n" % number for number in range(50))
    job.put("ups_1.txt", content)
    job.put("ups_2.gz", gzip.compress(content, mtime=0))
    job.follow({**CONFIG, "split.bytes": "40"})
    job.add("ups_1.txt", content)
    job.add("ups_2.gz", gzip.compress(content, mtime=0))

    assert len(job.run({**CONFIG, "split.bytes": "64m"}).consumed) == 2


def test_consumed_files_are_forgotten_after_a_while(job):
    job.put("ups_1.txt")
    job.follow()
    time.sleep(0.01)
    job.follow({**CONFIG, "consumed.retention": "0s"})

    assert known(job.master).feed == ()


# --- a managed master that is not what its manifest says


@pytest.fixture
def managed(job):
    """Give a job whose master was written by this program, with a tombstone and both kinds of bucket files."""
    job.put("del_1.txt", b"d,1,200\n")
    job.follow({**CONFIG, "deleted.record.file.prefix": "del", "num.reducer": "2"})
    job.add("ups_2.txt", b"b,2,300\n")
    return job


def a_file(job, kind):
    pattern = {"data": "part-*", "tombstones": "_mutator/tombstones/*"}[kind]
    return next(job.master.glob(pattern))


ADOPT = "set master.adopt=true to take the files that are there as an unmanaged master"


def test_extra_file(managed):
    (managed.master / "more.txt").write_bytes(b"z,1,100\n")

    managed.refused(StateError, managed.master, "more.txt is not one of its files", ADOPT)


def test_extra_hidden_file_is_no_data(managed):
    (managed.master / ".part.crc").write_bytes(b"x")

    assert managed.run().counts["feed updated"] == 1


@pytest.mark.parametrize("kind", ["data", "tombstones"])
def test_missing_file(managed, kind):
    path = a_file(managed, kind)
    path.unlink()

    managed.refused(StateError, f"{path.relative_to(managed.master)} is missing", ADOPT)


@pytest.mark.parametrize("kind", ["data", "tombstones"])
def test_file_of_another_size(managed, kind):
    path = a_file(managed, kind)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"z,1,100\n")

    managed.refused(
        StateError, f"{path.relative_to(managed.master)} has {size + 8} bytes and should have {size}", ADOPT
    )


@pytest.mark.parametrize("kind", ["data", "tombstones"])
def test_file_with_a_flipped_bit(managed, kind):
    path = a_file(managed, kind)
    content = bytearray(path.read_bytes())
    content[2] ^= 1
    path.write_bytes(content)

    managed.refused(StateError, path, "the master's file is damaged: restore it from a copy")


def test_sequences_with_a_flipped_bit(job):
    job.put("ups_1.txt", b"b,2,200\nc,2,200\n")
    job.follow(BY_NAME)
    path = next((job.master / "_mutator" / "order").iterdir())
    kept = path.read_bytes()
    for position in range(0, len(kept), 9):
        path.write_bytes(kept[:position] + bytes([kept[position] ^ 1]) + kept[position + 1 :])
        job.refused(StateError, job.master, settings=BY_NAME)


def test_link_in_place_of_a_file(managed):
    path = a_file(managed, "data")
    path.rename(managed.root / "moved")
    path.symlink_to(managed.root / "moved")

    managed.refused(StateError, path.name, ADOPT)


def test_damaged_manifest(managed):
    path = managed.master / manifest.PATH
    path.write_bytes(path.read_bytes().replace(b'"buckets": 2', b'"buckets": 3'))

    managed.refused(StateError, path, "the manifest is damaged", "restore it from a copy, or set master.adopt=true")


def test_missing_manifest(managed):
    (managed.master / manifest.PATH).unlink()

    managed.refused(StateError, managed.master / manifest.PATH, "it is missing beside the rest of its directory")


def test_adopted_master(managed):
    (managed.master / "more.txt").write_bytes(b"z,1,100\n")
    (managed.master / manifest.PATH).write_bytes(b"{")
    report = managed.run({**CONFIG, "master.adopt": "true"})

    assert rows(managed.output) == [b"a,1,100", b"b,2,300", b"c,1,100", b"z,1,100"]
    assert report.counts["tombstones in"] == 0
    assert known(managed.output).parent is None


def test_sequences_are_checked_by_an_adopted_master_no_more(job):
    job.put("ups_5.txt", b"b,2,200\n")
    job.follow(BY_NAME)
    for path in (job.master / "_mutator" / "order").iterdir():
        path.unlink()
    job.add("ups_7.txt", b"b,3,200\n")
    settings = {**BY_NAME, "master.adopt": "true"}

    job.refused(StateError, "is missing", settings=BY_NAME)
    assert job.run(settings).counts["feed updated"] == 1


@pytest.mark.parametrize(
    ("name", "settings", "before", "now"),
    [
        ("key", {"id.field.ordinals": "0,1"}, "ordinals 0,", "ordinals 0,1,"),
        ("order", {"temporal.ordering.field.ordinal": "1"}, "ordinal 2,", "ordinal 1,"),
        ("order", {"temporal.ordering.field.ordinal": ""}, "by field,", "by file name"),
        ("order", {"temporal.ordering.field.type": "string"}, "type long", "type string"),
        ("delimiter", {"field.delim.regex": "[,;]"}, "literal ,", "regex [,;]"),
        ("width", {"field.count": "4"}, "3", "4"),
        ("width", {"field.count": "any"}, "3", "any"),
    ],
)
def test_other_specification(managed, name, settings, before, now):
    managed.refused(
        StateError,
        f"{managed.master}: the master was written with {name} = ",
        before,
        now,
        "use the same setting, or set master.adopt=true to start anew from its rows",
        settings={**CONFIG, **settings},
    )


def test_op_codes_begin_or_end(job):
    (job.master / "base.txt").write_bytes(b"a,1,I,100\nb,1,I,100\n")
    job.put("ups_1.txt", b"a,2,U,200\n")
    keep = {**WITH_OP, "op.code.keep": "true"}
    job.follow(keep)
    job.add("ups_2.txt", b"a,3,U,300\n")

    job.refused(StateError, "was written with ", settings=WITH_OP)
    assert job.run(keep).counts["feed updated"] == 1


def test_clock_that_goes_backwards(managed, monkeypatch):
    before = known(managed.master).committed
    monkeypatch.setattr(pipeline.time, "time", lambda: 1_000_000_000.0)
    managed.run()

    assert known(managed.output).committed >= before


# --- the same through the command line, on Spark


@pytest.mark.parametrize(
    ("settings", "code", "part"),
    [
        (CONFIG, 3, "ups.txt: line 2, byte 8: has 1 fields and should have 3: x\nMend the rows, or set reject.policy="),
        ({**CONFIG, "reject.policy": "quarantine", "reject.limit": "0"}, 3, "(limit 0)"),
        ({**CONFIG, "num.reducer": "x"}, 2, "num.reducer: 'x' must be a whole number"),
        ({**CONFIG, "field.delim.regex": ";"}, 2, "field 2 is beyond the 1 fields of a row"),
    ],
)
def test_command_line(sc, job, capsys, settings, code, part):
    job.put("ups.txt", FEED + b"x\n")
    before = snapshot(job.root)
    words = ["run", "--master", str(job.master), "--feed", str(job.feed), "--output", str(job.output)]

    assert main([*words, *(word for key, value in settings.items() for word in ("-D", f"{key}={value}"))]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert part in told.err.partition("mutator: error: ")[2]
    assert "Traceback" not in told.err
    assert snapshot(job.root) == before


# --- what a second reading of the code found


OP_CODE = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "op.code.field.ordinal": "2"}


def test_feed_files_that_disagree_do_not_tell_whether_the_master_has_op_codes(job):
    (job.master / "base.txt").write_bytes(b"a,1,precious\n")
    job.add("forgotten.txt", b"c,2,oops\n")  # as wide as the master: without its op code
    job.add("ups.txt", b"b,2,U,bread\n")

    job.refused(ConfigError, "the first row has 3 fields", "3 or 4", "set op.code.in.master", settings=OP_CODE)


def test_an_op_code_column_of_the_master_that_was_only_inferred_is_told(job):
    (job.master / "base.txt").write_bytes(b"a,1,U\n")
    job.add("ups.txt", b"b,2,U\n")

    assert any("set op.code.in.master to confirm it" in line for line in job.run(OP_CODE).warnings)


def test_adopted_files_of_our_own_are_read_as_they_were_written(job):
    settings = {**CONFIG, "header.lines": "1", "num.reducer": "1"}
    (job.master / "base.txt").write_bytes(b"id,qty,ts\nk1,1,100\r\r\n\xef\xbb\xbfk2,2,100\n")
    job.follow({**settings, "temporal.ordering.field.type": "string"})

    report = job.run({**settings, "temporal.ordering.field.type": "string", "master.adopt": "true"})

    rows = b"".join(path.read_bytes() for path in job.output.glob("part-*"))
    assert sorted(rows.split(b"\n")) == [b"", b"k1,1,100\r", b"\xef\xbb\xbfk2,2,100"]
    assert report.counts["master ignored"] == 0
    assert any("its tombstones" in note for note in report.notes)


def test_more_rejects_than_can_be_set_aside_do_not_travel(job):
    from mutator import plan, survey
    from mutator.engine.content import REJECT
    from mutator.engine.read import read_task

    job.add("bad.txt", b"one field\n" * 10_000)
    settings = config.parse(CONFIG)
    made = plan.make_plan(settings, survey.look_at(settings, str(job.master), [str(job.feed)]), "run", 0)
    elements = [element for task in made.tasks for element in read_task(made, task)]

    assert sum(element[0][0] == made.ledger and element[0][2] == REJECT for element in elements) == plan.SAMPLES
    job.refused(DataError, "10,000 feed rows cannot be read")


def test_a_tab_in_a_field_stays_out_of_the_reason(job):
    job.add("bad.txt", b"k1,2\tx,1\ty\n")

    report = job.run({**CONFIG, "reject.policy": "quarantine"})

    line = (job.root / report.rejected_file).read_bytes()
    assert line.split(b"\t", 4)[4] == b"k1,2\tx,1\ty\n"


def test_a_row_longer_than_many_splits_is_held_once():
    from mutator.formats import text

    read = []

    def blocks():
        for _ in range(100):
            read.append(1000)
            yield b"x" * 1000

    assert list(text.rows(blocks(), text.LF, 1, 3000)) == []
    assert sum(read) <= 4000  # and not to the end of the row


def test_a_small_file_that_holds_a_large_one_comes_in_small_blocks():
    from mutator.storage.compression import decompress

    for kind in ("gzip", "bzip2", "zstd", "xz"):
        suffix = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst", "xz": "xz"}[kind]
        sizes = [len(block) for block in decompress([packed(suffix, b"\0" * 30_000_000)], kind)]

        assert sum(sizes) == 30_000_000
        assert max(sizes) <= 2 << 20, kind


def test_the_extension_of_a_name_may_hold_the_sequence(job):
    (job.master / "base.txt").unlink()
    (job.master / "base.prod_50").write_bytes(b"k1,old\n")
    job.add("ups_7.txt", b"k1,older\n")

    assert job.run({"id.field.ordinals": "0"}).counts["feed late"] == 1


def test_feed_files_that_are_merged_again_are_listed_once(job):
    job.add("ups.txt")
    job.follow()
    job.add("ups.txt")
    job.run({**CONFIG, "consumed.files": "merge"})

    known = manifest.parse((job.output / manifest.PATH).read_bytes(), "manifest")
    assert [part.name for part in known.feed] == ["ups.txt"]


def test_an_older_snapshot_that_was_allowed_is_the_last_one(job):
    full = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "2", "sync.mode": "full"}
    for number, settings in ((10, {}), (5, {"allow.older.snapshot": "true"}), (7, {})):
        job.add("all.txt", b"k1,1,%d\nk2,1,%d\nk3,1,%d\n" % (number, number, number))
        job.follow({**full, "max.delete.fraction": "1", **settings})


def test_paths_of_python_are_paths(job):
    job.add("ups.txt")

    assert job.run(master=job.master, feed=job.feed, output=job.output).counts["feed rows"] > 0


def test_partitions_must_be_some(sc):
    import mutator

    with pytest.raises(ConfigError, match="partitions is -1"):
        mutator.last_mutations(sc.parallelize([1]), key=int, precedence=int, partitions=-1)
    assert mutator.last_mutations(sc.emptyRDD(), key=int, precedence=int).collect() == []


def test_a_file_in_the_way_of_the_output(job):
    job.put("plain", b"", where=".")

    job.refused(StorageError, "is in the way and is no directory", output=str(job.root / "plain" / "out"))
