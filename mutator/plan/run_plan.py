"""The plan of a run: a frozen value, made of the configuration and the survey alone.

Nothing asks the configuration after this: the executors, the accounting and the publishing follow the plan.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from mutator.config.audience import Audience
from mutator.config.feed_settings import feed_settings
from mutator.config.settings import Config, LimitSpec, OperationSpec, OpSpec, RowSpec
from mutator.dataset.directory import due_files
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import damaged
from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.errors.parts import place, setting
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.changed_rows import ChangeForm
from mutator.formats.values.row_filter import Scope
from mutator.plan.inspect.delete_files import check_delete_names, delete_prefix_warnings, is_delete_source
from mutator.plan.inspect.managed import PartitionedMaster
from mutator.plan.inspect.path_names import only_in_paths
from mutator.plan.inspect.snapshot_time import as_of
from mutator.plan.inspect.survey import Survey
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.mistakes.checks import check_inputs
from mutator.plan.mistakes.header_rows import check_lines_alone
from mutator.plan.mistakes.orders import check_sequences, highest_order
from mutator.plan.moved_unset import with_moved_unset
from mutator.plan.operation import check_operation, operation_notes, operation_of
from mutator.plan.reading import ENDLESS, Chunks, Reading
from mutator.plan.registers import register_of, with_patches
from mutator.plan.rows.format_choice import row_plan
from mutator.plan.rows.partitioning import fields_move
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.run_epochs import check_epochs, epoch_notes, epoch_warnings, recorded_epochs
from mutator.plan.shown_values import ShownValues, shown_values
from mutator.plan.spec_check import check_spec
from mutator.plan.splits import INFLATED, Input, Split, numbered, packed_tasks, splits_of
from mutator.plan.strategy import Strategy, choose
from mutator.rules.absences import absences_of
from mutator.rules.byte_columns import Flags
from mutator.rules.event_fold import EventFold
from mutator.rules.known_formats import FORMATS
from mutator.rules.last_wins import LAST_WINS
from mutator.rules.order_tuples import bytes_of, shown_order
from mutator.rules.order_values import order_text, order_value
from mutator.rules.register import Folding, Register

_LARGE = 1 << 20
_FEED_TASKS = 16  # read a feed of one split's size, at most
_FEED_SPLITS = 4  # of a task that reads a part of a large feed
_TASKS = 8  # read a feed, at least, if it is not small
_TASKS_OF_LARGE = 16  # the same of a large feed, so that the last ones leave no core idle for long


@dataclass(frozen=True, kw_only=True)
class Plan(Reading):
    """Everything that the engine, the accounting, the publishing and the report need to know of a run."""

    strategy: Strategy
    local: tuple[tuple[Split, ...], ...]  # not shuffled: read by each group (aligned) or task (broadcast)
    limits: LimitSpec
    accepts_units: bool = True  # several ones, of order values that look like times
    accepts_op_codes: bool = True  # that are not known: their rows are upserts
    register: Register = LAST_WINS
    keeps_events: bool = False  # each mutation stays as an event, of a table with history
    operation: str = "apply"  # or insert_overwrite, or insert_overwrite_table
    replaced: frozenset[str] = frozenset()  # directories of partitions; known once the feed is read
    replace_damaged: bool = False  # files of replaced partitions may be damaged
    lost: Mapping[str, str] = field(default_factory=dict)  # those that are: path -> what is wrong
    expects_no_rows: bool = False  # in the feed: the operation was decided by that
    unique: bool = False  # no ID has two rows in the master: its manifest says so, or the user
    horizon: Any = None  # highest order value ever expired
    floor: Any = None  # highest order value of a truncate, a delete of every key, of this run or an earlier one
    truncates: bool = False  # the feed has raised it, so older records go
    known_floor: Any = None  # of earlier runs: a record below it came with a snapshot as of it, and counts as one at it
    absences: Mapping[int, Any] = field(default_factory=dict)  # time of a full snapshot -> its highest order value
    expire_before: int | None = None  # commit time in ms; older tombstones are forgotten
    forget_feed_before: float | None = None  # commit time in s; feed files that were merged earlier are forgotten
    bucket_bytes: int  # of a partition's bucket
    delete_files: tuple[str, ...] = ()  # names of the feed files whose rows are all deletes
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    audience: Audience = field(default_factory=Audience)  # who reads them
    checks: frozenset[str] = frozenset()  # files of the master that are read even if they are taken over
    changes: ChangeForm | None = None  # None: changed rows are not written
    shown: ShownValues = field(default_factory=ShownValues)  # in reports
    feed_settings: Mapping[str, Any] = field(default_factory=dict)  # by which the feed is read, for the manifest
    rewrites: bool = False  # all partitions are written, whether they have mutations or not
    units: tuple[MergeUnit, ...] = ()  # one for each group; of a partitioned master, those of touched partitions

    @property
    def folding(self) -> Folding:
        """What folds the feed until its events are kept, or all the way."""
        return EventFold(self.register.leaves_one) if self.keeps_events else self.register

    @property
    def data_written(self) -> bool:
        """Return whether the run writes more than the rows that change."""
        return self.changes is None or not self.changes.alone

    @property
    def feed_has_directories(self) -> bool:
        """Return whether mutations carry the directories of their partitions, as they must if these are replaced."""
        return super().feed_has_directories or (self.is_partitioned and self.operation == "insert_overwrite")

    @property
    def touches_all(self) -> bool:
        """Return whether all partitions are written: the feed decides about all records, or files change their form."""
        return self._rewrites_all or self.register.full

    @property
    def _rewrites_all(self) -> bool:
        moved = self.master is not None and fields_move(self.master.spec, self.rows.spec)
        return self.rewrites or self.truncates or self.operation == "insert_overwrite_table" or moved

    def written_anyway(self, known: Collection[str]) -> Collection[str]:
        """Return which partitions of a master are written even without mutations. known: the directories of all."""
        if not self.touches_all:
            return ()
        inside = None if self._rewrites_all else self.partitions_inside(known)
        return known if inside is None else inside

    def partitions_inside(self, known: Collection[str]) -> frozenset[str] | None:
        """Return which partitions may have records that a snapshot decides about; None: all. known: as above."""
        scope, fields = self.scope, self.rows.partitioning.fields
        found = None if scope is None or not fields else scope.filter.partitions(fields, list(known))
        return None if found is None else frozenset(found)

    @property
    def scope(self) -> Scope | None:
        """The part of the master that the feed is a snapshot of; None: everything, or the feed is no snapshot."""
        return self.rows.scope if self.register.full else None

    def inside(self, rows: Any) -> Flags:
        """Return which rows, as they are written, are in the scope, which there is."""
        return self.block_type.inside(rows, self.rows.layouts["written"])

    def truncated(self, order: Any) -> "Plan":
        """Return the plan with a truncate. One that does not raise the floor changes nothing.

        order: its order value; None: no truncate.
        """
        if order is None or (self.floor is not None and order <= self.floor):
            return self
        return replace(self, floor=order, truncates=True)

    @property
    def rejects_delete(self) -> bool:
        """Return whether a reject of the feed would delete its record, so that none may be set aside."""
        return self.is_snapshot or self.operation != "apply" or self.expects_no_rows

    @property
    def is_snapshot(self) -> bool:
        """Return whether the feed is a full snapshot."""
        return self.register.full or self.as_of is not None

    def replaces(self, directory: str | None) -> bool:
        """Return whether an insert overwrite replaces a partition, given its directory.

        Tombstones without a partition ("") are in no partition that is kept, so they must not make an upsert late. None
        stands for a whole master without partitions.
        """
        if self.operation == "apply":
            return False
        return self.operation == "insert_overwrite_table" or not directory or directory in self.replaced

    @property
    def set_aside(self) -> int:
        """Bytes of sorted rows of one sort that a task has in memory beside the feed; more go to files."""
        return self.memory // 4

    @property
    def bytes_to_read(self) -> int:
        """The bytes of the files that are read, uncompressed: an estimate for those that are packed.

        Of a partitioned master all bytes count: which partitions are read is known only after the first step.
        """
        return self._bytes_to_read(INFLATED)

    @property
    def stored_bytes_to_read(self) -> int:
        """The bytes of the files that are read, as they are stored."""
        return self._bytes_to_read(1)

    @property
    def bytes_to_place(self) -> int:
        """The bytes that the first step of a partitioned merge reads, uncompressed: its feed, and filters of keys."""
        filters = 0 if self.master is None else sum(pack.bytes for pack in self.master.packs)
        return self._bytes_of_splits(INFLATED) + filters

    @property
    def bytes_to_merge(self) -> int:
        """The bytes that the second step of a partitioned merge reads from the master, uncompressed."""
        checked = [] if self.master is None else [one for one in self.master.parts if one.path in self.checks]
        return self._bytes_of_splits(INFLATED) + self._bytes_of_master(checked, INFLATED)

    def _bytes_to_read(self, inflated: int) -> int:
        files = [] if self.master is None else [one for one in self.master.parts if one.is_data]
        return self._bytes_of_splits(inflated) + self._bytes_of_master(files, inflated)

    def _bytes_of_master(self, files: Sequence[FileEntry], inflated: int) -> int:
        if self.master is None:
            return 0
        packed = inflated if FORMATS[self.master.spec["format"]].stores_schema else 1
        return sum(one.bytes for one in files) * packed

    def _bytes_of_splits(self, inflated: int) -> int:
        sources = (self.inputs[number].source for number in {split.input for split in self.splits})
        return sum(source.bytes * (inflated if source.is_packed else 1) for source in sources)

    @property
    def splits(self) -> tuple[Split, ...]:
        """All splits that are read."""
        return tuple(split for part in (*self.tasks, *self.local) for split in part)


def make_plan(config: Config, survey: Survey, run: str, now: int, engine: str = "auto") -> Plan:
    """Plan a run.

    run: its ID. now: its commit time, ms since 1970. engine: one of ``strategy.ENGINES``. Raises catalogued errors.
    """
    known, asked = survey.state, survey.asked(config.rows)
    effort, wording, say = config.effort, config.wording, config.wording.audience
    mistakes = list(check_inputs(replace(config, rows=asked), survey))
    _check_feed(asked, config.operation, config.limits, survey)
    planned, path = row_plan(asked, config.output, survey), survey.master_path
    rows = with_patches(replace(config, rows=asked), planned, known, path, versioned=survey.versioned)
    check_lines_alone(asked, survey)  # now, because other errors say more of such a line
    if known is not None:
        check_spec(survey, known, rows.spec)
    check_epochs(asked.order, rows, survey)
    mistakes += epoch_warnings(asked.order, rows, survey)
    at = as_of(asked.ops, rows.order_type, next((one.sequence for one in survey.feed), None), rows.epoch)
    register = register_of(config, rows, full=config.operation.full and at is None, now=now)
    floor = order_value(rows.order_type, known.commit.floor) if known is not None else None
    strategy = choose(config.operation, effort, survey, rows, engine, register)
    _check_tombstones(survey, rows)
    master = survey.master if survey.partitioned is None else ()  # with_units adds the files of touched partitions
    feed = with_moved_unset(config, rows, register, survey.feed, versioned=survey.versioned)
    inputs = numbered(survey.tombstones, master, feed, rows)
    size = effort.split_bytes
    # The tasks of a large feed read this size anyway, and a split has a cost of its own.
    splits = _FEED_TASKS if sum(one.bytes for one in survey.feed) < _TASKS * size else _FEED_SPLITS
    feed_chunk = size if size < _LARGE else size // splits
    tasks, local = _tasks(size, inputs, strategy, feed_chunk)
    groups = len(local) if strategy.join == "broadcast" else strategy.groups
    retention, feed_retention = config.retention.tombstones, config.retention.consumed
    operation = operation_of(config.operation, survey.feed, bool(rows.partitioning.fields))
    notes = [*_notes(asked.ops, config.operation, survey), *_scope_notes(rows)]
    if rows.orders_beside:
        room = bytes_of(rows.order_type, rows.epoch)
        notes.append(f"order values are kept beside the rows, {room} each, before compression")
    notes += epoch_notes(asked.order, rows)
    most = highest_order(asked.order, rows.order_type, rows.epoch)
    if at is not None and most is not None and at > most:
        why = f"it is above {setting(f'order.max={order_text(rows.order_type, most)}')}"
        raise error("snapshot.as.of", value=order_text(rows.order_type, at), why=why)
    if at is not None:
        notes.append(f"the snapshot is as of {shown_order(rows.order_type, at)}")
    plan = Plan(
        run=run,
        now=now,
        rows=replace(rows, layout_of={}),  # the inputs have them
        strategy=strategy,
        inputs=inputs,
        tasks=tasks,
        local=local,
        groups=groups,
        by_file_name=asked.order.by_file_name,
        chunks=Chunks(size, feed_chunk, ENDLESS if rows.whole else size),
        rejects=rejects_of(config.limits),
        limits=config.limits,
        accepts_units=not asked.order.check,
        accepts_op_codes=asked.ops.as_published,
        register=register,
        side_columns=register.side_columns,
        buries_rows=register.buries_rows,
        operation=operation,
        replace_damaged=config.operation.replace_damaged and operation != "apply",
        expects_no_rows=operation != config.operation.name,
        master_buckets=known.bucket_count if known is not None else None,
        unique=strategy.join == "broadcast" or (known is not None and known.commit.hash != ""),
        order_max=most,
        horizon=order_value(rows.order_type, known.commit.horizon) if known is not None else None,
        floor=floor,
        known_floor=floor,
        as_of=at,
        absences={} if known is None else absences_of(rows.order_type, known.absences),
        expire_before=None if retention is None else now - int(retention * 1000),
        forget_feed_before=None if feed_retention is None else now / 1000 - feed_retention,
        memory=effort.memory_bytes,
        bucket_bytes=effort.bucket_bytes,
        delete_files=tuple(source.name for source in survey.feed if is_delete_source(asked.ops, source)),
        notes=tuple(map(say, (*wording.noted, *survey.notes, *rows.notes, *notes))),
        warnings=tuple(map(say, (*wording.warned, *rows.warnings, *mistakes, *_warnings(asked.ops, survey)))),
        audience=say,
        master=_with_forms(survey, rows),
        shown=shown_values(asked, wording, rows),
        feed_settings=feed_settings({**config.given, **recorded_epochs(rows.spec, asked.order)}),
        checks=due_files(known, effort.verify_fraction) if known is not None else frozenset(),
        units=tuple(
            MergeUnit(group, groups, strategy.buckets, replaced=operation != "apply") for group in range(groups)
        ),
    )
    return plan.truncated(at)


def rejects_of(limits: LimitSpec) -> dict[str, int]:
    """Return how many rejected rows of each side a configuration allows."""
    policies = {"master": limits.master_reject_policy, "feed": limits.reject_policy}
    return {side: limits.reject_limit if policy == "quarantine" else 0 for side, policy in policies.items()}


def _notes(ops: OpSpec, operation: OperationSpec, survey: Survey) -> Iterator[str]:
    yield from operation_notes(operation, survey.feed)
    if names := only_in_paths(survey.feed):
        yield f"not read: {', '.join(names)}, which the feed has in the names of its directories alone"
    if survey.consumed and not survey.feed:
        yield "nothing to merge: every feed file was merged before"
    deletes = any(is_delete_source(ops, source) for source in survey.feed)
    if ops.delete_prefix is not None and ops.field is None and survey.feed and not deletes:
        yield f"no name of a feed file starts with {ops.delete_prefix}: the feed has no deletes"


def _scope_notes(rows: RowPlan) -> Iterator[str]:
    if rows.scope is not None:
        part = " and ".join(rows.scope.filter.texts)
        yield f"the snapshot is of the part {part} ({setting('sync.scope')}): records outside of it stay"


def _warnings(ops: OpSpec, survey: Survey) -> Iterator[str]:
    yield from delete_prefix_warnings(ops, survey.feed)
    if survey.feed_paths and not survey.feed and not survey.consumed:
        paths = ", ".join(place(without_secrets(path)) for path in survey.feed_paths)
        yield f"nothing to merge: {paths} has no feed files"


def _with_forms(survey: Survey, rows: RowPlan) -> PartitionedMaster | None:
    """Return the partitioned master with the way in which files of each form are read."""
    if survey.partitioned is None:
        return None
    forms = {0: "master"}
    for source in survey.master:  # one of each form
        assert isinstance(source.part, FileEntry)
        forms[source.part.form] = rows.layout_of.get(source.path, "master")
    return replace(survey.partitioned, forms=forms)


def _check_tombstones(survey: Survey, rows: RowPlan) -> None:
    """Raise StateError where the tombstones of a master without partitions would have to be in one."""
    if survey.tombstones and rows.partitioning.by_partition:
        raise error("partition.tombstones", path=survey.master_path)


def _check_feed(rows: RowSpec, operation: OperationSpec, limits: LimitSpec, survey: Survey) -> None:
    if rows.order.by_file_name or rows.order.position:
        check_sequences(rows, survey)
    check_delete_names(rows.ops, operation, survey.feed, survey.other_names)
    check_operation(operation, limits, survey.feed, survey.feed_paths)
    if operation.full:
        if not survey.feed:
            raise error("feed.empty", path=", ".join(map(place, survey.feed_paths)))
        sequences = {source.sequence for source in survey.feed}
        if len(sequences) > 1:
            shown = ", ".join(sorted("none" if number is None else str(number) for number in sequences))
            raise error("feed.sequences", sequences=shown)


def _tasks(
    size: int, inputs: Sequence[Input], strategy: Strategy, feed_chunk: int
) -> tuple[tuple[tuple[Split, ...], ...], tuple[tuple[Split, ...], ...]]:
    """Return the splits of each task that reads for the shuffle, and those that are read where they are merged."""
    splits = splits_of(inputs, size, feed_chunk)
    feed = [split for split in splits if inputs[split.input].side == "feed"]
    old = [split for split in splits if inputs[split.input].side != "feed"]
    feed_bytes = sum(inputs[split.input].source.bytes for split in feed if not split.number)
    least = _TASKS if feed_bytes < _TASKS * size else _TASKS_OF_LARGE
    step = max(feed_chunk, min(size, feed_bytes // least))
    tasks = packed_tasks(inputs, feed, step)
    if strategy.join == "shuffle":
        return (*packed_tasks(inputs, old, size), *tasks), ()
    if strategy.join == "broadcast":
        master = [split for split in old if inputs[split.input].side == "master"]
        # The last task writes inserted rows and tombstones, which no file of the master has room for.
        rest = tuple(split for split in old if inputs[split.input].side != "master")
        return tasks, (*packed_tasks(inputs, master, size), rest)
    groups: list[list[Split]] = [[] for _ in range(strategy.groups)]
    for split in old:
        source = inputs[split.input].source
        bucket = source.bucket
        if bucket is None:
            raise damaged(source.path, "the manifest has buckets, and none for this file")
        groups[bucket % strategy.groups].append(split)
    return tasks, tuple(map(tuple, groups))
