"""The block types by name."""

from mutator.formats.blocks.avro_rows import AvroBlockType
from mutator.formats.blocks.column_rows import ColumnBlockType
from mutator.formats.blocks.contract import BlockType
from mutator.formats.blocks.text_rows import TextBlockType

BLOCK_TYPES: dict[str, BlockType] = {"text": TextBlockType(), "columns": ColumnBlockType(), "avro": AvroBlockType()}
