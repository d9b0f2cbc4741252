r"""Split a row of bytes at the delimiter that ``field.delim.regex`` describes.

A single character means itself, even if it is special in a regex. Any longer text is a Java regex, as in Hadoop jobs.
A regex that matches only one fixed text becomes that text, because ``bytes.split`` is far faster than any pattern.

>>> parse("|").split(b"a|b||")
[b'a', b'b', b'', b'']
>>> parse(r"\s*;\s*").split(b"a ; b;c")
[b'a', b'b', b'c']

Rows are bytes, and Java's strings are characters. So every set of characters becomes the byte sequences of its members
in UTF-8. A set of all but some characters also contains each stray byte, which is part of no UTF-8 character. A match
therefore never begins or ends inside a character, and damaged rows keep every byte. (Java may cut a character above
U+FFFF in two if a look-behind fails before it; this module does not.)

Flags disappear in translation: a set under ``(?i)`` contains both cases. Capturing groups stay only if a back reference
needs them. Syntax that Java and Python, or two versions of Java, read differently is refused.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.delimiter.java_regex import translate
from mutator.rules.delimiter.utf8_classes import char_set, charset

MAX_LENGTH = 1000

# Usual delimiters: name in messages, text in field.delim.regex, and how probable one is before anything is read.
USUAL = {
    b",": ("a comma", ",", 1.0),
    b";": ("a semicolon", ";", 1.0),
    b"\t": ("a tab", r"\t", 1.0),
    b"|": ("a vertical bar", "|", 1.0),
    b"\x01": ("byte 1 (Ctrl-A)", r"\u0001", 1.0),
    b"\x1f": ("byte 31", r"\u001f", 1.0),
    b"~": ("a tilde", "~", 0.8),
    b"^": ("a circumflex", "^", 0.8),
    b":": ("a colon", ":", 0.4),
    b"#": ("a hash", "#", 0.3),
    b"!": ("an exclamation mark", "!", 0.3),
    b".": ("a full stop", ".", 0.2),
    b"/": ("a slash", "/", 0.2),
    b" ": ("a blank", " ", 0.2),
}


@dataclass(frozen=True)
class Delimiter:
    """The delimiter of fields: `literal` bytes, or else a `pattern`; `text` is the configured text."""

    literal: bytes | None
    pattern: bytes | None  # the source, not the compiled object, so that a pickle stays small
    text: str

    def split(self, row: bytes) -> list[bytes]:
        r"""Return all fields, the empty ones too, like Java's ``row.split(regex, -1)``.

        >>> parse(r"\|").split(b"a||")
        [b'a', b'', b'']
        """
        if self.literal is not None:
            return row.split(self.literal)
        assert self.pattern is not None
        return _splitter(self.pattern)(row)


def parse(text: str) -> Delimiter:
    """Return the delimiter that a character or a Java regex describes.

    Raises ValueError; its message names the fault, its position and the cure.

    >>> parse("[|]")
    Delimiter(literal=b'|', pattern=None, text='[|]')
    """
    if not text:
        raise ValueError("the delimiter is empty: give one character or a Java regex")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the delimiter has {len(text)} characters: give at most {MAX_LENGTH}")
    if re.search("[\ud800-\udfff]", text):
        raise ValueError("the delimiter has half a surrogate pair, which UTF-8 cannot encode: give whole characters")
    try:
        node = charset(char_set(text)) if len(text) == 1 else translate(text)
        re.compile(node.source)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the regex `{text}` is too much for Python's re ({error}): use a simpler one") from None
    if node.empty:
        escaped = re.sub(r"([^\w\s])", r"\\\1", text)
        raise ValueError(
            f"the regex `{text}` can match the empty string: make a part of it required (+ in place of *), "
            rf"or write `{escaped}` or `\Q{text}\E` if its characters are meant as they are"
        )
    if node.ends_row:
        raise ValueError("the delimiter needs a line feed or carriage return, where rows end: use another character")
    return Delimiter(node.literal, node.source if node.literal is None else None, text)


@lru_cache(maxsize=64)  # a process compiles a pattern once, though each task unpickles a Delimiter of its own
def _splitter(pattern: bytes) -> Callable[[bytes], list[bytes]]:
    compiled = re.compile(pattern)

    def split(row: bytes) -> list[bytes]:  # re.split would return the groups among the fields
        fields, start = [], 0
        for match in compiled.finditer(row):
            fields.append(row[start : match.start()])
            start = match.end()
        return [*fields, row[start:]]

    return split if compiled.groups else compiled.split
