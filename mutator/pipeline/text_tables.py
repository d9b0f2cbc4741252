"""Tables and shortened lists as text, for the reports of several commands."""

from collections.abc import Container, Sequence

_SHOWN = 5  # items of a list; the JSON has all of them


def aligned(rows: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
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
