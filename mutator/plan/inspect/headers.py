"""Compare the headers of delimited text, whose fields are known by position, so that no field is read as another.

CSV and other formats with names are not concerned: their fields are found by name.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from mutator.config import Config
from mutator.errors import error
from mutator.plan.inspect.delete_files import id_names, may_have_ids_alone
from mutator.plan.inspect.source import Source

Names = tuple[str, ...]


def header_names(fields: Sequence[bytes]) -> Names:
    """Return the names in a header, as they are compared: in lower case, without quotes and spaces around them.

    >>> header_names([b'"ID"', b" price "])
    ('id', 'price')
    """
    texts = (field.decode("utf-8", "surrogateescape") for field in fields)
    return tuple(text.strip().strip('"').strip().lower() for text in texts)


def configured_names(config: Config) -> Names:
    """Return the names of ``field.names``, as they are compared."""
    return header_names([name.encode("utf-8", "surrogateescape") for name in config.field_names])


def check_headers(config: Config, feed: Iterable[Source], master: Iterable[Source] = ()) -> None:
    """Raise DataError where the header of a text file has a field at another position than ``field.names``.

    Without ``field.names``, the headers are compared with the widest one, the master's if it is as wide as the feed's.
    """
    with_header = [source for source in (*master, *feed) if source.header]
    expected, whose = configured_names(config), "field.names"
    if not expected and with_header:
        first = max(with_header, key=lambda source: len(source.header))  # with the op code, if any has it
        expected, whose = first.header, f"the header of {first.path}"
    for source in with_header:
        if may_have_ids_alone(config, source) and len(source.header) == len(config.id_fields) < len(expected):
            _check_positions(source, source.header, id_names(config, expected), f"the ID in {whose}")
        else:
            _check_positions(source, *_same_width(source.header, expected, config.op_field), whose)


def _check_positions(source: Source, header: Names, expected: Names, whose: str) -> None:
    for position, name in enumerate(header):
        if header.count(name) == expected.count(name) == 1 and expected[position] != name:
            raise error(
                "format",
                path=source.path,
                what=f"its header has {_shown(name)} as field {position}, where {whose} has "
                f"{_shown(expected[position])}; fields of delimited text are known by position",
                cure="have all files delivered with the same order of fields, or set input.format=csv and give fields "
                "by name, not by ordinal",
            )


def _same_width(header: Names, wanted: Names, op: Any) -> tuple[Names, Names]:
    """Return two headers without the op code, if one of them lacks it; nothing if their widths differ otherwise."""
    if len(header) == len(wanted):
        return header, wanted
    if isinstance(op, int) and abs(len(header) - len(wanted)) == 1:
        longer = len(header) > len(wanted)
        return (_without(header, op), wanted) if longer else (header, _without(wanted, op))
    return (), ()


def _without(names: Names, position: int) -> Names:
    return names[:position] + names[position + 1 :]


def _shown(name: str) -> str:
    return name or "no name"
