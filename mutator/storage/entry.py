"""An entry of a directory listing."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from mutator.errors import suppressed


class Entry(NamedTuple):
    """A file, directory or other entry, as ``lstat`` describes it."""

    path: str
    name: str
    bytes: int
    type: str  # file | directory | symbolic link | FIFO | socket | device
    modified: float = 0.0  # when content or name last changed, in seconds, by the storage's clock
    tag: str = ""  # differs for different content; empty if the storage has none
    written: float | None = None  # when the content last changed; None: the same as ``modified``

    @property
    def last_write(self) -> float:
        """When the content last changed, in seconds, by the storage's clock: a rename does not count."""
        return self.modified if self.written is None else self.written


def walked(entries: Callable[[str], Iterable[Entry]], directory: str) -> Iterator[Entry]:
    """Yield every entry below a directory except directories. entries: lists one directory."""
    waiting, found = list[str](), entries(directory)
    while True:
        for entry in found:
            if entry.type == "directory":
                waiting.append(entry.path)
            else:
                yield entry
        if not waiting:
            return
        found = ()
        with suppressed("storage.missing"):  # it was there when the directory above was read
            found = entries(waiting.pop())
