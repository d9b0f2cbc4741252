"""Bytes to rows and back: a module a format, one registry."""

from mutator.formats.avro_blocks import AvroFormat
from mutator.formats.block import Format
from mutator.formats.columns import ColumnsFormat
from mutator.formats.text_blocks import TextFormat

__all__ = ["FORMATS"]

FORMATS: dict[str, Format] = {"text": TextFormat(), "columns": ColumnsFormat(), "avro": AvroFormat()}
