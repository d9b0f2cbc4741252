"""Encoded tuples compare as tuples do, part by part, each in its own direction."""

from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mutator.rules.order_columns import from_texts, to_texts
from mutator.rules.order_tuples import decode, encode
from mutator.rules.order_types import Part, parts_of, tuple_type
from mutator.rules.order_values import is_tuple, order_text, order_value
from tests.support.effort import law

VALUES = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "decimal": st.sampled_from(["0", "-1.5", "1.51", "-1.51", "1e-5", "-1e300", "12", "120"]).map(Decimal)
    | st.integers(-1000, 1000).map(Decimal),
    "timestamp": st.tuples(st.integers(-(10**10), 10**10), st.sampled_from([b"", b"25", b"0000000001", b"2500000001"])),
    "string": st.lists(st.sampled_from([b"\0", b"\1", b"a", b"b", b"\xfe", b"\xff"]), max_size=4).map(b"".join),
}
PARTS = st.lists(st.builds(Part, st.sampled_from([*VALUES]), st.booleans()), min_size=1, max_size=3)


def compared(part, one, other):
    if one == other:
        return 0
    if one is None or other is None:
        return -1 if one is None else 1
    return (-1 if one < other else 1) * (-1 if part.descending else 1)


@law(300)
@given(st.data(), PARTS.filter(lambda parts: len(parts) > 1 or parts[0].descending))
def test_bytes_compare_as_tuples_do(data, parts):
    order_type = tuple_type(parts)
    assert is_tuple(order_type)
    assert parts_of(order_type) == tuple(parts)
    one = [data.draw(st.none() | VALUES[part.type]) for part in parts]
    other = [data.draw(st.just(value) | st.none() | VALUES[part.type]) for part, value in zip(parts, one, strict=True)]
    mine, yours = encode(order_type, one), encode(order_type, other)
    assert decode(mine) == one
    found = next(filter(None, map(compared, parts, one, other)), 0)
    assert (mine > yours) - (mine < yours) == found
    assert mine > b""  # the lowest of all
    column = pa.array([mine, b"", yours], pa.large_binary())
    texts = to_texts(order_type, column)
    assert from_texts(order_type, texts).equals(column)
    low, _, high = texts.to_pylist()
    assert (low > high) - (low < high) == found
    assert order_value(order_type, order_text(order_type, mine)) == mine
