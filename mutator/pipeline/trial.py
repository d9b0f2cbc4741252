"""Try a configuration out: a dry run on the real inputs, and what becomes of some rows of the feed."""

import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from mutator.config import Config
from mutator.engine.records.read_records import FEED, MASTER, Element, read_task
from mutator.engine.records.record_merge import merge_bucket
from mutator.engine.split_content import FLOOR
from mutator.engine.tally import Tally
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.avro_rows import AvroLayout
from mutator.formats.blocks.column_rows import ColumnLayout
from mutator.pipeline.merge import carry_out, prepare
from mutator.pipeline.report import Report
from mutator.pipeline.runners import engine_on
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Split

if TYPE_CHECKING:
    from pyspark import SparkContext

MOST_BYTES = 1 << 30  # that a dry run reads, uncompressed
_MOST_BYTES_OF_ROWS = 48 << 20  # that are read once more, row by row, for the examples
_TRIED = 200  # rows of the feed, of which the examples are chosen
EXAMPLES = 5


@dataclass(frozen=True)
class Example:
    """A mutation, and what becomes of it."""

    file: str
    row: str
    is_delete: bool
    outcome: str  # of the feed: inserted, updated, superseded, …
    before: str | None  # the master's row of this record


@dataclass(frozen=True)
class Trial:
    """The result of trying a configuration out."""

    report: Report | None = None  # of the dry run; None if it failed, or was left out
    fault: MutatorError | None = None
    bytes: int = 0  # of the inputs, if they are too many for a dry run
    examples: tuple[Example, ...] = ()


def try_out(config: Config, master: str, feed: Sequence[str], output: str) -> Trial:
    """Carry out a dry run in this process; choose rows of the feed that show different outcomes."""
    try:
        prepared = prepare(config, master, feed, output)
        size = prepared.plan.bytes_to_read
        if size > MOST_BYTES:
            return Trial(bytes=size)
        report = carry_out(prepared, engine_on("local", _no_spark), dry_run=True)[1]
    except MutatorError as fault:
        return Trial(fault=fault)
    plan = prepared.plan
    may_read = size <= _MOST_BYTES_OF_ROWS and not plan.is_partitioned and plan.shown.rows
    return Trial(report, examples=examples(plan) if may_read else ())


def _no_spark() -> AbstractContextManager["SparkContext"]:
    raise AssertionError("a local run starts no Spark")


def examples(plan: Plan) -> tuple[Example, ...]:
    """Return mutations with different outcomes, as far as there are any among the first rows of the feed.

    The records engine reads all rows once more, and decides about the IDs of the first mutations.
    """
    splits = list({(split.input, split.number): split for split in plan.splits}.values())
    feed = _elements(plan, [one for one in splits if plan.inputs[one.input].side == "feed"])
    first = list(islice((element for element in feed if element[0][2] != FLOOR), _TRIED))
    tried = {element[0][1] for element in first}
    by_key: dict[Any, list[Element]] = defaultdict(list)
    for element in _elements(plan, splits):
        if element[0][2] == FLOOR:
            plan = plan.truncated(element[1])
        elif element[0][1] in tried:
            by_key[element[0][1]].append(element)
    found: dict[str, list[Example]] = defaultdict(list)
    for key in dict.fromkeys(element[0][1] for element in first):
        for example in _outcomes(plan, sorted(by_key[key], key=lambda element: element[0])):
            found[f"{example.outcome} {example.is_delete}"].append(example)
    # One of each outcome first, then a second one.
    turns = chain.from_iterable(zip(*([*found[name], None][:2] for name in found), strict=False))
    return tuple(example for example in turns if example is not None)[:EXAMPLES]


def _elements(plan: Plan, splits: Sequence[Split]) -> Iterator[Element]:
    """Yield the elements of records, and the truncates; those of the ledger are left out."""
    return (element for element in read_task(plan, splits) if element[0][0] != plan.ledger)


def _outcomes(plan: Plan, elements: Sequence[Element]) -> Iterator[Example]:
    """Yield the mutations of one record. elements: sorted, as a bucket has them."""
    tally = Tally()
    how: dict[str, Any] = {
        "now": plan.now,
        "register": plan.register.replacing if plan.replaces(None) else plan.register,
        "horizon": plan.horizon,
        "floor": plan.floor,
        "truncates": plan.truncates,
        "known_floor": plan.known_floor,
        "as_of": plan.as_of,
        "absences": plan.absences,
    }
    for _ in merge_bucket(iter(elements), tally, lambda _: None, **how):
        pass
    counts = Counter(tally.counts)
    before = next((_shown(plan, value[1]) for (_, _, side, _), value in reversed(elements) if side == MASTER), None)
    mutations = [(precedence, value) for (_, _, side, precedence), value in elements if side == FEED]
    names = {source.rank: source.source.name for source in plan.inputs if source.side == "feed"}
    for number, (precedence, (is_delete, row, *_)) in enumerate(mutations, 1):
        outcome = "superseded"
        if number == len(mutations):
            outcome = next(
                (
                    name.removeprefix("feed ")
                    for name, count in counts.items()
                    if count and name.startswith("feed ") and name not in ("feed superseded", "feed combined")
                ),
                outcome,
            )
        yield Example(names.get(precedence[2], ""), _shown(plan, row), is_delete, outcome, before)


def _shown(plan: Plan, row: bytes) -> str:
    """Return a row as the result would have it, for messages."""
    layout = plan.rows.layouts["master"]
    if isinstance(layout, ColumnLayout):
        (values,) = plan.block_type.from_contents([row], layout).to_pylist()
        return _fields(values)
    if isinstance(layout, AvroLayout):
        import fastavro

        return _fields(fastavro.schemaless_reader(io.BytesIO(row), plan.rows.spec["schema"], None))
    return row.decode("utf-8", "backslashreplace")


def _fields(values: Any) -> str:
    """Write the fields of a row.

    >>> _fields({"id": 5, "name": None})
    'id=5, name=NULL'
    """
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items())
