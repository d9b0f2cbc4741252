"""Names of partition directories, ``dt=2026-01-31/store=7``, as Hive escapes them.

Bytes that are not UTF-8, which Hive cannot have, are escaped as well, so every value can be read back.

>>> directory_of(("a", "b"), ("x/y", None))
'a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__'
>>> values_of("a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__")
(('a', 'x/y'), ('b', None))
"""

import re
from collections.abc import Sequence
from itertools import takewhile

DEFAULT = "__HIVE_DEFAULT_PARTITION__"  # NULL, and the empty string, which Hive cannot tell from it
# FileUtils.escapePathName of Hive, NUL, and bytes that are not characters.
_SPECIAL = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^\udc80-\udcff]""")
_OF_KAFKA = re.compile(r"\+(\d+)\+\d+(?:\.|$)")  # partition and offset, in the name of a file
_ESCAPED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def directory_of(fields: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the directory of a partition, relative to that of the table.

    >>> directory_of(("dt", "store"), ("2026-01-31", "7"))
    'dt=2026-01-31/store=7'
    """
    return "/".join(
        f"{_escaped(name)}={DEFAULT if not value else _escaped(value)}"
        for name, value in zip(fields, values, strict=True)
    )


def values_of(directory: str) -> tuple[tuple[str, str | None], ...]:
    """Return the fields and values in the path of a partition. Raises ValueError for any other path.

    >>> values_of("dt=2026-01-31/store=7")
    (('dt', '2026-01-31'), ('store', '7'))
    """
    found = []
    for part in directory.split("/"):
        name, mark, value = part.partition("=")
        if not name or not mark:
            raise ValueError(f"{part} is not a partition")
        found.append((_unescaped(name), None if value in (DEFAULT, "") else _unescaped(value)))
    return tuple(found)


def directory_above(path: str) -> str:
    """Return the partition directories right above a file, not those further up, in which the whole dataset may be.

    >>> directory_above("/env=prod/data/shop=1/day=2/a.parquet")
    'shop=1/day=2'

    Nor that of a partition in Kafka, which sinks of Kafka Connect name in the file, too.

    >>> directory_above("/shop=1/partition=0/orders+0+0000000123.json"), directory_above("/partition=0/orders_0.json")
    ('shop=1', 'partition=0')
    """
    *above, name = path.split("/")
    kafka = _OF_KAFKA.search(name)
    if kafka is not None and above[-1:] == [f"partition={kafka[1]}"]:
        above.pop()
    return "/".join([*takewhile(lambda part: part.find("=") > 0, reversed(above))][::-1])


def values_above(path: str) -> tuple[tuple[str, str | None], ...]:
    """Return the fields and values of the partition directories right above a file.

    >>> values_above("/data/shop=1/day=2/a.parquet"), values_above("/data/a.parquet")
    ((('shop', '1'), ('day', '2')), ())
    """
    directory = directory_above(path)
    return values_of(directory) if directory else ()


def lacks_value(directory: str) -> bool:
    """Return whether a field has no value in a partition.

    >>> lacks_value("a=1/b=__HIVE_DEFAULT_PARTITION__")
    True
    """
    return any(value is None for _, value in values_of(directory))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"%{match[0].encode('utf-8', 'surrogateescape')[0]:02X}", text)


def _unescaped(text: str) -> str:
    """Return the name behind an escaped one: Hive escapes only ASCII, other programs the bytes of UTF-8."""
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogateescape"), text)
