"""What a listing says of one place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Entry"]


@dataclass(frozen=True)
class Entry:
    """One file, directory or special thing, as ``lstat`` sees it."""

    path: str
    name: str
    bytes: int
    kind: str  # file | directory | symbolic link | FIFO | socket | device
    modified: float = 0.0  # when content or name last changed, in seconds of the storage's clock
    tag: str = ""  # of the content, where the storage has such: another content has another one
    written: float | None = None  # when the content alone last changed; None: as ``modified`` says
