"""Split delimited text into rows with their byte offsets.

A row is the bytes between two line ends. Lines end at LF or CRLF, and at CR in a file that has CR and no LF. Lines that
this program wrote end at LF alone, so a CR before it belongs to the row.

>>> list(rows([b"a,1\\r\\nb", b",2\\n"], LF))
[(0, b'a,1'), (5, b'b,2')]
"""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np

from mutator.formats.content import Content, OtherHeader, Window

LF = "lf"  # LF or CRLF
CR = "cr"
EXACT_LF = "exact lf"

UTF8_BOM = b"\xef\xbb\xbf"
CHUNK = 2 << 20  # bytes of a block, unless its lines are longer; its columns fit into the processor's cache

_WIDE = (  # byte order mark, type of a character, encoding
    (b"\xff\xfe\x00\x00", "<u4", "UTF-32"),
    (b"\x00\x00\xfe\xff", ">u4", "UTF-32"),
    (b"\xff\xfe", "<u2", "UTF-16"),
    (b"\xfe\xff", ">u2", "UTF-16"),
)

# Of the first bytes of a file: fewer decide nothing, and text has at most so many control characters. Bytes 1 to 8
# separate fields and nested values in Hive; 28 to 31 are the separators of ASCII. Random bytes have 6 % of the others.
_FEW, _MOST_CONTROLS = 128, 0.04
_SEPARATORS = bytes([*range(1, 9), *range(28, 32)])
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\r\n\f" + _SEPARATORS)

_JSON = re.compile(r"\s*(?:\{\s*(?:\"|\})|\[\s*[\[\]{\"])")
_LITERAL = 10  # more characters than a name such as "false" has
_WORD = re.compile(rb"[\w\x80-\xff]+")  # also of letters beyond ASCII
_NAME = re.compile(rb"[a-zA-Z\x80-\xff]{2}")
AROUND_NAMES = b"\"' \t"  # quotes and blanks
_MARKUP = re.compile(rb"\s*<(?:(\?xml\b)|!doctype html\b|html\b)", re.IGNORECASE)
# The first tag of XML: before another tag, or around one value. Rows may begin with a tag, too.
_TAG = re.compile(
    rb"\s*(?:<!--.*?-->\s*)?<([A-Za-z_][\w.:-]*)(?:\s[^<>]*)?"
    rb"(?:/?>(?:\s*\n\s*)?<(?!/)|>[^<]*</\1\s*>(?:\s*\n\s*)?(?:<|\Z))",
    re.DOTALL,
)


def wide_encoding(head: bytes) -> str | None:
    """Return the encoding of a text whose line ends are not single bytes; None for others.

    An ID may begin with the bytes of a byte order mark, so line ends must be those of the encoding, too. In a text
    without line feeds, any character of Latin-1 counts.

    >>> wide_encoding("a,1\\n".encode("utf-16")), wide_encoding(b"\\xff\\xfe,1\\0\\n")
    ('UTF-16', None)
    """
    for mark, unit, name in _WIDE:
        if head.startswith(mark):
            size = np.dtype(unit).itemsize
            characters = np.frombuffer(head[: len(head) // size * size], unit)
            line_ends = np.isin(characters, (10, 13)) if b"\n" in head else characters < 256
            if line_ends.any():
                return name
    return None


def is_binary(head: bytes, delimiter: bytes | None = None) -> bool:
    """Return whether the first bytes of a file are not those of rows of text, in any encoding.

    Text has few control characters; UTF-8 has any but NUL. delimiter: of the fields, which may be one.

    >>> is_binary(bytes(range(256))), is_binary(b"id\\x0ename\\n" * 20, b"\\x0e"), is_binary(b"\\0")
    (True, False, False)
    """
    if len(head) < _FEW or wide_encoding(head) is not None:
        return False
    controls = _CONTROLS - set(delimiter or b"")
    most = _MOST_CONTROLS * len(head)
    if _count(head, controls) <= most:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        return True
    return _count(head, controls & {0}) > most


def markup(head: bytes) -> str | None:
    """Return which format of values within marks a text has, by its first bytes: JSON, XML or HTML; None for rows.

    JSON begins with an object, or an array of objects, texts or arrays, and has nothing behind it but a line end, or
    another object, as Firehose writes them: a first field may be JSON.

    >>> markup(b'{"id": 1}\\n{"id": 2}\\n'), markup(b'[\\n  {"id": 1,'), markup(b'{"id": 1},7\\n'), markup(b"<html>")
    ('JSON', 'JSON', None, 'HTML')
    """
    head = head.removeprefix(UTF8_BOM)
    if tag := _MARKUP.match(head):
        return "XML" if tag[1] else "HTML"
    if (tag := _TAG.match(head)) and not re.search(rb"</%b\s*>[^\S\n]*[^\s<]" % re.escape(tag[1]), head):
        return "XML"
    text = head.decode("utf-8", "replace")
    if not _JSON.match(text):
        return None
    start = len(text) - len(text.lstrip())
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError as fault:  # the bytes end within a document, or are no JSON
        is_cut = "Unterminated" in str(fault) or getattr(fault, "pos", 0) > len(text.rstrip()) - _LITERAL
        return "JSON" if is_cut else None
    except RecursionError:
        return "JSON"
    return None if text[end:].lstrip(" \t\r")[:1].strip("\n{") else "JSON"


def _count(head: bytes, codes: Iterable[int]) -> int:
    return len(head) - len(head.translate(None, bytes(codes)))


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


def chunks(
    content: Iterable[bytes], window: Window, least: Callable[[], int] = lambda: CHUNK, tail: bytes = b""
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, whole lines) for the lines that begin in a window; the last may have no line end.

    content: the bytes from one before the window on, as far as the last of these lines goes; the byte before the window
    decides whether a line begins there. least: returns the bytes of the next chunk, unless it is the last. tail: added
    to each chunk without another copy.
    """
    mark, start, end = b"\r" if window.ending == CR else b"\n", window.start, window.end
    offset, skipping = max(start - 1, 0), start > 0
    parts: list[bytes] = []
    size = 0
    for block in content:
        if skipping:
            cut = block.find(mark)
            offset += len(block) if cut < 0 else cut + 1
            if end is not None and offset >= end:
                return
            if cut < 0:
                continue
            skipping, block = False, block[cut + 1 :]
        before = offset + size
        parts.append(block)
        size += len(block)
        if end is not None and before + len(block) >= end:
            # The last line that begins before the end has the first line end that is not before its last byte.
            cut = block.find(mark, max(end - 1 - before, 0))
            if cut >= 0:
                yield offset, b"".join((*parts[:-1], memoryview(block)[: cut + 1], tail))
                return
        elif size >= least():
            cut = block.rfind(mark)
            if cut >= 0:
                yield offset, b"".join((*parts[:-1], memoryview(block)[: cut + 1], tail))
                parts = [block[cut + 1 :]]
                offset, size = before + cut + 1, len(parts[0])
    if size:
        yield offset, b"".join((*parts, tail))


def rows(blocks: Iterable[bytes], ending: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield (byte offset, row) for each line that begins in [start, end); blank lines are empty rows.

    blocks: the file's bytes, as ``chunks`` wants them.
    """
    mark = b"\r" if ending == CR else b"\n"
    for offset, chunk in chunks(blocks, Window(ending, start, end), lambda: 1):
        *lines, last = chunk.split(mark)
        for line in lines:
            yield offset, line[:-1] if ending == LF and line.endswith(b"\r") else line
            offset += len(line) + 1
        if last:
            yield offset, last  # without a line end, a CR belongs to the row


def repeats_header(row: bytes, header: bytes, offset: int) -> bool:
    """Return whether a row is the header of its file once more, also with other quotes or blanks around the names.

    Raises OtherHeader if it has the names of the header in another order or case. Names of digits and single letters
    may be values: they are not compared.

    >>> repeats_header(b"id,name", b"id,name", 20), repeats_header(b'"id", "name"', b"id,name", 20)
    (True, True)
    >>> repeats_header(b"2024,2025", b"2025,2024", 20)
    False
    """
    row = row.removeprefix(UTF8_BOM)
    if row == header:
        return True
    plain, (known, words) = row.translate(None, AROUND_NAMES), header_words(header)
    if len(plain) != len(known) or not words:
        return False
    if plain == known:
        return True
    if (
        len(words) > 1
        and sorted(_WORD.findall(plain.lower())) == words
        and sorted(plain.lower()) == sorted(known.lower())
    ):
        raise OtherHeader(offset, row)
    return False


@lru_cache
def header_words(header: bytes) -> tuple[bytes, list[bytes]]:
    """Return a header without quotes and blanks, and its words, sorted and in lower case; none if it has no names."""
    plain = header.translate(None, AROUND_NAMES)
    return plain, sorted(_WORD.findall(plain.lower())) if _NAME.search(header) else []


def numbered_rows(content: Content) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield (line number from 1, byte offset, row) for each line of a window; a header or blank line has no row.

    A byte order mark belongs to no row.
    """
    window = content.window
    for number, (offset, row) in enumerate(rows(content.blocks(), window.ending, window.start, window.end), 1):
        is_header = offset < window.header_end
        if offset == 0 and window.bom:
            offset, row = len(UTF8_BOM), row[len(UTF8_BOM) :]
        if window.header and not is_header:
            is_header = repeats_header(row, window.header, offset)
        yield number, offset, None if is_header or not row else row
