"""What every reader and writer of rows shares: the content of a file, rejects, and the exceptions for bad content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from mutator.errors import MutatorError, error
from mutator.errors.parts import quoted_value, setting
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.encodings import UTF8, lost

if TYPE_CHECKING:
    from mutator.rules.carried_fields import CarriedValues
    from mutator.rules.envelope import Envelope

_SPLIT = f"split the file before that row; or, if it is a record, set {setting('header.check=false')}"


class NotReadable(ValueError):
    """The content is not of its format, or a row that was valid when it was written is damaged; the text says why."""


class EncodingFault(NotReadable):
    """The header of a file is not in its encoding."""


class HeaderFault(NotReadable):
    """The header of an intact file does not name each field; the text says why."""


class OtherForm(NotReadable):
    """An intact file has another form than files of its format; the text says which, and the cure how to change it."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(what)
        self.cure = cure


class Unfit(NotReadable):
    """An intact row cannot be converted to what this run needs; the text says why."""


class OtherHeader(NotReadable):
    """An intact file goes on with a header whose fields have another order or case; the text says where."""

    def __init__(self, offset: int, row: bytes) -> None:
        """Describe a row at a byte offset."""
        shown = quoted_value(row, 60)
        super().__init__(f"the row at byte {offset} has the names of the header in another order or case ({shown})")


def unreadable(path: str, fault: Exception) -> MutatorError:
    """Return the error of an input file in which a reader found a fault."""
    if isinstance(fault, OtherForm):
        return error("format", path=path, what=fault, cure=fault.cure)
    if not isinstance(fault, OtherHeader):
        return error("damaged", path=path, why=fault)
    what = f"{fault}, as in files that were joined, so the values after it would be read as those of other fields"
    return error("format", path=path, what=what, cure=_SPLIT)


# Fields of a file, and the names that they have in this run. A member of a record is preceded by the fields around it.
Renames = tuple[tuple[tuple[str, ...], str], ...]
# Fields that a file has in the names of its directories alone, and their values as text. All its rows have these.
PathValues = tuple[tuple[str, str | None], ...]


class KeyFile(NamedTuple):
    """A file with the keys of the messages in another one: that in a line is of the message in the same line."""

    content: Content
    file_format: str
    messages: Content  # of the other file: reading it again changes no checksum


class Wrapped(NamedTuple):
    """The envelope that the rows of a file are still in."""

    envelope: Envelope  # makes them so
    schema: Any  # pa.Schema of the file itself
    keys: KeyFile | None = None
    carried: CarriedValues | None = None  # which rows get fields that they do not send


@dataclass(frozen=True)
class Window:
    """The part of a file to read, the rows that begin in [start, end), and what its bytes do not say of them."""

    ending: str = ""  # of lines, as ``files.lines`` names them
    start: int = 0  # byte offset
    end: int | None = None  # byte offset; None: the end of the content
    bom: bool = False  # the file begins with a byte order mark
    header_end: int = 0  # byte offset; lines that begin before it are headers
    renamed: Renames = ()
    header: bytes = b""  # equal lines are headers as well, as in a file that was made of others
    in_path: PathValues = ()
    wrapped: Wrapped | None = None
    encoding: str = UTF8  # of the file; its content is UTF-8, and a row with other bytes cannot be read


class Content(Protocol):
    """The uncompressed content of a file, and the part of it to read."""

    @property
    def window(self) -> Window:
        """The part to read."""

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes from one before the window, or from 0, up to the end of the file."""

    def file(self) -> BinaryIO:
        """Open the whole content as a seekable stream."""


class Reject(NamedTuple):
    """A row that cannot be read as a record."""

    offset: int  # as the reader counts; grows from row to row
    line: int  # within the split, from 1
    reason: str
    row: bytes  # for a person: the row's own bytes, or JSON where these are not text


def undecodable(row: bytes, encoding: str) -> str:
    """Return the reason of a row with bytes that are no characters of its file's encoding."""
    return f"has bytes that are not {encoding} (0x{(lost(row) or b'')[:2].hex()})"


class Writer(Protocol):
    """Writes the rows of one file."""

    def write(self, rows: Any) -> None:
        """Write the next rows, a pa.Array of the block type's own row type."""

    def close(self) -> None:
        """Write the rows and footers that are still in memory. The stream stays open."""

    @property
    def rows(self) -> int:
        """The number of rows, counted in the bytes or arrays that were written."""

    @property
    def rows_by_chunk(self) -> Sequence[int]:
        """The number of rows that begin in each checksum chunk of the file."""
