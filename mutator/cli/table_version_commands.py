"""The commands ``mutator table …`` that name versions of a table.

mutator table tag TABLE NAME [--version V]     give a version a name, which protects it
mutator table tags TABLE                       list the tags
mutator table restore TABLE --to V             bring an earlier version back
mutator table bookmark TABLE NAME              set the place of a reader
mutator table bookmarks TABLE                  list the bookmarks
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mutator.cli import options
from mutator.cli.after_commit import committing
from mutator.cli.command import Answer, Command, CommandReport, option, option_type
from mutator.cli.table_output_commands import TABLE, VERSION_TYPE, listing
from mutator.config import parsers
from mutator.errors import error
from mutator.rules.version_names import read_name


def _tag(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.table import Table
    from mutator.table.tags import TagReport

    if arguments.remove and (arguments.version is not None or arguments.move):
        raise error("usage", what="--remove is given beside --version or --move; give one of them")
    table = Table(arguments.table).refresh()
    before = table.version
    with committing(arguments, "tag" if not arguments.remove else "removal of the tag"):
        if arguments.remove:
            table.untag(arguments.name)
            tagged = None
        else:
            table.tag(arguments.name, arguments.version, move=arguments.move)
            tagged = table.tags()[arguments.name]
    report = TagReport(table.path, table.version, arguments.name, tagged, before)
    yield CommandReport(options.shown(report, arguments))


def _tags(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.table.table import Table
    from mutator.table.tags import TagList

    yield Answer(options.shown(TagList(Table(arguments.table).tags()), arguments))


def _restore(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.table import Table

    with committing(arguments, "restore"):
        report = Table(arguments.table).restore(arguments.to_version, dry_run=arguments.dry_run)
    yield CommandReport(options.shown(report, arguments))


def _bookmark(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.reader_place import report_of_bookmark
    from mutator.table.table import Table

    if arguments.remove and (arguments.version is not None or arguments.expires is not None):
        raise error("usage", what="--remove is given beside --version or --expires; give one of them")
    table, name = Table(arguments.table), arguments.name
    found = None
    if arguments.remove:
        table.remove_bookmark(name)
    else:
        found = table.bookmark(name, arguments.version, expires=arguments.expires)
    yield CommandReport(options.shown(report_of_bookmark(table.path, name, found), arguments))


def _bookmarks(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.table.reader_place import BookmarkList
    from mutator.table.table import Table

    yield Answer(options.shown(BookmarkList(Table(arguments.table).bookmarks()), arguments))


def _lifetime(text: str) -> str:
    """Return the text of a duration. Raises ValueError for other text, and for 0s."""
    if not parsers.duration(text):
        raise ValueError("must be longer than 0")
    return text


NAME = option(
    "name", type=option_type(read_name), metavar="NAME", help="letters, digits, '_', '.' and '-', not only digits"
)
TAG_TABLE = Command(
    "tag",
    "give a version of a table a name, which protects it from cleaning",
    (
        TABLE,
        NAME,
        option("--version", type=VERSION_TYPE, metavar="V", help="version or tag (default the newest)"),
        option("--move", action="store_true", help="take the name from another version, which loses its protection"),
        option("--remove", action="store_true", help="remove the tag"),
        options.JSON,
    ),
    _tag,
    when_stopped="the tags are as they were",
    examples=(
        "mutator table tag products january --version 31",
        "mutator table tag products january --remove",
    ),
)
TAGS = listing("tags", "list the tags of a table", _tags)
RESTORE_TABLE = Command(
    "restore",
    "bring an earlier version of a table back, as a new version with its rows",
    (
        TABLE,
        option("--to", dest="to_version", required=True, type=VERSION_TYPE, metavar="V", help="version or tag"),
        options.DRY_RUN,
        options.JSON,
    ),
    _restore,
    when_stopped="no version was committed",
    examples=("mutator table restore products --to 31 --dry-run", "mutator table restore products --to january"),
)
BOOKMARK = Command(
    "bookmark",
    "record how far a reader has read the changes of a table; later versions are kept for it until it expires",
    (
        TABLE,
        NAME,
        option(
            "--version",
            type=VERSION_TYPE,
            metavar="V",
            help="version or tag up to which the reader has read (default the newest)",
        ),
        option(
            "--expires",
            type=option_type(_lifetime),
            metavar="DURATION",
            help="time from its last move until it expires (default as before; of a new bookmark 7d)",
        ),
        option("--remove", action="store_true", help="remove the bookmark"),
        options.JSON,
    ),
    _bookmark,
    when_stopped="perhaps the bookmark was set; set it again",
    examples=(
        "mutator table bookmark products reports --version 0 --expires 30d",
        "mutator table bookmark products reports --remove",
    ),
)
BOOKMARKS = listing("bookmarks", "list the bookmarks of a table", _bookmarks)
COMMANDS = (RESTORE_TABLE, TAG_TABLE, TAGS, BOOKMARK, BOOKMARKS)
