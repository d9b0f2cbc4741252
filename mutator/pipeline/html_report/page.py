"""Pages from templates: Jinja2 escapes every value, and no value can make a page large or confuse a reader."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from mutator.errors import error
from mutator.errors.display import one_line
from mutator.errors.version import VERSION
from mutator.pipeline.html_report.cut import cut_text

if TYPE_CHECKING:
    from jinja2 import Environment

_BYTES = 200  # of a row that is shown


def check_installed(what: str) -> None:
    """Raise ConfigError if the libraries of the extra ``report`` are missing. what: needs them."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise error("extra", what=what, package="Jinja2", extra="report") from None


def page_of(template: str, **values: Any) -> str:
    """Return a page. template: its name in ``templates/``."""
    check_installed("a report as HTML")
    return _environment().get_template(template).render(version=VERSION, **values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("mutator.pipeline.html_report"),
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
