"""The request for large pages leaves to the user what he set."""

import pytest

from mutator.engine.malloc import VARIABLE, large_pages


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.check=1", "glibc.malloc.check=1:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_a_request_by_the_user_wins(given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(VARIABLE, given)
    assert large_pages() == expected
