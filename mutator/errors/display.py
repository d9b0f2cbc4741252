"""Text as messages and reports may show it: without secrets, and safe for terminals and logs."""

import re
import shlex
from collections.abc import Iterable

OUT = "…"  # in place of a value that must not be shown
# The beginning or the end of a part of a message, see ``parts``: of code points that no decoded bytes have, even if
# they are not UTF-8 (``surrogateescape`` begins with U+DC80).
MARK = re.compile("(\udc0e[a-z]|\udc0f)")
_INNER = "[^\udc0e\udc0f]"
# The words of commands, which stay as they are until a shell's quotes escape them; else the marks.
_KEPT = re.compile(f"(\udc0e[wx](?:{_INNER}|\udc0e[a-z]{_INNER}*\udc0f)*\udc0f|{MARK.pattern[1:-1]})")

# A password may contain @ and /, as programs accept it; digits before a / are a port.
_USER = re.compile(r"(://[^/@:\s]*):(?:[^/\s]*|(?!\d{1,5}/)[^@\s]*(?:@[^/@\s]*(?=@))*)@")
_QUOTED = re.compile(r"""(?<!\w)(?:'[^']*'|"[^"]*["])""")  # not from the apostrophe of "a file's"
_SIGNATURE = re.compile(r"(https?://[^\s?]*)\?[^\s\udc0f]*")  # not the end of a part


def without_secrets(text: str) -> str:
    """Leave the passwords and signatures out of the addresses in a text.

    >>> without_secrets("sftp://me:secret@host/ups_1.txt"), without_secrets("https://host/ups_1.txt?sig=abc")
    ('sftp://me:***@host/ups_1.txt', 'https://host/ups_1.txt?***')
    >>> without_secrets("s3://me:se/cr@et@host/a@b"), without_secrets("hdfs://host:8020/a@b")
    ('s3://me:***@host/a@b', 'hdfs://host:8020/a@b')
    """
    return _SIGNATURE.sub(r"\1?***", _USER.sub(r"\1:***@", text))


def printable(text: str) -> str:
    """Escape what could confuse a terminal or a log; line feeds stay, as do the marks of ``parts``.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return _without_controls(text, "\n")


def one_line(text: str) -> str:
    """Escape what could confuse a terminal or a log, line feeds included: a file name must not forge a line.

    >>> one_line("a\\nversion 9 became the master")
    'a\\\\nversion 9 became the master'
    """
    return _without_controls(text, "")


def _without_controls(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    pieces = _KEPT.split(text)
    pieces[::2] = ["".join(c if c.isprintable() or c in kept else _escaped(c) for c in piece) for piece in pieces[::2]]
    return "".join(pieces)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def shell_word(text: str) -> str:
    """Write a word of a command as a shell reads it, in quotes if it needs them.

    >>> print(shell_word("/data/base"), shell_word("/my data/base"))
    /data/base '/my data/base'
    """
    return text if shlex.quote(text) == text else shell_quoted(text)


def command(*words: str) -> str:
    """Write a command line of mutator, ready for a shell.

    >>> print(command("verify", "--repair", "/my data"))
    mutator verify --repair '/my data'
    """
    return " ".join(("mutator", *map(shell_word, words)))


def shell_quoted(text: str) -> str:
    """Write a word of a command in the quotes of a shell; with a dollar, as bash has it, for control characters.

    >>> print(shell_quoted("it's"), shell_quoted("it's\\x01"))
    'it'\\''s' $'it\\'s\\x01'
    """
    if text.isprintable():
        return "'" + text.replace("'", "'\\''") + "'"
    return "$'" + "".join(c if c.isprintable() and c not in "\\'" else _in_dollar_quotes(c) for c in text) + "'"


def _in_dollar_quotes(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    is_byte = "\udc80" <= char <= "\udcff"
    return "".join(f"\\x{one:02x}" for one in char.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass"))


def text_of(lines: Iterable[str]) -> str:
    """Join the lines of a report, each of which stays one line.

    >>> text_of(["ready: a\\nb", "ready: c"])
    'ready: a\\\\nb\\nready: c'
    """
    return "\n".join(map(one_line, lines))


def with_warnings(text: str, warnings: Iterable[str]) -> str:
    """Return the text of a report, and then its warnings.

    >>> with_warnings("no differences", ["a file is hidden"])
    'no differences\\nwarning: a file is hidden'
    """
    return "\n".join([text, *(text_of([f"warning: {one}"]) for one in warnings)])


def html_of_text(text: str) -> str:
    """Return a text as HTML, for notebooks.

    >>> html_of_text("price: <1")
    '<pre>price: &lt;1</pre>'
    """
    from html import escape  # here, because only notebooks and pages need it

    return f"<pre>{escape(text)}</pre>"


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is nearest to a word; None if none is near.

    >>> nearest_word("sync.mod", ["id", "sync.mode"])
    'sync.mode'
    """
    import difflib  # here, because only messages on mistakes need it

    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def counted(count: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def key_text(key: tuple[bytes, ...]) -> str:
    """Show a record ID in a message or report."""
    return ",".join(value.decode("utf-8", "backslashreplace") for value in key)


def in_quotes(text: str) -> str:
    """Put a text between quotes that are not in it, so that its end is clear.

    >>> print(in_quotes("lamp"), in_quotes("O'Brien"))
    'lamp' "O'Brien"
    """
    return f"'{text}'" if "'" not in text else '"' + text.replace('"', "\\x22") + '"'


def without_quotes(text: str, instead: str) -> str:
    """Put a text in the place of each one between quotes.

    >>> without_quotes("the feed's a is 'lamp', its b is " + in_quotes("O'Brien"), "…")
    "the feed's a is '…', its b is '…'"
    """
    return _QUOTED.sub(f"'{instead}'", text)


def quoted(value: bytes, most: int = 40) -> str:
    """Show a field's bytes in the reason of a reject, which reports cut where values must not be shown.

    >>> quoted(b"12,x")
    "'12,x'"
    """
    return in_quotes(start_of(value, most))


def start_of(value: bytes, most: int) -> str:
    """Show the first bytes of a field."""
    return one_line(value[:most].decode("utf-8", "backslashreplace")) + (OUT if len(value) > most else "")


def seconds_text(seconds: float) -> str:
    """Return seconds with up to three decimals.

    >>> seconds_text(5.0), seconds_text(0.25)
    ('5', '0.25')
    """
    return f"{seconds:.3f}".rstrip("0").removesuffix(".")
