"""The names of checkpoints: of which version they are, and whether the log begins with them."""

from __future__ import annotations

import re

BASE = ".base"  # in the names of bases: a writer that knows nothing of the cleaning does not remove them
CHECKPOINT = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.files")
MASKS = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.masks")
_ANY = re.compile(rf"([0-9]{{20}})-([0-9a-f]{{32}})(\.[^.]+\{BASE})?\.files")
_OF_BASE = re.compile(rf"([0-9]{{20}})-[0-9a-f]{{32}}(\.[^.]+)\{BASE}\.(?:files|masks)")


def version_of_checkpoint(name: str) -> int:
    """Return the version of a checkpoint, which its name begins with; -1 for another name."""
    match = _ANY.fullmatch(name)
    return int(match[1]) if match else -1


def is_base(name: str) -> bool:
    """Return whether a checkpoint is one that the log begins with, by its name."""
    match = _ANY.fullmatch(name)
    return match is not None and match[3] is not None


def owner_of_base(name: str) -> str | None:
    """Return what the names of the files of one base have in common: its version and run; None for other files."""
    match = _OF_BASE.fullmatch(name)
    return match[1] + match[2] if match else None


def is_kept(number: int, newest: int) -> bool:
    """Return whether the checkpoint of a version is kept once there is one of a newer version.

    It is kept for twice as many versions as the largest power of two that divides its number. So there are two for each
    power of two, and to open an earlier version, fewer entries are read than twice the number of versions since, or
    than twice the number between two checkpoints.

    >>> [number for number in range(0, 1001, 8) if is_kept(number, 1000)]
    [512, 768, 896, 960, 976, 992, 1000]
    """
    return number >= newest or newest - number < 2 * (number & -number)
