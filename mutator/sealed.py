"""Bookkeeping as JSON that ends with the checksum of what stands before it, so that damage shows.

>>> parse(dump("example", 1, {"rows": 2}), "example", 1)
{'rows': 2}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mutator import checksum

__all__ = ["Newer", "dump", "parse"]


class Newer(ValueError):
    """A document whose format is newer than this program; ``version`` is that of the document."""

    def __init__(self, version: int) -> None:
        super().__init__(f"its format has version {version}")
        self.version = version


def dump(name: str, version: int, members: Mapping[str, Any]) -> bytes:
    """Write a document; equal ones have equal bytes. name, version: of its format."""
    text = json.dumps({"format": name, "version": version, **members}, indent=1).removesuffix("\n}")
    return f'{text},\n "checksum": "{checksum.whole(text.encode("ascii"))}"\n}}\n'.encode("ascii")


def parse(data: bytes, name: str, known: int) -> dict[str, Any]:
    """Read the members of a document; raises ValueError where one byte is not as ``dump`` wrote it, and Newer."""
    try:
        members: dict[str, Any] = json.loads(data)
        said = members.pop("checksum")
        form, version = members.pop("format"), members.pop("version")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise ValueError(f"it is no {name}: {fault}") from None
    if form == name and isinstance(version, int) and version > known:
        raise Newer(version)
    if dump(form, version, members) != data:
        raise ValueError(f"its content does not have the checksum {said}")
    if form != name:
        raise ValueError(f"it is no {name}, but of the format {form!r}")
    return members
