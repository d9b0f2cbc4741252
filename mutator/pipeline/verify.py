"""Read a dataset back and hold it against its manifest; name everything that differs.

Files and their sizes, rows and checksums; every row a readable record in the bucket of its key; one row a key, and no
tombstone beside it; as many sequences as rows. The data goes through the same reading and the same shuffle as in a run.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mutator.dataset import checksum, manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import is_straggler, read_manifest
from mutator.dataset.manifest import Manifest, is_without_key
from mutator.dataset.partition_index import SPEC, is_partitioned
from mutator.engine.ledger import write_ledger
from mutator.engine.receipts import LedgerReceipt, MergeReceipt
from mutator.engine.records.read import MASTER, TOMBSTONE, Element, read_task
from mutator.engine.spark.shuffle import each_on, on_partitions, shared_with, spark_faults
from mutator.errors import MutatorError, error, key_text, printable
from mutator.pipeline.accounting import receipts_checksum, sum_of_receipts
from mutator.pipeline.verify_partitions import check_partition, plan_of_partitions, read_keys
from mutator.plan.inspect.managed import dataset_sources
from mutator.plan.run_plan import SAMPLES, Plan, plan_of_dataset
from mutator.storage import absolute, blocks, storage_for, walk, writable_storage_for

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["Verification", "verify"]


@dataclass(frozen=True)
class Verification:
    """What a dataset holds, and what differs from its manifest."""

    path: str
    files: int
    rows: int
    tombstones: int
    bytes: int
    problems: tuple[str, ...]
    keyed: bool = True  # False: it was exported or imported, and no run has said what its key is

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [
            (
                f"{self.path}: {self.files} data files, {self.rows:,} rows, {self.bytes:,} bytes, "
                f"{self.tombstones:,} tombstones"
            )
        ]
        lines += [f"differs: {printable(problem)}" for problem in self.problems]
        if not self.problems:
            what = "files, sizes, rows, checksums, one row per key" if self.keyed else "files, sizes, checksums"
            lines.append(f"as its manifest says: {what}")
        return "\n".join(lines)


def verify(sc: SparkContext, path: str) -> Verification:
    """Hold a dataset against its manifest.

    Raises ConfigError where there is no manifest, StateError where it is damaged.
    """
    given, path = path, absolute(path)
    storage = writable_storage_for(path)
    path = storage.resolve(path)
    if storage.stat(path) is None:
        raise error("path.missing", path=path, what="directory")
    known = read_manifest(storage, path)
    if known is None:
        raise error(
            "path.missing", path=f"{path}/{manifest.PATH}", what="manifest: the directory was not written by mutator"
        )
    problems, readable = _files(path, known)
    data, tombstones = dataset_sources(path, known)
    if is_without_key(known):
        return _verification(given, known, problems + _files_alone(sc, path, known, readable))
    read: Any = read_task
    check: Any = _check
    if is_partitioned(known):
        plan, formats = plan_of_partitions(path, known, readable)
        read, check = partial(read_keys, formats, known.spec[SPEC]["scope"]), check_partition
    else:
        plan = plan_of_dataset(
            known,
            tuple(one for one in data if one.path in readable),
            tuple(one for one in tombstones if one.path in readable),
        )
    with spark_faults(sc), shared_with(sc, plan) as shared:
        *buckets, ledger = on_partitions(sc, shared, plan.tasks, plan.groups + 1, read, check)
    problems += _contents(path, plan, known, ledger)
    totals, samples = sum_of_receipts(buckets)
    for name, number in sorted(totals.items()):
        problems.append(f"{number:,} {name}, for example {'; '.join(map(key_text, samples[name]))}")
    return _verification(given, known, problems)


def _verification(given: str, known: Manifest, problems: list[str]) -> Verification:
    return Verification(
        path=given,
        files=len(known.files),
        rows=sum(part.rows for part in known.files),
        tombstones=sum(part.rows for part in known.beside if part.role == "tombstones"),
        bytes=sum(part.bytes for part in known.files),
        problems=tuple(problems),
        keyed=not is_without_key(known),
    )


def _files_alone(sc: SparkContext, path: str, known: Manifest, readable: set[str]) -> list[str]:
    """Compare the checksums of files whose rows are no records yet."""
    parts = [(posixpath.join(path, part.path), part.checksum) for part in known.files]
    found = each_on(sc)([part for part in parts if part[0] in readable], _checksum_problem)
    return [f"{posixpath.relpath(name, path)}: {why}" for name, why in found if why]


def _checksum_problem(part: tuple[str, str], number: int, attempt: int) -> tuple[str, str | None]:
    name, expected = part
    try:
        with storage_for(name).open(name) as stream:
            found = checksum.of_blocks(blocks(stream), checksum.chunk_of(expected))
    except MutatorError as fault:
        return name, str(fault)
    return name, None if found == expected else f"its checksum is {found} and should be {expected}"


def _files(path: str, known: Manifest) -> tuple[list[str], set[str]]:
    """Compare names and sizes; return the problems and the paths of the files that can be read."""
    storage = storage_for(path)
    named = {part.path: part.bytes for part in known.parts()}
    there = {posixpath.relpath(one.path, path): (one.type, one.bytes) for one in walk(path)}
    problems, readable = [], set()
    for name, size in sorted(named.items()):
        kind, found = there.pop(name, (None, None))
        if kind is None:
            problems.append(f"{name}: is missing")
        elif kind != "file":
            problems.append(f"{name}: is a {kind} and no file")
        elif found != size:
            problems.append(f"{name}: has {found} bytes and should have {size}")
        else:
            readable.add(posixpath.join(path, name))
    for name in sorted(set(there) - {manifest.PATH, SUCCESS}):
        if is_straggler(storage, name):
            continue
        problems.append(f"{name}: is not in the manifest")
    if SUCCESS not in there:
        problems.append(f"{SUCCESS}: is missing")
    elif there[SUCCESS] != ("file", 0):
        problems.append(f"{SUCCESS}: is not empty")
    data_files = {part.path for part in known.files}
    for part in known.beside:
        # Data and tombstones are checked while they are read as records.
        if part.role == "tombstones" or part.path in data_files or posixpath.join(path, part.path) not in readable:
            continue
        with storage.open(posixpath.join(path, part.path)) as stream:
            found_sum = checksum.of_blocks(blocks(stream), checksum.chunk_of(part.checksum))
        if found_sum != part.checksum:
            problems.append(f"{part.path}: its checksum is {found_sum} and should be {part.checksum}")
            readable.discard(posixpath.join(path, part.path))
    return problems, readable


def _contents(path: str, plan: Plan, known: Manifest, ledger: LedgerReceipt) -> list[str]:
    """Compare rows and checksums of what was read as records."""
    problems = []
    damaged = set()
    for kind, fields in sorted(ledger.damage, key=repr):
        text = fields["text"] if "text" in fields else str(error(kind, **fields))
        damaged.add(fields.get("path"))
        problems.append(text)
    read = ledger.splits
    rows = {posixpath.join(path, part.path): part.rows for part in known.parts()}
    for index, one in enumerate(plan.inputs):
        if one.source.path in damaged:
            continue
        name = posixpath.relpath(one.source.path, path)
        found = receipts_checksum(plan, index, one, read)
        if found != one.source.checksum:
            problems.append(f"{name}: its checksum is {found} and should be {one.source.checksum}")
        count = sum(receipt.rows for (number, _), receipt in read.items() if number == index)
        if count != rows[one.source.path]:
            problems.append(f"{name}: has {count:,} rows and should have {rows[one.source.path]:,}")
        rejected = sum(receipt.rejected for (number, _), receipt in read.items() if number == index)
        if rejected:
            problems.append(f"{name}: has {rejected:,} rows that cannot be read as records")
    for rejects in ledger.rejects.values():
        problems += [
            f"{posixpath.relpath(place, path)}: {where}: {reason}" for place, _, _, where, reason, _ in rejects
        ]
    return problems


def _check(plan: Plan, partition: int, elements: Iterable[Element]) -> MergeReceipt | LedgerReceipt:
    if partition == plan.ledger:
        return write_ledger(plan, None, 0, elements)
    return _check_bucket(plan, partition, elements)


def _check_bucket(plan: Plan, bucket: int, elements: Iterable[Element]) -> MergeReceipt:
    counts: Counter[str] = Counter()
    samples: dict[str, list[Any]] = {}
    expected = {one.rank: one.source.bucket for one in plan.inputs if one.side == "master"}

    def note(name: str, key: Any) -> None:
        counts[name] += 1
        if len(samples.setdefault(name, [])) < SAMPLES:
            samples[name].append(key)

    for key, group in groupby(elements, key=_key):
        rows = tombstones = 0
        for (_, _, side, precedence), _ in group:
            if side == MASTER:
                rows += 1
                if plan.master_buckets is not None and expected[precedence[2]] != bucket:
                    note("records stand in the file of another bucket", key)
            elif side == TOMBSTONE:
                tombstones += 1
        if rows > 1:
            note("keys have more than one row", key)
        if rows and tombstones:
            note("keys have both a row and a tombstone", key)
        if tombstones > 1:
            note("keys have more than one tombstone", key)
    return MergeReceipt(counts=dict(counts), samples=samples)


def _key(element: Element) -> tuple[bytes, ...]:
    return element[0][1]
