"""Merge a split feed partition by partition, a run for each: the loop that operators write around ``mutator run``.

    pair     the partition directories of a master with those of a split feed
    merge    each partition that the feed touches, in a run of its own, whose output appears complete or not at all
    carry    every other partition: hard links if it is a managed master, else a run without a feed
    publish  the whole output under its name, once all partitions are there

Partitions are made in a hidden directory beside the output. A loop that was stopped or failed resumes there: finished
partitions are not merged again. (On a storage that cannot rename, that directory is the output itself, and ``_SUCCESS``
marks it as complete.) A record must not move to another partition: each run sees only its own partition."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from mutator.config import Config
from mutator.dataset import manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import differing_parts, read_manifest
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.display import counted, without_secrets
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.merge import run
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, ended, said
from mutator.pipeline.runners import Engine
from mutator.plan.shown_values import shown_of_directories
from mutator.rules import file_names
from mutator.rules.truth_table import FEED_OUTCOMES, RARE_OUTCOMES, records_deleted
from mutator.storage import Storage, located, located_to_write, storage_for
from mutator.storage.registry import same_storage
from mutator.workflow.partitions.pairs import (
    differing_inputs,
    fields_of,
    inputs_of,
    pairs_of,
    read_record,
    record_content,
    record_path,
)
from mutator.workflow.partitions.split.files import check_fields
from mutator.workflow.partitions.split.splitting import check_operations


class WorkDirectory:
    """The directory where partitions are made, claimed by this process, until they are published as the output."""

    def __init__(self, storage: Storage, output: str, inputs: Mapping[str, Any]) -> None:
        above, name = posixpath.split(output)
        self.path = posixpath.join(above, f".{name}.partitions") if storage.renames else output
        self._storage, self._output, self._inputs = storage, output, inputs
        self._record = record_path(self.path)
        self._claim: object | None = None

    def __enter__(self) -> WorkDirectory:
        storage = self._storage
        exists = storage.stat(self._output) is not None
        begun = None if exists and storage.renames else self._read()
        if exists and (begun is None or begun["partitions"] is not None):
            raise error("output.exists", path=self._output)
        storage.make_directory(self.path)
        if storage.holds:
            self._claim = storage.hold(self.path)
            if self._claim is None:
                raise error("output.busy", path=self._output, staging=self.path)
        if begun is None:
            with storage.create_new(self._record) as stream:
                stream.write(record_content(self._inputs, None))
        elif begun["inputs"] != self._inputs:
            what = differing_inputs(begun["inputs"], self._inputs)
            raise error("partition.resume", path=self._output, place=self.path, what=what)
        failpoint("runs.begun")
        return self

    def __exit__(self, *_: object) -> None:
        self._claim = None

    def _read(self) -> dict[str, Any] | None:
        try:
            return read_record(self.path)
        except ValueError as fault:
            raise error("partition.resume", path=self._output, place=self.path, what=f"record ({fault})") from None

    def publish(self, done: Sequence[PartitionRun]) -> None:
        """Publish all partitions as the output, with a record of their runs."""
        storage = self._storage
        runs = [{**asdict(one), "counts": dict(one.counts)} for one in done]
        success = posixpath.join(self.path, SUCCESS)
        if storage.stat(success) is None:
            with storage.create_new(success):
                pass
        failpoint("runs.success")
        storage.replace(self._record, record_content(self._inputs, runs))
        failpoint("runs.recorded")
        if storage.renames:
            try:
                storage.rename_new(self.path, self._output)
            except FileExistsError:
                raise error("output.exists", path=self._output) from None
        failpoint("runs.published")


_COLUMNS = ("inserted", "updated", "deleted")


@dataclass(frozen=True)
class PartitionRun:
    """The outcome of one partition."""

    directory: str
    how: str  # merged | carried
    counts: Mapping[str, int]  # as its manifest has them, of its last run
    before: bool = False  # made by an earlier call that did not finish


@dataclass(frozen=True)
class PartitionRuns(PrintedReport):
    """The outcome of all partitions."""

    master: str
    feed: str
    output: str
    partitions: tuple[PartitionRun, ...]
    warnings: tuple[str, ...]
    seconds: float

    def counts(self) -> dict[str, int]:
        """Return the sums of feed rows, their outcomes and output rows."""
        names = ("feed rows", *(f"feed {name}" for name in FEED_OUTCOMES))
        merged = [one for one in self.partitions if one.how == "merged"]
        found = {name: sum(one.counts.get(name, 0) for one in merged) for name in names}
        rare = {f"feed {name}": sum(one.counts.get(f"feed {name}", 0) for one in merged) for name in RARE_OUTCOMES}
        found |= {name: count for name, count in rare.items() if count}
        return found | {"output rows": sum(one.counts.get("output rows", 0) for one in self.partitions)}

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        return {**super().members(), "counts": self.counts()}

    def sections(self) -> Iterable[ReportSection]:
        """Return a table with a row for each partition, and the sums."""
        width = max([len("partition"), *(len(one.directory) for one in self.partitions)])
        head = "".join(f"{name:>12}" for name in ("feed rows", *_COLUMNS, "output rows"))
        lines = [f"{'partition':<{width}}  {'':<8}{head}"]
        for one in self.partitions:
            shown = [one.counts.get(name, 0) for name in ("feed rows", "feed inserted", "feed updated")]
            shown.append(records_deleted(one.counts))
            cells = [f"{count:,}" for count in shown] if one.how == "merged" else ["" for _ in shown]
            cells.append(f"{one.counts.get('output rows', 0):,}")
            before = "  (before)" if one.before else ""
            lines.append(f"{one.directory:<{width}}  {one.how:<8}{''.join(f'{cell:>12}' for cell in cells)}{before}")
        n, lost = self.counts(), list[str]()
        if unknown := n["feed delete of unknown"]:
            found = "found no record in its partition" if unknown == 1 else "found no records in their partitions"
            lost = [f"{counted(unknown, 'delete')} {found}"]
        merged = sum(one.how == "merged" for one in self.partitions)
        done = f"wrote {counted(n['output rows'], 'row')} in {counted(len(self.partitions), 'partition')}, "
        done += f"{merged:,} merged and {len(self.partitions) - merged:,} carried over"
        return said(*lines, "", *lost), ended(done, self.seconds)


def run_partitions(
    config: Config,
    merge_on: Engine,
    *,
    master: str,
    feed: str,
    output: str,
    engine: str = "auto",
    tell: Callable[[PartitionRun], None] = lambda _: None,
) -> PartitionRuns:
    """Merge a split feed into a master, a run for each partition that it touches.

    master: a directory of partition directories, each a master of its own, managed or not. feed: a directory of the
    same shape. output: a path that must not exist; a call that was stopped is resumed. tell: called with each partition
    when it is done. Raises MutatorError; finished partitions are kept for the next call.
    """
    started = time.monotonic()
    config = _config_of_partitions(config)
    storage, target = located_to_write(output)
    (_, old), (_, new) = located(master), located(feed)
    check_fields(old)
    pairs = pairs_of(config.inputs, old, new)
    shown = shown_of_directories(config.wording, *fields_of(new, pairs))
    with WorkDirectory(storage, target, inputs_of(config, old, new, pairs)) as work:
        done, warnings = [], list(config.wording.warnings)
        if not any(fresh for _, fresh in pairs.values()):
            warnings.append(f"nothing to merge: {without_secrets(feed)} has no feed files")
        for directory, (own, fresh) in pairs.items():
            path = posixpath.join(work.path, directory)
            known = _manifest_at(storage, path)
            before = known is not None
            if known is None and not (fresh is None and own is not None and _link_master(own, path)):
                merging = (
                    config
                    if own is not None
                    else replace(config, inputs=replace(config.inputs, allow_empty_master=True))
                )
                source = own or posixpath.join(old, directory)
                report = run(merge_on, merging, master=source, feed=fresh or (), output=path, engine=engine)
                warnings += [
                    f"{shown.directory(directory)}: {text}"
                    for text in report.warnings
                    if text not in config.wording.warnings
                ]
            known = _manifest_at(storage, path)
            assert known is not None
            if fresh is None:
                counts = {"output rows": known.commit.records}
                done.append(PartitionRun(directory, "carried", counts, before))
            else:
                done.append(PartitionRun(directory, "merged", known.commit.counts, before))
            tell(done[-1])
            failpoint("runs.partition.done")
        work.publish(done)
    return PartitionRuns(
        without_secrets(master),
        without_secrets(feed),
        without_secrets(output),
        tuple(replace(one, directory=shown.directory(one.directory)) for one in done),
        tuple(warnings),
        round(time.monotonic() - started, 3),
    )


def _config_of_partitions(config: Config) -> Config:
    """Return the configuration of the run of one partition.

    Raises ConfigError for a full snapshot, and for an overwrite of everything: partitions that the feed lacks are kept.
    So they are for a truncate.
    """
    check_operations(config.rows.ops)
    if config.operation.full:
        faults = "a partition that the snapshot lacks would stay; split nothing, and merge the snapshot as a whole"
        raise error("config", where="sync.mode=full", faults=faults)
    if config.operation.name == "insert_overwrite_table":
        why = "a partition that the feed lacks would stay"
        cure = "set insert_overwrite, or overwrite the whole master with mutator run --partitioned-by"
        raise error("overwrite.refused", operation=config.operation.name, why=why, cure=cure)
    # A split feed file has no control file beside it, and the files of other sequences may be in other partitions.
    config = replace(config, inputs=replace(config.inputs, control_suffix=None, sequence_gaps="ignore"))
    # A partition is a master without partitions; the settings of one run for all may be in the same file.
    return replace(config, rows=replace(config.rows, key=replace(config.rows.key, partitions=(), scope=None)))


def _manifest_at(storage: Storage, path: str) -> State | None:
    """Return the manifest of a finished partition; None if it is not there yet."""
    return read_manifest(storage, path) if storage.stat(posixpath.join(path, manifest.PATH)) is not None else None


def _link_master(master: str, path: str) -> bool:
    """Link all files of a managed master to a path that must not exist; return False if that cannot be done."""
    storage = storage_for(path)
    if not storage.renames or not same_storage(master, path):
        return False
    known = read_manifest(storage, master)
    if known is None:
        return False
    problems = differing_parts(storage, master, known.parts())
    if problems:
        raise error("manifest.files", path=master, what=file_names.first_few(problems))
    above, name = posixpath.split(path)
    staged = posixpath.join(above, f".{name}.carried")
    storage.remove(staged)
    names = [*(part.path for part in known.parts()), manifest.PATH]
    others = (SUCCESS, *([known.copy] if known.copy is not None else []))
    names += [name for name in others if storage.stat(posixpath.join(master, name)) is not None]
    for directory in sorted({posixpath.dirname(name) for name in names}):
        storage.make_directory(posixpath.join(staged, directory))
    for name in names:
        if not storage.link_new(posixpath.join(master, name), posixpath.join(staged, name)):
            storage.remove(staged)
            return False
    for directory in sorted({posixpath.dirname(name) for name in names}):
        storage.sync(posixpath.join(staged, directory))
    failpoint("runs.linked")
    storage.rename_new(staged, path)
    return True
