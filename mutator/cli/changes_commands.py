"""The command ``mutator changes``: the rows that runs changed.

mutator changes PLACE [--from A] [--to B]     print them, or write them to one file
mutator changes PLACE --changes DIR           put their files into a directory
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mutator.cli.command import Answer, Command, CommandReport, CommandRows, option
from mutator.cli.table_output_commands import FILE, FORMAT, rows_answer
from mutator.errors import error
from mutator.errors.display import command
from mutator.storage import located_to_write, storage_for

if TYPE_CHECKING:
    from mutator.dataset.file_entry import FileEntry


def _changes(arguments: argparse.Namespace) -> Iterator[Answer | CommandRows]:
    if arguments.changes is not None:
        yield _put(arguments)
        return
    from mutator.frames.change_feed import changes_of

    yield rows_answer(changes_of(_places(arguments)), arguments, "row")


def _places(arguments: argparse.Namespace) -> list[tuple[str, Sequence[FileEntry]]]:
    """Return the directories that have changed rows, and the files in them."""
    from mutator.dataset.directory import is_base, is_table
    from mutator.pipeline.kept_changes import changes_at
    from mutator.workflow.directory.changed_rows import changes_between

    _, path = located_to_write(arguments.place)
    if is_table(path):
        cure = command("table", "changes", path, "--from", "VERSION")
        raise error("usage", what=f"{path} is a versioned table: read its changed rows with: {cure}")
    if is_base(path):
        return changes_between(arguments.place, arguments.start, arguments.end)
    if (arguments.start, arguments.end) != (None, None):
        raise error("usage", what="--from and --to are for a base, which has versions: leave them out")
    return [changes_at(arguments.place)]


def _put(arguments: argparse.Namespace) -> CommandReport:
    from mutator.dataset.directory import is_base, read_manifest
    from mutator.pipeline.kept_changes import check_free, put_changes

    if (arguments.start, arguments.end, arguments.output) != (None, None, None):
        raise error("usage", what="--changes takes all files as they are: leave out --from, --to and --output")
    _, path = located_to_write(arguments.place)
    if is_base(path):
        raise error(
            "usage", what=f"--changes is for an output of mutator run: the files of a base are in {path}/changes"
        )
    known = read_manifest(storage_for(path), path)
    if known is None or not known.changes:
        raise error("changes.none", path=arguments.place)
    _, directory = located_to_write(arguments.changes)
    check_free(directory, known)
    put_changes(path, known, directory)
    return CommandReport(f"the changed rows of {arguments.place} are in {arguments.changes}")


CHANGES = Command(
    "changes",
    "print the rows that a run or the versions of a base changed",
    (
        option("place", metavar="PLACE", help="output of mutator run, its directory of changed rows, or a base"),
        option("--from", dest="start", type=int, metavar="A", help="of a base: the versions after A"),
        option("--to", dest="end", type=int, metavar="B", help="of a base: up to version B (default the newest)"),
        option(
            "--changes",
            old="--files",
            metavar="DIR",
            help="put the files of an output into this directory, as mutator run --changes does",
        ),
        FORMAT,
        FILE,
    ),
    _changes,
    when_stopped="the rows are not complete",
    examples=("mutator changes new", "mutator changes /data/base --from 3 --json"),
)
