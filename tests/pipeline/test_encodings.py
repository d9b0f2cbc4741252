"""Files in other encodings than UTF-8 merge as the same text in UTF-8 does."""

import codecs
import gzip
import json
import re

import pytest

from mutator.cli import main
from mutator.errors import DataError
from tests.support.job import CONFIG, Job, known, rows

TEXT = "b\t2\t200\r\nc\té€\t150\r\n"  # as Excel writes "Unicode text"
CSV = 'id,name,at\r\nb,"zwei, ""größer""\r\nals eins",200\r\nc,Ångström €,150\r\n'
MASTER = {"text": "a\t1\t100\r\nb\tä\t100\r\n", "csv": "id,name,at\r\na,eins,100\r\nb,früher,100\r\n"}
SETTINGS = {
    "text": {**CONFIG, "field.delim.regex": "\\t"},
    "csv": {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at"},
}
SETTINGS["typed"] = {**SETTINGS["csv"], "output.format": "parquet"}
UTF16_BE = "utf-16-be with a mark"


def encoded(text, encoding):
    return codecs.BOM_UTF16_BE + text.encode("utf-16-be") if encoding == UTF16_BE else text.encode(encoding)


def put(job, form, encoding, *, packed=False, feed=None):
    """Write the same master and feed in an encoding."""
    suffix = ".txt" if form == "text" else ".csv"
    (job.master / "base.txt").unlink(missing_ok=True)
    job.put(f"base{suffix}", encoded(MASTER["text" if form == "text" else "csv"], encoding), "master")
    content = encoded(feed or (TEXT if form == "text" else CSV), encoding)
    job.put(f"ups{suffix}" + ".gz" * packed, gzip.compress(content) if packed else content)


def contents(job):
    if not list(job.output.glob("*.parquet")):
        return rows(job.output)
    import pyarrow.parquet as pq

    return sorted(str(row) for path in job.output.glob("*.parquet") for row in pq.read_table(path).to_pylist())


@pytest.mark.thorough(keep=8)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("encoding", ["utf-16", UTF16_BE, "cp1252", "utf-16-le", "gb18030", "cp1140"])
@pytest.mark.parametrize("form", SETTINGS)
def test_the_result_is_that_of_utf8(job, tmp_path, form, encoding, packed):
    (tmp_path / "other").mkdir()
    other = Job(tmp_path / "other", job.engine)
    put(other, form, "utf-8")
    other.run(SETTINGS[form])
    put(job, form, encoding, packed=packed)
    settings = {**SETTINGS[form], "encoding": encoding.partition(" ")[0].removesuffix("-be")}

    report = job.run(settings)

    assert contents(job) == contents(other)
    assert report.counts == other.run(SETTINGS[form], output=f"{other.output}-2").counts
    (part,) = known(job.output).feed
    assert part.bytes == next(job.feed.iterdir()).stat().st_size  # its own bytes: a second delivery is recognized
    assert job.run(settings, master=str(job.output), output=f"{job.output}-2").counts["feed rows"] == 0


def test_a_master_with_an_encoding_of_its_own(job):
    put(job, "csv", "cp1252")
    job.put("ups.csv", CSV.encode("utf-16"))

    job.run({**SETTINGS["csv"], "encoding": "utf-16", "master.encoding": "cp1252"})
    assert "c,Ångström €,150".encode() in rows(job.output)
    # What a run wrote is UTF-8, also where its manifest is set aside.
    job.run(
        {**SETTINGS["csv"], "encoding": "utf-16", "master.adopt": "true"},
        master=str(job.output),
        output=f"{job.output}-2",
    )
    assert rows(job.root / "output-2") == rows(job.output)


def test_a_master_of_raw_bytes_is_converted_once(job):
    put(job, "text", "cp1252")
    settings = SETTINGS["text"]
    job.run(settings)
    assert "c\té€\t150".encode("cp1252") in rows(job.output)

    job.feed.joinpath("ups.txt").write_bytes(b"a\tneu\t300\n")
    adopt = {**settings, "master.adopt": "true", "master.encoding": "cp1252"}
    job.run(adopt, master=str(job.output), output=f"{job.output}-2")
    assert "c\té€\t150".encode() in rows(job.root / "output-2")


BOM, AFTER, AFTER_CSV = 3, len(TEXT.encode()), len(CSV.encode())  # offsets are of the text in UTF-8
BAD = [
    ("text", "cp1252", TEXT.encode("cp1252") + b"d\t\x8f!\t160\r\n", 3, AFTER, b"d\t\x8f!\t160", "(0x8f)"),
    ("csv", "cp1252", CSV.encode("cp1252") + b"d,\x8f!,160\r\n", 4, AFTER_CSV, b"d,\x8f!,160", "(0x8f)"),
    # half a pair of surrogates; then half a character, at the end
    ("text", "utf-16", (TEXT + "d\t").encode("utf-16") + b"\0\xd8\n\0", 3, BOM + AFTER, b"d\0\t\0\0\xd8", "(0x00d8)"),
    ("text", "utf-16", (TEXT + "d\t5").encode("utf-16") + b"7", 3, BOM + AFTER, b"d\0\t\x005\x007", "(0x37)"),
    ("text", "ascii", b"b\t2\t200\nd\t\xe9\t160\n", 2, 8, b"d\t\xe9\t160", "(0xe9)"),
]


@pytest.mark.parametrize(("form", "encoding", "content", "line", "offset", "row", "shown"), BAD)
def test_bytes_that_are_no_characters_reject_their_row(job, form, encoding, content, line, offset, row, shown):
    if form == "csv":
        (job.master / "base.txt").unlink()
        job.put("base.csv", MASTER["csv"].encode("cp1252"), "master")
    else:
        job.put("base.txt", b"a\t1\t100\n", "master")
    path = job.put("ups.txt" if form == "text" else "ups.csv", content)
    settings = {**SETTINGS[form], "encoding": encoding, "master.encoding": "cp1252"}
    name = "utf-16-le" if encoding == "utf-16" else encoding
    reason = f"has bytes that are not {name} {shown}"

    number = f"line {line}" if form == "text" else f"row {line}"
    job.refused(
        DataError,
        f"{path}: {number}, byte {offset}: {reason}",
        f"If {path.name} has another encoding than {name}, set encoding to it",
        settings=settings,
    )
    report = job.run({**settings, "reject.policy": "quarantine", "max.reject.fraction": "1"})
    (sample,) = report.rejects["feed"]
    assert (sample["line"], sample["offset"], sample["reason"]) == (line, offset, reason)
    (kept,) = (job.output / "_mutator" / "rejected").iterdir()
    assert kept.read_bytes().endswith(b"\t" + row + b"\n")
    assert report.counts["feed rejected"] == 1


@pytest.mark.parametrize(
    ("encoding", "content", "message"),
    [
        ("utf-8", "b\t2\t200\n".encode("utf-16"), "is UTF-16 text; set encoding=utf-16, or master.encoding=utf-16 for"),
        ("latin-1", "b\t2\t200\n".encode("utf-16"), "is UTF-16 text; set encoding=utf-16, or"),
        ("utf-16", b"b\t2\t200\n", "is not UTF-16 text; set encoding=utf-8, or"),
        ("cp1252", "b\té\t200\n".encode(), "is UTF-8 text, not cp1252; set encoding=utf-8, or"),
    ],
)
def test_first_bytes_of_another_encoding(job, encoding, content, message):
    job.put("base.txt", b"a\t1\t100\n", "master")
    path = job.put("ups.txt", content)

    job.refused(
        DataError,
        f"{path}: {message}",
        settings={**SETTINGS["text"], "encoding": encoding, "master.encoding": "utf-8"},
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,größe,at\nb,2,200\n", "ups.csv: is not UTF-8 text: its header has other bytes; set encoding=cp1252, or"),
        (
            "id,name,at\nb,größer,200\n",
            "is not UTF-8.*If ups.csv is of a Windows program, use -D 'encoding=cp1252'",
        ),
    ],
)
def test_bytes_that_are_not_utf8_name_the_setting(job, content, message):
    (job.master / "base.txt").unlink()
    job.put("base.csv", MASTER["csv"].encode(), "master")
    job.put("ups.csv", content.encode("cp1252"))

    said = job.refused(DataError, settings=SETTINGS["typed"])
    assert re.search(message, said, re.DOTALL)


def test_every_command_that_takes_a_feed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for path, text in (("feed/ups_1.csv", CSV), ("base/incr/ups_1.csv", CSV), ("master/base.csv", MASTER["csv"])):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(encoded(text, UTF16_BE))

    def said(words, *more):
        assert main([*words.split(), *more]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    settings = ["--key", "id", "--order-by", "at", "-D", "encoding=utf-16"]
    row = "Ångström €"
    said("table create table --from master", *settings)
    said("table apply table --feed feed -D encoding=utf-16")
    assert row in said("table scan table")
    offset = BOM + len(CSV.partition("c,")[0].encode())
    assert f"line 4, byte {offset}" in said("explain table c --feed feed")
    said("workflow run base -D claim.min.age=0s -D allow.empty.master=true", *settings)
    assert row in said("explain base c")
    assert row in said("diff master --feed feed -v", *settings)
    said("partition --feed feed --by at --to parts", *settings)
    part = (tmp_path / "parts" / "at=150" / "ups_1.csv").read_bytes()
    assert part.decode("utf-16") == f"id,name,at\nc,{row},150\n"
    report = json.loads(said("run --master master --feed parts --output new --json", *settings))
    assert report["counts"]["feed rows"] == 2
