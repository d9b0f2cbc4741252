"""How the rows look. Nothing but names, for contenders with an environment of their own import it, too."""

__all__ = ["FEED_FIELDS", "MASTER_FIELDS", "SETTINGS"]

MASTER_FIELDS = ("id", "name", "stock", "price", "time")
FEED_FIELDS = (*MASTER_FIELDS, "op")

# How mutator is told about these rows.
SETTINGS = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "4",
    "op.code.field.ordinal": "5",
    "op.code.in.master": "false",
    "deleted.op.code": "D",
    "field.delim.regex": ",",
}
