"""The command ``mutator order PLACE --to FIELDS``: give the rows of a place another order.

The place is a master directory, whose rows a new directory gets, the base of a workflow, or a table, which get a new
version.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.after_commit import AfterCommit, committing, making_answer, stopped_at_end
from mutator.cli.command import Command, CommandReport, option
from mutator.cli.table_output_commands import table_runner
from mutator.cli.workflow_target import table_of
from mutator.errors import error
from mutator.storage import located_to_write

if TYPE_CHECKING:
    from mutator.dataset.state import State
    from mutator.pipeline.reordered import OrderChange
    from mutator.workflow.directory.master_target import Task

_WHAT = "change of order"


def _order(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.dataset.directory import is_base, is_table

    path = located_to_write(arguments.place)[1]
    whole_base = is_base(path)
    table = table_of(arguments.place) if whole_base else arguments.place if is_table(path) else None
    if whole_base or table is not None:
        if arguments.output is not None:
            what = f"--output: {arguments.place} gets a new version, and no other directory; leave the option out"
            raise error("usage", what=what)
        report = _base(arguments) if table is None else _table(table, arguments)
    elif arguments.output is None and not arguments.dry_run:
        raise error("usage", what="--output is missing: name a new directory, or give --dry-run")
    else:
        with stopped_at_end(arguments), making_answer(arguments):
            report = _reordered(arguments, arguments.place, arguments.output)[1]
            _note_commit(arguments)
    yield CommandReport(options.shown(report, arguments))


def _note_commit(arguments: argparse.Namespace) -> None:
    if not arguments.dry_run:
        arguments.committed = AfterCommit(what=_WHAT)


def _table(path: str, arguments: argparse.Namespace) -> OrderChange:
    from mutator.table.table import Table

    if arguments.config is not None or arguments.settings:
        raise error("usage", what=f"{path} is a table, which has its own settings; leave --config and -D out")
    with committing(arguments, _WHAT):
        return Table(path).reorder(
            arguments.to,
            order_type=arguments.type,
            null_order=arguments.null,
            order_keep=False if arguments.beside else None,
            dry_run=arguments.dry_run,
            open_runner=table_runner(arguments.runner, arguments),
        )


def _reordered(
    arguments: argparse.Namespace, master: str, output: str | None, shown: str | None = None, task: Task | None = None
) -> tuple[State, OrderChange]:
    """Give the rows of a dataset another order.

    output: None for a dry run. shown: path of the base whose master it is. task: of a run of the base.
    """
    from mutator.pipeline.master_settings import chained_settings
    from mutator.pipeline.reordered import NO_OTHER_ORDER, ordered_state, reorder_dataset
    from mutator.pipeline.runners import choice_for_paths, open_runner

    ordered_state(master)
    given = {
        "order_by": arguments.to,
        **NO_OTHER_ORDER,
        **({"order_type": arguments.type} if arguments.type is not None else {}),
        **({"null.order": arguments.null} if arguments.null is not None else {}),
        **({"order.keep": "false"} if arguments.beside else {}),
    }
    settings = [*options.settings_of(arguments), *(f"{name}={value}" for name, value in given.items())]
    config = options.loaded(arguments, settings, partial(chained_settings, master))
    spark = options.spark("mutator order", arguments)
    wanted = arguments.runner or config.effort.runner
    merge = options.merge_on(wanted, spark, arguments)
    runner = partial(open_runner, choice_for_paths(wanted, [master]), spark)
    run, version = (None, None) if task is None else (task.run, task.version)
    return reorder_dataset(
        config,
        master,
        output,
        merge,
        runner,
        dry_run=arguments.dry_run,
        run=run,
        version=version,
        shown=shown,
    )


def _base(arguments: argparse.Namespace) -> OrderChange:
    from mutator.workflow import directory
    from mutator.workflow.directory.paths import master_of
    from mutator.workflow.directory.run_phases import Merged

    found: list[OrderChange] = []
    base = directory.open_base(arguments.place)
    config = options.config_without_id(arguments)

    def merge(task: Task) -> Merged:
        made, report = _reordered(arguments, task.master, task.output, arguments.place, task)
        found.append(report)
        return Merged((), None, made)

    if arguments.dry_run:
        target = directory.MasterTarget(base, config)
        return _reordered(arguments, master_of(base, target.newest()), None, arguments.place)[1]
    arguments.is_stopped = directory.reorder(directory.MasterTarget(base, config, merge)) is not None
    _note_commit(arguments)
    return found[-1]


ORDER = Command(
    "order",
    "give the rows of a place another order",
    (
        option("place", metavar="PLACE", help="master directory, base of a workflow, or table"),
        option(
            "--to",
            old="--order-by",
            required=True,
            metavar="FIELDS",
            help="fields of the order value, the decisive one first",
        ),
        option(
            "--type",
            old="--order-type",
            metavar="TYPES",
            help="types of fields that are text: long, decimal, timestamp or string",
        ),
        option("--null", choices=("reject", "lowest"), help="lowest: NULL is older than every value"),
        option(
            "--beside",
            action="store_true",
            help="the fields are those of feeds alone: rows are older than every mutation, and later order values are "
            "kept beside them",
        ),
        option("-o", "--output", metavar="DIR", help="new directory, if PLACE is a directory"),
        *options.CONFIG_WITHOUT_ORDER,
        options.RUNNER,
        options.DRY_RUN,
        options.JSON,
    ),
    _order,
    when_stopped="nothing was published",
    examples=(
        "mutator order /data/orders --to updated_at --type timestamp -o /data/orders_new",
        "mutator order /data/base --to lsn --beside --dry-run",
    ),
)
