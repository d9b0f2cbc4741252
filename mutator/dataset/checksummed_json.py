"""JSON documents that end with a checksum of everything before it, so that damage shows.

>>> parse(dump("example", 1, {"rows": 2}), "example", 1)
{'rows': 2}
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from mutator.dataset import checksum

_JSON_NAMES = {"action": "kind", "role": "kind"}  # attributes whose JSON name is older than they are
_SEAL = ',\n "checksum": "'


class Newer(ValueError):
    """A document in a newer format than this program knows. ``version`` is the document's format version."""

    def __init__(self, version: int) -> None:
        super().__init__(f"its format has version {version}")
        self.version = version


def dump(name: str, version: int, members: Mapping[str, Any]) -> bytes:
    """Write a document; equal members give equal bytes. name, version: those of the format."""
    document = {"format": name, "version": version, **members}
    text = "{\n" + ",\n".join(f" {json.dumps(key)}: {_text(value)}" for key, value in document.items())
    return _sealed(text.encode("ascii"))


def dump_record(name: str, version: int, record: Any) -> bytes:
    """Write a document with the members of a dataclass. name, version: those of the format."""
    return dump(name, version, record_members(record))


def record_members(record: Any) -> dict[str, Any]:
    """Return the members of a dataclass, and of those in it, under their JSON names."""
    return asdict(record, dict_factory=json_members)


def json_members(attributes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a dataclass under their JSON names: the ``dict_factory`` of ``dataclasses.asdict``.

    >>> json_members([("path", "a"), ("role", "order")])
    {'path': 'a', 'kind': 'order'}
    """
    return {_JSON_NAMES.get(name, name): value for name, value in attributes}


def attributes(entry_type: type[Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a dataclass from its JSON members. Raises ValueError for other members."""
    names = {_JSON_NAMES.get(attribute.name, attribute.name): attribute.name for attribute in fields(entry_type)}
    if set(members) != set(names):
        raise ValueError("its members are not those of this format")
    return {names[member]: value for member, value in members.items()}


def _text(value: Any) -> str:
    """Write a value; a list of objects has one line for each, because it may be long."""
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], Mapping):
        return json.dumps(value)
    # All objects in one call, for speed. JSON has no line ends within strings, so one can mark each separator.
    objects = json.dumps(value, separators=("\n", ": "))[1:-1].replace("}\n{", "},\r  {")
    if objects.count("\r") != len(value) - 1 or not all(isinstance(member, Mapping) for member in value):
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"  # an object contains lists of objects
    return "[\n  " + objects.replace("\n", ", ").replace("\r", "\n") + "\n ]"


def _sealed(text: bytes) -> bytes:
    return text + f'{_SEAL}{checksum.whole(text)}"\n}}\n'.encode("ascii")


def parse(data: bytes, name: str, known: int, *, oldest: int | None = None) -> dict[str, Any]:
    """Return the members of a document. Raises ValueError if a byte differs from what ``dump`` wrote, or Newer.

    known: the format version that can be read. oldest: versions from this one on can be read, too.
    """
    try:
        members: dict[str, Any] = json.loads(data)
        expected = members.pop("checksum")
        form, version = members.pop("format"), members.pop("version")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise ValueError(f"it cannot be read: {_why_unreadable(fault)}") from None
    if form == name and isinstance(version, int) and version > known:
        raise Newer(version)
    # The bytes are checked, not the members: another program may write other white space.
    if _sealed(data[: data.rfind(_SEAL.encode("ascii"))]) != data:
        raise ValueError(f"its content does not have the checksum {expected}")
    if form != name:
        raise ValueError(f"its format is {form!r} and should be {name!r}")
    if version < (known if oldest is None else oldest):
        raise ValueError(f"its format has version {version}, which only programs before the first release wrote")
    return members


def _why_unreadable(fault: Exception) -> str:
    if isinstance(fault, KeyError):
        return f"it has no member {fault}"
    return str(fault) if isinstance(fault, ValueError | RecursionError) else "it is not a JSON object"
