"""Files that are unreadable or mislabelled, one test for each fault.

As in every test of bad input: the message names the location, the fault and the cure; nothing is published; no input
changes. Most runs go through the local engine, once as records and once as blocks.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import socket
import sys
import time
import zipfile
from types import SimpleNamespace

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from mutator.dataset import manifest
from mutator.errors import ConfigError, DataError, StorageError
from mutator.formats.blocks.row_layout import RowLayout
from mutator.formats.blocks.text_rows import TextBlockType
from mutator.formats.content import Window
from mutator.formats.files import lines
from mutator.pipeline import merge
from mutator.rules.delimiter import field_delimiter
from mutator.storage import stream
from mutator.storage.compression import decompress
from tests.support import local_engine
from tests.support.job import BY_NAME, CONFIG, ENGINES, FEED, known, rows

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


# --- arrival: compression and containers


def packed(compression, content=FEED):
    if compression == "zip":
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("ups.txt", content)
        return stream.getvalue()
    if compression == "zst":  # with a checksum, as the zstd program writes it
        return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: True})
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[compression](content)


AVRO = [{"name": "key", "type": "string"}, {"name": "count", "type": "long"}, {"name": "changed", "type": "long"}]


def container(file_format, *records):
    """Return the bytes of a file of a format with named fields."""
    stream, rows = io.BytesIO(), [dict(zip(("key", "count", "changed"), record, strict=True)) for record in records]
    if file_format == "avro":
        fastavro.writer(stream, {"type": "record", "name": "row", "fields": AVRO}, rows)
    else:
        {"parquet": pq, "orc": orc}[file_format].write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


def records_in(output):
    """Return the records of an output in a format with named fields."""
    rows = []
    for path in output.glob("part-*"):
        if path.suffix == ".avro":
            rows += fastavro.reader(io.BytesIO(path.read_bytes()))
        else:
            rows += {".parquet": pq, ".orc": orc}[path.suffix].read_table(path).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("compression", ["gz", "bz2", "zst", "xz"])
@pytest.mark.parametrize("block", [stream.BLOCK, 64], ids=["seen by the survey", "seen by a task"])
def test_truncated_file(job, compression, block, monkeypatch):
    monkeypatch.setattr(stream, "BLOCK", block)  # the survey reads up to the first block with a row
    path = job.put(
        f"ups.txt.{compression}", packed(compression, b"".join(b"k%d,%d,200\n" % (n, n * n) for n in range(2000)))[:-5]
    )

    job.refused(DataError, path, "ends early", "the file is damaged: have it delivered again, or remove it")


@pytest.mark.parametrize("unique", ["true", "false"])
def test_truncated_file_of_the_master_is_the_one_that_is_named(job, unique, monkeypatch):
    """One task reads several files."""
    monkeypatch.setattr(stream, "BLOCK", 64)
    job.put("ups.txt")
    path = job.put(
        "more.txt.gz", packed("gz", b"".join(b"k%d,%d,200\n" % (n, n * n) for n in range(900)))[:-5], "master"
    )

    message = job.refused(DataError, path, "ends early", settings={**CONFIG, "master.unique": unique})
    assert "base.txt" not in message


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("compression", ["gz", "bz2", "zst", "xz"])
def test_bytes_after_the_last_stream(job, compression):
    path = job.put(f"ups.{compression}", packed(compression) + b"trailing garbage")

    job.refused(DataError, path, "cannot be read", "the file is damaged")


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("compression", ["gz", "bz2", "zst", "xz"])
def test_broken_stream(job, compression):
    content = packed(compression, b"".join(b"k%d,1,200\n" % number for number in range(500)))
    path = job.put(f"ups.{compression}", content[:40] + bytes([content[40] ^ 255, content[41] ^ 255]) + content[42:])

    job.refused(DataError, path, "the file is damaged")


@pytest.mark.thorough(keep=10)
@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst", "xz", "GZ", "lz4", "snappy", "zip", "7z", "deflate"])
def test_text_named_like_a_compressed_file(job, suffix):
    path = job.put(f"ups.{suffix}")

    job.refused(DataError, path, "but the content is plain text; give the file the suffix of its content")


@pytest.mark.thorough(keep=8)
@pytest.mark.parametrize(("compression", "name"), [("gz", "gzip"), ("bz2", "bzip2"), ("zst", "zstd"), ("xz", "xz")])
@pytest.mark.parametrize("where", ["feed", "master"])
def test_compressed_file_named_like_text(job, compression, name, where):
    path = job.put("more.txt", packed(compression), where)

    job.refused(DataError, path, f"the name says plain text, but the content is {name}")


def test_compressed_file_named_like_another_compression(job):
    path = job.put("ups.bz2", packed("gz"))

    job.refused(DataError, path, "the name says bzip2, but the content is gzip")


@pytest.mark.parametrize("compression", ["gz", "bz2", "zst", "xz"])
def test_empty_file_named_like_a_compressed_file(job, compression):
    path = job.put(f"ups.{compression}", b"")

    job.refused(DataError, path, "it is empty, but ", " files never are; the file is damaged")


@pytest.mark.thorough(keep=8)
@pytest.mark.parametrize(
    ("content", "name"),
    [
        (packed("zip"), "a zip archive"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive"),
        (b"\x04\x22\x4d\x18x", "lz4"),
        (b"\xff\x06\x00\x00sNaPpY", "snappy"),
    ],
    ids=["zip", "7z", "lz4", "snappy"],  # fixed IDs: an archive contains the time, so workers would disagree
)
@pytest.mark.parametrize("where", ["feed", "master"])
def test_unsupported_content(job, content, name, where):
    path = job.put("more.txt", content, where)

    job.refused(DataError, path, f"is {name}, which is not supported; deliver it as plain text, .gz, .bz2, .zst or .xz")


@pytest.mark.thorough(keep=10)
@pytest.mark.parametrize(
    ("content", "name"),
    [
        (container("parquet", ("b", 2, 200)), "Parquet"),
        (container("avro", ("b", 2, 200)), "Avro"),
        (container("orc", ("b", 2, 200)), "ORC"),
        (b"Obj\x01\x04\x16avro.schema", "Avro"),
        (b"ORC\n\x0b\0\0", "ORC"),
    ],
    ids=["Parquet", "Avro", "ORC", "start of Avro", "start of ORC"],
)
@pytest.mark.parametrize("where", ["feed", "master"])
@pytest.mark.parametrize("setting", ["input.format", "{}.format"])
def test_content_that_is_not_the_promised_text(job, content, name, where, setting):
    path = job.put("more.txt", content, where)

    job.refused(
        DataError,
        path,
        f"is {name}, not text; leave out the setting that says so",
        settings={**CONFIG, setting.format(where): "text"},
    )


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("suffix", [".txt", "", ".bin"])
def test_ordinals_work_with_named_fields(job, file_format, suffix):
    """The first bytes of a file show its format."""
    (job.master / "base.txt").write_bytes(container(file_format, ("a", 1, 100), ("b", 1, 100)))
    job.put(f"ups{suffix}", container(file_format, ("b", 2, 200), ("c", 2, 200), ("a", 0, 50)))
    report = job.run()

    assert records_in(job.output) == [("a", 1, 100), ("b", 2, 200), ("c", 2, 200)]
    assert [report.counts[f"feed {name}"] for name in ("updated", "inserted", "late")] == [1, 1, 1]
    assert known(job.output).spec["format"] == file_format


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_an_output_that_needs_names_of_fields(job, file_format):
    """The setting is at fault, and no file."""
    faults = "the files to write need names for their fields, and those of the run are delimited text, which has none"
    says = f"output.format={file_format}: {faults}; set field.names"
    job.refused(ConfigError, says, settings={**CONFIG, "output.format": file_format})


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("where", ["feed", "master"])
def test_one_file_of_another_format(job, file_format, where):
    job.put("ups.txt")
    job.put("two.txt", FEED, where)
    path = job.put("more.txt", container(file_format, ("b", 2, 200)), where)

    job.refused(
        DataError,
        path,
        f"the {where} has files of several formats (",
        f"1 {file_format}",
        "2 text",
        "; remove the files that do not belong, or merge them ",
    )


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
def test_a_feed_with_field_names_and_a_master_without(job, file_format):
    job.put("ups.txt", container(file_format, ("b", 2, 200)))

    job.refused(
        ConfigError,
        "text cannot store what other formats can; set field.names, because the fields of base.txt have no names, and "
        "set output.format to csv, escaped, avro, parquet or orc",
    )
    message = f"{job.master}/base.txt: delimited text has no names for its fields, and other files of the run have; set"
    job.refused(DataError, f"{message} field.names", settings={**CONFIG, "output.format": file_format})
    job.run({**CONFIG, "output.format": file_format, "field.names": "key,count,changed"})

    assert records_in(job.output) == [("a", 1, 100), ("b", 2, 200), ("c", 1, 100), ("d", 1, 100)]


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("where", ["feed", "master"])
@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_damaged_container(job, file_format, where, keep):
    content = container(file_format, *((f"k{number}", number * number, 200) for number in range(2000)))
    for role in ("feed", "master"):
        (job.root / role / "base.txt").write_bytes(content)
    path = job.root / where / "base.txt"
    path.write_bytes(content[: int(len(content) * keep)])

    job.refused(DataError, path, "the file is damaged: have it delivered again, or remove it")


@pytest.mark.parametrize("content", [b"Obj\x01\x04\x16avro.schema", b"ORC\n\x0b\0\0", b"PAR1\x15\x04\x15\x14PAR1"])
@pytest.mark.parametrize("where", ["feed", "master"])
def test_only_the_first_bytes_of_a_container(job, content, where):
    if where == "master":
        (job.master / "base.txt").unlink()
    path = job.put("more.txt", content, where)

    job.refused(DataError, path, "the file is damaged")


def test_rows_that_begin_like_a_container(job):
    job.put("ups.txt", b"BZh,1,200\nORC,1,200\nPAR1,1,200\n")
    job.put("ups-2.txt", b"ORC,2,300\n")
    job.put("ups-3.txt", b"PAR1,2,300\n")
    job.put("ups-4.txt", b"PK,2,300\n")
    job.run()

    assert {b"BZh,1,200", b"ORC,2,300", b"PAR1,2,300", b"PK,2,300"} < set(rows(job.output))


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-be"])
@pytest.mark.parametrize("where", ["feed", "master"])
def test_wide_encoding(job, encoding, where):
    mark = "\ufeff" if encoding.endswith("be") else ""
    path = job.put("ups.txt", (mark + "b,2,200\n").encode(encoding), where)

    name = encoding[:6].upper()
    job.refused(
        DataError, path, f"is {name} text; set encoding={name.lower()}, or master.encoding={name.lower()} for a master"
    )


def test_wide_encoding_in_a_compressed_file(job):
    path = job.put("ups.gz", packed("gz", "b,2,200\n".encode("utf-16")))

    job.refused(DataError, path, "is UTF-16 text")


@pytest.mark.parametrize("header", ["id,v,at\n", ""])
def test_wide_encoding_of_csv(job, header):
    (job.master / "base.txt").rename(job.master / "base.csv")
    (job.master / "base.csv").write_text(f"{header}a,1,100\n")
    path = job.put("ups.csv", f"{header}b,2,200\n".encode("utf-16"))
    settings = {"key": "id", "order_by": "at", "header": "true"} if header else {**CONFIG, "input.format": "csv"}

    job.refused(DataError, path, "is UTF-16 text; set encoding=utf-16, or", settings=settings)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("tail", [b"", b"c,2,200\n"])
def test_very_long_row(job, tail):
    job.put("ups.txt", b"b," + b"x" * (5 << 20) + b",200\n" + tail)
    job.run({**CONFIG, "split.bytes": "1m"})

    assert len(rows(job.output)[1]) == (5 << 20) + 6


def test_a_large_file_compressed_to_a_small_one_is_read_in_small_blocks():
    for compression in ("gzip", "bzip2", "zstd", "xz"):
        suffix = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst", "xz": "xz"}[compression]
        sizes = [len(block) for block in decompress([packed(suffix, b"\0" * 6_000_000)], compression)]

        assert sum(sizes) == 6_000_000
        assert max(sizes) <= 2 << 20, compression


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_longer_than_many_splits_is_in_memory_once(engine):
    read = []

    def blocks():
        for _ in range(100):
            read.append(1000)
            yield b"x" * 1000

    if engine == "records":
        assert list(lines.rows(blocks(), lines.LF, 1, 3000)) == []
    else:
        layout = RowLayout(delimiter=field_delimiter.parse(","), id_fields=(0,), order_type="sequence")
        content = SimpleNamespace(window=Window(lines.LF, 1, 3000), blocks=blocks)
        batches = TextBlockType().read(content, layout, trusted=False)
        assert sum(len(batch.block) + len(batch.rejects) for batch in batches) == 0
    assert sum(read) <= 4000  # not to the end of the row


# --- arrival: files that change while they are read


@pytest.mark.thorough(keep=8)
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
        return merge.run(change_and_merge, settings, **places)

    job.refused(
        DataError,
        path,
        "changed while it was being read",
        after,
        "finish writing files before the run",
        settings={**CONFIG, "split.bytes": split},
        mutate=mutate,
    )


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("suffix", ["txt", "gz", "zst"])
@pytest.mark.parametrize("change", ["grows", "shrinks"])
def test_file_that_changes_behind_the_reader(job, suffix, change, monkeypatch):
    """The first blocks come from the planned file; the later ones do not."""
    content = b"".join(b"k%d,%d,200\n" % (n, n * n) for n in range(200))
    whole = content if suffix == "txt" else packed(suffix, content)
    path = job.put(f"ups.{suffix}", whole)
    one_by_one, opened = stream.blocks, path.open("rb")

    def blocks(stream, most=None):
        for number, block in enumerate(one_by_one(stream, most)):
            if number == 1 and os.path.sameopenfile(stream.fileno(), opened.fileno()):
                path.write_bytes(whole + b"z" if change == "grows" else whole[:200])
            yield block

    def change_and_merge(plan, staging):
        with monkeypatch.context() as patched:
            patched.setattr(stream, "BLOCK", 64)
            patched.setattr("mutator.dataset.file_content.blocks", blocks)
            try:
                return local_engine.merge(plan, staging)
            finally:
                path.write_bytes(whole)
                opened.close()

    why = "changed while it was being read" if suffix == "txt" else "the file is damaged"
    job.refused(DataError, path, why, mutate=lambda settings, **more: merge.run(change_and_merge, settings, **more))


@pytest.mark.parametrize("what", ["nothing", "link", "directory"])
def test_file_that_becomes_something_else_before_it_is_read(job, what):
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
        mutate=lambda settings, **places: merge.run(change_and_merge, settings, **places),
    )


# --- arrival: names and types of entries


def test_hidden_names_are_ignored_and_reported(job):
    job.put("ups.txt")
    for name in ("_SUCCESS", ".ups.txt.swp", "_late.txt", "ups_$folder$"):
        job.put(name, b"garbage")
    job.put("_SUCCESS", b"", "master")
    report = job.run()

    ignored = [
        *(job.feed / name for name in (".ups.txt.swp", "_SUCCESS", "_late.txt", "ups_$folder$")),
        job.master / "_SUCCESS",
    ]
    assert sorted(report.ignored) == sorted(map(str, ignored))
    assert report.counts["feed rows"] == 1
    assert f"ignored, hidden or unfinished: {job.feed / '_late.txt'}" in report.text()


def test_hidden_name_given_by_the_user(job):
    path = job.put("_ups.txt")

    job.refused(
        ConfigError,
        path,
        "hidden name (_x, .x or x_$folder$), and is never read; rename the file if it is",
        feed=[str(path)],
    )


UNFINISHED = ["ups.txt.tmp", "ups.txt._COPYING_", "ups.filepart", "ups.Part", "part-0.inprogress.7f", "ups.crdownload"]


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("name", UNFINISHED)
def test_an_unfinished_file_is_left_out_but_not_of_a_master(job, name):
    job.put("ups.txt")
    path = job.put(name, b"garbage")
    job.refused(ConfigError, path, "if it is a whole feed file", feed=[str(path)])
    path.rename(job.master / name)
    job.refused(ConfigError, job.master / name, "if it is a whole master file")
    (job.master / name).rename(path)
    report = job.run()
    assert (report.ignored, report.counts["feed rows"]) == ((str(path),), 1)


@pytest.mark.thorough(keep=7)
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


@pytest.mark.thorough(keep=8)
@pytest.mark.parametrize("name", ["ups\n.txt", "ups\x1b[2J.txt", "ups\t1.txt", "\x7f"])
@pytest.mark.parametrize("where", ["feed", "master"])
def test_control_characters_in_names(job, name, where):
    job.put(name, where=where)
    message = job.refused(ConfigError, job.root / where, "its name contains a control character", "rename the file")

    assert "\x1b" not in message


@pytest.mark.thorough(keep=8)
@pytest.mark.parametrize("where", ["feed", "master"])
@pytest.mark.parametrize("entry_type", ["symbolic link", "FIFO", "directory", "socket"])
def test_only_regular_files(job, where, entry_type):
    job.put("ups.txt")
    path = job.root / where / "odd"
    with socket.socket(socket.AF_UNIX) as listener:
        if entry_type == "symbolic link":
            path.symlink_to(job.put("elsewhere.txt", where="."))
        elif entry_type == "FIFO":
            os.mkfifo(path)
        elif entry_type == "directory":
            path.mkdir()
        else:
            old = os.getcwd()
            os.chdir(path.parent)  # a socket's path must be short
            listener.bind("odd")
            os.chdir(old)
        nested = "name it as a --feed of its own" if where == "feed" else "a master's files lie in its directory, or"
        cure = nested if entry_type == "directory" else "copy the data into a plain file"
        if entry_type == "symbolic link" and where == "feed":
            job.refused(
                ConfigError, path, f"elsewhere.txt, which is not below a directory that --feed names; name {job.root}"
            )
            return
        job.refused(ConfigError, path, f"is a {entry_type}, but only regular files are read; {cure}")


@pytest.mark.parametrize(
    ("target", "feed", "names"),
    [
        ("feed/_blobs/7f3a", "feed", ["link_5.txt"]),  # hidden, so it has no row of its own
        ("feed/ups_1.txt", "feed", ["ups_1.txt"]),
        ("feed/ups_1.txt", "feed/l*.txt", ["link_5.txt"]),
        ("feed/ups_1.txt", "feed/link_5.txt", ["link_5.txt"]),
        ("more/ups_1.txt", "feed more", ["ups_1.txt"]),
        ("more/ups_1.txt", "feed more/ups_1.txt", ["ups_1.txt"]),
        ("feed/_blobs/7f3a", "f*", ["link_5.txt"]),
        ("more/_blobs/7f3a", "f*/l* mor[e]", ["link_5.txt"]),
    ],
)
def test_a_link_is_followed_below_the_directories_of_the_feed(job, target, feed, names):
    path = job.root / target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(FEED)
    (job.feed / "link_5.txt").symlink_to(path)
    (job.feed / "link_6.txt").symlink_to("link_5.txt")  # the same file once more

    report = job.run(feed=[str(job.root / one) for one in feed.split()])

    assert [part.name for part in known(job.output).feed] == names
    assert report.counts["feed rows"] == 1


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nothing", "is a symbolic link to a file that does not exist, or to itself; remove it"),
        ("odd", "is a symbolic link to a file that does not exist, or to itself; remove it"),
        ("../master", "is a symbolic link to a directory; name the target as a --feed of its own"),
        ("/dev/null", "is a symbolic link to a device; copy the data into a plain file"),
        ("../out.txt", "out.txt, which is not below a directory that --feed names; name "),
        ("../feed-2/out.txt", "out.txt, which is not below a directory that --feed names; name "),
    ],
)
def test_a_link_that_is_not_followed(job, target, message):
    (job.root / "feed-2").mkdir()
    for path in ("out.txt", "feed-2/out.txt"):
        (job.root / path).write_bytes(FEED)
    (job.feed / "odd").symlink_to(target)

    # A pattern names nothing above its matches.
    for feed in ("feed", "feed/o*", "*d/o*") if target.endswith(".txt") else ("feed",):
        job.refused(ConfigError, f"{job.feed / 'odd'}: ", message, feed=[str(job.root / feed)])


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


def test_two_files_with_the_same_name_both_count(job):
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
        "order comes from file names, but this name has no sequence",
        "rename the file, or set temporal.ordering.field.ordinal",
        settings=BY_NAME,
    )


def test_sequence_in_the_extension_of_a_name(job):
    (job.master / "base.txt").unlink()
    (job.master / "base.prod_50").write_bytes(b"k1,old\n")
    job.add("ups_7.txt", b"k1,older\n")

    assert job.run({"id.field.ordinals": "0"}).counts["feed late"] == 1


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
    assert "ups_1.txt was merged before with other content; it is merged as a new file" in report.notes


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


def test_consumed_files_are_forgotten_after_their_retention(job):
    job.put("ups_1.txt")
    job.follow()
    time.sleep(0.01)
    job.follow({**CONFIG, "consumed.retention": "0s"})

    assert known(job.master).feed == ()


def test_feed_files_that_are_merged_again_are_listed_once(job):
    job.add("ups.txt")
    job.follow()
    job.add("ups.txt")
    job.run({**CONFIG, "consumed.files": "merge"})

    known = manifest.parse((job.output / manifest.PATH).read_bytes(), "manifest")
    assert [part.name for part in known.feed] == ["ups.txt"]


JUNK = random.Random(5).randbytes(9000)


@pytest.mark.thorough(keep=10)
@pytest.mark.parametrize("name", ["ups_1.csv", "ups_1.txt", "ups_1.bin", "ups_1", "ups_1.csv.gz"])
@pytest.mark.parametrize("where", ["feed", "master"])
@pytest.mark.parametrize("settings", [CONFIG, {"key": "id", "order_by": "at"}], ids=["ordinals", "names"])
def test_binary_files(job, name, where, settings):
    named = "key" in settings
    if named:
        (job.master / "base.txt").unlink()
        job.put("base.csv", b"id,at\na,1\n", "master")
        job.put("ups_2.csv", b"id,at\na,2\n")
    path = job.put(name, packed("gz", JUNK) if name.endswith("gz") else JUNK, where)

    message = job.refused(DataError, f"{path}: is neither text nor Avro", "have it delivered again", settings=settings)
    assert "\n" not in message


def test_random_bytes_named_like_a_compressed_file(job):
    path = job.put("ups.csv.gz", JUNK)
    content = (
        "the content is neither gzip nor text; give the file the suffix of its content, or have it delivered again"
    )

    job.refused(DataError, f"{path}: the name says gzip, but {content}")


def test_control_characters_in_text(job):
    """They may be delimiters, or values of fields of a format that the user has set."""
    rows = b"".join(b"k%d\x0ev\x0e%d\n" % (number, number) for number in range(100))
    job.put("base.txt", rows, "master")
    job.put("ups.txt", rows)
    job.run({**CONFIG, "field.delim.regex": "\\u000e"})
    job.output = job.root / "other"
    values = b"".join(b"k%d,\x0e\x0f\x10\x11\xff,%d\n" % (number, number) for number in range(100))
    job.put("base.txt", values, "master")
    job.put("ups.txt", values)
    job.refused(
        DataError, "base.txt: is neither text nor Avro", "if these are the values of its fields, set input.format"
    )
    job.run({**CONFIG, "input.format": "text"})
