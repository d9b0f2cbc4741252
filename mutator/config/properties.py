r"""Read ``.properties`` as Java does (``java.util.Properties.load``).

>>> list(pairs("! a comment\nfield.delim = \\u002c\nid.field.ordinals: 0,\\\n  2\n"))
[(2, 'field.delim', ','), (3, 'id.field.ordinals', '0,2')]
"""

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")  # an odd number of backslashes
_KEY_AND_VALUE = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_HEX = re.compile("u[0-9A-Fa-f]{4}")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def pairs(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number of the line, from 1, the key and the value of each setting. Raises ValueError."""
    lines = iter(enumerate(_LINE_END.split(text), 1))
    for number, line in lines:
        line = line.lstrip(_BLANK)
        if line.startswith(("#", "!")):
            continue
        while _CONTINUED.search(line):
            _, following = next(lines, (0, ""))
            line = line[:-1] + following.lstrip(_BLANK)
        if line:
            match = _KEY_AND_VALUE.fullmatch(line)
            assert match is not None
            try:
                yield number, _unescaped(match[1]), _unescaped(match[2])
            except ValueError as fault:
                raise ValueError(f"line {number}: {fault}") from None


def _unescaped(text: str) -> str:
    text = _ESCAPE.sub(lambda match: _character(match[1]), text)
    return _SURROGATES.sub(lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


def _character(escaped: str) -> str:
    if not escaped.startswith("u"):
        return _CONTROL.get(escaped, escaped)
    if not _HEX.fullmatch(escaped):
        raise ValueError(rf"\{escaped} is not a character: \u needs four hex digits; for a backslash write \\")
    return chr(int(escaped[1:], 16))
