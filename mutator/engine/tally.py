"""The counts of a merged bucket, by either engine."""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from mutator.engine.file_outcomes import FileOutcomes
from mutator.engine.receipts import DecidedReject, Key, LateOrders, MergeReceipt
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.reading import SAMPLES
from mutator.rules.order_units import UnitCounter, Units, joined
from mutator.rules.truth_table import CLEARED, Decision

# Remark on a key: its delete has a partition field without a value, and its partition does not have the record.
DELETE_WITHOUT_PARTITION = "delete without partition"
# Remark on an inserted key that a record has in another spelling; a sample has the values of both IDs.
SPELLED_OTHERWISE = "spelled otherwise"
MET_IN_PART = "met in part"  # records of the part that a snapshot has, with a row of it; it may move others there


@dataclass
class Tally:
    """The counts, samples and bounds of one bucket."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[Key]] = field(default_factory=dict)
    expired: Any = None  # highest order value of a tombstone that expired here
    highest: Any = None  # highest order value of a winner, or of a record that an overwrite deletes by absence
    absent: list[tuple[Any, Key]] = field(default_factory=list)  # the newest records that a snapshot lacks
    late: LateOrders | None = None
    most_rejects: int = 0  # that are kept; the others are counted, and the run will fail
    rejects: list[DecidedReject] = field(default_factory=list)
    # The units of the order values of records and tombstones that mutations met, and of records that truncates delete;
    # and a counter of such values.
    units: Units = field(default_factory=dict)
    orders: UnitCounter = field(default_factory=UnitCounter)
    won: FileOutcomes = field(default_factory=FileOutcomes)

    def count(self, decision: Decision, count: int) -> None:
        """Count the outcomes of a decision about some keys."""
        if decision.winner is not None:
            self.counts[f"feed {decision.winner}"] += count
        if decision.master is not None:
            self.counts[f"master {decision.master}"] += count
        if (decision.result, decision.master) == ("wait", "truncated"):
            self.counts["waiting of truncated"] += count
        if (decision.result, decision.master) == ("write", "kept"):
            self.counts[CLEARED] += count

    def note(self, name: str, key: Key) -> None:
        """Count a remark on a key, and keep the first few keys (they come sorted)."""
        self.counts[name] += 1
        kept = self.samples.setdefault(name, [])
        if len(kept) < SAMPLES:
            kept.append(key)

    def note_all(self, name: str, keys: Iterable[Key]) -> None:
        """Count a remark on many keys, in any order, and keep the smallest few."""
        found = list(keys)
        self.counts[name] += len(found)
        self.sample(name, found)

    def sample(self, name: str, keys: Iterable[Key]) -> None:
        """Keep the smallest few keys of a remark."""
        found = heapq.nsmallest(SAMPLES, [*self.samples.get(name, ()), *keys])
        if found:
            self.samples[name] = found

    def high(self, order: Any) -> None:
        """Raise the highest order value."""
        if self.highest is None or order > self.highest:
            self.highest = order

    def note_absent(self, records: Iterable[tuple[Any, Key]]) -> None:
        """Keep the newest few records that a full snapshot lacks: their order values and keys."""
        self.absent = heapq.nlargest(SAMPLES, [*self.absent, *records])

    @property
    def room(self) -> int:
        """How many more rejects are kept."""
        return self.most_rejects - len(self.rejects)

    def reject(self, reason: str, rows: Iterable[tuple[int, int, bytes]]) -> None:
        """Keep mutations that the register rejects, no more than there is room for. rows: as in ``DecidedReject``."""
        self.rejects += [DecidedReject(file, offset, reason, row) for file, offset, row in rows]

    def note_late(self, orders: LateOrders) -> None:
        """Widen the bounds of the order values of late mutations."""
        self.late = orders.joined(self.late)

    def note_units(self, units: Units) -> None:
        """Add the units of the order values of records or tombstones that mutations met."""
        self.units = joined([self.units, units])

    def expire(self, count: int, order: Any) -> None:
        """Count tombstones that expired. order: the highest of their order values."""
        self.counts["expired"] += count
        if self.expired is None or order > self.expired:
            self.expired = order

    def receipt(self, **members: Any) -> MergeReceipt:
        """Return the receipt that travels to the driver. members: other fields of ``MergeReceipt``."""
        return MergeReceipt(
            counts=dict(self.counts),
            won=self.won.packed(),
            samples=self.samples,
            expired=self.expired,
            highest=self.highest,
            absent=self.absent,
            late=self.late,
            rejects=self.rejects,
            units=joined([self.units, self.orders.units()]),
            **members,
        )
