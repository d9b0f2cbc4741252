"""The input files of a run, numbered and ranked, and the byte ranges that tasks read."""

from collections.abc import Sequence
from dataclasses import replace

from mutator.dataset import checksum
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.inspect.source import Source
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.encodings import UTF8
from mutator.rules.order_values import NO_SEQUENCE

_OPENING = 4096  # the cost of opening a file, as bytes that could be read in that time
INFLATED = 10  # estimated bytes in memory of one byte of a packed file


@dataclass(frozen=True)
class Input:
    """One input file and how its rows are read."""

    source: Source
    side: str  # tombstones | master | feed
    layout: str  # a key of ``RowPlan.layouts``
    rank: int = 0  # of the base name within its side; equal names have equal ranks

    @property
    def sequence(self) -> int:
        """The sequence in the name of the file, NO_SEQUENCE for none."""
        return NO_SEQUENCE if self.source.sequence is None else self.source.sequence


@dataclass(frozen=True)
class Split:
    """A byte range of an input; it has the lines that begin in it."""

    input: int
    number: int  # of the split in its file, from 0
    start: int
    end: int | None  # None: the whole (compressed) content


def numbered(
    tombstones: Sequence[Source], master: Sequence[Source], feed: Sequence[Source], shape: RowPlan
) -> tuple[Input, ...]:
    """Return inputs, ranked by file name within master and feed."""
    made = [Input(source, "tombstones", "master") for source in tombstones]
    for side, sources in (("master", master), ("feed", feed)):
        names = sorted({source.precedence_name for source in sources})
        ranks = {name: rank for rank, name in enumerate(names)}
        for source in sources:
            rank, layout = ranks[source.precedence_name], shape.layout_of.get(source.path, side)
            # Tasks have the schema in the layout, and need no copy of it for each file, nor its first bytes.
            made.append(Input(replace(source, file_schema=None, head=b""), side, layout, rank))
    return tuple(made)


def splits_of(inputs: Sequence[Input], size: int, feed_size: int) -> list[Split]:
    """Cut files into splits of a size; a file that is compressed, or not UTF-8, is one split."""
    made = []
    for index, one in enumerate(inputs):
        source = one.source
        is_whole = source.encoding != UTF8 or (not source.format.splittable and source.checksum is None)
        if one.side == "tombstones" or source.compression or is_whole:
            made.append(Split(index, 0, 0, None))
            continue
        # A managed file is split by the chunks of its checksum, so that it can be verified while it is read.
        step = feed_size if one.side == "feed" else size
        if source.checksum is not None:
            step = checksum.chunk_of(source.checksum) or max(source.bytes, 1)
        starts = range(0, max(source.bytes, 1), step)
        made += [Split(index, number, start, min(start + step, source.bytes)) for number, start in enumerate(starts)]
    return made


def packed_tasks(inputs: Sequence[Input], splits: Sequence[Split], size: int) -> tuple[tuple[Split, ...], ...]:
    """Group splits into tasks of a size, so that ten thousand small files do not make ten thousand tasks."""
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
