"""Compare two datasets: what a merge would change, if the new one replaced the old one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from mutator.config import Config
from mutator.dataset.directory import check_files, read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import CHANGES, DIRECTORY, Manifest
from mutator.engine.receipts import Receipts
from mutator.engine.scratch import scratch_directory
from mutator.engine.split_content import checksum_of
from mutator.errors import error
from mutator.pipeline.accounting import check_unique, sum_of_receipts
from mutator.pipeline.diff.op_code import lack_op, without_op
from mutator.pipeline.diff.records import Diff, read_diff
from mutator.pipeline.diff.shown_records import shows_of, without_hidden
from mutator.pipeline.kept_out import shown_samples, values_kept_out
from mutator.pipeline.limits import check_rejects
from mutator.pipeline.merge import identity
from mutator.pipeline.runners import Engine
from mutator.plan.change_form import change_form
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey, survey_inputs
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.partition_plan import with_units
from mutator.plan.rows.run_fields import SCHEMA_SEQUENCE
from mutator.plan.run_plan import Plan, make_plan
from mutator.plan.splits import Split
from mutator.rules import file_names
from mutator.storage import located, storage_for, walk

# The settings of a comparison: everything that a merge would refuse is a difference.
OVERWRITE: Mapping[str, str] = {
    "write.operation": "insert_overwrite_table",
    "sync.mode": "partial",
    "allow.empty.feed": "true",
}
LENIENT: Mapping[str, str] = {
    "changes": "true",
    "allow.empty.master": "true",
    "consumed.files": "merge",
    "late.files": "merge",
    "max.delete.fraction": "1",
    "max.duplicate.fraction": "1",
    "order.check": "false",
    "reused.names": "accept",
    "sequence.gaps": "ignore",
}


def compare(
    config: Config,
    old: str,
    new: str,
    merge_on: Engine,
    *,
    rows: int = 0,
    scratch: str | None = None,
    tables: Sequence[TableInput] = (),
) -> Diff:
    """Return what makes an old dataset the new one.

    config: with the settings ``OVERWRITE`` and ``LENIENT``. rows: number of records of each kind to show. scratch: a
    directory that all workers share. tables: those of the paths that have the rows of tables in memory. Files of
    managed datasets with equal checksums are not read. Raises the errors of the catalogue.
    """
    with values_kept_out(config):
        return _difference(replace(config, **_without_feed(config)), old, new, merge_on, rows, scratch, tables)


def _difference(
    config: Config,
    old: str,
    new: str,
    merge_on: Engine,
    rows: int,
    scratch: str | None,
    tables: Sequence[TableInput],
) -> Diff:
    before, after = _known(old), _known(new)
    equal = _checksums(before) & _checksums(after)
    feed = _files(new, after, equal)
    same = not feed and before is not None and all(part.checksum in equal for part in before.files)
    if same or located(old) == located(new):
        return Diff(old, new, {}, skipped=_skipped(before, equal))
    survey = survey_inputs(config, old, feed, tables)
    if not (survey.master or survey.feed or survey.manifest):
        return Diff(old, new, {})
    ours, theirs = _field_names(survey.master), _field_names(survey.feed)
    removed = tuple(name for name in ours if theirs and name not in theirs)
    added = tuple(name for name in theirs if ours and name not in ours)
    config = replace(config, removed_fields=(*config.removed_fields, *removed))
    if isinstance(config.op_field, str) and (ours or theirs) and config.op_field not in {*ours, *theirs}:
        config = replace(config, op_field=None)  # datasets have no op code; the configuration is that of their runs
    elif isinstance(config.op_field, int) and lack_op(config, survey, (len(ours), len(theirs)), (old, new)):
        config = without_op(config, config.op_field)
    found = _compared(config, survey, old, new, merge_on, rows, scratch, equal)
    fields = {name: count for name, count in found.fields.items() if name not in added}
    return replace(found, fields=fields, skipped=_skipped(before, equal), fields_added=added, fields_removed=removed)


def _without_feed(config: Config) -> dict[str, Any]:
    """Return the settings that say what a feed has beside records, unset: control files, and op codes by name."""
    has_name = config.op_field is not None and not isinstance(config.op_field, int)
    return {"control_suffix": None, **({"op_field": None} if has_name and not config.op_keep else {})}


def _field_names(sources: Sequence[Source]) -> tuple[str, ...]:
    """Return the names of the fields of some files; none if they have no names."""
    schemas = [one.file_schema for one in sources if one.file_schema is not None and one.file_schema.named]
    return tuple(dict.fromkeys(name for schema in schemas for name in schema.schema.names))


def compare_feed(
    config: Config,
    old: str,
    feed: Sequence[str],
    merge_on: Engine,
    *,
    rows: int = 0,
    scratch: str | None = None,
    tables: Sequence[TableInput] = (),
) -> Diff:
    """Return what the feed would change in a dataset.

    config: that of the merge, with the settings ``LENIENT``. The others: as for ``compare``.
    """
    with values_kept_out(config):
        survey = survey_inputs(config, old, feed, tables)
        return _compared(config, survey, old, ", ".join(feed), merge_on, rows, scratch, frozenset())


def _compared(
    config: Config,
    survey: Survey,
    old: str,
    new: str,
    merge_on: Engine,
    rows: int,
    scratch: str | None,
    equal: frozenset[str],
) -> Diff:
    if config.overwrites:  # in a comparison no file comes late
        newest = 0 if survey.manifest is None else survey.manifest.spec.get(SCHEMA_SEQUENCE) or 0
        feed_files = (replace(one, sequence=max(one.sequence or 0, newest)) for one in survey.feed)
        survey = replace(survey, feed=tuple(feed_files))
    run, now = identity(survey.manifest)
    plan = make_plan(config, survey, run, now)
    form = change_form(config, plan.rows, now, None)
    assert form is not None
    plan = without_files(replace(plan, changes=replace(form, alone=True)), equal)
    with ExitStack() as stack:
        directory = os.path.join(scratch or scratch_directory(stack), f"diff-{run}")
        storage = storage_for(directory)
        storage.make_directory(f"{directory}/{DIRECTORY}/{CHANGES}")
        stack.callback(storage.remove, directory)
        files, counts = _changes_of(plan, merge_on(plan, directory))
        found = read_diff(old, new, plan, directory, files, counts, rows)
        return found if config.report_fields.all else without_hidden(found, shows_of(config, plan))


def without_files(plan: Plan, checksums: frozenset[str]) -> Plan:
    """Return a plan that reads no file of the master with one of some checksums, and no tombstones if there are any.

    The feed lacks files of equal content, so their records do not change.
    """
    if not checksums:
        return plan

    def kept(splits: Iterable[Split]) -> tuple[Split, ...]:
        return tuple(split for split in splits if plan.inputs[split.input].source.checksum not in checksums)

    if plan.master is not None:
        partitions = {
            directory: replace(files, data=tuple(part for part in files.data if part.checksum not in checksums))
            for directory, files in plan.master.partitions.items()
        }
        plan = replace(plan, master=replace(plan.master, partitions=partitions))
    return replace(plan, tasks=tuple(map(kept, plan.tasks)), local=tuple(map(kept, plan.local)))


def _known(path: str) -> Manifest | None:
    """Return the manifest of a dataset, None without one. Raises StateError where its files differ from it."""
    storage, path = located(path)
    entry = storage.stat(path)
    if entry is None and storage.renames:
        raise error("path.missing", path=path, what="dataset")
    known = read_manifest(storage, path) if entry is None or entry.type == "directory" else None
    if known is not None:
        check_files(storage, path, known.parts(), walk(path))
    return known


def _checksums(known: Manifest | None) -> frozenset[str]:
    return frozenset(part.checksum for part in known.files) if known is not None else frozenset()


def _skipped(known: Manifest | None, equal: frozenset[str]) -> int:
    return sum(part.checksum in equal for part in known.files) if known is not None else 0


def _files(path: str, known: Manifest | None, equal: frozenset[str]) -> list[str]:
    """Return the data files of a dataset that must be read."""
    if known is not None:
        return [f"{path.rstrip('/')}/{part.path}" for part in known.files if part.checksum not in equal]
    storage, full = located(path)
    entry = storage.stat(full)
    if entry is None or entry.type != "directory":
        return [path]
    names = (one.path.removeprefix(f"{full}/") for one in walk(full) if one.type == "file")
    return [f"{path.rstrip('/')}/{name}" for name in names if not any(map(file_names.is_hidden, name.split("/")))]


def _changes_of(plan: Plan, receipts: Receipts) -> tuple[list[FileEntry], Counter[str]]:
    """Return the files of changed rows and the counts. Raises the error of a damaged file, or of a rejected row."""
    tallies = [*receipts.merges, *receipts.ledger.tallies]
    damage = [*receipts.ledger.damage, *(fault for receipt in receipts.merges for fault in receipt.damage)]
    if damage:
        raise min(damage, key=lambda fault: (fault.path, str(fault.error))).error
    counts, samples = sum_of_receipts(tallies)
    plan = with_units(plan, receipts.touched) if plan.is_partitioned else plan
    splits = dict(receipts.ledger.splits)
    for receipt in receipts.merges:
        splits |= receipt.splits
    for number in sorted({number for number, _ in splits}):
        source, text = plan.inputs[number].source, checksum_of(plan, number, splits)
        if source.checksum is not None and text != source.checksum:
            why = f"its checksum is {text} and should be {source.checksum}"
            raise error("manifest.damage", path=source.path, why=why)
    for side in ("master", "feed"):
        of_side = [receipt for (number, _), receipt in splits.items() if plan.inputs[number].side == side]
        rejected, rows = sum(one.rejected for one in of_side), sum(one.rows for one in of_side)
        first = shown_samples(plan, receipts.ledger.rejects.get(side, ()))
        check_rejects(side, plan.rejects[side], plan.limits, rejected, rows, first)
    check_unique(plan, counts, samples)
    parts = [part for receipt in tallies for part in receipt.beside if part.role == CHANGES]
    return sorted(parts, key=lambda part: part.path), counts
