"""Source: one input file, as the survey or a manifest describes it."""

import posixpath
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mutator.dataset.file_entry import FileEntry
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import PathValues, Renames, Window, Wrapped
from mutator.formats.files import lines
from mutator.formats.files.file_format import Dialect, FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules.encodings import UTF8
from mutator.rules.known_formats import FORMATS, Format
from mutator.rules.partition_paths import directory_of

_Bytes = bytes  # in ``Source``, ``bytes`` is a size


@dataclass(frozen=True)
class Source:
    """One input file."""

    path: str
    name: str
    bytes: int
    sequence: int | None = None
    compression: str | None = None
    file_format: str = "text"  # a key of ``FORMATS``
    file_schema: FileSchema | None = None  # None: delimited text without rows
    dialect: Dialect = field(default_factory=Dialect)  # of delimited files
    encoding: str = UTF8  # of delimited files, with its byte order
    ending: str = lines.LF
    bom: bool = False  # begins with a UTF-8 byte order mark, which is not part of the first row
    header_end: int = 0  # lines that begin before this offset are headers
    width: int | None = None  # number of fields of the first row; None: the file has no rows
    header_line: _Bytes = b""  # the last one with any text; "" if equal lines are rows
    header: tuple[tuple[str, ...], ...] = ()  # of delimited text: the values of each header line, see ``headers``
    quotes: bool = False  # named .csv and read as delimited text, with quotes in its first block
    is_header_alone: bool = False  # a header with names, and no row
    renamed: Renames = ()
    in_path: PathValues = ()
    wrapped: Wrapped | None = field(default=None, hash=False)  # its rows are not rows of records yet
    is_table: bool = False  # has rows of a table in memory, whose order and name do not belong to the data
    part: FileEntry | None = None  # the file's entry in the manifest
    order_part: FileEntry | None = None  # the entry of the file with the sequences of its rows
    # Of delimited files: their first lines, uncompressed and whole; only the driver has them
    head: _Bytes = field(default=b"", repr=False, compare=False)
    stored: Mapping[str, Any] = field(default_factory=dict, hash=False)  # how the file was written, by the manifest

    @property
    def format(self) -> Format:
        """What is known of its file format."""
        return FORMATS[self.file_format]

    @property
    def precedence_name(self) -> _Bytes:
        """The base name that decides between rows; that of a table in memory is lower than every file's."""
        return b"" if self.is_table else self.name.encode("utf-8", "surrogateescape")

    @property
    def merged_as(self) -> str:
        """The name by which manifests know a feed file, with the fields in its path: others may have equal bytes."""
        names, values = zip(*self.in_path, strict=True) if self.in_path else ((), ())
        return posixpath.join(directory_of(names, values), self.name)

    @property
    def shown_path(self) -> str:
        """The path in reports; the name of a table in memory, whose path is that of a temporary file."""
        return self.name if self.is_table else self.path

    @property
    def checksum(self) -> str | None:
        """The checksum in the manifest."""
        return None if self.part is None else self.part.checksum

    @property
    def bucket(self) -> int | None:
        """The bucket in the manifest."""
        return None if self.part is None else self.part.bucket

    @property
    def order_path(self) -> str | None:
        """The path of the file with the sequences of its rows."""
        if self.part is None or self.order_part is None:
            return None
        return self.path.removesuffix(self.part.path) + self.order_part.path

    @property
    def is_packed(self) -> bool:
        """Return whether its rows take far more memory than its bytes: it is compressed, or its fields have types."""
        return self.compression is not None or self.format.stores_schema

    def window(self, start: int = 0, end: int | None = None) -> Window:
        """Return the window of the rows that begin in [start, end). end: None for the end of the content."""
        facts = (self.bom, self.header_end, self.renamed, self.header_line, self.in_path, self.wrapped, self.encoding)
        return Window(self.ending, start, end, *facts)

    def position(self, offset: int, line: int) -> str:
        """Return the position of a row, for messages. line: 0 if it is not known."""
        if self.is_table and not line:
            return "a row"
        return FILE_FORMATS[self.file_format].position(offset, line)
