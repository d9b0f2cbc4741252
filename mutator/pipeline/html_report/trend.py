"""Small charts of values over versions: bars, stacked bars, or a line."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT = 360.0, 132.0  # of the picture, in its own units
_TOP, _BOTTOM = 22.0, 22.0  # for the labels
_WIDEST = 18.0  # bar


@dataclass(frozen=True)
class TrendBlock:
    """A part of a bar. kind: names its colour."""

    kind: str
    left: float
    top: float
    width: float
    height: float
    meaning: str  # shown when somebody points at it


@dataclass(frozen=True)
class Trend:
    """A chart. high: the value at the top of the scale, as text. line: path of SVG, of a chart without bars."""

    title: str
    name: str  # of its elements
    high: str
    first: str
    last: str
    summary: str
    blocks: tuple[TrendBlock, ...]
    line: str
    area: str
    kinds: tuple[str, ...]  # of the blocks, where they are stacked
    width: float = _WIDTH
    height: float = _HEIGHT
    top: float = _TOP
    base: float = _HEIGHT - _BOTTOM


def bars(
    title: str,
    name: str,
    numbers: Sequence[int],
    values: Mapping[str, Sequence[float | None]],
    shown: Callable[[float], str],
    ends: Sequence[float] = (),
) -> Trend:
    """Return a chart of bars.

    numbers: of the versions. values: kind -> a value for each version. shown: writes one. ends: of scales, ascending.
    """
    totals = [sum(one or 0 for one in column) for column in zip(*values.values(), strict=True)]
    high = _round_up(max(totals, default=0), ends)
    place = _WIDTH / max(len(numbers), 1)
    width = min(max(place * 0.78, 1.0), _WIDEST)
    scale = (_HEIGHT - _TOP - _BOTTOM) / high
    blocks = []
    for position, number in enumerate(numbers):
        below = _HEIGHT - _BOTTOM
        for kind, column in values.items():
            value = column[position]
            if value:
                height = max(value * scale, 0.75)
                below -= height
                left = position * place + (place - width) / 2
                of = f" {kind}" if len(values) > 1 else ""
                meaning = f"version {number}: {shown(value)}{of}"
                blocks.append(
                    TrendBlock(kind, round(left, 1), round(below, 1), round(width, 1), round(height, 1), meaning)
                )
    kinds = tuple(kind for kind, column in values.items() if any(column)) if len(values) > 1 else ()
    return _trend(title, name, numbers, totals, high, shown, tuple(blocks), kinds=kinds)


def steps(
    title: str, name: str, numbers: Sequence[int], values: Sequence[float | None], shown: Callable[[float], str]
) -> Trend:
    """Return a chart of a value that stays until the next version. Values that are not known are left out."""
    known = [(position, value) for position, value in enumerate(values) if value is not None]
    high = _round_up(max((value for _, value in known), default=0))
    place, scale = _WIDTH / max(len(numbers), 1), (_HEIGHT - _TOP - _BOTTOM) / high
    path = ""
    for position, value in known:
        height = round(_HEIGHT - _BOTTOM - value * scale, 1)
        path += f"{'L' if path else 'M'}{position * place:.1f} {height}H{(position + 1) * place:.1f}"
    base = _HEIGHT - _BOTTOM
    area = f"{path}V{base}H{known[0][0] * place:.1f}Z" if known else ""
    return _trend(title, name, numbers, [value for _, value in known], high, shown, line=path, area=area)


def _trend(
    title: str,
    name: str,
    numbers: Sequence[int],
    values: Iterable[float],
    high: float,
    shown: Callable[[float], str],
    blocks: tuple[TrendBlock, ...] = (),
    line: str = "",
    area: str = "",
    kinds: tuple[str, ...] = (),
) -> Trend:
    found = list(values)
    first, last = (f"version {numbers[0]}", f"version {numbers[-1]}") if numbers else ("", "")
    if found:
        span = f"{first} to {last}" if len(numbers) > 1 else first
        summary = f"{title}, {span}: lowest {shown(min(found))}, highest {shown(max(found))}, newest {shown(found[-1])}"
    else:
        summary = f"{title}: not known"
    return Trend(title, name, shown(high) if found else "", first, last, summary, blocks, line, area, kinds)


def _round_up(value: float, ends: Sequence[float] = ()) -> float:
    """Return the end of a scale, at least the value: one of those given, or 1, 2 or 5 times a power of ten.

    >>> _round_up(0), _round_up(0.3), _round_up(7), _round_up(12), _round_up(2000)
    (1.0, 0.5, 10.0, 20.0, 2000.0)
    """
    if value <= 0:
        return 1.0
    if ends and value <= ends[-1]:
        return next(end for end in ends if end >= value)
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 5) if step * power >= value), 10 * power)
