"""What a listing says of one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

__all__ = ["Entry", "walked"]


class Entry(NamedTuple):
    """One file, directory or special thing, as ``lstat`` sees it."""

    path: str
    name: str
    bytes: int
    type: str  # file | directory | symbolic link | FIFO | socket | device
    modified: float = 0.0  # when content or name last changed, in seconds of the storage's clock
    tag: str = ""  # of the content, where the storage has such: another content has another one
    written: float | None = None  # when the content alone last changed; None: as ``modified`` says


def walked(entries: Callable[[str], Iterable[Entry]], directory: str) -> Iterator[Entry]:
    """Yield everything below a directory that is none itself, given what lists one."""
    waiting = [directory]
    while waiting:
        for entry in entries(waiting.pop()):
            if entry.type == "directory":
                waiting.append(entry.path)
            else:
                yield entry
