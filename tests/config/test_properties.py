"""Files of settings are read as Java reads them, and as ``javaproperties`` does."""

import javaproperties
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mutator.config.properties import pairs

TEXTS = st.lists(
    st.sampled_from(
        [
            *(
                "a",
                "key",
                "=",
                ":",
                " ",
                "\t",
                "\f",
                "\\",
                "\\\\",
                "\n",
                "\r",
                "\r\n",
                "#",
                "!",
                "\\u0041",
                "\\ud83d\\ude00",
            ),
            *("\\n", "\\t", "\\=", "\\ ", "\\:", "é", "\x0b", "\x85", "\u2028", "\\é", "u", "\\\n", "\\\r\n  "),
        ]
    ),
    max_size=14,
).map("".join)


@given(TEXTS)
@example("a\\")
@example("\\\n\nb=1")
@example("a=1\\\n# no comment")
@example("=v\n:w\n x")
@example("a\\\\=1\\\\\n b=2")
def test_the_same_settings_as_javaproperties(text):
    try:
        expected = [
            (one.key, one.value) for one in javaproperties.parse(text) if isinstance(one, javaproperties.KeyValue)
        ]
    except ValueError:
        with pytest.raises(ValueError, match="four hex digits"):
            list(pairs(text))
        return

    assert [(key, value) for _, key, value in pairs(text)] == expected


def test_lines_are_numbered_by_every_line_end():
    assert [line for line, _, _ in pairs("a=1\r\rb=2\r\nc=3\\\n4\nd=5")] == [1, 3, 4, 6]


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u00g0", "\\u=1"])
def test_a_fault_names_its_line(text):
    with pytest.raises(ValueError, match=r"^line 2: \\u\S* is not a character: .* four hex digits"):
        list(pairs(f"\n{text}"))
