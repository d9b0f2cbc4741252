"""The command ``mutator diff``: the records that two datasets do not have in common.

mutator diff OLD NEW [--config FILE]
mutator diff OLD --feed PATH [--feed PATH …]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from mutator.cli import options
from mutator.cli.command import Answer, Command, option
from mutator.cli.compared_place import dataset_at, recorded_in
from mutator.errors import error
from mutator.errors.display import without_secrets

_FIRST = 10  # records of each kind that are shown with --verbose


def _diff(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.pipeline.diff.compare import LENIENT, OVERWRITE, compare, compare_feed

    if (arguments.new is None) != bool(arguments.feed):
        raise error("usage", what="give either NEW, or --feed with what would be merged into OLD")
    if arguments.rows is not None and arguments.rows < 0:
        raise error("usage", what=f"--rows is {arguments.rows}, but must be a number from 0")
    rows = arguments.rows if arguments.rows is not None else _FIRST if arguments.verbose or arguments.json else 0
    with ExitStack() as stack:
        old = dataset_at(arguments.old, stack)
        new = None if arguments.new is None else dataset_at(arguments.new, stack)
        extra = {**LENIENT, **({} if new is None else OVERWRITE)}
        settings = [*(f"{name}={value}" for name, value in extra.items()), *options.settings_of(arguments)]
        config = options.loaded(arguments, settings, partial(recorded_in, [old, *([] if new is None else [new])]))
        merge = options.merge_on(config.runner, options.spark("mutator diff", arguments), arguments)
        how: dict[str, Any] = {"rows": rows, "scratch": arguments.scratch}
        if new is None:
            found = compare_feed(config, old.path, arguments.feed, merge, **how)
        else:
            found = replace(compare(config, old.path, new.path, merge, **how), new=without_secrets(arguments.new))
        found = replace(found, old=without_secrets(arguments.old))
    yield Answer(options.shown(found, arguments), code=1 if arguments.exit_code and not found.is_empty else 0)


DIFF = Command(
    "diff",
    "compare two datasets record by record: added, removed, changed",
    (
        option("old", metavar="OLD", help="dataset; base of a workflow or table, at a version: PLACE@5"),
        option("new", metavar="NEW", nargs="?", help="another one"),
        option(
            "--feed",
            action="append",
            metavar="PATH",
            help="in place of NEW: show what merging this feed would change; repeatable",
        ),
        option("--rows", type=int, metavar="N", help=f"show the first N records of each kind (with -v: {_FIRST})"),
        option("--exit-code", action="store_true", help="exit with 1 if there are differences"),
        option("--scratch", metavar="DIR", help="directory for temporary files that all workers of Spark share"),
        *options.CONFIG,
        options.PARTITIONED_BY,
        options.RUNNER,
        options.JSON,
    ),
    _diff,
    when_stopped="nothing was printed",
    examples=("mutator diff old new -v", "mutator diff /data/base@4 /data/base@5 --json"),
)
