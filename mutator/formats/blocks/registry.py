"""The block types: how rows travel in memory, a class each."""

from mutator.formats.blocks.avro_rows import AvroFormat
from mutator.formats.blocks.column_rows import ColumnsFormat
from mutator.formats.blocks.contract import Format
from mutator.formats.blocks.text_rows import TextFormat

__all__ = ["FORMATS"]

FORMATS: dict[str, Format] = {"text": TextFormat(), "columns": ColumnsFormat(), "avro": AvroFormat()}
