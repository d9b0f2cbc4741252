"""The commands ``mutator table …`` that name versions of a table.

mutator table tag TABLE NAME [--version V]     give a version a name, which protects it
mutator table tags TABLE                       list the tags
mutator table restore TABLE --to V             bring an earlier version back
mutator table bookmark TABLE NAME              set the place of a reader
mutator table bookmarks TABLE                  list the bookmarks
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.after_commit import committing
from mutator.cli.command import Answer, Command, CommandReport, option, option_type
from mutator.cli.table_output_commands import TABLE, VERSION_TYPE, listing
from mutator.config import parsers
from mutator.errors import error
from mutator.errors.display import text_of
from mutator.pipeline.reports.sections import aligned
from mutator.rules.version_names import read_name

if TYPE_CHECKING:
    from mutator.dataset.versions.bookmarks import Bookmark


def _tag(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.table import Table

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
    if arguments.json:
        members = {"table": table.path, "version": table.version, "name": arguments.name, "tagged": tagged}
        yield CommandReport(json.dumps(members, indent=1))
        return
    what = f"removed tag {arguments.name}" if tagged is None else f"tag {arguments.name} is version {tagged:,}"
    now = f"is now version {table.version:,}" if table.version > before else f"is still version {before:,}"
    yield CommandReport(f"table {table.path} {now}: {what}")


def _tags(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.table.table import Table

    found = Table(arguments.table).tags()
    if arguments.json:
        members = [{"name": name, "version": version} for name, version in found.items()]
        yield Answer(json.dumps(members, indent=1))
        return
    rows = [("tag", "version"), *((name, f"{version:,}") for name, version in found.items())]
    yield Answer(text_of(aligned(rows, right={1})) if found else "no tags")


def _restore(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.table import Table

    with committing(arguments, "restore"):
        report = Table(arguments.table).restore(arguments.to_version, dry_run=arguments.dry_run)
    yield CommandReport(options.shown(report, arguments))


def _bookmark(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.table import Table

    if arguments.remove and (arguments.version is not None or arguments.expires is not None):
        raise error("usage", what="--remove is given beside --version or --expires; give one of them")
    table, name = Table(arguments.table), arguments.name
    found = None
    if arguments.remove:
        table.remove_bookmark(name)
    else:
        found = table.bookmark(name, arguments.version, expires=arguments.expires)
    if arguments.json:
        members = {"table": table.path, "name": name, **_EMPTY, **({} if found is None else _members(found))}
        yield CommandReport(json.dumps(members, indent=1))
        return
    what = "is removed" if found is None else f"is at version {found.version:,}, and expires {found.expires}"
    yield CommandReport(f"table {table.path}: bookmark {name} {what}")


def _bookmarks(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.table.table import Table

    found = Table(arguments.table).bookmarks()
    if arguments.json:
        yield Answer(json.dumps([_members(one) for one in found], indent=1))
        return
    now = datetime.now(UTC)
    rows = [("bookmark", "version", "moved", "expires")]
    for one in found:
        expires = f"{one.expires}, so it has expired" if one.is_expired(now) else one.expires
        rows.append((one.name, f"{one.version:,}", one.moved, expires))
    yield Answer(text_of(aligned(rows, right={1})) if found else "no bookmarks")


def _lifetime(text: str) -> str:
    """Return the text of a duration. Raises ValueError for other text, and for 0s."""
    if not parsers.duration(text):
        raise ValueError("must be longer than 0")
    return text


_EMPTY = {"version": None, "moved": None, "expires": None}


def _members(one: Bookmark) -> dict[str, object]:
    """Return a bookmark as the members of a JSON object."""
    return {"name": one.name, "version": one.version, "moved": one.moved, "expires": one.expires}


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
