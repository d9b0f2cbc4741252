"""Key hashes, of single keys and of columns, are part of the file format, so the literal values never change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mutator.rules import key_hash
from mutator.rules.byte_columns import ByteColumn
from mutator.rules.key_hash import bucket_of, hash_columns, hash_key, murmur64a


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0),
        (b"ab", 0, 7115271465109541368),
        (b"fransisco", 1, 0x83FDAF4A6D0D3D9),
        (b"aaaa", 0x9747B28C, 0x41DA53FDABAF04C8),
    ],
)
def test_murmur64a_as_published(data, seed, expected):
    assert murmur64a(data, seed) == expected


@pytest.mark.parametrize(
    ("key", "hashed", "buckets"),
    [
        ((b"",), 0, [0, 0, 0, 0, 0]),
        ((b"a",), 0x071717D2D36B6B11, [0, 1, 1, 17, 17]),
        ((b"VR8NCNE7DV",), 0xC41FD1909FDC7DD5, [0, 1, 6, 21, 85]),
        ((b"12345678",), 0x758F67D162B2D202, [0, 0, 2, 2, 2]),
        ((b"123456789",), 0x4977490251674330, [0, 0, 6, 48, 48]),
        ((b"\xff\xfe",), 0xD8BDA9F97887ECE1, [0, 1, 5, 33, 97]),
        ((b"ab", b"c"), 0x0992028DF2AA6E44, [0, 0, 6, 4, 68]),
        ((b"a", b"bc"), 0x827A57575003368C, [0, 0, 3, 12, 12]),
        ((b"s1", b"2015-04-01", b"", b"x" * 100), 0x9225CA3210761B27, [0, 1, 0, 39, 39]),
    ],
)
def test_buckets_of_keys(key, hashed, buckets):
    assert key_hash.HASH_NAME == "murmur64a"
    assert hash_key(key) == hashed
    assert [bucket_of(key, count) for count in (1, 2, 7, 64, 128)] == buckets


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=3), st.integers(1, 1000))
def test_a_bucket_splits_into_two(key, count):
    assert 0 <= bucket_of(key, count) < count
    assert bucket_of(key, 2 * count) in (bucket_of(key, count), bucket_of(key, count) + count)


VALUES = st.binary(max_size=20) | st.integers(0, 40).map(bytes) | st.integers(250, 270).map(lambda n: b"\xff" * n)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=9), st.integers(1, 2))
def test_hashes_of_columns_equal_those_of_single_keys(pairs, width):
    columns = [ByteColumn.of([pair[n] for pair in pairs]) for n in range(width)]
    found = hash_columns(columns)
    assert found.dtype == np.uint64
    assert found.tolist() == [hash_key(pair[:width]) for pair in pairs]


def plain_hash(key):
    """Return the hash of a key as the definition of MurmurHash64A says, eight bytes at a time."""
    h, factor, limit = 0, 0xC6A4A7935BD1E995, 1 << 64
    for value in key:
        h ^= len(value) * factor % limit
        whole = len(value) // 8 * 8
        for start in range(0, whole, 8):
            k = int.from_bytes(value[start : start + 8], "little") * factor % limit
            h = (h ^ (k ^ k >> 47) * factor % limit) * factor % limit
        if value[whole:]:
            h = (h ^ int.from_bytes(value[whole:], "little")) * factor % limit
        h = (h ^ h >> 47) * factor % limit
        h ^= h >> 47
    return h


def value_of(length):
    return bytes(number * 7 % 251 for number in range(length))


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 255, 256, 257, 263, 264, 265, 5000])
def test_hashes_of_values_of_any_length(length):
    """Each key is hashed alone, among keys of the same length, and among short keys."""
    value = value_of(length)
    assert hash_key((value,)) == plain_hash((value,))
    for column in ([value], [value, value[::-1]], [value, b"", b"x"], [value] * 40):
        assert hash_columns([ByteColumn.of(column)]).tolist() == [plain_hash((one,)) for one in column]


@given(
    st.lists(st.tuples(st.integers(0, 700).map(value_of) | VALUES, st.binary(max_size=300)), max_size=30),
    st.integers(1, 2000),
    st.integers(0, 20),
)
@settings(deadline=None)
def test_hashes_of_long_values_do_not_depend_on_how_many_words_are_mixed_at_once(pairs, at_once, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_hash, "_AT_ONCE", at_once)
        patch.setattr(key_hash, "_FEW", few)
        found = hash_columns([ByteColumn.of(column) for column in ([a for a, _ in pairs], [b for _, b in pairs])])
    assert found.tolist() == [plain_hash(pair) for pair in pairs]


@pytest.mark.parametrize(
    ("length", "expected"), [(257, 0x6EEA837E1199B2F7), (1000, 0xBED641EB98ED8B7A), (13_000, 0xAE120AD51E8C52F6)]
)
def test_hashes_of_long_keys_have_literal_values(length, expected):
    """These values were computed byte by byte: buckets and filters of existing datasets depend on them."""
    assert hash_key((value_of(length),)) == expected
    assert hash_columns([ByteColumn.of([value_of(length)] * 20)]).tolist() == [expected] * 20


def test_hashes_of_columns_have_literal_values():
    """The literal values of ``hash_key`` also apply to columns: they determine the bucket of a master's row on disk."""
    columns = [ByteColumn.of([b"ab", b"a", b""]), ByteColumn.of([b"c", b"bc", b""])]
    assert [int(one) for one in hash_columns(columns)] == [689616501626007108, 9401923204605490828, 0]


def test_long_values_of_many_lengths_have_the_hash_that_each_has_alone():
    values = [bytes([65 + number]) * (257 + 41 * number) for number in range(12)]

    assert hash_columns([ByteColumn.of(values)]).tolist() == [hash_key((value,)) for value in values]
