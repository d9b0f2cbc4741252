"""The partition of a row: columns follow the same rules as rows, and every directory name can be read back."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mutator.rules.partition_fields import PartitionField, parse_fields, text_of
from mutator.rules.partition_paths import DEFAULT, directory_of, values_of
from mutator.rules.partition_transforms import directory_of_row, partition_rows
from tests.support.order_texts import LONGS, TIMESTAMPS

TRANSFORMS = {
    "identity": [None],
    "date": [None, "s", "ms", "us", "ns"],
    "year": [None, "s"],
    "month": [None, "ms"],
    "prefix": [1, 2, 300],
    "bucket": [1, 16, 1000],
}
ODD = [
    *(b"", b"/", b"=", b"%", b"%2F", b"..", b".", b"../../x", b"a/b=c", b"\0", b"\n", b"\x7f", b"x" * 300),
    *(b"\xff", b"\xc3", b"\xc3/\xa9", "\N{SNOWMAN}é".encode(), b"\xed\xb3\xbf", b"\xf4\x90\x80\x80", b"\xc2\x85"),
    *(DEFAULT.encode(), b" x ", b"'\"\\{}[]^#*:?", b"\xe2\x82", "ü".encode() * 130, b"%" * 84),
]
VALUES = st.one_of(st.none(), st.sampled_from(ODD), st.binary(max_size=6), st.text(max_size=5).map(str.encode))
NAMES = st.text("abcß0.- %", min_size=1, max_size=8).filter(lambda name: name[0] not in "._ " and name[-1] != " ")


@st.composite
def one_field(draw, name):
    transform = draw(st.sampled_from(sorted(TRANSFORMS)))
    return PartitionField(name, draw(st.integers(0, 9)), transform, draw(st.sampled_from(TRANSFORMS[transform])))


@st.composite
def fields_and_rows(draw):
    fields = [draw(one_field(name)) for name in ("a", "b=2", "c")[: draw(st.integers(1, 3))]]
    values = st.one_of(VALUES, TIMESTAMPS, LONGS)
    rows = draw(st.lists(st.tuples(*(values for _ in fields)), max_size=12))
    return fields, rows


def placed_row(fields, row):
    """Return the directory of a row, or the reason why it has none."""
    try:
        return directory_of_row(fields, row), None
    except ValueError as reason:
        return None, str(reason)


def columns_of(fields, rows):
    return [pa.array([row[place] for row in rows], pa.large_binary()) for place in range(len(fields))]


@given(fields_and_rows())
def test_columns_agree_with_rows(given_):
    fields, rows = given_
    placed = partition_rows(fields, columns_of(fields, rows))

    assert len(set(placed.names)) == len(placed.names)
    assert set(placed.codes.tolist()) - {-1} == set(range(len(placed.names)))
    for number, row in enumerate(rows):
        directory, reason = placed_row(fields, row)

        assert placed.reasons.get(number) == reason
        assert (placed.names[placed.codes[number]] if reason is None else None) == directory
        assert (placed.codes[number] == -1) == (reason is not None)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_directory_names_are_safe_and_reversible(values):
    fields = [PartitionField(name, place) for place, name in enumerate(("a", "b", "c")[: len(values)])]
    directory, reason = placed_row(fields, values)
    if directory is None:
        assert "is longer than a directory's name can be (255 bytes)" in reason
        return
    levels = directory.split("/")

    assert [level.split("=")[0] for level in levels] == [field.name for field in fields]
    assert all(len(level.encode()) <= 255 and not set(level) & set(map(chr, range(32))) for level in levels)
    back = {
        field.name: None if value in (None, b"", DEFAULT.encode()) else value.decode("utf-8", "surrogateescape")
        for field, value in zip(fields, values, strict=True)
    }
    assert dict(values_of(directory)) == back


@given(VALUES.filter(bool))
def test_different_values_have_different_directories(value):
    others = [other for other in ODD if other and other != value]
    names = {directory_of(("a",), (other.decode("utf-8", "surrogateescape"),)) for other in others}

    assert directory_of(("a",), (value.decode("utf-8", "surrogateescape"),)) not in names


@pytest.mark.parametrize(
    ("by", "value", "directory"),
    [
        ("store_id", b"12", "store_id=12"),
        ("3", b"12", "field_3=12"),
        ("store=3", b"12", "store=12"),
        ("ts", None, f"ts={DEFAULT}"),
        ("ts", b"", f"ts={DEFAULT}"),
        ("date(ts)", b"", f"ts_date={DEFAULT}"),
        ("bucket(id,16)", None, f"id_bucket={DEFAULT}"),
        ("ts", b"a/b", "ts=a%2Fb"),
        ("ts", b"..", "ts=.."),
        ("ts", b"\xff\xc3\xa9", "ts=%FF\xe9"),
        ("date(ts)", b"2026-01-31", "ts_date=2026-01-31"),
        ("day=date(ts)", b"2026-01-31T23:59:59.999999999999", "day=2026-01-31"),
        ("date(ts)", b"2026-01-31 23:30:00-01:00", "ts_date=2026-02-01"),
        ("year(ts)", b"0987-01-31", "ts_year=0987"),
        ("month(ts)", b"2026-01-31", "ts_month=01"),
        ("date(ts,s)", b"-1", "ts_date=1969-12-31"),
        ("date(ts,ms)", b"86399999", "ts_date=1970-01-01"),
        ("date(ts,us)", b"86400000000", "ts_date=1970-01-02"),
        ("date(ts,ns)", b"1769817600000000000", "ts_date=2026-01-31"),
        ("prefix(id,2)", "é☃x".encode(), "id_prefix=é☃"),
        ("prefix(id,2)", b"\xff\xfe\xfd", "id_prefix=%FF%FE"),
        ("bucket(id,16)", b"12", "id_bucket=0"),
        ("bucket(id,1000)", b"record", "id_bucket=786"),
    ],
)
def test_directories(by, value, directory):
    assert directory_of_row(parse_fields(by), [value]) == directory
    assert partition_rows(parse_fields(by), columns_of([0], [(value,)])).names == [directory]


@pytest.mark.parametrize(
    ("by", "value", "reason"),
    [
        ("3", b"x" * 300, f"field 3 (partition) is longer than a directory's name can be (255 bytes): '{'x' * 40}…'"),
        ("date(ts)", b"x", "field ts (partition) is not an ISO 8601 timestamp: 'x'"),
        ("date(3)", b"2026-02-30", "field 3 (partition) is not a date of the calendar: '2026-02-30'"),
        ("date(3,s)", b"1e9", "field 3 (partition) is not an integer: '1e9'"),
        ("year(3,s)", b"9" * 12, f"field 3 (partition) is outside of the years 0001 to 9999 in UTC: '{'9' * 12}'"),
    ],
)  # fmt: skip
def test_reasons(by, value, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # its text is what is looked at
        directory_of_row(parse_fields(by), [value])

    assert str(caught.value) == reason
    assert partition_rows(parse_fields(by), columns_of([0], [(b"2026-01-01",), (value,)])).reasons[1] == reason


def test_the_first_field_without_a_partition_value_gives_the_reason():
    fields = parse_fields("date(0),month(1)")

    assert partition_rows(fields, columns_of(fields, [(b"x", b"y")])).reasons == {
        0: "field 0 (partition) is not an ISO 8601 timestamp: 'x'"
    }


def test_the_longest_directory_is_255_bytes():
    fields = parse_fields("ab")

    assert len(directory_of_row(fields, [b"x" * 252])) == 255
    with pytest.raises(ValueError, match="is longer"):
        directory_of_row(fields, [b"x" * 253])


@pytest.mark.parametrize("reason", ["year(ts)", "bucket(ts,3)"])
def test_partitions_are_numbered_by_their_first_rows(reason):
    """Days of one year share a partition, and so do values of one bucket."""
    days = [b"2026-01-31", b"2025-01-31", b"2026-07-01", None, b"2026-01-31"]
    placed = partition_rows(parse_fields(reason), columns_of([0], [(day,) for day in days]))

    assert placed.codes[0] == 0
    assert placed.codes[4] == 0
    assert len(set(placed.names)) == len(placed.names)


def test_columns_may_be_slices():
    column = pa.array([b"x", b"2026-01-31", None, b"", b"2026-02-01"], pa.large_binary())[1:]
    placed = partition_rows(parse_fields("date(0)"), [column])

    assert placed.names == ["field_0_date=2026-01-31", f"field_0_date={DEFAULT}", "field_0_date=2026-02-01"]
    assert placed.codes.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("store_id", [PartitionField("store_id", "store_id")]),
        ("3", [PartitionField("field_3", 3)]),
        (" store = 3 ,day=date( ts , ms )", [PartitionField("store", 3), PartitionField("day", "ts", "date", "ms")]),
        ("prefix(id,2)", [PartitionField("id_prefix", "id", "prefix", 2)]),
        ("bucket(0,16)", [PartitionField("field_0_bucket", 0, "bucket", 16)]),
        ("year(ts),month(ts)", [PartitionField("ts_year", "ts", "year"), PartitionField("ts_month", "ts", "month")]),
    ],
)
def test_fields(text, fields):
    assert list(parse_fields(text)) == fields
    assert list(parse_fields(text_of(fields))) == fields


@given(st.lists(st.tuples(NAMES, NAMES | st.integers(0, 99)), min_size=1, max_size=4, unique_by=lambda one: one[0]))
def test_fields_are_read_as_they_are_written(named):
    fields = []
    for place_, (name, source) in enumerate(named):
        source = int(source) if isinstance(source, str) and source.isdigit() else source
        transform = sorted(TRANSFORMS)[place_]
        fields.append(PartitionField(name, source, transform, TRANSFORMS[transform][-1]))

    assert list(parse_fields(text_of(fields))) == fields


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' is not a partition field: expected store_id, day=date(ts) or bucket(id,16)"),
        ("a,", "'' is not a partition field"),
        ("day=", "'day=' is not a partition field"),
        ("date()", "'date()' is not a partition field"),
        ("date(a", "'date(a' is not a partition field"),
        ("date(a))", "is not a partition field"),
        ("a=b=c", "'a=b=c' is not a partition field"),
        (
            "week(ts)",
            "'week' is not a transform of a partition field: expected one of date, year, month, prefix, bucket",
        ),
        ("date(ts,h)", "date expects a field and perhaps a unit, s, ms, us, ns, not 'h'"),
        ("prefix(id)", "prefix expects a field and a number from 1, as in prefix(id,16)"),
        ("bucket(id,0)", "bucket expects a field and a number from 1"),
        ("bucket(id,x)", "bucket expects a field and a number from 1"),
        ("_id", "'_id' cannot be the name of a partition"),
        (".id", "'.id' cannot be the name of a partition"),
        ("=id", "'' cannot be the name of a partition"),
        ("a/b", "'a/b' cannot be the name of a partition"),
        ("a\tb", "cannot be the name of a partition"),
        ("x" * 250, "is too long for the name of a partition"),
        ("ts,ts", "two partition fields are called 'ts'"),
        ("ts,TS=id", "two partition fields are called 'TS'"),
        ("id,date(ts),ts_date=id", "two partition fields are called 'ts_date'"),
    ],
)
def test_an_unknown_field_is_reported(text, says):
    with pytest.raises(ValueError, match=r"^") as caught:
        parse_fields(text)

    assert says in str(caught.value)


def test_other_directories_are_refused():
    with pytest.raises(ValueError, match="is not a partition"):
        values_of("a/b")


@example("%FF")
@given(st.text("%Faé/ \udcff\udcc3", max_size=6))
def test_names_are_read_back(value):
    value = value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")

    assert values_of(directory_of(("a",), (value,))) == (("a", value or None),)


def test_many_values_have_the_same_partitions_as_few():
    """The timestamps are all different."""
    numbers = np.arange(100_000, dtype=np.int64) * 977
    column = pa.array(numbers.astype("datetime64[s]").astype(str)).cast(pa.large_binary())
    placed = partition_rows(parse_fields("date(0)"), [column])

    assert placed.codes.tolist() == (numbers // 86400).tolist()
