"""The fields of a run that mean something, where fields have names: the ID, the order value, the op code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.errors import error
from mutator.formats.convert import converted
from mutator.typed import order_kind

__all__ = ["Fields", "check_key_types", "decide_order_type", "named_layout", "order_spec", "read_default"]


@dataclass(frozen=True)
class Fields:
    """The fields that mean something, by name."""

    ids: tuple[str, ...]
    order: str | None
    op: str | None


def check_key_types(schema: Any, fields: Any, path: str) -> None:
    """Raise DataError where a field of the ID is no scalar, or a float, which has no exact value."""
    for name in fields.ids:
        kind = schema.field(name).type
        if pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind):
            what = f"is of type {kind}; a field of the ID must be text, a whole number, a decimal, a date or a time"
            raise error("schema.field", path=path, field=name, what=what)


def decide_order_type(config: Config, schema: Any, fields: Any, path: str) -> str:
    """Return the type of order values: that of the field, or what the configuration says of text."""
    if fields.order is None:
        return "sequence"
    kind = schema.field(fields.order).type
    found = order_kind(kind, config.order_type)
    if found is None:
        what = f"is of type {kind}, which has no order; it must be a number, a date, a timestamp or text"
        raise error("schema.field", path=path, field=fields.order, what=what)
    if config.order_stated and found != config.order_type:
        raise error(
            "config",
            where="temporal.ordering.field.type",
            faults=f"{config.order_type}, and field {fields.order} is {kind}; leave it out",
        )
    return found


def order_spec(config: Config, fields: Any, order_type: str) -> dict[str, Any]:
    """Describe the order values, for the manifest."""
    if fields.order is None:
        return {"by": "file name"}
    found = {"by": "field", "field": fields.order, "type": order_type}
    return found | ({"null": "lowest"} if config.null_order == "lowest" else {})


def named_layout(layouts: dict[str, Any], side: str, layout: Any) -> str:
    """Return the name of a layout; a new one where there is none like it."""
    for name, known in layouts.items():
        if known == layout and name.partition(" ")[0] == side:
            return name
    name = f"{side} {len(layouts)}"
    layouts[name] = layout
    return name


def read_default(name: str, text: str, kind: Any) -> Any:
    """Read the default of a field."""
    found, bad, why = converted(pa.array([text.encode()], pa.large_binary()), kind, typed=False)
    if bad[0]:
        raise error("config", where=f"default.{name}", faults=f"'{text}' {why}")
    return found[0]
