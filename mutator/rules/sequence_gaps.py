"""What the sequences of feed files say across runs: which files come late, and which have not come at all.

>>> gaps([1, 2, 3], [6])
[(4, 5)]
"""

from collections.abc import Iterable, Sequence

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
    """
    new = sorted(set(fresh))
    if not new:
        return []
    last = max([max(before, default=new[0]), *master])
    found = []
    for one in new:
        if one > last + 1:
            found.append((last + 1, one - 1))
        last = max(last, one)
    return found


def counts_files(before: Sequence[int], fresh: Sequence[int], missing: Sequence[tuple[int, int]]) -> bool:
    """Return whether sequences look like a counter of files, where a gap means something, and not like a clock.

    They do if no more numbers are missing than are known.

    >>> counts_files([1, 2, 3], [6], [(4, 5)]), counts_files([1700000000], [1700003600], [(1700000001, 1700003599)])
    (True, False)
    """
    return sum(last - first + 1 for first, last in missing) <= len({*before, *fresh})


def gaps_text(missing: Sequence[tuple[int, int]]) -> str:
    """Write ranges for a message.

    >>> gaps_text([(4, 5), (8, 8)])
    '4 to 5, 8'
    """
    return first_few([str(first) if first == last else f"{first} to {last}" for first, last in missing])
