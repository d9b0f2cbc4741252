"""The fields of the rows, by format. Other environments import this module, so it needs only the standard library."""

from pathlib import Path

__all__ = [
    "CHANGED_FIELDS",
    "DIALECTS",
    "FEED_FIELDS",
    "MASTER_FIELDS",
    "PARTITIONED_FEED_FIELDS",
    "PARTITIONED_MASTER_FIELDS",
    "PARTITIONED_SETTINGS",
    "PATCHED",
    "PATCHED_FIELDS",
    "SETTINGS",
    "TYPES",
    "format_of",
    "is_text",
]

MASTER_FIELDS = ("id", "name", "stock", "price", "time")
# Of the master that change files of dialects are merged into.
CHANGED_FIELDS = ("id", "name", "stock", "price", "changed")
# Of the master that patches are merged into. ID and time are in each patch.
PATCHED_FIELDS = ("id", "name", "stock", "price", "note", "time")
FEED_FIELDS = (*MASTER_FIELDS, "op")
# In a partitioned master each row also has its store, by which the directories are named.
PARTITIONED_MASTER_FIELDS = ("id", "store", *MASTER_FIELDS[1:])
PARTITIONED_FEED_FIELDS = (*PARTITIONED_MASTER_FIELDS, "op")

# Their types in Parquet and Avro, as SQL types.
TYPES = {
    "id": "string",
    "store": "int",
    "name": "string",
    "stock": "long",
    "price": "decimal(9,2)",
    "note": "string",
    "time": "long",
    "op": "string",
    "changed": "timestamp_ntz",
    "seq": "string",
}

SUFFIXES = {".parquet": "parquet", ".orc": "orc", ".avro": "avro"}

_OPS = {"op.code.in.master": "false", "deleted.op.code": "D"}
_BY_NAME = {
    "id.field.ordinals": "id",
    "temporal.ordering.field.ordinal": "time",
    "op.code.field.ordinal": "op",
    **_OPS,
}
# mutator's settings for these rows, by format.
SETTINGS = {
    "text": {
        "id.field.ordinals": "0",
        "temporal.ordering.field.ordinal": "4",
        "op.code.field.ordinal": "5",
        "field.delim.regex": ",",
        **_OPS,
    },
    "parquet": _BY_NAME,
    "avro": _BY_NAME,
}
# mutator's settings for change files, by kind (bench.dialects).
DIALECTS = {
    "debezium-json": {"key": "id", "feed.dialect": "debezium-json", "feed.time.unit": "us"},
    "debezium-json schema": {"key": "id", "feed.dialect": "debezium-json"},
    "aws-dms": {
        "key": "id",
        "feed.dialect": "aws-dms",
        "header": "true",
        "order_by": "seq",
        "order_type": "string",
        "order.keep": "false",
        "null.order": "lowest",
    },
    "json": {"key": "id", "order_by": "changed", "op": "op"},
}
# mutator's settings for feeds of patches, and of upserts beside them (bench.patches).
PATCHED = {"key": "id", "order_by": "time"}
PARTITIONED_SETTINGS = {
    "text": SETTINGS["text"]
    | {"partitioned.by": "store=1", "temporal.ordering.field.ordinal": "5", "op.code.field.ordinal": "6"},
    "parquet": _BY_NAME | {"partitioned.by": "store"},
}


def format_of(directory: Path) -> str:
    """Return the format of a master or feed, judged by the name of one of its files."""
    return next((SUFFIXES.get(path.suffix, "text") for path in directory.rglob("*") if path.is_file()), "text")


def is_text(directory: Path) -> bool:
    """Return whether a master or feed is text."""
    return format_of(directory) == "text"
