"""Bookkeeping as JSON: one entry per line, and equal content gives equal bytes."""

import json

import pytest

from mutator.dataset import checksummed_json

THINGS = [
    [{"a": 1, "b": {"x": "}\n{", "y": []}, "c": "}{\r\n\u2028"}, {"a": "\r", "p": {"q": None}}, {}],
    [{"parts": [{"x": 1}, {"y": 2}]}, {"parts": []}],
    [{"a": [[{}, {}]]}, {"b": {"c": [{"d": 1}, {"e": 2}]}}],
    [{"a": 1}, 3, {"b": "}"}],
]


@pytest.mark.parametrize("things", THINGS)
def test_each_entry_has_a_line(things):
    data = checksummed_json.dump("example", 1, {"things": things, "last": [1, 2]})

    lines = data.decode("ascii").split("\n")
    begin = lines.index(' "things": [') + 1
    assert lines[begin : begin + len(things) + 1] == [
        *(f"  {json.dumps(one)}{',' if one is not things[-1] else ''}" for one in things),
        " ],",
    ]
    assert checksummed_json.parse(data, "example", 1) == {"things": things, "last": [1, 2]}
