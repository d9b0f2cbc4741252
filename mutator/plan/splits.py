"""The files of a run, numbered and ranked, and the byte ranges that tasks read of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mutator.dataset import checksum
from mutator.formats.content import Window
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.order_values import NO_SEQUENCE

__all__ = ["INFLATED", "Input", "Split", "inputs_of", "numbered", "packed_tasks", "splits_of"]

_OPENING = 4096  # what opening a file costs, in bytes that could be read meanwhile
INFLATED = 10  # bytes that a byte of a compressed file is taken for


@dataclass(frozen=True)
class Input:
    """One input file and how its rows are read."""

    source: Source
    side: str  # tombstones | master | feed
    layout: str  # which layout of the plan: master | feed | deletes
    rank: int  # of the base name among those of its side; equal names have equal ranks
    sequence: int  # NO_SEQUENCE for none
    in_ranges: bool = True  # tasks may read parts of it


@dataclass(frozen=True)
class Split:
    """A byte range of an input: the lines that begin in it."""

    input: int
    number: int  # of the split in its file, from 0
    start: int
    end: int | None  # None: the whole (compressed) content

    def window(self, source: Source) -> Window:
        """Return what a block reader must know to read it."""
        return source.window(self.start, self.end)


def inputs_of(survey: Survey, shape: RowPlan) -> tuple[Input, ...]:
    """Number the files of a run: tombstones, master, feed."""
    master = survey.master if survey.partitions is None else ()  # its files come when it is known which are touched
    return numbered(survey.tombstones, master, survey.feed, shape)


def numbered(
    tombstones: Sequence[Source], master: Sequence[Source], feed: Sequence[Source], shape: RowPlan
) -> tuple[Input, ...]:
    """Make inputs of files, ranked by their names within master and feed."""
    made = [Input(source, "tombstones", "master", 0, NO_SEQUENCE) for source in tombstones]
    for side, sources in (("master", master), ("feed", feed)):
        names = sorted({source.name.encode("utf-8", "surrogateescape") for source in sources})
        ranks = {name: rank for rank, name in enumerate(names)}
        for source in sources:
            rank = ranks[source.name.encode("utf-8", "surrogateescape")]
            sequence = NO_SEQUENCE if source.sequence is None else source.sequence
            layout, in_ranges = shape.layout_of.get(source.path, side), shape.in_ranges.get(source.path, True)
            # What a file says of its fields went into the layout; tasks need not get it with each of many files.
            made.append(Input(replace(source, file_schema=None), side, layout, rank, sequence, in_ranges))
    return tuple(made)


def splits_of(inputs: Sequence[Input], size: int, feed_size: int) -> list[Split]:
    """Cut files into splits of a size; a compressed one is one split."""
    made = []
    for index, one in enumerate(inputs):
        source = one.source
        if one.side == "tombstones" or source.compression or (not one.in_ranges and source.checksum is None):
            made.append(Split(index, 0, 0, None))
            continue
        # A file of our own is read by the chunks of its checksum, so that it can be checked while it is read.
        step = feed_size if one.side == "feed" else size
        if source.checksum is not None:
            step = checksum.chunk_of(source.checksum) or max(source.bytes, 1)
        starts = range(0, max(source.bytes, 1), step)
        made += [Split(index, number, start, min(start + step, source.bytes)) for number, start in enumerate(starts)]
    return made


def packed_tasks(inputs: Sequence[Input], splits: Sequence[Split], size: int) -> tuple[tuple[Split, ...], ...]:
    """Put small splits together, so that ten thousand small files are not ten thousand tasks."""
    tasks: list[list[Split]] = []
    filled = size
    for split in splits:
        content = inputs[split.input].source.bytes * INFLATED if split.end is None else split.end - split.start
        weight = min(content, size) + _OPENING
        if filled + weight > size and (filled >= size // 2 or filled + weight > 2 * size):
            tasks.append([])
            filled = 0
        tasks[-1].append(split)
        filled += weight
    return tuple(map(tuple, tasks))
