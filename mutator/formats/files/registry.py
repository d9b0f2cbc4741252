"""The file formats by name."""

from mutator.errors import error
from mutator.formats.files.avro import AvroFiles
from mutator.formats.files.contract import FileFormat
from mutator.formats.files.csv import CsvFiles, TextFiles
from mutator.formats.files.escaped import EscapedFiles
from mutator.formats.files.orc import OrcFiles
from mutator.formats.files.parquet import ParquetFiles

FILE_FORMATS: dict[str, FileFormat] = {
    "text": TextFiles(),
    "csv": CsvFiles(),
    "escaped": EscapedFiles(),
    "avro": AvroFiles(),
    "parquet": ParquetFiles(),
    "orc": OrcFiles(),
}
_SUFFIXES = {name for name, file_format in FILE_FORMATS.items() if file_format.suffix == f".{name}"}


def codec_of(file_format: str, codec: str | None) -> str | None:
    """Return the library's name for a codec of ``output.codec``; None stays None. Raises ConfigError.

    >>> codec_of("avro", "gzip")
    'deflate'
    """
    codecs = FILE_FORMATS[file_format].codecs
    if codec is not None and codec not in codecs:
        faults = f"{codec} is not a codec of {file_format}: {', '.join(codecs)}"
        raise error("config", where="output.codec", faults=faults)
    return None if codec is None else codecs[codec]


def format_of_suffix(name: str) -> str | None:
    """Return the format named by the suffix of an uncompressed file; None for other suffixes.

    >>> format_of_suffix("ups_1.CSV"), format_of_suffix("ups_1")
    ('csv', None)
    """
    suffix = name.lower().rpartition(".")[2]
    return suffix if suffix in _SUFFIXES else None
