"""The kinds of files that hold rows with named fields, and how one is recognised."""

from __future__ import annotations

from mutator.formats.avro_files import AvroFiles
from mutator.formats.delimited import CsvFiles, TextFiles
from mutator.formats.orc_files import OrcFiles
from mutator.formats.parquet_files import ParquetFiles
from mutator.formats.tabular import Kind

__all__ = ["KINDS", "NAMES", "kind_of"]

KINDS: dict[str, Kind] = {
    "text": TextFiles(),
    "csv": CsvFiles(),
    "avro": AvroFiles(),
    "parquet": ParquetFiles(),
    "orc": OrcFiles(),
}
NAMES = tuple(KINDS)

_MAGIC = ((b"PAR1", "parquet"), (b"ORC", "orc"), (b"Obj\x01", "avro"))


def kind_of(name: str, head: bytes) -> str:
    """Return the kind of a file by its first bytes, and by its name where they do not tell. name: uncompressed.

    >>> kind_of("ups_1.txt", b"PAR1"), kind_of("ups_1.CSV", b"1,2"), kind_of("ups_1", b"1,2")
    ('parquet', 'csv', 'text')
    """
    found = next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
    return found or promised(name) or "text"


def promised(name: str) -> str | None:
    """Return the kind that a file's suffix promises; None for none."""
    suffix = name.lower().rpartition(".")[2]
    return suffix if suffix in KINDS else None
