"""Order values: how each type is read, compared and written."""

import pickle
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.rules.order_values import (
    NO_SEQUENCE,
    ORDER_TYPES,
    format_order,
    parse_decimal,
    parse_long,
    parse_string,
    precedence,
)
from mutator.rules.timestamps import parse_timestamp


@pytest.mark.parametrize("parse", [parse_long, parse_decimal, parse_timestamp])
@pytest.mark.parametrize(
    "field", [b"", b" ", b"x", b"1 ", b" 1", b"1_0", b"NaN", b"inf", b"Infinity", "٧".encode(), b"1\n", b"\xff", b"--1"]
)
def test_invalid_values_of_all_order_types(parse, field):
    with pytest.raises(ValueError, match=r"is (not|beyond)"):
        parse(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"0", 0),
        (b"-0", 0),
        (b"+5", 5),
        (b"007", 7),
        (b"9007199254740993", 2**53 + 1),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"+000000000000000000000009223372036854775807", 2**63 - 1),
        (b"0" * 5000, 0),
    ],
)
def test_long(field, value):
    assert parse_long(field) == value


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (b"1.0", "is not an integer"),
        (b"1e3", "is not an integer"),
        (b"0x10", "is not an integer"),
        (b"1,000", "is not an integer"),
        (b"9223372036854775808", "is beyond 64 bits"),
        (b"-9223372036854775809", "is beyond 64 bits"),
        (b"1" * 100_000, "is beyond 64 bits"),  # fails at once, though int() would be slow or refuse
    ],
)
def test_invalid_longs(field, reason):
    with pytest.raises(ValueError, match=reason):
        parse_long(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [(b"1.50", "1.5"), (b".5", "0.5"), (b"5.", "5"), (b"1e3", "1000"), (b"-1E-3", "-0.001"), (b"+7", "7")],
)
def test_decimal(field, value):
    assert parse_decimal(field) == Decimal(value)


@pytest.mark.parametrize("field", [b".", b"1e", b"1e1000", b"1.2.3", b"1,5", b"sNaN", b"0x1"])
def test_invalid_decimals(field):
    with pytest.raises(ValueError, match="is not a decimal number"):
        parse_decimal(field)


@pytest.mark.parametrize(
    ("field", "seconds", "fraction"),
    [
        (b"1970-01-01", 0, b""),
        (b"19700101", 0, b""),
        (b"1970-01-01T00:00", 0, b""),
        (b"1970-01-01t00:00:01z", 1, b""),
        (b"1970-01-01 00:00:01,25", 1, b"25"),
        (b"19700101T000001.250000+0000", 1, b"25"),
        (b"1969-12-31T23:59:59.5", -1, b"5"),
        (b"1970-01-01T01:00:00+01", 0, b""),
        (b"1970-01-01T05:45:00+05:45", 0, b""),
        (b"1969-12-31T19:00:00-0500", 0, b""),
        (b"1970-01-01T00:00:00-00:00", 0, b""),
        (b"2024-02-29T00:00:00Z", 1709164800, b""),
        (b"2000-02-29", 951782400, b""),
        (b"0001-01-01T00:00:00Z", -62135596800, b""),
        (b"9999-12-31T23:59:59.999999999999999999999Z", 253402300799, b"9" * 21),
        (b"1970-01-01T00:00:00." + b"0" * 50 + b"1", 0, b"0" * 50 + b"1"),
    ],
)
def test_timestamp(field, seconds, fraction):
    assert parse_timestamp(field) == (seconds, fraction)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (b"2026-02-30", "is not a date of the calendar"),
        (b"2025-02-29", "is not a date of the calendar"),
        (b"1900-02-29", "is not a date of the calendar"),
        (b"2026-13-01", "is not a date of the calendar"),
        (b"2026-00-10", "is not a date of the calendar"),
        (b"0000-01-01", "is not a date of the calendar"),
        (b"2026-01-31T24:00:00", "is not a time of the day"),
        (b"2026-01-31T23:60:00", "is not a time of the day"),
        (b"2026-01-31T23:59:60", "is not a time of the day"),
        (b"2026-01-31T10:00:00+24:00", "has no valid zone"),
        (b"2026-01-31T10:00:00+01:60", "has no valid zone"),
        (b"0001-01-01T00:00:00+01:00", "is outside of the years"),
        (b"9999-12-31T23:59:59-00:01", "is outside of the years"),
        (b"26-01-31", "is not an ISO 8601 timestamp"),
        (b"31.01.2026", "is not an ISO 8601 timestamp"),
        (b"2026-1-31", "is not an ISO 8601 timestamp"),
        (b"2026-01-31T10", "is not an ISO 8601 timestamp"),
        (b"2026-01-31T10:00:00.", "is not an ISO 8601 timestamp"),
        (b"2026-01-31T10:00:00 Europe/Paris", "is not an ISO 8601 timestamp"),
        (b"2026-01-31Z", "is not an ISO 8601 timestamp"),
        (b"1427761080", "is not an ISO 8601 timestamp"),
        ("２０２６-01-31".encode(), "is not an ISO 8601 timestamp"),
    ],
)
def test_invalid_timestamps(field, reason):
    with pytest.raises(ValueError, match=reason):
        parse_timestamp(field)


zones = st.one_of(
    st.sampled_from([b"", b"Z", b"z"]),
    st.builds(
        lambda sign, hour, mark, minute: b"%b%02d%b%02d" % (sign, hour, mark, minute),
        st.sampled_from([b"+", b"-"]),
        st.integers(0, 23),
        st.sampled_from([b":", b""]),
        st.integers(0, 59),
    ),
)
# The texts that may be in a field, for each type.
FIELDS = {
    "long": st.builds(
        lambda sign, zeros, number: sign + b"0" * zeros + b"%d" % number,
        st.sampled_from([b"", b"-", b"+"]),
        st.integers(0, 3),
        st.integers(0, 2**63 - 1),
    ),
    "decimal": st.one_of(
        st.builds(
            lambda sign, whole, places, exponent: sign + whole + b"." + places + b"e%d" % exponent,
            st.sampled_from([b"", b"-", b"+"]),
            st.from_regex(rb"[0-9]{1,40}", fullmatch=True),
            st.from_regex(rb"[0-9]{0,40}", fullmatch=True),
            st.integers(-60, 60),
        ),
        st.sampled_from([b"0", b"-0", b"+0.00", b"0e5", b"1.0", b"1", b"10", b"1e1", b"100", b"-.50"]),
    ),
    "timestamp": st.builds(
        lambda day, mark, clock, fraction, zone: (
            day.isoformat().encode() + mark + clock.strftime("%H:%M:%S").encode() + fraction + zone
        ),
        st.dates(min_value=date(1, 1, 2), max_value=date(9999, 12, 30)),
        st.sampled_from([b"T", b" ", b"t"]),
        st.times(),
        st.from_regex(rb"(?:[.,][0-9]{1,25})?", fullmatch=True),
        zones,
    ),
    "string": st.binary(),
    "sequence": st.integers(-1, 2**63 - 1).map(lambda number: b"%d" % number),
}


@pytest.mark.parametrize("order_type", FIELDS)
@given(data=st.data())
def test_order_values_are_written_and_read_back(order_type, data):
    parse, write = ORDER_TYPES[order_type]
    field = data.draw(FIELDS[order_type])
    value = parse(field)
    written = format_order(order_type, value)

    if order_type == "sequence" and value == NO_SEQUENCE:  # LOWEST has no text
        assert written is None
        return
    assert written == write(value)
    assert parse(written) == value
    # Each value has one text, so the texts in manifests can be compared.
    assert write(parse(written)) == written


@pytest.mark.parametrize("order_type", FIELDS)
@given(data=st.data())
def test_order_values_are_totally_ordered(order_type, data):
    parse, write = ORDER_TYPES[order_type]
    a, b, c = (parse(data.draw(FIELDS[order_type])) for _ in range(3))

    assert (a < b) + (a == b) + (a > b) == 1
    if a <= b <= c:
        assert a <= c
    assert (write(a) == write(b)) == (a == b)
    assert pickle.loads(pickle.dumps(a)) == a


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_longs_compare_as_numbers(a, b):
    assert (parse_long(b"%d" % a) < parse_long(b"%d" % b)) == (a < b)


def test_fractions_compare_digit_by_digit():
    ascending = [
        b"",
        b".0000001",
        b".05",
        b".1",
        b".10000000000000000000000001",
        b".11",
        b".2",
        b".9999999999999999999",
    ]
    parsed = [parse_timestamp(b"2026-01-31T10:00:00" + part) for part in ascending]

    assert parsed == sorted(parsed)
    assert len(set(parsed)) == len(parsed)


def test_strings_compare_as_bytes():
    assert parse_string(b"9") > parse_string(b"10")
    assert parse_string(b"b") > parse_string(b"B") > parse_string(b"")
    assert parse_string("é".encode()) > parse_string(b"z")


def test_precedence_is_compared_left_to_right():
    lowest = precedence(1, -1, b"a", 0, b"")
    ascending = [
        lowest,
        precedence(1, -1, b"a", 0, b"x"),
        precedence(1, -1, b"a", 1, b""),
        precedence(1, -1, b"b", 0, b""),
        precedence(1, 0, b"a", 0, b""),
        precedence(2, -1, b"a", 0, b""),
    ]

    assert sorted(set(ascending)) == ascending
