"""The command ``mutator diff``: the records that two datasets do not have in common.

mutator diff OLD NEW [--config FILE]
mutator diff OLD --feed PATH [--feed PATH …]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from mutator.cli import options
from mutator.cli.command import Answer, Command, option
from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.storage import located_to_write

_VERSION = re.compile(r"(.+)@([0-9]+)")
_FIRST = 10  # records of each kind that are shown with --verbose


def _diff(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.pipeline.diff.compare import LENIENT, OVERWRITE, compare, compare_feed

    if (arguments.new is None) != bool(arguments.feed):
        raise error("usage", what="give either NEW, or --feed with what would be merged into OLD")
    rows = arguments.rows if arguments.rows is not None else _FIRST if arguments.verbose or arguments.json else 0
    with ExitStack() as stack:
        old = _dataset_at(arguments.old, stack)
        new = None if arguments.new is None else _dataset_at(arguments.new, stack)
        extra = {**LENIENT, **({} if new is None else OVERWRITE)}
        settings = [*(f"{name}={value}" for name, value in extra.items()), *options.settings_of(arguments)]
        config = options.loaded(arguments, settings, partial(_recorded, [old, *([] if new is None else [new])]))
        merge = options.merge_on(config.runner, options.spark("mutator diff", arguments), arguments)
        how: dict[str, Any] = {"rows": rows, "scratch": arguments.scratch}
        if new is None:
            found = compare_feed(config, old, arguments.feed, merge, **how)
        else:
            found = replace(compare(config, old, new, merge, **how), new=without_secrets(arguments.new))
        found = replace(found, old=without_secrets(arguments.old))
    yield Answer(options.shown(found, arguments), code=1 if arguments.exit_code and not found.is_empty else 0)


def _recorded(places: list[str], settings: Any) -> dict[str, Any]:
    """Return the settings of the first dataset that has a manifest. settings: those of the user."""
    from mutator.pipeline.master_settings import recorded_settings

    return next((found for place in places if (found := recorded_settings(place, settings))), {})


def _dataset_at(place: str, stack: ExitStack) -> str:
    """Return the dataset that a place names: a directory, or a version of a base or of a table, ``PLACE@5``."""
    from mutator.workflow.directory.verification import is_base

    storage, path = located_to_write(place)
    found = _VERSION.fullmatch(place)
    number = None
    if storage.stat(path) is None and found is not None:
        place, number = found[1], int(found[2])
        storage, path = located_to_write(place)
    if is_base(path):
        from mutator.workflow.directory.kept_datasets import dataset_of

        return dataset_of(place, number)
    if storage.stat(f"{path}/_mutator/table") is not None:
        from mutator.engine.scratch import scratch_directory
        from mutator.table.table import Table

        target = f"{scratch_directory(stack)}/version"
        Table(place).export(target, version=number)
        return target
    if storage.stat(path) is None and storage.renames:  # others have no directories
        raise error("path.missing", path=path, what="dataset")
    if number is not None:
        raise error("usage", what=f"{place} is no base and no table, so it has no version {number}")
    return place


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
