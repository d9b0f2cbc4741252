"""Names of files: sequences, delete files, hidden names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.rules import file_names


@pytest.mark.parametrize(
    ("name", "sequence"),
    [
        ("ups_prod_1427761080.txt.gz", 1427761080),
        ("ups_7.csv.gz", 7),
        ("ups_7.gz", 7),
        ("ups_7", 7),
        ("ups_007.txt", 7),
        ("_7", 7),
        ("a_1_2.txt", 2),
        ("ups_9223372036854775807.txt", 2**63 - 1),
        ("ups_00000000000000000000009223372036854775807.txt", 2**63 - 1),
        ("ups_9223372036854775808.txt", None),  # more than a long
        ("ups_99999999999999999999.txt", None),
        ("part-r-00000", None),
        ("ups.txt", None),
        ("ups_.txt", None),
        ("ups_x.txt", None),
        ("ups_-7.txt", None),
        ("ups_+7.txt", None),
        ("ups_7 .txt", None),
        ("ups_1.5.txt", None),  # only one extension is removed, and .5 is not a compression
        ("ups_7.csv.txt", None),
        ("ups_7.txt.GZ", 7),
        ("ups_٧.txt", None),  # a digit, but not an ASCII digit
        ("ups_²", None),
        ("ups_7\n", None),
        ("", None),
    ],
)
def test_sequence(name, sequence):
    assert file_names.sequence(name) == sequence


@given(st.integers(0, 2**63 - 1), st.sampled_from(["", ".txt", ".csv", ".tsv.gz", ".bz2", ".txt.zst", ".xz"]))
def test_every_sequence_is_read_back(number, suffix):
    assert file_names.sequence(f"ups_1_{number}{suffix}") == number


def test_delete_files_and_hidden_names():
    assert file_names.is_delete_file("delaware.txt", "del")
    assert not file_names.is_delete_file("Del_1.txt", "del")
    assert not file_names.is_delete_file("ups_del.txt", "del")
    assert not file_names.is_delete_file("del_1.txt", None)
    assert [name for name in ("_a", ".a", "a_", "a.") if file_names.is_hidden(name)] == ["_a", ".a"]
