"""Receipts that the tasks of a merge return to the driver: counts, and the files they read and wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from mutator.dataset.file_entry import FileEntry
from mutator.engine.file_outcomes import Packed
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.runner_choice import RunnerChoice
from mutator.rules.order_units import NO_UNITS, Future, Units

Key = tuple[bytes, ...]  # canonical bytes of a record ID's values


class Fault(NamedTuple):
    """A file that cannot be read, and its error."""

    path: str
    error: MutatorError


SplitNumber = tuple[int, int]  # number of the input, number of the split in it


class SplitReceipt(NamedTuple):
    """The rows and bytes that a task read of one split."""

    rows: int
    rejected: int
    ignored: int  # blank lines and headers
    lines: int
    size: int  # bytes as stored
    digests: Sequence[bytes]  # of the checksum chunks that the split covers
    codes: Sequence[tuple[bytes, int]] = ()  # op codes of the feed that are not deletes, from ``op_codes.abridged``
    units: Units = NO_UNITS  # of the order values in the feed
    future: Future | None = None  # its order values in the future, or above ``order.max``
    no_mutations: int = 0  # ignored rows, by their op codes
    truncates: int = 0
    floor: Any = None  # highest order value of a truncate
    halves: int = 0  # mutations of a row beyond its first
    newer: Future | None = None  # order values above the one that the snapshot is as of
    truncated: frozenset[Any] = frozenset()  # order values of the truncates


NOTHING_READ = SplitReceipt(0, 0, 0, 0, 0, ())


class RejectSample(NamedTuple):
    """A rejected row, shown as an example."""

    path: str
    offset: int
    line: int
    position: str  # offset or line, in words
    reason: str
    row: bytes


class DecidedReject(NamedTuple):
    """A mutation that the register rejected."""

    input: int  # number of its file in the plan
    offset: int  # 0 in a table in memory
    reason: str
    row: bytes  # as rejects have it


class LateOrders(NamedTuple):
    """The bounds of the order values of late mutations, and of the records and tombstones that are newer."""

    lowest: Any
    highest: Any
    lowest_known: Any
    highest_known: Any

    def joined(self, other: "LateOrders | None") -> "LateOrders":
        """Return the bounds of both."""
        if other is None:
            return self
        return LateOrders(
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            min(self.lowest_known, other.lowest_known),
            max(self.highest_known, other.highest_known),
        )


@dataclass(frozen=True, kw_only=True)
class MergeReceipt:
    """Counts and files of one merge: of a bucket, a group of buckets, or a unit of a partition."""

    counts: Mapping[str, int] = field(default_factory=dict)
    won: Packed | None = field(default_factory=dict)  # outcomes of winners by feed file; None: not known
    samples: Mapping[str, Sequence[Key]] = field(default_factory=dict)
    expired: Any = None  # highest order value of a tombstone that expired
    highest: Any = None  # highest order value of a winner
    absent: Sequence[tuple[Any, Key]] = ()  # order values and keys of the newest records that a full snapshot lacks
    late: LateOrders | None = None
    rejects: Sequence[DecidedReject] = ()  # no more than the run may set aside, and some samples
    units: Units = field(default_factory=dict)  # of the order values of records and tombstones that mutations met
    files: tuple[FileEntry, ...] = ()
    beside: tuple[FileEntry, ...] = ()
    splits: Mapping[SplitNumber, SplitReceipt] = field(default_factory=dict)  # read where they were merged
    carried: tuple[int, ...] = ()  # inputs whose files were carried over unread
    checked: tuple[str, ...] = ()  # paths of files that were carried over, and read to check them
    damage: tuple[Fault, ...] = ()
    partition: str | None = None  # directory of the partition, if the master is partitioned
    rows: int = 0  # rows written, also counted in a dry run, which writes no files


@dataclass(frozen=True, kw_only=True)
class LedgerReceipt:
    """The contents of the ledger: receipts of splits, rejected rows, damage."""

    splits: Mapping[SplitNumber, SplitReceipt]
    rejects: Mapping[str, Sequence[RejectSample]]  # side -> samples
    rejected: int  # rows rejected by reading that reached the ledger
    damage: tuple[Fault, ...]
    tallies: tuple[MergeReceipt, ...]  # of steps that write nothing
    beside: tuple[FileEntry, ...]
    decided: int = 0  # rows rejected by registers that reached it


@dataclass(frozen=True)
class Receipts:
    """All receipts of a run."""

    merges: tuple[MergeReceipt, ...]
    ledger: LedgerReceipt
    touched: Mapping[str, int] = field(default_factory=dict)  # directory of a touched partition -> bytes sent to it
    replaced: frozenset[str] | None = None  # directories of partitions; None: their number has no meaning
    lost: Mapping[str, str] = field(default_factory=dict)  # path of a damaged file that was replaced -> what is wrong
    joined: FileEntry | None = None  # pack that replaces several packs of filters
    runner: RunnerChoice | None = None  # None: one that nobody chose
    carries: bool = False  # rows of the feed carry what the place had of other keys

    @property
    def floor(self) -> Any:
        """The highest order value of a truncate; None without one."""
        floors = (one.floor for one in self.ledger.splits.values())
        return max((floor for floor in floors if floor is not None), default=None)

    @property
    def truncates(self) -> frozenset[Any]:
        """The order values of all truncates."""
        return frozenset[Any]().union(*(one.truncated for one in self.ledger.splits.values()))
