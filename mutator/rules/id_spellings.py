"""Spellings of one ID: numbers, UUIDs and texts that people and programs read as the same.

>>> {plain_id(text.encode()) for text in ("11", "011", "11.0", "+11", "1.1e1", '"11"', " 11")}
{b'11'}
>>> plain_id(b"6F9619FF-8B86-D011-B42D-00CF4FC964FF") == plain_id(b"{6f9619ff8b86d011b42d00cf4fc964ff}")
True
>>> plain_id(b"9" * 29 + b"1") == plain_id(b"9" * 29 + b"2")
False
"""

import re
import unicodedata
from decimal import Context, Decimal

_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")
_UUID = re.compile(r"(?:urn:uuid:)?\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?")
INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_EXACT = Context(prec=150)
_BLANKS = re.compile(r"\s+")


def plain_id(value: bytes) -> bytes:
    """Return an ID value without what differs between spellings.

    These are blanks and quotes around it, case, leading zeros, the form of a number or UUID, invisible characters, and
    the composition of letters with accents.
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return value
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.translate(INVISIBLE))
    text = _BLANKS.sub(" ", text).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    text = text.lower()
    if found := _UUID.fullmatch(text):
        return "".join(found.groups()).encode()
    if _NUMBER.fullmatch(text):
        number = Decimal(text)
        return format(number.normalize(_EXACT) if number else Decimal(0), "f").encode()
    return _ZEROS.sub("", text).encode()
