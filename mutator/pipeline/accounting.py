"""Add up what the tasks returned.

Counts come from the data that was read and written, returned by the tasks that did it; never from accumulators, which
count twice when a task is retried.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import Any

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.gc_pause import paused
from mutator.dataset.manifest import CHANGES
from mutator.dataset.partition_index import EARLIER
from mutator.engine.lost_files import lost_inputs, lost_parts
from mutator.engine.receipts import (
    Fault,
    Key,
    LateOrders,
    LedgerReceipt,
    MergeReceipt,
    Receipts,
    RejectSample,
    SplitReceipt,
)
from mutator.engine.split_content import checksum_of
from mutator.errors import MutatorError, error
from mutator.errors.display import counted, key_text
from mutator.errors.parts import place
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.feed_rows import FileRows, feed_rows
from mutator.plan.inspect.source import Source
from mutator.plan.partition_plan import joined_packs, untouched
from mutator.plan.reading import SAMPLES, Reading
from mutator.plan.run_plan import Plan
from mutator.rules import file_names
from mutator.rules.changes import changed_counts
from mutator.rules.order_units import Future, Units, joined, joined_futures, units_of_values

Splits = Mapping[tuple[int, int], SplitReceipt]  # (input, number of the split) -> its receipt


OpCodePlace = tuple[tuple[int, int], int]  # first split with a code: numbers of input and split, lines before it


@dataclass(frozen=True)
class Result:
    """The sums of all receipts of a merge."""

    counts: Counter[str]
    samples: dict[str, list[Key]]
    files: tuple[FileEntry, ...]
    beside: tuple[FileEntry, ...]
    feed: tuple[tuple[str, int, str], ...]  # (name, bytes, checksum) of each feed file
    rejects: Mapping[str, Sequence[RejectSample]]  # side -> samples
    decided: int  # rows that the register rejected
    carried: int  # data files that were carried over
    unread: int  # bytes of files that were carried over unread
    checked: frozenset[str]  # paths of files that were carried over, and read to check them
    checked_bytes: int
    expired: Any  # highest order value of a tombstone that expired, None if none did
    floor: Any  # highest order value of a truncate, or that of a snapshot; None without one
    highest: Any  # highest order value of a winner, None without winners
    truncates: frozenset[Any] = frozenset()  # order values of all truncates, or that of a snapshot
    partitions: Mapping[str, Counter[str]] = field(default_factory=dict)  # counts of each partition that was written
    replaced: frozenset[str] | None = None  # partitions that an overwrite replaced
    lost: Mapping[str, str] = field(default_factory=dict)  # path of a damaged file that was replaced -> what is wrong
    absent: Sequence[tuple[Any, Key]] = ()  # order values and keys of the newest records that a full snapshot lacks
    late: LateOrders | None = None
    op_codes: Mapping[bytes, int] = field(default_factory=dict)  # of the feed, without those of deletes
    op_code_places: Mapping[bytes, OpCodePlace] = field(default_factory=dict)
    units: Mapping[str, Units] = field(default_factory=dict)  # side -> units of its order values
    future: Future | None = None  # order values of the feed in the future, or above ``order.max``
    future_files: Sequence[str] = ()  # paths of the feed files with these
    newer: Future | None = None  # order values of a snapshot above the one that it is as of
    read: Sequence[FileRows] = ()  # of each feed file that was read


@paused()
def add_up(plan: Plan, receipts: Receipts) -> Result:
    """Combine the receipts of all tasks.

    Raises DataError or StateError for a damaged input, StorageError where a split was not read.
    """
    merges, ledger = receipts.merges, receipts.ledger
    _raise_damage(plan, receipts)
    tallies = [*merges, *ledger.tallies]
    counts, samples = sum_of_receipts(tallies)
    splits = dict(ledger.splits)
    for receipt in merges:
        splits |= receipt.splits
    carried = {index for receipt in merges for index in receipt.carried}
    unread = carried | lost_inputs(plan, receipts.lost)
    _check_splits(plan, ledger, splits, unread)
    _check_rejects(plan, ledger, tallies)
    _count_inputs(plan, counts, splits, carried)
    feed = _feed_files(plan, splits, unread)
    lost = lost_parts(plan, receipts.lost)
    _count_lost(counts, lost)
    highest = max((receipt.highest for receipt in tallies if receipt.highest is not None), default=None)
    expired = [receipt.expired for receipt in tallies] + (_known_orders(plan, lost, highest) if lost else [])
    check_unique(plan, counts, samples)  # only now, because a damaged file might look the same
    files = [part for receipt in merges for part in receipt.files]
    beside = [*(part for receipt in tallies for part in receipt.beside), *ledger.beside]
    taken_over = [part for index in carried for part in _parts_of(plan.inputs[index].source)]
    if plan.master is not None:
        kept = _kept_parts(plan, receipts)
        beside += [] if receipts.joined is None else [receipts.joined]
        _count_untouched(counts, kept)
        files += [part for part in kept if part.is_data]
        beside += [part for part in kept if not part.is_data]
        taken_over += kept
    op_codes, op_code_places = _op_codes(plan, splits)
    truncate = _truncate(plan, counts, splits)
    counts["feed no mutations"] = sum(receipt.no_mutations for receipt in splits.values())
    checked = frozenset(path for receipt in merges for path in receipt.checked)
    checked_bytes = sum(part.bytes for part in taken_over if part.path in checked)
    return Result(
        counts=counts,
        samples=samples,
        files=tuple(files),
        beside=tuple(beside),
        feed=feed,
        rejects=ledger.rejects,
        decided=ledger.decided,
        carried=sum(part.is_data for part in taken_over),
        unread=sum(part.bytes for part in taken_over) - checked_bytes,
        checked=checked,
        checked_bytes=checked_bytes,
        expired=max((order for order in expired if order is not None), default=None),
        floor=receipts.floor if plan.as_of is None else plan.as_of,
        truncates=receipts.truncates if plan.as_of is None else frozenset([plan.as_of]),
        highest=highest,
        partitions=_by_partition(merges, lost),
        replaced=receipts.replaced,
        lost=receipts.lost,
        absent=heapq.nlargest(SAMPLES, [one for receipt in tallies for one in receipt.absent]),
        late=_late_orders(tallies),
        op_codes=op_codes,
        op_code_places=op_code_places,
        units={
            "feed": joined(receipt.units for receipt in splits.values()),
            "snapshot": units_of_values([] if plan.as_of is None else [plan.as_of]),
            "master": joined(receipt.units for receipt in tallies),
        },
        future=joined_futures([receipt.future for receipt in splits.values()]),
        future_files=[
            plan.inputs[index].source.shown_path
            for index in sorted({index for (index, _), receipt in splits.items() if receipt.future is not None})
        ],
        newer=joined_futures([receipt.newer for receipt in splits.values()]),
        read=feed_rows(plan, splits, tallies, truncate),
    )


def check_unique(plan: Plan, counts: Counter[str], samples: Mapping[str, Sequence[Key]]) -> None:
    """Raise DataError where the master has several rows of an ID, and ``master.unique`` promises one."""
    if counts["met twice"]:
        shown = "; ".join(key_text(plan.shown.key(key)) for key in samples["met twice"])
        raise error("master.twice", ids=counted(counts["met twice"], "ID"), samples=shown)


def _parts_of(source: Source) -> list[FileEntry]:
    """Return the manifest's entries of an input that was carried over."""
    return [part for part in (source.part, source.order_part) if part is not None]


def _raise_damage(plan: Plan, receipts: Receipts) -> None:
    """Raise the first error that any task returned, in a fixed order."""
    damage = [*receipts.ledger.damage, *(fault for receipt in receipts.merges for fault in receipt.damage)]
    if damage:
        raise _with_cure(plan, min(damage, key=_by_kind).error)


def _with_cure(plan: Plan, fault: MutatorError) -> MutatorError:
    """Return the error of a damaged file of the master; an overwrite may be able to go on without it."""
    if fault.kind != "manifest.damage" or plan.operation == "apply":
        return fault
    return error("overwrite.damage", path=fault.fields["path"], why=fault.fields["why"])


def _by_kind(fault: Fault) -> tuple[str, str, str]:
    return fault.error.kind, fault.path, str(fault.error)


def _check_splits(plan: Reading, ledger: LedgerReceipt, splits: Splits, carried: Collection[int]) -> None:
    """Raise StorageError where a rejected row was lost on its way, or a split has no receipt."""
    shipped = sum(
        min(receipt.rejected, plan.rejects_shipped[plan.inputs[index].side])
        for (index, _), receipt in splits.items()
        if receipt.rejected
    )
    if ledger.rejected != shipped:
        raise error("sums", problems=f"rejected rows sent: {shipped:,}, rejected rows met: {ledger.rejected:,}")
    lost = [split for split in plan.splits if (split.input, split.number) not in splits and split.input not in carried]
    if lost:
        path = place(plan.inputs[lost[0].input].source.path)
        raise error("sums", problems=f"{counted(len(lost), 'byte range')} without a receipt, one of {path}")


def _check_rejects(plan: Reading, ledger: LedgerReceipt, tallies: Sequence[MergeReceipt]) -> None:
    """Raise StorageError where a row that the register rejected was lost on its way."""
    most = plan.rejects_shipped.get("feed", 0)
    decided = sum(min(receipt.counts.get("feed rejected", 0), most) for receipt in tallies)
    if ledger.decided != decided:
        raise error("sums", problems=f"rows rejected: {decided:,}, and set aside: {ledger.decided:,}")


def _count_inputs(plan: Reading, counts: Counter[str], splits: Splits, carried: Collection[int]) -> None:
    """Add the counts of each input, and of the files that were carried over unread."""
    for index in carried:
        part = plan.inputs[index].source.part
        assert part is not None
        counts[_rows_of(plan.inputs[index].side)] += part.rows
    for (index, _), receipt in splits.items():
        side = plan.inputs[index].side
        counts[_rows_of(side)] += receipt.rows
        counts[f"{side} ignored"] += receipt.ignored
        counts[f"{side} rejected"] += receipt.rejected
        if receipt.halves:
            counts["feed halves"] += receipt.halves


def _truncate(plan: Plan, counts: Counter[str], splits: Splits) -> tuple[int, str] | None:
    """Count the truncates; return the file of the highest, and its outcome. The others are superseded."""
    found = [(one.floor, number) for number, one in splits.items() if one.truncates]
    if not found:
        return None
    (order, (index, _)), known = max(found), plan.floor
    outcome = "truncate" if known is None or order > known else "no-op" if order == known else "late"
    counts[f"feed {outcome}"] += 1
    counts["feed superseded"] += sum(one.truncates for one in splits.values()) - 1
    return index, outcome


def _rows_of(side: str) -> str:
    return "tombstones read" if side == "tombstones" else f"{side} rows"


def _feed_files(plan: Plan, splits: Splits, carried: Collection[int]) -> tuple[tuple[str, int, str], ...]:
    """Return (name, bytes, checksum) of each feed file; raise StateError where another input was damaged.

    Tables in memory have no name by which a later run could know them.
    """
    feed = []
    for index, one in enumerate(plan.inputs):
        if index in carried:
            continue
        source, text = one.source, checksum_of(plan, index, splits)
        if source.checksum is not None and text != source.checksum:
            why = f"its checksum is {text} and should be {source.checksum}"
            raise _with_cure(plan, error("manifest.damage", path=source.path, why=why))
        if one.side == "feed" and not source.is_table:
            feed.append((source.merged_as, source.bytes, text))
    return tuple(feed)


def _kept_parts(plan: Plan, receipts: Receipts) -> list[FileEntry]:
    """Return the new manifest's entries of the files of untouched partitions."""
    packs: dict[str, str] = {}
    if receipts.joined is not None:
        packs = dict.fromkeys(joined_packs(plan, receipts.touched), receipts.joined.path)
    return [_as_kept(plan, part, packs) for _, part in untouched(plan, receipts.touched)]


def _as_kept(plan: Reading, part: FileEntry, packs: Mapping[str, str]) -> FileEntry:
    """Return the new manifest's entry of a file that stays. packs: path of a pack -> the one that replaces it."""
    assert plan.master is not None
    if part.filter is not None and part.filter in packs:
        part = replace(part, filter=packs[part.filter])
    if not part.is_data or part.form or plan.rows.carries:
        return part
    return replace(part, form=-1 - len(plan.master.spec.get(EARLIER, ())))


def _count_untouched(counts: Counter[str], kept: Sequence[FileEntry]) -> None:
    rows = sum(part.rows for part in kept if part.is_data)
    tombstones = sum(part.rows for part in kept if part.role == "tombstones")
    counts.update(dict.fromkeys(("master rows", "master kept", "output rows"), rows))
    counts.update(dict.fromkeys(("tombstones read", "tombstones in", "tombstones out"), tombstones))


def _count_lost(counts: Counter[str], lost: Sequence[FileEntry]) -> None:
    """Count the records and tombstones of damaged files, whose keys are unknown: their tombstones expire at once."""
    for part in lost:
        if part.is_data:
            counts.update(dict.fromkeys(("master rows", "master deleted by absence", "expired"), part.rows))
        elif part.role == "tombstones":
            counts.update(dict.fromkeys(("tombstones read", "tombstones in", "expired"), part.rows))


def _known_orders(plan: Plan, lost: Sequence[FileEntry], highest: Any) -> list[Any]:
    """Return order values that those of lost rows may have reached: of this run, of snapshots, in names of files."""
    sequences = [file_names.sequence(file_names.base_name(part.path)) for part in lost] if plan.by_file_name else []
    return [highest, *plan.absences.values(), *sequences]


def _late_orders(tallies: Sequence[MergeReceipt]) -> LateOrders | None:
    found = [receipt.late for receipt in tallies if receipt.late is not None]
    return reduce(LateOrders.joined, found) if found else None


def _op_codes(plan: Reading, splits: Splits) -> tuple[Counter[bytes], dict[bytes, OpCodePlace]]:
    """Return the counts of the feed's op codes, and the place of each."""
    counts, first, lines = Counter[bytes](), dict[bytes, OpCodePlace](), Counter[int]()
    for (index, number), receipt in sorted(splits.items()):
        if plan.inputs[index].side == "feed":
            for code, count in receipt.codes:
                counts[code] += count
                first.setdefault(code, ((index, number), lines[index]))
            lines[index] += receipt.lines
    return counts, first


def _by_partition(merges: Sequence[MergeReceipt], lost: Sequence[FileEntry]) -> dict[str, Counter[str]]:
    """Return the counts of each partition that was written, by its directory. lost: damaged files of these."""
    found: dict[str, Counter[str]] = {}
    for part in lost:
        if part.is_data:
            found.setdefault(part.directory, Counter())["master deleted by absence"] += part.rows
    for receipt in merges:
        if receipt.partition is not None:
            counts = found.setdefault(receipt.partition, Counter())
            counts.update(receipt.counts)
            counts["rows written"] += receipt.rows
    return found


def sum_of_receipts(receipts: Sequence[MergeReceipt]) -> tuple[Counter[str], dict[str, list[Key]]]:
    """Return the sums of all counts, and the smallest of the sample keys."""
    counts: Counter[str] = Counter()
    samples: dict[str, list[Key]] = {}
    for receipt in receipts:
        counts.update(receipt.counts)
        for name, keys in receipt.samples.items():
            samples[name] = sorted([*samples.get(name, []), *keys])[:SAMPLES]
    return counts, samples


def check_written(plan: Plan, result: Result) -> None:
    """Raise StorageError where the files do not hold as many rows, tombstones and changed rows as were decided."""
    rows = Counter({"output rows": sum(part.rows for part in result.files)})
    for part in result.beside:
        rows[part.role] += part.rows
    found = [
        ("output rows", result.counts["output rows"], rows["output rows"]),
        ("tombstones out", result.counts["tombstones out"], rows["tombstones"]),
    ]
    if plan.changes is not None:
        found.append(("changed rows", sum(changed_counts(result.counts).values()), rows[CHANGES]))
    problems = [
        f"{name} {decided:,}, and the files that were written hold {written:,}"
        for name, decided, written in found
        if decided != written
    ]
    if problems:
        raise error("sums", problems="; ".join(problems))
