"""Strategies for order values as text, valid and invalid, of each type."""

from hypothesis import strategies as st

LONGS = st.one_of(
    st.integers(-(2**65), 2**65).map(lambda n: b"%d" % n),
    st.from_regex(rb"\A[+-]?[0-9]{0,25}\Z"),
    st.sampled_from([b"", b"-", b"+5", b"007", b"0x1f", b"1 ", b" 1", b"1_0", b"999999999999999999"]),
)

DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda d: str(d).encode()),
    st.from_regex(rb"\A[+-]?[0-9]{0,5}(\.[0-9]{0,5})?(e-?[0-9]{1,3})?\Z"),
    st.sampled_from(
        [b"0", b"-0", b"0.0", b"1e3", b"1000", b"-1.50", b"-1.5", b"-1.505", b"-100", b"-100.5", b"-15", b".5", b"x"]
    ),
)

TIMESTAMPS = st.one_of(
    st.datetimes().map(lambda when: when.isoformat().encode()),
    st.datetimes().map(lambda when: when.isoformat(" ").encode() + b"Z"),
    st.from_regex(
        rb"\A[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]:[0-5][0-9]"
        rb"([.,][0-9]{0,12})?( ?(Z|z|UTC|GMT|[+-][01][0-9]:?00))?\Z"
    ),
    st.sampled_from([
        b"0001-01-01T00:00:00", b"0000-01-01T00:00:00", b"9999-12-31T23:59:59Z", b"2024-02-29T00:00:00",
        b"2023-02-29T00:00:00", b"1900-02-29T00:00:00", b"2000-02-29 00:00:00z", b"2024-01-01", b"20240101T000000",
        b"2024-01-01T24:00:00", b"2024-13-01T00:00:00", b"2024-01-01T00:00:00.", b"2024-01-01T00:00:00Z0",
        b"2024-01-01T00:00:00.5", b"2024-01-01T00:00:00.50Z", b"2024-01-01T00:00:00.000000000",
        b"2024-01-01T00:00:00.0000000001", b"2024-01-01T00:00:00,123456789Z", b"2024-01-01x00:00:00",
        b"2024-01-01 00:00:00 UTC", b"2024-01-01 00:00:00.5 UTC", b"2024-01-01 00:00:00UTC", b"2024-01-01 UTC",
        b"2024-01-01 00:00:00.123 +0530", b"2024-01-01 00:00:00  UTC",
        b"2024-01-01T00:00 UTC", b"2024-01-01 00:00:00 utc",
    ]),
)  # fmt: skip

FIELDS = {"long": LONGS, "decimal": DECIMALS, "timestamp": TIMESTAMPS, "string": st.binary(max_size=5)}
