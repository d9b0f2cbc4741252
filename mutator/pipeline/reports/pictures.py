"""Pictures of numbers: the sums of a merge with what flows where, and charts of values over versions.

Every row of the feed and of the master ends in one outcome. The picture has bars of the feed, of the new master and of
the master before. Each bar has its own scale, because a feed is often a small part of its master. A segment is never
thinner than a line of text, so that each outcome can be read.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.sums import Sum, SumPart, feed_sum, master_sum, output_sum

_LINE = 24.0  # height of the thinnest segment
_HEIGHT = 264.0  # of a bar, at least
_TOP = 46.0  # of the bars: their headings are above
_GAP = 2.0  # between two segments
_CHART_WIDTH, _CHART_HEIGHT = 360.0, 132.0  # of a chart, in its own units
_CHART_TOP, _BOTTOM = 22.0, 22.0  # for the labels
_WIDEST = 18.0  # bar


@dataclass(frozen=True)
class Segment:
    """A segment of a bar. top, height: in the units of the picture."""

    name: str
    rows: int
    share: float
    top: float
    height: float

    @property
    def middle(self) -> float:
        """The height at which its label is."""
        return self.top + self.height / 2


@dataclass(frozen=True)
class Bar:
    """A bar. left: where it begins, in the units of the picture."""

    heading: str
    rows: int
    left: float
    anchor: str  # of the heading: start | middle | end
    segments: tuple[Segment, ...]

    def segment(self, name: str) -> Segment | None:
        """Return the segment of an outcome, if it has rows."""
        return next((one for one in self.segments if one.name == name), None)


@dataclass(frozen=True)
class Ribbon:
    """Rows that go from one bar into the new master. path: of SVG."""

    name: str
    path: str


@dataclass(frozen=True)
class Flow:
    """The picture. Sizes are in its own units, which are pixels where it is shown in full."""

    width: float
    height: float
    top: float
    thickness: float
    feed: Bar
    output: Bar
    master: Bar
    ribbons: tuple[Ribbon, ...]
    is_narrow: bool


def flow_of(counts: Mapping[str, int], target: str, width: float, *, narrow: bool = False) -> Flow:
    """Return the picture of a merge. target: what the result is called. narrow: for a phone."""
    thickness = 16.0 if narrow else 26.0
    feed, output, master = feed_sum(counts), output_sum(counts), master_sum(counts)
    order = {part.name: part for part in output.parts}
    parts = [order[name] for name in ("inserted", "updated", "kept")]
    # What is kept is at the bottom, beside the same rows of the new master.
    old = sorted(master.some, key=lambda part: part.name == "kept")
    height = max(_HEIGHT, _LINE * max(len(feed.some), len(old)))
    middle = (width - thickness) / 2
    left = Bar("feed", feed.rows, 0.0, "start", _segments(feed, feed.some, height))
    new = Bar(target, output.rows, middle, "middle", _segments(output, [one for one in parts if one.rows], height))
    right = Bar("master before", master.rows, width - thickness, "end", _segments(master, old, height))
    ribbons = [
        *(_ribbon(name, left, new, thickness, middle) for name in ("inserted", "updated")),
        _ribbon("kept", right, new, width - thickness, middle + thickness),
    ]
    shown = tuple(ribbon for ribbon in ribbons if ribbon is not None)
    return Flow(width, _TOP + height + 4, _TOP, thickness, left, new, right, shown, narrow)


def _segments(whole: Sum, parts: Sequence[SumPart], height: float) -> tuple[Segment, ...]:
    """Return the segments of a bar from top to bottom: each has a line, and a share of the rest of the height."""
    rest = height - _LINE * len(parts)
    top, made = _TOP, []
    for part in parts:
        share = whole.share(part.rows)
        size = _LINE + rest * share
        made.append(Segment(part.name, part.rows, share, round(top, 1), round(size - _GAP, 1)))
        top += size
    return tuple(made)


def _ribbon(name: str, origin: Bar, target: Bar, start: float, end: float) -> Ribbon | None:
    """Return the ribbon between the segments of one outcome. start, end: where it leaves and arrives."""
    one, other = origin.segment(name), target.segment(name)
    if one is None or other is None:
        return None
    bend = round((start + end) / 2, 1)
    low, high = one.top + one.height, other.top + other.height
    path = (
        f"M{start:.1f} {one.top:.1f}C{bend} {one.top:.1f} {bend} {other.top:.1f} {end:.1f} {other.top:.1f}"
        f"V{high:.1f}C{bend} {high:.1f} {bend} {low:.1f} {start:.1f} {low:.1f}Z"
    )
    return Ribbon(name, path)


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
    width: float = _CHART_WIDTH
    height: float = _CHART_HEIGHT
    top: float = _CHART_TOP
    base: float = _CHART_HEIGHT - _BOTTOM


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
    place = _CHART_WIDTH / max(len(numbers), 1)
    width = min(max(place * 0.78, 1.0), _WIDEST)
    scale = (_CHART_HEIGHT - _CHART_TOP - _BOTTOM) / high
    blocks = []
    for position, number in enumerate(numbers):
        below = _CHART_HEIGHT - _BOTTOM
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
    place, scale = _CHART_WIDTH / max(len(numbers), 1), (_CHART_HEIGHT - _CHART_TOP - _BOTTOM) / high
    path = ""
    for position, value in known:
        height = round(_CHART_HEIGHT - _BOTTOM - value * scale, 1)
        path += f"{'L' if path else 'M'}{position * place:.1f} {height}H{(position + 1) * place:.1f}"
    base = _CHART_HEIGHT - _BOTTOM
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
