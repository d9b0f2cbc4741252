"""Names of partition directories, ``dt=2026-01-31/store=7``, as Hive escapes them.

>>> directory_of(("a", "b"), ("x/y", None))
'a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__'
>>> values_of("a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__")
(('a', 'x/y'), ('b', None))
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mutator.table import Partition

__all__ = ["DEFAULT", "directory_of", "values_of"]

DEFAULT = "__HIVE_DEFAULT_PARTITION__"  # NULL, and the empty string, which Hive cannot tell from it
_SPECIAL = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")  # FileUtils.escapePathName of Hive, and NUL
_ESCAPED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def directory_of(fields: Sequence[str], values: Partition) -> str:
    """Return the directory of a partition, relative to that of the table."""
    return "/".join(
        f"{_escaped(name)}={DEFAULT if not value else _escaped(value)}"
        for name, value in zip(fields, values, strict=True)
    )


def values_of(directory: str) -> tuple[tuple[str, str | None], ...]:
    """Return the fields and values that a directory says. Raises ValueError where it is no partition's."""
    found = []
    for part in directory.split("/"):
        name, mark, value = part.partition("=")
        if not name or not mark:
            raise ValueError(f"{part} is no partition")
        found.append((_unescaped(name), None if value in (DEFAULT, "") else _unescaped(value)))
    return tuple(found)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(_characters, text)


def _characters(match: re.Match[str]) -> str:
    """Return what escapes stand for: Hive writes ASCII so alone, others the bytes of UTF-8."""
    found = bytes.fromhex(match[0].replace("%", ""))
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        return found.decode("latin-1")
