"""The sums of a merge: every row of the feed and of the master ends in one outcome."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mutator.rules.truth_table import FEED_OUTCOMES, MASTER_OUTCOMES, RARE_OUTCOMES, REVIVED, WAITED


class SumPart(NamedTuple):
    """An outcome, and the number of its rows."""

    name: str
    rows: int


class Sum(NamedTuple):
    """A total, and the parts that add up to it; a negative part is taken away."""

    name: str
    rows: int
    parts: tuple[SumPart, ...]

    def share(self, rows: int) -> float:
        """Return the fraction of the total that some rows are."""
        return rows / self.rows if self.rows else 0.0

    @property
    def some(self) -> tuple[SumPart, ...]:
        """The parts that have rows."""
        return tuple(part for part in self.parts if part.rows)


def feed_sum(counts: Mapping[str, int]) -> Sum:
    """Return the rows of the feed by outcome."""
    return _outcomes(counts, "feed", FEED_OUTCOMES, RARE_OUTCOMES)


def master_sum(counts: Mapping[str, int]) -> Sum:
    """Return the rows of the master, as it was before, by outcome."""
    return _outcomes(counts, "master", MASTER_OUTCOMES, ("truncated",))


def output_sum(counts: Mapping[str, int]) -> Sum:
    """Return the rows of the result by their origin."""
    return _sum(counts, "output rows", {"kept": "master kept", "updated": "feed updated", "inserted": "feed inserted"})


def tombstone_sum(counts: Mapping[str, int]) -> Sum:
    """Return the remembered deletes of the result by their origin."""
    plus = {
        "remembered before": "tombstones in",
        "deleted": "feed deleted",
        "deleted by absence": "master deleted by absence",
        "deletes of unknown": "feed delete of unknown",
    }
    rare = {"patches of unknown": "feed patch of unknown", "truncated, patches wait": "waiting of truncated"}
    plus |= {name: member for name, member in rare.items() if counts.get(member)}
    found = _sum(counts, "tombstones out", plus)
    names = (REVIVED, "expired", *(name for name in (WAITED, "covered") if counts.get(name)))
    minus = tuple(SumPart(name, -counts.get(name, 0)) for name in names)
    return Sum("tombstones", found.rows, (*found.parts, *minus))


def _outcomes(counts: Mapping[str, int], side: str, names: Sequence[str], rare: Sequence[str]) -> Sum:
    """Return the rows of a side by outcome. rare: outcomes that are left out where no row has them."""
    found = (*names, *(name for name in rare if counts.get(f"{side} {name}")))
    return _sum(counts, f"{side} rows", {name: f"{side} {name}" for name in found})


def _sum(counts: Mapping[str, int], total: str, parts: Mapping[str, str]) -> Sum:
    return Sum(
        total, counts.get(total, 0), tuple(SumPart(name, counts.get(member, 0)) for name, member in parts.items())
    )
