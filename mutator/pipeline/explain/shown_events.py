"""Rows for people: lines of text as they are, other rows as JSON; and where a row is in its file."""

import pyarrow as pa

from mutator.dataset.file_content import FileContent
from mutator.formats.blocks.avro_rows import shown_record
from mutator.formats.blocks.column_rows import shown_rows
from mutator.formats.files import lines
from mutator.formats.files.avro_schema import expanded, parsed, physical
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.pipeline.explain.key_rows import KeyRow
from mutator.plan.inspect.source import Source
from mutator.plan.reading import Reading


def shown_row(plan: Reading, row: KeyRow) -> bytes:
    """Return a row for people: as it was read, or, where it is no text, as it is written."""
    if plan.rows.block_type == "text":
        return row.row
    if plan.rows.block_type == "avro":
        return shown_record(row.content, parsed(physical(expanded(plan.rows.spec["schema"]))))
    return shown_rows(pa.RecordBatch.from_struct_array(row.written))[0]


def position_of(source: Source, offset: int) -> tuple[int | None, str]:
    """Return the line of a row from 1, and its position in words. Of Parquet the line is the number of the row.

    Text is read up to the row, to count its lines.
    """
    if source.file_format == "parquet":
        return offset + 1, source.position(offset, 0)
    if FILE_FORMATS[source.file_format].typed:
        return None, source.position(offset, 0)
    mark, before, left = b"\r" if source.ending == lines.CR else b"\n", 0, offset
    for block in FileContent(source.path, source.bytes, source.window(), compression=source.compression).blocks():
        before += block[:left].count(mark)
        left -= len(block)
        if left <= 0:
            break
    return before + 1, f"line {before + 1}, byte {offset}"
