"""Bookkeeping as JSON that ends with the checksum of what stands before it, so that damage shows.

>>> parse(dump("example", 1, {"rows": 2}), "example", 1)
{'rows': 2}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mutator.dataset import checksum

__all__ = ["Newer", "dump", "json_members", "parse"]
_JSON_NAMES = {"action": "kind", "role": "kind"}  # attributes whose JSON name is older than they are
_SEAL = ',\n "checksum": "'


class Newer(ValueError):
    """A document whose format is newer than this program; ``version`` is that of the document."""

    def __init__(self, version: int) -> None:
        super().__init__(f"its format has version {version}")
        self.version = version


def dump(name: str, version: int, members: Mapping[str, Any]) -> bytes:
    """Write a document; equal ones have equal bytes. name, version: of its format."""
    said = {"format": name, "version": version, **members}
    text = "{\n" + ",\n".join(f" {json.dumps(key)}: {_text(value)}" for key, value in said.items())
    return _sealed(text.encode("ascii"))


def json_members(attributes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a dataclass under their JSON names: the ``dict_factory`` of ``dataclasses.asdict``.

    >>> json_members([("path", "a"), ("role", "order")])
    {'path': 'a', 'kind': 'order'}
    """
    return {_JSON_NAMES.get(name, name): value for name, value in attributes}


def _text(value: Any) -> str:
    """Write a value; a list of things a line each, for it may be long."""
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], Mapping):
        return json.dumps(value)
    # All of them in one call, which is what costs. No text in JSON has a line end in it, so one may stand for a comma.
    things = json.dumps(value, separators=("\n", ": "))[1:-1].replace("}\n{", "},\r  {")
    if things.count("\r") != len(value) - 1 or not all(isinstance(one, Mapping) for one in value):
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"  # a thing has lists of things itself
    return "[\n  " + things.replace("\n", ", ").replace("\r", "\n") + "\n ]"


def _sealed(text: bytes) -> bytes:
    return text + f'{_SEAL}{checksum.whole(text)}"\n}}\n'.encode("ascii")


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
    # Its bytes are held against the checksum, whatever an earlier version of this program has written between them.
    if _sealed(data[: data.rfind(_SEAL.encode("ascii"))]) != data:
        raise ValueError(f"its content does not have the checksum {said}")
    if form != name:
        raise ValueError(f"it is no {name}, but of the format {form!r}")
    return members
