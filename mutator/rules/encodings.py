"""Text in other encodings than UTF-8: transcoded block by block while it is read.

A byte that is no character of its encoding becomes three bytes that are not UTF-8, those of the lone surrogate U+DC00
plus the byte. So its row is found and rejected, and the bytes of a row can be restored.
"""

import codecs
import re
from collections.abc import Iterable, Iterator

UTF8 = "utf-8"
# Two or four bytes for each character: a mark at the beginning shows their order.
_WIDE = ("utf-16", "utf-32")
_BOMS = {
    ("utf-16", codecs.BOM_UTF16_LE): "utf-16-le",
    ("utf-16", codecs.BOM_UTF16_BE): "utf-16-be",
    ("utf-32", codecs.BOM_UTF32_LE): "utf-32-le",
    ("utf-32", codecs.BOM_UTF32_BE): "utf-32-be",
}
_LOST = re.compile(rb"(?:\xed[\xb0-\xb3][\x80-\xbf])+")
# A character means something else after some bytes, so that the bytes of a row do not follow from its text.
_STATEFUL = ("hz", "iso2022", "utf-7", "unicode-escape", "raw-unicode-escape")
_ERRORS = "mutator.bytes"  # how codecs handle bytes that are no characters


def _as_surrogates(fault: UnicodeError) -> tuple[str, int]:
    if not isinstance(fault, UnicodeDecodeError):
        raise fault
    return "".join(chr(0xDC00 + byte) for byte in fault.object[fault.start : fault.end]), fault.end


codecs.register_error(_ERRORS, _as_surrogates)


def transcoded(blocks: Iterable[bytes], encoding: str, *, cut: bool = False) -> Iterator[bytes]:
    """Yield blocks of text as UTF-8; ``lost`` finds what is not text. cut: they may end within a character.

    >>> b"".join(transcoded([b"caf", b"\\xe9"], "cp1252")).decode()
    'caf\u00e9'
    """
    decoder = codecs.getincrementaldecoder(encoding)(_ERRORS)
    for block in blocks:
        if text := decoder.decode(block):  # readers would take an empty block for a line
            yield text.encode(UTF8, "surrogatepass")
    if not cut and (text := decoder.decode(b"", True)):
        yield text.encode(UTF8, "surrogatepass")


def lost(row: bytes) -> bytes | None:
    """Return the first bytes of a transcoded row that are no characters of its encoding; None if all are.

    >>> lost(b"".join(transcoded([b"7,\\x81"], "cp1252")))
    b'\\x81'
    """
    found = _LOST.search(row)
    return None if found is None else _bytes(found[0])


def has_lost(content: bytes) -> bool:
    """Return whether transcoded bytes have any that are no characters of their encoding."""
    return _LOST.search(content) is not None


def readable(row: bytes, encoding: str) -> bytes:
    """Return a transcoded row with the bytes that are no characters as they were."""
    return row if encoding == UTF8 else _LOST.sub(lambda found: _bytes(found[0]), row)


def restored(row: bytes, encoding: str) -> bytes:
    """Return the bytes that a transcoded row has in its file.

    >>> restored("caf\u00e9".encode(), "utf-16-le")
    b'c\\x00a\\x00f\\x00\\xe9\\x00'
    """
    if encoding == UTF8:
        return row
    parts, at = [], 0
    for found in _LOST.finditer(row):
        parts += [_encoded(row[at : found.start()], encoding), _bytes(found[0])]
        at = found.end()
    return b"".join((*parts, _encoded(row[at:], encoding)))


def _encoded(text: bytes, encoding: str) -> bytes:
    return text.decode(UTF8, "replace").encode(encoding, "replace") if text else b""


def _bytes(surrogates: bytes) -> bytes:
    return bytes(ord(one) - 0xDC00 for one in surrogates.decode(UTF8, "surrogatepass"))


def exact(encoding: str, head: bytes) -> str:
    """Return an encoding with the byte order of a file. head: its first bytes.

    >>> exact("utf-16", b"\\xfe\\xff\\0a"), exact("utf-16", b"a\\0"), exact("cp1252", b"a")
    ('utf-16-be', 'utf-16-le', 'cp1252')
    """
    family = encoding[:6]
    if family not in _WIDE:
        return encoding
    marked = (name for (of, mark), name in _BOMS.items() if of == family and head.startswith(mark))
    return next(marked, encoding if encoding != family else f"{family}-le")


def contradiction(encoding: str, head: bytes) -> str | None:
    """Return the encoding that the first bytes of a file have if they cannot be in the one that a setting names.

    Text of single bytes is hardly ever valid UTF-8 by chance, unless it is ASCII. Text of two or four bytes has zeros.

    >>> contradiction("cp1252", "caf\u00e9".encode()), contradiction("cp1252", b"cafe"), contradiction("utf-16", b"a,1")
    ('UTF-8', None, 'not UTF-16')
    """
    if encoding[:6] in _WIDE:
        return None if b"\0" in head or not head else f"not {encoding[:6].upper()}"
    if encoding == UTF8 or head.isascii() or not _has_single_bytes(encoding):
        return None
    return "UTF-8" if is_utf8(head) else None


def is_utf8(head: bytes) -> bool:
    """Return whether the first bytes of a file are UTF-8; the last character may be cut."""
    try:
        codecs.getincrementaldecoder(UTF8)().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _has_single_bytes(encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)
    return all(len(decoder("replace").decode(bytes([byte]))) == 1 for byte in range(256))


def parse_encoding(text: str) -> str:
    """Return the name of a codec of Python; raises ValueError if it is unknown, or does not keep the bytes of rows.

    >>> parse_encoding("UTF8"), parse_encoding("Latin-1"), parse_encoding("windows-1252")
    ('utf-8', 'iso8859-1', 'cp1252')
    """
    expected = "must be an encoding that Python knows, such as utf-8, utf-16, latin-1 or cp1252"
    try:
        name = codecs.lookup(text.strip()).name
        if name in ("utf-8", "utf-8-sig"):
            return UTF8
        plain = "".join(map(chr, range(32, 127))) + "\t\r\n"
        decoder = codecs.getincrementaldecoder(name)()
        # One byte after the other, as a file may be cut anywhere; each part of a row can be encoded alone.
        found = "".join(decoder.decode(bytes([byte])) for byte in plain.encode(name)) + decoder.decode(b"", True)
        alone = "".join(one.encode(exact(name, b"")).decode(exact(name, b"")) for one in plain)
    except (LookupError, UnicodeError, TypeError, ValueError, AttributeError):
        raise ValueError(expected) from None
    if (found, alone) != (plain, plain) or name.startswith(_STATEFUL):
        raise ValueError(expected)
    return name
