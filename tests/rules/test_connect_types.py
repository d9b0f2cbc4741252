"""Decimals in base64: read at once, they are those that are read one by one."""

from __future__ import annotations

from base64 import b64encode
from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mutator.rules.dialects.connect_types import _decimals, _decoded, digits, each

NUMBERS = st.integers(-(2**55), 2**55 - 1) | st.sampled_from([0, 127, 128, -128, -129, 2**63, -(2**71)])
USUAL = NUMBERS.map(lambda number: b64encode(number.to_bytes(number.bit_length() // 8 + 1, signed=True)))
OTHERS = st.sampled_from([b"", b"A", b"AA=A", b"====", b"A===", b"AB==", b"AB==AB==", b"!!!!", b"AA\n=", b"AAA\xff"])


@given(st.lists(st.none() | USUAL), st.lists(OTHERS, max_size=1), st.sampled_from([-1, 0, 1, 2, 9]))
def test_decimals(usual: list[bytes | None], others: list[bytes], scale: int) -> None:
    column = pa.array([*usual, *others], pa.large_binary())
    values, bad, why = each(partial(_decoded, partial(digits, scale=scale)), pa.large_binary(), column)
    found, own_bad, own_why = _decimals(scale, column)
    assert (found.to_pylist(), own_bad.tolist()) == (values.to_pylist(), bad.tolist())
    assert own_why == why or not bad.any()
