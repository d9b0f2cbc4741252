"""Names of versions: a tag is accepted wherever a version is. Tags and bookmarks are named alike."""

from __future__ import annotations

import re

FORM = "letters, digits, '_', '.' and '-', at most 128, of which the first is no '.' or '-', and not only digits"
_NAME = re.compile(r"(?![0-9]+\Z)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
Version = int | str  # its number, or a tag


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a tag or a bookmark.

    >>> is_name("2026-Q1"), is_name("17"), is_name("a/b")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


def read_name(text: str) -> str:
    """Read the name of a tag or a bookmark from a command line. Raises ValueError."""
    if not is_name(text):
        raise ValueError(f"must be {FORM}")
    return text


def number_or_name(text: str) -> Version:
    """Read a version of a command line: its number, or a tag. Raises ValueError.

    >>> number_or_name("17"), number_or_name("january")
    (17, 'january')
    """
    if re.fullmatch(r"[0-9]{1,18}", text.strip()):
        return int(text)
    if not is_name(text):
        raise ValueError("must be the number of a version, 0 or more, or a tag")
    return text
