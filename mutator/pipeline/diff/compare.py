"""Compare two datasets: what a merge would change, if the new one replaced the old one.

The op code of feeds, in the comparison of datasets, whose rows usually lack it.

Where it is an ordinal, the ordinals after it are those of a feed row. A dataset may be a copy of feed files, too.

A difference without the values that it may not show: ``report.fields``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from mutator.config.settings import Config, OpSpec, OrderSpec, RowSpec
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import CHANGES, DIRECTORY
from mutator.dataset.partition_index import stored_fields
from mutator.dataset.state import State
from mutator.engine.receipts import Receipts
from mutator.engine.scratch import scratch_directory
from mutator.engine.split_content import checksum_of
from mutator.errors import error
from mutator.errors.display import OUT
from mutator.errors.exceptions import said_to
from mutator.formats.blocks.changed_rows import ROW
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.pipeline.accounting import check_unique, sum_of_receipts
from mutator.pipeline.diff.dataset_files import Content, contents_of, count_skipped, files_to_read, known_at
from mutator.pipeline.diff.records import Diff, read_diff
from mutator.pipeline.kept_out import shown_samples
from mutator.pipeline.limits import check_rejects
from mutator.pipeline.merge import identity
from mutator.pipeline.runners import Engine
from mutator.plan.change_form import change_form
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Known, Survey, survey_inputs
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.partition_plan import with_units
from mutator.plan.rows.partitioning import moved
from mutator.plan.rows.run_fields import SCHEMA_SEQUENCE
from mutator.plan.run_plan import Plan, make_plan
from mutator.plan.splits import Split
from mutator.rules.shown_fields import ShownFields
from mutator.storage import located, storage_for


def lack_op(rows: RowSpec, survey: Survey, names: tuple[int, int], paths: tuple[str, str]) -> bool:
    """Return whether the rows of both datasets lack the op code of the feeds, an ordinal.

    names: how many fields of the old and the new one have a name. paths: of both. If only the old one lacks the op
    code, the new one has the form of a feed, and a merge reads both as they are. Raises ConfigError where nothing shows
    whether they have it.
    """
    old, new = paths
    known = survey.state
    ours, theirs = (names[0] or _width(survey.master), names[1] or _width(survey.feed))
    if known is not None:
        recorded = known.spec.get("width")
        own = recorded if isinstance(recorded, int) else ours
        return known.spec["op code"] is None and not 0 < own < theirs
    if rows.ops.keep or rows.ops.in_master is not None:
        return not (rows.ops.keep or rows.ops.in_master)
    count = len(rows.text.names) or rows.text.count
    is_counted = isinstance(count, int) and count > 0
    ordinals = [one for one in rows.fields if isinstance(one, int)]
    of_feed = count if isinstance(count, int) and is_counted else max(ordinals) + 1  # at least
    if not is_counted and 0 < of_feed <= ours == theirs:  # both read as a feed, one field would not be compared
        raise error("diff.op", old=old, new=new, field=rows.ops.field, count=ours)
    return 0 < max(ours, theirs) < of_feed


def _width(sources: Sequence[Source]) -> int:
    """Return the most fields that a row of some files has; 0 if that is not known."""
    return max((one.width for one in sources if one.width is not None), default=0)


def without_op(config: Config, op: int) -> Config:
    """Return the configuration of rows that lack the op code of the feed: each field after it is one place earlier.

    >>> from mutator.config import parse
    >>> config = without_op(parse({"key": "0,4", "order_by": 1, "op": 2, "report.fields": "-4"}), 2)
    >>> config.rows.key.ids, config.rows.order.fields, sorted(config.wording.report_fields.named)
    ((0, 3), (1,), ['3'])
    """

    def earlier(one: Any) -> Any:
        return one - 1 if isinstance(one, int) and one > op else one

    rows, shown = config.rows, config.wording.report_fields
    key, text = rows.key, rows.text
    numbers = frozenset(str(earlier(int(one))) if one.isdigit() else one for one in shown.named if one != str(op))
    rows = RowSpec(
        replace(key, ids=tuple(map(earlier, key.ids)), partitions=moved(key.partitions, earlier)),
        replace(rows.order, fields=tuple(map(earlier, rows.order.fields))),
        replace(rows.ops, field=None),
        replace(text, names=(*text.names[:op], *text.names[op + 1 :]), count=earlier(text.count)),
    )
    return replace(config, rows=rows, wording=replace(config.wording, report_fields=replace(shown, named=numbers)))


Shows = Callable[[str], bool]  # whether the values of a field may be shown, by the name of its column


def shows_of(ops: OpSpec, fields: ShownFields, plan: Plan) -> Shows:
    """Return which columns of changed rows may be shown."""
    op = ops.field
    columns = plan.changes.names if plan.changes is not None else ()
    has_ordinals = plan.rows.block_type == "text"
    is_cut = isinstance(op, int) and not ops.keep  # the fields of a feed row after it are one place later

    def shows(name: str) -> bool:
        if name == ROW:  # the whole row
            return False
        if not has_ordinals or name not in columns:
            return fields.show([name])
        number = list(columns).index(name)
        return fields.show([name, number + (is_cut and isinstance(op, int) and number >= op)])

    return shows


def without_hidden(found: Diff, shows: Shows) -> Diff:
    """Return a difference with ``…`` in place of the values that may not be shown."""

    def record(one: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value if shows(name) else OUT for name, value in one.items()}

    def pair(one: Mapping[str, Any]) -> dict[str, Any]:
        changes = {name: values if shows(name) else [OUT, OUT] for name, values in one["changes"].items()}
        return {"key": record(one["key"]), "changes": changes}

    return replace(
        found,
        added=[record(one) for one in found.added],
        removed=[record(one) for one in found.removed],
        changed=[pair(one) for one in found.changed],
    )


# The settings of a comparison: everything that a merge would refuse is a difference.
OVERWRITE: Mapping[str, str] = {
    "write.operation": "insert_overwrite_table",
    "sync.mode": "partial",
    "sync.scope": "",
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
    managed datasets with equal checksums, and equal values of fields in their paths, are not read. Raises the errors of
    the catalogue.
    """
    with said_to(config.wording.audience.writers):
        return _difference(_without_feed(config), old, new, merge_on, rows, scratch, tables)


def _difference(
    config: Config,
    old: str,
    new: str,
    merge_on: Engine,
    rows: int,
    scratch: str | None,
    tables: Sequence[TableInput],
) -> Diff:
    before, after = known_at(old), known_at(new)
    equal = frozenset(contents_of(before).values()) & frozenset(contents_of(after).values())
    feed = files_to_read(new, after, equal)
    same = not feed and before is not None and equal.issuperset(contents_of(before).values())
    if same or located(old) == located(new):
        return Diff(old, new, {}, skipped=count_skipped(before, equal))
    if any(one is not None and one.spec["order"].get("beside") for one in (before, after)):
        config, before, equal = _without_order(config, before), None, frozenset()
        feed = files_to_read(new, after, equal)
    survey = replace(survey_inputs(config, old, feed, tables, Known(after)), compares=True)
    if not (survey.master or survey.feed or survey.state):
        return Diff(old, new, {})
    ours, theirs = _field_names(survey.master), _field_names(survey.feed)
    removed = tuple(name for name in ours if theirs and name not in theirs)
    added = tuple(name for name in theirs if ours and name not in ours)
    config = replace(config, output=replace(config.output, removed_fields=(*config.output.removed_fields, *removed)))
    if isinstance(config.rows.ops.field, str) and (ours or theirs) and config.rows.ops.field not in {*ours, *theirs}:
        # Datasets have no op code; the configuration is that of their runs.
        config = replace(config, rows=replace(config.rows, ops=replace(config.rows.ops, field=None)))
    elif isinstance(config.rows.ops.field, int) and lack_op(config.rows, survey, (len(ours), len(theirs)), (old, new)):
        config = without_op(config, config.rows.ops.field)
        survey = replace(survey, order=config.rows.order)
    found = _compared(config, survey, old, new, merge_on, rows, scratch, equal)
    fields = {name: count for name, count in found.fields.items() if name not in added}
    return replace(
        found, fields=fields, skipped=count_skipped(before, equal), fields_added=added, fields_removed=removed
    )


def _without_order(config: Config, known: State | None) -> Config:
    """Return the configuration that compares datasets without order values. known: the manifest of the old one."""
    # They are read as if other programs had made them.
    rows, inputs = replace(config.rows, order=OrderSpec()), replace(config.inputs, master_adopt=True)
    if known is not None:
        key = replace(rows.key, partitions=stored_fields(known.spec), scope=known.key_scope)
        names = FILE_FORMATS[known.spec["format"]].stored(known.spec).schema.names  # of files without a header
        rows = replace(rows, key=key, text=replace(rows.text, names=tuple(names)))
        inputs = replace(inputs, master_format=known.spec["format"])
    return replace(config, rows=rows, inputs=inputs)


def _without_feed(config: Config) -> Config:
    """Return the configuration without what a feed has beside records: control files, and op codes by name."""
    ops = config.rows.ops
    if isinstance(ops.field, str) and not ops.keep:
        ops = replace(ops, field=None)
    return replace(config, rows=replace(config.rows, ops=ops), inputs=replace(config.inputs, control_suffix=None))


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
    with said_to(config.wording.audience.writers):
        survey = survey_inputs(config, old, feed, tables)
        shown = ", ".join(map(config.wording.audience.paths, feed))
        return _compared(config, survey, old, shown, merge_on, rows, scratch, frozenset())


def _compared(
    config: Config,
    survey: Survey,
    old: str,
    new: str,
    merge_on: Engine,
    rows: int,
    scratch: str | None,
    equal: frozenset[Content],
) -> Diff:
    if config.operation.overwrites:  # in a comparison no file comes late
        newest = 0 if survey.state is None else survey.state.spec.get(SCHEMA_SEQUENCE) or 0
        feed_files = (replace(one, sequence=max(one.sequence or 0, newest)) for one in survey.feed)
        survey = replace(survey, feed=tuple(feed_files))
    run, now = identity(survey.state)
    plan = make_plan(config, survey, run, now)
    form = change_form(config.rows, config.output, plan.rows, now, None)
    assert form is not None
    plan = without_files(replace(plan, changes=replace(form, alone=True)), survey.state, equal)
    with ExitStack() as stack:
        directory = os.path.join(scratch or scratch_directory(stack), f"diff-{run}")
        storage = storage_for(directory)
        storage.make_directory(f"{directory}/{DIRECTORY}/{CHANGES}")
        stack.callback(storage.remove, directory)
        files, counts = _changes_of(plan, merge_on(plan, directory))
        found = read_diff(old, new, plan, directory, files, counts, rows)
        shown = config.wording.report_fields
        return found if shown.all else without_hidden(found, shows_of(config.rows.ops, shown, plan))


def without_files(plan: Plan, known: State | None, contents: frozenset[Content]) -> Plan:
    """Return a plan that reads no file of the master with one of some contents, and no tombstones if there are any.

    The feed lacks files of equal content, so their records do not change.
    """
    if known is None or not contents:
        return plan

    own = contents_of(known)

    def is_read(part: FileEntry | None) -> bool:
        return part is None or own.get(part.path) not in contents

    def kept(splits: Iterable[Split]) -> tuple[Split, ...]:
        return tuple(split for split in splits if is_read(plan.inputs[split.input].source.part))

    if plan.master is not None:
        partitions = {
            directory: replace(files, data=tuple(filter(is_read, files.data)))
            for directory, files in plan.master.partitions.items()
        }
        plan = replace(plan, master=replace(plan.master, partitions=partitions))
    return replace(plan, tasks=tuple(map(kept, plan.tasks)), local=tuple(map(kept, plan.local)))


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
        first = shown_samples(receipts.ledger.rejects.get(side, ()), are_shown=plan.shown.rows)
        check_rejects(side, plan.rejects[side], plan.limits, rejected, rows, first, (), plan.rejects_delete)
    check_unique(plan, counts, samples)
    parts = [part for receipt in tallies for part in receipt.beside if part.role == CHANGES]
    return sorted(parts, key=lambda part: part.path), counts
