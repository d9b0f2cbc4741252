"""The fields and types of JSON Lines: found at once by Arrow, they are those that its values have one by one."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.formats.files import json_columns, json_lines
from mutator.formats.files.json_columns import usual_schema

KINDS = [
    st.integers(-9, 9),
    st.sampled_from([2**63 - 1, 2**63, -(2**63) - 1, 10**40, 1]),
    st.sampled_from([0.5, 1e300, -0.0, 2]),
    st.sampled_from(["a", "", "2026-01-31", "2026-01-31T10:15:00Z", "NaN"]),
    st.booleans(),
    st.just({}),
]
# Values of one kind and None, or of several kinds.
ONE_KIND = st.sampled_from(KINDS).map(lambda kind: st.none() | kind)
VALUES = st.recursive(
    ONE_KIND | st.just(st.one_of(*KINDS)),
    lambda inner: (
        inner.map(lambda one: st.lists(one, max_size=2))
        | st.tuples(inner, inner).map(lambda two: st.fixed_dictionaries({"x": two[0]}, optional={"y": two[1]}))
    ),
    max_leaves=4,
)
MEMBERS = st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1)
ROWS = MEMBERS.flatmap(lambda found: st.lists(st.none() | st.fixed_dictionaries({}, optional=found), max_size=5))


@given(ROWS)
def test_types_found_at_once_are_those_of_the_values(rows: list[Any]) -> None:
    lines = [json.dumps(row).encode() for row in rows]
    found = usual_schema(lines)
    assert found is None or (found, found) == json_lines._schemas(lines)


@given(ROWS)
def test_types_of_objects_within_others(rows: list[Any]) -> None:
    objects = [json.dumps(row).encode() for row in rows]
    lines = [b"null", *(b'{"schema":{"fields":[{"name":"a","x":1.5}]},"payload":%b}' % one for one in objects)]
    found = usual_schema(lines)
    with patch.object(json_columns, "_schema_around", lambda *_: None):
        assert usual_schema(lines) == found


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"a":1}{"b":2}'],
        [b'{"a":{"b":1}', b',"c":{}}'],
        [b'{"a":1,"a":2}'],
        [b'{"a":NaN}'],
        [b'{"a":9223372036854775808}'],
        [b'{"a":1}', b'{"a":"1"}'],
        [b'{"a":' + b"[" * 33 + b"]" * 33 + b"}"],
    ],
)
def test_other_lines_are_looked_at_one_by_one(lines: list[bytes]) -> None:
    assert usual_schema(lines) is None


@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_deeply_nested_value_is_not_parsed_by_arrow(
    start: bytes, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parser would end the process."""
    monkeypatch.delattr(json_columns.arrow_json, "read_json")
    line = b'{"a":' + start * 100_000 + b"1" + end * 100_000 + b"}"
    assert usual_schema([line]) is None
