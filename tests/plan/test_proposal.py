"""The rules behind ``mutator init``, on a few lines or values each."""

import gzip
import tomllib
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.errors.parts import plain
from mutator.plan.proposal.choices import Choice, Proposal, toml_text
from mutator.plan.proposal.dialects import Head, dialect_of
from mutator.plan.proposal.operations import op_field, prefix_choice
from mutator.plan.proposal.order_fields import is_time_name, order_fields
from mutator.plan.proposal.propose import propose
from mutator.plan.proposal.record_ids import record_id
from mutator.plan.proposal.tables import Inputs, SampleTable
from tests.support.columns_data import HEADER, file_of


@pytest.mark.parametrize(
    ("lines", "delimiter", "quoted", "header_lines"),
    [
        ([b"a,1", b"b,2"], b",", False, 0),
        ([b"7;a bolt, 3 mm;1.5", b"8;a nut, 4 mm;2.5"], b";", False, 0),
        ([b"7|12,50|x", b"8|13,70|y"], b"|", False, 0),
        ([b"a\x011", b"b\x012"], b"\x01", False, 0),
        ([b'1,"a, b"', b'2,"c"', b"3,d"], b",", True, 0),
        ([b'1,5" pipe', b'2,7" pipe'], b",", False, 0),
        ([b"id,name", b"7,ann", b"8,bob"], b",", False, 1),
        ([b"# orders", b"", b"id,name", b"7,ann"], b",", False, 3),
        ([b"ann,rome", b"bob,oslo"], b",", False, 0),
        ([b"alpha", b"beta"], None, False, 0),
    ],
)
def test_dialect(lines, delimiter, quoted, header_lines):
    found = dialect_of([Head("feed", "f.txt", tuple(lines))])
    assert (found.delimiter, found.quoted, found.header_lines) == (delimiter, quoted, (header_lines,))


def test_a_delete_file_with_ids_alone_has_the_delimiter_of_the_others():
    heads = [Head("feed", "ups.txt", (b"a|x|1", b"b|y|2")), Head("feed", "del.txt", (b"a", b"b"))]
    assert dialect_of(heads).delimiter == b"|"


def table(*columns):
    return SampleTable("f.txt", {str(at): list(column) for at, column in enumerate(columns)}, len(columns[0]))


def test_sizes_are_no_op_codes():
    """S and M are usual codes, too, but the master has them as well, and no code of a delete."""
    sizes = table([b"k1", b"k2"], [b"S", b"M"], [b"1", b"2"])
    assert op_field(Inputs((sizes,), (sizes,)), (3, 3)) is None


def test_the_field_that_the_master_lacks_has_the_op_codes():
    """Not the size, which has such values as well."""
    feed = table([b"k1", b"k2"], [b"S", b"M"], [b"U", b"D"], [b"17", b"18"])
    master = table([b"k1", b"k2"], [b"S", b"M"], [b"15", b"16"])
    assert op_field(Inputs((master,), (feed,)), (3, 4)) in ("1", "2")
    feed = table([b"k1", b"k2"], [b"L", b"XL"], [b"U", b"D"], [b"17", b"18"])
    assert op_field(Inputs((master,), (feed,)), (3, 4)) == "2"


@pytest.mark.parametrize(
    ("named", "others", "prefix"),
    [
        ({"del_1.txt": "del"}, ["ups_1.txt"], "del_"),
        ({"del.txt": "del"}, ["ups.txt"], "del"),
        ({"deletes.txt": "deletes", "deleted_2.txt": "deleted"}, ["ups.txt"], "delete"),
        ({"del_1.txt": "del"}, ["delta_1.txt"], "del_"),
    ],
)
def test_prefix(named, others, prefix):
    assert prefix_choice(named, others).value == prefix


def test_the_id_is_unique_and_occurs_in_the_feed():
    """Another field is unique as well, but its values change."""
    numbers = range(50)
    master = table([b"%d" % (900 - n) for n in numbers], [b"k%d" % n for n in numbers])
    feed = table([b"%d" % (2000 + n) for n in numbers], [b"k%d" % (n + 25) for n in numbers])
    found = record_id(Inputs((master,), (feed,)), None)
    assert (found.fields, found.certain) == (("1",), True)
    assert found.why == "50 distinct values in 50 rows of the master; 25 of 50 IDs of the feed occur there"


def _new_products_of_one_name(field):
    """Return a master whose names are unique, too, and a feed of 20 updates and 10 inserts of one name."""
    columns = {field: [b"%d" % n for n in range(50)], "name": [b"product %d" % n for n in range(50)]}
    keys, names = [b"%d" % n for n in (*range(20), *range(50, 60))], columns["name"][:20] + [b"new product"] * 10
    return Inputs((SampleTable("m", columns, 50),), (SampleTable("f", {field: keys, "name": names}, 30),), named=True)


def test_values_that_new_records_share_are_no_id():
    found = record_id(_new_products_of_one_name("id"), None)
    assert (found.fields, found.certain) == (("id",), True)
    assert [fields for fields, _ in found.others] == [("name",)]


def test_two_fields_that_may_be_the_id_are_a_question():
    found = record_id(_new_products_of_one_name("part"), None)
    assert (found.fields, found.certain) == (("part",), False)


def test_a_name_such_as_order_id_makes_up_for_some_rows():
    """Another field occurs in a few more rows, as names do that a new record has, too."""
    columns = {"label": [b"l%d" % n for n in range(50)], "order_id": [b"%d" % n for n in range(50)]}
    feed = {"label": [*columns["label"][:28], b"x", b"y"], "order_id": [b"%d" % (n + 30) for n in range(30)]}
    found = record_id(Inputs((SampleTable("m", columns, 50),), (SampleTable("f", feed, 30),), named=True), None)
    assert (found.fields, found.certain) == (("order_id",), True)


def test_a_price_is_no_order_value():
    master = table([b"a", b"b", b"c"], [b"10", b"20", b"30"], [b"1700000000", b"1700000001", b"1700000002"])
    feed = table([b"a", b"b"], [b"90", b"5"], [b"1800000000", b"1800000001"])
    best, other = order_fields(Inputs((master,), (feed,)), ["0"], None)
    assert (best.field, best.order_type, best.strong) == ("2", "long", True)
    assert (other.field, other.strong) == ("1", False)


@pytest.mark.parametrize(
    ("columns", "order_by", "ties"),
    [
        ({"qty": lambda n: n * 7 % 11}, "updated_at", True),  # quantities tell rows apart by chance
        ({"seq": lambda n: n // 6}, "updated_at", True),
        ({"seq": lambda n: n}, "seq", True),
        ({"seq": lambda n: n % 6}, ["updated_at", "seq"], True),  # begins again with each time
        ({"seq": lambda n: n, "op": lambda n: "IU"[n % 6 > 2]}, "seq", True),
        # The images before updates are no mutations.
        ({"seq": lambda n: n, "op": lambda n: f"update_p{'re' if n % 6 > 2 else 'ost'}image"}, "updated_at", False),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_order_that_ties(columns, order_by, ties, form, tmp_path, monkeypatch):
    """Each of three records has two changes at each time."""
    monkeypatch.chdir(tmp_path)
    start = datetime(2026, 1, 31, tzinfo=UTC)
    rows = [
        {"id": n % 3, "note": f"n{n}", "updated_at": start + timedelta(seconds=n // 6)}
        | {name: value(n) for name, value in columns.items()}
        for n in range(24)
    ]
    (tmp_path / f"f.{form}").write_bytes(file_of(form, pa.Table.from_pylist(rows), HEADER))
    found = propose(None, [f"f.{form}"], {"id.field.ordinals": "id"}).proposal
    (choice,) = [one for one in found.choices if one.key == "temporal.ordering.field.ordinal"]
    assert choice.value == order_by
    assert ("3 IDs of the first rows have different rows with one value of updated_at" in choice.why) == ties
    assert main(["init", "--feed", f"f.{form}", "--key", "id"]) == 0
    assert main(["run"]) == 0


def test_equal_rows_are_no_ties(tmp_path):
    (tmp_path / "f.csv").write_text("id,updated_at\n" + "1,2026-01-31T10:00:00\n" * 3)
    found = propose(None, [str(tmp_path)], {}).proposal
    assert not any("different rows" in choice.why for choice in found.choices)


TIMES = [b"2026-02-01T00:00:%02d" % n for n in range(40)]


@pytest.mark.parametrize(
    ("master", "feed", "invalid"),
    [
        (TIMES, [*TIMES, b"x"], 1),
        (TIMES, [*TIMES[:9], b"x"], 1),
        ([*TIMES, b"x"], TIMES, 1),
        (TIMES, [*TIMES[:36], *[b"x"] * 3], 3),  # 3.8 % of 79
        (TIMES, [*TIMES[:36], *[b"x"] * 4], 4),  # 5 % of 80, and 10 % of the feed
        ([*TIMES[:38], *[b"x"] * 2], [*TIMES[:37], *[b"x"] * 3], None),  # 6 % of 80
        (TIMES, [*TIMES[:8], b"x"], None),  # more than 10 % of the feed
        ([*TIMES[:8], b"x"], TIMES, None),
        (TIMES, [*TIMES, b"x", *[b""] * 4], None),  # 5 rows of 45 would be rejected
        (TIMES, [*TIMES, b"x", *[b""] * 3], 1),
        ([b"%d" % n for n in range(40)], [*[b"%d" % n for n in range(40)], b"1.5"], 0),  # a decimal number as all are
    ],
)
def test_a_few_damaged_order_values(master, feed, invalid):
    sides = [table([b"k%d" % n for n in range(len(values))], values) for values in (master, feed)]
    found = order_fields(Inputs((sides[0],), (sides[1],)), ["0"], None)
    assert [(one.field, one.invalid) for one in found] == ([] if invalid is None else [("1", invalid)])
    if invalid:
        rows = next(side for side in (feed, master) if b"x" in side)
        assert f"'x' in row {rows.index(b'x') + 1} of f.txt" in plain(found[0].why)


def test_a_field_without_damaged_values_comes_first():
    values = table([b"k%d" % n for n in range(40)], TIMES, [*TIMES[:39], b"x"])
    assert [one.field for one in order_fields(Inputs((), (values,)), ["0"], None)] == ["1", "2"]
    assert record_id(Inputs((table([*TIMES[:39], b"x"], [b"k%d" % n for n in range(40)]),), ()), None).fields == ("1",)


@pytest.mark.parametrize("name", ["updated_at", "LastModifiedDate", "ts_ms", "version", "event_time", "seq_no", "lsn"])
def test_names_of_changes(name):
    assert is_time_name(name)


def test_any_value_can_be_read_back():
    values = ['"', "\\", "\t", "#", "é", "]", "'''", "a\nb"]
    choices = (
        Choice("field.names", values, "why\nnot", [(values, 'a "reason"')], "Is it?"),
        Choice("id.field.ordinals", None, "none", [("a", "b")], "Which?", needed=True),
    )
    proposal = Proposal(choices)
    assert tomllib.loads(toml_text(proposal, ["master  a\nb = 1"], {}, "mutator run")) == {"field.names": values}
    assert not proposal.usable
    assert proposal.questions == ["Is it?", "Which?"]


def text_file(path, encoding):
    path.mkdir()
    letter = "e" if encoding == "ascii" else "é"
    (path / "x.csv.gz").write_bytes(gzip.compress(f"id,name,at\nk1,{letter},1\nk2,b,2\nk3,c,3\n".encode(encoding)))
    return str(path)


@pytest.mark.parametrize(
    ("feed", "master", "given", "expected"),
    [
        ("utf-16", "utf-16", {}, {"encoding": "utf-16"}),
        ("cp1252", "cp1252", {}, {"encoding": "cp1252"}),
        ("ascii", "cp1252", {}, {"encoding": "cp1252"}),
        ("ascii", "utf-16", {}, {"master.encoding": "utf-16"}),
        ("utf-16", "ascii", {}, {"encoding": "utf-16", "master.encoding": "utf-8"}),
        ("cp1252", "utf-8", {}, {"encoding": "cp1252", "master.encoding": "utf-8"}),
        ("utf-8", "cp1252", {}, {"master.encoding": "cp1252"}),
        ("utf-8", "utf-8", {}, {}),
        ("cp1252", None, {}, {"encoding": "cp1252"}),
        ("cp1252", "cp1252", {"encoding": "iso8859-15"}, {"encoding": "iso8859-15", "master.encoding": "cp1252"}),
    ],
)
def test_encodings(tmp_path, feed, master, given, expected):
    paths = [one and text_file(tmp_path / side, one) for side, one in (("feed", feed), ("master", master))]

    proposal = propose(paths[1], [paths[0]], given).proposal

    found = {key: value for key, value in proposal.settings.items() if key.endswith("encoding")}
    assert found == expected
    asked = "cp1252" in {value for key, value in expected.items() if key not in given}
    assert any("compare some of them with the source" in one for one in proposal.questions) == asked
