"""The file formats: what is known of each without the libraries that read and write it.

``formats.files.file_formats`` has the classes that do. The names are the values of ``input.format``.

>>> [name for name, known in FORMATS.items() if known.stores_schema]
['avro', 'parquet', 'orc']
"""

from collections.abc import Mapping
from typing import NamedTuple


class Format(NamedTuple):
    """What is known of a file format."""

    title: str  # in messages
    suffix: str = ""  # of the files that runs write; "": the format is only read
    endings: tuple[str, ...] = ()  # of names that announce it
    magic: bytes = b""  # the first bytes of its files
    delimited: bool = False  # rows are lines, with delimiters between their fields
    stores_schema: bool = False  # files name and type their fields, so none has 0 bytes; other files are lines
    splittable: bool = True  # tasks may read parts of a file
    infers_types: bool = False  # files name their fields, and the types are those that fit the first values


FORMATS: Mapping[str, Format] = {
    "text": Format("delimited text", ".txt", delimited=True),
    # Whether a line end of CSV is within quotes depends on all bytes before it.
    "csv": Format("CSV", ".csv", (".csv",), delimited=True, splittable=False),
    "escaped": Format("escaped text", ".txt", delimited=True),
    "json": Format("JSON Lines", endings=(".json", ".jsonl", ".ndjson"), infers_types=True),
    "avro": Format("Avro", ".avro", (".avro",), b"Obj\x01", stores_schema=True),
    "parquet": Format("Parquet", ".parquet", (".parquet",), b"PAR1", stores_schema=True),
    "orc": Format("ORC", ".orc", (".orc",), b"ORC", stores_schema=True),
}
BY_TITLE = {known.title: name for name, known in FORMATS.items()}


def format_of_suffix(name: str) -> str | None:
    """Return the format named by the suffix of an uncompressed file; None for other suffixes.

    >>> format_of_suffix("ups_1.CSV"), format_of_suffix("ups_1")
    ('csv', None)
    """
    suffix = "." + name.lower().rpartition(".")[2]
    return next((name for name, known in FORMATS.items() if suffix in known.endings), None)
