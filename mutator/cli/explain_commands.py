"""The command ``mutator explain``: how a record came about.

mutator explain PLACE KEY [--config FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mutator.cli import options
from mutator.cli.command import Answer, Command, option
from mutator.cli.messages import warn
from mutator.config.sources import parse_overrides


def _explain(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.cli.explained_place import Question, Recorded, explained
    from mutator.config import Config
    from mutator.config.feed_settings import states_deletes

    def config_of(recorded: Recorded, source: str) -> Config:
        config = options.loaded(arguments, recorded=recorded, source=source)
        warn(arguments, config.warnings)
        return config

    states = arguments.config is not None or states_deletes(parse_overrides(options.settings_of(arguments)))
    question = Question(arguments.place, arguments.values, config_of, arguments.feed, arguments.before, states)
    found = explained(question)
    yield Answer(options.shown(found, arguments), code=0 if found.is_known else 3)


EXPLAIN = Command(
    "explain",
    "explain a record: list every mutation of its key, and the rule that decided",
    (
        option("place", metavar="PLACE", help="base of a workflow, a master, or a table"),
        option("values", nargs="+", metavar="KEY", help="value of each key field: several words, or one with commas"),
        option(
            "--feed",
            action="append",
            default=[],
            metavar="PATH",
            help="of a master or table: directory, file or pattern where merged feed files still are; repeatable",
        ),
        option("--before", metavar="DIR", help="of a master: an earlier one, from which its runs are followed"),
        *options.CONFIG,
        options.JSON,
    ),
    _explain,
    when_stopped="nothing was printed",
    examples=("mutator explain /data/product 7G3K --config product.toml",),
)
