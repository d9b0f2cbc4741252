"""Order types of several fields, or with a direction, and the fields of an order: their names, and how to record them.

The name of such a type lists the parts: ``long, string desc``.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

TYPES = "long|decimal|timestamp|string|text"  # as users write them; text is string
_TYPE = re.compile(rf"({TYPES})?(?: *(asc|desc))?")


NO_ORDER = {"by": "nothing yet"}  # of a dataset whose next run decides it
POSITION = "file.position"  # as a field: the sequence of the file, and the byte offset of the row
_PLACE = "position"  # its type


class Part(NamedTuple):
    """The type and the direction of a part."""

    type: str
    descending: bool = False


def tuple_type(parts: Sequence[Part]) -> str:
    """Return the order type of some parts: the type of the part itself where it is one in ascending order.

    >>> tuple_type([Part("long")]), tuple_type([Part("long", True)]), tuple_type([Part("long"), Part("string", True)])
    ('long', 'long desc', 'long, string desc')
    """
    return ", ".join(f"{part.type} desc" if part.descending else part.type for part in parts)


@lru_cache
def parts_of(order_type: str) -> tuple[Part, ...]:
    """Return the parts of an order type.

    >>> parts_of("long, string desc")
    (Part(type='long', descending=False), Part(type='string', descending=True))
    """
    words = (part.split() for part in order_type.split(","))
    return tuple(Part(name, direction == ["desc"]) for name, *direction in words)


def as_tuple(order_type: str) -> str:
    """Return an order type whose values are encoded as tuples are, so that they can have an epoch.

    >>> as_tuple("long"), as_tuple("long desc"), as_tuple("long, string")
    ('long asc', 'long desc', 'long, string')
    """
    return order_type if " " in order_type or order_type in ("", _PLACE) else f"{order_type} asc"


def single_type(order_type: str) -> str | None:
    """Return the type of the one part in ascending order that values have, and None for others.

    >>> single_type("long"), single_type("long asc"), single_type("long desc"), single_type("position")
    ('long', 'long', None, None)
    """
    found = order_type.removesuffix(" asc")
    return None if " " in found or found == _PLACE else found


def has_position(order_type: str) -> bool:
    """Return whether the last part of an order type is the position in the feed.

    >>> has_position("long, position"), has_position("long")
    (True, False)
    """
    return order_type.endswith(_PLACE)


def with_position(order_type: str) -> str:
    """Return an order type with the position in the feed as its last part. order_type: of the fields; "" without any.

    >>> with_position("long desc"), with_position("")
    ('long desc, position', 'position')
    """
    return ", ".join(filter(None, (order_type, _PLACE)))


def type_of_fields(order_type: str) -> str:
    """Return the order type of the fields alone, whose values the position follows; "" without any.

    >>> type_of_fields("long, position"), type_of_fields("long desc, string, position"), type_of_fields("long")
    ('long asc', 'long desc, string', 'long')
    """
    if not has_position(order_type):
        return order_type
    return as_tuple(order_type.removesuffix(_PLACE).removesuffix(", "))


def parse_types(parts: Sequence[Any]) -> tuple[tuple[str | None, bool], ...]:
    """Read the types of order fields, None for one that is left out, and whether each is in descending order.

    >>> parse_types(["long", "text desc", "desc"])
    (('long', False), ('string', True), (None, True))
    """
    found = [_TYPE.fullmatch(str(part).strip()) for part in parts]
    if not all(match and match[0] for match in found):
        raise ValueError("must be long, decimal, timestamp or string, with desc after it where the lowest value wins")
    return tuple(
        ({"text": "string"}.get(match[1], match[1]), match[2] == "desc") for match in found if match is not None
    )


def recorded_fields(order: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the fields of an order in a manifest; none where it comes from file names.

    >>> recorded_fields({"by": "field", "field": "changed"}), recorded_fields({"by": "fields", "ordinals": [3, 1]})
    (('changed',), (3, 1))
    """
    found = next((order[name] for name in ("field", "ordinal") if name in order), None)
    return tuple(order.get("fields", order.get("ordinals", ()))) if found is None else (found,)


def is_same_order(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the values of two orders in manifests can be compared.

    Every integer is a decimal, and rows with NULL were rejects before an order took it as the lowest value.

    >>> is_same_order({"by": "field", "field": "a", "type": "long"}, {"by": "field", "field": "a", "type": "decimal"})
    True
    """
    types = {one.get("type"), other.get("type")}
    fields = ({name: value for name, value in order.items() if name not in ("type", "null")} for order in (one, other))
    return next(fields) == next(fields) and (len(types) == 1 or types == {"long", "decimal"})


def order_in_words(order: Mapping[str, Any]) -> str:
    """Return an order as a manifest records it, in words.

    >>> order_in_words({"by": "file sequence"})
    'by file sequence'
    """
    return f"by {order['by']}" if "type" not in order else in_words(order)


def in_words(order: Mapping[str, Any]) -> str:
    """Return an order by fields as a manifest records it: their names and types, and where their values are.

    >>> in_words({"by": "field", "field": "lsn", "type": "long", "beside": True})
    'lsn (long, beside the rows)'
    >>> in_words({"by": "field", "field": "at", "type": "long desc, position", "null": "lowest"})
    'at, file.position (long desc, position, NULL lowest)'
    """
    null = f", NULL {order['null']}" if "null" in order else ""
    null += ", beside the rows" if order.get("beside") else ""
    names = (*recorded_fields(order), *((POSITION,) if has_position(order["type"]) else ()))
    return f"{', '.join(map(str, names))} ({single_type(order['type']) or order['type']}{null})"


def record_fields(kind: str, fields: Sequence[Any]) -> dict[str, Any]:
    """Return the order by some fields, for a manifest. kind: field or ordinal.

    >>> record_fields("field", ["changed"]), record_fields("ordinal", [3, 1])
    ({'by': 'field', 'field': 'changed'}, {'by': 'fields', 'ordinals': [3, 1]})
    """
    if len(fields) == 1:
        return {"by": "field", kind: fields[0]}
    return {"by": "fields", f"{kind}s": list(fields)}
