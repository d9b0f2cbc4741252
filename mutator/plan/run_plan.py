"""What a run will do: a frozen value made of the configuration and of what the survey found, and nothing else.

No question about the configuration is asked after this: the executors get the plan and follow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mutator.config import Config
from mutator.dataset import checksum
from mutator.dataset.manifest import DataFile, Manifest, Part, SideFile, is_without_key
from mutator.dataset.partition_index import SPEC, Files
from mutator.errors import error
from mutator.plan.inspect.survey import Source, Survey
from mutator.plan.join import Join, choose
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.rows.partitioning import Partitioning
from mutator.plan.rows.row_plan import RowPlan
from mutator.plan.rows.schema_rows import has_schema, schema_row_plan, stored_schema_row_plan
from mutator.plan.rows.text_rows import is_delete_source, stored_text_row_plan, text_row_plan
from mutator.plan.splits import Input, Split, inputs_of, numbered, packed_tasks, splits_of
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import HASH_NAME
from mutator.rules.order_values import order_value

__all__ = ["SAMPLES", "Partitions", "Plan", "make_plan", "plan_of_dataset", "rejects_allowed"]


SAMPLES = 5  # keys or rows shown as examples

_LARGE = 1 << 20
_FEED_TASKS = 16  # a feed of one split's size is read by up to as many tasks


@dataclass(frozen=True)
class Partitions:
    """A partitioned master, as it lies there: which files each partition has, and how those of a form are read."""

    path: str
    spec: Mapping[str, Any]
    partitions: Mapping[str, Files]  # by directory
    forms: Mapping[int | None, tuple[str, bool]]  # form -> layout, and whether tasks may read parts of a file
    packs: tuple[SideFile, ...]  # of filters of keys
    parts: tuple[Part, ...]  # all of its files


@dataclass(frozen=True)
class Plan:
    """All that the engine needs, and all that the report tells of it."""

    run: str
    now: int  # milliseconds since 1970, UTC: the commit time of this run
    inputs: tuple[Input, ...]
    tasks: tuple[tuple[Split, ...], ...]  # what each task reads for the shuffle
    local: tuple[tuple[Split, ...], ...]  # what is not shuffled: read by each group (aligned) or task (broadcast)
    format: str  # what the engine merges: a key of ``formats.BLOCK_TYPES``
    layouts: dict[str, Any]  # the format's own: where key, order value and op code are
    output: Any  # the format's own: what is written
    carries: bool  # files of the master that no mutation concerns may stay as they are
    engine: str
    join: str
    master_buckets: int | None  # of a managed master
    buckets: int | None  # of the output; None: the files of the master stay as they are
    groups: int  # tasks that merge: in each come together the buckets that are equal modulo it
    reason: str
    by_file_name: bool
    order_type: str
    full: bool
    spec: dict[str, Any]
    horizon: Any  # highest order value ever expired, or None
    expire_before: int | None  # commit time in ms; older tombstones are forgotten
    chunk: int  # bytes of a checksum chunk, and of a split
    written_chunk: int  # bytes of a checksum chunk of what is written
    feed_chunk: int  # the same in feed files: smaller, so that a small feed keeps several tasks busy
    memory: int  # bytes of the feed that a worker holds at once
    unique: bool  # no ID has two rows in the master: its manifest says so, or the user
    rejects_shipped: dict[str, int]  # side -> how many rejected rows of a split travel to the ledger
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    bucket_bytes: int = 64 << 20  # of a partition's bucket
    partitioning: Partitioning | None = None
    master: Partitions | None = None  # where it is partitioned already
    units: tuple[MergeUnit, ...] = ()  # of touched partitions, each with its part of ``local``

    def unit(self, group: int) -> MergeUnit:
        """Return what a group is: one of the units, or buckets of a master without partitions."""
        if self.units:
            return self.units[group]
        return MergeUnit(group, self.groups, self.buckets)

    @property
    def ledger(self) -> int:
        """Number of the partition that gets receipts and rejects instead of records."""
        return self.groups

    @property
    def key_width(self) -> int:
        """Number of values of a record ID."""
        return len(self.layouts["feed"].id_fields)

    @property
    def splits(self) -> tuple[Split, ...]:
        """All that is read, wherever."""
        return tuple(split for part in (*self.tasks, *self.local) for split in part)

    @cached_property
    def sequences(self) -> Ints:
        """The sequence of each input."""
        return np.array([one.sequence for one in self.inputs], np.int64)

    @cached_property
    def ranks(self) -> Ints:
        """The rank of each input."""
        return np.array([one.rank for one in self.inputs], np.int64)

    def chunk_of(self, one: Input) -> int:
        """Return the bytes of a checksum chunk of an input."""
        if one.source.checksum is not None:
            return checksum.chunk_of(one.source.checksum) or 1 << 62
        return self.feed_chunk if one.side == "feed" else self.chunk


def make_plan(config: Config, survey: Survey, run: str, now: int, engine: str = "auto") -> Plan:
    """Decide how a run is done.

    run: its id. now: its commit time, milliseconds since 1970. engine: one of ``joins.ENGINES``. Raises the errors of
    the catalogue.
    """
    known = survey.manifest
    _check_feed_names(config, survey)
    shape = schema_row_plan(config, survey) if has_schema(config, survey) else text_row_plan(config, survey)
    if known is not None:
        _check_spec(survey.master_path, known, shape.spec)
    join = choose(config, survey, shape, engine)
    if shape.partitioning is not None:
        _check_partitions(survey, shape.partitioning)
    inputs = inputs_of(survey, shape)
    feed_chunk = config.split_bytes if config.split_bytes < _LARGE else config.split_bytes // _FEED_TASKS
    tasks, local = _tasks(config, inputs, join, feed_chunk)
    notes = [*survey.notes, *shape.notes]
    deletes = any(is_delete_source(config, source) for source in survey.feed)
    if config.delete_prefix is not None and config.op_field is None and survey.feed and not deletes:
        notes.append(f"no name of a feed file starts with {config.delete_prefix}: the feed has no deletes")
    warnings = [*config.warnings, *shape.warnings]
    if known is None and not survey.master and not config.allow_empty_master:
        warnings.append(f"{survey.master_path} holds no data files (is it the right directory, and mounted?)")
    retention = config.tombstone_retention
    return Plan(
        run=run,
        now=now,
        inputs=inputs,
        tasks=tasks,
        local=local,
        format=shape.format,
        layouts=dict(shape.layouts),
        output=shape.output,
        carries=shape.carries,
        engine=join.engine,
        join=join.kind,
        master_buckets=known.buckets if known is not None else None,
        buckets=join.buckets,
        groups=len(local) if join.kind == "broadcast" else join.groups,
        reason=join.reason,
        by_file_name=config.by_file_name,
        order_type=shape.order_type,
        full=config.full,
        spec=shape.spec,
        horizon=order_value(shape.order_type, known.horizon) if known else None,
        expire_before=None if retention is None else now - int(retention * 1000),
        chunk=config.split_bytes,
        written_chunk=1 << 62 if shape.whole else config.split_bytes,
        feed_chunk=feed_chunk,
        memory=config.memory_bytes,
        unique=join.kind == "broadcast" or (known is not None and known.hash is not None),
        rejects_shipped={
            "master": rejects_allowed(config, "master") + SAMPLES,
            "feed": rejects_allowed(config, "feed") + SAMPLES,
        },
        notes=tuple(notes),
        warnings=tuple(warnings),
        bucket_bytes=config.bucket_bytes,
        partitioning=shape.partitioning,
        master=_partitions(survey, shape),
    )


def _partitions(survey: Survey, shape: RowPlan) -> Partitions | None:
    known, found = survey.manifest, survey.partitions
    if known is None or found is None:
        return None
    forms: dict[int | None, tuple[str, bool]] = {None: ("master", True)}
    for source in survey.master:  # one of each form
        assert isinstance(source.part, DataFile)
        forms[source.part.form] = (shape.layout_of.get(source.path, "master"), shape.in_ranges.get(source.path, True))
    packs = tuple(side for side in known.beside if side.role == "filters")
    return Partitions(survey.master_path, known.spec, found, forms, packs, known.parts())


def rejects_allowed(config: Config, side: str) -> int:
    """Return how many rows of a side may be set aside before the run fails."""
    policy = config.master_reject_policy if side == "master" else config.reject_policy
    return config.reject_limit if policy == "quarantine" else 0


def plan_of_dataset(known: Manifest, data: tuple[Source, ...], tombstones: tuple[Source, ...]) -> Plan:
    """Return the plan that reads a dataset back, as its manifest describes it."""
    shape = stored_schema_row_plan(known) if "fields" in known.spec["key"] else stored_text_row_plan(known)
    inputs = numbered(tombstones, data, (), shape)
    buckets = known.buckets or max(2, sum(one.bytes for one in data) >> 26)
    return Plan(
        run=known.run,
        now=0,
        inputs=inputs,
        tasks=packed_tasks(inputs, splits_of(inputs, 64 << 20, 64 << 20), 64 << 20),
        local=(),
        format=shape.format,
        layouts=dict(shape.layouts),
        output=shape.output,
        carries=True,
        engine="records",
        join="shuffle",
        master_buckets=known.buckets,
        buckets=buckets,
        groups=buckets,
        reason="",
        by_file_name=shape.spec["order"]["by"] == "file name",
        order_type=shape.order_type,
        full=False,
        spec=shape.spec,
        horizon=None,
        expire_before=None,
        chunk=64 << 20,
        written_chunk=64 << 20,
        feed_chunk=64 << 20,
        memory=0,
        unique=False,
        rejects_shipped={"master": SAMPLES},
        notes=(),
        warnings=(),
    )


def _check_partitions(survey: Survey, partitioning: Partitioning) -> None:
    """Raise StateError where deletes would be forgotten: their tombstones say no partition."""
    if survey.tombstones and not partitioning.by_table:
        raise error("partition.tombstones", path=survey.master_path)


def _check_feed_names(config: Config, survey: Survey) -> None:
    if config.by_file_name:
        for source in survey.feed:
            if source.sequence is None:
                raise error("sequence.missing", path=source.path)
    if config.full:
        where = ", ".join(survey.feed_paths)
        if not survey.feed:
            raise error("feed.empty", path=where, cure="deliver it whole, or use sync.mode=partial")
        sequences = {source.sequence for source in survey.feed}
        if len(sequences) > 1:
            shown = ", ".join(sorted("none" if number is None else str(number) for number in sequences))
            raise error("feed.sequences", sequences=shown)


def _check_spec(path: str, known: Manifest, spec: dict[str, Any]) -> None:
    agreed = ("key", "order", "op code", SPEC, *(("delimiter", "width", "format") if "delimiter" in spec else ()))
    for name in () if is_without_key(known) else agreed:
        before, now = known.spec.get(name), spec.get(name)
        if name == "order" and before and now and (before.get("type"), now.get("type")) == ("long", "decimal"):
            before = {**before, "type": "decimal"}  # the field was widened, and each integer is a decimal
        if name == SPEC and before is None:
            continue  # it is partitioned now
        if before != now and not (name == "width" and before is None):
            raise error("manifest.spec", path=path, name=name, before=_shown(before), now=_shown(now))
    if known.hash not in (None, HASH_NAME):
        raise error("manifest.spec", path=path, name="the key hash", before=known.hash, now=HASH_NAME)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _tasks(
    config: Config, inputs: Sequence[Input], join: Join, feed_chunk: int
) -> tuple[tuple[tuple[Split, ...], ...], tuple[tuple[Split, ...], ...]]:
    """Return the splits of each task that reads for the shuffle, and those that are read where they are merged."""
    size = config.split_bytes
    splits = splits_of(inputs, size, feed_chunk)
    feed = [split for split in splits if inputs[split.input].side == "feed"]
    held = [split for split in splits if inputs[split.input].side != "feed"]
    step = max(feed_chunk, min(size, sum(inputs[split.input].source.bytes for split in feed if not split.number) // 8))
    tasks = packed_tasks(inputs, feed, step)
    if join.kind == "shuffle":
        return (*packed_tasks(inputs, held, size), *tasks), ()
    if join.kind == "broadcast":
        master = [split for split in held if inputs[split.input].side == "master"]
        # The last task writes what has no place in the files of the master: inserted rows, and tombstones.
        rest = tuple(split for split in held if inputs[split.input].side != "master")
        return tasks, (*packed_tasks(inputs, master, size), rest)
    groups: list[list[Split]] = [[] for _ in range(join.groups)]
    for split in held:
        source = inputs[split.input].source
        bucket = source.bucket
        if bucket is None:
            raise error("manifest.damaged", path=source.path, why="the manifest has buckets, and none for this file")
        groups[bucket % join.groups].append(split)
    return tasks, tuple(map(tuple, groups))
