"""The time that a full snapshot is as of, where a field of its rows says it: all rows of one snapshot have the same."""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "field:"


class TimeField(NamedTuple):
    """The field with the time of a snapshot."""

    field: int | str

    def __str__(self) -> str:
        """Return the field as a setting names it."""
        return f"{PREFIX}{self.field}"


class FirstTime(NamedTuple):
    """The value of the field in the first row of a snapshot that has one."""

    text: bytes
    order_type: str  # of the field itself
