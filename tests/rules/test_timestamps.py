"""Timestamps parsed as a column equal those parsed one by one."""

from hypothesis import given
from hypothesis import strategies as st

from mutator.rules.byte_columns import ByteColumn
from mutator.rules.timestamp_columns import parse_timestamps
from mutator.rules.timestamps import parse_timestamp
from tests.support.order_texts import TIMESTAMPS


def parsed(field):
    try:
        seconds, fraction = parse_timestamp(field)
    except ValueError:
        return 0, 0, False, True
    return seconds, int(fraction[:9].ljust(9, b"0")), len(fraction) > 9, False


@given(st.lists(TIMESTAMPS | st.dates().map(lambda day: day.isoformat().encode()), max_size=12))
def test_a_column_is_read_like_its_single_values(fields):
    columns = parse_timestamps(ByteColumn.of(fields))

    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [parsed(field) for field in fields]


def test_every_day_is_read():
    fields = [
        b"%04d-%02d-%02d" % (y, m, d)
        for y in (1, 4, 1900, 2000, 2023, 2024, 9999)
        for m in range(14)
        for d in range(33)
    ]
    seconds, _, _, bad = parse_timestamps(ByteColumn.of(fields))

    assert list(zip(seconds.tolist(), bad.tolist(), strict=True)) == [parsed(field)[::3] for field in fields]
