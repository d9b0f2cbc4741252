"""What the sequences of feed files say across runs: which files come late, and which have not come at all.

>>> gaps([1, 2, 3], [6])
[(4, 5)]

Sequences that all are dates, such as 20260430, are counted by days, so the next one is 20260501; those with hours,
minutes or seconds are counted by these, and those without days by months.

>>> gaps([20260429, 20260430], [20260501]), gaps([20260430], [20260503]), gaps([2026123123], [2027010101])
([], [(20260501, 20260502)], [(2027010100, 2027010100)])
>>> gaps([202511, 202512], [202601]), gaps([202512], [202603])
([], [(202601, 202602)])
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from mutator.rules.file_names import first_few


def late(before: Iterable[int], fresh: Iterable[int]) -> list[int]:
    """Return the new sequences that are lower than one that was applied before, ascending.

    >>> late([3, 9], [4, 10, 9])
    [4]
    """
    last = max(before, default=None)
    return [] if last is None else sorted({one for one in fresh if one < last})


def gaps(before: Iterable[int], fresh: Iterable[int], master: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Return the ranges that lie between the last applied sequence and the highest new one and have not arrived.

    Where nothing was applied before, the lowest new sequence is the beginning. master: the sequences of master files;
    the master contains these and all lower ones.

    >>> gaps([], [7, 9]), gaps([7, 9], [10]), gaps([5], [])
    ([(8, 8)], [], [])
    >>> gaps([], [4, 6], master=[5]), gaps([], [4, 9], master=[6])
    ([], [(7, 8)])
    >>> gaps([], [20260430, 20260502], master=[0])
    [(20260501, 20260501)]
    """
    new, before, master = sorted(set(fresh)), set(before), set(master)
    if not new:
        return []
    unit = _unit({*new, *before})
    if unit != _unit(master):  # 0 for a master beside dates of feed files
        master = {one for one in master if unit is None}
    last = max([max(before, default=new[0]), *master])
    found = []
    for one in new:
        if _number(one, unit) > _number(last, unit) + 1:
            found.append((_after(last, 1, unit), _after(one, -1, unit)))
        last = max(last, one)
    return found


def counts_files(before: Sequence[int], fresh: Sequence[int], missing: Sequence[tuple[int, int]]) -> bool:
    """Return whether sequences look like a counter of files, where a gap means something, and not like a clock.

    They do if no more numbers are missing than are known.

    >>> counts_files([1, 2, 3], [6], [(4, 5)]), counts_files([1700000000], [1700003600], [(1700000001, 1700003599)])
    (True, False)
    >>> counts_files([20260429, 20260430], [20260503], [(20260501, 20260502)])
    True
    """
    known = {*before, *fresh}
    unit = _unit(known)
    return sum(_number(last, unit) - _number(first, unit) + 1 for first, last in missing) <= len(known)


_MONTHS = (0, "%Y%m")  # they have no length in seconds
_UNITS = {
    6: _MONTHS,
    8: (86_400, "%Y%m%d"),
    10: (3_600, "%Y%m%d%H"),
    12: (60, "%Y%m%d%H%M"),
    14: (1, "%Y%m%d%H%M%S"),
}
_YEARS = ("19", "20", "21")


def _unit(sequences: Iterable[int]) -> tuple[int, str] | None:
    """Return the seconds between neighbours and the form, if sequences are dates or times of one form; else None."""
    texts = list(map(str, sequences))
    lengths = set(map(len, texts))
    unit = _UNITS.get(lengths.pop()) if len(lengths) == 1 else None
    if unit is None or not all(text.startswith(_YEARS) for text in texts):
        return None
    try:
        for text in texts:
            datetime.strptime(text, unit[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return unit


def _number(sequence: int, unit: tuple[int, str] | None) -> int:
    """Return a sequence as a number in which neighbours differ by 1."""
    if unit is None:
        return sequence
    time = datetime.strptime(str(sequence), unit[1]).replace(tzinfo=UTC)
    return 12 * time.year + time.month - 1 if unit == _MONTHS else int(time.timestamp()) // unit[0]


def _after(sequence: int, steps: int, unit: tuple[int, str] | None) -> int:
    """Return the sequence that is some steps after another one."""
    if unit is None:
        return sequence + steps
    number = _number(sequence, unit) + steps
    if unit == _MONTHS:
        return 100 * (number // 12) + number % 12 + 1
    return int(datetime.fromtimestamp(number * unit[0], UTC).strftime(unit[1]))


def gaps_text(missing: Sequence[tuple[int, int]]) -> str:
    """Write ranges for a message.

    >>> gaps_text([(4, 5), (8, 8)])
    '4 to 5, 8'
    """
    return first_few([str(first) if first == last else f"{first} to {last}" for first, last in missing])
