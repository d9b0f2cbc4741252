"""Checksums are part of the file format, so the literal values here never change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset import checksum


def test_checksums_of_the_format():
    assert checksum.whole(b"") == "xxh3-128:99aa06d3014798d86001c324468d497f"
    assert checksum.whole(b"abc") == "xxh3-128:06b05ab6733a618578af5f94892f3950"
    assert checksum.of_blocks([b"abc", b"def", b"gh"], 4) == "xxh3-128/4:633cf2c8639e00b5a12220af9010203c"
    assert checksum.of_blocks([b"abcde"], 4) == "xxh3-128/4:78d0901edc87ce07b01da41a5db028e9"
    assert checksum.of_blocks([b"abcd"], 4) == "xxh3-128:8d6b60383dfa90c21be79eecd1b1353d"


@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(1, 20))
def test_a_checksum_does_not_depend_on_blocks(blocks, chunk):
    data = b"".join(blocks)
    parts = [data[start : start + chunk] for start in range(0, max(len(data), 1), chunk)]
    expected = checksum.combine([checksum.digest(part) for part in parts], chunk)

    assert checksum.of_blocks(blocks, chunk) == expected
    assert checksum.chunk_of(expected) == (chunk if len(parts) > 1 else None)
    assert checksum.of_blocks(blocks, None) == checksum.whole(data)


@pytest.mark.parametrize(
    "wrong", ["", "xxh3-128", "md5:" + "0" * 32, "xxh3-128:00", "xxh3-128/:" + "0" * 32, "xxh3-128/x:" + "0" * 32]
)
def test_malformed_checksums(wrong):
    with pytest.raises(ValueError, match="is not a checksum"):
        checksum.chunk_of(wrong)
