"""The command ``mutator explain``: how a record came about.

mutator explain PLACE KEY [--config FILE]

The place whose record is explained: a master, a base, or a table, put together of the rooms that know them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mutator.cli import options
from mutator.cli.base_history import PLACE
from mutator.cli.command import Answer, Command, option
from mutator.cli.config_file import is_named
from mutator.cli.messages import warn
from mutator.cli.stdin_feed import reading_stdin
from mutator.cli.table_output_commands import VALID_AT
from mutator.cli.workflow_target import table_in
from mutator.config.reader import SOURCE as IN_MANIFEST
from mutator.config.sources import read_settings
from mutator.errors import error
from mutator.rules.file_names import in_directory
from mutator.storage import located_to_write

if TYPE_CHECKING:
    from mutator.config import Config
    from mutator.dataset.versions.snapshot import Snapshot
    from mutator.pipeline.explain.answer import Explanation
    from mutator.pipeline.explain.key import Key

Recorded = Callable[[Mapping[str, Any]], Mapping[str, Any]]  # as for ``config.load``
# Given what a place has recorded, and where: the configuration of a user
ConfigOf = Callable[[Recorded, str], "Config"]


class Question(NamedTuple):
    """The question of a user.

    place: as the user gives it. feed: paths where merged feed files may be. before: an earlier master. states_deletes:
    the user says what marks the deletes of a feed. valid_at: a time, of a table with history.
    """

    place: str
    key: Key
    config_of: ConfigOf
    feed: Sequence[str] = ()
    before: str | None = None
    states_deletes: bool = False
    valid_at: object = None


def explained(question: Question) -> Explanation:
    """Explain a record. Raises MutatorError for a place, a key or options that cannot be used."""
    from mutator.dataset.directory import is_base, is_table

    storage, path = located_to_write(question.place)
    if storage.stat(path) is None and storage.renames:
        raise error("path.missing", path=question.place, what="base, master or table")
    if is_table(path):
        return _of_table(question, path, None)
    table = table_in(path)
    if table is not None:
        return _of_table(question, table, path)
    if question.valid_at is not None:
        if is_table(history := f"{path}/{PLACE}"):
            return _of_table(question, history, path)
        raise error("usage", what="--valid-at is for a table with history, or a base that keeps one; leave it out")
    return _of_base(question, path) if is_base(path) else _of_master(question, path)


def _of_master(question: Question, path: str) -> Explanation:
    from mutator.pipeline.explain.master import explain_master
    from mutator.pipeline.master_settings import manifest_at, recorded_settings, recorded_with_feed

    config = question.config_of(partial(recorded_with_feed, manifest_at(path)), IN_MANIFEST)
    unrecorded = None
    if question.states_deletes:
        unrecorded = question.config_of(partial(recorded_settings, path), IN_MANIFEST)
    return explain_master(question.place, question.key, config, question.feed, question.before, unrecorded)


def _of_base(question: Question, path: str) -> Explanation:
    from mutator.workflow.directory.explain import explain, recorded_settings_of

    for name, value in (("--feed", question.feed), ("--before", question.before)):
        if value:
            raise error("usage", what=f"{name} is for a master; a base knows its feed files: leave it out")
    return explain(question.place, question.key, question.config_of(partial(recorded_settings_of, path), IN_MANIFEST))


def _of_table(question: Question, table: str, base: str | None) -> Explanation:
    """Explain a key of a table. table: its path. base: of the workflow whose target it is."""
    from mutator.dataset.commits import FeedFile
    from mutator.dataset.version_log import Log
    from mutator.dataset.versions.opening import open_snapshot
    from mutator.pipeline.explain.feed_reading import files_at
    from mutator.table.explain import explain_table
    from mutator.table.recorded import SOURCE, recorded_settings
    from mutator.workflow.directory.merged_content import merged_file
    from mutator.workflow.directory.paths import open_base

    if question.before is not None:
        raise error("usage", what="--before is for a master; a table knows its earlier versions: leave it out")
    storage, path = located_to_write(table)
    snapshot: Snapshot = open_snapshot(storage.resolve(path))
    config = question.config_of(partial(recorded_settings, snapshot), SOURCE)
    given = files_at(question.feed, config.inputs)
    opened = None if base is None else open_base(question.place)
    # Of a history beside a master, whose versions do not name the runs that claimed files.
    runs = (
        {}
        if opened is None
        else {(part.name, part.checksum): one.run for one in Log(opened.path).all() for part in one.feed}
    )

    def find(run: str | None, part: FeedFile) -> tuple[str | None, str | None]:
        run = run or runs.get((part.name, part.checksum))
        found, why = (None, None) if opened is None or run is None else merged_file(opened, run, part)
        return (found, None) if found is not None else given.find(part, why)

    def shown(path: str) -> str:
        if opened is not None:
            return opened.shown(path)
        return config.wording.audience.paths(in_directory(path, snapshot.table, question.place.rstrip("/")))

    place = question.place.rstrip("/")
    place = f"{place}/{PLACE}" if base is not None and table == f"{base}/{PLACE}" else question.place
    return explain_table(snapshot, question.key, config, place, find, shown, given, question.valid_at)


@reading_stdin
def _explain(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.config.feed_settings import states_deletes

    def config_of(recorded: Recorded, source: str) -> Config:
        config = options.loaded(arguments, recorded=recorded, source=source)
        warn(arguments, config.wording.warnings)
        return config

    states = is_named(arguments) or states_deletes(read_settings(arguments.config, options.settings_of(arguments)))
    places = arguments.feed, arguments.before
    question = Question(arguments.place, arguments.values, config_of, *places, states, arguments.valid_at)
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
            action="extend",
            nargs="+",
            default=[],
            metavar="PATH",
            help="of a master or table: directories, files, patterns or - (stdin) where merged feed files still are",
        ),
        VALID_AT,
        option("--before", metavar="DIR", help="of a master: an earlier one, from which its runs are followed"),
        *options.CONFIG,
        options.JSON,
    ),
    _explain,
    when_stopped="nothing was printed",
    examples=("mutator explain /data/product 7G3K --config product.toml",),
)
