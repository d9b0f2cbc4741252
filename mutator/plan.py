"""What a run will do: a frozen value made of the configuration and of what the survey found, and nothing else.

No question about the configuration is asked after this: the executors get the plan and follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mutator import checksum, delimiter
from mutator.config import Config
from mutator.delimiter import Delimiter
from mutator.errors import error
from mutator.inputs import Input, Split, inputs_of, numbered, packed_tasks, splits_of
from mutator.joins import Join, choose
from mutator.keyhash import HASH_NAME
from mutator.layout import RowLayout, without_field
from mutator.manifest import Manifest
from mutator.precedence import order_value
from mutator.spans import Ints
from mutator.survey import Source, Survey
from mutator.width import check_ordinals, decide_widths, is_delete_source, layouts

__all__ = ["SAMPLES", "Plan", "make_plan", "plan_of_dataset", "rejects_allowed"]


SAMPLES = 5  # keys or rows shown as examples

_LARGE = 1 << 20
_FEED_TASKS = 16  # a feed of one split's size is read by up to as many tasks


@dataclass(frozen=True)
class Plan:
    """All that the engine needs, and all that the report tells of it."""

    run: str
    now: int  # milliseconds since 1970, UTC: the commit time of this run
    inputs: tuple[Input, ...]
    tasks: tuple[tuple[Split, ...], ...]  # what each task reads for the shuffle
    local: tuple[tuple[Split, ...], ...]  # what is not shuffled: read by each group (aligned) or task (broadcast)
    format: str
    layouts: dict[str, RowLayout]
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
    feed_chunk: int  # the same in feed files: smaller, so that a small feed keeps several tasks busy
    memory: int  # bytes of the feed that a worker holds at once
    unique: bool  # no ID has two rows in the master: its manifest says so, or the user
    rejects_shipped: dict[str, int]  # side -> how many rejected rows of a split travel to the ledger
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

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
    feed_width, master_width, op_in_master = decide_widths(config, survey)
    feed, master = layouts(config, feed_width, master_width, op_in_master)
    check_ordinals(config, survey, feed, op_in_master)
    spec = _spec(config, feed, known)
    if known is not None:
        _check_spec(survey.master_path, known, spec)
    all_layouts = {
        "master": master,
        "feed": feed,
        "deletes": replace(feed, deletes=True, keys_only=config.by_file_name),
    }
    join = choose(config, survey, all_layouts, spec["format"], engine)
    inputs = inputs_of(config, survey)
    feed_chunk = config.split_bytes if config.split_bytes < _LARGE else config.split_bytes // _FEED_TASKS
    tasks, local = _tasks(config, inputs, join, feed_chunk)
    notes = list(survey.notes)
    if config.op_field is not None:
        read, written = ("with" if has else "without" for has in (op_in_master, config.op_keep))
        notes.append(f"the master's rows are {read} the op code column; rows are written {written} it")
    deletes = any(is_delete_source(config, source) for source in survey.feed)
    if config.delete_prefix is not None and config.op_field is None and survey.feed and not deletes:
        notes.append(f"no name of a feed file starts with {config.delete_prefix}: the feed has no deletes")
    warnings = list(config.warnings)
    if known is None and not survey.master and not config.allow_empty_master:
        warnings.append(f"{survey.master_path} holds no data files (is it the right directory, and mounted?)")
    if op_in_master and feed.cut_op and known is None and config.op_in_master is None and survey.master:
        warnings.append(
            f"the master's rows are as wide as the feed's, so field {config.op_field} is taken for their op code, and "
            "cut; set op.code.in.master to confirm it"
        )
    if feed.cut_op and feed.delimiter.literal is None and len(feed.delimiter.split(b"x" + feed.joint + b"x")) != 2:
        warnings.append(
            "field.delim is not matched by field.delim.regex: rows that lost their op code cannot be read as the next "
            "master with this configuration"
        )
    retention = config.tombstone_retention
    return Plan(
        run=run,
        now=now,
        inputs=inputs,
        tasks=tasks,
        local=local,
        format=spec["format"],
        layouts=all_layouts,
        engine=join.engine,
        join=join.kind,
        master_buckets=known.buckets if known is not None else None,
        buckets=join.buckets,
        groups=len(local) if join.kind == "broadcast" else join.groups,
        reason=join.reason,
        by_file_name=config.by_file_name,
        order_type=config.order_type,
        full=config.full,
        spec=spec,
        horizon=order_value(config.order_type, known.horizon) if known else None,
        expire_before=None if retention is None else now - int(retention * 1000),
        chunk=config.split_bytes,
        feed_chunk=feed_chunk,
        memory=config.memory_bytes,
        unique=join.kind == "broadcast" or (known is not None and known.buckets is not None),
        rejects_shipped={
            "master": rejects_allowed(config, "master") + SAMPLES,
            "feed": rejects_allowed(config, "feed") + SAMPLES,
        },
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def rejects_allowed(config: Config, side: str) -> int:
    """Return how many rows of a side may be set aside before the run fails."""
    policy = config.master_reject_policy if side == "master" else config.reject_policy
    return config.reject_limit if policy == "quarantine" else 0


def plan_of_dataset(known: Manifest, data: tuple[Source, ...], tombstones: tuple[Source, ...]) -> Plan:
    """Return the plan that reads a dataset back, as its manifest describes it."""
    spec = known.spec
    order, by_file_name = spec["order"], spec["order"]["by"] == "file name"
    layout = RowLayout(
        delimiter=_delimiter(spec["delimiter"]),
        id_fields=tuple(spec["key"]["ordinals"]),
        order_field=None if by_file_name else order["ordinal"],
        order_type="sequence" if by_file_name else order["type"],
        width=spec["width"] if isinstance(spec["width"], int) else None,
    )
    inputs = numbered(tombstones, data, ())
    buckets = known.buckets or max(2, sum(one.bytes for one in data) >> 26)
    return Plan(
        run=known.run,
        now=0,
        inputs=inputs,
        tasks=packed_tasks(inputs, splits_of(inputs, 64 << 20, 64 << 20), 64 << 20),
        local=(),
        format=spec["format"],
        layouts={"master": layout, "feed": layout},
        engine="records",
        join="shuffle",
        master_buckets=known.buckets,
        buckets=buckets,
        groups=buckets,
        reason="",
        by_file_name=by_file_name,
        order_type=layout.order_type,
        full=False,
        spec=dict(spec),
        horizon=None,
        expire_before=None,
        chunk=64 << 20,
        feed_chunk=64 << 20,
        memory=0,
        unique=False,
        rejects_shipped={"master": SAMPLES},
        notes=(),
        warnings=(),
    )


def _delimiter(spec: dict[str, str]) -> Delimiter:
    if "literal" in spec:
        return Delimiter(spec["literal"].encode("utf-8", "surrogateescape"), None, spec["literal"])
    return delimiter.parse(spec["regex"])


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


def _spec(config: Config, feed: RowLayout, known: Manifest | None) -> dict[str, Any]:
    """Describe the rows as they are written: what the next run must agree with."""
    place = without_field(config.op_field) if feed.cut_op and config.op_field is not None else int
    width: int | str | None = feed.output_width
    if config.field_count == "any" or (config.field_count == "auto" and known and known.spec["width"] == "any"):
        width = "any"
    return {
        "key": {
            "ordinals": [place(ordinal) for ordinal in config.id_fields],
            "types": ["bytes"] * len(config.id_fields),
        },
        "order": {"by": "file name"}
        if config.order_field is None
        else {"by": "field", "ordinal": place(config.order_field), "type": config.order_type},
        "op code": config.op_field if config.op_keep else None,
        "delimiter": _spec_delimiter(config.delimiter),
        "width": width,
        "format": "text",
    }


def _spec_delimiter(delimiter: Delimiter) -> dict[str, str]:
    if delimiter.literal is not None:
        return {"literal": delimiter.literal.decode("utf-8", "surrogateescape")}
    return {"regex": delimiter.text}


def _check_spec(path: str, known: Manifest, spec: dict[str, Any]) -> None:
    for name, now in spec.items():
        before = known.spec.get(name)
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
