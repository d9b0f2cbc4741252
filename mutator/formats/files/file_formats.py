"""The classes of the file formats by name, the keys of ``rules.known_formats.FORMATS``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.registry import Registry

if TYPE_CHECKING:
    from mutator.formats.files.file_format import FileFormat


@cache
def _text() -> FileFormat:
    from mutator.formats.files.csv import TextFiles

    return TextFiles()


@cache
def _csv() -> FileFormat:
    from mutator.formats.files.csv import CsvFiles

    return CsvFiles()


@cache
def _escaped() -> FileFormat:
    from mutator.formats.files.escaped import EscapedFiles

    return EscapedFiles()


@cache
def _json() -> FileFormat:
    from mutator.formats.files.json_lines import JsonLinesFiles

    return JsonLinesFiles()


@cache
def _avro() -> FileFormat:
    from mutator.formats.files.avro import AvroFiles

    return AvroFiles()


@cache
def _parquet() -> FileFormat:
    from mutator.formats.files.parquet import ParquetFiles

    return ParquetFiles()


@cache
def _orc() -> FileFormat:
    from mutator.formats.files.orc import OrcFiles

    return OrcFiles()


FILE_FORMATS: Registry[FileFormat] = Registry(
    {
        "text": _text,
        "csv": _csv,
        "escaped": _escaped,
        "json": _json,
        "avro": _avro,
        "parquet": _parquet,
        "orc": _orc,
    }
)


def codec_of(file_format: str, codec: str | None) -> str | None:
    """Return the library's name for a codec of ``output.codec``; None stays None. Raises ConfigError.

    >>> codec_of("avro", "gzip")
    'deflate'
    """
    codecs = FILE_FORMATS[file_format].codecs
    if codec is not None and codec not in codecs:
        faults = f"{codec} is not a codec of {file_format}: {', '.join(codecs)}"
        raise error("config", where=setting("output.codec"), faults=faults)
    return None if codec is None else codecs[codec]
