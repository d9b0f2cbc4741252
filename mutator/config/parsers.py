"""The values of settings: each parser reads text, or raises ValueError with the expected form.

>>> duration("90d"), size("64m")
(7776000, 67108864)
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from mutator.rules.known_formats import FORMATS

FILE_FORMATS = ("auto", *FORMATS)
OUTPUT_FORMATS = ("auto", *(name for name, known in FORMATS.items() if known.suffix))
_BLANKS = " \t\n\r\v\f"  # as of bytes
_MOST_MEMORY = 1 << 30  # columns of text in Parquet and ORC have 32-bit offsets, so they end at 2 GiB


def text_parts(text: str) -> list[str]:
    """Split a text at its commas.

    >>> text_parts("id, price")
    ['id', 'price']
    """
    return [part.strip() for part in text.split(",")]


HISTORY_COLUMNS = {"autocdc": ("__START_AT", "__END_AT"), "dbt": ("dbt_valid_from", "dbt_valid_to")}


def history_columns(parts: Sequence[Any]) -> tuple[str, ...]:
    """Read the names of the columns of versions: those of another system, or from two to four names.

    >>> history_columns(["dbt"])
    ('dbt_valid_from', 'dbt_valid_to')
    """
    names = texts(parts)
    if len(names) == 1 and names[0] in HISTORY_COLUMNS:
        return HISTORY_COLUMNS[names[0]]
    if not 2 <= len({name.lower() for name in names}) == len(names) <= 4:
        raise ValueError(f"must be {' or '.join(HISTORY_COLUMNS)}, or different names of two to four columns")
    return names


def single(parts: Sequence[Any]) -> Any:
    """Refuse a list where a setting has one value. Raises ValueError."""
    raise ValueError("must be one value, not a list")


def texts(parts: Sequence[Any]) -> tuple[str, ...]:
    """Read different names.

    >>> texts(["id", "price, EUR"])
    ('id', 'price, EUR')
    """
    found = tuple(map(str, parts))
    if "" in found or len(set(found)) != len(found):
        raise ValueError("must be different names with commas between them, or a list of them")
    return found


def code_parts(text: str) -> list[str]:
    """Split op codes at commas; ``\\,`` is a comma in a code, and of blanks around a code only those of ASCII go.

    >>> code_parts(r"U, D\\,x")
    ['U', 'D,x']
    """
    return [part.strip(_BLANKS).replace("\\,", ",") for part in re.split(r"(?<!\\),", text)]


def codes(parts: Sequence[Any]) -> frozenset[bytes]:
    """Read op codes; two double quotes are the empty one.

    >>> codes(["D"]) == {b"D"}, codes(["U", '""']) == {b"U", b""}
    (True, True)
    """
    if not all(str(part).strip(_BLANKS) for part in parts):
        raise ValueError('must be op codes with commas between them, or a list of them; the empty code is ""')
    return frozenset(b"" if part == '""' else str(part).encode("utf-8", "surrogateescape") for part in parts)


def pattern(text: str) -> re.Pattern[str]:
    """Read a regular expression; ``none`` is one that nothing matches.

    >>> pattern("_del_").search("ups_del_7.txt") is None, pattern("none").search("none") is None
    (False, True)
    """
    try:
        return re.compile("(?!)" if text == "none" else text)
    except re.error as fault:
        raise ValueError(f"is not a regular expression: {fault}") from None


def joint(text: str) -> bytes:
    """Read the text that joins fields.

    >>> joint(";")
    b';'
    """
    if "\n" in text:
        raise ValueError("contains a line feed, which ends a row")
    return text.encode("utf-8", "surrogateescape")


def null(text: str) -> bytes:
    r"""Read the text that means NULL in CSV.

    >>> null(r"\N")
    b'\\N'
    """
    if set(text) & set('"\r\n'):
        raise ValueError("contains a quote or a line end, which the text for NULL cannot have")
    return text.encode("utf-8", "surrogateescape")


def escape(text: str) -> bytes:
    r"""Read the character before a quote within quotes; none if that is a quote, so that quotes are doubled.

    >>> escape("\\"), escape("backslash"), escape('"')
    (b'\\', b'\\', b'')
    """
    text = "\\" if text == "backslash" else text
    if len(text) != 1 or not text.isascii() or not text.isprintable() or text.isalnum() or text == " ":
        raise ValueError("is not one punctuation mark, or backslash (in .properties files, write \\\\ or backslash)")
    return b"" if text == '"' else text.encode()


def flag(text: str) -> bool:
    """Read true or false.

    >>> flag("True")
    True
    """
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def whole(text: str) -> int:
    """Read a whole number, 0 or more.

    >>> whole("12")
    12
    """
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        raise ValueError("must be a whole number, 0 or more")
    return int(text)


def header_lines(text: str) -> int:
    """Read a number of header lines; true is one line, false none.

    >>> header_lines("true"), header_lines("2")
    (1, 2)
    """
    if text.strip().lower() in ("true", "false"):
        return int(flag(text))
    try:
        return whole(text)
    except ValueError:
        raise ValueError("must be true, false, or a whole number of lines") from None


def positive(text: str) -> int:
    """Read a whole number from 1 to 999999.

    >>> positive("12")
    12
    """
    if not re.fullmatch(r"[0-9]{1,6}", text.strip()) or int(text) < 1:
        raise ValueError("must be a whole number from 1 to 999999")
    return int(text)


def field_count(text: str) -> int | str:
    """Read auto, any, or a number of fields.

    >>> field_count("auto"), field_count("7")
    ('auto', 7)
    """
    text = text.strip()
    if text in ("auto", "any"):
        return text
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < 1:
        raise ValueError("must be auto, any, or the number of fields of a feed row")
    return int(text)


def fraction(text: str) -> float:
    """Read a number from 0 to 1.

    >>> fraction("0.5")
    0.5
    """
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return value


def duration(text: str) -> int:
    """Read a duration such as 90d; return seconds.

    >>> duration("2m")
    120
    """
    match = re.fullmatch(r"([0-9]{1,9})\s*([smhdw])", text.strip())
    if not match:
        raise ValueError("must be a duration such as 90d, 12h, 30m or 45s")
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[match[2]]


def age(text: str) -> float:
    """Read a duration that may have a fraction, such as 0.5s; return seconds.

    >>> age("0.5s"), age("2m")
    (0.5, 120.0)
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([smhdw])", text.strip())
    if not match:
        raise ValueError("must be a duration such as 0.5s, 45s, 30m or 7d")
    return float(match[1]) * duration(f"1{match[2]}")


def size(text: str) -> int:
    """Read a size such as 64m; return bytes.

    >>> size("1k")
    1024
    """
    match = re.fullmatch(r"([0-9]{1,15})\s*([kmg]?)(i?b)?", text.strip().lower())
    if not match or int(match[1]) < 1:
        raise ValueError("must be a size such as 67108864, 64m or 1g")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]]


def memory(text: str) -> int:
    """Read the size of memory to use; return bytes, at most 1 GiB.

    >>> memory("512m") == 512 << 20, memory("8g") == 1 << 30
    (True, True)
    """
    return min(size(text), _MOST_MEMORY)


def suffix(text: str) -> str:
    """Read the end of a file name.

    >>> suffix(".ready")
    '.ready'
    """
    if not re.fullmatch(r"[^/\s\x00-\x1f]{1,50}", text.strip()):
        raise ValueError("must be the end of a file name, such as .ready")
    return text.strip()


def one_of(*values: str) -> Callable[[str], str]:
    """Return the parser of a setting that has only these values.

    >>> one_of("skip", "merge")("skip")
    'skip'
    """

    def choose(text: str) -> str:
        if text.strip() not in values:
            raise ValueError(f"must be {' or '.join(filter(None, (', '.join(values[:-1]), values[-1])))}")
        return text.strip()

    return choose


def history(text: str) -> str:
    """Read whether a table keeps history, in the one spelling of it.

    >>> history("on")
    'on'
    """
    if text.strip() not in ("off", "on"):
        raise ValueError("must be on or off; as scd.type, 2 or 1")
    return text.strip()


def file_format(text: str) -> str | None:
    """Read the name of a file format; return None for auto.

    >>> file_format("csv")
    'csv'
    """
    return _format_of(FILE_FORMATS, text)


def output_format(text: str) -> str | None:
    """Read the name of a file format that runs can write; return None for auto.

    >>> output_format("auto")
    """
    return _format_of(OUTPUT_FORMATS, text)


def _format_of(names: Sequence[str], text: str) -> str | None:
    found = one_of(*names)(text)
    return None if found == "auto" else found


def age_text(text: str) -> str:
    """Return the text of a duration that may have a fraction. Raises ValueError for other text.

    >>> age_text("7d")
    '7d'
    """
    age(text)
    return text
