"""Timestamps in ISO 8601, one at a time (``timestamp_columns`` reads columns of them).

A timestamp is its seconds since 1970 in UTC and its fraction of a second.

>>> parse_timestamp(b"2026-01-31T10:00:00.5Z") == parse_timestamp(b"2026-01-31 12:00:00.50+02:00")
True
"""

import re
from datetime import date

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # a second, by unit

_DATE = rb"(\d{4})%b(\d\d)%b(\d\d)"
_TIME = rb"(\d\d)%b(\d\d)(?:%b(\d\d)(?:[.,](\d+))?)?"
_ZONE = rb" ?(?:[Zz]|UTC|GMT|([+-]\d\d):?(\d\d)?)"
_GRAMMAR = rb"%b(?:[Tt ]%b(?:%b)?)?\Z" % (_DATE, _TIME, _ZONE)
_EXTENDED = re.compile(_GRAMMAR % (b"-", b"-", b":", b":"))
_BASIC = re.compile(_GRAMMAR % (b"", b"", b"", b""))
_EPOCH = date(1970, 1, 1).toordinal()
FIRST_SECOND = (1 - _EPOCH) * 86400  # of the year 1
LAST_SECOND = (date.max.toordinal() - _EPOCH) * 86400 + 86399  # of the year 9999


def parse_timestamp(field: bytes) -> tuple[int, bytes]:
    """Read a timestamp to its seconds since 1970 in UTC and its fraction's digits, without trailing zeros.

    The fraction may have any number of digits. Without a zone, times are UTC, and a date alone is its midnight.
    As BigQuery and Snowflake write them, the zone may be UTC or GMT, and there may be a space before it.
    Raises ValueError with the reason.

    >>> parse_timestamp(b"1970-01-01T00:00:01.250")
    (1, b'25')
    >>> parse_timestamp(b"1970-01-01 00:00:01 GMT"), parse_timestamp(b"1970-01-01 01:00:01.000 +0100")
    ((1, b''), (1, b''))
    """
    match = _EXTENDED.match(field) or _BASIC.match(field)
    if not match:
        raise ValueError("is not an ISO 8601 timestamp")
    year, month, day, hour, minute, second, fraction, zone_hour, zone_minute = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        raise ValueError("is not a date of the calendar") from None
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if h > 23 or m > 59 or s > 59:
        raise ValueError("is not a time of the day")
    offset = 0
    if zone_hour:
        zh, zm = int(zone_hour[1:]), int(zone_minute or 0)
        if zh > 23 or zm > 59:
            raise ValueError("has no valid zone")
        offset = (zh * 3600 + zm * 60) * (-1 if zone_hour[:1] == b"-" else 1)
    seconds = days * 86400 + h * 3600 + m * 60 + s - offset
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise ValueError("is outside of the years 0001 to 9999 in UTC")
    return seconds, (fraction or b"").rstrip(b"0")


def format_timestamp(value: tuple[int, bytes]) -> bytes:
    """Write a timestamp in UTC, in the one form that manifests, tombstones and canonical keys have.

    >>> format_timestamp((1, b"25"))
    b'1970-01-01T00:00:01.25Z'
    """
    seconds, fraction = value
    days, rest = divmod(seconds, 86400)
    text = f"{date_of(days)}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}".encode("ascii")
    return text + (b"." + fraction if fraction else b"") + b"Z"


def date_of(days: int) -> date:
    """Return the date a number of days after 1970-01-01.

    >>> date_of(-1).isoformat()
    '1969-12-31'
    """
    return date.fromordinal(days + _EPOCH)
