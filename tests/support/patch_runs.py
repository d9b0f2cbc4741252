"""Runs over upserts, patches and deletes in files of several forms, compared with the model after each run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mutator.pipeline.reports.sums import feed_sum, master_sum, tombstone_sum
from mutator.rules.order_values import lowest_order
from mutator.rules.patches import FIELD_ORDERS
from tests.support import local_engine
from tests.support.changed_rows import changed_rows, replayed, text_row
from tests.support.no_limits import NO_LIMITS
from tests.support.patch_model import RECORD, TOMBSTONE, WAITING, Kept, Mutation, Place
from tests.support.small_runs import known
from tests.support.text_runs import ENGINES

COUNTED = {"inserted", "updated", "deleted", "no-op", "combined", "superseded", "late", "delete of unknown", "truncate"}
COUNTED |= {"patch of unknown", "waiting", "rejected"}
LOWEST = b"%d" % lowest_order("long")
_OF_OPS = {"op", "op.code.field.ordinal", "op.code.in.master", "truncate.op.code"}
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
HIGHEST = 30  # order value where its text is not the number


@dataclass(frozen=True)
class Form:
    """How mutations are written as delimited text, and what is set beside it."""

    name: str
    settings: dict[str, str]
    null: str = ""  # the text of NULL
    header: bool = False
    mark: str = ","
    by_file: bool = False  # a record has the order value of the name of its file
    order_text: Callable[[int], str] = str
    engines: Sequence[str] = tuple(ENGINES)
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # key -> ID and partition, a field of its own

    @property
    def before(self) -> int:
        """The number of fields of written rows before those of the model."""
        return 1 + (not self.by_file) + bool(self.places)

    def key_of(self, name: str, partition: str) -> str:
        """Return the key of an ID in a partition."""
        return next((key for key, place in self.places.items() if place == (name, partition)), name)

    def put(self, directory: Path, fields: Sequence[str], rows: Sequence[Mutation], cut: int, op: bool = True) -> None:
        """Write rows into two files, or into one for each order value. op: with a field of op codes."""
        directory.mkdir()
        parts = {"f0": rows[:cut], "f1": rows[cut:]}
        if self.by_file:
            parts = {f"f_{order}": [one for one in rows if one.order == order] for order in {one.order for one in rows}}
        names = [self.mark.join(["id", "at", *(["op"] if op else []), *fields])] if self.header else []
        for name, part in parts.items():
            lines = [*names, *(self.line(one, fields, op) for one in part)]
            (directory / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))

    def line(self, one: Mutation, fields: Sequence[str], op: bool) -> str:
        order = [] if self.by_file else [self.order_text(one.order)]
        codes = [one.op if one.op in "DT" else "U"] if op else []
        text = self.sent_text if op else self.text_of
        values = [text(one.given[name]) if name in one.given else "~" for name in fields]
        name, *partition = self.places.get(one.key, ("", "")) if self.places else [one.key or ""]
        return self.mark.join([name, *order, *codes, *partition, *values])

    def text_of(self, value: Any) -> str:
        return self.null if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)

    def sent_text(self, value: Any) -> str:
        """Return the text of a value in a feed: numbers in a shorter form than that of a record."""
        return f"{value.normalize():f}" if isinstance(value, Decimal) else self.text_of(value)

    def name_of(self, number: int) -> str:
        """Return the name of a field in settings; of an ordinal, that in the feed."""
        return "pqr"[number] if self.header else str(number + self.before + 1)

    def order_of(self, text: str) -> int:
        return int(text) if text.isdigit() else next(n for n in range(HIGHEST) if self.order_text(n) == text)

    def kept_order(self, order: Any) -> Any:
        """Return an order value as it is kept beside a row."""
        if not isinstance(order, bytes):
            return order
        seconds = int.from_bytes(order[:8], "big") - (1 << 63)
        return self.order_of(f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}")


def model_functions(functions: Mapping[str, str]) -> dict[str, str]:
    """Return the functions of fields without the types of their values, and without ``last``, which all fields have."""
    return {name: text.split()[0] for name, text in functions.items() if text.split()[0] != "last"}


def own_entries(fields: Sequence[str], functions: Mapping[str, str], kept: Kept) -> dict[str, Any]:
    """Return what is kept beside a row for fields with functions; None: only what the row implies."""
    found = {}
    for name, function in functions.items():
        own, at = dict(kept.entries)[name], kept.orders[fields.index(name)]
        implied = [order for order, _ in own] == [at] if own else function != "first"
        found[name] = None if implied else own
    return found


def as_text(value: Any) -> str:
    """Return a value of a field, or its text, in one form; NULL is empty."""
    try:
        return f"{Decimal(value).normalize():f}"
    except (ArithmeticError, TypeError, ValueError):
        return "" if value in (None, "NULL") else value


def as_met(model: Place, deleted: Any, values: Sequence[Any], orders: Sequence[Any], entries: Mapping[str, Any]) -> Any:
    """Return what waits as a run meets it: the floor counts as a delete. Entries are texts, and decide of fields."""
    floor = max((one.mutation.order for one in model.truncates), default=None)
    spared = [floor is None or (order is not None and order >= floor) for order in orders]
    found: dict[str, Any] = {}
    for name, value, order, is_spared in zip(model.fields, values, orders, spared, strict=True):
        function = model.functions.get(name)
        if function is None:
            found[name] = as_text(value if is_spared else None)
            continue
        own = entries[name]
        if own is None:
            own = ((order, value),) if order is not None and (as_text(value) or function == "first") else ()
        found[name] = [(at, as_text(one)) for at, one in own if floor is None or at >= floor]
    at_floor = tuple(order if is_spared else floor for order, is_spared in zip(orders, spared, strict=True))
    return deleted if floor is None else max(deleted or floor, floor), found, at_floor


def beside(path: Path | None, rows: int) -> list[dict[str, Any]]:
    """Return what a side file has beside the rows of its data file, read without the package."""
    found = [] if path is None else pq.ParquetFile(path).read().to_pylist()
    if not found or "_row" not in found[0]:
        return found or [{}] * rows
    numbered = {one["_row"]: one for one in found}
    return [numbered.get(row, {}) for row in range(rows)]


def above_floor(model: Place, deleted: Any, values: Sequence[Any], orders: Sequence[Any], null: Any) -> Any:
    """Return what waits as a run meets it: the floor counts as a delete."""
    floor = max((one.mutation.order for one in model.truncates), default=None)
    if floor is None:
        return deleted, tuple(values), tuple(orders)
    spared = [order is not None and order >= floor for order in orders]
    return (
        max(deleted or floor, floor),
        tuple(value if is_spared else null for value, is_spared in zip(values, spared, strict=True)),
        tuple(order if is_spared else floor for order, is_spared in zip(orders, spared, strict=True)),
    )


BY_FILE = {
    "id.field.ordinals": "0",
    "op.code.field.ordinal": "1",
    "op.code.in.master": "false",
    "unset.value": "~",
    "truncate.op.code": "T",
    "reused.names": "accept",
}
BY_POSITION = {**BY_FILE, "op.code.field.ordinal": "2", "temporal.ordering.field.ordinal": "1"}
BY_NAME = {"key": "id", "order_by": "at", "op": "op", "header": "true", "unset.value": "~", "truncate.op.code": "T"}
TEXT = Form("text", BY_POSITION)
FILE_NAMES = Form("file names", BY_FILE, by_file=True)
MOVING = Form("moving", {**BY_POSITION, "partitioned.by": "p=3", "changes": "true"}, engines=("blocks",))
FORMS = [
    TEXT,
    FILE_NAMES,
    Form("NULL", {**BY_POSITION, "csv.null": "NULL"}, null="NULL"),
    Form("names", {**BY_NAME, "field.names": "id,at,op,p,q,r", "op.code.in.master": "false"}, header=True),
    Form(
        "timestamp",
        {**BY_POSITION, "temporal.ordering.field.type": "timestamp"},
        order_text=lambda order: f"2026-01-{order:02}T00:00:00Z",
    ),
    Form("partitions", {**BY_POSITION, "partitioned.by": "0", "key.scope": "partition"}, engines=("blocks",)),
    Form(
        "own partitions",
        {**BY_POSITION, "partitioned.by": "3", "key.scope": "partition"},
        engines=("blocks",),
        places={"a": ("k", "x"), "b": ("k", "y"), "c": ("l", "x"), "d": ("m", "z")},
    ),
    MOVING,
    Form("promise", {**BY_POSITION, "master.unique": "true"}),
    Form("regex", {**BY_POSITION, "field.delim.regex": "[|]", "field.delim": "|"}, mark="|", engines=("records",)),
]


@dataclass
class Directory:
    """A master in directories, from run to run, and the model."""

    work: Path
    fields: Sequence[str]
    form: Form
    unknown: str = "insert"
    on: Callable[..., Any] | None = None  # `mutator.mutate` on Spark; None: the runner of tests, in a random order
    functions: Mapping[str, str] = field(default_factory=dict)  # field -> merge function, and type
    runs: int = 0

    def __post_init__(self) -> None:
        self.model = Place(self.fields, self.unknown, not self.form.by_file, functions=model_functions(self.functions))

    @property
    def output(self) -> Path:
        return self.work / f"out{self.runs}"

    def start(self, master: Sequence[Mutation]) -> None:
        """Write a master, of upserts."""
        self.form.put(self.output, self.fields, master, len(master) // 2, op=False)
        if master:
            self.model.run(master)

    def run(self, rows: Sequence[Mutation], rng: random.Random) -> None:
        """Merge a feed; check all that it leaves."""
        report = self._merged(rows, rng, self.form.settings)
        counts = self.model.run(rows)
        self.check_state()
        found = {name: report.counts.get(f"feed {name}", 0) for name in COUNTED}
        for total in (feed_sum(report.counts), master_sum(report.counts), tombstone_sum(report.counts)):
            assert total.rows == sum(part.rows for part in total.parts)
        by_file = [Counter(one["outcomes"]) for one in report.feed_files if one["outcomes"] is not None]
        if len(by_file) == len(report.feed_files):
            assert +sum(by_file, Counter[str]()) == +Counter(found)
        noted = {name: report.counts.get(name, 0) for name in ("revived", "waited")}
        assert +Counter(noted) == self.model.notes
        assert bool(report.counts.get("out of order")) == ("out of order" in report.samples)
        assert {**found, "out of order": report.counts.get("out of order", 0)} == {
            name: counts[name] for name in {*COUNTED, "out of order"}
        }

    def snapshot(self, rows: Sequence[Mutation], as_of: int, rng: random.Random) -> None:
        """Merge a full snapshot as of a time, of upserts of different keys; check what it leaves."""
        settings = {key: value for key, value in self.form.settings.items() if key not in _OF_OPS}
        whole = {"sync.mode": "full", "snapshot.as.of": self.form.order_text(as_of)}
        if "field.names" in settings:
            whole["field.names"] = ",".join(["id", "at", *self.fields])
        if self.form is MOVING:
            whole["partitioned.by"] = "p=2"  # the ordinals of a row without an op code
        self._merged(rows, rng, {**settings, **whole}, op=False)
        upserts = (one._replace(order=max(one.order, as_of)) for one in rows)
        self.model.run([Mutation("T", None, as_of), *upserts])
        self.check_state()

    def _merged(self, rows: Sequence[Mutation], rng: random.Random, own: Mapping[str, str], op: bool = True) -> Any:
        before, master, self.runs = self.lines(), self.output, self.runs + 1
        feed = self.work / f"feed{self.runs}"
        self.form.put(feed, self.fields, rows, rng.randint(0, len(rows)), op)
        settings = {
            "num.reducer": rng.choice("127"),
            "split.bytes": rng.choice(["7", "60", "1048576"]),
            "memory.bytes": rng.choice(["40", "134217728"]),
            "consumed.files": "merge",
            "allow.empty.master": "true",
            "reject.policy": "quarantine" if op else "fail",
            **NO_LIMITS,
            "changes": rng.choice(["true", "false"]),
            **own,
            "patch.unknown": self.unknown,
        }
        for number, name in enumerate(self.fields):
            if name in self.functions:
                settings[f"field.merge.{self.form.name_of(number)}"] = self.functions[name]
        places: Any = {"master": str(master), "feed": [str(feed)], "output": str(self.output)}
        on = self.on or partial(local_engine.mutate, seed=rng.randrange(9))
        report = on(settings, **places, engine=rng.choice(self.form.engines))
        if settings["changes"] == "true":
            found = changed_rows(self.output)
            changes = [(row["_change_type"], text_row(row, self.form.mark)) for row in found]
            assert replayed(before, changes) == self.lines()
        return report

    def lines(self) -> Counter[bytes]:
        """Return the rows of all files, as they are written."""
        if self.runs:
            paths, start = [self.output / part.path for part in known(self.output).files], 0
        else:
            paths, start = [*self.output.iterdir()], int(self.form.header)
        return Counter(line for path in paths for line in path.read_bytes().splitlines()[start:])

    def check_state(self) -> None:
        """Compare rows, order values of fields and tombstones with the model."""
        assert self.rows() == {
            key: (kept.order, tuple(map(self.form.text_of, kept.values)), kept.orders)
            for key, kept in self.model.all(RECORD).items()
        }
        assert self.kept_beside() == {
            key: (kept.cleared, own_entries(self.fields, self.model.functions, kept))
            for key, kept in self.model.all(RECORD).items()
        }
        tombstones, waiting = self.tombstones()
        assert tombstones == {key: kept.order for key, kept in self.model.all(TOMBSTONE).items()}
        assert waiting == {
            key: as_met(
                self.model, kept.deleted, [*map(self.form.text_of, kept.values)], kept.orders, dict(kept.entries)
            )
            for key, kept in self.model.all(WAITING).items()
        }

    def rows(self) -> dict[str, Any]:
        """Return the order value of each record, its fields, and their order values, as a run meets them."""
        found = {}
        floor = max((one.mutation.order for one in self.model.truncates), default=-1)  # a snapshot has older rows
        for line, sides in self.records():
            key, *values = line.split(self.form.mark)
            order = sides["sequence"] if self.form.by_file else self.form.order_of(values.pop(0))
            key = self.form.key_of(key, values.pop(0)) if self.form.places else key
            own = {one["field"]: self.form.kept_order(one["order"]) for one in sides.get(FIELD_ORDERS) or ()}
            at = [own.get(str(self.first + number), order) for number in range(len(self.fields))]
            assert key not in found
            orders = tuple(None if one is None else max(one, floor) for one in at)
            found[key] = (max(order, floor), tuple(values), orders)
        return found

    @property
    def first(self) -> int:
        """The ordinal of the first field in records."""
        return self.form.before

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the records, and what is kept beside each."""
        for part in known(self.output).files:
            lines = (self.output / part.path).read_text().splitlines()
            for line, sides in zip(lines, self.sides(part, len(lines)), strict=True):
                if self.form is MOVING:
                    assert part.path.split("/")[0] == f"p={line.split(self.form.mark)[2] or NO_VALUE}"
                yield line, sides

    def kept_beside(self) -> dict[str, Any]:
        """Return what is kept for merge functions beside each record: the last delete, and the entries of fields."""
        return {self.key_in(line): self.kept(sides) for line, sides in self.records()}

    def key_in(self, line: str) -> str:
        """Return the key of a record."""
        key, *values = line.split(self.form.mark)
        return self.form.key_of(key, values[1]) if self.form.places else key

    def kept(self, sides: dict[str, Any]) -> Any:
        """Return what side columns have for merge functions."""
        assert all(sides.get(name) is None for name in ("seal", "mark", "marked"))
        cleared, found = sides.get("cleared"), {}
        for number, name in enumerate(self.fields):
            own = sides.get(f"entries.{self.first + number}")
            if name in self.model.functions:
                found[name] = own if own is None else tuple(map(self.entry, own))
            assert own is None or name in self.model.functions
        return None if cleared is None else self.form.kept_order(cleared), found

    def entry(self, one: dict[str, Any]) -> tuple[Any, Any]:
        value = one["value"]
        return self.form.kept_order(one["order"]), value.decode() if isinstance(value, bytes) else value

    def sides(self, part: Any, rows: int) -> list[dict[str, Any]]:
        """Return what is kept beside the rows of a data file, read without the package."""
        return beside(None if part.order is None else self.output / part.order, rows)

    def tombstones(self) -> tuple[dict[str, int], dict[str, Any]]:
        """Return the order values of tombstones, and what waits: of the last delete, the fields, and their orders."""
        tombstones, waiting = dict[str, int](), dict[str, Any]()
        for part in known(self.output).beside:
            for one in pq.read_table(self.output / part.path).to_pylist() if part.role == "tombstones" else ():
                partition = part.path.partition("=")[2].partition("/")[0]
                key, text = self.form.key_of(one["key_0"].decode(), partition), one["order"]
                order = None if text is None or text == LOWEST else self.form.order_of(text.decode())
                if one.get("waiting") is None:
                    tombstones[key] = order
                    continue
                _, *values = one["waiting"].decode().split(self.form.mark)
                own = {one["field"]: self.form.kept_order(one["order"]) for one in one[FIELD_ORDERS] or ()}
                first = self.form.before
                orders = tuple(own.get(str(first + number), order) for number in range(len(self.fields)))
                waiting[key] = as_met(self.model, order, values[first - 1 :], orders, self.kept(one)[1])
        return tombstones, waiting

    def check(self) -> None:
        verified = local_engine.verify(str(self.output))
        assert verified.differences == ()
        assert verified.waiting == len(self.model.all(WAITING))
