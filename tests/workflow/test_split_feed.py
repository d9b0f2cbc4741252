"""A split feed: each row once, unchanged, in a file of the same name below its partition's directory."""

import bz2
import gzip
import io
import json
import lzma
import os
import posixpath
from dataclasses import replace

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from mutator import cli, config
from mutator.dataset import split_record
from mutator.dataset.checksum import whole
from mutator.dataset.split_record import PATH
from mutator.engine.each import in_turn
from mutator.errors import ConfigError, DataError, MutatorError, StateError, StorageError, failpoints
from mutator.formats.files.lines import rows as text_rows
from mutator.rules.partition_fields import parse_fields
from mutator.rules.partition_transforms import directory_of_row
from mutator.storage import storage_for
from mutator.storage.compression import zstd
from mutator.workflow.partitions import split
from mutator.workflow.partitions.runs import run_partitions
from mutator.workflow.partitions.split.files import feed_files
from mutator.workflow.partitions.split.write import split_file
from tests.support.effort import law
from tests.support.failpoints import FAILPOINTS
from tests.support.job import snapshot
from tests.support.no_limits import NO_LIMITS

CONFIG = {"id.field.ordinals": "0"}
QUARANTINE = {**CONFIG, **NO_LIMITS, "reject.policy": "quarantine"}
BY_NAME = {**CONFIG, "deleted.record.file.prefix": "del"}
UNPACK = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress, ".zst": zstd.decompress}


class Feed:
    """A feed, and the directory that it is split into."""

    def __init__(self, root):
        self.root, self.feed, self.to = root, root / "feed", root / "split"
        self.feed.mkdir()

    def put(self, name, content):
        path = self.feed / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def split(self, by, settings=CONFIG, feed=None, to=None, each=in_turn):
        paths = [str(self.feed)] if feed is None else feed
        done = split.split_feed(config.parse(settings), parse_fields(by), paths, str(to or self.to), each)
        self.check(done.record)
        return done

    def check(self, record):
        """Compare the files with the record, byte for byte."""
        there = {str(path.relative_to(self.to)): path for path in self.to.rglob("*") if path.is_file()}
        assert set(there) == {part.path for part in record.parts()} | {PATH, "_SUCCESS"}
        for part in record.parts():
            assert (part.bytes, part.checksum) == (
                there[part.path].stat().st_size,
                whole(there[part.path].read_bytes()),
            )
        for file in record.files:
            assert file.rows == sum(part.rows for part in file.parts) + file.rejected
            assert {posixpath.basename(part.path) for part in file.parts} <= {file.name}
        assert split_record.parse((self.to / PATH).read_bytes(), "record") == record

    def parts(self, name):
        """Return the part of a file in each partition."""
        return {str(path.parent.relative_to(self.to)): path.read_bytes() for path in sorted(self.to.rglob(name))}

    def refused(self, family, *parts, **how):
        before = snapshot(self.root)
        with pytest.raises(MutatorError) as caught:
            self.split(**how)
        assert isinstance(caught.value, family)
        assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)
        assert snapshot(self.root) == before
        return str(caught.value)


@pytest.fixture
def feed(tmp_path):
    return Feed(tmp_path)


def test_rows_keep_their_file_name_and_order(feed):
    feed.put("ups_2.txt", b"a,1,x\nb,2,y\na,3,z\n")
    feed.put("del_3.txt", b"b,2,y\n")
    done = feed.split("0")

    assert feed.parts("ups_2.txt") == {"field_0=a": b"a,1,x\na,3,z\n", "field_0=b": b"b,2,y\n"}
    assert feed.parts("del_3.txt") == {"field_0=b": b"b,2,y\n"}
    assert done.record.rows_by_partition() == {"field_0=a": 2, "field_0=b": 2}


def test_line_ends_byte_order_marks_blank_lines_and_invalid_utf8(feed):
    feed.put("ups_2.txt", b"\xef\xbb\xbfa,\xff\x00\r\n\r\nb,2\n\na,3\r,\rx\r\nb,4\r")
    feed.put("ups_3.txt", b"a,1\rb,2\r\ra,3")
    done = feed.split("k=0", {**CONFIG, "field.count": "any"})

    assert feed.parts("ups_2.txt") == {"k=a": b"a,\xff\x00\na,3\r,\rx\n", "k=b": b"b,2\nb,4\r\n"}
    assert feed.parts("ups_3.txt") == {"k=a": b"a,1\na,3\n", "k=b": b"b,2\n"}
    assert [file.ignored for file in done.record.files] == [2, 1]


@pytest.mark.parametrize("delimiter", ["|", "::", r"\s+"])
def test_any_delimiter(feed, delimiter):
    joint = {"|": b"|", "::": b"::", r"\s+": b" "}[delimiter]
    feed.put("ups_2.txt", joint.join([b"a", b"1"]) + b"\n" + joint.join([b"b", b"2"]) + b"\n")
    feed.split("1,k=0", {**CONFIG, "field.delim.regex": delimiter})

    assert sorted(feed.parts("ups_2.txt")) == ["field_1=1/k=a", "field_1=2/k=b"]


@pytest.mark.parametrize("delimiter", [",", "::"])
def test_each_file_has_the_header(feed, delimiter):
    joint = delimiter.encode()
    rows = [b"key%svalue" % joint, b"--", b"a%s1" % joint, b"b%s2" % joint]
    feed.put("ups_2.txt", b"\xef\xbb\xbf" + b"\r\n".join(rows))
    done = feed.split("0", {**CONFIG, "header.lines": "2", "field.delim.regex": delimiter})

    head = b"key%svalue\n--\n" % joint
    assert feed.parts("ups_2.txt") == {"field_0=a": head + b"a%s1\n" % joint, "field_0=b": head + b"b%s2\n" % joint}
    assert done.record.files[0].ignored == 2


@pytest.mark.parametrize("suffix", UNPACK)
def test_files_keep_their_compression(feed, suffix):
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd.compress}[suffix]
    feed.put(f"ups_2.txt{suffix}", pack(b"h\na,1\nb,2\n"))
    feed.split("0", {**CONFIG, "header.lines": "1", "field.count": "2"})

    found = {name: UNPACK[suffix](content) for name, content in feed.parts(f"ups_2.txt{suffix}").items()}
    assert found == {"field_0=a": b"h\na,1\n", "field_0=b": b"h\nb,2\n"}


def test_csv_keeps_quotes_and_header(feed):
    feed.put("ups_2.csv", b'\r\nid,"the ""k"""\r\n1,"a\r\nb"\r\n2,x\n"3","a\r\nb"\n4,\n')
    feed.split('the "k"', {"id.field.ordinals": "id"})

    head = b'id,"the ""k"""\n'
    assert feed.parts("ups_2.csv") == {
        'the %22k%22=a%0D%0Ab': head + b'1,"a\r\nb"\n"3","a\r\nb"\n',
        "the %22k%22=x": head + b"2,x\n",
        "the %22k%22=__HIVE_DEFAULT_PARTITION__": head + b"4,\n",
    }  # fmt: skip


def test_escaped_values_are_decoded(feed):
    feed.put("ups_2.txt", b"1,a\\x2cb\n2,\\N\n3,a\\x2cb\n")
    feed.split("k=1", {**CONFIG, "input.format": "escaped"})

    assert feed.parts("ups_2.txt") == {
        "k=a,b": b"1,a\\x2cb\n3,a\\x2cb\n",
        "k=__HIVE_DEFAULT_PARTITION__": b"2,\\N\n",
    }


AVRO = {
    "type": "record",
    "name": "Sale",
    "namespace": "shop",
    "doc": "one sale",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "day", "type": [{"type": "int", "logicalType": "date"}, "null"]},
        {"name": "any", "type": ["null", "long", "string", {"type": "array", "items": "string"}], "default": None},
    ],
}


def avro_file(rows, codec="null"):
    made = io.BytesIO()
    fastavro.writer(made, AVRO, rows, codec=codec, metadata={"by": "the shop"}, sync_interval=40)
    return made.getvalue()


def avro_rows(content):
    """Return the head of an Avro file, and its records as they are encoded."""
    reader = fastavro.block_reader(io.BytesIO(content))
    raw = b"".join(block.bytes_.getvalue() for block in reader)
    return reader.codec, reader.writer_schema, reader.metadata["by"], raw


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_avro_records_stay_encoded(feed, codec):
    rows = [
        {"id": n, "day": 20_000 + n % 3 if n % 5 else None, "any": [None, n, f"{n}", ["x"]][n % 4]} for n in range(40)
    ]
    feed.put("ups_2.avro", avro_file(rows, codec))
    feed.split("day")

    found = feed.parts("ups_2.avro")
    assert set(found) == {
        f"day={one}" for one in ("2024-10-04", "2024-10-05", "2024-10-06", "__HIVE_DEFAULT_PARTITION__")
    }
    for name, content in found.items():
        day = {"4": 0, "5": 1, "6": 2, "_": None}[name[-1]]
        own = [row for row in rows if row["day"] == (None if day is None else 20_000 + day)]
        before = avro_rows(avro_file(own, codec))
        assert avro_rows(content) == before
        assert list(fastavro.reader(io.BytesIO(content))) == list(fastavro.reader(io.BytesIO(avro_file(own))))


TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "at": pa.array([0, 86_400_000_000, None, 5], pa.timestamp("us", "UTC")),
        "more": pa.array([["a"], None, [], ["b", None]], pa.list_(pa.string())),
    }
)


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
def test_parquet_keeps_schema_and_codec(feed, codec):
    table = TABLE.replace_schema_metadata({"by": "the shop"})
    pq.write_table(table, feed.feed / "ups_2.parquet", compression=codec, row_group_size=3)
    schema = pq.ParquetFile(feed.feed / "ups_2.parquet").schema_arrow
    feed.split("date(at)")

    found = {name: pq.ParquetFile(io.BytesIO(content)) for name, content in feed.parts("ups_2.parquet").items()}
    assert {name: file.read().column("id").to_pylist() for name, file in found.items()} == {
        "at_date=1970-01-01": [1, 4],
        "at_date=1970-01-02": [2],
        "at_date=__HIVE_DEFAULT_PARTITION__": [3],
    }
    for file in found.values():
        assert file.schema_arrow.equals(schema, check_metadata=True)
        stored = file.metadata.row_group(0).column(0).compression.lower()
        assert stored == {"none": "uncompressed"}.get(codec, codec)
    rows = [row for file in found.values() for row in file.read().to_pylist()]
    assert sorted(rows, key=lambda row: row["id"]) == table.to_pylist()


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "zstd"])
def test_orc_keeps_schema_and_codec(feed, codec):
    orc.write_table(TABLE, feed.feed / "ups_2.orc", compression=codec)
    before = orc.ORCFile(feed.feed / "ups_2.orc")
    feed.split("id,year(at)")

    found = [orc.ORCFile(io.BytesIO(content)) for content in feed.parts("ups_2.orc").values()]
    assert len(found) == 4
    assert {(str(file.schema), file.compression) for file in found} == {(str(before.schema), before.compression)}
    assert sorted(row["id"] for file in found for row in file.read().to_pylist()) == [1, 2, 3, 4]


def test_packed_parquet(feed):
    made = io.BytesIO()
    pq.write_table(TABLE, made)
    feed.put("ups_2.parquet.gz", gzip.compress(made.getvalue()))
    feed.split("id")

    found = feed.parts("ups_2.parquet.gz")
    assert [pq.read_table(io.BytesIO(gzip.decompress(one))).num_rows for one in found.values()] == [1, 1, 1, 1]


def test_rows_without_a_partition_fail_the_split(feed):
    feed.put("ups_2.txt", b"a,2026-01-31\nb\nc,31.1.\n")
    message = feed.refused(DataError, "2 feed rows cannot be read as records", "reject.policy=quarantine", by="date(1)")

    assert f"{feed.feed}/ups_2.txt: line 2, byte 13: has 1 field and should have 2: b" in message
    assert "line 3, byte 15: field 1 (partition) is not an ISO 8601 timestamp: '31.1.': c,31.1." in message


def test_rows_without_a_partition_are_set_aside(feed):
    feed.put("ups_2.txt", b"a,2026-01-31\nb\nc,31.1.\n\xff," + b"9" * 300 + b"\n")
    feed.put("ups_3.txt", b"a,1\n")
    done = feed.split("1,date(1)", QUARANTINE)

    (side,) = done.record.beside
    assert [file.rejected for file in done.record.files] == [3, 1]
    assert (feed.to / side.path).read_bytes().splitlines() == [
        f"{feed.feed}/ups_2.txt\t13\t2\thas 1 field and should have 2\tb".encode(),
        f"{feed.feed}/ups_2.txt\t15\t3\tfield 1 (partition) is not an ISO 8601 timestamp: '31.1.'\tc,31.1.".encode(),
        f"{feed.feed}/ups_2.txt\t23\t4\tfield 1 (partition) is longer than a directory's name can be (255 bytes): "
        f"'{'9' * 40}…'\t".encode() + b"\xff," + b"9" * 300,
        f"{feed.feed}/ups_3.txt\t0\t1\tfield 1 (partition) is not an ISO 8601 timestamp: '1'\ta,1".encode(),
    ]  # fmt: skip
    assert done.rejects[1].position == "line 3, byte 15"


def test_values_of_rejected_rows_are_kept_out(feed):
    feed.put("ups_2.txt", b"a,2026-01-31\nc,31.1.\n")
    hidden = {**CONFIG, "report.fields": "none"}
    message = feed.refused(DataError, "1 feed row cannot be read as a record", by="date(1)", settings=hidden)
    (reject,) = feed.split("date(1)", {**QUARANTINE, **hidden}).rejects

    assert "31.1." not in message + reject.reason
    assert reject.row == "…".encode()


@pytest.mark.parametrize(
    ("by", "shown", "expected"),
    [
        ("1,day=date(2)", "none", ["field_1=…/day=…"]),
        ("1,day=date(2)", "2", ["field_1=…/day=2026-01-31"]),
        ("1,day=date(2)", "-2", ["field_1=Bray/day=…", "field_1=Cork/day=…"]),
        ("shop,day=date(2)", "-1", ["shop=…/day=2026-01-31"]),
        ("shop,day=date(2)", "-2", ["shop=Bray/day=…", "shop=Cork/day=…"]),
    ],
)
def test_values_in_the_names_of_partitions_are_kept_out(feed, by, shown, expected):
    feed.put("ups_2.txt", b"a,Cork,2026-01-31\nb,Bray,2026-01-31\nc,Bray,\n")
    names = {"field.names": "id,shop,ts"} if "shop" in by else {}
    done = feed.split(by, {**BY_NAME, **names, "report.fields": shown})
    values = ("Cork", "Bray", "2026-01-31")
    hidden = [value for value in values if not any(value in one for one in expected)]

    assert all(any(one in name for name in done.partitions) for one in expected)
    assert [value for value in hidden if value in f"{done.partitions} {done.warnings}"] == []
    assert sum(done.partitions.values()) == 3


@pytest.mark.parametrize(
    ("name", "rows", "settings", "by"),
    [
        ("ups_2.txt", "a;1;x\nb;2;y\n", CONFIG, "0"),
        ("ups_2.csv", "id;shop\na;1\nb;2\n", {"id.field.ordinals": "id"}, "shop"),
        ("ups_2.csv", "id;shop\na;1\nb;2\n", CONFIG, "shop"),
    ],
)
def test_another_delimiter_stops_a_split(feed, name, rows, settings, by):
    feed.put(name, rows.encode())

    feed.refused(ConfigError, f"{name}: field.delim.regex is ','", "'field.delim.regex=;'", by=by, settings=settings)
    assert len(feed.split(by, {**settings, "field.delim.regex": ";"}).partitions) == 2


def test_fields_that_reports_hide_are_fields_of_the_feed(feed):
    feed.put("ups_2.csv", b"id,shop\na,Cork\n")
    settings = {"id.field.ordinals": "id", "report.fields": "-shpo"}
    feed.refused(
        ConfigError, "report.fields: there is no field 'shpo'", "did you mean shop", by="shop", settings=settings
    )


def test_no_more_rows_are_set_aside_than_allowed(feed):
    feed.put("ups_2.txt", b"a,b\n" + b"a\n" * 30)

    feed.refused(DataError, "30 feed rows", "reject.limit is 20", by="0", settings={**QUARANTINE, "reject.limit": "20"})
    stricter = {**QUARANTINE, "max.reject.fraction": "0.9"}
    feed.refused(DataError, "30 feed rows of 31 cannot", "max.reject.fraction is 0.9", by="0", settings=stricter)
    assert feed.split("0", {**QUARANTINE, "reject.limit": "30"}).record.beside[0].rows == 30


def test_a_split_without_a_single_row_fails(feed):
    """As where --partitioned-by has the wrong ordinal: an empty output would look like a success."""
    feed.put("ups_2.txt", b"a,b\nb,c\n")

    message = feed.refused(
        DataError, "no row of the feed (2) belongs to a partition", by="date(1)", settings=QUARANTINE
    )
    assert "line 1, byte 0: field 1 (partition) is not an ISO 8601 timestamp: 'b': a,b" in message


@pytest.mark.parametrize(
    ("name", "settings"), [("del_2.txt", BY_NAME), ("ups_2.txt", {**CONFIG, "op.code.field.ordinal": "2"})]
)
def test_deletes_without_a_value_of_the_partition_field_are_noted(feed, name, settings):
    feed.put(name, b"a,x,D\nb,,D\nc,,D\n")

    (warning,) = feed.split("k=1", settings).warnings
    assert warning.startswith("2 rows without the value of a partition field, in k=__HIVE_DEFAULT_PARTITION__: a ")


def test_rows_without_a_value_of_the_partition_field_are_not_noted_in_a_feed_without_deletes(feed):
    feed.put("ups_2.txt", b"a,x,D\nb,,D\n")

    assert feed.split("k=1").warnings == ()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rejects_for_all_reasons_are_shown(feed, file_format):
    table = pa.table({"id": [1, 2], "at": ["2026-01-31", "soon"]})
    if file_format == "avro":
        schema = {
            "type": "record",
            "name": "r",
            "fields": [{"name": n, "type": t} for n, t in (("id", "long"), ("at", "string"))],
        }
        with open(feed.feed / "ups_1.avro", "wb") as stream:
            fastavro.writer(stream, schema, table.to_pylist())
    else:
        {"parquet": pq, "orc": orc}[file_format].write_table(table, feed.feed / f"ups_1.{file_format}")
    done = feed.split("date(at)", QUARANTINE)

    (reject,) = done.rejects
    assert reject.reason == "field at (partition) is not an ISO 8601 timestamp: 'soon'"
    assert json.loads(reject.row) == {"id": 2, "at": "soon"}


def test_deletes_with_the_id_alone(feed):
    """Such deletes have a partition only if its fields belong to the ID; the configuration gives the ID's order."""
    settings = {**BY_NAME, "id.field.ordinals": "2,0", "reject.policy": "quarantine", **NO_LIMITS}
    feed.put("ups_1.txt", b"a,x,2026\nb,y,2025\n")
    feed.put("del_2.txt", b"2026,a\nb,y,2025\n")
    feed.put("del_3.txt", b"b,y,2025\n2026,a\n")
    done = feed.split("0,y=2", settings)

    assert feed.parts("del_2.txt") == {"field_0=a/y=2026": b"2026,a\n"}
    assert feed.parts("del_3.txt") == {"field_0=b/y=2025": b"b,y,2025\n"}
    assert [one.reason for one in done.rejects] == [
        "has 3 fields and should have 2",
        "has 2 fields and should have 3",
    ]


def test_deletes_with_the_id_alone_may_have_no_partition(feed):
    feed.put("ups_1.txt", b"a,x,2026\n")
    feed.put("del_2.txt", b"a\n")
    feed.put("del_3.txt", b"a,x,2026\n")

    message = "del_2.txt: line 1, byte 0: has the ID alone, without the fields of its partition: a"
    feed.refused(DataError, message, by="1", settings=BY_NAME)
    assert feed.split("1", {**BY_NAME, **NO_LIMITS, "reject.policy": "quarantine"}).record.files[0].rejected == 1


def test_delete_files_may_lack_the_field(feed):
    feed.put("ups_1.csv", b"id,k\n1,a\n")
    feed.put("del_2.csv", b"id\n1\n")
    settings = {"id.field.ordinals": "id", "deleted.record.file.prefix": "del"}

    feed.refused(DataError, "field k (partition) is missing", by="k", settings=settings)
    feed.refused(ConfigError, "partition field l: no input has a field l; they have id, k", by="l", settings=settings)
    feed.put("ups_3.csv", b"id,m\n2,a\n")
    feed.refused(DataError, "ups_1.csv: field m is missing", by="m", settings=settings)


def test_field_names_come_from_the_configuration(feed):
    feed.put("ups_1.txt", b"a,1\n")
    feed.split("store", {"id.field.ordinals": "store", "field.names": "store,sale"})

    assert feed.parts("ups_1.txt") == {"store=a": b"a,1\n"}


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ("store", "'store' is a name, and the fields of delimited text have none"),
        ("2", "field 2 is beyond the 2 fields"),
    ],
)
def test_unknown_fields(feed, by, says):
    feed.put("ups_1.txt", b"a,1\n")

    feed.refused(ConfigError, "ups_1.txt", says, by=by)


def test_a_list_cannot_give_a_partition(feed):
    pq.write_table(TABLE, feed.feed / "ups_1.parquet")

    feed.refused(DataError, "field more is list", "which cannot determine a partition", by="more")


def test_two_files_with_the_same_name(feed):
    one = feed.put("a/ups_1.txt", b"a\n")
    other = feed.put("b/ups_1.txt", b"a\n")

    feed.refused(DataError, str(one), str(other), by="0", feed=[str(one.parent), str(other.parent)])
    feed.split("0", feed=[str(one.parent), str(one)])  # a path that is matched twice is read once


def test_paths_that_must_not_overlap(feed):
    feed.put("ups_1.txt", b"a\n")

    feed.refused(ConfigError, f"the split feed is inside the feed, {feed.feed}; name", by="0", to=feed.feed / "split")
    feed.to.mkdir()
    feed.refused(StateError, "already exists", by="0")


def test_empty_feed(feed):
    feed.put("ups_1.txt", b"")
    feed.put(".hidden", b"a\n")
    done = feed.split("0")

    assert done.record.rows_by_partition() == {}
    assert [os.path.basename(path) for path in done.ignored] == [".hidden"]


def test_a_file_that_grows_during_the_split(feed):
    path = feed.put("ups_1.txt", b"a\n")

    def each(tasks, work):
        path.write_bytes(b"a\nb\n")
        return in_turn(tasks, work)

    with pytest.raises(DataError, match="changed while it was being read"):
        feed.split("0", each=each)
    assert not feed.to.exists()


def test_a_repeated_task(feed):
    """The finished files of the earlier attempt are replaced, just as its unfinished ones are."""
    feed.put("ups_1.txt", b"a\nb\n")
    pq.write_table(TABLE, feed.feed / "ups_2.parquet")

    def each(tasks, work):
        in_turn(tasks[:1], work)
        return in_turn(tasks, work)

    feed.split("k=0", each=each)
    assert len(feed.parts("ups_1.txt")) == 2


def test_damaged_files_are_named(feed):
    feed.put("ups_1.txt.gz", gzip.compress(os.urandom(5000))[:-9])

    feed.refused(DataError, "ups_1.txt.gz", "damaged", by="0")


def test_a_record_with_a_wrong_byte(feed):
    feed.put("ups_1.txt", b"a\n")
    feed.split("0")
    data = (feed.to / PATH).read_bytes()

    with pytest.raises(StateError, match="damaged"):
        split_record.parse(data.replace(b"field_0=a", b"field_0=b"), "record")
    record = split_record.parse(data, "record")
    part = replace(record.files[0].parts[0], path="../x")
    with pytest.raises(StateError, match="outside of the directory"):
        split_record.parse(
            split_record.dump(replace(record, files=(replace(record.files[0], parts=(part,)),))), "record"
        )


POINTS = [point for point in FAILPOINTS if point.split(".")[0] in ("stage", "publish") and "copy" not in point] + [
    "split.part.written"
]


@pytest.mark.parametrize("point", POINTS)
def test_whole_or_nothing(feed, monkeypatch, point):
    feed.put("ups_1.txt", b"a\nb\n")
    before = snapshot(feed.root)
    monkeypatch.setenv(failpoints.VARIABLE, f"{point}:raise")
    with pytest.raises(OSError, match="failpoint"):
        feed.split("0")
    monkeypatch.delenv(failpoints.VARIABLE)

    if point in ("publish.renamed", "publish.done"):
        feed.check(split_record.parse((feed.to / PATH).read_bytes(), "record"))
        return
    assert snapshot(feed.root) == before
    feed.split("0")


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("point", [None, "split.part.written", "stage.success.written"])
def test_on_s3(s3, feed, monkeypatch, point):
    """A failed split leaves nothing; the split feed can be read, and split again from there."""
    feed.put("ups_1.txt", b"a,1\nb,2\n")
    place = f"{s3.bucket()}/lake/split"
    by, settings = parse_fields("k=0"), config.parse(CONFIG)
    if point is not None:
        monkeypatch.setenv(failpoints.VARIABLE, f"{point}:raise")
        with pytest.raises(OSError, match="failpoint"):
            split.split_feed(settings, by, [str(feed.feed)], place, in_turn)
        monkeypatch.delenv(failpoints.VARIABLE)
        assert storage_for(place).stat(place) is None
    split.split_feed(settings, by, [str(feed.feed)], place, in_turn)

    with pytest.raises(StateError, match="already exists"):
        split.split_feed(settings, by, [str(feed.feed)], place, in_turn)
    feed.split("k=0", feed=[f"{place}/k=a"])
    assert feed.parts("ups_1.txt") == {"k=a": b"a,1\n"}


def test_command_on_spark(sc, feed, capfd):
    feed.put("ups_1.txt", b"a,1\nb,2\n")
    feed.put("ups_2.txt", b"a,3\nc\n")
    words = ["partition", "--feed", str(feed.feed), "--output", str(feed.to), "-D", "reject.policy=quarantine"]

    assert cli.main([*words, "--partitioned-by", "k=0", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["rows"], report["rejected"], report["partitions"]) == (4, 1, {"k=a": 2, "k=b": 1})
    assert cli.main([*words, "--partitioned-by", "k=0"]) == 5
    assert cli.main([*words, "--partitioned-by", "k="]) == 2
    assert "--partitioned-by: 'k=' " in capfd.readouterr().err


def test_report_counts_one_of_each(sc, feed, capfd):
    feed.put("ups_1.txt", b"a,1\n")
    feed.put("ups_2.txt", b"".join(b"%c,1\n" % letter for letter in b"bcdef"))

    assert cli.main(["partition", "--feed", str(feed.feed), "--output", str(feed.to), "--partitioned-by", "k=0"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[2].split() == ["ups_1.txt", "1", "row"]
    assert "and 1 more partition" in lines
    assert lines[-1].startswith("wrote 6 rows in 6 files of 6 partitions; ")


def test_json_of_a_submitted_command_has_the_warnings_that_stderr_cannot_show(sc, feed, capfd, monkeypatch):
    feed.put("ups_1.txt", b"a,1\n")
    words = ["partition", "--feed", str(feed.feed), "--partitioned-by", "k=0", "-D", "mapreduce.job.name=x", "--json"]

    assert cli.main([*words, "--to", str(feed.to)]) == 0
    out, err = capfd.readouterr()
    assert "mapreduce.job.name" in err
    assert ["mapreduce.job.name" in warning for warning in json.loads(out)["warnings"]] == [True]

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "0")  # as spark-submit does, which redirects stderr to stdout
    assert cli.main([*words, "--to", f"{feed.to}2"]) == 0
    assert capfd.readouterr().err == ""


FIELDS = st.binary(max_size=3).map(lambda field: bytes(set(field) - set(b",\r\n")))
ROWS = st.lists(st.lists(FIELDS, min_size=1, max_size=4), max_size=15)


@law(60)
@given(ROWS, st.sampled_from(["0", "k=1", "prefix(0,1),1", "bucket(0,3)"]), st.sampled_from([b"\n", b"\r\n"]))
def test_every_row_is_in_the_partition_of_the_row_rules(tmp_path_factory, rows, by, end):
    feed = Feed(tmp_path_factory.mktemp("split"))
    content = b"".join(b",".join(row) + end for row in rows)
    feed.put("ups_1.txt", content)
    width = next((len(row) for row in rows if row != [b""]), None)
    if (width or 9) < 2:
        return
    feed.split(by, {**QUARANTINE, **({} if width else {"field.count": "2"})})

    fields, expected = parse_fields(by), {}
    for _, row in text_rows([content], "lf"):
        values = row.split(b",")
        if row and len(values) == width:
            directory = directory_of_row(fields, [values[field.source] for field in fields])
            expected[directory] = expected.get(directory, b"") + row + b"\n"
    assert feed.parts("ups_1.txt") == expected


def test_a_task_needs_only_its_file(feed):
    """A task is sent to workers with the positions of its fields, and writes the same files again."""
    feed.put("ups_1.txt", b"a\nb\na\n")
    (file,), _ = feed_files(config.parse(CONFIG), parse_fields("0"), [str(feed.feed)])
    with pytest.raises(StorageError, match="field_0=a"):  # nothing of a split that has ended comes back
        split_file(str(feed.root / "stage"), parse_fields("0"), file, 5)
    assert not (feed.root / "stage").exists()

    (feed.root / "stage").mkdir()
    made, rejects = split_file(str(feed.root / "stage"), parse_fields("0"), file, 5)

    assert (made.rows, made.rejected, rejects) == (3, 0, [])
    assert {part.directory: part.rows for part in made.parts} == {"field_0=a": 2, "field_0=b": 1}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"feed.dialect": "debezium-json", "id.field.ordinals": "id"}, "within the messages"),
        ({"truncate.op.code": "T", "op.code.field.ordinal": "1"}, "deletes the records of all partitions"),
        (
            {"feed.dialect": "ogg-csv", "id.field.ordinals": "id", "field.names": "op_type,pos,id"},
            "ogg-csv: a truncate deletes the records of all partitions",
        ),
        ({"feed.dialect": "aws-dms", "id.field.ordinals": "id", "feed.table": "s.t"}, "belong to no partition"),
    ],
)
def test_rows_that_belong_to_no_single_partition(feed, settings, why):
    feed.put("ups_1.txt", b"1,U,x\n")
    for act in (lambda: feed.split("2", {**CONFIG, **settings}), lambda: runs_of(feed, {**CONFIG, **settings})):
        with pytest.raises(ConfigError, match=rf"{why}.*; split nothing, and merge the feed with mutator run"):
            act()
    assert not feed.to.exists()


def runs_of(feed, settings):
    paths = {"master": str(feed.root), "feed": str(feed.to), "output": str(feed.root / "new")}
    return run_partitions(config.parse(settings), lambda plan, staging: None, **paths)
