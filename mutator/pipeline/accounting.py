"""Add up what the tasks returned, and refuse to publish what does not add up or must not happen.

Counts come from the data that was read and written, returned by the tasks that did it; never from accumulators, which
count twice when a task is retried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mutator.dataset import checksum
from mutator.dataset.gc_pause import paused
from mutator.dataset.manifest import DataFile, Manifest, Part, SideFile
from mutator.dataset.partition_index import EARLIER
from mutator.engine.split_content import Receipt
from mutator.errors import error, key_text, rebuilt
from mutator.plan.partition_plan import joined_packs, untouched
from mutator.plan.run_plan import SAMPLES, Plan
from mutator.plan.splits import Input
from mutator.rules.order_values import order_text, order_value
from mutator.rules.outcome import check_sums

__all__ = ["Result", "add_up", "check", "check_written", "receipts_checksum", "sum_of_buckets"]

Key = tuple[bytes, ...]


@dataclass(frozen=True)
class Result:
    """What a merge did: the sums of all receipts."""

    counts: Counter[str]
    samples: dict[str, list[Key]]
    files: tuple[DataFile, ...]
    beside: tuple[SideFile, ...]
    feed: tuple[tuple[str, int, str], ...]  # (name, bytes, checksum) of each feed file
    rejects: dict[str, list[tuple[str, int, int, str, str, bytes]]]  # side -> (path, offset, line, place, reason, row)
    carried: int  # data files that were taken over unread
    expired: Any
    highest: Any
    partitions: Mapping[str, Counter[str]] = field(default_factory=dict)  # those that were written, by directory


@paused()
def add_up(plan: Plan, receipts: Sequence[dict[str, Any]]) -> Result:
    """Combine the receipts of all buckets and, last, of the ledger.

    Raises DataError or StateError for a damaged input, StorageError where a split was not read.
    """
    *buckets, ledger = receipts
    damage = [*ledger["damage"], *(fault for bucket in buckets for fault in bucket.get("damage", ()))]
    for kind, fields in sorted(damage, key=repr):
        if "text" in fields:
            raise rebuilt(kind, fields["text"])
        raise error(kind, **fields)
    counts, samples = sum_of_buckets([*buckets, *ledger["tallies"]])
    # What a task reads where it merges has its receipts beside that task's own, and what it carries over has none.
    receipts_read = (*ledger["receipts"], *(one for bucket in buckets for one in bucket.get("receipts", ())))
    read = {tuple(place): Receipt(*receipt) for place, receipt in receipts_read}
    carried = {index for bucket in buckets for index in bucket.get("carried", ())}
    for index in carried:
        one = plan.inputs[index]
        assert one.source.part is not None
        counts["tombstones read" if one.side == "tombstones" else "master rows"] += one.source.part.rows
    shipped = sum(
        min(receipt.rejected, plan.rejects_shipped[plan.inputs[index].side])
        for (index, _), receipt in read.items()
        if receipt.rejected
    )
    if ledger["rejects met"] != shipped:
        raise error("sums", problems=f"{shipped:,} rejected rows were sent and {ledger['rejects met']:,} met")
    lost = [split for split in plan.splits if (split.input, split.number) not in read and split.input not in carried]
    if lost:
        raise error(
            "sums", problems=f"{len(lost)} byte ranges have no receipt, one of {plan.inputs[lost[0].input].source.path}"
        )
    for (index, _), receipt in read.items():
        one = plan.inputs[index]
        counts["tombstones read" if one.side == "tombstones" else f"{one.side} rows"] += receipt.rows
        counts[f"{one.side} ignored"] += receipt.ignored
        counts[f"{one.side} rejected"] += receipt.rejected
    feed = []
    for index, one in enumerate(plan.inputs):
        if index in carried:
            continue
        text = receipts_checksum(plan, index, one, read)
        if one.source.checksum is not None and text != one.source.checksum:
            raise error(
                "manifest.damage",
                path=one.source.path,
                why=f"its checksum is {text} and should be {one.source.checksum}",
            )
        if one.side == "feed":
            feed.append((one.source.name, one.source.bytes, text))
    if counts["met twice"]:  # said only now, because a damaged file might look so, too
        shown = "; ".join(map(key_text, samples["met twice"]))
        raise error("master.twice", count=f"{counts['met twice']:,}", samples=shown)
    files = [DataFile(**part) for bucket in buckets for part in bucket["files"]]
    beside = [SideFile(**part) for receipt in receipts for part in receipt["beside"]]
    taken_over = sum(plan.inputs[index].side == "master" for index in carried)
    if plan.master is not None:
        joined = ledger["joined"]
        packs = dict.fromkeys(joined_packs(plan, ledger["touched"]), joined["path"]) if joined is not None else {}
        beside += [SideFile(**joined)] if joined is not None else []
        kept = [_as_it_is(plan, part, packs) for _, part in untouched(plan, ledger["touched"])]
        _count_untouched(counts, kept)
        files += [part for part in kept if isinstance(part, DataFile)]
        beside += [part for part in kept if isinstance(part, SideFile)]
        taken_over += sum(isinstance(part, DataFile) for part in kept)
    tallied = [*buckets, *ledger["tallies"]]
    return Result(
        counts=counts,
        samples=samples,
        files=tuple(files),
        beside=tuple(beside),
        feed=tuple(feed),
        rejects=ledger["rejects"],
        carried=taken_over,
        expired=max((one["expired"] for one in tallied if one["expired"] is not None), default=None),
        highest=max((one["highest"] for one in tallied if one["highest"] is not None), default=None),
        partitions=_by_partition(plan, buckets),
    )


def _as_it_is(plan: Plan, part: Part, packs: Mapping[str, str]) -> Part:
    """Return what the new manifest says of a file that stays: where its filter is now, and in which form it is."""
    assert plan.master is not None
    if part.filter is not None and part.filter in packs:
        part = replace(part, filter=packs[part.filter])
    if not isinstance(part, DataFile) or part.form is not None or plan.rows.carries:
        return part
    return replace(part, form=len(plan.master.spec.get(EARLIER, ())))


def _count_untouched(counts: Counter[str], kept: Sequence[Part]) -> None:
    rows = sum(part.rows for part in kept if isinstance(part, DataFile))
    tombstones = sum(part.rows for part in kept if isinstance(part, SideFile) and part.role == "tombstones")
    counts.update(dict.fromkeys(("master rows", "master kept", "output rows"), rows))
    counts.update(dict.fromkeys(("tombstones read", "tombstones in", "tombstones out"), tombstones))


def _by_partition(plan: Plan, buckets: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Return what became of each partition that was written, by its directory."""
    found: dict[str, Counter[str]] = {}
    for bucket in buckets:
        directory = bucket.get("partition")
        if directory is not None:
            counts = found.setdefault(directory, Counter())
            counts.update(bucket["counts"])
            counts["rows written"] += bucket["rows"]  # a dry run has no files
    return found


def sum_of_buckets(buckets: Sequence[Mapping[str, Any]]) -> tuple[Counter[str], dict[str, list[Key]]]:
    """Add up the counts of all buckets, and keep the smallest of their sample keys."""
    counts: Counter[str] = Counter()
    samples: dict[str, list[Key]] = {}
    for bucket in buckets:
        counts.update(bucket["counts"])
        for name, keys in bucket["samples"].items():
            samples[name] = sorted([*samples.get(name, []), *keys])[:SAMPLES]
    return counts, samples


def check(plan: Plan, known: Manifest | None, result: Result) -> None:
    """Raise the error of whatever must not be published: rejects, limits, guards, and sums that do not hold."""
    counts = result.counts
    for side in ("master", "feed"):
        _check_rejects(side, plan.limits.rejects[side], result)
    if plan.full:
        _check_snapshot(plan, known, result)
    removed = counts["master removed"] + counts["master deleted by absence"]
    live = removed + counts["master kept"] + counts["master replaced"]
    fraction = plan.limits.deleted_fraction
    if removed > fraction * live:  # which below 1 is also all of it
        raise error("deletes", removed=f"{removed:,}", master=f"{live:,}", fraction=f"{fraction:g}")
    below = counts["below horizon"]
    if below and not plan.limits.inserts_below_horizon:
        shown = "; ".join(key_text(key) for key in result.samples["below horizon"])
        raise error(
            "horizon", count=f"{below:,}", horizon=order_text(plan.rows.order_type, plan.horizon), samples=shown
        )
    problems = check_sums(counts)
    if counts["tombstones read"] != counts["tombstones in"]:
        problems.append(f"{counts['tombstones read']:,} tombstones were read and {counts['tombstones in']:,} met")
    if problems:
        raise error("sums", problems="; ".join(problems))


def check_written(result: Result) -> None:
    """Raise StorageError where the files do not hold as many rows and tombstones as were decided."""
    found = {
        "output rows": sum(part.rows for part in result.files),
        "tombstones out": sum(part.rows for part in result.beside if part.role == "tombstones"),
    }
    problems = [
        f"{name} {result.counts[name]:,}, and the files that were written hold {rows:,}"
        for name, rows in found.items()
        if rows != result.counts[name]
    ]
    if problems:
        raise error("sums", problems="; ".join(problems))


def _check_rejects(side: str, allowed: int, result: Result) -> None:
    count = result.counts[f"{side} rejected"]
    if count <= allowed:
        return
    lines = [
        f"  {path}: {where}: {reason}: {row.decode('utf-8', 'backslashreplace')}"
        for path, _, _, where, reason, row in result.rejects[side]
    ]
    key = "reject.policy" if side == "feed" else "master.reject.policy"
    cure = f", or raise reject.limit ({allowed})" if allowed else f", or set {key}=quarantine to set them aside"
    raise error("rejects", count=f"{count:,}", side=side, limit=allowed, samples="\n".join(lines), cure=cure)


def _check_snapshot(plan: Plan, known: Manifest | None, result: Result) -> None:
    if not result.counts["feed rows"]:
        where = ", ".join(one.source.path for one in plan.inputs if one.side == "feed")
        raise error("feed.empty", path=where, cure="deliver it whole, or use sync.mode=partial")
    if known is None or known.snapshot is None or plan.limits.older_snapshot:
        return
    before = order_value(plan.rows.order_type, known.snapshot)
    if result.highest is not None and result.highest < before:
        raise error("snapshot.older", now=order_text(plan.rows.order_type, result.highest), before=known.snapshot)


def receipts_checksum(plan: Plan, index: int, one: Input, read: Mapping[tuple[Any, ...], Receipt]) -> str:
    """Combine the digests of the splits of one input to the checksum of the file."""
    digests: list[bytes] = []
    number = 0
    while (index, number) in read:
        digests += read[index, number].digests
        number += 1
    return checksum.combine(digests, plan.chunk_of(one))
