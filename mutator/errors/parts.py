"""Messages with typed parts: settings, options, paths, values, quotations. Each audience writes a part in its own way.

A message is text, made with f-strings. Lone surrogates, which the text of a file, a path, or a command line cannot
have, enclose its parts: so it keeps them within another message, and when it is pickled. ``plain`` removes the marks.

>>> message = f"{setting('header.lines=1')} is not enough"
>>> plain(message), plain(said(message, {SETTING: lambda text: f"--{text}"}))
('header.lines=1 is not enough', '--header.lines=1 is not enough')
"""

import re
from collections.abc import Callable, Mapping

from mutator.errors.display import MARK, in_quotes, shell_quoted, shell_word, start_of

CALL, CURE, MERGED, OPTION, PATH, QUOTES, SETTING, VALUE, WORD, QUOTED = "ckmopqsvwx"  # kinds of parts
_BEGIN, _END = "\udc0e", "\udc0f"
QUOTED_BEGIN, END = f"{_BEGIN}{QUOTED}", _END  # of a word, for audiences
MASTER = f"{_BEGIN}{MERGED}the master{_END}"  # into which a run merges: of a table, the table
FIRST_MASTER = f"{_BEGIN}{MERGED}this first master{_END}"
OTHER_CURE = f"{_BEGIN}{CURE}{_END}"  # empty: at the end of a fault for which only some callers have another cure
# In a text of the catalogue: a field, whose name is a word; else a part, which may have fields.
_BRACES = re.compile(r"\{((?:[^{}]|\{\w+\})*)\}")
_PATHS = re.compile(f"{_BEGIN}{PATH}([^{_BEGIN}{_END}]*){_END}")
# The kinds of the fields of the catalogue that are parts. In place of a path there may be another part.
_PATH_FIELDS = "path other_path other where old new master feed output table record target note lock log"
_KINDS = {"call": CALL, **dict.fromkeys(_PATH_FIELDS.split(), PATH)}

_WHOLE = {"the master": MASTER}  # texts of the catalogue

Writers = Mapping[str, Callable[[str], str]]  # kind of a part -> what writes one


def setting(text: str) -> str:
    """Mark a setting, written as in a file, or as ``-D 'name=value'``, with its value or alone."""
    return f"{_BEGIN}{SETTING}{text}{_END}"


def option(name: str, value: str) -> str:
    """Write a setting as a command line option, in quotes: punctuation after it is not part of the value.

    >>> print(plain(option("field.delim.regex", ";")))
    -D 'field.delim.regex=;'
    """
    return setting(f"-D {quoted_word(f'{name}={value}')}")


def word(text: str) -> str:
    """Mark a word of a command, such as a path: a shell reads it as one.

    >>> print(plain(f"mutator verify {word('my data')}"))
    mutator verify 'my data'
    """
    return f"{_BEGIN}{WORD}{text}{_END}"


def quoted_word(text: str) -> str:
    """Mark a word of a command that is always in quotes."""
    return f"{_BEGIN}{QUOTED}{text}{_END}"


def argument(text: str) -> str:
    """Mark an option of a command that is not a setting, such as ``--engine records``."""
    return f"{_BEGIN}{OPTION}{text}{_END}"


def quoting(text: str) -> str:
    """Mark the text of another program, or of a task, which may quote values of rows."""
    return f"{_BEGIN}{QUOTES}{text}{_END}"


def place(path: str) -> str:
    """Mark a path."""
    return f"{_BEGIN}{PATH}{path}{_END}"


def paths_in(text: str) -> list[str]:
    """Return the paths of a message.

    >>> paths_in(f"{place('a.txt')}: is older than {place('b.txt')}")
    ['a.txt', 'b.txt']
    """
    return _PATHS.findall(text)


def value_of_rows(text: str) -> str:
    """Mark a value of a row."""
    return f"{_BEGIN}{VALUE}{text}{_END}"


def value_in_quotes(text: str) -> str:
    """Mark a value of a row, and put it between quotes."""
    return value_of_rows(in_quotes(text))


def quoted_value(value: bytes, most: int = 40) -> str:
    """Show a field's bytes in a message, as a value of a row.

    >>> print(plain(quoted_value(b"lamp")), plain(said(quoted_value(b"lamp"), {VALUE: lambda _: "…"})))
    'lamp' …
    """
    return value_in_quotes(start_of(value, most))


def marked(template: str) -> str:
    """Mark the parts of a text of the catalogue, which are in braces, as fields are.

    >>> plain(marked("{path}: set {max.delete.fraction={most}}, or leave {--engine} out"))
    '{path}: set max.delete.fraction={most}, or leave --engine out'
    >>> plain(marked("mutator verify {word {path}@{version}}").format(path="a b", version=3))
    "mutator verify 'a b@3'"
    """
    return _BRACES.sub(_marked, template)


def _marked(match: re.Match[str]) -> str:
    text = match[1]
    if text in _WHOLE:
        return _WHOLE[text]
    if text.startswith("--"):
        return argument(text)
    if text.startswith("quoting "):
        return quoting(f"{{{text.removeprefix('quoting ')}}}")
    if text.startswith("word "):
        return word(marked(text.removeprefix("word ")))
    if text.isidentifier():
        return f"{_BEGIN}{_KINDS[text]}{match[0]}{_END}" if text in _KINDS else match[0]
    return setting(text)


def part_of(field: str, template: str) -> str:
    """Return the kind of part that a field is in a text of the catalogue; empty for none.

    >>> part_of("why", marked("{path}: {quoting why}")) == QUOTES, part_of("path", marked("{path}: {why}"))
    (True, 'p')
    """
    found = re.search(f"{_BEGIN}(.){re.escape(f'{{{field}}}')}{_END}", template)
    return found[1] if found else ""


def said(text: str, writers: Writers) -> str:
    """Return a message with parts as an audience writes them; a writer may mark what it returns, for another one."""
    if _BEGIN not in text:
        return text
    open_parts = [""]
    for piece in MARK.split(text):
        if piece.startswith(_BEGIN) and MARK.match(piece):
            open_parts.append(piece)
        elif piece == _END and len(open_parts) > 1:
            part = open_parts.pop()
            kind, inner = part[1], part[2:]
            open_parts[-1] += writers[kind](inner) if kind in writers else f"{part}{_END}"
        else:
            open_parts[-1] += piece
    return "".join(open_parts)


def plain(text: str) -> str:
    """Return a message as it is shown: without the marks of its parts, and with the words of commands in quotes."""
    return MARK.sub("", said(text, _WORDS))


def without_marks(text: str) -> str:
    """Return the content of a part without marks."""
    return MARK.sub("", text)


_WORDS: Writers = {
    WORD: lambda text: shell_word(without_marks(text)),
    QUOTED: lambda text: shell_quoted(without_marks(text)),
}
