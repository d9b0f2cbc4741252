"""Pages from templates: Jinja2 escapes every value, and no value can make a page large or confuse a reader."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from mutator.errors import error
from mutator.errors.display import one_line
from mutator.errors.version import VERSION
from mutator.pipeline.reports.sections import Drawn, ReportSection, cut_text, short_text, size_text, time_text

if TYPE_CHECKING:
    from jinja2 import Environment

_BYTES = 200  # of a row that is shown


def check_installed(what: str) -> None:
    """Raise ConfigError if the libraries of the extra ``report`` are missing. what: needs them."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise error("extra", what=what, package="Jinja2", extra="report") from None


def page_of(
    title: str, leads: Iterable[str], figures: Iterable[tuple[str, str]], sections: Iterable[ReportSection]
) -> str:
    """Return a page. leads: sentences below the title. figures: values, and their names."""
    check_installed("a report as HTML")
    shown = [
        (section, [_with_macro(block) for block in section.blocks])
        for section in sections
        if section.title or section.blocks
    ]
    template = _environment().get_template("page.html")
    return template.render(version=VERSION, title=title, leads=leads, figures=figures, sections=shown)


def _with_macro(block: Any) -> tuple[str, Any]:
    """Return the macro of ``templates/parts.html`` that shows a block, and the value that it shows."""
    return (
        (block.macro, block.value())
        if isinstance(block, Drawn)
        else (type(block).__name__.removesuffix("Block").lower(), block)
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("mutator.pipeline.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": _number, "percent": _percent, "bytes": _bytes}
    made.filters |= {"size": size_text, "short": short_text, "time": time_text}
    return made


def _shown(value: Any) -> Any:
    """Return a value as a page has it: a text without control characters, on one line, and not too long."""
    return one_line(cut_text(value)) if type(value) is str else value  # text that is safe has a type of its own


def _number(value: float) -> str:
    """Write a number with commas."""
    return f"{value:,}"


def _percent(share: float) -> str:
    """Write a share; one that is not quite nothing or everything does not look so.

    >>> _percent(0.5), _percent(0.0004), _percent(0.9999), _percent(1)
    ('50 %', '<0.1 %', '>99.9 %', '100 %')
    """
    if 0 < share < 0.001:
        return "<0.1 %"
    if 0.999 < share < 1:
        return ">99.9 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def _bytes(row: bytes | str) -> Any:
    """Return a row with each byte that is not text marked, so that it cannot be taken for text."""
    from markupsafe import Markup, escape

    raw = row if isinstance(row, bytes) else row.encode("utf-8", "backslashreplace")
    found: list[Any] = []
    for character in raw[:_BYTES].decode("utf-8", "surrogateescape"):
        if character.isprintable():
            found.append(escape(character))
        else:
            code = ord(character)
            text = f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else one_line(character)
            found.append(Markup('<b class="byte">{}</b>').format(text))
    if len(raw) > _BYTES:
        found.append(Markup(' <span class="more">… ({:,} more bytes)</span>').format(len(raw) - _BYTES))
    return Markup("").join(found)
