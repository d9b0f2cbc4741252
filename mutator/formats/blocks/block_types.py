"""The block types by name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.registry import Registry

if TYPE_CHECKING:
    from mutator.formats.blocks.block_type import BlockType


@cache
def _text() -> BlockType:
    from mutator.formats.blocks.text_rows import TextBlockType

    return TextBlockType()


@cache
def _columns() -> BlockType:
    from mutator.formats.blocks.column_rows import ColumnBlockType

    return ColumnBlockType()


@cache
def _avro() -> BlockType:
    from mutator.formats.blocks.avro_rows import AvroBlockType

    return AvroBlockType()


BLOCK_TYPES: Registry[BlockType] = Registry({"text": _text, "columns": _columns, "avro": _avro})


def load_quick() -> None:
    """Import the modules of the block types that need no library beside numpy and pyarrow, and of Parquet files."""
    for name in ("text", "columns"):
        BLOCK_TYPES[name]
    FILE_FORMATS["parquet"]


def load_all() -> None:
    """Import the modules of all block types and file formats."""
    list(BLOCK_TYPES.values())
    list(FILE_FORMATS.values())
