"""What a run will do: a frozen value made of the configuration and of what the survey found, and nothing else.

No question about the configuration is asked after this: the executors get the plan and follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mutator import checksum, delimiter
from mutator.config import Config
from mutator.delimiter import Delimiter
from mutator.errors import error
from mutator.keyhash import HASH_NAME
from mutator.layout import RowLayout, without_field
from mutator.manifest import Manifest
from mutator.precedence import NO_SEQUENCE, order_value
from mutator.survey import Source, Survey
from mutator.width import check_ordinals, decide_widths, is_delete_source, layouts

__all__ = ["SAMPLES", "Input", "Plan", "Split", "make_plan", "plan_of_dataset", "rejects_allowed"]


SAMPLES = 5  # keys or rows shown as examples


@dataclass(frozen=True)
class Input:
    """One input file and how its rows are read."""

    source: Source
    side: str  # tombstones | master | feed
    layout: str  # which layout of the plan: master | feed | deletes
    rank: int  # of the base name among those of its side; equal names have equal ranks
    sequence: int  # NO_SEQUENCE for none


@dataclass(frozen=True)
class Split:
    """A byte range of an input: the lines that begin in it."""

    input: int
    number: int  # of the split in its file, from 0
    start: int
    end: int | None  # None: the whole (compressed) content


@dataclass(frozen=True)
class Plan:
    """All that the engine needs, and all that the report tells of it."""

    run: str
    now: int  # milliseconds since 1970, UTC: the commit time of this run
    inputs: tuple[Input, ...]
    tasks: tuple[tuple[Split, ...], ...]
    layouts: dict[str, RowLayout]
    buckets: int
    join: str
    reason: str
    by_file_name: bool
    order_type: str
    full: bool
    spec: dict[str, Any]
    horizon: Any  # highest order value ever expired, or None
    expire_before: int | None  # commit time in ms; older tombstones are forgotten
    chunk: int  # bytes of a checksum chunk
    rejects_shipped: dict[str, int]  # side -> how many rejected rows of a split travel to the ledger
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def ledger(self) -> int:
        """Number of the partition that gets receipts and rejects instead of records."""
        return self.buckets

    @property
    def key_width(self) -> int:
        """Number of values of a record ID."""
        return len(self.layouts["feed"].id_fields)


def make_plan(config: Config, survey: Survey, run: str, now: int) -> Plan:
    """Decide how a run is done.

    run: its id. now: its commit time, milliseconds since 1970. Raises the errors of the catalogue.
    """
    known = survey.manifest
    _check_feed_names(config, survey)
    feed_width, master_width, op_in_master = decide_widths(config, survey)
    feed, master = layouts(config, feed_width, master_width, op_in_master)
    check_ordinals(config, survey, feed, op_in_master)
    spec = _spec(config, feed, known)
    if known is not None:
        _check_spec(survey.master_path, known, spec)
    inputs = _inputs(config, survey)
    tasks = _pack(_splits(inputs, config.split_bytes), config.split_bytes)
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
    buckets, why_buckets = _buckets(config, survey)
    retention = config.tombstone_retention
    return Plan(
        run=run,
        now=now,
        inputs=inputs,
        tasks=tasks,
        layouts={"master": master, "feed": feed, "deletes": replace(feed, deletes=True, keys_only=config.by_file_name)},
        buckets=buckets,
        join="shuffle",
        reason=f"the records engine shuffles master and feed; {why_buckets}",
        by_file_name=config.by_file_name,
        order_type=config.order_type,
        full=config.full,
        spec=spec,
        horizon=order_value(config.order_type, known.horizon) if known else None,
        expire_before=None if retention is None else now - int(retention * 1000),
        chunk=config.split_bytes,
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
    inputs = _numbered(tombstones, data, ())
    return Plan(
        run=known.run,
        now=0,
        inputs=inputs,
        tasks=_pack(_splits(inputs, 64 << 20), 64 << 20),
        layouts={"master": layout, "feed": layout},
        buckets=known.buckets or 1,
        join="shuffle",
        reason="",
        by_file_name=by_file_name,
        order_type=layout.order_type,
        full=False,
        spec=dict(spec),
        horizon=None,
        expire_before=None,
        chunk=64 << 20,
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


def _inputs(config: Config, survey: Survey) -> tuple[Input, ...]:
    made = _numbered(survey.tombstones, survey.master, survey.feed)
    return tuple(
        replace(one, layout="deletes") if one.side == "feed" and is_delete_source(config, one.source) else one
        for one in made
    )


def _numbered(tombstones: Sequence[Source], master: Sequence[Source], feed: Sequence[Source]) -> tuple[Input, ...]:
    made = [Input(source, "tombstones", "master", 0, NO_SEQUENCE) for source in tombstones]
    for side, sources in (("master", master), ("feed", feed)):
        names = sorted({source.name.encode("utf-8", "surrogateescape") for source in sources})
        ranks = {name: rank for rank, name in enumerate(names)}
        for source in sources:
            rank = ranks[source.name.encode("utf-8", "surrogateescape")]
            sequence = NO_SEQUENCE if source.sequence is None else source.sequence
            made.append(Input(source, side, side, rank, sequence))
    return tuple(made)


def _splits(inputs: Sequence[Input], size: int) -> list[Split]:
    made = []
    for index, one in enumerate(inputs):
        source = one.source
        if one.side == "tombstones" or source.compression:
            made.append(Split(index, 0, 0, None))
            continue
        # A file of our own is read by the chunks of its checksum, so that it can be checked while it is read.
        step = size if source.checksum is None else checksum.chunk_of(source.checksum) or max(source.bytes, 1)
        starts = range(0, max(source.bytes, 1), step)
        made += [Split(index, number, start, min(start + step, source.bytes)) for number, start in enumerate(starts)]
    return made


def _pack(splits: Sequence[Split], size: int) -> tuple[tuple[Split, ...], ...]:
    """Put small splits together, so that ten thousand small files are not ten thousand tasks."""
    tasks: list[list[Split]] = []
    filled = size
    for split in splits:
        weight = (split.end - split.start if split.end is not None else size) + 4096  # an open costs something, too
        if filled + weight > size and (filled >= size // 2 or filled + weight > 2 * size):
            tasks.append([])
            filled = 0
        tasks[-1].append(split)
        filled += weight
    return tuple(map(tuple, tasks))


def _buckets(config: Config, survey: Survey) -> tuple[int, str]:
    if config.num_reducer is not None:
        return config.num_reducer, "num.reducer says how many buckets"
    if survey.manifest is not None and survey.manifest.buckets is not None:
        return survey.manifest.buckets, "the master's manifest says how many buckets"
    total = sum(source.bytes for source in (*survey.master, *survey.feed))
    return max(2, -(-total // config.bucket_bytes)), f"{total:,} bytes of input make the number of buckets"
