"""The command ``mutator explain``: why a record is what it is.

mutator explain PLACE KEY [--config FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.command import Answer, Command, option
from mutator.cli.workflow_target import table_in
from mutator.config.sources import parse_overrides
from mutator.errors import error
from mutator.storage import located_to_write

if TYPE_CHECKING:
    from mutator.config import Config

_GET = "mutator table get {} KEY --all"


def _explain(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.dataset.manifest import TABLE
    from mutator.pipeline.explain.master import explain_master
    from mutator.pipeline.explain.master import recorded_settings_of as of_master
    from mutator.workflow.directory.explain import explain, recorded_settings_of
    from mutator.workflow.directory.verification import is_base

    storage, path = located_to_write(arguments.place)
    if storage.stat(path) is None and storage.renames:
        raise error("path.missing", path=arguments.place, what="base or master")
    table = path if storage.stat(f"{path}/{TABLE}") is not None else table_in(path)
    if table is not None:
        raise error("usage", what=f"{table} is a table, which keeps the versions of a record: {_GET.format(table)}")
    whole_base = is_base(path)
    recorded = partial(recorded_settings_of if whole_base else of_master, path)
    config = options.config_of(arguments, recorded)
    if whole_base:
        _only_of_masters(arguments)
        found = explain(arguments.place, arguments.values, config)
    else:
        unrecorded = _of_other_runs(arguments, path)
        found = explain_master(arguments.place, arguments.values, config, arguments.feed, arguments.before, unrecorded)
    yield Answer(options.shown(found, arguments), code=0 if found.is_known else 3)


def _of_other_runs(arguments: argparse.Namespace, path: str) -> Config | None:
    """Return how feed files are read of runs that the manifest has no settings of; None: the user does not say it."""
    from mutator.pipeline.explain.master import states_deletes
    from mutator.pipeline.master_settings import recorded_settings

    if arguments.config is None and not states_deletes(parse_overrides(options.settings_of(arguments))):
        return None
    return options.loaded(arguments, recorded=partial(recorded_settings, path))


def _only_of_masters(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for an option that has no meaning for a base."""
    for name, value in (("--feed", arguments.feed), ("--before", arguments.before)):
        if value:
            raise error("usage", what=f"{name} is for a master; a base knows its feed files: leave it out")


EXPLAIN = Command(
    "explain",
    "show why a record is what it is: every mutation of its key, and what decided",
    (
        option("place", metavar="PLACE", help="base of a workflow, or a master"),
        option("values", nargs="+", metavar="KEY", help="value of each key field: several words, or one with commas"),
        option(
            "--feed",
            action="append",
            default=[],
            metavar="PATH",
            help="of a master: directory, file or pattern where merged feed files still are; repeatable",
        ),
        option("--before", metavar="DIR", help="of a master: an earlier one, from which its runs are followed"),
        *options.CONFIG,
        options.JSON,
    ),
    _explain,
    when_stopped="nothing was printed",
    examples=("mutator explain /data/product 7G3K --config product.toml",),
)
