"""Change the order of a dataset: it becomes another one with the same rows, which a run without a feed makes.

The rows take the values of their own fields, or become older than every mutation. Order values of two orders cannot be
compared, so neither deletes nor horizon, floor and the highest value of the last snapshot are left. The feed files that
were merged count as merged.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from mutator.config import Config
from mutator.config.settings import OrderSpec
from mutator.dataset.state import State
from mutator.engine.runner import Runner
from mutator.errors import error
from mutator.errors.display import counted, without_secrets
from mutator.errors.parts import place, setting
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.master_settings import manifest_at
from mutator.pipeline.merge import carry_out, prepare
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, ended, noted, said
from mutator.pipeline.runners import Engine
from mutator.pipeline.verify import differences_of_rows
from mutator.plan.inspect.managed import dataset_schema
from mutator.plan.rows.row_plan import PATCHES
from mutator.rules.file_names import first_few
from mutator.rules.order_types import POSITION, as_tuple, order_in_words
from mutator.storage import located

# The settings of the order of a place, as none of them holds in another one
NO_OTHER_ORDER = dict.fromkeys(("order_type", "null.order", "order.keep", "order.epoch"), "")


def with_room(config: Config) -> Config:
    """Return a configuration whose order values have room for epochs, if they are to be beside the rows."""
    order = config.rows.order
    if order.keep is not False:
        return config
    return replace(config, rows=replace(config.rows, order=replace(order, type=as_tuple(order.type))))


def check_fields(order: OrderSpec, known: State, path: str) -> None:
    """Raise ConfigError if rows cannot take their values from the fields of an order.

    known: of the place. path: of it.
    """
    if not order.fields and not order.position:
        what = f"the new order of {place(path)} has no field; name those that the rows have, such as updated_at"
        raise error("usage", what=what)
    if order.fields and order.position and order.keep is not False:
        own = ",".join(map(str, order.fields))
        what = f"the rows of {place(path)} have no {POSITION}, so they cannot take the values of {own} beside it: "
        what += f"leave {POSITION} out; or with {POSITION} alone, all rows are older than every mutation"
        raise error("usage", what=what)
    schema = dataset_schema(known, path)
    names = () if schema is None else schema.schema.names
    found = [name for name in order.fields if order.keep is False and name in names]
    if found:
        where = setting("order.keep=false")
        faults = f"the records of {place(path)} have the field {found[0]}; without the setting, it is their order"
        raise error("config", where=where, faults=faults)


def check_other(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> None:
    """Raise ConfigError for the order that a place has, as a repeated command names it. path: of the place."""
    if before == after:
        raise error("order.same", path=path, order=order_in_words(before))


def ordered_state(master: str) -> State:
    """Return the state of a master. Raises ConfigError if it does not exist, or its rows have no order yet."""
    found = manifest_at(master)
    storage, path = located(master)
    if found is None and storage.stat(path) is None and storage.renames:  # others have no directories
        raise error("path.missing", path=path, what="dataset")
    if found is None or found.is_without_key:
        raise error("order.none", path=master)
    return found


OpenRunner = Callable[[], AbstractContextManager[Runner]]


def reorder_dataset(
    config: Config,
    master: str,
    output: str | None,
    merge_on: Engine,
    open_runner: OpenRunner,
    *,
    dry_run: bool = False,
    run: str | None = None,
    version: int | None = None,
    shown: str | None = None,
) -> tuple[State, OrderChange]:
    """Publish a dataset with the rows of a master and the order of a configuration.

    output: None for a dry run. open_runner: of the check of the order values. run, version: of the base whose path is
    ``shown``. Raises ConfigError for an order that the rows cannot have, DataError for rows without order values.
    """
    started = time.monotonic()
    before = ordered_state(master)
    config = replace(with_room(config), operation=replace(config.operation, reorders=True))
    check_fields(config.rows.order, before, master)
    prepared = prepare(config, master, [], output, run=run, version=version)
    plan, known, path = prepared.plan, prepared.survey.state, prepared.survey.master_path
    assert known is not None
    check_other(before.spec["order"], plan.rows.spec["order"], shown or master)
    if not plan.keeps_orders:
        paths = {posixpath.join(path, part.path) for part in known.parts()}
        with open_runner() as runner:
            found = differences_of_rows(runner, path, replace(known, spec=plan.rows.spec), paths)
        if found:
            rows = [f"{posixpath.basename(one.file or '')}: {one.what}" for one in found if not one.cure]
            raise error("order.rows", path=path, rows=first_few(rows or [one.text(path) for one in found]))
    made, _ = carry_out(prepared, merge_on, dry_run=dry_run)
    return made, OrderChange(
        place=without_secrets(shown or output or master),
        before=order_in_words(before.spec["order"]),
        after=order_in_words(plan.rows.spec["order"]),
        lowest=plan.keeps_orders,
        rows=known.commit.records,
        forgotten=before.commit.tombstones,
        waiting=before.spec.get(PATCHES) == "wait",
        version=version,
        dry_run=dry_run,
        seconds=round(time.monotonic() - started, 3),
    )


@dataclass(frozen=True)
class OrderChange(PrintedReport):
    """The result of a change of order, or of a dry run."""

    place: str
    before: str  # the order in words
    after: str
    lowest: bool  # the rows are older than every mutation
    rows: int  # that have new order values
    forgotten: int  # tombstones, and patches that waited
    waiting: bool  # some of them may be patches of unknown records
    version: int | None  # the newest; None: the place is a directory
    dry_run: bool
    seconds: float

    def sections(self) -> Iterable[ReportSection]:
        """Return what was done, and notes."""
        number = "" if self.version is None or self.dry_run else f" as version {self.version:,}"
        verb = "would have" if self.dry_run else "has"
        values = "older than every mutation" if self.lowest else "ordered by their own fields"
        notes = [f"{counted(self.rows, 'row')}, {values}"]
        if self.forgotten:
            what = counted(self.forgotten, "tombstone" if self.waiting else "delete")
            lost = ", and patches of unknown records that waited there are lost" if self.waiting else ""
            notes.append(f"forgot {what}: rows that arrive late bring the records back{lost}")
        return (
            said(f"{self.place} {verb} another order{number}: {self.after} (before: {self.before})"),
            noted(notes),
            ended(f"changed the order of {counted(self.rows, 'row')}", self.seconds, dry_run=self.dry_run),
        )
