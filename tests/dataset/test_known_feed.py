"""The known feed files of a chain of versions, against a plain model."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.commits import FeedFile
from mutator.dataset.state import KnownFeed

VERSIONS = st.lists(
    st.tuples(st.lists(st.sampled_from("abc"), max_size=3, unique=True), st.integers(0, 4), st.booleans()), max_size=8
)


@given(VERSIONS)
def test_files_are_those_of_the_versions_that_are_not_forgotten(versions: list[tuple[list[str], int, bool]]) -> None:
    known, expected = KnownFeed((FeedFile("a", 1, "x", "0"),)), {"a": "0"}
    for number, (names, age, is_read) in enumerate(versions, 1):
        since = str(number - age) if age else ""
        expected = {name: committed for name, committed in expected.items() if committed >= since}
        expected |= dict.fromkeys(names, str(number))
        known = known.after(since, tuple(FeedFile(name, 1, "x", str(number)) for name in names))
        if is_read:
            assert {file.name: file.committed for file in known.files} == expected
    assert {file.name: file.committed for file in known.files} == expected
    assert len(known.files) == len(expected)


class Unread(tuple[FeedFile, ...]):
    def __iter__(self) -> Iterator[FeedFile]:
        raise AssertionError("it was read")

    __reversed__ = __iter__


def test_a_version_does_not_read_the_known_files() -> None:
    known = KnownFeed(Unread([FeedFile("a", 1, "x", "0")]))
    for number in range(31):
        known = known.after("1", (FeedFile("b", number, "x", "2"),))
    assert len(known.later) == 31
