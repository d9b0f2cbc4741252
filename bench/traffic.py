"""The seconds of transfers to a server and back, and the figures computed from them: speeds, shares, targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from bench.contenders.catalogue import find
from bench.figures import Target

__all__ = ["WAYS", "Moved", "Traffic", "Way", "traffic_targets"]

Way = Literal["write", "read"]
WAYS: tuple[Way, ...] = ("write", "read")
SHARE = 0.8  # of the client's own speed
MIB = 1 << 20


@dataclass
class Moved:
    """The seconds of one contender, one number per round, or the reason why it did not run."""

    name: str
    write: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    out: str | None = None  # skipped, failed, stopped
    why: str = ""

    def seconds(self, way: Way) -> list[float]:
        """Return the seconds of writing, or of reading."""
        return self.write if way == "write" else self.read


@dataclass(frozen=True)
class Traffic:
    """A server, the size of the file that was written and read, and the results."""

    server: str
    size: int
    results: tuple[Moved, ...]

    @property
    def name(self) -> str:
        """Return the title of its table."""
        return f"{self.server}: {self.size / MIB:g} MiB to a server on loopback and back"

    @property
    def ours(self) -> Moved | None:
        """Return mutator's result."""
        return next((result for result in self.results if find(result.name).ours), None)

    def speed(self, result: Moved, way: Way) -> float | None:
        """Return the median speed in MiB per second; None if the contender did not run."""
        seconds = result.seconds(way)
        return self.size / MIB / median(seconds) if seconds else None

    def share(self, result: Moved, way: Way) -> float | None:
        """Return mutator's speed divided by that of a client: the median of the rounds in which both ran."""
        pairs = list(zip(self.ours.seconds(way), result.seconds(way), strict=False)) if self.ours else []
        return median(theirs / ours for ours, theirs in pairs) if pairs else None


def traffic_targets(traffics: Sequence[Traffic]) -> list[Target]:
    """Compare the speeds with the targets: one for writing and one for reading, for each client but mutator's."""
    return [
        _target(traffic, result, way)
        for traffic in traffics
        for result in traffic.results
        if not find(result.name).ours
        for way in WAYS
    ]


def _target(traffic: Traffic, theirs: Moved, way: Way) -> Target:
    text = f"{traffic.server}: mutator {way}s at {SHARE:.0%} of the speed of {theirs.name}"
    share = traffic.share(theirs, way)
    if share is None or traffic.ours is None:
        return Target(text, "not measured", None)
    speeds = f"{_mib(traffic, traffic.ours, way)} against {_mib(traffic, theirs, way)}"
    return Target(text, f"{share:.0%} ({speeds})", share >= SHARE)


def _mib(traffic: Traffic, result: Moved, way: Way) -> str:
    return f"{traffic.speed(result, way):,.0f} MiB/s"
