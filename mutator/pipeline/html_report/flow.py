"""The picture of the outcomes: bars of the feed, of the new master and of the master before, and what flows where.

Each bar has its own scale, because a feed is often a small part of its master. A segment is never thinner than a line
of text, so that each outcome can be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mutator.pipeline.html_report.sums import Sum, SumPart, feed_sum, master_sum, output_sum

_LINE = 24.0  # height of the thinnest segment
_HEIGHT = 264.0  # of a bar, at least
_TOP = 46.0  # of the bars: their headings are above
_GAP = 2.0  # between two segments


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
