"""Avro files of messages that are there as JSON, as the sinks of Kafka Connect write them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from typing import Any

import fastavro

from mutator.formats.files.avro_schema import expanded, parsed, physical

_BLOCK = 500  # bytes, so that small files have several blocks


def avro_file(schema: Any, messages: Iterable[Any], codec: str = "deflate") -> bytes:
    """Return a container. messages: of JSON, where bytes are base64; null is left out, as sinks do."""
    plain, made = physical(expanded(schema)), io.BytesIO()
    rows = [_value(plain, one) for one in messages if one is not None]
    fastavro.writer(made, parsed(schema), rows, codec=codec, sync_interval=_BLOCK, strict_allow_default=True)
    return made.getvalue()


def _value(avro: Any, value: Any) -> Any:
    if isinstance(avro, list):
        (other,) = [one for one in avro if one != "null"]
        return None if value is None else _value(other, value)
    if avro == "bytes":
        return base64.b64decode(value)
    if isinstance(avro, dict) and avro["type"] == "record":
        return {one["name"]: _value(one["type"], value.get(one["name"])) for one in avro["fields"]}
    if isinstance(avro, dict) and avro["type"] == "array":
        return [_value(avro["items"], one) for one in value]
    return value
