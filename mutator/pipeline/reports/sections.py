"""Sections, of which reports are made, and their text for a terminal.

A section has blocks, which a terminal and a page each show in their own way. ``lines`` are for a section whose text is
not that of its blocks. To add a section to a report, write a function that returns it, and name it in the list of
the report.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass

_SHOWN = 5  # items of a list on a terminal; the JSON has all of them
MOST_TEXT = 400  # characters of a text on a page
_VALUES = 5  # paths of one name on a page
MOST_TEXTS = 50  # items of a list on a page


@dataclass(frozen=True)
class Cut:
    """The first items of a list. left_out: a sentence on the others; empty if there are none."""

    items: Sequence[Any]
    left_out: str = ""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __bool__(self) -> bool:
        return bool(self.items) or bool(self.left_out)


def cut(items: Iterable[Any], most: int, noun: str, why: str = "", total: int | None = None) -> Cut:
    """Return the first items of a list. why: which ones are left out. total: of the list, if it has more than given.

    >>> cut("abc", 2, "letter").left_out
    '1 of 3 letters is left out'
    """
    found = list(islice(items, most + 1)) if total is not None else list(items)
    total = len(found) if total is None else total
    shown = found[:most]
    more = total - len(shown)
    if more <= 0:
        return Cut(shown)
    verb = "is" if more == 1 else "are"
    return Cut(shown, f"{more:,} of {counted(total, noun)} {verb} left out{f': {why}' if why else ''}")


def cut_text(text: str, most: int = MOST_TEXT) -> str:
    """Return the beginning of a text, and the number of the characters that follow.

    >>> cut_text("a row of text", 5)
    'a row… (8 more characters)'
    """
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({counted(len(text) - most, 'more character')})"


def short_text(value: int) -> str:
    """Write a large number with few digits.

    >>> short_text(950), short_text(12_345), short_text(3_400_000), short_text(999_600), short_text(9_960)
    ('950', '12k', '3.4M', '1.0M', '10k')
    """
    size = float(value)
    for unit in ("", "k", "M", "G", "T"):
        if round(size) < 1000 or unit == "T":  # 999.6k is 1.0M
            break
        size /= 1000
    return f"{size:.1f}{unit}" if unit and round(size, 1) < 10 else f"{size:.0f}{unit}"


def size_text(count: int) -> str:
    """Write a number of bytes.

    >>> size_text(900), size_text(1_234_567), size_text(999_960)
    ('900 bytes', '1.2 MB', '1.0 MB')
    """
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if round(size, 1) < 1000:  # 999.96 kB is 1.0 MB
            break
        size, unit = size / 1000, larger
    return f"{count:,} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def time_text(seconds: float) -> str:
    """Write a duration.

    >>> time_text(0.004), time_text(12.34), time_text(4000), time_text(200_000), time_text(0.9999)
    ('4 ms', '12.3 s', '1 h 6 min', '2 d 7 h', '1.0 s')
    """
    if round(1000 * seconds) < 1000:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    large, small = (f"{hours} h", f"{minutes % 60} min") if hours < 48 else (f"{hours // 24} d", f"{hours % 24} h")
    return large if small.startswith("0 ") else f"{large} {small}"


class SectionBlock:
    """A part of a section, which a page shows by the macro of its name in ``templates/parts.html``."""

    def lines(self) -> list[str]:
        """Return the lines for a terminal."""
        return []


Fact = tuple[str, str | Sequence[str]]  # a name, and its value or values


@dataclass(frozen=True)
class FactsBlock(SectionBlock):
    """Names and their values."""

    rows: Sequence[Fact]

    @property
    def all(self) -> list[tuple[str, str]]:
        """The names and values, with a name for each value."""
        return [(name, one) for name, found in self.rows for one in ([found] if isinstance(found, str) else found)]

    @property
    def first(self) -> list[tuple[str, str]]:
        """The same, with as many values of a name as a page has."""
        shown = [(name, found if isinstance(found, str) else cut(found, _VALUES, "path")) for name, found in self.rows]
        texts = [(name, one if isinstance(one, str) else [*one, *filter(None, [one.left_out])]) for name, one in shown]
        return FactsBlock(texts).all

    def lines(self) -> list[str]:
        """Return a line for each."""
        return [f"  {line}" for line in aligned(self.all, right=())] if self.rows else []


@dataclass(frozen=True)
class Texts(SectionBlock):
    """A list of sentences or paths. Lists with a heading are parts of the section before."""

    items: Cut
    heading: str = ""
    css: str = ""  # class of each item on a page


@dataclass(frozen=True)
class Sentence(SectionBlock):
    """A sentence of its own."""

    text: str


@dataclass(frozen=True)
class TableBlock(SectionBlock):
    """A table. Its cells are text; numbers are aligned to the right."""

    columns: Sequence[tuple[str, str]]  # heading and kind, which a page has as class: n (number) | path | time | why
    parts: Sequence[Cut]  # lists of rows, each of which may leave some out
    foot: Sequence[str] = ()  # a last row, of a page
    css: str = ""
    unnamed: str = ""  # in place of an empty first cell of a page

    @property
    def rows(self) -> list[Sequence[str]]:
        """The rows of all parts."""
        return [row for part in self.parts for row in part]

    def lines(self) -> list[str]:
        """Return a line for the headings and one for each row; none without rows."""
        heads = [name for name, _ in self.columns]
        right = {number for number, (_, kind) in enumerate(self.columns) if kind == "n"}
        return aligned([heads, *self.rows], right) if self.rows else []


@dataclass(frozen=True)
class Drawn(SectionBlock):
    """What only a page has. macro: of ``templates/parts.html``. value: returns what it shows, when a page is made."""

    macro: str
    value: Callable[[], Any]


class ReportSection(NamedTuple):
    """A section of a report. Without a title it is not on pages, unless it is of a block that brings its own."""

    title: str = ""
    blocks: Sequence[SectionBlock] = ()
    lines: Sequence[str] | None = None  # for a terminal; None: those of the blocks
    name: str = ""  # of its heading on a page
    css: str = ""
    rank: int = 0  # pages have the sections of low ranks first
    all_lines: Sequence[str] | None = None  # for a terminal with --verbose; None: the same as without

    def text_lines(self, *, verbose: bool = False) -> Sequence[str]:
        """Return the lines for a terminal."""
        if verbose and self.all_lines is not None:
            return self.all_lines
        return [line for block in self.blocks for line in block.lines()] if self.lines is None else self.lines


def said(*lines: str) -> ReportSection:
    """Return a section of lines for a terminal, which no page has."""
    return ReportSection(lines=lines)


def noted(notes: Iterable[str]) -> ReportSection:
    """Return a section with a line for each note, below the title of a report."""
    return said(*(f"  note   {note}" for note in notes))


def ended(done: str, seconds: float, *, dry_run: bool = False) -> ReportSection:
    """Return the last line of most reports. done: in words; a dry run has done nothing.

    >>> ended("wrote 1 row", 0.04).lines, ended("wrote 1 row", 0.04, dry_run=True).lines
    (('wrote 1 row; 0.0 s',), ('dry run: nothing was written; 0.0 s',))
    """
    return said(f"{'dry run: nothing was written' if dry_run else done}; {seconds:.1f} s")


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return a line for each row of cells, with all columns aligned. right: columns that are aligned to the right.

    >>> aligned([("a", "rows"), ("bc", "1")], right={1})
    ['a   rows', 'bc     1']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def listed(what: str, items: Sequence[str]) -> list[str]:
    """Return a line for each of the first items, and one that counts the others.

    >>> listed("waiting", ["a", "b", "c", "d", "e", "f"])[-2:]
    ['waiting: e', 'waiting: and 1 more']
    """
    lines = [f"{what}: {item}" for item in items[:_SHOWN]]
    return [*lines, f"{what}: and {len(items) - _SHOWN:,} more"] if len(items) > _SHOWN else lines
