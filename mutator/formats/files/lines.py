"""Split delimited text into rows with their byte offsets.

A row is the bytes between two line ends. Lines end at LF or CRLF, and at CR in a file that has CR and no LF. Lines that
this program wrote end at LF alone, so a CR before it belongs to the row.

>>> list(rows([b"a,1\\r\\nb", b",2\\n"], LF))
[(0, b'a,1'), (5, b'b,2')]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mutator.formats.content import Content

LF = "lf"  # LF or CRLF
CR = "cr"
EXACT_LF = "exact lf"

UTF8_BOM = b"\xef\xbb\xbf"

_WIDE = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def wide_encoding(head: bytes) -> str | None:
    """Return the encoding of a text whose line ends are not single bytes, by its byte order mark; None for others.

    Its delimiters and line ends contain a NUL byte, so an ID that begins with the bytes of a mark is no match.
    """
    return next((name for mark, name in _WIDE if head.startswith(mark) and b"\0" in head), None)


def line_end(blocks: Iterable[bytes]) -> str:
    """Return how the lines of a file end: CR or LF; reads up to its first LF.

    >>> line_end([b"a\\rb\\r"]), line_end([b"a\\rb", b"\\n"])
    ('cr', 'lf')
    """
    carriage_return = False
    for block in blocks:
        if b"\n" in block:
            return LF
        carriage_return = carriage_return or b"\r" in block
    return CR if carriage_return else LF


def rows(blocks: Iterable[bytes], ending: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield (byte offset, row) for each line that begins in [start, end).

    blocks: the file's bytes from ``start - 1`` on (from 0 where start is 0), as far as the last of these lines goes.
    The byte before ``start`` decides whether a line begins there. Blank lines are empty rows.
    """
    mark = b"\r" if ending == CR else b"\n"
    offset = max(start - 1, 0)
    skipping = start > 0
    pending: list[bytes] = []  # pieces of a line that spans blocks
    for block in blocks:
        lines = block.split(mark)
        if len(lines) == 1:
            if not skipping:
                pending.append(block)
                continue
            # The row began before this split: another task reads it.
            offset += len(block)
            if end is not None and offset >= end:
                return
            continue
        if pending:
            lines[0] = b"".join((*pending, lines[0]))
        last = lines.pop()
        for line in lines:
            if skipping:
                skipping = False
            else:
                if end is not None and offset >= end:
                    return
                yield offset, line[:-1] if ending == LF and line.endswith(b"\r") else line
            offset += len(line) + 1
        pending = [last] if last else []
    if pending and not skipping and (end is None or offset < end):
        yield offset, b"".join(pending)  # without a line end, a CR belongs to the row


def numbered_rows(content: Content) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield (line number from 1, byte offset, row) for each line of a window; a header or blank line has no row.

    A byte order mark belongs to no row.
    """
    window = content.window
    for number, (offset, row) in enumerate(rows(content.blocks(), window.ending, window.start, window.end), 1):
        is_header = offset < window.header_end
        if offset == 0 and window.bom:
            offset, row = len(UTF8_BOM), row[len(UTF8_BOM) :]
        yield number, offset, None if is_header or not row else row
