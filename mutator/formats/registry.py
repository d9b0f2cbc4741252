"""A table of implementations by name."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

Implementation = TypeVar("Implementation")


class Registry(Mapping[str, Implementation]):
    """Implementations by name, each made when it is asked for: its module imports libraries that most runs never use.

    >>> formats = Registry({"text": lambda: "made"})
    >>> list(formats), formats["text"]
    (['text'], 'made')
    """

    def __init__(self, makers: Mapping[str, Callable[[], Implementation]]) -> None:
        self.makers = dict(makers)

    def __getitem__(self, name: str) -> Implementation:
        return self.makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)
