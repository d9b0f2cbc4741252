"""Transcoding loses no byte of a file, whatever its encoding and however it is cut into blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.rules.encodings import lost, parse_encoding, restored, transcoded

# Codecs of one byte, with and without gaps; of one or two bytes; of two or four.
EXACT = ("latin-1", "cp1252", "ascii", "cp500", "gbk", "utf-16-le", "utf-16-be", "utf-32-le")


def utf8(content, encoding, at=0):
    return b"".join(transcoded([content[:at], content[at:]], encoding))


@pytest.mark.parametrize("encoding", EXACT)
@given(content=st.binary(max_size=40), at=st.integers(0, 40))
def test_every_byte_comes_back(encoding, content, at):
    row = utf8(content, encoding, at)

    assert restored(row, encoding) == content
    assert row == utf8(content, encoding)
    assert (lost(row) is None) == is_text(content, encoding)


def is_text(content, encoding):
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    "name",
    ["", "nope", "base64", "rot13", "idna", "punycode", "undefined", "utf-7", "iso2022_jp", "hz", "unicode_escape"],
)
def test_an_encoding_that_cannot_be_set(name):
    with pytest.raises(ValueError, match="must be an encoding that Python knows"):
        parse_encoding(name)
