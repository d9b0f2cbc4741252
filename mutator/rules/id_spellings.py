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
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")
_UUID = re.compile(r"(?:urn:uuid:)?\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?")
_TEXTS = {"text", "bytes"}  # types of ID fields, as manifests have them; others have one spelling
_MOST_BYTES = 64  # of a value that has other spellings
_HEX = 32  # digits of a UUID
# Joiners, marks of the direction of writing, and variation selectors.
_FORMATTING = "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\ufeff"
INVISIBLE = dict.fromkeys([*map(ord, _FORMATTING), *range(0x2060, 0x2070), *range(0xFE00, 0xFE10)])
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


def have_spellings(key_spec: Mapping[str, Any]) -> bool:
    """Return whether all ID fields are text, which may have several spellings. key_spec: as a manifest has it.

    >>> have_spellings({"types": ["text"]}), have_spellings({"types": ["text", "int"]})
    (True, False)
    """
    return _TEXTS.issuperset(key_spec["types"])


def others_of(key: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
    """Return IDs that differ from an ID in the spelling of one value.

    >>> others_of((b"Ann", b"7.0"))[:3]
    [(b'ann', b'7.0'), (b'ANN', b'7.0'), (b'Ann', b'7')]
    """
    if any(len(value) > _MOST_BYTES for value in key):
        return []
    return [(*key[:at], other, *key[at + 1 :]) for at, value in enumerate(key) for other in other_spellings(value)]


def other_spellings(value: bytes) -> list[bytes]:
    """Return usual spellings of an ID value besides its own, the most usual first; not every possible one.

    >>> other_spellings(b"11.0")[:3], other_spellings(b"007")[:1], other_spellings(b"Ann")
    ([b'11', b'11.00', b'+11'], [b'7'], [b'ann', b'ANN'])
    """
    return [other for other in dict.fromkeys(_spellings(value)) if other != value]


def _spellings(value: bytes) -> Iterator[bytes]:
    plain = plain_id(value)
    yield plain
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return
    if len(plain) == _HEX and _UUID.fullmatch(text.strip().lower()):
        digits = plain.decode()
        dashed = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        yield from (spelling.encode() for spelling in (dashed, dashed.upper(), digits.upper()))
    elif _NUMBER.fullmatch(text.strip()):
        number = plain.decode()
        point = "" if "." in number else "."
        yield from (f"{number}{point}0".encode(), f"{number}{point}00".encode(), f"+{number}".encode())
    else:
        yield text.strip().encode()
        yield from (spelling.encode() for spelling in (text.lower(), text.upper()))
        if not text.isascii():
            yield from (unicodedata.normalize(form, text).encode() for form in ("NFC", "NFD"))
